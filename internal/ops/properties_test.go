package ops

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestProperties compares each property of a definition, except those about cost, with the reference on the operator's
// samples. An operator that has a property needs a sample that shows it.
func TestProperties(t *testing.T) {
	for _, op := range ir.Ops() {
		def := op.(*Def)
		if def.Samples == nil {
			continue
		}
		t.Run(def.Op, func(t *testing.T) {
			for _, p := range checkedProperties {
				if !p.has(def) {
					continue
				}
				r := rand.New(rand.NewSource(1))
				checked := 0
				for i, s := range def.Samples(r) {
					for range max(p.times, 1) {
						shown, err := p.check(r, def, s)
						if err != nil {
							t.Errorf("%s, sample %d (%s): %v", p.name, i, s, err)
							return
						}
						if shown {
							checked++
						}
					}
				}
				if checked == 0 {
					t.Errorf("no sample shows that it has the property %s", p.name)
				}
			}
		})
	}
}

// checkedProperties are the properties that samples show. check reports whether the sample can show the property.
var checkedProperties = []struct {
	name  string
	times int // how often a sample is checked, with other random numbers each time
	has   func(d *Def) bool
	check func(r *rand.Rand, d *Def, s Sample) (bool, error)
}{
	{"Commutative", 1, func(d *Def) bool { return d.Commutative }, checkCommutative},
	{"Neutral", 1, func(d *Def) bool { return d.Neutral != nil }, checkNeutral},
	{"Alias", 1, func(d *Def) bool { return d.Alias }, checkAlias},
	{"Rearranges", 1, func(d *Def) bool { return d.Rearranges }, checkRearranges},
	{"Picks", 1, func(d *Def) bool { return d.Picks }, checkPicks},
	{"Scatter", 1, func(d *Def) bool { return d.Scatter }, checkScatter},
	{"NotNegative", 1, func(d *Def) bool { return d.NotNegative != nil }, checkNotNegative},
	{"KeepsVectors", 1, func(d *Def) bool { return d.KeepsVectors != nil }, checkKeepsVectors},
	{"Defer", 1, func(d *Def) bool { return d.Defer != nil }, checkDefer},
	{"Merge", 1, func(d *Def) bool { return d.Merge.By != "" }, checkMerge},
	{"Narrow", 4, func(d *Def) bool { return d.Narrow != nil }, checkNarrow},
	{"Cut", 4, func(d *Def) bool { return d.Cut != nil }, checkNarrow},
	{"Last", 1, func(d *Def) bool { return d.Last != nil }, checkLast},
}

// applied returns an operator's node and its first result on constants.
func applied(op string, s Sample) (*sampled, *ir.Node, *tensor.Tensor, error) {
	x := newSampled(s, false)
	def, _ := ir.Lookup(op)
	n, err := x.node(def.(*Def), s)
	if err != nil {
		return x, n, nil, err
	}
	x.module.Main.Body.Results = n.Outputs
	out, err := ir.NewEvaluation(maps.Clone(x.dims)).Run(x.module.Main.Body, x.args)
	if err != nil {
		return x, n, nil, err
	}
	return x, n, out[0], nil
}

// sameBits returns an error unless two tensors have the same type and shape and are equal to the bit.
func sameBits(got, want *tensor.Tensor) error {
	if !slices.Equal(got.Shape(), want.Shape()) || got.DType() != want.DType() {
		return fmt.Errorf("%s%v, not %s%v", got.DType(), got.Shape(), want.DType(), want.Shape())
	}
	if want.DType() != dtype.String && !bytes.Equal(got.Bytes(), want.Bytes()) {
		return fmt.Errorf("%v, not %v", got, want)
	}
	return nil
}

// checkCommutative exchanges the operands; the result must be equal to the bit.
func checkCommutative(_ *rand.Rand, d *Def, s Sample) (bool, error) {
	_, _, want, err := applied(d.Op, s)
	if err != nil {
		return false, err
	}
	_, _, got, err := applied(d.Op, Sample{Attrs: s.Attrs, Inputs: []*tensor.Tensor{s.Inputs[1], s.Inputs[0]}})
	if err != nil {
		return false, err
	}
	return true, sameBits(got, want)
}

// checkNeutral applies the operator to each sample and its neutral element, which must change nothing.
func checkNeutral(_ *rand.Rand, d *Def, s Sample) (bool, error) {
	x := s.Inputs[0]
	if !x.DType().IsFloat() {
		return false, nil
	}
	number := tensor.Must(tensor.New(x.DType()))
	number.SetFloat(0, *d.Neutral)
	_, _, got, err := applied(d.Op, Sample{Attrs: s.Attrs, Inputs: []*tensor.Tensor{x, number}})
	if err != nil {
		return false, err
	}
	return true, tensor.Compare(got, x, 0, 0)
}

// checkAlias compares the bytes of the result with those of the input.
func checkAlias(_ *rand.Rand, d *Def, s Sample) (bool, error) {
	_, _, got, err := applied(d.Op, s)
	if err != nil || s.Inputs[0].DType() == dtype.String {
		return false, err
	}
	if !bytes.Equal(got.Bytes(), s.Inputs[0].Bytes()) {
		return false, fmt.Errorf("%v of %v", got, s.Inputs[0])
	}
	return true, nil
}

// countedElements counts how often each element occurs, by its bits.
func countedElements(x *tensor.Tensor) map[uint64]int {
	count := map[uint64]int{}
	for i := range x.Len() {
		count[bitsOf(x, i)]++
	}
	return count
}

// checkRearranges counts elements: the result must have the only input's, each as often.
func checkRearranges(_ *rand.Rand, d *Def, s Sample) (bool, error) {
	_, _, got, err := applied(d.Op, s)
	if err != nil || s.Inputs[0].DType() == dtype.String {
		return false, err
	}
	if len(s.Inputs) != 1 || !maps.Equal(countedElements(got), countedElements(s.Inputs[0])) {
		return false, fmt.Errorf("%v of %v", got, s.Inputs[0])
	}
	return true, nil
}

// checkPicks looks up each element of the result, except NaN and zeros, among the first input's elements.
func checkPicks(_ *rand.Rand, d *Def, s Sample) (bool, error) {
	_, _, got, err := applied(d.Op, s)
	if dt := s.Inputs[0].DType(); err != nil || dt == dtype.String || dt.IsComplex() || s.Inputs[0].Len() == 0 {
		return false, err
	}
	of := countedElements(s.Inputs[0])
	for i := range got.Len() {
		nan := got.DType().IsFloat() && math.IsNaN(got.Float(i))
		if zero := got.DType().IsFloat() && got.Float(i) == 0; !nan && !zero && of[bitsOf(got, i)] == 0 {
			return false, fmt.Errorf("element %d of %v is none of %v", i, got, s.Inputs[0])
		}
	}
	return got.Len() > 0, nil
}

// checkScatter checks that at most as many elements change as there are updates.
func checkScatter(_ *rand.Rand, d *Def, s Sample) (bool, error) {
	_, _, got, err := applied(d.Op, s)
	if err != nil || s.Inputs[0].DType() == dtype.String {
		return false, err
	}
	changed := int64(0)
	for i := range got.Len() {
		if bitsOf(got, i) != bitsOf(s.Inputs[0], i) {
			changed++
		}
	}
	if changed > s.Inputs[2].Len() {
		return false, fmt.Errorf("%d elements change by %d updates", changed, s.Inputs[2].Len())
	}
	return changed > 0, nil
}

// filled returns a tensor with the shape and type of x, and f of its elements.
func filled(x *tensor.Tensor, f func(v float64) float64) *tensor.Tensor {
	y := tensor.Must(tensor.New(x.DType(), x.Shape()...))
	for i := range x.Len() {
		y.SetFloat(i, f(x.Float(i)))
	}
	return y
}

// checkNotNegative checks that the results are not negative for which the rule says so: those of the sample, and those
// of the sample with the absolute values of its inputs.
func checkNotNegative(_ *rand.Rand, d *Def, s Sample) (shown bool, err error) {
	unsigned := Sample{Attrs: s.Attrs, Constant: []int{1}}
	for _, x := range s.Inputs {
		if x != nil && x.DType().IsFloat() {
			x = filled(x, math.Abs)
		}
		unsigned.Inputs = append(unsigned.Inputs, x)
	}
	for i, s := range []Sample{{Attrs: s.Attrs, Inputs: s.Inputs, Constant: []int{1}}, unsigned} {
		_, n, got, err := applied(d.Op, s)
		if err != nil {
			return false, err
		}
		if !got.DType().IsFloat() || !d.NotNegative(n, func(*ir.Value) bool { return i == 1 }) {
			continue
		}
		shown = true
		for j := range got.Len() {
			if got.Float(j) < 0 {
				return false, fmt.Errorf("%v of %v", got.Float(j), s.Inputs)
			}
		}
	}
	return shown, nil
}

// checkKeepsVectors checks that every vector of the result is a vector of the input. A scatter into ones must write
// entire vectors of twos.
func checkKeepsVectors(_ *rand.Rand, d *Def, s Sample) (bool, error) {
	x := s.Inputs[0]
	if d.Scatter {
		if !x.DType().IsFloat() || s.Attrs.String("reduction", "none") != "none" {
			return false, nil
		}
		ones, twos := filled(x, func(float64) float64 { return 1 }), filled(s.Inputs[2], func(float64) float64 { return 2 })
		s = Sample{Attrs: s.Attrs, Inputs: []*tensor.Tensor{ones, s.Inputs[1], twos}, Constant: []int{1}}
	}
	of, n, got, err := applied(d.Op, s)
	if err != nil || x.Rank() == 0 || got.Rank() == 0 || !loopScalar(x.DType()) || got.Len() == 0 ||
		!d.KeepsVectors(of.module.Dims, n) {
		return false, err
	}
	size := int(got.Shape()[got.Rank()-1]) * got.DType().Bits() / 8
	if d.Scatter {
		for vector := range slices.Chunk(got.Bytes(), size) {
			if each := got.DType().Bits() / 8; !bytes.Equal(vector[each:], vector[:len(vector)-each]) {
				return false, fmt.Errorf("%v", got)
			}
		}
		return true, nil
	}
	vectors := map[string]bool{}
	for vector := range slices.Chunk(x.Bytes(), size) {
		vectors[string(vector)] = true
	}
	for vector := range slices.Chunk(got.Bytes(), size) {
		if !vectors[string(vector)] {
			return false, fmt.Errorf("%v of %v", got, x)
		}
	}
	return true, nil
}

// loopScalar reports whether each element of a type has bytes of its own.
func loopScalar(dt dtype.DType) bool { return dt != dtype.String && dt.Bits() >= 8 }

// checkDefer compares the deferred tensor with the result, to the bit.
func checkDefer(_ *rand.Rand, d *Def, s Sample) (bool, error) {
	_, n, want, err := applied(d.Op, s)
	if err != nil {
		return false, err
	}
	got := d.Defer(n, s.Inputs)
	if got == nil {
		return false, nil
	}
	return true, sameBits(got, want)
}

// sliceOf returns a slice of a tensor.
func sliceOf(x *tensor.Tensor, begin, extent, step []int64) *tensor.Tensor {
	out := tensor.Must(tensor.New(x.DType(), extent...))
	cut(out, x, begin, step)
	return out
}

// halves returns the halves of a tensor along an axis; the second may be longer.
func halves(x *tensor.Tensor, axis int) (list []*tensor.Tensor) {
	at := x.Shape()[axis] / 2
	for _, half := range [][2]int64{{0, at}, {at, x.Shape()[axis]}} {
		begin, extent := make([]int64, x.Rank()), slices.Clone(x.Shape())
		begin[axis], extent[axis] = half[0], half[1]-half[0]
		list = append(list, sliceOf(x, begin, extent, slices.Repeat([]int64{1}, x.Rank())))
	}
	return list
}

// checkMerge computes the operator on two halves of an axis, combines the results, and compares with the result on the
// full axis.
func checkMerge(_ *rand.Rand, d *Def, s Sample) (bool, error) {
	x := s.Inputs[0]
	_, n, want, err := applied(d.Op, s)
	if err != nil || x.DType() != dtype.F32 && x.DType() != dtype.F64 || n.Attrs["outer"] != nil {
		return false, err
	}
	pieces := [2]Sample{{Attrs: s.Attrs}, {Attrs: s.Attrs}}
	count := 1.0
	split := func(x *tensor.Tensor, axis int) bool {
		if x.Shape()[axis] < 2 {
			return false
		}
		for i, half := range halves(x, axis) {
			pieces[i].Inputs = append(pieces[i].Inputs, half)
		}
		return true
	}
	ways := d.Merge.Axes(n)
	if len(ways) == 0 {
		return false, nil
	}
	for i, axis := range ways[0] {
		if !split(s.Inputs[i], axis) {
			return false, nil
		}
	}
	for _, way := range ways {
		count *= float64(x.Shape()[way[0]])
	}
	var halves []*tensor.Tensor
	for _, piece := range pieces {
		_, _, y, err := applied(cmp.Or(d.Merge.Piece, d.Op), piece)
		if err != nil {
			return false, err
		}
		halves = append(halves, y)
	}
	start := filled(want, func(float64) float64 { return d.Merge.Start() })
	for _, half := range halves {
		if _, _, start, err = applied(d.Merge.By, Sample{Inputs: []*tensor.Tensor{start, half}}); err != nil {
			return false, err
		}
	}
	if d.Merge.Piece != "" {
		start = filled(start, func(v float64) float64 { return v / count })
	}
	return true, compareSample(start, want, 0)
}

// sectionOf returns a section of a tensor.
func sectionOf(x *tensor.Tensor, p Section) *tensor.Tensor {
	if x == nil || p.Full() {
		return x
	}
	begin, extent, step := make([]int64, x.Rank()), slices.Clone(x.Shape()), slices.Repeat([]int64{1}, x.Rank())
	for i, a := range p {
		if !a.Full() {
			begin[i], _ = a.Begin.Const()
			extent[i], _ = a.Extent.Const()
			step[i] = a.Step
		}
	}
	return sliceOf(x, begin, extent, step)
}

// randomSection returns a random section of a tensor of the shape; about half of the axes are full.
func randomSection(r *rand.Rand, shape []int64) Section {
	p := make(Section, len(shape))
	for i, size := range shape {
		if size < 2 || r.Intn(2) == 0 {
			continue
		}
		step := 1 + r.Int63n(2)
		begin := r.Int63n(size)
		p[i] = AxisSection{sym.Const(begin), sym.Const(1 + r.Int63n((size-1-begin)/step+1)), step}
	}
	return p
}

// checkNarrow checks that a node's result on sections of its inputs is the section of its result on the inputs.
func checkNarrow(r *rand.Rand, d *Def, s Sample) (bool, error) {
	x, n, full, err := applied(d.Op, s)
	if err != nil || len(n.Outputs) != 1 {
		return false, err
	}
	want := randomSection(r, full.Shape())
	if want.Full() {
		return false, nil
	}
	rule := d.Narrow
	if d.Cut != nil {
		rule = d.Cut
	}
	reading, ok := rule(NarrowContext{Dims: x.module.Dims, Shared: func(*ir.Value) bool {
		return false
	}}, n, slices.Clone(want))
	if !ok {
		return false, nil
	}
	for i, made := range reading.Made {
		if !made.Full() && !made.Equal(want[i]) {
			return false, fmt.Errorf("it makes %v, which is neither %v nor the full axis", made, want[i])
		}
	}
	section := Sample{Attrs: s.Attrs}
	if reading.Attrs != nil {
		section.Attrs = reading.Attrs
	}
	for i, in := range s.Inputs {
		section.Inputs = append(section.Inputs, sectionOf(in, reading.In[i]))
	}
	got := section.Inputs[0]
	if d.Cut == nil { // otherwise the section that is read is the result
		if _, _, got, err = applied(d.Op, section); err != nil {
			return false, fmt.Errorf("%v of the result: %w", want, err)
		}
	}
	return !reading.Made.Full(), compareSample(got, sectionOf(full, reading.Made), 0)
}

// checkLast checks that a node's result on inputs with their channels last has its channels last.
func checkLast(_ *rand.Rand, d *Def, s Sample) (bool, error) {
	x, n, want, err := applied(d.Op, s)
	if err != nil || Last(n) || len(n.Outputs) != 1 || s.Inputs[0].Rank() < 3 {
		return false, err
	}
	form := d.Last(x.module.Dims, n)
	if form == nil || !form.DropsChannels && want.Rank() < 3 {
		return false, nil
	}
	turned := Sample{Attrs: maps.Clone(s.Attrs), Constant: s.Constant}
	if turned.Attrs == nil {
		turned.Attrs = ir.Attrs{}
	}
	maps.Copy(turned.Attrs, form.Attrs)
	for i, in := range s.Inputs {
		switch {
		case in != nil && form.Images[i]:
			in = turnedSample(in, ChannelsLast(in.Rank()))
		case i == 1 && d.WantsLast:
			in = turnedSample(in, WeightsLast(n))
		}
		turned.Inputs = append(turned.Inputs, in)
	}
	_, _, got, err := applied(d.Op, turned)
	if err != nil {
		return false, err
	}
	if !form.DropsChannels {
		want = turnedSample(want, ChannelsLast(want.Rank()))
	}
	return true, compareSample(got, want, 0)
}

package ops

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

var rewrite = flag.Bool("rewrite", false, "write the list of derivatives into docs/gradients.md")

// gradientList is the file of the list of derivatives.
const gradientList = "../../docs/gradients.md"

// slowSamples is about the number of an operator's samples that are compared with differences.
const slowSamples = 16

// slowChecks returns the number of elements of a sample's input that are moved to either side: fewer for large samples.
func (d *differences) slowChecks(in *tensor.Tensor) int {
	total := int64(1)
	for _, x := range d.sample.Inputs {
		if x != nil {
			total += x.Len()
		}
	}
	return int(min(6, 1+500/total, in.Len()))
}

// verdict is the result of differentiating the samples of one operator.
type verdict struct {
	how            string
	seconds        int     // samples whose second derivatives were compared
	compared, kept int     // elements whose differences were compared; elements at a kink, which were not
	most, second   float64 // the largest error, of the first and of the second derivative
	zero           bool    // every derivative was 0
}

// TestGradients compares the derivative of every operator that has float results with central differences of its
// reference, at its samples: with random seeds, with extents as numbers and as named dimensions. Operators without a
// derivative must give a reason. At the unchanged samples, with infinities, NaN and empty tensors, differentiating does
// not fail.
func TestGradients(t *testing.T) {
	list, missed := map[string]verdict{}, 0
	for _, op := range ir.Ops() {
		def := op.(*Def)
		if def.Samples == nil || Marked(&ir.Node{Op: def, Inputs: make([]*ir.Value, 1)}) != nil {
			continue // tested by TestStop and TestCustom
		}
		missed++
		t.Run(def.Op, func(t *testing.T) {
			missed--
			v, floats, err := judge(t, def)
			switch why := def.NoGrad; {
			case err != nil && why == "":
				t.Errorf("the derivative is refused without a reason in NoGrad: %v", err)
			case err == nil && why != "" && v.compared > 0 && !v.zero:
				t.Errorf("there is a derivative, although NoGrad has a reason: %s", why)
			case err == nil && floats && v.compared == 0 && why == "":
				t.Errorf("no sample compares an element")
			}
			if floats {
				list[def.Op] = v
			}
		})
	}
	if t.Failed() || missed > 0 { // -run may select some only
		return
	}
	text := gradientTable(list)
	was, err := os.ReadFile(gradientList)
	if *rewrite {
		err = os.WriteFile(gradientList, []byte(text), 0o644)
	} else if sortOf(string(was)) != sortOf(text) {
		t.Errorf("%s is not what the samples say; go test ./internal/ops -run TestGradients -rewrite", gradientList)
	}
	if err != nil {
		t.Error(err)
	}
}

// sortOf returns a list without its errors, which may differ between machines.
func sortOf(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		out = append(out, strings.Join(cells[:min(3, len(cells))], "|"))
	}
	return strings.Join(out, "\n")
}

// gradientTable returns the document.
func gradientTable(list map[string]verdict) string {
	var b strings.Builder
	b.WriteString("# Derivatives\n\n" + `This list is generated: ` + "`go test ./internal/ops -run TestGradients -rewrite`" + `. It has every operator with float
results. The error is the largest difference between a derivative and central differences of the operator's reference,
over its samples and random seeds, relative to the derivative's size if that is above 1. Second derivatives are compared
with differences of first ones.

At an edge of a function, derivatives are as in PyTorch: equal elements share the derivative of the largest or smallest
one (` + "`max`, `reduce_max`, `scatter`" + ` with max), a pool gives it to the first of them, ` + "`abs` and `relu`" + ` have 0 at 0, and
` + "`max` or `min`" + ` with a constant have 0 at that constant, as at the limits of Clip. The derivative of a branch computes
the branch again; a loop or scan stacks its carried values, and its derivative computes each iteration again from them.
Regions that an operator reads are constants, as in torchvision; the determinant of a singular matrix has a derivative
too. Stop and Custom change derivatives: to 0, and to those of a given function.

| operator | how | error | second |
|---|---|---|---|
`)
	for _, name := range slices.Sorted(maps.Keys(list)) {
		v := list[name]
		number := func(x float64) string {
			if v.compared == 0 || math.IsInf(x, 0) {
				return ""
			}
			return fmt.Sprintf("%.0e", x)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, v.how, number(v.most), number(v.second))
	}
	return b.String()
}

// judge differentiates an operator's samples. floats reports whether a float result depends on a float in some sample;
// refused is the error of an operator that has no derivative.
func judge(t *testing.T, def *Def) (v verdict, floats bool, refused error) {
	v = verdict{how: "own rule", second: math.Inf(1), zero: true}
	if def.Grad == nil {
		v.how = "expansion"
	}
	r := rand.New(rand.NewSource(1))
	samples := def.Samples(r)
	for i, s := range samples {
		if !differentiable(def, s) {
			continue
		}
		floats = true
		if i%(len(samples)/(4*slowSamples)+1) != 0 {
			continue
		}
		err := hostile(def, s)
		if errors.Is(err, diag.ErrUnsupported) {
			refused = err
			continue
		}
		if err != nil {
			t.Errorf("sample %d (%s): %v", i, s, err)
			continue
		}
		if i%(len(samples)/slowSamples+1) != 0 && v.compared > 0 {
			continue
		}
		for _, shift := range []float64{0, 0.6, 1.7, -1} {
			x, err := newDifferences(def, s, r, shift)
			if err != nil {
				continue
			}
			if err := x.compare(&v, r); err != nil {
				t.Errorf("sample %d (%s), shift %v: %v", i, s, shift, err)
			} else if err := x.compareSecond(&v, r); err != nil {
				t.Errorf("sample %d (%s), shift %v, the second derivative: %v", i, s, shift, err)
			}
			if v.compared > 0 && shift == 0 {
				break
			}
		}
	}
	if why := def.NoGrad; why != "" {
		v.how = "none: " + why
	} else if v.zero && v.compared > 0 {
		v.how = "0 everywhere"
	}
	return v, floats, refused
}

// differentiable reports whether a sample computes floats from floats.
func differentiable(def *Def, s Sample) bool {
	x := newSampled(s, false)
	n, err := x.node(def, s)
	if err != nil || Last(n) && def.Op != "roi_align" && def.Op != "deform_columns" {
		return false // only passes put channels last, after derivatives are taken
	}
	return slices.ContainsFunc(x.params, isFloat) && slices.ContainsFunc(n.Outputs, isFloat)
}

func isFloat(v *ir.Value) bool { return v.Type.DType.IsFloat() && v.Type.DType.Size() >= 2 }

// hostile differentiates a sample with unchanged elements.
func hostile(def *Def, s Sample) error {
	for _, symbolic := range []bool{false, true} {
		x := newSampled(s, symbolic)
		n, err := x.node(def, s)
		if err != nil {
			continue
		}
		if _, err := x.derivatives(n, nil); err != nil {
			return err
		}
		if err := ir.Verify(x.module); err != nil {
			return err
		}
		if _, err := ir.NewEvaluation(maps.Clone(x.dims)).Run(x.module.Main.Body, x.args); err != nil {
			return err
		}
	}
	return nil
}

// derivatives sets the module's results to the derivatives by its float parameters of all float results of the node, by
// seeds.
func (x *sampled) derivatives(n *ir.Node, seeds []*tensor.Tensor) (out []*ir.Value, err error) {
	defer ir.Catch(&err)
	var ys, ups, xs []*ir.Value
	for i, y := range n.Outputs {
		if isFloat(y) {
			ys = append(ys, y)
			if seeds != nil {
				up := x.build.Param(fmt.Sprintf("up%d", i), y.Type)
				x.args = append(x.args, seeds[i])
				ups = append(ups, up)
			}
		}
	}
	for _, p := range x.params {
		if isFloat(p) {
			xs = append(xs, p)
		}
	}
	out = VJP(x.build, ys, ups, xs)
	x.module.Main.Body.Results = out
	return out, nil
}

// differences is a sample with finite elements, in f64 if the operator takes that.
type differences struct {
	def      *Def
	sample   Sample
	seeds    []*tensor.Tensor
	h, bound float64
}

// newDifferences moves a sample's elements by a shift; if it is below 0, they are brought near to 0.
func newDifferences(def *Def, s Sample, r *rand.Rand, shift float64) (d *differences, err error) {
	for _, dt := range []dtype.DType{dtype.F64, dtype.F32} {
		d = &differences{def: def, sample: Sample{Attrs: maps.Clone(s.Attrs), Regions: s.Regions, Constant: s.Constant},
			h: 1e-5, bound: 1e-5}
		if dt == dtype.F32 {
			d.h, d.bound = 1e-2, 1e-2
		}
		if s.Attrs.DType("to").IsFloat() {
			d.sample.Attrs["to"] = dt
		}
		for i, in := range s.Inputs {
			if x := ordinary(in, dt, r, shift); slices.Contains(def.Taken, i) {
				in = ordinary(in, dt, nil, 0)
			} else {
				in = x
			}
			d.sample.Inputs = append(d.sample.Inputs, in)
		}
		x := newSampled(d.sample, false)
		n, wrong := x.node(def, d.sample)
		if err = wrong; err != nil {
			continue
		}
		e := ir.NewEvaluation(map[sym.Name]int64{})
		x.module.Main.Body.Results = n.Outputs
		outs, wrong := e.Run(x.module.Main.Body, x.args)
		if err = wrong; err != nil {
			continue
		}
		for _, y := range outs {
			up := tensor.Must(tensor.New(y.DType(), y.Shape()...))
			for i := range up.Len() {
				if y.DType().IsFloat() {
					up.SetFloat(i, 0.5+r.Float64())
				}
			}
			d.seeds = append(d.seeds, up)
		}
		return d, nil
	}
	return nil, err
}

// ordinary returns a tensor of floats of a type in which random numbers replace elements that are not finite, large or
// near 0, if r is not nil.
func ordinary(in *tensor.Tensor, dt dtype.DType, r *rand.Rand, shift float64) *tensor.Tensor {
	if in == nil || !in.DType().IsFloat() {
		return in
	}
	out := tensor.Must(tensor.New(dt, in.Shape()...))
	for i := range in.Len() {
		v := in.Float(i)
		if r != nil && (math.IsNaN(v) || math.Abs(v) > 50 || math.Abs(v) < 1e-3) {
			v = r.NormFloat64()
		}
		if shift > 0 {
			v = math.Abs(v) + shift
		} else if shift < 0 {
			v = 0.8 * math.Tanh(v)
		}
		out.SetFloat(i, v)
	}
	return out
}

// total returns Σ seed·result at inputs, by the operator's reference.
func (d *differences) total(inputs []*tensor.Tensor) (float64, error) {
	s := d.sample
	s.Inputs = inputs
	x := newSampled(s, false)
	n, err := x.node(d.def, s)
	if err != nil {
		return 0, err
	}
	x.module.Main.Body.Results = n.Outputs
	outs, err := ir.NewEvaluation(map[sym.Name]int64{}).Run(x.module.Main.Body, x.args)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for k, y := range outs {
		if !y.DType().IsFloat() {
			continue
		}
		if y.Len() != d.seeds[k].Len() {
			return math.NaN(), nil
		}
		for i := range y.Len() {
			sum += y.Float(i) * d.seeds[k].Float(i)
		}
	}
	return sum, nil
}

// compare compares the derivatives with differences, and the second derivatives with differences of the first.
func (d *differences) compare(v *verdict, r *rand.Rand) error {
	first, err := d.at(d.sample.Inputs, false)
	if err != nil {
		return err
	}
	named, err := d.at(d.sample.Inputs, true)
	if err == nil {
		for i := range first {
			if err := tensor.Compare(named[i], first[i], 1e-4, 1e-4); err != nil {
				return fmt.Errorf("with named dimensions: %w", err)
			}
		}
	} else if !errors.Is(err, diag.ErrUnsupported) {
		return fmt.Errorf("with named dimensions: %w", err)
	}
	next := 0
	for k, in := range d.sample.Inputs {
		if in == nil || slices.Contains(d.sample.Constant, k) || !in.DType().IsFloat() {
			continue
		}
		got := first[next]
		next++
		if slices.Contains(d.def.Taken, k) {
			continue
		}
		for _, i := range r.Perm(int(in.Len()))[:d.slowChecks(in)] {
			want, smooth, err := d.slopeOf(d.total, k, int64(i))
			if err != nil {
				return err
			}
			if !smooth {
				v.kept++
				continue
			}
			miss := math.Abs(got.Float(int64(i))-want) / max(1, math.Abs(want))
			if !(miss <= d.bound) {
				return fmt.Errorf("by element %d of input %d it is %v, not %v", i, k, got.Float(int64(i)), want)
			}
			v.compared++
			v.most, v.zero = max(v.most, miss), v.zero && want == 0 && got.Float(int64(i)) == 0
		}
	}
	return nil
}

// weighed returns the weighted sum of all elements of the derivatives at inputs.
func (d *differences) weighed(inputs []*tensor.Tensor) (float64, error) {
	first, err := d.at(inputs, false)
	sum := 0.0
	for _, x := range first {
		for i := range x.Len() {
			sum += weight(i) * x.Float(i)
		}
	}
	return sum, err
}

// weight returns the weight of element i of a derivative.
func weight(i int64) float64 { return 0.5 + float64(i*5%7)/8 }

// compareSecond compares second derivatives with differences of first ones, if these are in f64.
func (d *differences) compareSecond(v *verdict, r *rand.Rand) error {
	if v.seconds++; v.seconds > slowSamples/4 || d.h > 1e-3 || v.zero {
		return nil
	}
	x := newSampled(d.sample, false)
	n, err := x.node(d.def, d.sample)
	if err != nil {
		return err
	}
	first, err := x.derivatives(n, d.seeds)
	if err != nil {
		return err
	}
	if err := x.again(first); errors.Is(err, diag.ErrUnsupported) {
		return nil
	} else if err != nil {
		return err
	}
	second, err := ir.NewEvaluation(map[sym.Name]int64{}).Run(x.module.Main.Body, x.args)
	if err != nil {
		return err
	}
	next := 0
	for k, in := range d.sample.Inputs {
		if in == nil || slices.Contains(d.sample.Constant, k) || !in.DType().IsFloat() {
			continue
		}
		got := second[next]
		next++
		if slices.Contains(d.def.Taken, k) {
			continue
		}
		for _, i := range r.Perm(int(in.Len()))[:(d.slowChecks(in)+1)/2] {
			want, smooth, err := d.slopeOf(d.weighed, k, int64(i))
			if err != nil {
				return err
			}
			miss := math.Abs(got.Float(int64(i))-want) / max(1, math.Abs(want))
			if smooth && !(miss <= 10*d.bound) {
				return fmt.Errorf("by element %d of input %d it is %v, not %v", i, k, got.Float(int64(i)), want)
			}
			if smooth && (math.IsInf(v.second, 0) || miss > v.second) {
				v.second = miss
			}
		}
	}
	return nil
}

// again sets the module's results to the derivatives of its weighted derivatives.
func (x *sampled) again(first []*ir.Value) (err error) {
	defer ir.Catch(&err)
	var seeds, xs []*ir.Value
	for i, d := range first {
		shape, err := ir.NewEvaluation(x.dims).Ints(d.Type.Shape)
		if err != nil {
			return err
		}
		seed := tensor.Must(tensor.New(d.Type.DType, shape...))
		for j := range seed.Len() {
			seed.SetFloat(j, weight(j))
		}
		seeds = append(seeds, x.build.Constant(fmt.Sprintf("weights%d", i), seed))
	}
	for _, p := range x.params {
		if isFloat(p) && !strings.HasPrefix(p.Name, "up") {
			xs = append(xs, p)
		}
	}
	x.module.Main.Body.Results = VJP(x.build, first, seeds, xs)
	return nil
}

// at returns the derivatives by all float inputs.
func (d *differences) at(inputs []*tensor.Tensor, symbolic bool) ([]*tensor.Tensor, error) {
	s := d.sample
	s.Inputs = inputs
	x := newSampled(s, symbolic)
	n, err := x.node(d.def, s)
	if err != nil {
		if symbolic {
			return nil, diag.Unsupportedf("%v", err)
		}
		return nil, err
	}
	if _, err = x.derivatives(n, d.seeds); err != nil {
		return nil, err
	}
	return ir.NewEvaluation(maps.Clone(x.dims)).Run(x.module.Main.Body, x.args)
}

// slopeOf returns the central difference of a function of the inputs by one element; smooth reports whether the
// differences to either side, and of half the width, agree.
func (d *differences) slopeOf(f func([]*tensor.Tensor) (float64, error), k int, i int64) (slope float64, smooth bool,
	err error) {
	inputs := slices.Clone(d.sample.Inputs)
	inputs[k] = inputs[k].Clone()
	at := inputs[k].Float(i)
	var y [5]float64
	for j, step := range []float64{-1, -0.5, 0, 0.5, 1} {
		inputs[k].SetFloat(i, at+step*d.h)
		if y[j], err = f(inputs); err != nil {
			return 0, false, nil // the operator does not take such an input
		}
	}
	inputs[k].SetFloat(i, at)
	slope = (y[4] - y[0]) / (2 * d.h)
	half, left, right := (y[3]-y[1])/d.h, (y[2]-y[0])/d.h, (y[4]-y[2])/d.h
	near := func(a, b, by float64) bool { return math.Abs(a-b) <= by*max(1, math.Abs(slope)) }
	rough := 100 * d.h
	if d.h > 1e-3 {
		rough = 5 * d.h
	}
	return slope, near(slope, half, d.bound/2) && near(left, right, rough), nil
}

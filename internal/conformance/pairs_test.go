package conformance

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weirml/weir/internal/conformance/conformancetest"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/weirtest"
)

// pair is a sample of one operator whose result is an operand of a sample of another.
type pair struct {
	first, second *sampled
	output, slot  int
	named         bool  // extents above 1 are dimensions, one for each number
	adapted       bool  // the result gets the operand's shape; otherwise it is used as it is
	read          bool  // the first's result is also a result of the module
	size          int64 // of every dimension; −1: as in the samples
}

// sampled is one sample of an operator.
type sampled struct {
	def    *ops.Def
	number int
	ops.Sample
}

// samplesOf returns all samples of every operator, by operator in the order of their names.
func samplesOf() (all [][]*sampled) {
	for _, op := range ir.Ops() {
		def := op.(*ops.Def)
		if def.Samples == nil {
			continue
		}
		var list []*sampled
		for i, s := range def.Samples(rand.New(rand.NewSource(1))) {
			list = append(list, &sampled{def, i, s})
		}
		all = append(all, list)
	}
	slices.SortFunc(all, func(a, b []*sampled) int { return strings.Compare(a[0].def.Op, b[0].def.Op) })
	return all
}

// takes reports whether an operand may be a computed number.
func (s *sampled) takes(slot int) bool {
	in := s.Inputs[slot]
	return in != nil && !slices.Contains(s.Constant, slot) && numeric(in.DType())
}

func numeric(dt dtype.DType) bool {
	return dt == dtype.Bool || dt.Bits() >= 8 && (dt.IsInt() ||
		slices.Contains([]dtype.DType{dtype.F16, dtype.BF16, dtype.F32, dtype.F64}, dt))
}

// String returns a line from which parsePair makes the pair again.
func (p *pair) String() string {
	return fmt.Sprintf("%s/%d[%d] > %s/%d[%d] named=%v adapted=%v read=%v size=%d", p.first.def.Op, p.first.number,
		p.output, p.second.def.Op, p.second.number, p.slot, p.named, p.adapted, p.read, p.size)
}

// inputs makes the parameters and constants of a sample, except input number but.
func (p *pair) inputs(b *ir.Builder, s *sampled, prefix string, but int) (in []*ir.Value) {
	for i, x := range s.Inputs {
		switch {
		case x == nil || i == but:
			in = append(in, nil)
		case slices.Contains(s.Constant, i):
			in = append(in, b.Constant(fmt.Sprintf("%sc%d", prefix, i), x))
		default:
			in = append(in, b.Param(fmt.Sprintf("%s%d", prefix, i), ir.Type{DType: x.DType(), Shape: p.shape(b, x.Shape())}))
		}
	}
	return in
}

// shape returns a shape, with named extents if the pair is named.
func (p *pair) shape(b *ir.Builder, sizes []int64) []sym.Expr {
	shape := ir.Constants(sizes)
	for axis, size := range sizes {
		if p.named && size > 1 {
			name := fmt.Sprintf("d%d", size)
			b.Dims().Set(sym.User(name), sym.Range{Min: 0, Max: 1 << 20})
			shape[axis] = sym.Dim(name)
		}
	}
	return shape
}

// node adds a sample's node.
func (s *sampled) node(b *ir.Builder, source string, in []*ir.Value) *ir.Node {
	var regions []*ir.Block
	if s.Regions != nil {
		regions = s.Regions(b)
	}
	b.Source = source
	return b.NodeWith(s.def.Op, maps.Clone(s.Attrs), regions, in...)
}

// build returns the module as parsed from its text.
func (p *pair) build() (*ir.Module, error) {
	m, err := p.built()
	if err != nil {
		return nil, err
	}
	return reparsed(m)
}

// reparsed returns a module as parsed from its text, so that shape rules check all that an importer ensures.
func reparsed(m *ir.Module) (*ir.Module, error) {
	data := map[string]*tensor.Tensor{}
	for _, v := range m.Main.Body.Consts {
		data[v.Name] = v.Const
	}
	read, err := ir.Parse(m.String(), ir.ParseOptions{Data: func(name string, _ dtype.DType, _ []int64,
		_ int64) (*tensor.Tensor, error) {
		return data[name], nil
	}})
	if err != nil {
		return nil, err
	}
	return read, ir.Complete(read)
}

func (p *pair) built() (m *ir.Module, err error) {
	defer ir.Catch(&err)
	body := &ir.Block{}
	m = &ir.Module{Name: "pair", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
	m.Funcs = []*ir.Func{m.Main}
	b := ir.NewBuilder(ir.NewInference(m), body)
	first := p.first.node(b, "first", p.inputs(b, p.first, "x", -1))
	v := first.Outputs[p.output]
	in := p.inputs(b, p.second, "y", p.slot)
	b.Source = "between"
	want := p.second.Inputs[p.slot]
	if !numeric(v.Type.DType) {
		b.Failf("a result of %s", v.Type.DType)
	}
	if v.Type.DType != want.DType() {
		v = ops.Cast(b, v, want.DType())
	}
	if p.adapted {
		shape := ir.Constants(want.Shape())
		for axis, e := range p.shape(b, want.Shape()) {
			if slices.ContainsFunc(body.Params, func(v *ir.Value) bool { return slices.ContainsFunc(v.Type.Shape, e.Equal) }) {
				shape[axis] = e
			}
		}
		v = p.adapt(b, first, v, shape)
	}
	in[p.slot] = v
	second := p.second.node(b, "second", in)
	body.Results = slices.Clone(second.Outputs)
	if p.read {
		body.Results = append(body.Results, first.Outputs[p.output])
	}
	return m, ir.Verify(m)
}

// adapt reshapes v: it takes as many of v's elements as the shape needs, again from the first if there are too few. If
// it is not proved that they suffice, that is a condition.
func (p *pair) adapt(b *ir.Builder, n *ir.Node, v *ir.Value, shape []sym.Expr) *ir.Value {
	if slices.EqualFunc(v.Type.Shape, shape, sym.Expr.Equal) {
		return v
	}
	have, want := sym.Product(v.Type.Shape...), sym.Product(shape...)
	size := func(e sym.Expr) int64 {
		n, err := e.Eval(func(name sym.Name) (int64, bool) {
			size, err := strconv.ParseInt(strings.TrimPrefix(name.Text(), "d"), 10, 64)
			return size, err == nil
		})
		if err != nil {
			return -1
		}
		return n
	}
	switch few, many := size(have), size(want); {
	case few < 0:
		b.Failf("data decide the size")
	case few == 0 && many > 0:
		b.Failf("there is nothing to make it of")
	case few != many:
		v = ops.Reshape(b, v, have)
		for ; few < many; few *= 2 {
			v, have = ops.Concat(b, 0, v, v), have.Mul(sym.Const(2))
		}
		if err := b.Require(n, sym.Cond{A: want, B: have}, "enough elements"); err != nil {
			b.Fail(err)
		}
		v = ops.Slice(b, v, []sym.Expr{sym.Const(0)}, []sym.Expr{want}, []int64{1})
	}
	return ops.Reshape(b, v, shape...)
}

// args returns the arguments: the samples' own tensors or, with a size, tensors of that size with the samples'
// elements.
func (p *pair) args() (args []*tensor.Tensor) {
	for k, s := range []*sampled{p.first, p.second} {
		for i, x := range s.Inputs {
			if x == nil || slices.Contains(s.Constant, i) || k == 1 && i == p.slot {
				continue
			}
			args = append(args, p.resized(x))
		}
	}
	return args
}

func (p *pair) resized(x *tensor.Tensor) *tensor.Tensor {
	if p.size < 0 || !numeric(x.DType()) {
		return x
	}
	shape := slices.Clone(x.Shape())
	for axis, size := range shape {
		if size > 1 {
			shape[axis] = p.size
		}
	}
	t := tensor.Must(tensor.New(x.DType(), shape...))
	width := int64(x.DType().Bits() / 8)
	for i := range t.Len() {
		if x.Len() > 0 {
			copy(t.Bytes()[i*width:(i+1)*width], x.Bytes()[i%x.Len()*width:])
		}
	}
	return t
}

// choice returns a number below from that depends on a string alone.
func choice(text string, from int) int { return int(conformancetest.Hash(text) % uint64(from)) }

// loosePairs are the second operators of pairs whose result is not compared element by element, with the reason and the
// way. The operands of the node and the interpreter's result decide which elements a way leaves out.
var loosePairs = map[string]struct {
	why  string
	view func(p *pair, i int, t *tensor.Tensor) *tensor.Tensor
	free func(node *ir.Node, operands []*tensor.Tensor, i int, want *tensor.Tensor) func(k int64) bool
}{
	"bitcast": {why: "bits as another type tell rounding, signs of zeros and the bits of NaN: they are read back",
		view: func(p *pair, i int, t *tensor.Tensor) *tensor.Tensor {
			from := p.second.Inputs[p.slot].DType()
			if i > 0 || from == dtype.Bool || t.DType() != p.second.Attrs.DType("to") {
				return t
			}
			return tensor.Must(tensor.Over(from, t.Shape(), t.Bytes()))
		}},
	"fourier": {why: "sums of a row that is not finite: the fast transform may have others of them NaN or infinite",
		free: rowsNotFinite},
	"lp_pool":   {why: "powers and their sums may overflow where their root does not", free: powersOverflow("p", 2)},
	"reduce_l2": {why: "squares and their sums may overflow where their root does not", free: powersOverflow("", 2)},
}

// powersOverflow leaves out the elements whose powers overflow the type of the computation. The exponent is the node's
// attribute name, or usual.
func powersOverflow(name string, usual int64) func(*ir.Node, []*tensor.Tensor, int, *tensor.Tensor) func(int64) bool {
	return func(node *ir.Node, _ []*tensor.Tensor, _ int, want *tensor.Tensor) func(int64) bool {
		power, most := float64(node.Attrs.Int(name, usual)), math.MaxFloat32
		if want.DType() == dtype.F64 {
			most = math.MaxFloat64
		}
		return func(k int64) bool { return math.Pow(math.Abs(want.Float(k)), power) > most }
	}
}

func finite(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }

// rowsNotFinite leaves out the elements of a Fourier transform that are not finite, in rows with an element that is not
// finite.
func rowsNotFinite(node *ir.Node, operands []*tensor.Tensor, i int, want *tensor.Tensor) func(k int64) bool {
	x, axis := operands[0], int(node.Attrs.Int("axis", 0))
	row := func(t *tensor.Tensor, k int64) string {
		at := make([]int64, t.Rank())
		tensor.Unravel(k, t.Shape(), at)
		at[axis], at[len(at)-1] = 0, 0
		return fmt.Sprint(at)
	}
	if i > 0 {
		return func(int64) bool { return false }
	}
	infinite := map[string]bool{}
	for k := range x.Len() {
		if !finite(x.Float(k)) {
			infinite[row(x, k)] = true
		}
	}
	return func(k int64) bool { return !finite(want.Float(k)) && infinite[row(want, k)] }
}

// trial returns the pair as a trial.
func (p *pair) trial() *trial {
	loose := loosePairs[p.second.def.Op]
	x := &trial{build: p.build, args: p.args(), free: loose.free}
	if loose.view != nil {
		x.view = func(i int, t *tensor.Tensor) *tensor.Tensor { return loose.view(p, i, t) }
	}
	return x
}

// pinnedPairs were once an internal error, or differed: they run in every configuration.
var pinnedPairs = []string{
	"atan/2[0] > rotate/3[0] named=true adapted=false read=true size=2",
	"attention/3[0] > matmul/16[0] named=true adapted=true read=false size=0",
	"gelu/2[0] > matmul/9[1] named=true adapted=false read=false size=0",
	"nonzero/27[0] > rotate/1[1] named=true adapted=false read=true size=-1",
	"convolution/129[0] > gelu_tanh/1[0] named=false adapted=true read=false size=-1",
	"mish/1[0] > convolution/9[0] named=false adapted=true read=false size=-1",
	"max_pool_indices/31[0] > max_roi_pool/1[0] named=true adapted=false read=false size=-1",
	"affine/3[0] > max_roi_pool/7[1] named=true adapted=false read=false size=-1",
	"reduce_log_sum_exp/12[0] > where/29[0] named=false adapted=true read=true size=-1",
	"lp_pool/51[0] > reduce_sum_square/30[0] named=false adapted=false read=false size=-1",
	"reduce_min/25[0] > expand/12[0] named=false adapted=false read=true size=-1",
	"draw_uniform/1[0] > reverse_sequence/3[0] named=true adapted=true read=false size=0",
	"text_concat/6[0] > scatter_elements/68[0] named=true adapted=false read=false size=7",
}

// parsePair parses a line of String.
func parsePair(all [][]*sampled, line string) (*pair, error) {
	line = strings.NewReplacer("/", " ", "[", " ", "] >", " >", "] ", " ").Replace(line)
	var first, second string
	var i, j int
	p := &pair{}
	if _, err := fmt.Sscanf(line, "%s %d %d > %s %d %d named=%t adapted=%t read=%t size=%d", &first, &i, &p.output,
		&second, &j, &p.slot, &p.named, &p.adapted, &p.read, &p.size); err != nil {
		return nil, fmt.Errorf("%q: %w", line, err)
	}
	for _, list := range all {
		if list[0].def.Op == first && i < len(list) {
			p.first = list[i]
		}
		if list[0].def.Op == second && j < len(list) {
			p.second = list[j]
		}
	}
	if p.first == nil || p.second == nil || p.slot >= len(p.second.Inputs) {
		return nil, fmt.Errorf("%q names no samples", line)
	}
	return p, nil
}

// TestLoosePairs plants a fault into results that are compared loosely: the comparison finds it.
func TestLoosePairs(t *testing.T) {
	all, found := samplesOf(), map[string]int{}
	for _, list := range all {
		if _, loose := loosePairs[list[0].def.Op]; !loose {
			continue
		}
		for _, second := range list {
			for _, first := range []string{"neg/0", "transpose/10"} {
				if found[second.def.Op] >= 20 {
					continue
				}
				to := fmt.Sprintf("%s/%d[0]", second.def.Op, second.number)
				line := first + "[0] > " + to + " named=false adapted=true read=false size=-1"
				p, err := parsePair(all, line)
				if err != nil {
					t.Fatal(err)
				}
				x := p.trial()
				if v, err := x.compare(t.Context(), configurations[0]); err != nil || v != equal {
					continue // no pair
				}
				x.plant = func(got []*tensor.Tensor) { found[second.def.Op] += planted(x, got[0]) }
				before := found[second.def.Op]
				_, err = x.compare(t.Context(), configurations[0])
				if differs := errors.Is(err, errDiffers); differs != (found[second.def.Op] > before) {
					t.Errorf("%s: with a wrong element that is compared: %v, the comparison says %v", line, !differs, err)
				}
			}
		}
	}
	t.Logf("faults found: %v", found)
	for op := range loosePairs {
		if found[op] == 0 {
			t.Errorf("no fault was planted behind %s", op)
		}
	}
}

// planted changes one element that is always compared by far more than rounding. It returns the number of changed
// elements, 0 or 1.
func planted(x *trial, got *tensor.Tensor) int {
	free := func(int64) bool { return false }
	if x.free != nil {
		nans := got.Clone()
		for k := range nans.Len() {
			nans.SetFloat(k, math.NaN())
		}
		free = x.free(x.node, x.operands, 0, nans)
	}
	if x.view != nil {
		got = x.view(0, got) // over the same bytes
	}
	for k := range got.Len() {
		switch {
		case free(k) || got.DType().IsFloat() && !finite(got.Float(k)):
		case got.DType().IsFloat():
			got.SetFloat(k, 2e6-got.Float(k))
			return 1
		default:
			got.SetInt(k, got.Int(k)^1<<(got.DType().Bits()-2))
			return 1
		}
	}
	return 0
}

// draws is the number of draws for each pair of operators.
const draws = 40

// mixed returns pair k of an order of all pairs of n operators and all draws. Its step shares no factor with their
// number, so that any section of the order has pairs of all operators and draws.
func mixed(k, n int) (first, second, round int) {
	pairs := n * n * draws
	step := pairs*3/5 | 1
	for a, b := pairs, step; ; step += 2 {
		for a, b = pairs, step; b != 0; a, b = b, a%b {
		}
		if a == 1 {
			break
		}
	}
	k = int(int64(k) * int64(step) % int64(pairs))
	return k / draws / n, k / draws % n, k % draws
}

// TestPairs makes the results of every operator's samples operands of every operator that takes them, and compares the
// compiled module with the reference. By default it tries each pair of operators once, with an operand, samples,
// extents and a configuration that are drawn from their names. WEIR_PAIRS=all draws forty times and tries each draw in
// every configuration, in an order that mixes operators and draws; WEIR_PAIRS=FIRST+COUNT tries COUNT pairs of that
// order from pair FIRST on, and "FIRST+COUNT NAME" tries them in one configuration. A pair's line tries that pair; any
// other value tries the pairs whose line contains it.
func TestPairs(t *testing.T) {
	all, which := samplesOf(), os.Getenv("WEIR_PAIRS")
	type task struct {
		*pair
		how configuration
	}
	tasks := make(chan task)
	var mutex sync.Mutex
	counts := map[string]int{}
	differences := map[string]int{}
	var wait sync.WaitGroup
	for range min(2, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for x := range tasks {
				v, err := x.trial().compare(t.Context(), x.how)
				mutex.Lock()
				counts[x.how.name]++
				counts[fmt.Sprintf("verdict %d", v)]++
				if err != nil {
					counts["differ"]++
					kind := x.first.def.Op + " > " + x.second.def.Op
					if differences[kind]++; differences[kind] <= 1 {
						if which != "" {
							t.Log(diag.Stack(err))
						}
						t.Errorf("%s %s: %v", x.pair, x.how.name, err)
					}
				}
				mutex.Unlock()
			}
		})
	}
	one := func(p *pair, how configuration) {
		if which != "" && which != "all" && !strings.Contains(p.String()+" "+how.name, which) {
			return
		}
		tasks <- task{p, how}
	}
	only, err := parsePair(all, which)
	switch {
	case err == nil:
		for _, how := range configurations {
			tasks <- task{only, how}
		}
	case which == "" || which == "all":
		for _, line := range pinnedPairs {
			p, err := parsePair(all, line)
			if err != nil {
				t.Error(err)
				continue
			}
			for _, how := range configurations {
				one(p, how)
			}
		}
	}
	first, count, alone, step := 0, len(all)*len(all), "", weirtest.Trials(1, 11)
	if which != "" {
		count, step = count*draws, 1
	}
	if n, _ := fmt.Sscanf(which, "%d+%d %s", &first, &count, &alone); n >= 2 {
		which = "all"
	}
	if only == nil {
		for k := first; k < first+count; k += step {
			a, b, round := mixed(k, len(all))
			if which == "" {
				a, b, round = k/len(all), k%len(all), 0
			}
			p, how := drawnPair(all[a], all[b], fmt.Sprint(round))
			if p == nil {
				continue
			}
			for _, other := range configurations {
				if alone == other.name || alone == "" && (which != "" || other == how) {
					one(p, other)
				}
			}
		}
	}
	close(tasks)
	wait.Wait()
	t.Logf("%d operators; %v", len(all), counts)
}

// belongTogether matches the operators whose operands are components of one value.
var belongTogether = regexp.MustCompile(`^(text|sequence|ngrams|find|trees|decode)`)

// drawnPair returns a sample of each of two operators, joined by a draw from salt, and a configuration; nil if the
// second does not take numbers.
func drawnPair(first, second []*sampled, salt string) (*pair, configuration) {
	sizes := []int64{-1, -1, -1, 0, 1, 2, 3, 7, 13}
	text := first[0].def.Op + ">" + second[0].def.Op + salt
	a, b := first[choice(text+"a", len(first))], second[choice(text+"b", len(second))]
	p := &pair{first: a, second: b, named: choice(text+"named", 3) > 0, adapted: choice(text+"adapted", 2) > 0,
		read: choice(text+"read", 5) == 0, size: -1}
	if p.named && !slices.ContainsFunc(slices.Concat(a.Inputs, b.Inputs), func(x *tensor.Tensor) bool {
		return x != nil && !numeric(x.DType())
	}) && a.Constant == nil && b.Constant == nil {
		p.size = sizes[choice(text+"size", len(sizes))]
	}
	var slots []int
	for i := range b.Inputs {
		if b.takes(i) {
			slots = append(slots, i)
		}
	}
	if slots == nil || belongTogether.MatchString(b.def.Op) {
		return nil, configuration{}
	}
	p.slot = slots[choice(text+"slot", len(slots))]
	if p.slot > 0 && choice(text+"main", 2) == 0 {
		p.slot = slots[0]
	}
	return p, configurations[choice(text+"how", len(configurations))]
}

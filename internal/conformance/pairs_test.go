package conformance

import (
	"fmt"
	"github.com/weirml/weir/internal/diag"
	"hash/fnv"
	"maps"
	"math/rand"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// pair is a sample of one operator whose result is an operand of a sample of another.
type pair struct {
	first, second *sampled
	output, slot  int
	named         bool  // extents above 1 are dimensions, one for each number
	adapted       bool  // the result is made the operand's shape, else it is taken as it is
	read          bool  // the result of the first is a result of the module too
	size          int64 // of every dimension; −1: as in the samples
}

// sampled is one sample of an operator.
type sampled struct {
	def    *ops.Def
	number int
	ops.Sample
}

// samplesOf are all samples of every operator, by operator in the order of their names.
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

// takes reports whether an operand may be computed from numbers.
func (s *sampled) takes(slot int) bool {
	in := s.Inputs[slot]
	return in != nil && !slices.Contains(s.Constant, slot) && numeric(in.DType())
}

func numeric(dt dtype.DType) bool {
	return dt == dtype.Bool || dt.Bits() >= 8 && (dt.IsInt() || slices.Contains([]dtype.DType{dtype.F16, dtype.BF16, dtype.F32, dtype.F64}, dt))
}

// String is a line by which a pair is found again.
func (p *pair) String() string {
	return fmt.Sprintf("%s/%d[%d] > %s/%d[%d] named=%v adapted=%v read=%v size=%d", p.first.def.Op, p.first.number, p.output, p.second.def.Op, p.second.number, p.slot, p.named, p.adapted, p.read, p.size)
}

// inputs makes the parameters and constants of a sample; but leaves one out.
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

// shape is a shape with named extents, if they are to be named.
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

// build is the module, as its text is read: then shape rules ask for all that an importer has seen to.
func (p *pair) build() (*ir.Module, error) {
	m, err := p.built()
	if err != nil {
		return nil, err
	}
	data := map[string]*tensor.Tensor{}
	for _, v := range m.Main.Body.Consts {
		data[v.Name] = v.Const
	}
	read, err := ir.Parse(m.String(), ir.ParseOptions{Data: func(name string, _ dtype.DType, _ []int64, _ int64) (*tensor.Tensor, error) { return data[name], nil }})
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

// adapt makes a shape of v: of its elements, as many as are needed, again from the first if there are too few. That they are enough is a condition, if it is not proved.
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

// args are the arguments: the samples' own tensors, or, with a size, tensors of that size with the samples' elements.
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

// choice draws from a line of text: the same for the same text.
func choice(text string, from int) int { return int(hashed(text) % uint64(from)) }

// hashed is a number that a text decides.
func hashed(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	x := h.Sum64()
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>32
}

// knownPairs are differences that are no fault, by a pattern of the pair's line and its configuration and one of what
// is said, with the reason for each.
var knownPairs = []struct{ line, says, why string }{
	{`> fourier/`, `NaN`, "of what is not finite a sum over all elements has NaN everywhere; the fast transform leaves zeros where factors are exactly 0"},
	{`> bitcast/`, `^differs`, "a result that rounding may change, the sign of a zero, or the bits of a NaN, read as other numbers"},
	{`> max_roi_pool/\d+\[1\]`, `^differs`, "a region whose corners are NaN or infinite lies nowhere"},
}

// pinnedPairs were once an internal error, or differed: they run in every configuration.
var pinnedPairs = []string{
	"atan/2[0] > rotate/3[0] named=true adapted=false read=true size=2",
	"attention/3[0] > matmul/16[0] named=true adapted=true read=false size=0",
	"gelu/2[0] > matmul/9[1] named=true adapted=false read=false size=0",
	"nonzero/27[0] > rotate/1[1] named=true adapted=false read=true size=-1",
	"mish/1[0] > convolution/9[0] named=false adapted=true read=false size=-1",
}

// parsePair reads what String writes.
func parsePair(all [][]*sampled, line string) (*pair, error) {
	line = strings.NewReplacer("/", " ", "[", " ", "] >", " >", "] ", " ").Replace(line)
	var first, second string
	var i, j int
	p := &pair{}
	if _, err := fmt.Sscanf(line, "%s %d %d > %s %d %d named=%t adapted=%t read=%t size=%d", &first, &i, &p.output, &second, &j, &p.slot, &p.named, &p.adapted, &p.read, &p.size); err != nil {
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

// known reports whether a difference is one of knownPairs.
func known(line string, err error) bool {
	for _, k := range knownPairs {
		if regexp.MustCompile(k.line).MatchString(line) && regexp.MustCompile(k.says).MatchString(err.Error()) {
			return true
		}
	}
	return false
}

// TestPairs feeds every operator's samples to every operator that takes them, and compares what is compiled with the
// reference. By itself it tries each pair of operators once, with an operand, samples, extents and a configuration that
// are drawn from their names. WEIR_PAIRS=all draws forty times, and tries each in every configuration; a pair's line,
// only that pair; any other value, those whose line has it in it.
func TestPairs(t *testing.T) {
	all, which := samplesOf(), os.Getenv("WEIR_PAIRS")
	type task struct {
		*pair
		how configuration
	}
	texts := regexp.MustCompile(`^(text|sequence|ngrams|find|trees|decode)`) // whose operands are parts that belong together
	tasks := make(chan task)
	var mutex sync.Mutex
	counts := map[string]int{}
	differences := map[string]int{}
	var wait sync.WaitGroup
	for range min(2, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for x := range tasks {
				tr := &trial{build: x.build, args: x.args()}
				v, err := tr.compare(t.Context(), x.how)
				mutex.Lock()
				counts[x.how.name]++
				counts[fmt.Sprintf("verdict %d", v)]++
				if err != nil && known(x.pair.String()+" "+x.how.name, err) {
					if counts["known"]++; which != "" {
						t.Logf("known: %s %s: %v", x.pair, x.how.name, err)
					}
				} else if err != nil {
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
	sizes := []int64{-1, -1, -1, 0, 1, 2, 3, 7, 13}
	drawn := func(first, second []*sampled, salt string) (*pair, configuration) {
		text := first[0].def.Op + ">" + second[0].def.Op + salt
		a, b := first[choice(text+"a", len(first))], second[choice(text+"b", len(second))]
		p := &pair{first: a, second: b, named: choice(text+"named", 3) > 0, adapted: choice(text+"adapted", 2) > 0, read: choice(text+"read", 5) == 0, size: -1}
		if p.named && !slices.ContainsFunc(slices.Concat(a.Inputs, b.Inputs), func(x *tensor.Tensor) bool { return x != nil && !numeric(x.DType()) }) && a.Constant == nil && b.Constant == nil {
			p.size = sizes[choice(text+"size", len(sizes))]
		}
		var slots []int
		for i := range b.Inputs {
			if b.takes(i) {
				slots = append(slots, i)
			}
		}
		if slots == nil || texts.MatchString(b.def.Op) {
			return nil, configuration{}
		}
		p.slot = slots[choice(text+"slot", len(slots))]
		if p.slot > 0 && choice(text+"main", 2) == 0 {
			p.slot = slots[0]
		}
		return p, configurations[choice(text+"how", len(configurations))]
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
	rounds := 1
	switch {
	case only != nil:
		rounds = 0
	case which != "":
		rounds = 40
	}
	for round := range rounds {
		for _, first := range all {
			for _, second := range all {
				p, how := drawn(first, second, fmt.Sprint(round))
				if p == nil {
					continue
				}
				for _, other := range configurations {
					if which == "" && other != how {
						continue
					}
					one(p, other)
				}
			}
		}
	}
	close(tasks)
	wait.Wait()
	t.Logf("%d operators; %v", len(all), counts)
}

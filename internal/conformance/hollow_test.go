package conformance

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
	"github.com/weirml/weir/internal/weirtest"
)

// hollow is a sample of an operator whose operands have no elements, and huge extents.
type hollow struct {
	*sampled
	sizes map[int64]int64 // of the sample's extents
	named bool            // extents above 1 are dimensions
}

// String names the case.
func (h *hollow) String() string {
	return fmt.Sprintf("%s/%d %v named=%v", h.def.Op, h.number, h.sizes, h.named)
}

// shape returns a shape of the sample with the other sizes.
func (h *hollow) shape(sizes []int64) []int64 {
	out := slices.Clone(sizes)
	for axis, size := range sizes {
		if other, ok := h.sizes[size]; ok {
			out[axis] = other
		}
	}
	return out
}

// mostCompared is the largest number of elements of a tensor in a hollow case.
const mostCompared = 1 << 12

// args returns the arguments; nil if one is too large.
func (h *hollow) args() (args []*tensor.Tensor) {
	empty := false
	for i, x := range h.Inputs {
		if x == nil || slices.Contains(h.Constant, i) {
			continue
		}
		shape := h.shape(x.Shape())
		n, err := tensor.Count(shape)
		if err != nil || n > mostCompared || !numeric(x.DType()) {
			return nil
		}
		empty = empty || n == 0
		t := tensor.Must(tensor.New(x.DType(), shape...))
		width := int64(x.DType().Bits() / 8)
		for i := range n {
			if x.Len() > 0 {
				copy(t.Bytes()[i*width:(i+1)*width], x.Bytes()[i%x.Len()*width:])
			}
		}
		args = append(args, t)
	}
	if !empty {
		return nil
	}
	return args
}

// build returns the module of one node, as parsed from its text; an error if a result would be large.
func (h *hollow) build() (*ir.Module, error) {
	m, err := h.built()
	if err != nil {
		return nil, err
	}
	return reparsed(m)
}

func (h *hollow) built() (m *ir.Module, err error) {
	defer ir.Catch(&err)
	body := &ir.Block{}
	m = &ir.Module{Name: "hollow", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
	m.Funcs = []*ir.Func{m.Main}
	b := ir.NewBuilder(ir.NewInference(m), body)
	values := map[sym.Name]int64{}
	var in []*ir.Value
	for i, x := range h.Inputs {
		switch {
		case x == nil:
			in = append(in, nil)
			continue
		case slices.Contains(h.Constant, i):
			in = append(in, b.Constant(fmt.Sprintf("c%d", i), x))
			continue
		}
		shape := ir.Constants(h.shape(x.Shape()))
		for axis, size := range x.Shape() {
			if h.named && size > 1 {
				name := fmt.Sprintf("d%d", size)
				b.Dims().Set(sym.User(name), sym.Range{Min: 0, Max: math.MaxInt32})
				shape[axis] = sym.Dim(name)
				values[sym.User(name)], _ = ir.Constants(h.shape([]int64{size}))[0].Const()
			}
		}
		in = append(in, b.Param(fmt.Sprintf("x%d", i), ir.Type{DType: x.DType(), Shape: shape}))
	}
	node := h.node(b, "node", in)
	body.Results = node.Outputs
	for _, v := range node.Outputs {
		count := int64(1)
		for _, e := range v.Type.Shape {
			n, err := e.Eval(func(name sym.Name) (int64, bool) { v, ok := values[name]; return v, ok })
			if err != nil || n > 0 && count > mostCompared {
				n = 1
			}
			count *= n
		}
		if count > mostCompared {
			return nil, diag.Unsupportedf("a large result")
		}
	}
	return m, ir.Verify(m)
}

// hollowCases returns the cases of a sample: each of its extents is 0 in turn, each other one or all others are huge.
func hollowCases(s *sampled) (cases []*hollow) {
	extents := map[int64]bool{}
	for i, x := range s.Inputs {
		if x == nil || slices.Contains(s.Constant, i) {
			continue
		}
		for _, size := range x.Shape() {
			if size > 1 {
				extents[size] = true
			}
		}
	}
	list := slices.Sorted(maps.Keys(extents))
	for _, zero := range list {
		all := map[int64]int64{zero: 0}
		for _, large := range list {
			if large == zero {
				continue
			}
			all[large] = math.MaxInt32
			cases = append(cases, &hollow{sampled: s, sizes: map[int64]int64{zero: 0, large: math.MaxInt32}})
		}
		if len(list) > 2 {
			cases = append(cases, &hollow{sampled: s, sizes: all})
		}
	}
	for _, c := range slices.Clone(cases) {
		named := *c
		named.named = true
		cases = append(cases, &named)
	}
	return cases
}

// hollowWays are the configurations of hollow cases.
var hollowWays = []string{"default", "bound", "portable"}

// TestHollow runs samples of every operator with operands that have no elements, and extents of 2^31 - 1: the results
// are the reference's, or both refuse, and nothing walks the extents. Numbers beyond 64 bits, and temporary memory that
// the machine does not have, may be refused: in a twentieth of the cases at most.
func TestHollow(t *testing.T) {
	counts := map[verdict]int{}
	refused := 0
	each := number(t, "WEIR_HOLLOW", weirtest.Trials(8, 3))
	for _, list := range samplesOf() {
		var cases []*hollow
		for _, s := range list {
			cases = append(cases, hollowCases(s)...)
		}
		for k := 0; k < len(cases); k += max(1, len(cases)/each) {
			h := cases[k]
			if h.args() == nil {
				continue
			}
			if _, err := h.build(); err != nil {
				counts[meaningless]++
				continue
			}
			for _, how := range configurations {
				if !slices.Contains(hollowWays, how.name) {
					continue
				}
				v, err := h.compare(t, how)
				switch {
				case err == nil:
					counts[v]++
				case errors.Is(err, diag.ErrInput) || errors.Is(err, diag.ErrMemory):
					refused++
					t.Logf("%s %s: %v", h, how.name, err)
				default:
					t.Errorf("%s %s: %v", h, how.name, err)
				}
			}
		}
	}
	t.Logf("%d are equal, %d are not supported, in %d both refuse, %d are no models, %d are not computed, %d are refused",
		counts[equal], counts[notSupported], counts[bothRefuse], counts[meaningless], counts[unread], refused)
	if refused*20 > counts[equal] {
		t.Errorf("%d cases are refused, beside %d", refused, counts[equal])
	}
}

// compare is that of the case's trial; an error if it takes longer than code that walks nothing.
func (h *hollow) compare(t *testing.T, how configuration) (v verdict, err error) {
	return bounded(t, h.String()+" "+how.name, func() (verdict, error) {
		return (&trial{build: h.build, args: h.args(), unread: true}).compare(t.Context(), how)
	})
}

// bounded returns what f returns, for the case that what names. The test ends if f takes longer than anything does that
// has no elements to compute.
func bounded[T any](t *testing.T, what string, f func() (T, error)) (v T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		v, err = f()
	}()
	select {
	case <-done:
		return v, err
	case <-time.After(20 * time.Second):
		t.Fatalf("%s does not end", what)
	}
	return v, err
}

// TestHollowReductions reduces tensors without elements, of which some extents are huge, along several axes: no loop
// turns around a loop that has nothing to do.
func TestHollowReductions(t *testing.T) {
	const huge = math.MaxInt32
	for _, c := range []struct {
		result string
		axes   string
		shape  []int64
	}{
		{"f32[m]", "0, 2", []int64{huge, 2, 0}}, {"f32[n]", "1, 2", []int64{3, huge, 0}},
		{"f32[k]", "0, 1", []int64{huge, 0, 5}}, {"f32[]", "0, 1, 2", []int64{huge, 2, 0}},
		{"f32[]", "0, 1, 2", []int64{0, huge, 3}}, {"f32[k]", "0, 1", []int64{0, huge, 2}},
		{"f32[n, m]", "2", []int64{1, 2, 0}},
	} {
		for _, f := range []string{"reduce_sum", "reduce_max", "reduce_prod", "reduce_l2"} {
			for _, fixed := range []bool{false, true} {
				text := hollowReduction(f, c.result, c.axes, c.shape, fixed)
				for _, target := range []weir.Target{"", weir.Portable, weir.Reference} {
					_, err := bounded(t, text, func() (any, error) { return nil, reduceHollow(t, text, target, c.shape) })
					if err != nil {
						t.Errorf("%s %v, fixed %v, target %q: %v", f, c.shape, fixed, target, err)
					}
				}
			}
		}
	}
}

// hollowReduction is the text of a model of one reduction, over three dimensions or over sizes.
func hollowReduction(f, result, axes string, shape []int64, fixed bool) string {
	dims, x := "", "f32[n, m, k]"
	for i, name := range []string{"n", "m", "k"} {
		if size := fmt.Sprint(shape[i]); fixed {
			x, result = strings.Replace(x, name, size, 1), strings.Replace(result, name, size, 1)
		} else {
			dims += "dim " + name + " in [0, 2147483647]\n"
		}
	}
	return "weir 1\nir @t {\n" + dims + "main @main(%x: " + x + ") {\n%y: " + result + " = " + f +
		"(%x) {axes = ints [" + axes + "]}\nreturn %y\n}\n}\n"
}

// reduceHollow compiles and runs a reduction of a tensor of that shape.
func reduceHollow(t *testing.T, text string, target weir.Target, shape []int64) error {
	x, err := values.ToWeir(tensor.Must(tensor.New(dtype.F32, shape...)))
	if err != nil {
		return err
	}
	defer x.Close()
	return runArithmetic(t, []byte(text), weir.Options{Threads: 1, Target: target}, weir.Inputs{"x": x}, nil)
}

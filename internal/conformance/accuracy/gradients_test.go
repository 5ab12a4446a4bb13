package accuracy

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/weirtest"
)

// compiledSamples is the number of samples of each operator whose derivatives are compiled.
const compiledSamples = 2

// TestGradientsCompiled compiles the derivative of every operator at some of its samples of f32, and compares the
// results with the reference.
func TestGradientsCompiled(t *testing.T) {
	for _, op := range ir.Ops() {
		def := op.(*ops.Def)
		if def.Samples == nil {
			continue
		}
		t.Run(def.Op, func(t *testing.T) {
			done := 0
			for i, s := range def.Samples(rand.New(rand.NewSource(1))) {
				if done == compiledSamples {
					break
				}
				if text, in := differentiated(def, s); text != "" {
					done++
					compareCompiled(t, fmt.Sprint("sample ", i), text, in)
				}
			}
		})
	}
}

// differentiated returns the text of an operator's derivatives at a sample, and its arguments; "" if it has no
// derivatives.
func differentiated(def *ops.Def, s ops.Sample) (text string, in map[string]*tensor.Tensor) {
	body := &ir.Block{}
	m := &ir.Module{Name: "gradient", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
	m.Funcs = []*ir.Func{m.Main}
	b := ir.NewBuilder(ir.NewInference(m), body)
	var xs, inputs []*ir.Value
	in = map[string]*tensor.Tensor{}
	for i, x := range s.Inputs {
		if x == nil {
			inputs = append(inputs, nil)
			continue
		}
		v := b.Param(fmt.Sprintf("x%d", i), ir.Type{DType: x.DType(), Shape: ir.Constants(x.Shape())})
		inputs, in[v.Name] = append(inputs, v), x
		if x.DType() == dtype.F32 || def.Op == "scan" && x.DType() == dtype.F64 {
			xs = append(xs, v)
		}
	}
	if len(s.Constant) > 0 || len(xs) == 0 {
		return "", nil
	}
	err := func() (err error) {
		defer ir.Catch(&err)
		var regions []*ir.Block
		if s.Regions != nil {
			regions = s.Regions(b)
		}
		n := b.NodeWith(def.Op, s.Attrs, regions, inputs...)
		var ys, ups []*ir.Value
		for i, y := range n.Outputs {
			if y.Type.DType.IsFloat() {
				up := b.Param(fmt.Sprintf("up%d", i), y.Type)
				shape := make([]int64, len(y.Type.Shape))
				for axis, e := range y.Type.Shape {
					size, fixed := e.Const()
					if !fixed {
						return errors.ErrUnsupported
					}
					shape[axis] = size
				}
				ys, ups, in[up.Name] = append(ys, y), append(ups, up), filledWith(y.Type.DType, shape)
			}
		}
		for _, d := range ops.VJP(b, ys, ups, xs) { // one value may stand for several derivatives, and may be a seed
			body.Results = append(body.Results, ops.Unary(b, ops.Neg, d))
		}
		return ir.Verify(m)
	}()
	if err != nil {
		return "", nil
	}
	return m.String(), in
}

// filledWith returns a tensor of different small numbers.
func filledWith(dt dtype.DType, shape []int64) *tensor.Tensor {
	t := tensor.Must(tensor.New(dt, shape...))
	for i := range t.Len() {
		t.SetFloat(i, 0.5+float64(i*7%11)/16)
	}
	return t
}

// compareCompiled compares the results of a module compiled and interpreted.
func compareCompiled(t *testing.T, what, text string, in map[string]*tensor.Tensor) {
	t.Helper()
	m, err := weir.LoadBytes([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v\n%s", what, err, text)
	}
	defer m.Close()
	var got [2][][]float64
	for k, target := range []weir.Target{weir.CPU, weir.Reference} {
		if got[k], err = outputsOn(t, m, target, in); err != nil {
			t.Fatalf("%s: %v\n%s", what, err, text)
		}
	}
	for i, want := range got[1] {
		for j := range want {
			x, y := got[0][i][j], want[j]
			if x != y && !(math.IsNaN(x) && math.IsNaN(y)) && !(math.Abs(x-y) <= 1e-3*max(1, math.Abs(y))) {
				t.Errorf("%s: element %d of result %d is %v, not %v\n%s", what, j, i, x, y, text)
				break
			}
		}
	}
}

// outputsOn returns a model's results on a target.
func outputsOn(t *testing.T, m *weir.Model, target weir.Target, in map[string]*tensor.Tensor) (list [][]float64,
	err error) {
	p, err := weir.Compile(t.Context(), m, weir.Options{Target: target})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	inputs := weir.Inputs{}
	for name, x := range in {
		given := weirtest.Must[*weir.Tensor](t)(weir.New(weir.DType(x.DType()), sizes(x)...))
		defer given.Close()
		copy(given.Bytes(), x.Bytes())
		inputs[name] = given
	}
	results, err := p.Run(t.Context(), inputs)
	if err != nil {
		return nil, err
	}
	defer results.Close()
	for i := range m.Outputs() {
		list = append(list, numbersOf(t, results.At(i)))
	}
	return list, nil
}

// sizes returns the shape of x as ints.
func sizes(x *tensor.Tensor) []int {
	out := make([]int, x.Rank())
	for i, size := range x.Shape() {
		out[i] = int(size)
	}
	return out
}

// numbersOf returns a tensor's elements as f64.
func numbersOf(t *testing.T, x *weir.Tensor) []float64 {
	t.Helper()
	var out []float64
	if x.DType() == weir.F64 {
		return weirtest.Copy[float64](t, x)
	}
	for _, v := range weirtest.Copy[float32](t, x) {
		out = append(out, float64(v))
	}
	return out
}

// TestRegionGradientsCompiled compiles derivatives through a loop that a condition ends, whose body has a branch.
func TestRegionGradientsCompiled(t *testing.T) {
	body := &ir.Block{}
	m := &ir.Module{Name: "gradient", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
	m.Funcs = []*ir.Func{m.Main}
	b := ir.NewBuilder(ir.NewInference(m), body)
	shape := ir.Type{DType: dtype.F32, Shape: ir.Constants([]int64{2, 3})}
	x, w := b.Param("x", shape), b.Param("w", shape)
	step, in := ops.LoopBody(b, "loop", sym.Const(9), []*ir.Value{x})
	above := func(b *ir.Builder, v *ir.Value, limit float64) *ir.Value {
		return ops.Binary(b, ops.Gt, ops.ReduceSum(b, v, false, 0, 1), ops.Scalar(b, dtype.F32, limit))
	}
	yes, no := &ir.Block{}, &ir.Block{}
	inYes, inNo := in.In(yes), in.In(no)
	yes.Results = []*ir.Value{ops.Binary(inYes, ops.Mul, ops.Unary(inYes, ops.Sigmoid, step.Params[2]), w)}
	no.Results = []*ir.Value{ops.Binary(inNo, ops.Add, step.Params[2], ops.Binary(inNo, ops.Mul, w, w))}
	h := ops.If(in, above(in, step.Params[2], 4), yes, no)[0]
	step.Results = []*ir.Value{ops.Unary(in, ops.Not, above(in, h, 12)), h, ops.Binary(in, ops.Mul, h, w)}
	trip := ops.Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{sym.Const(9)})
	out := ops.Loop(b, step, trip, nil, x)
	y := ops.Binary(b, ops.Add, out[0], ops.ReduceSum(b, out[1], false, 0))
	body.Results = ops.Gradient(b, y, []*ir.Value{x, w})
	if err := ir.Verify(m); err != nil {
		t.Fatal(err)
	}
	for _, by := range []float64{0.1, 0.6, 1.5} {
		in := map[string]*tensor.Tensor{"x": filledWith(dtype.F32, []int64{2, 3}), "w": filledWith(dtype.F32, []int64{2, 3})}
		for i := range in["x"].Len() {
			in["x"].SetFloat(i, in["x"].Float(i)*by)
		}
		compareCompiled(t, fmt.Sprint("x times ", by), m.String(), in)
	}
}

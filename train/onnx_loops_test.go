package train_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// inner returns the graph of a body or a branch; weights are its initializers.
func inner(in, out []*wire.ValueInfoProto, weights map[string]*tensor.Tensor,
	nodes ...*wire.NodeProto) *wire.GraphProto {
	g := &wire.GraphProto{Name: "body", Input: in, Output: out, Node: nodes}
	for name, t := range weights {
		g.Initializer = append(g.Initializer, wire.FromTensor(name, t))
	}
	return g
}

// does returns a node.
func does(op string, in, out []string, attributes ...*wire.AttributeProto) *wire.NodeProto {
	return &wire.NodeProto{OpType: op, Input: in, Output: out, Attribute: attributes}
}

// valueOf declares a value's type and shape.
func valueOf(name string, dt weir.DType, shape ...*wire.Dimension) *wire.ValueInfoProto {
	return wire.TensorValue(name, wire.DataTypeOf(dt), shape...)
}

// looped returns models by name: a Scan, a Loop with an If in its body, and a Loop that ends by a condition on data.
// Their weights lie in the main graph; those of the last model also in the body.
func looped() map[string]*file {
	batch := wire.Dim("N")
	row := func(name string) *wire.ValueInfoProto { return valueOf(name, weir.F32, batch, wire.Size(6)) }
	number := func(x float32) *tensor.Tensor { return tensor.Must(tensor.FromSlice([]float32{x})) }
	begin := func(axes ...*wire.Dimension) *file {
		f := &file{}
		f.input("x", append([]*wire.Dimension{batch}, axes...)...)
		f.weight("into", normal(1, 0.5, 3, 6))
		f.weight("head", normal(4, 0.5, 6, 5))
		return f
	}
	scan := begin(wire.Dim("T"), wire.Size(3))
	scan.weight("hidden", normal(2, 0.5, 6, 6))
	scan.node("ReduceMean", []string{"x"}, []string{"mean"}, wire.IntsAttribute("axes", 1),
		wire.IntAttribute("keepdims", 0))
	scan.node("MatMul", []string{"mean", "into"}, []string{"start"})
	scan.node("Scan", []string{"start", "x"}, []string{"end", "all"}, wire.IntAttribute("num_scan_inputs", 1),
		wire.IntsAttribute("scan_input_axes", 1),
		wire.GraphAttribute("body", inner([]*wire.ValueInfoProto{row("h"), valueOf("xt", weir.F32, batch, wire.Size(3))},
			[]*wire.ValueInfoProto{row("next"), row("out")}, nil,
			does("MatMul", []string{"h", "hidden"}, []string{"p"}), does("MatMul", []string{"xt", "into"}, []string{"q"}),
			does("Add", []string{"p", "q"}, []string{"r"}),
			does("Tanh", []string{"r"}, []string{"next"}), does("Mul", []string{"next", "next"}, []string{"out"}))))
	scan.node("ReduceMean", []string{"all"}, []string{"outs"}, wire.IntsAttribute("axes", 0),
		wire.IntAttribute("keepdims", 0))
	scan.node("Add", []string{"end", "outs"}, []string{"v"})

	loop := func(f *file, of *wire.GraphProto, outputs ...string) *file {
		f.weight("trip", tensor.Must(tensor.FromSlice([]int64{4})))
		f.node("MatMul", []string{"x", "into"}, []string{"start"})
		f.node("Loop", []string{"trip", "", "start"}, outputs, wire.GraphAttribute("body", of))
		return f
	}
	carried := func(name string) []*wire.ValueInfoProto {
		return []*wire.ValueInfoProto{valueOf("i", weir.I64), valueOf("go", weir.Bool), row(name)}
	}
	branch := func(op, weight string) *wire.GraphProto {
		return inner(nil, []*wire.ValueInfoProto{row(op)}, nil, does("MatMul", []string{"h", weight}, []string{"m" + op}),
			does(op, []string{"m" + op}, []string{op}))
	}
	branches := begin(wire.Size(3))
	branches.weight("zero", number(0))
	branches.weight("yes", normal(2, 0.5, 6, 6))
	branches.weight("no", normal(3, 0.5, 6, 6))
	loop(branches, inner(carried("h"), []*wire.ValueInfoProto{valueOf("on", weir.Bool), row("next")}, nil,
		does("Identity", []string{"go"}, []string{"on"}), does("ReduceSum", []string{"h"}, []string{"sum"},
			wire.IntAttribute("keepdims", 0)),
		does("Greater", []string{"sum", "zero"}, []string{"positive"}),
		does("If", []string{"positive"}, []string{"chosen"}, wire.GraphAttribute("then_branch", branch("Tanh", "yes")),
			wire.GraphAttribute("else_branch", branch("Sigmoid", "no"))),
		does("Sub", []string{"h", "chosen"}, []string{"next"})), "v")

	while := begin(wire.Size(3))
	while.weight("limit", number(60))
	loop(while, inner(carried("h"), []*wire.ValueInfoProto{valueOf("on", weir.Bool), row("next"), row("out")},
		map[string]*tensor.Tensor{"inside": normal(2, 0.5, 6, 6)},
		does("MatMul", []string{"h", "inside"}, []string{"p"}), does("Tanh", []string{"p"}, []string{"out"}),
		does("Add", []string{"h", "out"}, []string{"next"}),
		does("ReduceSumSquare", []string{"next"}, []string{"size"}, wire.IntAttribute("keepdims", 0)),
		does("Less", []string{"size", "limit"}, []string{"on"})), "end", "outs")
	while.node("ReduceMean", []string{"outs"}, []string{"out_mean"}, wire.IntsAttribute("axes", 0),
		wire.IntAttribute("keepdims", 0))
	while.node("Add", []string{"end", "out_mean"}, []string{"v"})

	models := map[string]*file{"scan": scan, "branches": branches, "while": while}
	for _, f := range models {
		f.node("MatMul", []string{"v", "head"}, []string{"scores"})
	}
	return models
}

// TestONNXLoops: models with Scan, Loop and If train, also weights inside bodies: the first step's changes equal finite
// differences of the loss, the loss falls, and the file, written in both ways, computes the same as the store.
func TestONNXLoops(t *testing.T) {
	array.AssertNoLeaks(t)
	weights := map[string][]string{"scan": {"into", "head", "hidden"}, "branches": {"into", "head", "yes", "no"},
		"while": {"into", "head", "inside"}}
	for name, f := range looped() {
		s := array.NewScope(name)
		net, p := mustParse(t, f.bytes("scores"), array.ModelOptions{})
		names := slices.Sorted(slices.Values(p.Names()))
		if want := slices.Sorted(slices.Values(weights[name])); !slices.Equal(names, want) {
			t.Errorf("%s: parameters are %v, not %v", name, names, want)
		}
		shape := []int{6, 3}
		if name == "scan" {
			shape = []int{6, 4, 3}
		}
		x, r := make([]float32, 6*4*3), rand.New(rand.NewPCG(3, 4))
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		batch := train.Batch{X: array.From(s, x[:shapeCount(shape)], shape...), Y: array.From(s, []int32{0, 1, 2, 3, 4, 2})}
		loss := func() float64 {
			inner := array.NewScope("loss", array.In(s))
			defer inner.Close()
			y := nn.Apply(nn.Inference(inner, p), net, batch.X)[0]
			list := view(t, inner.LogSoftmax(y, 1))
			sum := 0.0
			for i, class := range []int{0, 1, 2, 3, 4, 2} {
				sum -= float64(list[i*5+class]) / 6
			}
			return sum
		}
		slopes := map[string]float64{}
		for _, weight := range p.Names() {
			data := tensor.Must(tensor.Over(weir.F32, []int64{int64(p.Get(weight).Len())}, p.Get(weight).Tensor().Bytes()))
			was := data.Float(7)
			data.SetFloat(7, was+1e-2)
			right := loss()
			data.SetFloat(7, was-1e-2)
			slopes[weight] = (right - loss()) / 2e-2
			data.SetFloat(7, was)
			slopes[weight+" was"] = was
		}
		tr, err := train.New(net, p, train.CrossEntropy, train.SGD(0.1), train.Options{})
		if err != nil {
			t.Fatal(name, err)
		}
		first, last := 0.0, 0.0
		for i := range 20 {
			m, err := tr.Step(t.Context(), batch)
			if err != nil {
				t.Fatal(name, err)
			}
			if last = m.Loss; i > 0 {
				continue
			}
			first = m.Loss
			for _, weight := range p.Names() {
				got := (slopes[weight+" was"] - float64(view(t, p.Get(weight))[7])) / 0.1
				if math.Abs(got-slopes[weight]) > 5e-3*max(1, math.Abs(got)) {
					t.Errorf("%s: by %s it is %v, differences say %v", name, weight, got, slopes[weight])
				}
			}
		}
		if !(last < first*0.9) {
			t.Errorf("%s: the loss went from %v to %v", name, first, last)
		}
		sameAsWritten(t, s, net, p, batch.X)
		var out bytes.Buffer
		if err := nn.WriteONNX(&out, net, p); err != nil {
			t.Fatal(name, err)
		}
		within(t, name+", by nn", loaded(t, out.Bytes(), batch.X), view(t, nn.Apply(nn.Inference(s, p), net, batch.X)[0]),
			1e-5)
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		p.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// shapeCount returns the number of elements of a shape.
func shapeCount(shape []int) int {
	n := 1
	for _, e := range shape {
		n *= e
	}
	return n
}

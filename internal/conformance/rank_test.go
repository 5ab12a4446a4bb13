package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// squeezing returns a model that removes the axes of extent 1 of x and computes y from the result s.
func squeezing(x []*wire.Dimension, nodes ...*wire.NodeProto) []byte {
	ints := func(name string, x ...int64) *wire.TensorProto {
		return wire.FromTensor(name, tensor.Must(tensor.FromSlice(x, int64(len(x)))))
	}
	floats := func(name string, x []float32, shape ...int64) *wire.TensorProto {
		return wire.FromTensor(name, tensor.Must(tensor.FromSlice(x, shape...)))
	}
	g := &wire.GraphProto{Name: "squeezing", Input: []*wire.ValueInfoProto{wire.TensorValue("x", wire.FloatType, x...)},
		Output: []*wire.ValueInfoProto{{Name: "y"}}, Initializer: []*wire.TensorProto{ints("last", -1), ints("first", 0),
			ints("two", 2), ints("pairs", -1, 2), floats("w", []float32{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2),
			floats("v", []float32{1, 2, 3, 4}, 4)},
		Node: append([]*wire.NodeProto{operation("Squeeze", "x", "s")}, nodes...)}
	return (&wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 17}}, Graph: g}).Marshal()
}

// ranked runs a model on an input of this shape, and returns the result as text, and the bytes predicted and measured.
func ranked(t *testing.T, data []byte, o weir.Options, shape []int) (result string, predicted, measured int64) {
	t.Helper()
	m, err := weir.LoadBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, o)
	if err != nil {
		return fmt.Sprint("refused: ", err), 0, 0
	}
	defer p.Close()
	count := 1
	for _, n := range shape {
		count *= n
	}
	elements := make([]float32, count)
	for i := range elements {
		elements[i] = float32(i%7) - 2.5
	}
	x, err := weir.FromSlice(elements, shape...)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	r, err := p.Run(t.Context(), weir.Inputs{"x": x})
	if err != nil {
		return fmt.Sprint("refused: ", err), 0, 0
	}
	defer r.Close()
	y := r.Get("y")
	got, err := weir.Copy[float32](y)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got { // softmax may round differently
		got[i] = float32(math.Round(float64(v)*1e4) / 1e4)
	}
	result = fmt.Sprint(y.Shape(), got)
	if o.Target == weir.Reference {
		return result, 0, 0
	}
	d, err := p.Bind(weir.Inputs{"x": x})
	if err != nil {
		t.Fatal(err)
	}
	if predicted, err = p.Memory().Peak(1, d); err != nil {
		t.Fatal(err)
	}
	seen, err := p.Measure(t.Context(), weir.Inputs{"x": x})
	if err != nil {
		t.Fatal(err)
	}
	return result, predicted, seen.Peak(1)
}

// TestRanks compares a model whose rank a run decides with models whose files declare the extents: results, and bytes
// if the variants compute the same.
func TestRanks(t *testing.T) {
	axis := func(a int64) *wire.AttributeProto { return wire.IntAttribute("axis", a) }
	shapes := [][]*wire.Dimension{{wire.Dim("b"), wire.Size(4)}, {wire.Size(1), wire.Dim("b"), wire.Size(1), wire.Size(4)},
		{wire.Dim("b"), wire.Dim("c"), wire.Size(4)}, {wire.Dim("b"), wire.Dim("b"), wire.Size(4)}}
	keep := wire.IntAttribute("keepdims", 0)
	for name, c := range map[string]struct {
		nodes []*wire.NodeProto
		apart bool // the variants compute different numbers: both count
	}{
		"alone":       {nodes: []*wire.NodeProto{operation("Identity", "s", "y")}},
		"elementwise": {nodes: []*wire.NodeProto{operation("Sigmoid", "s", "t"), operation("Mul", "t,s", "y")}},
		"vector":      {nodes: []*wire.NodeProto{operation("Add", "s,v", "t"), operation("Relu", "t", "y")}},
		"softmax":     {nodes: []*wire.NodeProto{operation("Softmax", "s", "y", axis(-1))}},
		"sum":         {nodes: []*wire.NodeProto{operation("ReduceSum", "s,last", "y", keep)}},
		"again":       {nodes: []*wire.NodeProto{operation("Squeeze", "s", "t"), operation("Neg", "t", "y")}},
		"join":        {nodes: []*wire.NodeProto{operation("Concat", "s,s", "y", axis(-1))}, apart: true},
		"section":     {nodes: []*wire.NodeProto{operation("Slice", "s,first,two,last", "y")}},
		"flat":        {nodes: []*wire.NodeProto{operation("Reshape", "s,pairs", "y")}},
		"product":     {nodes: []*wire.NodeProto{operation("MatMul", "s,w", "y")}, apart: true},
		"running":     {nodes: []*wire.NodeProto{operation("CumSum", "s,zero", "y")}, apart: true},
		"first axis":  {nodes: []*wire.NodeProto{operation("Softmax", "s", "y", axis(0))}, apart: true},
	} {
		if name == "running" {
			c.nodes = append([]*wire.NodeProto{operation("ReduceSum", "first", "zero", keep)}, c.nodes...)
		}
		for _, shape := range shapes {
			for b := range 4 {
				extents, declared := make([]int, len(shape)), make([]*wire.Dimension, len(shape))
				for i, d := range shape {
					if extents[i] = int(d.Value); d.Param == "b" {
						extents[i] = b
					} else if d.Param != "" {
						extents[i] = 3 - b
					}
					declared[i] = wire.Size(int64(extents[i]))
				}
				o := weir.Options{Threads: 1, Target: weir.Portable}
				want, _, _ := ranked(t, squeezing(declared, c.nodes...), o, extents)
				got, predicted, measured := ranked(t, squeezing(shape, c.nodes...), o, extents)
				if got != want {
					t.Errorf("%s of %v: %s, not %s", name, extents, got, want)
				}
				if predicted != measured && !(c.apart && predicted > measured) {
					t.Errorf("%s of %v: %d bytes predicted, %d measured", name, extents, predicted, measured)
				}
				if o.Target = weir.Reference; b == 1 {
					if got, _, _ := ranked(t, squeezing(shape, c.nodes...), o, extents); got != want {
						t.Errorf("%s of %v on the reference: %s, not %s", name, extents, got, want)
					}
				}
			}
		}
	}
}

// TestRankInLoop: a loop carries a tensor whose rank a run decides, and grows its last axis.
func TestRankInLoop(t *testing.T) {
	nodes := []*wire.NodeProto{operation("Slice", "v,first,two,first", "pair"),
		operation("Loop", "two,,s", "y", wire.GraphAttribute("body", &wire.GraphProto{Name: "body",
			Node: []*wire.NodeProto{operation("Identity", "c", "d"), operation("Mul", "r,pair", "u")},
			Input: []*wire.ValueInfoProto{wire.TensorValue("i", wire.Int64Type), wire.TensorValue("c", wire.BoolType),
				{Name: "r"}},
			Output: []*wire.ValueInfoProto{{Name: "d"}, {Name: "u"}}}))}
	open := []*wire.Dimension{wire.Dim("a"), wire.Dim("b"), wire.Dim("c")}
	for _, extents := range [][]int{{1, 2, 1}, {2, 1, 2}, {1, 3, 2}, {1, 3, 3}} {
		declared := make([]*wire.Dimension, len(extents))
		for i, n := range extents {
			declared[i] = wire.Size(int64(n))
		}
		o := weir.Options{Threads: 1, Target: weir.Portable}
		want, _, _ := ranked(t, squeezing(declared, nodes...), o, extents)
		got, predicted, measured := ranked(t, squeezing(open, nodes...), o, extents)
		refused := extents[2] == 3
		if got != want && !refused || strings.HasPrefix(got, "refused") != refused || predicted < measured {
			t.Errorf("%v: %s, not %s; %d bytes predicted, %d measured", extents, got, want, predicted, measured)
		}
	}
}

// TestRankOfRanges: a range of a dimension decides a rank, and a dimension of one value makes the program of a file
// that declares it.
func TestRankOfRanges(t *testing.T) {
	data := squeezing([]*wire.Dimension{wire.Dim("b"), wire.Size(4)}, operation("MatMul", "s,w", "y"))
	one := squeezing([]*wire.Dimension{wire.Size(1), wire.Size(4)}, operation("MatMul", "s,w", "y"))
	o := weir.Options{Threads: 1, Target: weir.Portable}
	want, bytes, _ := ranked(t, one, o, []int{1, 4})
	o.Dims = map[string]weir.Range{"b": {Min: 1, Max: 1}}
	got, predicted, measured := ranked(t, data, o, []int{1, 4})
	if got != want || predicted != bytes || measured != bytes {
		t.Errorf("b = 1: %s in %d and %d bytes; declared: %s in %d", got, predicted, measured, want, bytes)
	}
	for _, c := range []struct {
		dims  map[string]weir.Range
		shape string
	}{{nil, "y: f32[...]"}, {map[string]weir.Range{"b": {Min: 2, Max: 8}}, "y: f32[b,2]"}, {o.Dims, "y: f32[2]"}} {
		m, err := weir.LoadBytes(data)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1, Dims: c.dims})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		if got := p.Outputs()[0].String(); got != c.shape {
			t.Errorf("%v: the output is %s, not %s", c.dims, got, c.shape)
		}
		if c.dims != nil {
			continue
		}
		if _, err := p.NewCall(weir.Dims{"b": 1}); !errors.Is(err, weir.ErrUnsupported) {
			t.Errorf("a bound call: %v", err)
		}
		if _, err := batch.New(p, batch.Options{}); !errors.Is(err, weir.ErrUnsupported) {
			t.Errorf("a batcher: %v", err)
		}
	}
}

// TestRankInArtefact: an artefact has the outputs of its program, and their memory.
func TestRankInArtefact(t *testing.T) {
	data := squeezing([]*wire.Dimension{wire.Dim("b"), wire.Size(4)}, operation("Relu", "s", "y"))
	m, err := weir.LoadBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var file bytes.Buffer
	if _, err := p.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	size, err := p.Memory().Of("y")
	if at, err2 := size.At(weir.Dims{"b": 3}); err != nil || err2 != nil || at != 3*4*4+64 {
		t.Errorf("y takes %d bytes, %v %v", at, err, err2)
	}
	for b := range 4 {
		shape := []int{b, 4}
		want, bytes, _ := ranked(t, data, weir.Options{Threads: 1}, shape)
		got, predicted, measured := ranked(t, slices.Clone(file.Bytes()), weir.Options{Threads: 1}, shape)
		if got != want || predicted != bytes || measured != bytes {
			t.Errorf("b = %d: %s in %d and %d bytes; from the model: %s in %d", b, got, predicted, measured, want, bytes)
		}
	}
}

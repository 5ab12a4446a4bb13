package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// operation returns a node; its inputs and outputs are separated by commas.
func operation(op, in, out string, attrs ...*wire.AttributeProto) *wire.NodeProto {
	names := func(s string) []string { return strings.Split(s, ",") }
	return &wire.NodeProto{OpType: op, Input: names(in), Output: names(out), Attribute: attrs}
}

// looping compiles a model of one Loop whose body's nodes step carry x, f32[n]. With trips, an input is the number of
// iterations.
func looping(t *testing.T, trips bool, step ...*wire.NodeProto) *weir.Program {
	t.Helper()
	value := func(name string, dt wire.DataType, shape ...*wire.Dimension) *wire.ValueInfoProto {
		return wire.TensorValue(name, dt, shape...)
	}
	body := &wire.GraphProto{Name: "body", Node: append(step, operation("Identity", "on", "still")),
		Input: []*wire.ValueInfoProto{value("i", wire.Int64Type), value("on", wire.BoolType),
			value("v", wire.FloatType, wire.Dim("a"))},
		Output: []*wire.ValueInfoProto{value("still", wire.BoolType), value("w", wire.FloatType, wire.Dim("b"))}}
	truth := tensor.Must(tensor.New(weir.Bool))
	truth.SetInt(0, 1)
	initial := func(name string, x *tensor.Tensor) *wire.TensorProto { return wire.FromTensor(name, x) }
	g := &wire.GraphProto{Name: "looping", Input: []*wire.ValueInfoProto{value("x", wire.FloatType, wire.Dim("n"))},
		Output: []*wire.ValueInfoProto{value("y", wire.FloatType, wire.Dim("m"))},
		Initializer: []*wire.TensorProto{initial("true", truth),
			initial("half", tensor.Must(tensor.FromSlice([]float32{0.5}, 1))),
			initial("zero", tensor.Must(tensor.FromSlice([]int64{0}, 1))),
			initial("one", tensor.Must(tensor.FromSlice([]int64{1}, 1))),
			initial("ten", tensor.Must(tensor.FromSlice([]int64{10}, 1)))}}
	count := ""
	if trips {
		g.Input, count = append(g.Input, value("trips", wire.Int64Type)), "trips"
	}
	g.Node = []*wire.NodeProto{operation("Loop", count+",true,x", "y", wire.GraphAttribute("body", body))}
	proto := &wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}
	m, err := weir.LoadBytes(proto.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{Target: weir.Portable, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// steps are bodies: one that keeps the shape, and one that changes it in every iteration, up to ten elements.
var steps = map[string][]*wire.NodeProto{
	"kept": {operation("Mul", "v,half", "w")},
	"changed": {operation("Concat", "v,half", "u", wire.IntAttribute("axis", 0)), operation("Slice", "u,zero,ten", "s"),
		operation("Mul", "s,half", "w")},
}

// TestLongLoops: a hundred thousand iterations allocate no more than none, in Go's heap and from the system.
func TestLongLoops(t *testing.T) {
	for name, step := range steps {
		p := looping(t, true, step...)
		allocations := map[int64]float64{}
		for _, trips := range []int64{0, 100_000} {
			call, err := p.NewCall(weir.Dims{"n": 3, "trips[0]": trips})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			x, err := weir.View[float32](call.Input("x"))
			if err != nil {
				t.Fatal(err)
			}
			copy(x, []float32{1, 2, 3})
			n, err := weir.View[int64](call.Input("trips"))
			if err != nil {
				t.Fatal(err)
			}
			n[0] = trips
			run := func() {
				if err := call.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			run()
			before := mem.Usage()
			allocations[trips] = testing.AllocsPerRun(3, run) // Go's runtime sometimes allocates besides the runs
			if after := mem.Usage(); after != before {
				t.Errorf("%s, %d iterations: %v mapped before, %v behind", name, trips, before, after)
			}
			want := 3
			if name == "changed" && trips > 0 {
				want = 10
			}
			if got, err := weir.View[float32](call.Output("y")); err != nil || len(got) != want {
				t.Errorf("%s, %d iterations: %v, %v", name, trips, got, err)
			}
			call.Close()
		}
		if allocations[0] != 0 || allocations[100_000] != 0 {
			t.Errorf("%s: allocations by iterations: %v", name, allocations)
		}
	}
}

// TestEndlessLoop: a context stops a loop whose condition always holds.
func TestEndlessLoop(t *testing.T) {
	for name, step := range steps {
		p := looping(t, false, step...)
		x, err := weir.FromSlice([]float32{1, 2, 3}, 3)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		start := time.Now()
		r, err := p.Run(ctx, weir.Inputs{"x": x})
		took := time.Since(start)
		if !errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second {
			t.Errorf("%s: %v after %v", name, err, took)
		}
		if r != nil {
			r.Close()
		}
		cancel()
		x.Close()
	}
}

// TestScanOfOneSize: a state's extent is a dimension with only one value, which passes write as a number before the
// scan and by its name inside.
func TestScanOfOneSize(t *testing.T) {
	value := func(name string, shape ...*wire.Dimension) *wire.ValueInfoProto {
		return wire.TensorValue(name, wire.FloatType, shape...)
	}
	row := []*wire.Dimension{wire.Dim("B"), wire.Size(2)}
	body := &wire.GraphProto{Name: "body", Node: []*wire.NodeProto{operation("Add", "v,r", "w"),
		operation("Identity", "w", "sums")},
		Input:  []*wire.ValueInfoProto{value("v", row...), value("r", row...)},
		Output: []*wire.ValueInfoProto{value("w", row...), value("sums", row...)}}
	ints := func(name string, x int64) *wire.TensorProto {
		return wire.FromTensor(name, tensor.Must(tensor.FromSlice([]int64{x}, 1)))
	}
	g := &wire.GraphProto{Name: "sums",
		Input: []*wire.ValueInfoProto{value("x", append([]*wire.Dimension{wire.Dim("T")}, row...)...)},
		Output: []*wire.ValueInfoProto{value("last", row...),
			value("all", append([]*wire.Dimension{wire.Dim("U")}, row...)...)},
		Initializer: []*wire.TensorProto{ints("zero", 0), ints("one", 1), ints("many", 1<<40)},
		Node: []*wire.NodeProto{operation("Slice", "x,zero,one,zero", "head"), operation("Squeeze", "head,zero", "first"),
			operation("Slice", "x,one,many,zero", "tail"),
			operation("Scan", "first,tail", "last,all", wire.GraphAttribute("body", body),
				wire.IntAttribute("num_scan_inputs", 1))}}
	data := (&wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 16}}, Graph: g}).Marshal()
	for _, dims := range []map[string]weir.Range{nil, {"B": {Min: 1, Max: 1}},
		{"T": {Min: 3, Max: 3}, "B": {Min: 1, Max: 1}}, {"T": {Min: 3, Max: 3}}} {
		for _, target := range []weir.Target{weir.Portable, weir.Best} {
			m, err := weir.LoadBytes(data)
			if err != nil {
				t.Fatal(err)
			}
			p, err := weir.Compile(t.Context(), m, weir.Options{Target: target, Threads: 1, Dims: dims})
			m.Close()
			if err != nil {
				t.Fatalf("%v: %v", dims, err)
			}
			x, err := weir.FromSlice([]float32{1, 2, 10, 20, 100, 200}, 3, 1, 2)
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Run(t.Context(), weir.Inputs{"x": x})
			if err != nil {
				t.Fatalf("%v: %v", dims, err)
			}
			for name, want := range map[string][]float32{"last": {111, 222}, "all": {11, 22, 111, 222}} {
				if got, err := weir.Copy[float32](r.Get(name)); err != nil || !slices.Equal(got, want) {
					t.Errorf("%v: %s is %v, not %v; %v", dims, name, got, want, err)
				}
			}
			r.Close()
			x.Close()
			p.Close()
		}
	}
}

// TestRowsOfSharedBytes: the rows of a Loop's scan output of i4 are kept if each begins with a byte, and refused if
// not; the reference keeps both.
func TestRowsOfSharedBytes(t *testing.T) {
	four := wire.DataTypeOf(weir.I4)
	for _, width := range []int64{2, 3, 4} {
		first := make([]int8, width)
		for i := range first {
			first[i] = int8(i) - 2
		}
		body := &wire.GraphProto{Name: "body",
			Node: []*wire.NodeProto{operation("Identity", "on", "still"),
				operation("Cast", "i", "j", wire.IntAttribute("to", int64(wire.DataTypeOf(weir.I8)))),
				operation("Add", "first,j", "sum"), operation("Cast", "sum", "row", wire.IntAttribute("to", int64(four)))},
			Input: []*wire.ValueInfoProto{wire.TensorValue("i", wire.Int64Type), wire.TensorValue("on", wire.BoolType)},
			Output: []*wire.ValueInfoProto{wire.TensorValue("still", wire.BoolType),
				wire.TensorValue("row", four, wire.Size(width))},
			Initializer: []*wire.TensorProto{wire.FromTensor("first", tensor.Of(first...))}}
		g := &wire.GraphProto{Name: "rows", Input: []*wire.ValueInfoProto{wire.TensorValue("n", wire.Int64Type)},
			Output: []*wire.ValueInfoProto{wire.TensorValue("y", wire.DataTypeOf(weir.I8), wire.Dim("m"), wire.Size(width))},
			Node: []*wire.NodeProto{operation("Loop", "n,", "rows", wire.GraphAttribute("body", body)),
				operation("Cast", "rows", "y", wire.IntAttribute("to", int64(wire.DataTypeOf(weir.I8))))}}
		data := (&wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}).Marshal()
		want := tensor.Must(tensor.New(weir.I8, 3, width))
		for i := range want.Len() {
			want.SetInt(i, i%width-2+i/width)
		}
		n, err := values.ToWeir(tensor.Scalar(int64(3)))
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range []weir.Target{"", weir.Portable, weir.Reference} {
			err := runArithmetic(t, data, weir.Options{Threads: 1, Target: target}, weir.Inputs{"n": n}, []*tensor.Tensor{want})
			refused := errors.Is(err, weir.ErrUnsupported)
			if refused != (width == 3 && target != weir.Reference) || err != nil && !refused {
				t.Errorf("rows of %d, target %q: %v", width, target, err)
			}
		}
		n.Close()
	}
}

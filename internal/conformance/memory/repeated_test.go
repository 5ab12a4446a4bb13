package memory

import (
	"fmt"
	"math"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// repeatedCases are models of x[n, 4] and y[m, 4] in which an extent m of 1 repeats, and the result of one element of
// each.
var repeatedCases = []struct {
	name  string
	nodes []*wire.NodeProto
	want  func(x, y float64) float64
}{
	{"add", []*wire.NodeProto{weirtest.NodeOf("Add x,y z")}, func(x, y float64) float64 { return x + y }},
	{"subtract after another", []*wire.NodeProto{weirtest.NodeOf("Neg y w"), weirtest.NodeOf("Sub w,x z")},
		func(x, y float64) float64 {
			return -y - x
		}},
	{"where", []*wire.NodeProto{weirtest.NodeOf("Greater x,y c"), weirtest.NodeOf("Where c,y,x z")}, math.Min},
	{"both ways", []*wire.NodeProto{weirtest.NodeOf("Mul y,x p"), weirtest.NodeOf("Max p,y z")},
		func(x, y float64) float64 {
			return max(x*y, y)
		}},
}

// TestRepeated: a dimension that is 1 repeats beside another, whether it is compiled to be 1 or is 1 in a run.
func TestRepeated(t *testing.T) {
	in := func(dim string) *wire.TypeProto {
		return weirtest.TensorType(wire.FloatType, &wire.Dimension{Param: dim}, wire.Size(4))
	}
	inputs := []*wire.ValueInfoProto{weirtest.Typed("x", in("n")), weirtest.Typed("y", in("m"))}
	outputs := []*wire.ValueInfoProto{weirtest.Typed("z", weirtest.TensorType(wire.FloatType))}
	for _, c := range repeatedCases {
		for _, target := range []weir.Target{weir.Best, weir.Portable, weir.Reference} {
			for _, one := range []string{"n", "m"} {
				p := weirtest.ProgramOf(t,
					weir.Options{Target: target, Dims: map[string]weir.Range{one: {Min: 1, Max: 1}}}, inputs, outputs,
					c.nodes...)
				for _, k := range []int{0, 1, 2, 17} {
					rows := map[string]int{"n": k, "m": k, one: 1}
					checkRepeated(t, fmt.Sprintf("%s on %q with %v", c.name, target, rows), p, rows, c.want)
				}
			}
			p := weirtest.ProgramOf(t, weir.Options{Target: target}, inputs, outputs, c.nodes...)
			for _, rows := range [][2]int{{3, 3}, {3, 1}, {1, 3}, {1, 0}} {
				checkRepeated(t, fmt.Sprint(c.name, " of ", rows), p, map[string]int{"n": rows[0], "m": rows[1]}, c.want)
			}
		}
	}
}

// checkRepeated compares the results of a program, or its error, for all pairs of rows.
func checkRepeated(t *testing.T, what string, p *weir.Program, rows map[string]int, want func(x, y float64) float64) {
	t.Helper()
	fill := func(rows int, scale float32) *weir.Tensor {
		data := make([]float32, 4*rows)
		for i := range data {
			data[i] = scale * float32(i%7-3)
		}
		return weirtest.Must[*weir.Tensor](t)(weir.FromSlice(data, rows, 4))
	}
	a, b := fill(rows["n"], 1), fill(rows["m"], -2)
	in := weir.Inputs{"x": a, "y": b}
	r, err := p.Run(t.Context(), in)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	defer r.Close()
	total := rows["n"]
	if total == 1 {
		total = rows["m"]
	}
	got := weirtest.Copy[float32](t, r.Get("z"))
	if len(got) != 4*total {
		t.Fatalf("%s: %d elements, not %d", what, len(got), 4*total)
	}
	x, y := weirtest.Copy[float32](t, a), weirtest.Copy[float32](t, b)
	for i, v := range got {
		if w := want(float64(x[i%max(len(x), 1)]), float64(y[i%max(len(y), 1)])); float64(v) != w {
			t.Errorf("%s: element %d is %v, not %v", what, i, v, w)
		}
	}
	if p.Target() == weir.Reference {
		return
	}
	measured := weirtest.Must[weir.Measurement](t)(p.Measure(t.Context(), in))
	dims := weir.Dims{"n": int64(rows["n"]), "m": int64(rows["m"])}
	if predicted := weirtest.Must[int64](t)(p.Memory().Peak(1, dims)); predicted != measured.Peak(1) {
		t.Errorf("%s: predicted %d bytes, measured %d", what, predicted, measured.Peak(1))
	}
}

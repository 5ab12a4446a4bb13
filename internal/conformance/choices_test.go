package conformance

import (
	"errors"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// permuted returns a Transpose.
func permuted(in, out string, perm ...int64) *wire.NodeProto {
	return operation("Transpose", in, out, wire.IntsAttribute("perm", perm...))
}

// branching returns an If of two nodes that make t and e.
func branching(cond, out string, then, otherwise *wire.NodeProto) *wire.NodeProto {
	graph := func(n *wire.NodeProto) *wire.GraphProto {
		return &wire.GraphProto{Name: n.Output[0], Node: []*wire.NodeProto{n},
			Output: []*wire.ValueInfoProto{{Name: n.Output[0]}}}
	}
	return operation("If", cond, out, wire.GraphAttribute("then_branch", graph(then)),
		wire.GraphAttribute("else_branch", graph(otherwise)))
}

// repeated returns a Loop of five iterations that carries s and yields o.
func repeated(in, out string, step ...*wire.NodeProto) *wire.NodeProto {
	return operation("Loop", "five,,"+in, out, wire.GraphAttribute("body", &wire.GraphProto{Name: "body",
		Node: append(step, operation("Identity", "on", "still")),
		Input: []*wire.ValueInfoProto{wire.TensorValue("i", wire.Int64Type), wire.TensorValue("on", wire.BoolType),
			{Name: "s"}},
		Output: []*wire.ValueInfoProto{{Name: "still"}, {Name: "o"}}}))
}

// chosen are models of x [a, b, 2] and c, in which data decide the order or the division of x's extents. No result has
// more elements than x.
var chosen = map[string][]*wire.NodeProto{
	"row or column": {branching("c", "y", operation("Reshape", "x,row", "t"), operation("Reshape", "x,column", "e"))},
	"transposed":    {branching("c", "y", permuted("x", "t", 1, 0, 2), operation("Identity", "x", "e"))},
	"permuted":      {branching("c", "y", permuted("x", "t", 1, 2, 0), permuted("x", "e", 2, 0, 1))},
	"first kept":    {branching("c", "y", permuted("x", "t", 0, 2, 1), operation("Identity", "x", "e"))},
	"computed": {branching("c", "r", permuted("x", "t", 2, 1, 0), operation("Identity", "x", "e")),
		operation("Relu", "r", "q"), permuted("q", "y", 1, 0, 2)},
	"twice": {branching("c", "r", permuted("x", "t", 1, 0, 2), operation("Identity", "x", "e")),
		branching("c", "y", permuted("r", "t", 0, 2, 1), operation("Neg", "r", "e"))},
	"nested": {branching("c", "y", branching("c", "t", permuted("x", "t2", 1, 0, 2), permuted("x", "e2", 2, 1, 0)),
		permuted("x", "e", 1, 2, 0))},
	"loop":         {repeated("x", "y", permuted("s", "o", 1, 0, 2))},
	"loop, thrice": {repeated("x", "y", permuted("s", "o", 1, 2, 0))},
	"loop, computed": {repeated("x", "r", permuted("s", "v", 2, 0, 1), operation("Neg", "v", "o")),
		operation("Relu", "r", "y")},
	"loop, reshaped":  {repeated("x", "y", operation("Reshape", "s,column", "o"))},
	"loop of choices": {repeated("x", "y", branching("c", "o", permuted("s", "t", 1, 2, 0), permuted("s", "e", 1, 0, 2)))},
	"choice of loops": {branching("c", "y", repeated("x", "t", permuted("s", "o", 1, 0, 2)), permuted("x", "e", 2, 0, 1))},
}

// chosenModel returns the model of a row of chosen.
func chosenModel(nodes []*wire.NodeProto) []byte {
	g := &wire.GraphProto{Name: "chosen", Node: nodes,
		Input: []*wire.ValueInfoProto{wire.TensorValue("c", wire.BoolType),
			wire.TensorValue("x", wire.FloatType, wire.Dim("a"), wire.Dim("b"), wire.Size(2))},
		Output: []*wire.ValueInfoProto{{Name: "y"}},
		Initializer: []*wire.TensorProto{wire.FromTensor("five", tensor.Scalar(int64(5))),
			wire.FromTensor("row", tensor.Must(tensor.FromSlice([]int64{1, 1, -1}, 3))),
			wire.FromTensor("column", tensor.Must(tensor.FromSlice([]int64{-1, 1, 1}, 3)))}}
	proto := &wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}
	return proto.Marshal()
}

// TestChoices: extents that data decide together are bounded together. Results equal the reference's, the output is
// planned for x's elements, the certificate with the observed sizes is the measured peak, and nothing is said to be
// reached that need not be.
func TestChoices(t *testing.T) {
	for name, nodes := range chosen {
		t.Run(name, func(t *testing.T) {
			programs := make([]*weir.Program, 2)
			for i, target := range []weir.Target{weir.Best, weir.Reference} {
				m, err := weir.LoadBytes(chosenModel(nodes))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { m.Close() })
				if programs[i], err = weir.Compile(t.Context(), m, weir.Options{Target: target, Threads: 1}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { programs[i].Close() })
			}
			memory := programs[0].Memory()
			if !memory.Bounded || memory.Proven {
				t.Errorf("bounded %v, proven %v: data decide the output's extents", memory.Bounded, memory.Proven)
			}
			for _, d := range [][2]int{{0, 3}, {1, 1}, {1, 40}, {40, 1}, {2, 3}, {7, 5}} {
				for _, c := range []bool{false, true} {
					choose(t, programs, d[0], d[1], c)
				}
			}
		})
	}
}

// choose is TestChoices for one size and condition.
func choose(t *testing.T, programs []*weir.Program, a, b int, c bool) {
	t.Helper()
	data := make([]float32, a*b*2)
	for i := range data {
		data[i] = float32(i%7) - 3
	}
	x, err := weir.FromSlice(data, a, b, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	cond := weir.Scalar(c)
	defer cond.Close()
	in, d := weir.Inputs{"c": cond, "x": x}, weir.Dims{"a": int64(a), "b": int64(b)}
	var results [2][]float32
	var shapes [2][]int
	for i, p := range programs {
		r, err := p.Run(t.Context(), in)
		if err != nil {
			t.Fatalf("%d × %d × 2, %v: %v", a, b, c, err)
		}
		if results[i], err = weir.Copy[float32](r.Get("y")); err != nil {
			t.Fatal(err)
		}
		shapes[i] = r.Get("y").Shape()
		r.Close()
	}
	if !slices.Equal(results[0], results[1]) || !slices.Equal(shapes[0], shapes[1]) {
		t.Errorf("%d × %d × 2, %v: %v %v, the reference gives %v %v", a, b, c, shapes[0], results[0], shapes[1], results[1])
	}
	memory := programs[0].Memory()
	if planned, err := memory.Outputs.At(d); err != nil || planned != int64(len(data))*4 {
		t.Errorf("%d × %d × 2: the output is planned with %d bytes (%v), its elements have %d", a, b, planned, err,
			4*len(data))
	}
	seen, err := programs[0].Measure(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := memory.PeakWith(1, d, seen); err != nil || want != seen.Peak(1) {
		t.Errorf("%d × %d × 2, %v: predicted %d (%v), measured %d", a, b, c, want, err, seen.Peak(1))
	}
}

// unnumbered is a text whose loop does not name its iteration's number.
const unnumbered = `weir 1
ir @t {
  main @main(%x: f32[4]) {
    const %n: i64[] = [3]
    const %yes: bool[] = [true]
    %l: f32[4] = loop(%n, %yes, %x) region (%i: i64[], %c: bool[], %s: f32[4]) {
      %o: f32[4] = neg(%s)
      return %c, %o
    }
    return %l
  }
}
`

// TestUnnumberedLoop: a text's loop may leave out the dimension of its iteration's number.
func TestUnnumberedLoop(t *testing.T) {
	m, err := weir.LoadBytes([]byte(unnumbered))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	x, err := weir.FromSlice([]float32{1, 2, 3, 4}, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	r, err := p.Run(t.Context(), weir.Inputs{"x": x})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := weir.Copy[float32](r.Get("l")); err != nil || !slices.Equal(got, []float32{-1, -2, -3, -4}) {
		t.Errorf("%v (%v)", got, err)
	}
}

// malformedRegions are texts whose Ifs and Loops have other regions than the operators take.
var malformedRegions = map[string]string{
	"an If of one branch":   "%y: f32[4] = if(%c) region () { return %x }",
	"an If of no branch":    "%y: f32[4] = if(%c)",
	"an If with parameters": "%y: f32[4] = if(%c) region (%i: i64[]) { return %x } region () { return %x }",
	"an If of no condition": "%y: f32[4] = if() region () { return %x } region () { return %x }",
	"a loop of no body":     "%y: f32[4] = loop(none, %c, %x)",
	"a loop of two bodies": "%y: f32[4] = loop(none, %c, %x) region (%i: i64[], %d: bool[], %s: f32[4]) " +
		"{ return %d, %s } region () { return %x }",
	"a loop of no inputs": "%y: f32[4] = loop() region (%i: i64[], %d: bool[]) { return %d }",
	"a number of another type": "%y: f32[4] = loop(none, %c, %x) region (%i: f32[], %d: bool[], %s: f32[4]) " +
		"{ return %d, %s }",
	"a number that is an input's dimension": "%y: f32[4] = loop(none, %c, %x) region (%i: i64[] known [n], %d: bool[], " +
		"%s: f32[4]) { return %d, %s }",
	"a number that is a constant": "%y: f32[4] = loop(none, %c, %x) region (%i: i64[] known [3], %d: bool[], " +
		"%s: f32[4]) { return %d, %s }",
	"a body of no condition": "%y: f32[4] = loop(none, %c, %x) region (%i: i64[], %d: bool[], %s: f32[4]) { return %s }",
	"a scan of no body":      "%y: f32[4] = scan(%x) {states = int 0}",
}

// TestMalformedRegions: they are refused as input errors.
func TestMalformedRegions(t *testing.T) {
	for name, node := range malformedRegions {
		text := "weir 1\nir @t {\n  dim n in [0, 8]\n  main @main(%c: bool[], %x: f32[4], %z: f32[n]) {\n    " + node +
			"\n    return %y\n  }\n}\n"
		m, err := weir.LoadBytes([]byte(text))
		if err == nil {
			_, err = weir.Compile(t.Context(), m, weir.Options{Threads: 1})
			m.Close()
		}
		if !errors.Is(err, weir.ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

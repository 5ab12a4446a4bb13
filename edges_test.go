package weir_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// typed declares an input or output of a type.
func typed(name string, t *wire.TypeProto) *wire.ValueInfoProto {
	return &wire.ValueInfoProto{Name: name, Type: t}
}

func tensorType(dt wire.DataType, dims ...*wire.Dimension) *wire.TypeProto {
	return wire.TensorValue("", dt, dims...).Type
}

func sequenceType(of *wire.TypeProto) *wire.TypeProto {
	return &wire.TypeProto{SequenceType: &wire.ElementTypeProto{ElemType: of}}
}

func optionalType(of *wire.TypeProto) *wire.TypeProto {
	return &wire.TypeProto{OptionalType: &wire.ElementTypeProto{ElemType: of}}
}

// programOf compiles a model of the given nodes, each "Op in,in out,out", with its inputs and outputs.
func programOf(t testing.TB, o weir.Options, inputs, outputs []*wire.ValueInfoProto,
	nodes ...*wire.NodeProto) *weir.Program {
	t.Helper()
	m := modelOf(t, inputs, outputs, nodes...)
	p, err := weir.Compile(context.Background(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); m.Close() })
	return p
}

// modelOf returns a model of the given nodes, inputs and outputs.
func modelOf(t testing.TB, inputs, outputs []*wire.ValueInfoProto, nodes ...*wire.NodeProto) *weir.Model {
	t.Helper()
	proto := &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 22}},
		Graph: &wire.GraphProto{Input: inputs, Output: outputs, Node: nodes}}
	m, err := weir.LoadBytes(proto.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// nodeOf returns the node that text, "Op in,in out,out", describes.
func nodeOf(text string, attrs ...*wire.AttributeProto) *wire.NodeProto {
	f := strings.Split(text, " ")
	n := &wire.NodeProto{OpType: f[0], Attribute: attrs, Output: strings.Split(f[2], ",")}
	if f[1] != "" {
		n.Input = strings.Split(f[1], ",")
	}
	return n
}

// must returns a function that returns v, or fails t if there is an error.
func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

var anySize = &wire.Dimension{}

// TestStrings sends strings through a program, its artefact and the reference.
func TestStrings(t *testing.T) {
	inputs := []*wire.ValueInfoProto{typed("x", tensorType(wire.StringType, &wire.Dimension{Param: "n"})),
		typed("y", tensorType(wire.StringType, wire.Size(1)))}
	outputs := []*wire.ValueInfoProto{typed("joined", tensorType(wire.StringType)),
		typed("both", tensorType(wire.StringType)), typed("same", tensorType(wire.BoolType))}
	nodes := []*wire.NodeProto{nodeOf("StringConcat x,y joined"),
		nodeOf("Concat joined,x both", wire.IntAttribute("axis", 0)), nodeOf("Equal x,y same")}
	words := []string{"", "a\xff", "日本", "!"}
	in := weir.Inputs{"x": must[*weir.Tensor](t)(weir.FromSlice(words)),
		"y": must[*weir.Tensor](t)(weir.FromSlice([]string{"!"}))}
	for _, target := range []weir.Target{weir.Portable, weir.Reference} {
		p := programOf(t, weir.Options{Target: target}, inputs, outputs, nodes...)
		if got := fmt.Sprint(p.Inputs(),
			p.Outputs()); got != "[x: string[n] y: string[1]] [joined: string[n] both: string[2*n] same: bool[n]]" {
			t.Errorf("the edges are %s", got)
		}
		before := weir.Usage().Tensors
		r := must[*weir.Results](t)(p.Run(t.Context(), in))
		if now := weir.Usage().Tensors; now != before {
			t.Errorf("%d bytes are held for inputs that a run has read", now-before)
		}
		joined := must[[]string](t)(weir.View[string](r.Get("joined")))
		both := must[[]string](t)(weir.Copy[string](r.Get("both")))
		same := must[[]bool](t)(weir.Copy[bool](r.Get("same")))
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		want := []string{"!", "a\xff!", "日本!", "!!"}
		if !slices.Equal(both, append(slices.Clone(want), words...)) ||
			!slices.Equal(same, []bool{false, false, false, true}) {
			t.Errorf("%q, %v", both, same)
		}
		if !slices.Equal(joined, want) { // strings are Go's own: they outlive the results
			t.Errorf("%q", joined)
		}
		memory := must[weir.Measurement](t)(p.Measure(t.Context(), in))
		dims := must[weir.Dims](t)(p.Bind(in))
		for name, v := range memory.Decided {
			dims[name] = v
		}
		if predicted := must[int64](t)(p.Memory().Peak(1, dims)); predicted != memory.Peak(1) && target == weir.Portable {
			t.Errorf("predicted %d bytes, measured %d", predicted, memory.Peak(1))
		}
	}
}

// TestSequences sends sequences and optionals through a program and its artefact.
func TestSequences(t *testing.T) {
	inputs := []*wire.ValueInfoProto{typed("s", sequenceType(tensorType(wire.FloatType))),
		typed("x", tensorType(wire.FloatType, anySize, wire.Size(2))), typed("at", tensorType(wire.Int64Type)),
		typed("o", optionalType(tensorType(wire.FloatType, &wire.Dimension{Param: "k"})))}
	inputs[0].Type.SequenceType.ElemType.TensorType.Shape = nil
	outputs := []*wire.ValueInfoProto{typed("longer", sequenceType(tensorType(wire.FloatType))),
		typed("shorter", sequenceType(tensorType(wire.FloatType))), typed("length", tensorType(wire.Int64Type)),
		typed("same", optionalType(tensorType(wire.FloatType, &wire.Dimension{Param: "k"}))),
		typed("has", tensorType(wire.BoolType))}
	nodes := []*wire.NodeProto{nodeOf("SequenceInsert s,x,at longer"), nodeOf("SequenceErase longer, shorter"),
		nodeOf("SequenceLength longer length"), nodeOf("Identity o same"), nodeOf("OptionalHasElement o has")}
	p := programOf(t, weir.Options{}, inputs, outputs, nodes...)
	if got := fmt.Sprint(p.Inputs()); got != "[s: seq(f32[...]) x: f32[x.0,2] at: i64[] o: optional(f32[k])]" {
		t.Errorf("the inputs are %s", got)
	}
	var file bytesBuffer
	must[int64](t)(p.WriteTo(&file))
	again := must[*weir.Model](t)(weir.LoadBytes(file))
	defer again.Close()
	q := must[*weir.Program](t)(weir.Compile(t.Context(), again, weir.Options{}))
	defer q.Close()
	if a, b := fmt.Sprint(p.Inputs(), p.Outputs()), fmt.Sprint(q.Inputs(), q.Outputs()); a != b {
		t.Errorf("the program takes and gives %s, its artefact %s", a, b)
	}
	a, b := must[*weir.Tensor](t)(weir.FromSlice([]float32{1, 2, 3})),
		must[*weir.Tensor](t)(weir.FromSlice([]float32{4}, 1, 1))
	x := must[*weir.Tensor](t)(weir.FromSlice([]float32{7, 8}, 1, 2))
	show := func(list []*weir.Tensor) (text string) {
		for _, v := range list {
			text += fmt.Sprint(v, must[[]float32](t)(weir.Copy[float32](v)), " ")
		}
		return text
	}
	for _, p := range []*weir.Program{p, q} {
		for _, c := range []struct {
			list  []*weir.Tensor
			at    int64
			given weir.Arg
			want  string
		}{
			{[]*weir.Tensor{a, b}, 1, weir.Absent,
				"f32[3] [1 2 3] f32[1,2] [7 8] f32[1,1] [4] | f32[3] [1 2 3] f32[1,2] [7 8]  | [3] <nil> [false]"},
			{[]*weir.Tensor{a}, -1, a, "f32[1,2] [7 8] f32[3] [1 2 3] | f32[1,2] [7 8]  | [2] f32[3] [true]"},
			{nil, 0, a, "f32[1,2] [7 8] |  | [1] f32[3] [true]"},
		} {
			at := must[*weir.Tensor](t)(weir.FromSlice([]int64{c.at}, []int{}...))
			in := weir.Inputs{"s": weir.Sequence(c.list...), "x": x, "at": at, "o": c.given}
			r := must[*weir.Results](t)(p.Run(t.Context(), in))
			same := "<nil>"
			if v := r.Get("same"); v != nil {
				same = v.String()
			}
			got := fmt.Sprint(strings.TrimRight(show(r.Sequence("longer")), " "), " | ", show(r.Sequence("shorter")), " | ",
				must[[]int64](t)(weir.Copy[int64](r.Get("length"))), " ", same, " ", must[[]bool](t)(weir.Copy[bool](r.Get("has"))))
			if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(c.want), " ") {
				t.Errorf("%s, not %s", got, c.want)
			}
			if r.Get("longer") != nil || r.Sequence("length") != nil || r.Sequence("nothing") != nil ||
				r.Sequence("shorter") == nil {
				t.Error("Get gives a sequence, or Sequence what is none")
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Measure(t.Context(), in); err != nil {
				t.Error(err)
			}
		}
	}
	if u := weir.Usage(); u.Tensors != 0 {
		t.Errorf("%d bytes of tensors are left", u.Tensors)
	}
	for name, bad := range map[string]weir.Inputs{
		"a position outside": {"s": weir.Sequence(a), "x": x,
			"at": must[*weir.Tensor](t)(weir.FromSlice([]int64{5}, []int{}...)), "o": weir.Absent},
		"a tensor":             {"s": a, "x": x, "at": scalarOf(t, 0), "o": weir.Absent},
		"nothing":              {"s": weir.Absent, "x": x, "at": scalarOf(t, 0), "o": weir.Absent},
		"a sequence of others": {"s": weir.Sequence(scalarOf(t, 0)), "x": x, "at": scalarOf(t, 0), "o": weir.Absent},
		"a sequence for one":   {"s": weir.Sequence(), "x": weir.Sequence(x), "at": scalarOf(t, 0), "o": weir.Absent},
		"a sequence with nil":  {"s": weir.Sequence(a, nil), "x": x, "at": scalarOf(t, 0), "o": weir.Absent},
		"another rank":         {"s": weir.Sequence(), "x": x, "at": scalarOf(t, 0), "o": x},
		"nothing at all":       {},
	} {
		if r, err := p.Run(t.Context(), bad); !errors.Is(err, weir.ErrInput) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if _, err := p.NewCall(weir.Dims{}); !errors.Is(err, weir.ErrUnsupported) {
		t.Errorf("a call with a sequence: %v", err)
	}
}

func scalarOf(t testing.TB, v int64) *weir.Tensor {
	return must[*weir.Tensor](t)(weir.FromSlice([]int64{v}, []int{}...))
}

type bytesBuffer []byte

func (b *bytesBuffer) Write(p []byte) (int, error) { *b = append(*b, p...); return len(p), nil }

// TestAbsent reads the element of an optional that has none: at once, in a branch that is taken, and in one that is
// not.
func TestAbsent(t *testing.T) {
	f32 := tensorType(wire.FloatType, wire.Size(2))
	in := []*wire.ValueInfoProto{typed("o", optionalType(f32))}
	out := []*wire.ValueInfoProto{typed("y", f32)}
	get := programOf(t, weir.Options{}, in, out, nodeOf("OptionalGetElement o y"))
	branch := func(name string, nodes ...*wire.NodeProto) *wire.AttributeProto {
		return &wire.AttributeProto{Name: name, Type: wire.AttributeGraph,
			G: &wire.GraphProto{Node: nodes, Output: []*wire.ValueInfoProto{typed("b", f32)}}}
	}
	other := wire.TensorAttribute("value", wire.FromTensor("", tensor.Of[float32](5, 6)))
	guarded := programOf(t, weir.Options{}, in, out, nodeOf("OptionalHasElement o has"),
		nodeOf("If has y", branch("then_branch", nodeOf("OptionalGetElement o b")),
			branch("else_branch", nodeOf("Constant  b", other))))
	x := must[*weir.Tensor](t)(weir.FromSlice([]float32{1, 2}))
	for _, c := range []struct {
		p    *weir.Program
		arg  weir.Arg
		want []float32
	}{{get, x, []float32{1, 2}}, {get, weir.Absent, nil}, {guarded, x, []float32{1, 2}},
		{guarded, weir.Absent, []float32{5, 6}}} {
		r, err := c.p.Run(t.Context(), weir.Inputs{"o": c.arg})
		if c.want == nil {
			if !errors.Is(err, weir.ErrInput) {
				t.Errorf("getting nothing: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := must[[]float32](t)(weir.Copy[float32](r.Get("y"))); !slices.Equal(got, c.want) {
			t.Errorf("%v, not %v", got, c.want)
		}
		r.Close()
	}
}

// TestCompareStrings compares a model of strings with the reference, node by node.
func TestCompareStrings(t *testing.T) {
	m := modelOf(t, []*wire.ValueInfoProto{typed("x", tensorType(wire.StringType, wire.Size(2)))},
		[]*wire.ValueInfoProto{typed("y", sequenceType(tensorType(wire.StringType)))},
		nodeOf("Identity x same"), nodeOf("SequenceConstruct same,x y"))
	defer m.Close()
	d, err := m.Compare(t.Context(), weir.Inputs{"x": must[*weir.Tensor](t)(weir.FromSlice([]string{"a", "b"}))}, 0, 0)
	if d != nil || err != nil {
		t.Errorf("%v, %v", d, err)
	}
}

// TestStoredStrings runs a model whose file stores strings.
func TestStoredStrings(t *testing.T) {
	list := wire.TensorAttribute("value", wire.FromTensor("",
		tensor.Must(tensor.OverStrings([]int64{3}, []string{"zero", "one", "two"}))))
	prog := programOf(t, weir.Options{}, []*wire.ValueInfoProto{typed("i", tensorType(wire.Int64Type, anySize))},
		[]*wire.ValueInfoProto{typed("y", tensorType(wire.StringType))},
		nodeOf("Constant  table", list), nodeOf("Gather table,i y"))
	r := must[*weir.Results](t)(prog.Run(t.Context(),
		weir.Inputs{"i": must[*weir.Tensor](t)(weir.FromSlice([]int64{2, 0, 2}))}))
	defer r.Close()
	if got := must[[]string](t)(weir.Copy[string](r.At(0))); !slices.Equal(got, []string{"two", "zero", "two"}) {
		t.Errorf("%q", got)
	}
}

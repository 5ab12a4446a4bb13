package arguments

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/weirtest"
)

func sequenceType(of *wire.TypeProto) *wire.TypeProto {
	return &wire.TypeProto{SequenceType: &wire.ElementTypeProto{ElemType: of}}
}

func optionalType(of *wire.TypeProto) *wire.TypeProto {
	return &wire.TypeProto{OptionalType: &wire.ElementTypeProto{ElemType: of}}
}

var anySize = &wire.Dimension{}

// TestStrings sends strings through a program, its artefact and the reference.
func TestStrings(t *testing.T) {
	inputs := []*wire.ValueInfoProto{weirtest.Typed("x",
		weirtest.TensorType(wire.StringType, &wire.Dimension{Param: "n"})),
		weirtest.Typed("y", weirtest.TensorType(wire.StringType, wire.Size(1)))}
	outputs := []*wire.ValueInfoProto{weirtest.Typed("joined", weirtest.TensorType(wire.StringType)),
		weirtest.Typed("both", weirtest.TensorType(wire.StringType)), weirtest.Typed("same",
			weirtest.TensorType(wire.BoolType))}
	nodes := []*wire.NodeProto{weirtest.NodeOf("StringConcat x,y joined"),
		weirtest.NodeOf("Concat joined,x both", wire.IntAttribute("axis", 0)), weirtest.NodeOf("Equal x,y same")}
	words := []string{"", "a\xff", "日本", "!"}
	in := weir.Inputs{"x": weirtest.Must[*weir.Tensor](t)(weir.FromSlice(words)),
		"y": weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]string{"!"}))}
	for _, target := range []weir.Target{weir.Portable, weir.Reference} {
		p := weirtest.ProgramOf(t, weir.Options{Target: target}, inputs, outputs, nodes...)
		if got := fmt.Sprint(p.Inputs(),
			p.Outputs()); got != "[x: string[n] y: string[1]] [joined: string[n] both: string[2*n] same: bool[n]]" {
			t.Errorf("the edges are %s", got)
		}
		before := weir.Usage().Tensors
		r := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), in))
		if now := weir.Usage().Tensors; now != before {
			t.Errorf("%d bytes are held for inputs that a run has read", now-before)
		}
		joined := weirtest.View[string](t, r.Get("joined"))
		both := weirtest.Copy[string](t, r.Get("both"))
		same := weirtest.Copy[bool](t, r.Get("same"))
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
		memory := weirtest.Must[weir.Measurement](t)(p.Measure(t.Context(), in))
		dims := weirtest.Must[weir.Dims](t)(p.Bind(in))
		for name, v := range memory.Decided {
			dims[name] = v
		}
		if predicted := weirtest.Must[int64](t)(p.Memory().Peak(1,
			dims)); predicted != memory.Peak(1) && target == weir.Portable {
			t.Errorf("predicted %d bytes, measured %d", predicted, memory.Peak(1))
		}
	}
}

// TestSequences sends sequences and optionals through a program and its artefact.
func TestSequences(t *testing.T) {
	inputs := []*wire.ValueInfoProto{weirtest.Typed("s", sequenceType(weirtest.TensorType(wire.FloatType))),
		weirtest.Typed("x", weirtest.TensorType(wire.FloatType, anySize, wire.Size(2))), weirtest.Typed("at",
			weirtest.TensorType(wire.Int64Type)),
		weirtest.Typed("o", optionalType(weirtest.TensorType(wire.FloatType, &wire.Dimension{Param: "k"})))}
	inputs[0].Type.SequenceType.ElemType.TensorType.Shape = nil
	outputs := []*wire.ValueInfoProto{weirtest.Typed("longer", sequenceType(weirtest.TensorType(wire.FloatType))),
		weirtest.Typed("shorter", sequenceType(weirtest.TensorType(wire.FloatType))), weirtest.Typed("length",
			weirtest.TensorType(wire.Int64Type)),
		weirtest.Typed("same", optionalType(weirtest.TensorType(wire.FloatType, &wire.Dimension{Param: "k"}))),
		weirtest.Typed("has", weirtest.TensorType(wire.BoolType))}
	nodes := []*wire.NodeProto{weirtest.NodeOf("SequenceInsert s,x,at longer"),
		weirtest.NodeOf("SequenceErase longer, shorter"),
		weirtest.NodeOf("SequenceLength longer length"), weirtest.NodeOf("Identity o same"),
		weirtest.NodeOf("OptionalHasElement o has")}
	p := weirtest.ProgramOf(t, weir.Options{}, inputs, outputs, nodes...)
	if got := fmt.Sprint(p.Inputs()); got != "[s: seq(f32[...]) x: f32[x.0,2] at: i64[] o: optional(f32[k])]" {
		t.Errorf("the inputs are %s", got)
	}
	var file bytesBuffer
	weirtest.Must[int64](t)(p.WriteTo(&file))
	again := weirtest.Must[*weir.Model](t)(weir.LoadBytes(file))
	defer again.Close()
	q := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), again, weir.Options{}))
	defer q.Close()
	if a, b := fmt.Sprint(p.Inputs(), p.Outputs()), fmt.Sprint(q.Inputs(), q.Outputs()); a != b {
		t.Errorf("the program takes and gives %s, its artefact %s", a, b)
	}
	a, b := weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]float32{1, 2, 3})),
		weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]float32{4}, 1, 1))
	x := weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]float32{7, 8}, 1, 2))
	show := func(list []*weir.Tensor) (text string) {
		for _, v := range list {
			text += fmt.Sprint(v, weirtest.Copy[float32](t, v), " ")
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
			at := weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]int64{c.at}, []int{}...))
			in := weir.Inputs{"s": weir.Sequence(c.list...), "x": x, "at": at, "o": c.given}
			r := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), in))
			same := "<nil>"
			if v := r.Get("same"); v != nil {
				same = v.String()
			}
			got := fmt.Sprint(strings.TrimRight(show(r.Sequence("longer")), " "), " | ", show(r.Sequence("shorter")),
				" | ",
				weirtest.Copy[int64](t, r.Get("length")), " ", same, " ", weirtest.Copy[bool](t, r.Get("has")))
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
			"at": weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]int64{5}, []int{}...)), "o": weir.Absent},
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
	return weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]int64{v}, []int{}...))
}

type bytesBuffer []byte

func (b *bytesBuffer) Write(p []byte) (int, error) { *b = append(*b, p...); return len(p), nil }

// TestAbsent reads the element of an optional that has none: at once, in a branch that is taken, and in one that is
// not.
func TestAbsent(t *testing.T) {
	f32 := weirtest.TensorType(wire.FloatType, wire.Size(2))
	in := []*wire.ValueInfoProto{weirtest.Typed("o", optionalType(f32))}
	out := []*wire.ValueInfoProto{weirtest.Typed("y", f32)}
	get := weirtest.ProgramOf(t, weir.Options{}, in, out, weirtest.NodeOf("OptionalGetElement o y"))
	branch := func(name string, nodes ...*wire.NodeProto) *wire.AttributeProto {
		return &wire.AttributeProto{Name: name, Type: wire.AttributeGraph,
			G: &wire.GraphProto{Node: nodes, Output: []*wire.ValueInfoProto{weirtest.Typed("b", f32)}}}
	}
	other := wire.TensorAttribute("value", wire.FromTensor("", tensor.Of[float32](5, 6)))
	guarded := weirtest.ProgramOf(t, weir.Options{}, in, out, weirtest.NodeOf("OptionalHasElement o has"),
		weirtest.NodeOf("If has y", branch("then_branch", weirtest.NodeOf("OptionalGetElement o b")),
			branch("else_branch", weirtest.NodeOf("Constant  b", other))))
	x := weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]float32{1, 2}))
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
		if got := weirtest.Copy[float32](t, r.Get("y")); !slices.Equal(got, c.want) {
			t.Errorf("%v, not %v", got, c.want)
		}
		r.Close()
	}
}

// TestCompareStrings compares a model of strings with the reference, node by node.
func TestCompareStrings(t *testing.T) {
	m := weirtest.ModelOf(t,
		[]*wire.ValueInfoProto{weirtest.Typed("x", weirtest.TensorType(wire.StringType, wire.Size(2)))},
		[]*wire.ValueInfoProto{weirtest.Typed("y", sequenceType(weirtest.TensorType(wire.StringType)))},
		weirtest.NodeOf("Identity x same"), weirtest.NodeOf("SequenceConstruct same,x y"))
	defer m.Close()
	d, err := m.Compare(t.Context(),
		weir.Inputs{"x": weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]string{"a", "b"}))}, 0, 0)
	if d != nil || err != nil {
		t.Errorf("%v, %v", d, err)
	}
}

// TestStoredStrings runs a model whose file stores strings.
func TestStoredStrings(t *testing.T) {
	list := wire.TensorAttribute("value", wire.FromTensor("",
		tensor.Must(tensor.OverStrings([]int64{3}, []string{"zero", "one", "two"}))))
	prog := weirtest.ProgramOf(t, weir.Options{},
		[]*wire.ValueInfoProto{weirtest.Typed("i", weirtest.TensorType(wire.Int64Type, anySize))},
		[]*wire.ValueInfoProto{weirtest.Typed("y", weirtest.TensorType(wire.StringType))},
		weirtest.NodeOf("Constant  table", list), weirtest.NodeOf("Gather table,i y"))
	r := weirtest.Must[*weir.Results](t)(prog.Run(t.Context(),
		weir.Inputs{"i": weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]int64{2, 0, 2}))}))
	defer r.Close()
	if got := weirtest.Copy[string](t, r.At(0)); !slices.Equal(got,
		[]string{"two", "zero", "two"}) {
		t.Errorf("%q", got)
	}
}

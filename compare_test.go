package weir_test

import (
	"errors"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
)

// withPass runs f while the compiler has one more pass, after the first.
func withPass(pass func(m *ir.Module) error, f func()) {
	all := compiler.Passes
	defer func() { compiler.Passes = all }()
	compiler.Passes = append(slices.Clone(all[:1:1]), all...)
	compiler.Passes[1].Name, compiler.Passes[1].Run = "wrong", pass
	f()
}

// wrongly is a pass that replaces argmin by argmax if only a reshape reads it.
func wrongly(m *ir.Module) error {
	uses := map[*ir.Value]int{}
	for _, n := range m.Main.Body.Nodes {
		for _, v := range n.Inputs {
			uses[v]++
		}
	}
	for _, v := range m.Main.Body.Results {
		uses[v] += 2
	}
	for _, n := range m.Main.Body.Nodes {
		if n.Op.Name() != "reshape" || n.Inputs[0].Node == nil || n.Inputs[0].Node.Op.Name() != "argmax" ||
			uses[n.Inputs[0]] != 1 {
			continue
		}
		n.Inputs[0].Node.Attrs["smallest"] = false
	}
	return nil
}

// TestCompareHidden finds a pass that goes wrong only if nothing else reads its node, and names the node and those it
// was computed with. The saved model shows the difference again.
func TestCompareHidden(t *testing.T) {
	axis := wire.IntsAttribute("value_ints", 1)
	m := modelOf(t, []*wire.ValueInfoProto{typed("x", tensorType(wire.FloatType, wire.Dim("n"), wire.Size(3)))},
		[]*wire.ValueInfoProto{typed("z", tensorType(wire.Int64Type))},
		nodeOf("Relu x r"), nodeOf("Constant  axis", axis), nodeOf("ArgMin r least", wire.IntAttribute("axis", 1),
			wire.IntAttribute("keepdims", 0)), nodeOf("Unsqueeze least,axis y"), nodeOf("Neg y z"))
	defer m.Close()
	in := weir.Inputs{"x": must[*weir.Tensor](t)(weir.FromSlice([]float32{3, 1, 2, 9, 8, 7}, 2, 3))}
	if d, err := m.Compare(t.Context(), in, 0, 0); d != nil || err != nil {
		t.Fatalf("%v, %v", d, err)
	}
	withPass(wrongly, func() {
		d, err := m.Compare(t.Context(), in, 0, 0)
		if err != nil || d == nil {
			t.Fatalf("%v, %v", d, err)
		}
		if d.Tensor != "y" || d.Op != "Unsqueeze" || !slices.Equal(d.Hidden, []string{"least"}) ||
			!strings.Contains(d.String(), "if least is kept") {
			t.Errorf("%s; hidden: %q", d, d.Hidden)
		}
		dir, err := d.Save(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		alone := must[*weir.Model](t)(weir.Load(filepath.Join(dir, "model.onnx")))
		defer alone.Close()
		if inputs := alone.Inputs(); len(inputs) != 2 || len(alone.Outputs()) != 1 {
			t.Errorf("what was saved takes %v", inputs)
		}
		if _, err := os.Stat(filepath.Join(dir, "test_data_set_0", "input_1.pb")); err != nil {
			t.Error(err)
		}
		r := must[*weir.Tensor](t)(weir.FromSlice([]float32{3, 1, 2, 9, 8, 7}, 2, 3))
		if d, err := alone.Compare(t.Context(), weir.Inputs{"r": r,
			"axis": must[*weir.Tensor](t)(weir.FromSlice([]int64{1}))}, 0, 0); d == nil || err != nil {
			t.Errorf("what was saved does not differ: %v", err)
		}
	})
}

// TestCompareRounding: results that cancel may have the rounding of their terms; an element that is wrong by a
// hundredth of its neighbours is a difference, and so is a wrong zero that only the tiles' algorithm makes, which the
// report says.
func TestCompareRounding(t *testing.T) {
	const channels, size, large, taps = 32, 14, 26, 9
	r := rand.New(rand.NewSource(11))
	convolution := func(w []float32, size int64) *weir.Model {
		g := &wire.GraphProto{Input: []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(1), wire.Size(channels),
			wire.Size(size), wire.Size(size))}, Output: []*wire.ValueInfoProto{{Name: "y"}},
			Node: []*wire.NodeProto{nodeOf("Conv x,w c"), nodeOf("Relu c y")},
			Initializer: []*wire.TensorProto{{Name: "w", DataType: wire.FloatType, Dims: []int64{channels, channels, 3, 3},
				RawData: rawFloats(w)}}}
		return must[*weir.Model](t)(weir.LoadBytes((&wire.ModelProto{IRVersion: 10,
			OpsetImport: []*wire.OperatorSetIDProto{{Version: 22}}, Graph: g}).Marshal()))
	}
	compare := func(m *weir.Model, size int, data []float32, o weir.Options) *weir.Difference {
		t.Helper()
		x := must[*weir.Tensor](t)(weir.FromSlice(data, 1, channels, size, size))
		defer x.Close()
		p := must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
		defer p.Close()
		return must[*weir.Difference](t)(p.Compare(t.Context(), weir.Inputs{"x": x}, 1e-3, 1e-7))
	}
	m := convolution(roughly(r, "normal", channels*channels*taps), size)
	defer m.Close()
	for _, kind := range []string{"wide", "outliers"} {
		if d := compare(m, size, roughly(r, kind, channels*size*size), weir.Options{}); d != nil {
			t.Errorf("%s: %s", kind, d)
		}
	}
	withPass(func(m *ir.Module) error {
		for _, n := range m.Main.Body.Nodes {
			if n.Op.Name() == "convolution" {
				w := n.Inputs[1].Const.Clone()
				w.SetFloat(taps*channels*5+100, w.Float(taps*channels*5+100)+0.2)
				n.Inputs[1].Const = w
			}
		}
		return nil
	}, func() {
		if d := compare(m, size, roughly(r, "normal", channels*size*size), weir.Options{}); d == nil || d.Tensor != "c" ||
			d.Exact {
			t.Errorf("with a wrong weight: %v", d)
		}
	})
	bends, ramp := make([]float32, channels*channels*taps), make([]float32, channels*large*large)
	for filter := range channels {
		copy(bends[filter*channels*taps+3:], []float32{1, -2, 1})
	}
	for row := range channels * large {
		first, slope := r.Intn(1<<21), r.Intn(1<<16)
		for i := range large {
			ramp[row*large+i] = float32(first + i*slope)
		}
	}
	bend := convolution(bends, large)
	defer bend.Close()
	if d := compare(bend, large, ramp, weir.Options{}); d == nil || !d.Exact || !strings.Contains(d.String(), "--exact") {
		t.Errorf("bends of ramps: %v", d)
	}
	if d := compare(bend, large, ramp, weir.Options{Exact: true}); d != nil {
		t.Error(d)
	}
}

// TestReferenceInterprets: the reference's results do not go through any pass, its certificate counts its results
// alone, and options that it cannot keep and artefacts are refused.
func TestReferenceInterprets(t *testing.T) {
	m := modelOf(t, []*wire.ValueInfoProto{typed("x", tensorType(wire.FloatType, wire.Dim("n"), wire.Size(3)))},
		[]*wire.ValueInfoProto{typed("y", tensorType(wire.Int64Type)), typed("where", tensorType(wire.Int64Type))},
		nodeOf("ArgMin x least", wire.IntAttribute("axis", 1), wire.IntAttribute("keepdims", 0)),
		nodeOf("Constant  axis", wire.IntsAttribute("value_ints", 1)), nodeOf("Unsqueeze least,axis y"),
		nodeOf("NonZero x at"), nodeOf("Concat at,at where", wire.IntAttribute("axis", 1)))
	defer m.Close()
	in := weir.Inputs{"x": must[*weir.Tensor](t)(weir.FromSlice([]float32{3, 1, 2, 9, 8, 0}, 2, 3))}
	var stages []string
	o := weir.Options{Target: weir.Reference, Stage: func(name, _ string) { stages = append(stages, name) }}
	withPass(wrongly, func() {
		p := must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
		defer p.Close()
		for _, name := range stages {
			if slices.ContainsFunc(compiler.Passes, func(row compiler.PassRow) bool { return row.Name == name }) {
				t.Errorf("pass %s has run", name)
			}
		}
		r := must[*weir.Results](t)(p.Run(t.Context(), in))
		defer r.Close()
		if y := must[[]int64](t)(weir.Copy[int64](r.Get("y"))); !slices.Equal(y, []int64{1, 2}) {
			t.Errorf("the least are at %v", y)
		}
		if where := r.Get("where"); !slices.Equal(where.Shape(), []int{2, 10}) {
			t.Errorf("%s", where)
		}
		if arena := p.Memory().Arena.String(); arena != "0" || p.Memory().Weights.String() != "0" {
			t.Errorf("the certificate: %s", p.Memory())
		}
		if _, err := p.WriteTo(io.Discard); !errors.Is(err, weir.ErrUnsupported) {
			t.Errorf("an artefact of the reference: %v", err)
		}
	})
	for _, o := range []weir.Options{{Budget: 1 << 30}, {Precision: weir.BF16}, {Precision: weir.I8}} {
		o.Target = weir.Reference
		if _, err := weir.Compile(t.Context(), m, o); !errors.Is(err, weir.ErrUnsupported) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

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
	"github.com/weirml/weir/internal/weirtest"
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
	m := weirtest.ModelOf(t,
		[]*wire.ValueInfoProto{weirtest.Typed("x", weirtest.TensorType(wire.FloatType, wire.Dim("n"), wire.Size(3)))},
		[]*wire.ValueInfoProto{weirtest.Typed("z", weirtest.TensorType(wire.Int64Type))},
		weirtest.NodeOf("Relu x r"), weirtest.NodeOf("Constant  axis", axis), weirtest.NodeOf("ArgMin r least",
			wire.IntAttribute("axis", 1),
			wire.IntAttribute("keepdims", 0)), weirtest.NodeOf("Unsqueeze least,axis y"), weirtest.NodeOf("Neg y z"))
	defer m.Close()
	in := weir.Inputs{"x": weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]float32{3, 1, 2, 9, 8, 7}, 2, 3))}
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
		alone := weirtest.Must[*weir.Model](t)(weir.Load(filepath.Join(dir, "model.onnx")))
		defer alone.Close()
		if inputs := alone.Inputs(); len(inputs) != 2 || len(alone.Outputs()) != 1 {
			t.Errorf("what was saved takes %v", inputs)
		}
		if _, err := os.Stat(filepath.Join(dir, "test_data_set_0", "input_1.pb")); err != nil {
			t.Error(err)
		}
		r := weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]float32{3, 1, 2, 9, 8, 7}, 2, 3))
		if d, err := alone.Compare(t.Context(), weir.Inputs{"r": r,
			"axis": weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]int64{1}))}, 0, 0); d == nil || err != nil {
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
			Node: []*wire.NodeProto{weirtest.NodeOf("Conv x,w c"), weirtest.NodeOf("Relu c y")},
			Initializer: []*wire.TensorProto{{Name: "w", DataType: wire.FloatType,
				Dims:    []int64{channels, channels, 3, 3},
				RawData: weirtest.RawFloats(w)}}}
		return weirtest.Must[*weir.Model](t)(weir.LoadBytes((&wire.ModelProto{IRVersion: 10,
			OpsetImport: []*wire.OperatorSetIDProto{{Version: 22}}, Graph: g}).Marshal()))
	}
	compare := func(m *weir.Model, size int, data []float32, o weir.Options) *weir.Difference {
		t.Helper()
		x := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(data, 1, channels, size, size))
		defer x.Close()
		p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
		defer p.Close()
		return weirtest.Must[*weir.Difference](t)(p.Compare(t.Context(), weir.Inputs{"x": x}, 1e-3, 1e-7))
	}
	m := convolution(weirtest.Roughly(r, "normal", channels*channels*taps), size)
	defer m.Close()
	for _, kind := range []string{"wide", "outliers"} {
		if d := compare(m, size, weirtest.Roughly(r, kind, channels*size*size), weir.Options{}); d != nil {
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
		if d := compare(m, size, weirtest.Roughly(r, "normal", channels*size*size),
			weir.Options{}); d == nil || d.Tensor != "c" ||
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
	if d := compare(bend, large, ramp, weir.Options{}); d == nil || !d.Exact || !strings.Contains(d.String(),
		"--exact") {
		t.Errorf("bends of ramps: %v", d)
	}
	if d := compare(bend, large, ramp, weir.Options{Exact: true}); d != nil {
		t.Error(d)
	}
}

// TestReferenceInterprets: the reference's results do not go through any pass, its certificate counts its results
// alone, and options that it cannot keep and artefacts are refused.
func TestReferenceInterprets(t *testing.T) {
	m := weirtest.ModelOf(t,
		[]*wire.ValueInfoProto{weirtest.Typed("x", weirtest.TensorType(wire.FloatType, wire.Dim("n"), wire.Size(3)))},
		[]*wire.ValueInfoProto{weirtest.Typed("y", weirtest.TensorType(wire.Int64Type)),
			weirtest.Typed("where", weirtest.TensorType(wire.Int64Type))},
		weirtest.NodeOf("ArgMin x least", wire.IntAttribute("axis", 1), wire.IntAttribute("keepdims", 0)),
		weirtest.NodeOf("Constant  axis",
			wire.IntsAttribute("value_ints", 1)), weirtest.NodeOf("Unsqueeze least,axis y"),
		weirtest.NodeOf("NonZero x at"), weirtest.NodeOf("Concat at,at where", wire.IntAttribute("axis", 1)))
	defer m.Close()
	in := weir.Inputs{"x": weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]float32{3, 1, 2, 9, 8, 0}, 2, 3))}
	var stages []string
	o := weir.Options{Target: weir.Reference, Stage: func(name, _ string) { stages = append(stages, name) }}
	withPass(wrongly, func() {
		p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
		defer p.Close()
		for _, name := range stages {
			if slices.ContainsFunc(compiler.Passes, func(row compiler.PassRow) bool { return row.Name == name }) {
				t.Errorf("pass %s has run", name)
			}
		}
		r := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), in))
		defer r.Close()
		if y := weirtest.Copy[int64](t, r.Get("y")); !slices.Equal(y, []int64{1, 2}) {
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

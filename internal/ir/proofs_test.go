package ir

import (
	"math"
	"math/rand"
	"os"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

func init() {
	Register(&toy{"pack", func(_ *Inference, n *Node) error {
		t := n.Inputs[0].Type
		t.Layout = nil
		if axes := n.Attrs.Ints("axes"); len(axes) > 0 {
			t.Layout = &Layout{Block: n.Attrs.Ints("block")}
			for _, a := range axes {
				t.Layout.Axes = append(t.Layout.Axes, int(a))
			}
		}
		n.Result(0, t)
		return nil
	}, func(_ *Evaluation, _ *Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return in, nil }})
	Register(&toy{"quantise", func(_ *Inference, n *Node) error {
		scale, _ := n.Attrs["scale"].([]float64)
		n.Result(0, Type{DType: dtype.U8, Shape: n.Inputs[0].Type.Shape,
			Quant: &Quant{Real: n.Inputs[0].Type.DType, Axis: int(n.Attrs.Int("axis", -1)), Scale: scale, Zero: n.Attrs.Ints("zero")}})
		return nil
	}, func(_ *Evaluation, n *Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		q := n.Outputs[0].Type.Quant
		out, err := tensor.New(n.Outputs[0].Type.DType, in[0].Shape()...)
		for i := int64(0); err == nil && i < out.Len(); i++ {
			out.SetInt(i, int64(math.RoundToEven(in[0].Float(i)/q.Scale[0]))+q.Zero[0])
		}
		return []*tensor.Tensor{out}, err
	}})
	Register(&toy{"dequantise", func(_ *Inference, n *Node) error {
		n.Result(0, Type{DType: n.Inputs[0].Type.Quant.Real, Shape: n.Inputs[0].Type.Shape})
		return nil
	}, func(_ *Evaluation, n *Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		q := n.Inputs[0].Type.Quant
		out, err := tensor.New(q.Real, in[0].Shape()...)
		if err != nil {
			return nil, err
		}
		flat := int64(0)
		tensor.Each(in[0].Shape(), func(at []int64) {
			k := int64(0)
			if q.Axis >= 0 {
				k = at[q.Axis]
			}
			out.SetFloat(flat, float64(in[0].Int(flat)-q.Zero[k])*q.Scale[k])
			flat++
		})
		return []*tensor.Tensor{out}, nil
	}})
}

// TestTypes runs testdata/proofs/types.weir.
func TestTypes(t *testing.T) {
	source, err := os.ReadFile("testdata/proofs/types.weir")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Parse(string(source), ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(m.String(), ParseOptions{})
	if err != nil || again.String() != m.String() {
		t.Fatalf("%v\n%s", err, m)
	}
	if err := Verify(again); err != nil {
		t.Fatal(err)
	}
	x := tensor.Must(tensor.FromSlice([]float32{0, 0.1, -0.3, 1, 5.01, -2, 3, 3.06, 3.07, 100, -100, 0.125}, 2, 6))
	out, err := Evaluate(again, []*tensor.Tensor{x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// To eighths, from −16 to 15.875; u8 wraps what lies outside: 100 is 928 − 768 = 160, −100 is −672 + 768 = 96.
	want := tensor.Must(tensor.FromSlice([]float32{0, 0.125, -0.25, 1, 5, -2, 3, 3, 3.125, 4, -4, 0.125}, 2, 6))
	if err := tensor.Compare(out[0], want, 0, 0); err != nil {
		t.Error(err)
	}
	want = tensor.Must(tensor.FromSlice([]float32{1, 0.5, 2, 4, 8, 8}, 1, 6))
	if err := tensor.Compare(out[1], want, 0, 0); err != nil {
		t.Error(err)
	}
	v := again.Main.Body.Nodes[3].Outputs[0]
	if got := literalShape(v.Type.Layout.Physical(v.Type.Shape)); !slices.Equal(got, []string{"2", "n", "4"}) {
		t.Errorf("%s lies in %v", v.Type, got)
	}
}

func literalShape(shape []sym.Expr) []string {
	var out []string
	for _, e := range shape {
		out = append(out, e.String())
	}
	return out
}

// TestLayout: every element of a value has a place of its own within the physical extents, and the places of blocks whose axis they divide are all taken.
func TestLayout(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 200 {
		shape := []int64{1 + r.Int63n(9), 1 + r.Int63n(9), 1 + r.Int63n(5)}
		l := &Layout{}
		for _, axis := range r.Perm(3) {
			block := []int64{1, 2, 4, 8}[r.Intn(4)]
			l.Axes, l.Block = append(l.Axes, axis), append(l.Block, block)
		}
		for i, axis := range slices.Clone(l.Axes) {
			if block := l.Block[i]; block > 2 && r.Intn(2) == 0 {
				l.Axes, l.Block = append(l.Axes, axis, axis), append(l.Block, 2, 1)
			} else if block > 1 {
				l.Axes, l.Block = append(l.Axes, axis), append(l.Block, 1)
			}
		}
		typ := Type{DType: dtype.F32, Shape: Constants(shape), Layout: l}
		if err := typ.annotations(); err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		size, filled := int64(1), int64(1)
		var extents []int64
		for _, e := range l.Physical(typ.Shape) {
			x, _ := e.Const()
			extents, size = append(extents, x), size*x
		}
		for axis, extent := range shape {
			largest := int64(1)
			for i, a := range l.Axes {
				if a == axis {
					largest = max(largest, l.Block[i])
				}
			}
			filled *= (extent + largest - 1) / largest * largest
		}
		if size != filled {
			t.Fatalf("%s takes %d places, blocks %d", typ, size, filled)
		}
		taken := map[int64]bool{}
		tensor.Each(shape, func(at []int64) {
			where := l.Position(at)
			for i, x := range where {
				if x < 0 || x >= extents[i] {
					t.Fatalf("%s: %v lies at %v of %v", typ, at, where, extents)
				}
			}
			flat := tensor.Offset(tensor.Strides(extents), where)
			if taken[flat] {
				t.Fatalf("%s: %v lies where another does", typ, at)
			}
			taken[flat] = true
		})
	}
}

package nn_test

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
)

// TestTiedTable: a linear layer whose weight is tied to an embedding's table, which has its axes in the opposite order,
// computes with the table: at once, in derivatives, from a safetensors file and as an ONNX model.
func TestTiedTable(t *testing.T) {
	net := nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, nn.NoBias))
	s, p := open(t, net)
	if err := p.Tie("1.weight", "0.weight"); err != nil {
		t.Fatal(err)
	}
	if got := p.Names(); !slices.Equal(got, []string{"0.weight"}) || p.Bytes() != 60 {
		t.Errorf("%v, %d bytes", got, p.Bytes())
	}
	ids := array.From(s, []int64{4, 1})
	want := func() []float32 {
		w := elements(t, p.Get("0.weight"))
		out := make([]float32, 10)
		for i, id := range []int{4, 1} {
			for o := range 5 {
				for k := range 3 {
					out[i*5+o] += w[id*3+k] * w[o*3+k]
				}
			}
		}
		return out
	}
	check := func(what string, got []float32) {
		t.Helper()
		for i, v := range want() {
			if d := got[i] - v; d > 1e-5 || d < -1e-5 {
				t.Fatalf("%s: element %d is %v, not %v", what, i, got[i], v)
			}
		}
	}
	y, err := nn.Predict(s, net, p, ids)
	if err != nil {
		t.Fatal(err)
	}
	check("at once", elements(t, y))
	// The two uses have one derivative, in the table's layout.
	grad := array.Grad(func(s *array.Scope, in ...*array.Array) []*array.Array {
		c := nn.Inference(s, p)
		c.Bind("0.weight", in[0])
		return []*array.Array{s.Sum(nn.One(c, net, ids))}
	})(s, p.Get("0.weight"))
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	w, g := elements(t, p.Get("0.weight")), elements(t, grad[0])
	for row := range 5 {
		for k := range 3 {
			sum := w[4*3+k] + w[1*3+k] // as the linear layer's weight
			if row == 4 || row == 1 {
				for o := range 5 {
					sum += w[o*3+k]
				}
			}
			if d := g[row*3+k] - sum; d > 1e-5 || d < -1e-5 {
				t.Fatalf("the derivative by element %d, %d is %v, not %v", row, k, g[row*3+k], sum)
			}
		}
	}
	// A file that PyTorch writes contains the weight twice; this file contains it once.
	var file bytes.Buffer
	if err := p.WriteSafetensors(&file); err != nil {
		t.Fatal(err)
	}
	q := nn.Init(net, 9)
	defer q.Close()
	if err := q.ReadSafetensors(bytes.NewReader(file.Bytes())); err == nil {
		t.Error("a store without the tie takes a file of one weight")
	}
	if err := q.Tie("1.weight", "0.weight"); err != nil {
		t.Fatal(err)
	}
	if err := q.ReadSafetensors(&file); err != nil {
		t.Fatal(err)
	}
	if y, err = nn.Predict(s, net, q, ids); err != nil {
		t.Fatal(err)
	}
	check("read", elements(t, y))
	var model bytes.Buffer
	if err := nn.WriteONNX(&model, net, p, array.SpecOf("ids", weir.I64, "batch")); err != nil {
		t.Fatal(err)
	}
	check("as ONNX", run(t, model.Bytes(), "ids", ids))
}

// run compiles and runs an ONNX model of one input, and returns its first output.
func run(t *testing.T, model []byte, name string, x *array.Array) []float32 {
	t.Helper()
	m, err := weir.LoadBytes(model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(context.Background(), m, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r, err := p.Run(context.Background(), weir.Inputs{name: x.Tensor()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out, err := weir.Copy[float32](r.At(0))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// odd is a layer whose parameters have names that WriteONNX gives to inputs and results.
type odd struct{ nothing int }

// Declare declares y0, the factor, and x0, the summand.
func (*odd) Declare(d *nn.Declaration) {
	d.Param("y0", weir.F32, nn.Constant(2), 1)
	d.Param("x0", weir.F32, nn.Constant(3), 1)
}

func (*odd) Apply(c *nn.Context, x ...*array.Array) []*array.Array {
	return []*array.Array{c.Add(c.Mul(x[0], c.Param("y0")), c.Param("x0"))}
}

// TestONNXNames: a network whose parameters have the names of an input and a result is written as a model that computes
// its results.
func TestONNXNames(t *testing.T) {
	s, p := open(t, &odd{})
	var model bytes.Buffer
	if err := nn.WriteONNX(&model, &odd{}, p, array.SpecOf("", weir.F32, "batch")); err != nil {
		t.Fatal(err)
	}
	if got := run(t, model.Bytes(), "x0", array.From(s, []float32{1, 2})); !slices.Equal(got, []float32{5, 7}) {
		t.Error(got)
	}
}

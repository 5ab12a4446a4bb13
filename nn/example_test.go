package nn_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
)

// A network is made of layers, its parameters are in a store, and its results belong to the scope in which it runs.
func Example() {
	net := nn.Sequential(nn.Linear(4, 8), nn.Relu, nn.Linear(8, 3))
	p := nn.Init(net, 7)
	defer p.Close()
	s := array.NewScope("batch")
	defer s.Close()
	y, err := nn.Predict(s, net, p, s.Ones(weir.F32, 2, 4))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(y, p.Names(), p.Count())
	// Output: f32[2,3] [0.weight 0.bias 2.weight 2.bias] 67
}

// scaled is a custom layer: it multiplies its input by a parameter.
type scaled struct{ extent int }

func (l *scaled) Declare(d *nn.Declaration) {
	d.Param("gain", weir.F32, nn.Constant(2), l.extent)
}

func (l *scaled) Apply(c *nn.Context, x ...*array.Array) []*array.Array {
	return []*array.Array{c.Mul(x[0], c.Param("gain"))}
}

// A custom layer declares its parameters and computes with them.
func ExampleLayer() {
	net := nn.Sequential(&scaled{2}, nn.Relu)
	p := nn.Init(net, 7)
	defer p.Close()
	s := array.NewScope("batch")
	defer s.Close()
	y, err := nn.Predict(s, net, p, array.From(s, []float32{1, -1, 3, 4}, 2, 2))
	if err != nil {
		log.Fatal(err)
	}
	list, err := array.Copy[float32](y)
	fmt.Println(list, err, p.Names())
	// Output: [2 0 6 8] <nil> [0.gain]
}

// Parameters are written as PyTorch writes a module's, and read into any store of the same network.
func ExampleParams_WriteSafetensors() {
	net := nn.Linear(3, 2)
	p, q := nn.Init(net, 1), nn.Init(net, 2)
	defer p.Close()
	defer q.Close()
	var file bytes.Buffer
	if err := p.WriteSafetensors(&file); err != nil {
		log.Fatal(err)
	}
	if err := q.ReadSafetensors(&file); err != nil {
		log.Fatal(err)
	}
	a, _ := array.Copy[float32](p.Get("bias"))
	b, _ := array.Copy[float32](q.Get("bias"))
	fmt.Println(a[0] == b[0], a[1] == b[1])
	// Output: true true
}

// A trained network becomes an ONNX model; extents that have names stay open.
func ExampleWriteONNX() {
	net := nn.Sequential(nn.Linear(4, 8), nn.Gelu, nn.Linear(8, 3))
	p := nn.Init(net, 7)
	defer p.Close()
	var file bytes.Buffer
	if err := nn.WriteONNX(&file, net, p, array.SpecOf("x", weir.F32, "batch", 4)); err != nil {
		log.Fatal(err)
	}
	m, err := weir.LoadBytes(file.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	fmt.Println(m.Inputs()[0], m.Outputs()[0])
	// Output: x: f32[batch,4] y0: f32[batch,3]
}

// Freeze excludes parameters from training; Tie makes two parameters one.
func ExampleParams_Tie() {
	net := nn.Sequential(nn.Embedding(100, 16), nn.Linear(16, 16), nn.Linear(16, 100, nn.NoBias))
	p := nn.Init(net, 7)
	defer p.Close()
	if err := p.Tie("2.weight", "0.weight"); err != nil {
		log.Fatal(err)
	}
	if err := p.Freeze("0.*"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Names(), p.Trainable())
	// Output: [0.weight 1.weight 1.bias] [1.weight 1.bias]
}

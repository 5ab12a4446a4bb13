package array_test

import (
	"fmt"
	"log"
	"os"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// A scope owns the results of its operations; Close frees them all, and returns the first error of any operation.
func ExampleScope() {
	s := array.NewScope("example")
	x := array.From(s, []float32{1, 2, 3, 4}, 2, 2)
	y := s.Relu(s.Add(s.MatMul(x, x), s.Number(-8)))
	list, err := array.Copy[float32](y)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(y, list)
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: f32[2,2] [0 2 7 14]
}

// A function computes in a scope of its own and returns its result to the caller's scope; its temporary arrays are
// freed.
func ExampleScope_Return() {
	outer := array.NewScope("outer")
	defer outer.Close()
	normalised := func(parent *array.Scope, x *array.Array) *array.Array {
		s := array.NewScope("normalised", array.In(parent))
		defer s.Close()
		centred := s.Sub(x, s.Mean(x))
		return s.Return(s.Div(centred, s.Sqrt(s.Mean(s.Square(centred)))))
	}
	y := normalised(outer, array.From(outer, []float32{1, 3}))
	list, err := array.Copy[float32](y)
	fmt.Println(list, err, outer.Count(), "arrays")
	// Output: [-1 1] <nil> 2 arrays
}

// An array that is lent cannot be closed under whoever uses it.
func ExampleScope_Lend() {
	model, request := array.NewScope("model"), array.NewScope("request")
	w := model.Ones(weir.F32, 3)
	model.Lend(w, request)
	fmt.Println("closed too early:", model.Close() != nil)
	request.Sum(w)
	fmt.Println(request.Close(), model.Close())
	// Output:
	// closed too early: true
	// <nil> <nil>
}

// Jit compiles a function into one program, with its memory as a formula in n.
func ExampleJit() {
	c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.Softmax(s.MatMul(in[0], in[1]), -1)}
	}, array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, "n", 2), array.SpecOf("w", weir.F32, 2, 2)}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	s := array.NewScope("call")
	defer s.Close()
	y := c.Call(s, s.Zeros(weir.F32, 3, 2), s.Ones(weir.F32, 2, 2))[0]
	list, err := array.Copy[float32](y)
	fmt.Println(y, list, err, "outputs:", c.Memory().Outputs)
	// Output: f32[3,2] [0.5 0.5 0.5 0.5 0.5 0.5] <nil> outputs: 8*n
}

// With States, a compiled function updates arrays in place: a step of an optimiser.
func ExampleJit_states() {
	loss := func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.Sum(s.Square(s.Sub(in[0], in[1])))}
	}
	step, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		out := array.ValueAndGrad(loss)(s, in...) // the loss, and its derivatives by w and by the target
		return []*array.Array{out[0], s.Sub(in[0], s.Mul(s.Number(0.25), out[1]))}
	}, array.Options{Inputs: []array.Spec{array.SpecOf("w", weir.F32, 2), array.SpecOf("target", weir.F32, 2)},
		States: map[int]int{0: 1}})
	if err != nil {
		log.Fatal(err)
	}
	defer step.Close()
	s := array.NewScope("training")
	defer s.Close()
	w, target := s.Zeros(weir.F32, 2), array.From(s, []float32{4, 8})
	for range 3 {
		step.Call(s, w, target)
	}
	list, err := array.Copy[float32](w)
	fmt.Println(list, err)
	// Output: [3.5 7] <nil>
}

// Grad gives the function that computes derivatives; applied twice, second ones.
func ExampleGrad() {
	cube := func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.Sum(s.Mul(in[0], s.Square(in[0])))}
	}
	slope := array.Grad(cube)
	bend := array.Grad(func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.Sum(slope(s, in...)[0])}
	})
	s := array.NewScope("example")
	defer s.Close()
	x := array.From(s, []float32{1, 2})
	first, err := array.Copy[float32](slope(s, x)[0])
	if err != nil {
		log.Fatal(err)
	}
	second, err := array.Copy[float32](bend(s, x)[0])
	fmt.Println(first, second, err)
	// Output: [3 12] [6 12] <nil>
}

// Dump shows the arrays and loans of all open scopes.
func ExampleScope_Dump() {
	s := array.NewScope("model")
	defer s.Close()
	s.Zeros(weir.F32, 1000)
	if err := s.Dump(os.Stderr); err != nil {
		log.Fatal(err)
	}
	stats := s.Stats()
	fmt.Println(stats.Name, stats.Bytes, stats.Arrays[0].Count, stats.Arrays[0].Type)
	// Output: model 4000 1 f32[1000]
}

// ExampleApart computes a function's forward and backward passes separately: backward consumes the arrays that forward
// saves.
func ExampleApart() {
	pair, err := array.Apart(func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.Sum(s.Square(s.MatMul(in[0], in[1])))}
	}, 0, array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, "batch", 2), array.SpecOf("w", weir.F32, 2, 3)}})
	if err != nil {
		log.Fatal(err)
	}
	defer pair.Close()
	s := array.NewScope("step")
	defer s.Close()
	_, bytes := pair.Saves()
	out, saved := pair.Forward(s, array.From(s, []float32{1, 2}, 1, 2), s.Ones(weir.F32, 2, 3))
	grads := saved.Backward(s)
	loss, err := array.Item[float32](out[0])
	if err != nil {
		log.Fatal(err)
	}
	dx, err := array.Copy[float32](grads[0])
	fmt.Println("saved", bytes, "bytes; loss", loss, "dx", dx, err)
	// Output: saved 12*batch bytes; loss 27 dx [18 18] <nil>
}

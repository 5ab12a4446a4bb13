package weir_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weirml/weir"
)

// The backward half of training consumes the tensors that the forward half keeps for it: their memory, and the forward
// program's call, are free again after they have been read.
func ExampleConsume() {
	forward, backward := compiled("training_forward"), compiled("training_backward")
	defer forward.Close()
	defer backward.Close()
	x, y, w0, w1, w2 := ones(4, 16), ones(4, 16), ones(16, 16), ones(16, 16), ones(16, 16)
	for range 3 { // each program has one call
		kept, err := forward.Run(context.Background(), weir.Inputs{"x": x, "w0": w0, "w1": w1, "w2": w2})
		if err != nil {
			log.Fatal(err)
		}
		h1, h2, h3 := kept.Get("h1"), kept.Get("h2"), kept.Get("h3")
		updated, err := backward.Run(context.Background(), weir.Inputs{"x": x, "y": y, "h1": weir.Consume(h1),
			"h2": weir.Consume(h2), "h3": weir.Consume(h3), "w0": w0, "w1": w1, "w2": w2})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(updated.Get("u0"), h1.Bytes() == nil)
		updated.Close()
	}
	// Output:
	// f32[16,16] true
	// f32[16,16] true
	// f32[16,16] true
}

// A state is updated in place: the tensor that the run updates is the next run's argument.
func ExampleUpdate() {
	m, err := weir.LoadBytes([]byte(`weir 1
ir @count {
  main @main(%x: f32[3], %sum: f32[3]) {
    state %sum -> %total
    %total: f32[3] = add(%sum, %x)
    return %total
  }
}`))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(context.Background(), m, weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	total := []float32{100, 200, 300}
	sum, err := weir.FromSlice(total)
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		r, err := p.Run(context.Background(), weir.Inputs{"x": ones(3), "sum": weir.Update(sum)})
		if err != nil {
			log.Fatal(err)
		}
		r.Close()
	}
	fmt.Println(total, "outputs:", p.Memory().Outputs, "bytes")
	// Output: [103 203 303] outputs: 0 bytes
}

// Weights that are donated to a training step are updated in place, step after step.
func ExampleDonate() {
	step := compiled("training_step")
	defer step.Close()
	in := weir.Inputs{"x": ones(4, 16), "y": ones(4, 16)}
	for i := range 8 {
		in[fmt.Sprintf("w%d", i)] = donated(16, 16)
	}
	for i := range 3 {
		r, err := step.Run(context.Background(), in)
		if err != nil {
			log.Fatal(err)
		}
		if i == 2 {
			r.Close()
			break
		}
		for i := range 8 {
			in[fmt.Sprintf("w%d", i)] = weir.Donate(r.Get(fmt.Sprintf("u%d", i)))
		}
		r.Get("loss").Close() // after its last tensor is donated or closed, a result gives its call back
	}
	lent := step.Memory()
	donated, err := lent.Donating("w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("outputs:", lent.Outputs, "bytes, with donated weights", donated.Outputs)
	// Output: outputs: 8196 bytes, with donated weights 4
}

// A call whose outputs are bound to the caller's tensors takes no memory for them. A weight that is bound to an input
// and to an output is updated in place.
func ExampleCall_Bind() {
	program := compiled("training_step")
	defer program.Close()
	call, err := program.NewCall(weir.Dims{"n": 4})
	if err != nil {
		log.Fatal(err)
	}
	defer call.Close()
	bind := func(name string, t *weir.Tensor) {
		if err := call.Bind(name, t); err != nil {
			log.Fatal(err)
		}
	}
	bind("x", ones(4, 16))
	bind("y", ones(4, 16))
	for i := range 8 {
		w := ones(16, 16)
		bind(fmt.Sprintf("w%d", i), w)
		bind(fmt.Sprintf("u%d", i), w)
	}
	for range 3 {
		if err := call.Run(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(call.Output("u0") == call.Input("w0"))
	// Output: true
}

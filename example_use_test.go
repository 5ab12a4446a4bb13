package weir_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"

	"github.com/weirml/weir"
)

// pictures returns inputs of blank pictures for the digits model.
func pictures(count int) weir.Inputs {
	image, err := weir.FromSlice(make([]float32, count*64), count, 1, 8, 8)
	if err != nil {
		log.Fatal(err)
	}
	return weir.Inputs{"image": image}
}

// One program runs every size of its free dimensions: nothing is compiled again.
func Example_dynamicBatch() {
	program := open(weir.Options{Dims: map[string]weir.Range{"batch": {Min: 1, Max: 64}}})
	defer program.Close()
	for _, size := range []int{1, 3, 20} {
		results, err := program.Run(context.Background(), pictures(size))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(results.Get("scores"))
		results.Close()
	}
	_, err := program.Run(context.Background(), pictures(65))
	fmt.Println(errors.Is(err, weir.ErrInput))
	// Output:
	// f32[1,10]
	// f32[3,10]
	// f32[20,10]
	// true
}

// budget is an account with a fixed number of bytes, which refuses instead of waiting.
type budget struct{ left atomic.Int64 }

func (b *budget) Take(_ context.Context, bytes int64) error {
	if b.left.Add(-bytes) < 0 {
		b.left.Add(bytes)
		return fmt.Errorf("%d bytes, and there is no room", bytes)
	}
	return nil
}

func (b *budget) Give(bytes int64) { b.left.Add(bytes) }

// An account is asked before a program takes memory, and gets all of it back.
func ExampleAccount() {
	account := &budget{}
	account.left.Store(1 << 20)
	program := open(weir.Options{Threads: 1, Account: account})
	small, err := program.Run(context.Background(), pictures(1))
	if err != nil {
		log.Fatal(err)
	}
	small.Close()
	_, err = program.Run(context.Background(), pictures(1000))
	fmt.Println(errors.Is(err, weir.ErrMemory))
	program.Close()
	fmt.Println(account.left.Load() == 1<<20)
	// Output:
	// true
	// true
}

// Rows tells whether requests may be joined into one run.
func ExampleProgram_Rows() {
	program := open(weir.Options{})
	defer program.Close()
	fmt.Println(program.Rows("batch"))
	fmt.Println(program.Rows("time"))
	// Output:
	// <nil>
	// dimension time: it is not the first axis of an input
}

// Trim releases the memory of calls that no run uses. The next run makes a call again.
func ExampleProgram_Trim() {
	program := open(weir.Options{Threads: 1})
	defer program.Close()
	results, err := program.Run(context.Background(), pictures(4))
	if err != nil {
		log.Fatal(err)
	}
	results.Close()
	bytes, err := program.Trim()
	if err != nil {
		log.Fatal(err)
	}
	call, err := program.Memory().Call(weir.Dims{"batch": 4})
	fmt.Println(bytes == call, err)
	// Output: true <nil>
}

// Any number of goroutines share a program. Options.Calls of their runs are active at once, and the others wait.
func Example_concurrentCalls() {
	program := open(weir.Options{Calls: 2, Threads: 1})
	defer program.Close()
	var done atomic.Int64
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			results, err := program.Run(context.Background(), pictures(4))
			if err != nil {
				log.Fatal(err)
			}
			defer results.Close()
			done.Add(1)
		})
	}
	wait.Wait()
	peak, err := program.Memory().Peak(2, weir.Dims{"batch": 4})
	if err != nil {
		log.Fatal(err)
	}
	stats := program.Stats()
	fmt.Println(done.Load(), "runs; held no more than was certified for two:", stats.Bytes <= peak)
	// Output: 8 runs; held no more than was certified for two: true
}

// The peak is a formula over the model's dimensions, which can be evaluated elsewhere too.
func ExampleMemory_Formula() {
	program := open(weir.Options{Threads: 1, Target: weir.Portable,
		Dims: map[string]weir.Range{"batch": {Min: 64, Max: 1024}}})
	defer program.Close()
	memory := program.Memory()
	fmt.Println(memory.Formula(1))
	fmt.Println(memory.Formula(4))
	most, err := memory.Max(4)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(most, "bytes at most")
	// Output:
	// 10280*batch + 209480
	// 41120*batch + 649352
	// 42756232 bytes at most
}

// One number bounds the memory that the process holds outside Go's heap: the need of a program from its load to its
// last run.
func ExampleMemory_Limit() {
	program := open(weir.Options{Calls: 4, Dims: map[string]weir.Range{"batch": {Min: 1, Max: 64}}})
	limit, err := program.Memory().Limit(4)
	program.Close()
	if err != nil {
		log.Fatal(err)
	}
	weir.Trim()
	held := weir.Usage().Held // by other users in this process, with the memory that their pools cannot give back
	defer weir.SetLimit(weir.SetLimit(held + limit))
	program = open(weir.Options{Calls: 4, Dims: map[string]weir.Range{"batch": {Min: 1, Max: 64}}})
	defer program.Close()
	results, err := program.Run(context.Background(), pictures(64))
	if err != nil {
		log.Fatal(err)
	}
	defer results.Close()
	fmt.Println("within the limit:", weir.Usage().Held <= held+limit)
	// Output: within the limit: true
}

// A budget below the unconstrained peak changes the plan; a budget that no plan keeps is refused with one that works.
func ExampleProgram_Savings() {
	model, err := weir.Load("testdata/onnx/tied_table/model.onnx")
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	within := weir.Options{Budget: 1000, Threads: 1, CPU: "portable", Dims: map[string]weir.Range{"n": {Min: 40, Max: 40}}}
	_, err = weir.Compile(context.Background(), model, within)
	var refused *weir.Error
	if !errors.Is(err, weir.ErrBudget) || !errors.As(err, &refused) {
		log.Fatal(err)
	}
	within.Budget = refused.Budget
	program, err := weir.Compile(context.Background(), model, within)
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	for _, s := range program.Savings() {
		fmt.Println(s.Kind, s.Tensor)
	}
	peak, err := program.Memory().Peak(1, nil)
	fmt.Println(err == nil && peak <= refused.Budget)
	// Output:
	// batch rows.1
	// page down
	// page table
	// page up
	// true
}

// An imported model does not say which inputs are states from run to run: its caller does.
func ExampleOptions_states() {
	model, err := weir.LoadBytes([]byte(`weir 1
ir @smoothing {
  main @main(%x: f32[2], %mean: f32[2]) {
    const %half: f32[] = [0.5]
    %sum: f32[2] = add(%x, %mean)
    %next: f32[2] = mul(%sum, %half)
    return %next
  }
}`))
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	program, err := weir.Compile(context.Background(), model, weir.Options{States: map[string]string{"mean": "next"}})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	mean := []float32{0, 8}
	state, err := weir.FromSlice(mean)
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		results, err := program.Run(context.Background(), weir.Inputs{"x": ones(2), "mean": weir.Update(state)})
		if err != nil {
			log.Fatal(err)
		}
		results.Close()
	}
	fmt.Println(mean)
	// Output: [0.875 1.875]
}

// Results hold their run's memory until they are closed. Results that are kept longer are copied, or detached.
func ExampleResults_Detach() {
	program := open(weir.Options{Calls: 1})
	defer program.Close()
	results, err := program.Run(context.Background(), pictures(2))
	if err != nil {
		log.Fatal(err)
	}
	copied, err := weir.Copy[float32](results.Get("scores")) // in Go's memory
	if err != nil {
		log.Fatal(err)
	}
	if err := results.Detach(); err != nil { // the program's call is free from here on
		log.Fatal(err)
	}
	kept := results.Get("scores") // its own memory
	next, err := program.Run(context.Background(), pictures(1))
	if err != nil {
		log.Fatal(err)
	}
	next.Close()
	fmt.Println(len(copied), kept)
	kept.Close()
	_, err = weir.View[float32](kept)
	fmt.Println(errors.Is(err, weir.ErrClosed))
	// Output:
	// 20 f32[2,10]
	// true
}

// Errors have kinds for errors.Is, and name the place, the fault and a fix.
func ExampleError() {
	program := open(weir.Options{})
	defer program.Close()
	wide, err := weir.FromSlice(make([]float32, 2*81), 2, 1, 9, 9)
	if err != nil {
		log.Fatal(err)
	}
	_, err = program.Run(context.Background(), weir.Inputs{"image": wide})
	var e *weir.Error
	if errors.As(err, &e) {
		fmt.Println("kind input:", errors.Is(err, weir.ErrInput))
		fmt.Println("tensor:", e.Tensor)
		fmt.Println(e.Detail)
	}
	_, err = program.Run(context.Background(), weir.Inputs{"picture": wide})
	if errors.As(err, &e) {
		fmt.Println(e.Detail)
		fmt.Println("fix:", e.Fix)
	}
	// Output:
	// kind input: true
	// tensor: image
	// of f32[2,1,9,9], axis 2 is 9, and the input's is 8
	// no value is given for input image: f32[batch,1,8,8]
	// fix: add Inputs{"image": …}
}

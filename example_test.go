package weir_test

import (
	"bytes"
	"context"
	"errors"
	"expvar"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirml/weir"
)

// digitsModel stands for a variable with a line //go:embed digits.onnx above it.
var digitsModel = func() []byte {
	model, err := os.ReadFile("examples/digits/data/digits.onnx")
	if err != nil {
		log.Fatal(err)
	}
	return model
}()

// open compiles the digits model, which takes pictures of 8 × 8 and gives ten scores for each.
func open(o weir.Options) *weir.Program {
	model, err := weir.LoadBytes(digitsModel)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close() // the program keeps the weights that it needs
	program, err := weir.Compile(context.Background(), model, o)
	if err != nil {
		log.Fatal(err)
	}
	return program
}

// Load a model, compile it, run it.
func Example() {
	ctx := context.Background()
	model, err := weir.Load("examples/digits/data/digits.onnx")
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	fmt.Println(model.Inputs()[0])

	program, err := weir.Compile(ctx, model, weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()

	image, err := weir.FromSlice(make([]float32, 64), 1, 1, 8, 8)
	if err != nil {
		log.Fatal(err)
	}
	results, err := program.Run(ctx, weir.Inputs{"image": image})
	if err != nil {
		log.Fatal(err)
	}
	defer results.Close()
	scores, err := weir.Copy[float32](results.Get("scores"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(scores), "scores")
	// Output:
	// image: f32[batch,1,8,8]
	// 10 scores
}

// A model inside the binary: //go:embed fills a []byte, which LoadBytes borrows.
func ExampleLoadBytes() {
	model, err := weir.LoadBytes(digitsModel)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	fmt.Println(model.Outputs()[0])
	// Output: scores: f32[batch,10]
}

// The memory of a program is a formula over the model's dimensions.
func ExampleProgram_Memory() {
	// Weights are laid out for the processor; portable code has them as the model stores them.
	program := open(weir.Options{Threads: 1, Target: weir.Portable})
	defer program.Close()
	memory := program.Memory()
	fmt.Println("weights:", memory.Weights)
	fmt.Println("outputs:", memory.Outputs)
	one, err := memory.Peak(1, weir.Dims{"batch": 32})
	if err != nil {
		log.Fatal(err)
	}
	four, err := memory.Peak(4, weir.Dims{"batch": 32})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("four calls take more than one:", four > one)
	fmt.Println("but not four times, since weights are shared:", four < 4*one)
	// Output:
	// weights: 62856
	// outputs: 40*batch
	// four calls take more than one: true
	// but not four times, since weights are shared: true
}

// A budget is kept or refused before anything runs.
func ExampleOptions_budget() {
	model, err := weir.LoadBytes(digitsModel)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	_, err = weir.Compile(context.Background(), model, weir.Options{
		Budget: 64 << 10,
		Dims:   map[string]weir.Range{"batch": {Min: 1, Max: 16}},
	})
	fmt.Println(errors.Is(err, weir.ErrBudget))
	// Output: true
}

// A call is bound once and runs without allocating.
func ExampleProgram_NewCall() {
	program := open(weir.Options{})
	defer program.Close()
	call, err := program.NewCall(weir.Dims{"batch": 2})
	if err != nil {
		log.Fatal(err)
	}
	defer call.Close()
	pixels, err := weir.View[float32](call.Input("image"))
	if err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		for j := range pixels {
			pixels[j] = float32(i) / 2
		}
		if err := call.Run(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(call.Output("scores"))
	// Output: f32[2,10]
}

// The requirements of the inputs are known before a run; a run that breaks one returns an error before any kernel runs.
func ExampleProgram_Requires() {
	model, err := weir.Load("testdata/onnx/gemm_matmul/model.onnx")
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	program, err := weir.Compile(context.Background(), model, weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	for _, c := range program.Requires() {
		fmt.Printf("%s, because of %s\n", c.Condition, c.From)
	}
	// Output: k == 5, because of stack (matmul): the axis that a matrix product sums over
}

// An artefact is a compiled model as a file: Load reads it like any other.
func ExampleProgram_WriteTo() {
	program := open(weir.Options{})
	defer program.Close()
	var file bytes.Buffer
	if _, err := program.WriteTo(&file); err != nil {
		log.Fatal(err)
	}
	model, err := weir.LoadBytes(file.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	fmt.Println(model.Inputs()[0])
	// Output: image: f32[batch,1,8,8]
}

// A run waits for a free call as long as its context lets it.
func ExampleProgram_Run() {
	program := open(weir.Options{Calls: 1})
	image, err := weir.FromSlice(make([]float32, 64), 1, 1, 8, 8)
	if err != nil {
		log.Fatal(err)
	}
	first, err := program.Run(context.Background(), weir.Inputs{"image": image})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = program.Run(ctx, weir.Inputs{"image": image})
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	first.Close()
	program.Close()
	// Output: true
}

// A limit on the memory that the process holds outside Go's heap: memory beyond it is refused, and the error lists the
// holders.
func ExampleSetLimit() {
	weights, err := weir.New(weir.F32, 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	defer weights.Close()
	weir.Trim()
	defer weir.SetLimit(weir.SetLimit(weir.Usage().Current + 1<<20))
	_, err = weir.New(weir.F32, 1<<20)
	fmt.Println(errors.Is(err, weir.ErrMemory))
	holder := weir.Holders(err)[0]
	fmt.Println(holder.Kind, holder.Bytes, strings.Contains(holder.Line, "example_test.go:"))
	// Output:
	// true
	// tensors 4194304 true
}

// Small tensors come from a pool, which keeps closed ones for the next.
func ExampleTrim() {
	x, err := weir.New(weir.F32, 3)
	if err != nil {
		log.Fatal(err)
	}
	x.Close()
	kept := weir.Usage().Cached
	fmt.Println(weir.Trim() == kept-weir.Usage().Cached)
	// Output: true
}

// Usage is the process's totals outside Go's heap, for metrics.
func ExampleUsage() {
	before := weir.Usage()
	x, err := weir.New(weir.F32, 1024)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(weir.Usage().Tensors-before.Tensors, "bytes of tensors")
	x.Close()
	fmt.Println(weir.Usage().Tensors-before.Tensors, "once closed")
	// Output:
	// 4096 bytes of tensors
	// 0 once closed
}

// A wrong element type is an error; elements are never reinterpreted.
func ExampleCopy() {
	x, err := weir.FromSlice([]int64{1, 2, 3})
	if err != nil {
		log.Fatal(err)
	}
	list, err := weir.Copy[int64](x)
	fmt.Println(list, err)
	_, err = weir.Copy[float32](x)
	fmt.Println(errors.Is(err, weir.ErrInput))
	// Output:
	// [1 2 3] <nil>
	// true
}

// Strings are elements of a tensor.
func ExampleFromSlice_texts() {
	model, err := weir.Load("testdata/onnx/texts/model.onnx") // compares s with t, and joins them
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	program, err := weir.Compile(context.Background(), model, weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	s, err := weir.FromSlice([]string{"a", "bé"})
	if err != nil {
		log.Fatal(err)
	}
	t, err := weir.FromSlice([]string{"a", "!"})
	if err != nil {
		log.Fatal(err)
	}
	results, err := program.Run(context.Background(), weir.Inputs{"s": s, "t": t})
	if err != nil {
		log.Fatal(err)
	}
	defer results.Close()
	joined, err := weir.Copy[string](results.Get("joined"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", joined)
	// Output: ["aa" "bé!"]
}

// A sequence is several tensors, whose shapes may differ.
func ExampleSequence() {
	model, err := weir.Load("testdata/onnx/sequences/model.onnx") // inserts x into s at a position
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	program, err := weir.Compile(context.Background(), model, weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	fmt.Println(program.Inputs()[0])
	row := func(numbers ...float32) *weir.Tensor {
		t, err := weir.FromSlice(numbers, len(numbers)/2, 2)
		if err != nil {
			log.Fatal(err)
		}
		return t
	}
	at, err := weir.FromSlice([]int64{1}, []int{}...)
	if err != nil {
		log.Fatal(err)
	}
	results, err := program.Run(context.Background(), weir.Inputs{"s": weir.Sequence(row(1, 2), row(5, 6, 7, 8)),
		"x": row(3, 4), "at": at})
	if err != nil {
		log.Fatal(err)
	}
	defer results.Close()
	for _, t := range results.Sequence("longer") {
		numbers, err := weir.Copy[float32](t)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(t, numbers)
	}
	// Output:
	// s: seq(f32[k,2])
	// f32[1,2] [1 2]
	// f32[1,2] [3 4]
	// f32[2,2] [5 6 7 8]
}

// An optional input may be absent, and so may an optional output.
func Example_absent() {
	model, err := weir.Load("testdata/onnx/optionals/model.onnx") // passes o on; y is its element, or a default
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	program, err := weir.Compile(context.Background(), model, weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	results, err := program.Run(context.Background(), weir.Inputs{"o": weir.Absent})
	if err != nil {
		log.Fatal(err)
	}
	defer results.Close()
	y, err := weir.Copy[float32](results.Get("y"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(results.Get("same") == nil, y)
	// Output: true [7 8]
}

// A program's counters, and the process's totals, for any collector of metrics: here for /debug/vars.
func ExampleProgram_Stats() {
	program := open(weir.Options{Threads: 1})
	defer program.Close()
	expvar.Publish("digits", expvar.Func(func() any { return program.Stats() }))
	expvar.Publish("weir", expvar.Func(func() any { return weir.Usage() }))

	image, err := weir.New(weir.F32, 1, 1, 8, 8)
	if err != nil {
		log.Fatal(err)
	}
	defer image.Close()
	for range 3 {
		results, err := program.Run(context.Background(), weir.Inputs{"image": image})
		if err != nil {
			log.Fatal(err)
		}
		results.Close()
	}
	peak, err := program.Memory().Peak(1, weir.Dims{"batch": 1})
	if err != nil {
		log.Fatal(err)
	}
	s := program.Stats()
	fmt.Println(s.Runs, "runs,", s.Errors, "errors,", s.Active, "active")
	fmt.Println("it holds what was certified:", s.Bytes == peak)
	// Output:
	// 3 runs, 0 errors, 0 active
	// it holds what was certified: true
}

// The holders of memory outside Go's heap: go tool pprof -top memory.pb.gz
func ExampleProgram_WriteHeapProfile() {
	program := open(weir.Options{})
	defer program.Close()
	var profile bytes.Buffer // or a file, or an HTTP response
	if err := program.WriteHeapProfile(&profile); err != nil {
		log.Fatal(err)
	}
	fmt.Println(profile.Len() > 0)
	// Output: true
}

// The offset and the lifetime of every buffer of a run: the data that weir plan --html draws.
func ExampleProgram_Plan() {
	program := open(weir.Options{Target: weir.Portable})
	defer program.Close()
	plan, err := program.Plan(weir.Dims{"batch": 8})
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range plan.Buffers {
		if b.First <= plan.PeakStep && plan.PeakStep <= b.Last && plan.Storages[b.Storage].Kind == "arena" {
			fmt.Printf("%s: %d bytes at %d\n", b.Tensor, b.Bytes, b.Offset)
		}
	}
	fmt.Println("arena:", plan.Arena, "lower bound:", plan.LowerBound)
	// Output:
	// relu: 32768 bytes at 49152
	// relu_1: 49152 bytes at 0
	// arena: 81920 lower bound: 81920
}

// compiled returns a program of a model of testdata.
func compiled(name string) *weir.Program {
	model, err := weir.Load("testdata/onnx/" + name + "/model.onnx")
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	program, err := weir.Compile(context.Background(), model, weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return program
}

// ones returns a tensor of ones in Go's memory, which need not be closed.
func ones(shape ...int) *weir.Tensor {
	size := 1
	for _, n := range shape {
		size *= n
	}
	t, err := weir.FromSlice(slices.Repeat([]float32{1}, size), shape...)
	if err != nil {
		log.Fatal(err)
	}
	return t
}

// donated returns a donated tensor of ones, in memory that a program may take over.
func donated(shape ...int) weir.Arg {
	t, err := weir.New(weir.F32, shape...)
	if err != nil {
		log.Fatal(err)
	}
	data, err := weir.View[float32](t)
	if err != nil {
		log.Fatal(err)
	}
	for i := range data {
		data[i] = 1
	}
	return weir.Donate(t)
}

// Numbers become 16-bit floats and back.
func ExampleTensor_SetFloats() {
	x, err := weir.New(weir.F16, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	if err := x.SetFloats([]float32{1, 0.1, 70000}); err != nil {
		log.Fatal(err)
	}
	numbers, err := x.Floats()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(x, numbers)
	// Output: f16[3] [1 0.099975586 +Inf]
}

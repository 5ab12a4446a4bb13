package batch_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
)

// Requests of many goroutines become runs of at most 32 rows.
func Example() {
	model, err := weir.LoadBytes([]byte("weir 1\nir @m {\n  dim batch in [1, 32]\n  main @main(%x: f32[batch, 2]) {\n" +
		"    %y: f32[batch, 2] = neg(%x)\n    return %y\n  }\n}\n"))
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	program, err := weir.Compile(context.Background(), model, weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	batcher, err := batch.New(program, batch.Options{Wait: 2 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	defer batcher.Close()

	var requests sync.WaitGroup
	answers := make([][]float32, 3)
	for i := range answers {
		requests.Go(func() {
			x, err := weir.FromSlice([]float32{float32(i), 1}, 1, 2)
			if err != nil {
				log.Fatal(err)
			}
			results, err := batcher.Run(context.Background(), weir.Inputs{"x": x})
			if err != nil {
				log.Fatal(err)
			}
			defer results.Close()
			answers[i], err = weir.Copy[float32](results.Get("y"))
			if err != nil {
				log.Fatal(err)
			}
		})
	}
	requests.Wait()
	fmt.Println(answers)
	fmt.Println(batcher.Memory().Inputs, "bytes of joined inputs")
	// Output:
	// [[-0 -1] [-1 -1] [-2 -1]]
	// 256 bytes of joined inputs
}

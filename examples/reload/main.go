// Command reload replaces a model in a running process again and again, within a limit of memory that is known in
// advance.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
)

const (
	calls   = 2   // runs at once
	rows    = 16  // rows of a run
	width   = 256 // elements of a row
	reloads = 10
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "reload:", err)
		os.Exit(1)
	}
}

// run answers requests all the time while it replaces the model, and prints the bytes.
func run(ctx context.Context, w io.Writer) error {
	defer weir.SetLimit(weir.Usage().Limit)
	s, err := start(ctx, version(1))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var clients sync.WaitGroup
	var answers atomic.Int64
	failed := make(chan error, calls)
	for range calls {
		clients.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.answer(ctx, make([]float32, rows*width)); err == nil {
					answers.Add(1)
				} else if ctx.Err() == nil {
					failed <- err
					return
				}
			}
		})
	}
	for i := range reloads {
		if err = s.replace(ctx, version(2+i)); err != nil {
			break
		}
	}
	stop()
	clients.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	u := weir.Usage()
	fmt.Fprintf(w, "%d answers, while the model was replaced %d times\n", answers.Load(), reloads)
	fmt.Fprintf(w, "the limit is %d bytes, and at most %d were held\n", u.Limit, u.Peak)
	return errors.Join(err, s.close())
}

// version returns a model's file: each version is a network with other weights.
func version(number int) []byte {
	net := nn.Sequential(nn.Linear(width, 2*width), nn.Relu, nn.Linear(2*width, width))
	params := nn.Init(net, array.Key(number))
	defer params.Close()
	var file bytes.Buffer
	if err := nn.WriteONNX(&file, net, params); err != nil {
		panic(err) // the network does not depend on the number
	}
	return file.Bytes()
}

// server has the program in use.
type server struct{ program atomic.Pointer[weir.Program] }

// start compiles the first model, and limits the process to its present memory besides the server and two programs of
// this size: while one is compiled, the other still answers. More memory is refused.
func start(ctx context.Context, file []byte) (*server, error) {
	weir.Trim()
	others := weir.Usage().Held
	program, err := compile(ctx, file)
	if err != nil {
		return nil, err
	}
	one, err := program.Memory().Limit(calls)
	if err != nil {
		return nil, errors.Join(err, program.Close())
	}
	weir.SetLimit(others + 2*one)
	s := &server{}
	s.program.Store(program)
	return s, nil
}

// compile compiles a model's file.
func compile(ctx context.Context, file []byte) (*weir.Program, error) {
	model, err := weir.LoadBytes(file)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	return weir.Compile(ctx, model, weir.Options{Calls: calls, Dims: map[string]weir.Range{"batch": {Min: 1, Max: rows}}})
}

// replace replaces the program in use. Closing the old program waits for its runs, so that at most two programs take
// memory. If the new one is refused, the old one stays.
func (s *server) replace(ctx context.Context, file []byte) error {
	program, err := compile(ctx, file)
	if err != nil {
		return err
	}
	return s.program.Swap(program).Close()
}

// answer runs the program in use. If it is replaced before the run begins, the next one answers.
func (s *server) answer(ctx context.Context, x []float32) ([]float32, error) {
	in, err := weir.FromSlice(x, len(x)/width, width)
	if err != nil {
		return nil, err
	}
	for {
		program := s.program.Load()
		results, err := program.Run(ctx, weir.Inputs{"x": in})
		if errors.Is(err, weir.ErrClosed) && s.program.Load() != program {
			continue
		}
		if err != nil {
			return nil, err
		}
		y, err := weir.Copy[float32](results.At(0))
		return y, errors.Join(err, results.Close())
	}
}

func (s *server) close() error { return s.program.Load().Close() }

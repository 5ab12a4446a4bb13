package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/batch"
	"github.com/weirml/weir/nn"
)

const (
	width   = 64  // elements of a vector
	longest = 256 // bytes of a string
	step    = 32  // lengths are rounded up to multiples of it, so that more strings have the same length and share a run
	rows    = 32  // the maximum number of strings in a run
	most    = 64  // the maximum number of strings in a request
)

// network is a small transformer over bytes, with the mean of its positions, scaled to a length of 1, as the vector. It
// is not trained; the service works in the same way with a trained one.
func network() nn.Layer {
	block := func() nn.Layer {
		return nn.TransformerEncoderLayer(width, 4, 4*width, nn.NormFirst, nn.Activation(nn.Gelu))
	}
	unit := nn.Lambda(func(c *nn.Context, x *array.Array) *array.Array {
		mean := c.Mean(x, 1)
		return c.Div(mean, c.Sqrt(c.SumKeep(c.Mul(mean, mean), 1)))
	})
	return nn.Sequential(nn.Embedding(256, width), nn.Positions(longest, width), block(), block(), nn.LayerNorm(width),
		unit)
}

// divide divides the cores into calls that run at once, and threads of each. A run of many strings keeps a few threads
// busy; more threads wait longer for each other. At least two calls let one be filled while the other runs.
func divide(cores int) (calls, threads int) {
	threads = max(1, min(4, cores/2))
	return max(1, cores/threads), threads
}

// encoder is the service's handler.
type encoder struct {
	calls, threads int
	program        *weir.Program
	batcher        *batch.Batcher
}

// newEncoder makes the model and compiles it for so many cores.
func newEncoder(ctx context.Context, cores int, wait time.Duration) (*encoder, error) {
	net := network()
	params := nn.Init(net, 1)
	defer params.Close()
	var file bytes.Buffer
	if err := nn.WriteONNX(&file, net, params, array.SpecOf("text", weir.I64, "batch", "length")); err != nil {
		return nil, err
	}
	model, err := weir.LoadBytes(file.Bytes())
	if err != nil {
		return nil, err
	}
	defer model.Close()
	e := &encoder{}
	e.calls, e.threads = divide(cores)
	e.program, err = weir.Compile(ctx, model, weir.Options{Calls: e.calls, Threads: e.threads,
		Dims: map[string]weir.Range{"batch": {Min: 1, Max: rows}, "length": {Min: step, Max: longest}}})
	if err != nil {
		return nil, err
	}
	if e.batcher, err = batch.New(e.program, batch.Options{Wait: wait}); err != nil {
		return nil, errors.Join(err, e.program.Close())
	}
	return e, nil
}

// close waits for active runs, and frees all memory.
func (e *encoder) close() error { return errors.Join(e.batcher.Close(), e.program.Close()) }

// request is the body that a client sends.
type request struct {
	Texts []string `json:"texts"`
}

// answer has a vector for each text.
type answer struct {
	Embeddings [][]float32 `json:"embeddings"`
}

// ServeHTTP answers POST /embed.
func (e *encoder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/embed" || r.Method != http.MethodPost {
		http.Error(w, "this service has POST /embed", http.StatusNotFound)
		return
	}
	var body request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, most*longest*8)).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), deadline)
	defer cancel()
	vectors, err := e.embedAll(ctx, body.Texts)
	switch {
	case errors.Is(err, weir.ErrInput):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil: // too many requests for this machine, or the service ends
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(answer{vectors})
	}
}

// embedAll lets each string wait for a run by itself: the strings of one request share runs like those of several.
func (e *encoder) embedAll(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 0 || len(texts) > most {
		return nil, fmt.Errorf("%d texts, a request has 1 to %d: %w", len(texts), most, weir.ErrInput)
	}
	vectors, failed := make([][]float32, len(texts)), make(chan error, len(texts))
	for i, text := range texts {
		go func() {
			var err error
			vectors[i], err = e.embed(ctx, text)
			failed <- err
		}()
	}
	var all error
	for range texts {
		all = errors.Join(all, <-failed)
	}
	return vectors, all
}

// embed returns a string's vector.
func (e *encoder) embed(ctx context.Context, text string) ([]float32, error) {
	if len(text) == 0 || len(text) > longest {
		return nil, fmt.Errorf("a text of %d bytes, this service takes 1 to %d: %w", len(text), longest, weir.ErrInput)
	}
	ids := make([]int64, (len(text)+step-1)/step*step) // 0 after the string's end
	for i := range len(text) {
		ids[i] = int64(text[i])
	}
	x, err := weir.FromSlice(ids, 1, len(ids))
	if err != nil {
		return nil, err
	}
	results, err := e.batcher.Run(ctx, weir.Inputs{"text": x})
	if err != nil {
		return nil, err
	}
	vector, err := weir.Copy[float32](results.At(0))
	return vector, errors.Join(err, results.Close())
}

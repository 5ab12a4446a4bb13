package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/examples/digits/data"
)

// settings are the service's settings, which do not change while it runs.
type settings struct {
	model    string // path of an ONNX file; empty: the embedded model
	calls    int
	batch    int
	deadline time.Duration
	memory   int64 // the container's, in bytes; 0: without a limit
	log      *slog.Logger
}

// service holds the program in use. A request reads it once and runs it; reload replaces it.
type service struct {
	settings
	program   atomic.Pointer[weir.Program]
	reloading sync.Mutex
	// answers counts responses by status code.
	answers sync.Map
}

// newService compiles the model, and sets the memory limits.
func newService(ctx context.Context, s settings) (*service, error) {
	v := &service{settings: s}
	program, err := v.compile(ctx)
	if err != nil {
		return nil, err
	}
	v.program.Store(program)
	if err := v.limit(program); err != nil {
		return nil, errors.Join(err, program.Close())
	}
	return v, nil
}

// leastHeap is the memory that Go's heap needs for requests, and for a program's data structures.
const leastHeap = 32 << 20

// limit divides the container's memory. Tensors, weights and mapped files get the memory of two programs, because a
// reload compiles one while the other still answers; Go's heap gets the rest. A request for more is refused with an
// error, and the container survives.
func (s *service) limit(program *weir.Program) error {
	if s.memory == 0 {
		return nil
	}
	one, err := program.Memory().Limit(s.calls)
	if err != nil {
		return err
	}
	heap := s.memory - 2*one
	if heap < leastHeap {
		return fmt.Errorf("%d bytes of memory are too few: two programs take %d each, and Go's heap %d", s.memory, one,
			int64(leastHeap))
	}
	weir.SetLimit(2 * one)
	debug.SetMemoryLimit(heap)
	s.log.Info("memory divided", "limit_bytes", 2*one, "heap_bytes", heap)
	return nil
}

// close waits for active runs, and frees all memory.
func (s *service) close() error { return s.program.Load().Close() }

// end is close, but waits only until ctx ends.
func (s *service) end(ctx context.Context) error { return s.program.Load().CloseContext(ctx) }

// compile loads the model, and compiles it for the service's calls and batches.
func (s *service) compile(ctx context.Context) (*weir.Program, error) {
	model, err := s.load()
	if err != nil {
		return nil, err
	}
	defer model.Close()
	if err := suits(model); err != nil {
		return nil, err
	}
	program, err := weir.Compile(ctx, model, weir.Options{
		Calls: s.calls,
		Dims:  map[string]weir.Range{"batch": {Min: 1, Max: int64(s.batch)}},
	})
	if err != nil {
		return nil, err
	}
	ceiling, err := s.ceiling(program)
	if err != nil {
		return nil, errors.Join(err, program.Close())
	}
	s.log.Info("model ready", "calls", s.calls, "batch", s.batch, "ceiling_bytes", ceiling)
	return program, nil
}

// load loads the model's file, or the embedded model.
func (s *service) load() (*weir.Model, error) {
	if s.model == "" {
		return weir.LoadBytes(data.Model)
	}
	return weir.Load(s.model)
}

// suits returns an error unless a model takes pictures of 8 by 8 pixels and returns ten scores.
func suits(model *weir.Model) error {
	for _, want := range []struct {
		infos []weir.Info
		text  string
	}{
		{model.Inputs(), fmt.Sprintf("image: f32[batch,1,%d,%d]", data.Side, data.Side)},
		{model.Outputs(), fmt.Sprintf("scores: f32[batch,%d]", data.Digits)},
	} {
		if len(want.infos) != 1 || want.infos[0].String() != want.text {
			return fmt.Errorf("the model has %v where this service needs %s", want.infos, want.text)
		}
	}
	return nil
}

// ceiling returns the program's maximum memory in bytes: all calls active, each with the largest batch.
func (s *service) ceiling(program *weir.Program) (int64, error) {
	return program.Memory().Peak(s.calls, weir.Dims{"batch": int64(s.batch)})
}

// handler returns the service's HTTP routes.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /classify", s.classify)
	mux.HandleFunc("POST /reload", s.reload)
	mux.HandleFunc("GET /metrics", s.metrics)
	return mux
}

// request is the body of POST /classify: PNG files of 8 by 8 pixels in base64.
type request struct {
	Images [][]byte `json:"images"`
}

// guess is the answer for one picture.
type guess struct {
	Digit  int       `json:"digit"`
	Scores []float32 `json:"scores"`
}

// classify answers POST /classify.
func (s *service) classify(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), s.deadline)
	defer cancel()
	pixels, count, err := s.pixels(w, r)
	if err != nil {
		s.refuse(w, http.StatusBadRequest, err)
		return
	}
	scores, err := s.run(ctx, pixels, count)
	if err != nil {
		s.refuse(w, status(err), err)
		return
	}
	guesses := make([]guess, count)
	for i := range guesses {
		g := guess{Scores: scores[i*data.Digits : (i+1)*data.Digits]}
		for digit, score := range g.Scores {
			if score > g.Scores[g.Digit] {
				g.Digit = digit
			}
		}
		guesses[i] = g
	}
	s.count(http.StatusOK)
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(guesses)
}

// pixels converts a request's pictures to the model's input.
func (s *service) pixels(w http.ResponseWriter, r *http.Request) ([]float32, int, error) {
	const largestPicture = 4096 // bytes in base64
	var body request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, int64(s.batch)*largestPicture)).Decode(&body); err != nil {
		return nil, 0, err
	}
	if len(body.Images) == 0 || len(body.Images) > s.batch {
		return nil, 0, fmt.Errorf("%d images, this service takes 1 to %d at once", len(body.Images), s.batch)
	}
	var pixels []float32
	for i, file := range body.Images {
		p, err := data.Decode(file)
		if err != nil {
			return nil, 0, fmt.Errorf("image %d: %w", i, err)
		}
		pixels = append(pixels, p...)
	}
	return pixels, len(body.Images), nil
}

// run runs the program in use. If a reload closes it before the run begins, run takes the next program.
func (s *service) run(ctx context.Context, pixels []float32, count int) ([]float32, error) {
	image, err := weir.FromSlice(pixels, count, 1, data.Side, data.Side)
	if err != nil {
		return nil, err
	}
	for {
		program := s.program.Load()
		results, err := program.Run(ctx, weir.Inputs{"image": image})
		if errors.Is(err, weir.ErrClosed) && s.program.Load() != program {
			continue
		}
		if err != nil {
			return nil, err
		}
		scores, err := weir.Copy[float32](results.Get("scores"))
		return scores, errors.Join(err, results.Close())
	}
}

// reload compiles the model's file again while requests continue, replaces the program, and closes the old one after
// its active runs. If the new file is invalid, or does not fit within the limit, the old program stays. Meanwhile both
// programs' memory is in use, which limit accounts for.
func (s *service) reload(w http.ResponseWriter, r *http.Request) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	program, err := s.compile(r.Context())
	if err != nil {
		s.refuse(w, http.StatusUnprocessableEntity, err)
		return
	}
	if err := s.program.Swap(program).Close(); err != nil {
		s.refuse(w, http.StatusInternalServerError, err)
		return
	}
	s.count(http.StatusOK)
	fmt.Fprintln(w, "reloaded")
}

// statusGone is the status in the log of a request whose client has left; nobody receives it.
const statusGone = 499

// status returns the HTTP status for an error of a run.
func status(err error) int {
	for _, row := range []struct {
		kind   error
		status int
	}{
		{context.Canceled, statusGone},
		{context.DeadlineExceeded, http.StatusServiceUnavailable},
		{weir.ErrMemory, http.StatusServiceUnavailable},
		{weir.ErrClosed, http.StatusServiceUnavailable},
		{weir.ErrInput, http.StatusBadRequest},
	} {
		if errors.Is(err, row.kind) {
			return row.status
		}
	}
	return http.StatusInternalServerError
}

// refuse answers a request with an error.
func (s *service) refuse(w http.ResponseWriter, code int, err error) {
	s.count(code)
	if code >= http.StatusInternalServerError {
		s.log.Warn("request failed", "status", code, "error", err)
	}
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, err.Error(), code)
}

// count counts a response.
func (s *service) count(code int) {
	n, _ := s.answers.LoadOrStore(code, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// metrics prints the process's memory outside Go's heap, and its ceiling, in Prometheus's format.
func (s *service) metrics(w http.ResponseWriter, _ *http.Request) {
	ceiling, err := s.ceiling(s.program.Load())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	u := weir.Usage()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	for _, row := range []struct {
		name  string
		value int64
	}{
		{`weir_memory_bytes{kind="weights"}`, u.Weights}, {`weir_memory_bytes{kind="arena"}`, u.Arenas},
		{`weir_memory_bytes{kind="outputs"}`, u.Outputs}, {`weir_memory_bytes{kind="scratch"}`, u.Scratch},
		{`weir_memory_bytes{kind="code"}`, u.Code}, {`weir_memory_bytes{kind="tensors"}`, u.Tensors},
		{`weir_memory_bytes{kind="files"}`, u.Files}, {`weir_memory_current_bytes`, u.Current},
		{`weir_memory_peak_bytes`, u.Peak}, {`service_ceiling_bytes`, ceiling},
	} {
		fmt.Fprintf(w, "%s %d\n", row.name, row.value)
	}
	s.answers.Range(func(code, n any) bool {
		fmt.Fprintf(w, "service_answers_total{code=%q} %d\n", strconv.Itoa(code.(int)), n.(*atomic.Int64).Load())
		return true
	})
}

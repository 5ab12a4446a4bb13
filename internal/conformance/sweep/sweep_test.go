package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/weirtest"
)

// stand is a model with its program, call and results, as far as they exist.
type stand struct {
	t       *testing.T
	path    string
	options weir.Options
	in      weir.Inputs
	want    []string // the outputs, as contents prints them
	shapes  [][]int  // their shapes, if they are tensors
	tune    bool
	compare bool
	bytes   bool // it can be loaded from bytes; other models keep files open until they are closed

	// the program that calls share which leave it unchanged; poisoning makes it keep no memory from one call for the
	// next
	shared *weir.Program

	model   *weir.Model
	program *weir.Program
	call    *weir.Call
	results *weir.Results
	own     bool // the call needs a program other than the shared one
	ran     bool // the call has run
	tensors []*weir.Tensor
}

// drop closes everything.
func (s *stand) drop() {
	s.t.Helper()
	var all []error
	if s.results != nil {
		all = append(all, s.results.Close())
	}
	if s.call != nil {
		all = append(all, s.call.Close())
	}
	if s.program != nil && s.program != s.shared {
		all = append(all, s.program.Close())
	}
	if s.model != nil {
		all = append(all, s.model.Close())
	}
	for _, x := range s.tensors {
		all = append(all, x.Close())
	}
	if err := errors.Join(all...); err != nil {
		s.t.Errorf("closing: %v", err)
	}
	s.model, s.program, s.call, s.results, s.ran, s.tensors = nil, nil, nil, nil, false, nil
}

// right compares the results, if there are any, with the expected ones.
func (s *stand) right() {
	s.t.Helper()
	if s.results != nil {
		if got := allContents(s.t, s.program, s.results); !slices.Equal(got, s.want) {
			s.t.Errorf("the results are\n%.300s, not\n%.300s", got, s.want)
		}
	}
	if s.ran {
		for i, info := range s.program.Outputs() {
			if x := s.call.Output(info.Name); !strings.Contains(s.want[i], fmt.Sprintf(" %s %x", x, x.Bytes())) {
				s.t.Errorf("output %s of the call is not what a run gives", info.Name)
			}
		}
	}
}

// floats returns the results that are f32.
func (s *stand) floats() (list [][]float32) {
	for i, info := range s.program.Outputs() {
		if info.DType != weir.F32 {
			continue
		}
		numbers, err := weir.Copy[float32](s.results.At(i))
		if err != nil {
			s.t.Fatal(err)
		}
		list = append(list, numbers)
	}
	return list
}

// allContents returns the contents of all outputs.
func allContents(t *testing.T, p *weir.Program, r *weir.Results) (list []string) {
	t.Helper()
	for i, info := range p.Outputs() {
		list = append(list, weirtest.Contents(t, r, i, info))
	}
	return list
}

// upTo makes the calls that must come before a call.
func (s *stand) upTo(name string) {
	s.t.Helper()
	if name == "" {
		return
	}
	if name == "Compile" && s.shared != nil && !s.own {
		s.program = s.shared
		return
	}
	i := slices.IndexFunc(apiCalls, func(c apiCall) bool { return c.name == name })
	s.upTo(apiCalls[i].after)
	if err := apiCalls[i].do(s, context.Background()); err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
}

// held is the memory and files that must not grow.
type held struct {
	totals mem.Totals
	files  int
}

// holds returns the present memory and files, without peaks and mapped files.
func holds() held {
	h := held{totals: mem.Usage()}
	t := &h.totals
	t.Peak, t.MappedPeak, t.AllPeak, t.MappedAllPeak, t.SpilledPeak = [mem.Kinds]int64{}, [mem.Kinds]int64{}, 0, 0, 0
	t.Held, t.HeldPeak = 0, 0 // Held follows from the others and the weights that runs read in mapped files
	// A compilation may give back a part of a mapped file; the files themselves are counted in blocks.
	t.All, t.MappedAll = t.All-t.Current[mem.File], t.MappedAll-t.MappedCurrent[mem.File]
	t.Current[mem.File], t.MappedCurrent[mem.File] = 0, 0
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		h.files = len(list)
	}
	return h
}

// prepare makes a stand for a model: its file, its options, its inputs, and the expected results.
func (w *swept) prepare(t *testing.T) *stand {
	s := &stand{t: t, path: filepath.Join("testdata/onnx", w.name, "model.onnx"), options: w.options, tune: w.tune,
		compare: w.compare}
	if w.write != nil {
		s.path = filepath.Join(t.TempDir(), w.name)
		w.write(t, s.path)
	}
	s.bytes = w.name != "external_data"
	s.options.Threads = 2
	s.upTo("Load")
	if w.inputs != nil {
		s.in = w.inputs(t, s.model)
	} else {
		sets, _ := filepath.Glob(filepath.Join(filepath.Dir(s.path), "test_data_set_*"))
		s.in = weir.Inputs{}
		for i, info := range s.model.Inputs() {
			s.in[info.Name] = weirtest.Stored(t, filepath.Join(sets[0], fmt.Sprintf("input_%d.pb", i)), info)
		}
	}
	s.drop()
	s.upTo("Run")
	s.want = allContents(t, s.program, s.results)
	for i := range s.program.Outputs() {
		var shape []int
		if x := s.results.At(i); x != nil {
			shape = x.Shape()
		}
		s.shapes = append(s.shapes, shape)
	}
	if w.budget > 0 {
		d, err := s.program.Bind(s.in)
		if err != nil {
			t.Fatal(err)
		}
		s.options.Dims = map[string]weir.Range{}
		for name, v := range d {
			s.options.Dims[name] = weir.Range{Min: v, Max: v}
		}
		peak, err := s.program.Memory().Peak(1, d)
		if err != nil {
			t.Fatal(err)
		}
		least := weirtest.Smallest(t, s.model, s.options)
		s.options.Budget = least + int64(w.budget*float64(peak-least))
		free := s.floats()
		s.drop()
		s.upTo("Run")
		if !slices.Equal(allContents(t, s.program, s.results), s.want) && weirtest.SameResults(s.floats(), free,
			s.program.Savings()) {
			s.want = allContents(t, s.program, s.results) // sums over the batch have another order
		}
		if s.right(); len(s.program.Savings()) == 0 {
			t.Error("the budget asks for nothing")
		}
	}
	s.drop()
	s.upTo("Compile")
	s.shared = s.program
	s.drop()
	t.Cleanup(func() { s.shared.Close() })
	return s
}

// TestFaultSweep refuses the first, the second, … taking of memory of every call of the API, alone, and sometimes with
// all that come after it; in a short run only some of them. The call returns a typed error, nothing leaks, and the same
// call then works.
func TestFaultSweep(t *testing.T) {
	if !weirtest.Under(t, "poison") {
		return
	}
	if len(sweptModels) < 20 {
		t.Fatalf("%d models", len(sweptModels))
	}
	weirtest.HurryTuning(t)
	alone, together := int64(weirtest.Trials(math.MaxInt, 2)), int64(weirtest.Trials(3, 1)) // k grows by k / these
	for i, w := range weirtest.Part(sweptModels, 3) {
		t.Run(w.name, func(t *testing.T) {
			s := w.prepare(t)
			goroutines := runtime.NumGoroutine()
			for _, c := range apiCalls {
				if s.skips(&c, i) {
					continue
				}
				refused, narrower := 0, 0
				sweep := func(last func(k int64) int64, next func(k int64) int64) {
					for k := int64(1); ; k = next(k) {
						failed, done := s.refuse(&c, k, last(k))
						if t.Failed() {
							t.Fatalf("%s, with taking %d to %d refused", c.name, k, last(k))
						}
						if done {
							return
						}
						if refused++; !failed {
							narrower++
						}
					}
				}
				sweep(func(k int64) int64 { return k }, func(k int64) int64 { return k + 1 + k/alone })
				if refused > 0 {
					sweep(func(int64) int64 { return math.MaxInt64 }, func(k int64) int64 { return k + 1 + k/together })
				}
				t.Logf("%-20s %-22s %3d refused, %3d errors, %3d done with less", w.name, c.name, refused,
					refused-narrower,
					narrower)
			}
			settled(t, goroutines)
		})
	}
}

// skips reports whether a call is not swept with this model, the i-th. It also forgets the addresses that poisoning
// keeps: thousands of them slow down every query of the process's mappings.
func (s *stand) skips(c *apiCall, i int) bool {
	mem.SetPoison(mem.SetPoison(false))
	return c.once && i > 0 || c.cannot != nil && c.cannot(s)
}

// attempt prepares a call and makes it by inTrouble; if that fails, it makes the call again without trouble. It checks
// the memory after each, and the results, and returns the error of the first.
func (s *stand) attempt(c *apiCall, inTrouble func() error) error {
	s.t.Helper()
	before := holds()
	s.own = c.own
	s.upTo(c.after)
	just := holds()
	err := inTrouble()
	if err != nil {
		if now := holds(); now != just && !c.keeps && s.bytes {
			s.t.Errorf("a call that failed (%v) left\n%+v, before there was\n%+v", err, now, just)
		}
		if err := c.do(s, context.Background()); err != nil {
			s.t.Errorf("the same call later: %v", err)
		}
	}
	s.right()
	s.drop()
	if now := holds(); now != before {
		s.t.Errorf("after %v there are\n%+v, before there was\n%+v", err, now, before)
	}
	return err
}

// refuse makes a call while the takings of memory from first to last are refused. It reports whether the call failed,
// and whether nothing was refused.
func (s *stand) refuse(c *apiCall, first, last int64) (failed, done bool) {
	s.t.Helper()
	err := s.attempt(c, func() error {
		faults := mem.Fail(first, last)
		err := c.do(s, context.Background())
		faults.Restore()
		count := int64(0)
		for k := range mem.Taking(mem.Takings) {
			count += faults.Refused(k)
		}
		done = count == 0
		var typed *weir.Error
		switch {
		case err == nil && count > faults.Refused(mem.Worker)+faults.Refused(mem.Access) && !c.spares:
			s.t.Errorf("%d were refused, and there was no error", count)
		case err != nil && count == 0:
			s.t.Errorf("nothing was refused: %v", err)
		case errors.Is(err, errReader): // the caller's own error
		// without machine code, a program needs other memory
		case errors.Is(err, weir.ErrBudget) && count == faults.Refused(mem.Access):
		case err != nil && !errors.Is(err, weir.ErrMemory), err != nil && err != weir.ErrMemory && !errors.As(err,
			&typed):
			s.t.Errorf("the error is %v", err)
		}
		for _, h := range weir.Holders(err) {
			if h.Bytes < 0 || h.Kind == "" {
				s.t.Errorf("%v holds %+v", err, h)
			}
		}
		return err
	})
	return err != nil, done
}

// TestCancelSweep ends the context of every call that has one when it is asked the first, the second, … time: the error
// is the context's, nothing leaks, and the same call then works.
func TestCancelSweep(t *testing.T) {
	if !weirtest.Under(t, "poison") {
		return
	}
	weirtest.HurryTuning(t)
	for i, w := range weirtest.Part(sweptModels, 6) {
		t.Run(w.name, func(t *testing.T) {
			s := w.prepare(t)
			goroutines := runtime.NumGoroutine()
			for _, c := range apiCalls {
				if !c.ends || s.skips(&c, i) {
					continue
				}
				ended := 0
				for n := 1; ; n += 1 + n/weirtest.Trials(3, 1) {
					done := s.cancel(&c, n)
					if t.Failed() {
						t.Fatalf("%s, with a context that ends when it is looked at for the %d. time", c.name, n)
					}
					if done {
						break
					}
					ended++
				}
				if ended == 0 {
					t.Errorf("%s never looks at its context", c.name)
				}
				t.Logf("%-20s %-22s %3d ended", w.name, c.name, ended)
			}
			settled(t, goroutines)
		})
	}
}

// cancel makes a call with a context that ends when it is asked for the n-th time. It reports whether the context did
// not end.
func (s *stand) cancel(c *apiCall, n int) (done bool) {
	s.t.Helper()
	s.attempt(c, func() error {
		ctx := weirtest.NewCountdown(n)
		err := c.do(s, ctx)
		done = !ctx.Ended()
		if err != nil && (done || !errors.Is(err, context.Canceled)) {
			s.t.Errorf("ended is %v, the error %v", !done, err)
		}
		return err
	})
	return done
}

// settled checks that there are no more goroutines than before, except the pool's, which stay.
func settled(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		now := runtime.NumGoroutine()
		if now <= before+runtime.GOMAXPROCS(0) {
			return
		}
		if time.Now().After(end) {
			t.Errorf("%d goroutines before, %d after", before, now)
			return
		}
	}
}

// errReader is the error of the caller's own readers and writers.
var errReader = errors.New("the caller's own reader or writer failed")

// refusing is a file system, and a writer, that fail when a taking of memory is to be refused.
type refusing struct{ fs.FS }

func (r refusing) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if mem.Failing(mem.Opening) {
		f.Close()
		return nil, errReader
	}
	return refusingFile{f}, nil
}

func (r refusing) Write(p []byte) (int, error) {
	if mem.Failing(mem.Room) {
		return len(p) / 2, errReader
	}
	return len(p), nil
}

type refusingFile struct{ fs.File }

func (f refusingFile) Read(p []byte) (int, error) {
	if mem.Failing(mem.Room) {
		return 0, errReader
	}
	return f.File.Read(p)
}

func (f refusingFile) Stat() (fs.FileInfo, error) {
	if mem.Failing(mem.Room) {
		return nil, errReader
	}
	return f.File.Stat()
}

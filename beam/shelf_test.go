package beamweir

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weirml/weir"
)

// book is a resource of a library.
type book struct {
	resource
	library *library
	path    string
}

func (b *book) close() error {
	b.library.mu.Lock()
	defer b.library.mu.Unlock()
	b.library.live[b.path]--
	b.library.closed++
	return nil
}

// library is an opener that counts what it opens.
type library struct {
	mu             sync.Mutex
	live           map[string]int
	opened, closed int
	most           int // the books of one path that were live at once
	fail           bool
}

func (l *library) kind() string { return "books" }

func (l *library) open(_ context.Context, path string, _ Options) (resource, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail {
		return nil, errors.New("no such book")
	}
	l.live[path]++
	l.opened++
	l.most = max(l.most, l.live[path])
	return &book{library: l, path: path}, nil
}

func newLibrary() *library { return &library{live: map[string]int{}} }

// TestShelf uses versions of a model from many goroutines: each is open once, and all are closed in the end.
func TestShelf(t *testing.T) {
	s, l := &shelf{slots: map[string]*slot{}}, newLibrary()
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			slot, err := s.hold(l, traveling{})
			if err != nil {
				t.Error(err)
				return
			}
			for range 200 {
				path := fmt.Sprint(r.IntN(3))
				b, err := slot.use(t.Context(), path, l, Options{})
				if err != nil {
					t.Error(err)
					return
				}
				l.mu.Lock()
				if l.live[path] == 0 {
					t.Errorf("version %s is closed while it is used", path)
				}
				l.mu.Unlock()
				if err := slot.done(b); err != nil {
					t.Error(err)
				}
			}
			if err := slot.leave(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if l.opened != l.closed || len(s.slots) != 0 {
		t.Errorf("%d are opened, %d closed, %d slots left", l.opened, l.closed, len(s.slots))
	}
}

// TestReplaced: a version stays until the next is loaded and its bundles have ended; a version that cannot be loaded
// replaces none, and is tried again.
func TestReplaced(t *testing.T) {
	s, l := &shelf{slots: map[string]*slot{}}, newLibrary()
	slot, err := s.hold(l, traveling{})
	if err != nil {
		t.Fatal(err)
	}
	use := func(path string) *loaded {
		t.Helper()
		b, err := slot.use(t.Context(), path, l, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := use("1")
	slot.done(first)
	if l.live["1"] != 1 {
		t.Error("a model without bundles is closed")
	}
	first = use("1")
	l.fail = true
	for range 2 {
		if _, err := slot.use(t.Context(), "2", l, Options{}); err == nil {
			t.Error("a version that cannot be loaded is used")
		}
	}
	if l.live["1"] != 1 {
		t.Error("a version that cannot be loaded replaces another")
	}
	l.fail = false
	second := use("2")
	if l.live["1"] != 1 {
		t.Error("a version in use is closed")
	}
	slot.done(first)
	if l.live["1"] != 0 || l.live["2"] != 1 {
		t.Errorf("after the first bundle: %v", l.live)
	}
	slot.done(second)
	if l.live["2"] != 1 {
		t.Error("the last version is closed while DoFns are left")
	}
	slot.leave()
	if l.live["2"] != 0 {
		t.Error("the last version stays without DoFns")
	}
}

// TestBudget opens a model with budgets from plenty to too little: what it takes is never more, and the rows are as
// many as fit.
func TestBudget(t *testing.T) {
	path := modelFile(t, "digits.onnx")
	open := func(o Options) (*tensors, error) {
		r, err := openTensors(t.Context(), path, o)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { r.close() })
		return r, nil
	}
	whole, err := open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if whole.batcher.MostRows() != defaultRows {
		t.Errorf("a run has %d rows", whole.batcher.MostRows())
	}
	before := defaultRows + 1
	for share := int64(10); share >= 1; share-- {
		budget := whole.held * share / 10
		r, err := open(Options{Compile: weir.Options{Budget: budget}})
		if err != nil {
			if !errors.Is(err, weir.ErrBudget) {
				t.Errorf("%d bytes: %v", budget, err)
			}
			continue
		}
		rows := r.batcher.MostRows()
		t.Logf("%d bytes: %d rows, %d bytes", budget, rows, r.held)
		if r.held > budget || rows > before || share == 10 && rows != defaultRows {
			t.Errorf("a budget of %d bytes: %d rows take %d bytes", budget, rows, r.held)
		}
		before = rows
		if more, err := open(Options{Rows: rows + 1}); err != nil || more.held <= budget && rows < defaultRows {
			t.Errorf("a budget of %d bytes has %d rows, but %d rows take %d bytes (%v)", budget, rows, rows+1, more.held, err)
		}
	}
	if before > defaultRows/2 {
		t.Errorf("no budget has led to fewer than %d rows", before)
	}
	for _, o := range []Options{{Compile: weir.Options{Budget: 10}}, {Compile: weir.Options{Budget: 30_000}}} {
		if _, err := open(o); !errors.Is(err, weir.ErrBudget) {
			t.Errorf("a budget of %d bytes: %v", o.Compile.Budget, err)
		}
	}
}

// TestTravels: options come through JSON as they are.
func TestTravels(t *testing.T) {
	o := Options{Rows: 7, Wait: time.Second, Compile: weir.Options{Threads: 3, Calls: 2, Precision: weir.BF16,
		Budget: 1 << 40, Dims: map[string]weir.Range{"batch": {Min: 1, Max: 9}}, Target: weir.Portable, Exact: true,
		Outputs: []string{"scores"}}}
	for _, o := range []Options{o, {}} {
		if got, err := roundTrip(o); err != nil || fmt.Sprint(got) != fmt.Sprint(o) {
			t.Errorf("%+v becomes %+v (%v)", o, got, err)
		}
	}
}

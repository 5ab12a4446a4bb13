package beamweir

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/weirml/weir/internal/diag"
)

// shelf holds the models of this process: one of each path for each kind of worker and options, however many bundles
// use it.
type shelf struct {
	mu    sync.Mutex
	slots map[string]*slot
}

// ours is the process's shelf.
var ours = &shelf{slots: map[string]*slot{}}

// slot has the versions of a model. One that no bundle uses is kept if it was the last to be loaded, and any DoFn is
// left that may use it.
type slot struct {
	shelf   *shelf
	key     string
	holders int // DoFns
	models  map[string]*loaded
	last    *loaded
}

// loaded is a model of a slot.
type loaded struct {
	resource // once ready is closed, unless err is set
	path     string
	ready    chan struct{}
	err      error
	users    int // bundles
	took     time.Duration

	reported sync.Mutex // protects what is below
	isNew    bool       // its loading is not in the metrics yet
	count    int64      // the runs that are in the metrics
	rows     float64
}

// hold returns the slot of a worker and options. Call leave once it is no longer needed.
func (s *shelf) hold(w opener, o traveling) (*slot, error) {
	options, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	key := w.kind() + " " + string(options)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.slots[key]
	if t == nil {
		t = &slot{shelf: s, key: key, models: map[string]*loaded{}}
		s.slots[key] = t
	}
	t.holders++
	return t, nil
}

// leave undoes hold. The last to leave closes what no bundle uses.
func (t *slot) leave() error {
	t.shelf.mu.Lock()
	if t.holders--; t.holders == 0 {
		t.last = nil
		delete(t.shelf.slots, t.key)
	}
	return t.sweep()
}

// use returns the model of a path, which it loads if no bundle has yet. Call done once it is no longer needed.
func (t *slot) use(ctx context.Context, path string, w opener, o Options) (*loaded, error) {
	t.shelf.mu.Lock()
	l, ok := t.models[path]
	if !ok {
		l = &loaded{path: path, ready: make(chan struct{}), isNew: true}
		t.models[path] = l
	}
	l.users++
	t.shelf.mu.Unlock()
	if !ok {
		return l, t.load(ctx, l, w, o)
	}
	select {
	case <-l.ready:
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), t.done(l))
	}
	if l.err != nil {
		return nil, errors.Join(l.err, t.done(l))
	}
	return l, nil
}

// load loads a model that use has entered. Then the version before can go.
func (t *slot) load(ctx context.Context, l *loaded, w opener, o Options) error {
	defer close(l.ready)
	begun := time.Now()
	l.resource, l.err = opened(ctx, w, l.path, o)
	l.took = time.Since(begun)
	t.shelf.mu.Lock()
	if l.err != nil {
		delete(t.models, l.path) // the next that asks tries again
		t.shelf.mu.Unlock()
		return l.err
	}
	if t.holders > 0 {
		t.last = l
	}
	return t.sweep()
}

// opened opens a model; a panic is an error.
func opened(ctx context.Context, w opener, path string, o Options) (r resource, err error) {
	defer diag.Recover(&err, "loading a model")
	return w.open(ctx, path, o)
}

// done undoes use.
func (t *slot) done(l *loaded) error {
	t.shelf.mu.Lock()
	l.users--
	return t.sweep()
}

// sweep closes the models that are no longer needed. The shelf is locked; sweep unlocks it.
func (t *slot) sweep() error {
	var unused []*loaded
	for path, l := range t.models {
		if l.users == 0 && l != t.last {
			delete(t.models, path)
			unused = append(unused, l)
		}
	}
	t.shelf.mu.Unlock()
	var all []error
	for _, l := range unused {
		if <-l.ready; l.err == nil {
			all = append(all, l.close())
		}
	}
	return errors.Join(all...)
}

package beamweir

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/weirml/weir/internal/diag"
)

// item is an element in progress.
type item[K, E any] struct {
	key     K
	element E
	path    string // of its model; "" until state.element has it from the spec
	model   *loaded
	begun   time.Time
}

// timed is a result, and the time from its element's arrival to it.
type timed[R any] struct {
	result R
	took   time.Duration
}

// sink emits outcomes.
type sink[K, E, R any] interface {
	note()
	result(i item[K, E], r R)
	failure(i item[K, E], f Failure)
}

// elementSink is the sink of collections without keys.
type elementSink[K, E, R any] struct {
	results  late[R]
	failures latePair[E, Failure]
}

func (s elementSink[K, E, R]) note() {
	var r R
	var e E
	s.results(note, r)
	s.failures(note, e, Failure{})
}

func (s elementSink[K, E, R]) result(i item[K, E], r R) {
	var e E
	s.failures(pass, e, Failure{})
	s.results(give, r)
}

func (s elementSink[K, E, R]) failure(i item[K, E], f Failure) {
	var r R
	s.results(pass, r)
	s.failures(give, i.element, f)
}

// keySink is the sink of collections with keys.
type keySink[K, E, R any] struct {
	results  latePair[K, R]
	failures latePair[K, Failure]
}

func (s keySink[K, E, R]) note() {
	var k K
	var r R
	s.results(note, k, r)
	s.failures(note, k, Failure{})
}

func (s keySink[K, E, R]) result(i item[K, E], r R) {
	s.failures(pass, i.key, Failure{})
	s.results(give, i.key, r)
}

func (s keySink[K, E, R]) failure(i item[K, E], f Failure) {
	var r R
	s.results(pass, i.key, r)
	s.failures(give, i.key, f)
}

// state is what a DoFn has on a worker: its place on the shelf and its bundle. It does not refer to the DoFn.
type state[W worker[E, R], K, E, R any] struct {
	worker  W
	spec    spec
	options Options
	slot    *slot

	// of the current bundle
	line   *line[item[K, E], timed[R]]
	order  []item[K, E] // in the line
	models map[string]*loaded
	paths  map[beam.Window]string
	tally  tally
}

// newState prepares a DoFn. Beam's workers do not tear down the DoFns of bundles that fail, nor those of a worker that
// ends: the state ends when the DoFn is garbage.
func newState[W worker[E, R], K, E, R, D any](dofn *D, worker W, text string) (*state[W, K, E, R], error) {
	s := &state[W, K, E, R]{worker: worker, models: map[string]*loaded{}, paths: map[beam.Window]string{}}
	if err := json.Unmarshal([]byte(text), &s.spec); err != nil {
		return nil, err
	}
	s.options = s.spec.Options.options()
	var err error
	if s.slot, err = ours.hold(worker, s.spec.Options); err != nil {
		return nil, err
	}
	runtime.AddCleanup(dofn, func(s *state[W, K, E, R]) {
		diag.Go("the end of a DoFn", s.leave, func(error) {})
	}, s)
	return s, nil
}

// leave ends the use of the models. A second call does nothing.
func (s *state[W, K, E, R]) leave() error {
	if s == nil || s.slot == nil {
		return nil
	}
	err := s.stop()
	slot := s.slot
	s.slot = nil
	return errors.Join(err, slot.leave())
}

// version returns the path of the model for a window.
func (s *state[W, K, E, R]) version(w beam.Window, versions func() func(*string) bool) string {
	if path, ok := s.paths[w]; ok {
		return path
	}
	greatest, path := "", ""
	for next := versions(); next(&path); {
		greatest = max(greatest, path)
	}
	s.paths[w] = greatest
	return greatest
}

// element puts an element into the line, and emits the outcomes that are ready.
func (s *state[W, K, E, R]) element(ctx context.Context, i item[K, E], out sink[K, E, R]) (err error) {
	ended := false
	defer func() {
		if !ended || err != nil { // a panic is a DoFn's further on
			s.stop()
		}
	}()
	out.note()
	if i.path == "" {
		i.path = s.spec.Path
	}
	if i.model, err = s.model(ctx, i.path); err == nil {
		if s.line == nil {
			s.line = newLine(ctx, i.model.most(), s.run)
		}
		i.begun = time.Now()
		s.order = append(s.order, i)
		err = s.line.put(ctx, i, func(o outcome[timed[R]]) error { return s.emit(ctx, o, out) })
	}
	ended = true
	return err
}

// model returns the model of a path, which the bundle then uses until its end.
func (s *state[W, K, E, R]) model(ctx context.Context, path string) (*loaded, error) {
	if l := s.models[path]; l != nil {
		return l, nil
	}
	if path == "" {
		return nil, diag.Inputf("an element whose window has no model").
			WithFix("set Model.Path, or put a path into each window of Model.Versions")
	}
	l, err := s.slot.use(ctx, path, s.worker, s.options)
	if err != nil {
		return nil, err
	}
	s.models[path] = l
	s.tally.loaded(ctx, l)
	return l, nil
}

// run runs an element on a goroutine of the line.
func (s *state[W, K, E, R]) run(ctx context.Context, i item[K, E]) (t timed[R], err error) {
	t.result, err = s.worker.run(ctx, i.model.resource, i.element, i.path)
	t.took = time.Since(i.begun)
	return t, err
}

// emit emits an outcome.
func (s *state[W, K, E, R]) emit(ctx context.Context, o outcome[timed[R]], out sink[K, E, R]) error {
	i := s.order[0]
	s.order = s.order[1:]
	switch {
	case o.err == nil:
		s.tally.element(ctx, i.model, o.result.took)
		out.result(i, o.result.result)
	case isElements(o.err):
		s.tally.failure(ctx)
		out.failure(i, failureOf(o.err, i.path))
	default:
		return o.err
	}
	return nil
}

// finish emits the outcomes that are left, and ends the bundle.
func (s *state[W, K, E, R]) finish(ctx context.Context, out sink[K, E, R]) (err error) {
	defer func() { err = errors.Join(err, s.stop()) }()
	if s.line == nil {
		return nil
	}
	err = s.line.end(func(o outcome[timed[R]]) error { return s.emit(ctx, o, out) })
	for _, l := range s.models {
		s.tally.runs(ctx, l)
	}
	return err
}

// stop ends the bundle, whatever it has reached.
func (s *state[W, K, E, R]) stop() error {
	if s.line != nil {
		s.line.stop()
	}
	var all []error
	for _, l := range s.models {
		all = append(all, s.slot.done(l))
	}
	s.line, s.order = nil, nil
	clear(s.models)
	clear(s.paths)
	return errors.Join(all...)
}

// Package good holds code without leaks, in the shapes in which Go programs hold files, rows, connections and contexts.
package good

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// 1: closed by a defer.
func deferred(x *array.Array) error {
	s := array.NewScope("deferred")
	defer s.Close()
	fmt.Println(s.Relu(x).Shape())
	return s.Err()
}

// 2: the error of closing is joined to the function's.
func joined(path string) (err error) {
	m, err := weir.Load(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	fmt.Println(m.Inputs())
	return nil
}

// 3: closed on each path by hand.
func byHand(ctx context.Context, path string) error {
	m, err := weir.Load(path)
	if err != nil {
		return err
	}
	p, err := weir.Compile(ctx, m, weir.Options{})
	if err != nil {
		m.Close()
		return err
	}
	if _, err := p.WriteTo(io.Discard); err != nil {
		p.Close()
		m.Close()
		return err
	}
	if err := p.Close(); err != nil {
		m.Close()
		return err
	}
	return m.Close()
}

// 4: closed only if something fails, else the caller's.
func openService(ctx context.Context, path string) (p *weir.Program, err error) {
	m, err := weir.Load(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	p, err = weir.Compile(ctx, m, weir.Options{})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if len(p.Outputs()) != 1 {
		return nil, errors.New("one output is wanted")
	}
	return p, nil
}

// 5: a flag says whether the caller has it.
func flagged(path string) (*weir.Model, error) {
	m, err := weir.Load(path)
	if err != nil {
		return nil, err
	}
	ok := false
	defer func() {
		if !ok {
			m.Close()
		}
	}()
	if len(m.Inputs()) == 0 {
		return nil, errors.New("no inputs")
	}
	ok = true
	return m, nil
}

// 6: stored in a struct that closes it.
type server struct {
	mu      sync.Mutex
	model   *weir.Model
	program *weir.Program
	calls   []*weir.Call
	byName  map[string]*weir.Program
	scope   *array.Scope
}

func newServer(ctx context.Context, path string) (*server, error) {
	m, err := weir.Load(path)
	if err != nil {
		return nil, err
	}
	p, err := weir.Compile(ctx, m, weir.Options{Calls: 4})
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return &server{model: m, program: p, scope: array.NewScope("server")}, nil
}

func (s *server) Close() error {
	return errors.Join(s.scope.Close(), s.program.Close(), s.model.Close())
}

// 7: set field by field.
func (s *server) load(ctx context.Context, path string) (err error) {
	if s.model, err = weir.Load(path); err != nil {
		return err
	}
	s.program, err = weir.Compile(ctx, s.model, weir.Options{})
	return err
}

// 8: replaced under a lock, the old one closed.
func (s *server) replace(ctx context.Context, m *weir.Model) error {
	p, err := weir.Compile(ctx, m, weir.Options{})
	if err != nil {
		return err
	}
	s.mu.Lock()
	old := s.program
	s.program = p
	s.mu.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// 9: a pool in a slice.
func (s *server) pool(n int) error {
	for range n {
		c, err := s.program.NewCall(nil)
		if err != nil {
			for _, c := range s.calls {
				c.Close()
			}
			return err
		}
		s.calls = append(s.calls, c)
	}
	return nil
}

// 10: a cache in a map.
func (s *server) cached(ctx context.Context, m *weir.Model, name string) (*weir.Program, error) {
	if p, ok := s.byName[name]; ok {
		return p, nil
	}
	p, err := weir.Compile(ctx, m, weir.Options{})
	if err != nil {
		return nil, err
	}
	s.byName[name] = p
	return p, nil
}

// 11: an accessor gives nothing away.
func (s *server) Program() *weir.Program { return s.program }

func useAccessor(s *server) int { return len(s.Program().Outputs()) }

// 12: a list that is closed at the end.
func all(ctx context.Context, models []*weir.Model) error {
	var closers []io.Closer
	defer func() {
		for _, c := range closers {
			c.Close()
		}
	}()
	for _, m := range models {
		p, err := weir.Compile(ctx, m, weir.Options{})
		if err != nil {
			return err
		}
		closers = append(closers, p)
	}
	return nil
}

// 13: the body of a loop is a function.
func perTurn(list [][]float32) error {
	for _, data := range list {
		err := func() error {
			s := array.NewScope("turn")
			defer s.Close()
			array.From(s, data).Shape()
			return s.Err()
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

// 14: closed at the end of each turn, and on the ways out of it.
func turns(ctx context.Context, p *weir.Program, list []weir.Inputs) error {
	for _, in := range list {
		r, err := p.Run(ctx, in)
		if errors.Is(err, weir.ErrInput) {
			continue
		} else if err != nil {
			return err
		}
		scores, err := weir.Copy[float32](r.Get("scores"))
		r.Close()
		if err != nil {
			break
		}
		fmt.Println(scores)
	}
	return nil
}

// 15: retried until it works.
func retried(path string) (*weir.Model, error) {
	for {
		m, err := weir.Load(path)
		if err == nil {
			return m, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
}

// 16: a defer in a loop that is left in the same turn.
func first(paths []string) error {
	for _, path := range paths {
		m, err := weir.Load(path)
		if err != nil {
			continue
		}
		defer m.Close()
		fmt.Println(m.Inputs())
		return nil
	}
	return errors.New("none")
}

// 17: after a fatal error nothing needs to be closed.
func fatal(path string) {
	m, err := weir.Load(path)
	if err != nil {
		log.Fatal(err)
	}
	if len(m.Inputs()) == 0 {
		log.Fatalf("%s has no inputs", path)
	}
	if len(m.Metadata()) == 0 {
		os.Exit(2)
	}
	if len(m.Metadata()) == 1 {
		panic("one")
	}
	m.Close()
}

// 18: a helper that does not return.
func die(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func dies(path string) {
	m, err := weir.Load(path)
	if err != nil {
		die(err)
	}
	if len(m.Inputs()) > 3 {
		die(errors.New("many inputs"))
	}
	if err := m.Close(); err != nil {
		die(err)
	}
}

// 19: tests of nil.
func nils(path string) {
	m, err := weir.Load(path)
	if err != nil {
		fmt.Println(err)
	}
	if m != nil {
		defer m.Close()
	}
}

// 20: nil until it is there.
func optional(path string) error {
	var m *weir.Model
	if path != "" {
		var err error
		if m, err = weir.Load(path); err != nil {
			return err
		}
	}
	if m == nil {
		return nil
	}
	return m.Close()
}

// 21: the same test twice.
func twice(path string, verbose bool) error {
	var s *array.Scope
	if verbose {
		s = array.NewScope("verbose")
	}
	fmt.Println(path)
	if verbose {
		return s.Close()
	}
	return nil
}

// 22: the deferred closure is there before what it closes.
func before(path string) (err error) {
	var m *weir.Model
	defer func() {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	m, err = weir.Load(path)
	if err != nil {
		return err
	}
	fmt.Println(m.Inputs())
	return nil
}

// 23: a function to clean up is returned with it.
func withCleanup(path string) (*weir.Model, func(), error) {
	m, err := weir.Load(path)
	if err != nil {
		return nil, nil, err
	}
	return m, func() { m.Close() }, nil
}

// 24: or alone.
func cleanupOnly() (close func() error) {
	s := array.NewScope("cleanup")
	return s.Close
}

// 25: a variable holds the function to clean up.
func cleanupVariable(path string) error {
	m, err := weir.Load(path)
	if err != nil {
		return err
	}
	cleanup := func() { m.Close() }
	defer cleanup()
	return nil
}

// 26: once.
func once(path string) error {
	m, err := weir.Load(path)
	if err != nil {
		return err
	}
	closing := sync.OnceValue(m.Close)
	defer closing()
	return closing()
}

// 27: a goroutine closes it.
func inBackground(ctx context.Context, p *weir.Program, in weir.Inputs, out chan<- []float32) error {
	r, err := p.Run(ctx, in)
	if err != nil {
		return err
	}
	go func() {
		defer r.Close()
		scores, _ := weir.Copy[float32](r.Get("scores"))
		out <- scores
	}()
	return nil
}

// 28: sent to whoever closes it.
func produce(ctx context.Context, p *weir.Program, list []weir.Inputs, out chan<- *weir.Results) error {
	defer close(out)
	for _, in := range list {
		r, err := p.Run(ctx, in)
		if err != nil {
			return err
		}
		select {
		case out <- r:
		case <-ctx.Done():
			r.Close()
			return ctx.Err()
		}
	}
	return nil
}

// 29: as an interface.
func asCloser(path string) (io.Closer, error) {
	m, err := weir.Load(path)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func closeAll(closers ...io.Closer) (err error) {
	for _, c := range closers {
		err = errors.Join(err, c.Close())
	}
	return err
}

// 30: closed by a helper with others.
func together(ctx context.Context, path string) error {
	m, err := weir.Load(path)
	if err != nil {
		return err
	}
	p, err := weir.Compile(ctx, m, weir.Options{})
	if err != nil {
		return closeAll(m)
	}
	return closeAll(p, m)
}

// 31: closed by a deferred helper, which logs.
func quietly(c io.Closer) {
	if err := c.Close(); err != nil {
		log.Println(err)
	}
}

func deferredHelper(path string) error {
	m, err := weir.Load(path)
	if err != nil {
		return err
	}
	defer quietly(m)
	return nil
}

// 32: given to a function value, which may keep it.
func withModel(path string, use func(m *weir.Model) error) error {
	m, err := weir.Load(path)
	if err != nil {
		return err
	}
	return use(m)
}

// 33: given to an interface, which may keep it.
type registry interface {
	Register(name string, p *weir.Program)
}

func register(ctx context.Context, m *weir.Model, r registry) error {
	p, err := weir.Compile(ctx, m, weir.Options{})
	if err != nil {
		return err
	}
	r.Register("m", p)
	return nil
}

// 34: stored in a context.
type key struct{}

func inContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, key{}, array.NewScope("request"))
}

// 35: in a literal that is returned.
func pair() [2]*array.Scope {
	return [2]*array.Scope{array.NewScope("a"), array.NewScope("b")}
}

// 36: a global variable.
var shared = array.NewScope("shared")

var (
	loadOnce sync.Once
	loaded   *weir.Model
)

func get(path string) *weir.Model {
	loadOnce.Do(func() {
		m, err := weir.Load(path)
		if err != nil {
			log.Fatal(err)
		}
		loaded = m
	})
	return loaded
}

// 37: a switch over kinds of errors.
func kinds(path string) error {
	m, err := weir.Load(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return m.Close()
}

// 38: a type of error.
func typed(path string) error {
	m, err := weir.Load(path)
	var detail *weir.Error
	if errors.As(err, &detail) {
		return detail
	}
	if err != nil {
		return err
	}
	return m.Close()
}

// 39: the error is wrapped before it is tested.
func wrapped(path string) error {
	m, err := weir.Load(path)
	if err = wrap(err); err != nil {
		return err
	}
	return m.Close()
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("load: %w", err)
}

// 40: a named error that a deferred closure reads.
func named(path string) (err error) {
	defer func() {
		if err != nil {
			log.Println(err)
		}
	}()
	m, err := weir.Load(path)
	if err != nil {
		return err
	}
	err = m.Close()
	return err
}

// 41: recovered from a panic.
func recovered(path string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	m, err := weir.Load(path)
	if err != nil {
		return err
	}
	defer m.Close()
	return nil
}

// 42: closed when a context ends.
func until(ctx context.Context, p *weir.Program) {
	c, err := p.NewCall(nil)
	if err != nil {
		return
	}
	context.AfterFunc(ctx, func() { c.Close() })
}

// 43: generic code.
func mustBe[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func using[T io.Closer](v T, use func(T)) {
	defer v.Close()
	use(v)
}

func generic(ctx context.Context) {
	m := mustBe(weir.Load("m"))
	defer m.Close()
	using(mustBe(weir.Compile(ctx, m, weir.Options{})), func(p *weir.Program) { fmt.Println(p.Outputs()) })
}

// 44: methods of a type that embeds one.
type session struct {
	*weir.Program
	name string
}

func newSession(ctx context.Context, m *weir.Model) (session, error) {
	p, err := weir.Compile(ctx, m, weir.Options{})
	return session{p, "s"}, err
}

func useSession(ctx context.Context, m *weir.Model) error {
	s, err := newSession(ctx, m)
	if err != nil {
		return err
	}
	return s.Close()
}

// 45: training.
func training(ctx context.Context, l nn.Layer, batches []train.Batch) (err error) {
	store := nn.Init(l, nil)
	defer store.Close()
	t, err := train.New(l, store, train.Options{})
	if err != nil {
		return err
	}
	defer func() {
		if e := t.Close(); err == nil {
			err = e
		}
	}()
	for _, b := range batches {
		if _, err := t.Step(ctx, b); err != nil {
			return err
		}
	}
	return t.Save("dir")
}

// 46: it is closed if the loop runs, which it does.
func counted() {
	s := array.NewScope("counted")
	for i := range 3 {
		if i == 0 {
			continue
		}
	}
	for range 2 {
		s.Close()
	}
}

// 47: labels and goto.
func labels(paths []string) error {
	m, err := weir.Load(paths[0])
	if err != nil {
		return err
	}
outer:
	for _, path := range paths {
		for range path {
			if path == "x" {
				break outer
			}
			if path == "y" {
				goto done
			}
		}
	}
done:
	return m.Close()
}

// 48: closed twice on purpose.
func doubly(path string) error {
	m, err := weir.Load(path)
	if err != nil {
		return err
	}
	defer m.Close()
	fmt.Println(m.Inputs())
	return m.Close()
}

// readOutputs reads the outputs of a program or of a batcher, and closes them.
func readOutputs(o weir.Outputs) ([]float32, error) {
	defer o.Close()
	return weir.Copy[float32](o.At(0))
}

func givesOutputs(ctx context.Context, p *weir.Program, in weir.Inputs) ([]float32, error) {
	r, err := p.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	return readOutputs(r)
}

package array_test

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// TestNewestFirst: Close closes the open scopes inside, the newest first, each after those inside it.
func TestNewestFirst(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("s")
	first := array.NewScope("first", array.In(s))         //weirvet:ignore that it is open is the error
	second := array.NewScope("second", array.In(s))       //weirvet:ignore that it is open is the error
	inside := array.NewScope("inside", array.In(first))   //weirvet:ignore that it is open is the error
	closed := array.NewScope("closed", array.In(second))  // it is closed: its parent does not close it again
	another := array.NewScope("another", array.In(first)) //weirvet:ignore that it is open is the error
	fine(t, closed.Close())
	err := s.Close()
	wants(t, err, weir.ErrInput, "still open")
	at := -1
	for _, name := range []string{`"second"`, `"first"`, `"another"`, `"inside"`} {
		next := strings.Index(err.Error(), "scope "+name+" ")
		if next <= at {
			t.Errorf("%s comes at %d, what is before it at %d: %v", name, next, at, err)
		}
		at = next
	}
	if strings.Contains(err.Error(), `"closed"`) {
		t.Error(err)
	}
	fine(t, errors.Join(inside.Close(), another.Close(), first.Close(), second.Close(), s.Close()))
}

// TestBothScopes: an array that is lent or moved to a closed, capped or full scope is an error that names both scopes,
// and the array stays.
func TestBothScopes(t *testing.T) {
	array.AssertNoLeaks(t)
	gone, capped, full := array.NewScope("target"), array.NewScope("target"), array.NewScope("target", array.Limit(4))
	fine(t, gone.Close())
	capped.Cap()
	for kind, to := range map[error]*array.Scope{weir.ErrClosed: gone, weir.ErrInput: capped, weir.ErrMemory: full} {
		for what, give := range map[string]func(s *array.Scope, a *array.Array){
			"lend":     func(s *array.Scope, a *array.Array) { s.Lend(a, to) },
			"transfer": func(s *array.Scope, a *array.Array) { s.Transfer(a, to) },
		} {
			if to == full && what == "lend" { // a loan does not count as the borrower's bytes
				continue
			}
			s := array.NewScope("source")
			a := s.Ones(weir.F32, 3)
			give(s, a)
			wants(t, s.Err(), kind, what, `"source"`, `"target"`, "f32[3]", "statements_test.go:")
			if a.Scope() != s || a.Tensor() == nil || to.Count() != 0 {
				t.Errorf("%s: it did not stay", what)
			}
			wants(t, s.Close(), kind)
		}
	}
	fine(t, capped.Close())
	fine(t, full.Close())
}

// TestNoGlobalScope: only explicitly opened scopes exist: operations, gradients, compiled functions and errors leave
// none.
func TestNoGlobalScope(t *testing.T) {
	array.AssertNoLeaks(t)
	var before, after strings.Builder
	fine(t, array.Dump(&before))
	s := array.NewScope("s")
	x := s.Ones(weir.F32, 3)
	total := func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.Sum(s.Mul(in[0], in[0]))}
	}
	array.Grad(total)(s, x)
	c, err := array.Jit(total, array.Options{})
	fine(t, err)
	c.Call(s, x)
	fine(t, c.Close())
	_, err = array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.MatMul(in[0], x)}
	},
		array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, 5)}})
	wants(t, err, weir.ErrInput, "matmul")
	fine(t, s.Close())
	fine(t, array.Dump(&after))
	if before.String() != after.String() {
		t.Errorf("scopes are open:\n%s\nbefore it were\n%s", after.String(), before.String())
	}
}

// TestHandedOver: a scope moves from goroutine to goroutine with its arrays.
func TestHandedOver(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("s")
	x := s.Ones(weir.F32, 4)
	for range 20 {
		done := make(chan *array.Scope)
		go func() {
			inner := array.NewScope("inner", array.In(s))
			inner.Return(inner.Add(x, x))
			done <- inner
		}()
		inner := <-done
		go func() {
			if err := inner.Close(); err != nil {
				t.Error(err)
			}
			done <- nil
		}()
		<-done
	}
	if s.Count() != 21 {
		t.Errorf("%d arrays", s.Count())
	}
	fine(t, s.Close())
}

// told records the messages of AssertNoLeaks.
type told struct {
	errors  []string
	cleanup []func()
}

func (t *told) Helper()          {}
func (t *told) Cleanup(f func()) { t.cleanup = append(t.cleanup, f) }
func (t *told) Errorf(format string, args ...any) {
	t.errors = append(t.errors, fmt.Sprintf(format, args...))
}

// TestAssertNoLeaks: a scope that is left open is an error with the lines that opened it and made its arrays; so is a
// scope inside one that was open before.
func TestAssertNoLeaks(t *testing.T) {
	array.AssertNoLeaks(t)
	outer := array.NewScope("outer")
	for name, leaves := range map[string]func() *array.Scope{
		"scope": func() *array.Scope { return array.NewScope("left") },
		"inner": func() *array.Scope { return array.NewScope("left", array.In(outer)) },
		"none":  func() *array.Scope { return nil },
	} {
		var fake told
		array.AssertNoLeaks(&fake)
		s := leaves()
		if s != nil {
			s.Ones(weir.F32, 5)
		}
		for _, f := range fake.cleanup {
			f()
		}
		text := strings.Join(fake.errors, "\n")
		if s == nil != (text == "") || s != nil && !(strings.Contains(text, "left") && strings.Contains(text, "f32[5]") &&
			strings.Contains(text, "statements_test.go:")) {
			t.Errorf("%s: told %q", name, text)
		}
		fine(t, s.Close())
	}
	fine(t, outer.Close())
}

// TestWithoutCollector: with Go's collector off, Close alone frees all memory.
func TestWithoutCollector(t *testing.T) {
	array.AssertNoLeaks(t)
	total := func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.Sum(s.Mul(in[0], in[0]))}
	}
	turn := func() {
		s := array.NewScope("s")
		defer s.Close()
		x := s.Normal(array.Key(1), weir.F32, 0, 1, 50)
		array.Grad(total)(s, x)
		c, err := array.Jit(total, array.Options{})
		fine(t, err)
		c.Call(s, s.Sort(x, 0))
		fine(t, c.Close())
		fine(t, s.Err())
	}
	turn()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before := weir.Usage().Current
	for range 100 {
		turn()
		if now := weir.Usage().Current; now != before {
			t.Fatalf("%d bytes became %d", before, now)
		}
	}
}

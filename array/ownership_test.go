package array_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// wants fails t unless an error is of a kind and contains all words.
func wants(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if err == nil || !errors.Is(err, kind) {
		t.Fatalf("error %v, want one of kind %v", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not name %q", err, w)
		}
	}
}

// fine fails t on an error.
func fine(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// held returns the bytes of all tensors in the process.
func held() int64 { return weir.Usage().Tensors }

// TestCreated: an array belongs to the scope that made it; closing the scope frees the array.
func TestCreated(t *testing.T) {
	array.AssertNoLeaks(t)
	before := held()
	s := array.NewScope("s")
	a := s.Ones(weir.F32, 1000)
	if a.Scope() != s || held() < before+4000 {
		t.Fatalf("owner %v, %d bytes", a.Scope(), held()-before)
	}
	fine(t, s.Close())
	if held() != before {
		t.Fatalf("%d bytes are left", held()-before)
	}
	fine(t, s.Close()) // closing twice is harmless
	_, err := array.Copy[float32](a)
	wants(t, err, weir.ErrClosed, "ownership_test.go")
}

// TestDetach: a detached array leaves its scope, and closing the scope does not close it. An array that is lent, or
// that shares a caller's tensor, cannot be detached.
func TestDetach(t *testing.T) {
	array.AssertNoLeaks(t)
	before := held()
	s := array.NewScope("s", array.Limit(8000))
	a := s.Ones(weir.F32, 1000)
	borrower := array.NewScope("borrower")
	defer borrower.Close()
	loan := s.Lend(a, borrower)
	_, err := a.Detach()
	wants(t, err, weir.ErrInput, "is lent", "borrower")
	fine(t, loan.Close())
	tensor, err := a.Detach()
	if err != nil || s.Count() != 0 {
		t.Fatalf("%v, %d arrays", err, s.Count())
	}
	_, err = a.Detach()
	wants(t, err, weir.ErrClosed, "ownership_test.go")
	s.Ones(weir.F32, 2000) // the limit no longer counts the detached array
	_, err = array.Of(s, tensor).Detach()
	wants(t, err, weir.ErrInput, "not its own")
	fine(t, s.Close())
	list, err := weir.Copy[float32](tensor)
	if err != nil || len(list) != 1000 || list[999] != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	fine(t, tensor.Close())
	if held() != before {
		t.Errorf("%d bytes are left", held()-before)
	}
}

// TestResultOwner: a result belongs to the scope that runs the operation, whoever owns the operands, also for reshapes
// and gathers, which might return an operand's own memory.
func TestResultOwner(t *testing.T) {
	array.AssertNoLeaks(t)
	model := array.NewScope("model")
	defer model.Close()
	w := model.Ones(weir.F32, 4, 4)
	model.Cap()
	batch := array.NewScope("batch", array.In(model))
	x := batch.Ones(weir.F32, 4, 4)
	for _, y := range []*array.Array{batch.MatMul(w, x), batch.Add(w, w), batch.Relu(w), batch.Sum(w),
		batch.Cast(w, weir.F64)} {
		if y.Scope() != batch {
			t.Errorf("%v belongs to %v", y, y.Scope())
		}
	}
	if model.Count() != 1 {
		t.Errorf("the model has %d arrays", model.Count())
	}
	fine(t, batch.Close())
	fine(t, model.Err())
}

// TestOrder: closing a scope closes the scopes inside it, the newest first, and reports that they were open.
func TestOrder(t *testing.T) {
	array.AssertNoLeaks(t)
	outer := array.NewScope("outer")
	inner := array.NewScope("inner", array.In(outer))
	innermost := array.NewScope("innermost", array.In(inner))
	a := innermost.Ones(weir.F32, 3)
	err := outer.Close()
	wants(t, err, weir.ErrInput, `"inner"`, `"innermost"`, `"outer"`, "still open", "ownership_test.go")
	if _, err := array.Copy[float32](a); err == nil {
		t.Error("the array lives")
	}
	fine(t, inner.Close())
	fine(t, innermost.Close())
	// In the right order there is nothing to report.
	outer = array.NewScope("outer")
	inner = array.NewScope("inner", array.In(outer))
	fine(t, inner.Close())
	fine(t, outer.Close())
}

// TestClosedScope: a use after Close is an error that names both lines.
func TestClosedScope(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("gone")
	a := s.Ones(weir.F32, 3)
	fine(t, s.Close())
	other := array.NewScope("other")
	other.Add(a, a)
	wants(t, other.Err(), weir.ErrClosed, "made at", "closed at", "f32[3]")
	wants(t, other.Close(), weir.ErrClosed)
	s.Ones(weir.F32, 3)
	wants(t, s.Err(), weir.ErrClosed, `"gone"`, "closed at")
	child := array.NewScope("child", array.In(s))
	wants(t, child.Err(), weir.ErrClosed, `"gone"`)
	wants(t, child.Close(), weir.ErrClosed)
	third := array.NewScope("third")
	b := third.Ones(weir.F32, 3)
	third.Transfer(b, s)
	wants(t, third.Err(), weir.ErrClosed, `"gone"`)
	if b.Scope() != third {
		t.Error("the array has no owner")
	}
	if third.Close() == nil {
		t.Error("no error")
	}
}

// TestLoan: A lends to B, and after B is closed the array is A's alone. The same holds for a loan through C, in the
// order in which they close.
func TestLoan(t *testing.T) {
	array.AssertNoLeaks(t)
	a, b, c := array.NewScope("a"), array.NewScope("b"), array.NewScope("c")
	x := a.Ones(weir.F32, 3)
	a.Lend(x, b)
	wants(t, a.Close(), weir.ErrInput, `"a"`, `"b"`, "loans out", "ownership_test.go")
	if x.Tensor() == nil {
		t.Fatal("it was freed while lent")
	}
	b.Lend(x, c)
	wants(t, b.Close(), weir.ErrInput, `"c"`) // c can neither free the array nor lose the loan
	wants(t, x.Close(), weir.ErrInput, "lent")
	fine(t, c.Close())
	fine(t, b.Close())
	if x.Tensor() == nil || x.Scope() != a {
		t.Fatal("it did not come back")
	}
	fine(t, a.Close())
	if x.Tensor() != nil {
		t.Error("it lives on")
	}
}

// TestLoanEnds: Close ends a loan, once; a loan of the borrower's must end first.
func TestLoanEnds(t *testing.T) {
	array.AssertNoLeaks(t)
	a, b, c := array.NewScope("a"), array.NewScope("b"), array.NewScope("c")
	defer c.Close()
	defer b.Close()
	x := a.Ones(weir.F32, 3)
	first := a.Lend(x, b)
	second := b.Lend(x, c)
	wants(t, first.Close(), weir.ErrInput, `"c"`)
	fine(t, second.Close())
	fine(t, first.Close())
	fine(t, first.Close())
	fine(t, a.Close())
}

// TestLoanToInside: a loan to a scope inside ends with that scope, and does not keep the owner from closing both.
func TestLoanToInside(t *testing.T) {
	array.AssertNoLeaks(t)
	a := array.NewScope("a")
	b := array.NewScope("b", array.In(a)) //weirvet:ignore that it is open is the error
	a.Lend(a.Ones(weir.F32, 3), b)
	wants(t, a.Close(), weir.ErrInput, "still open")
	a = array.NewScope("a")
	b = array.NewScope("b", array.In(a))
	a.Lend(a.Ones(weir.F32, 3), b)
	fine(t, b.Close())
	fine(t, a.Close())
}

// TestLoanTwice: a loan cannot replace another, nor can loans form a circle.
func TestLoanTwice(t *testing.T) {
	array.AssertNoLeaks(t)
	for name, wrong := range map[string]func(a, b, c *array.Scope, x *array.Array){
		"again":    func(a, b, _ *array.Scope, x *array.Array) { a.Lend(x, b) },
		"back":     func(a, b, _ *array.Scope, x *array.Array) { b.Lend(x, a) },
		"self":     func(a, _, _ *array.Scope, x *array.Array) { a.Lend(x, a) },
		"circle":   func(_, b, c *array.Scope, x *array.Array) { b.Lend(x, c); c.Lend(x, b) },
		"stranger": func(_, b, c *array.Scope, x *array.Array) { c.Lend(x, b) },
		"move":     func(a, _, c *array.Scope, x *array.Array) { a.Transfer(x, c) },
		"return":   func(_, b, _ *array.Scope, x *array.Array) { b.Return(x) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b, c := array.NewScope("a"), array.NewScope("b"), array.NewScope("c")
			x := a.Ones(weir.F32, 3)
			a.Lend(x, b)
			wrong(a, b, c, x)
			if errors.Join(a.Err(), b.Err(), c.Err()) == nil {
				t.Error("no error")
			}
			if x.Scope() != a || x.Tensor() == nil {
				t.Error("the owner changed")
			}
			for _, s := range []*array.Scope{c, b, a} {
				if err := s.Close(); err != nil && strings.Contains(err.Error(), "loans out") {
					t.Error(err)
				}
			}
			if x.Tensor() != nil {
				t.Error("it lives on")
			}
		})
	}
}

// TestNowhere: an array that is lent or transferred to a nil scope does not change, and its scope can be closed.
func TestNowhere(t *testing.T) {
	array.AssertNoLeaks(t)
	for what, give := range map[string]func(s *array.Scope, a *array.Array){
		"lend":     func(s *array.Scope, a *array.Array) { s.Lend(a, nil) },
		"transfer": func(s *array.Scope, a *array.Array) { s.Transfer(a, nil) },
	} {
		s := array.NewScope("s")
		a := s.Ones(weir.F32, 3)
		give(s, a)
		wants(t, s.Err(), weir.ErrInput, what, "nil", "ownership_test.go")
		if err := a.Close(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		wants(t, s.Close(), weir.ErrInput, what)
	}
}

// TestReturn: Return moves a result to the scope around; arrays of outer scopes stay where they are.
func TestReturn(t *testing.T) {
	array.AssertNoLeaks(t)
	outer := array.NewScope("outer")
	x := outer.Ones(weir.F32, 2)
	twice := func(parent *array.Scope, x *array.Array) *array.Array {
		s := array.NewScope("twice", array.In(parent))
		defer s.Close()
		return s.Return(s.Add(x, x))
	}
	y := twice(outer, x)
	list, err := array.Copy[float32](y)
	fine(t, err)
	if y.Scope() != outer || list[0] != 2 || outer.Count() != 2 {
		t.Errorf("%v, %v, %d arrays", y.Scope(), list, outer.Count())
	}
	s := array.NewScope("s", array.In(outer))
	s.Return(x)
	fine(t, s.Close())
	if x.Scope() != outer {
		t.Error("the parent's array moved")
	}
	fine(t, outer.Close())
	alone := array.NewScope("alone")
	alone.Return(alone.Ones(weir.F32, 1))
	wants(t, alone.Close(), weir.ErrInput, "no scope around")
}

// TestAtomic: if the target refuses an array, its owner does not change.
func TestAtomic(t *testing.T) {
	array.AssertNoLeaks(t)
	small, full := array.NewScope("small", array.Limit(8)), array.NewScope("full")
	full.Cap()
	for _, target := range []*array.Scope{small, full} {
		s := array.NewScope("s")
		x := s.Ones(weir.F32, 4)
		s.Transfer(x, target)
		if s.Err() == nil || x.Scope() != s || x.Tensor() == nil || target.Count() != 0 || s.Count() != 1 {
			t.Errorf("%v: owner %v, %d arrays", s.Err(), x.Scope(), target.Count())
		}
		s.Close()
	}
	fine(t, small.Close())
	fine(t, full.Close())
}

// TestCap: a capped scope accepts no array and no loan; scopes inside it, and loans that come back, are allowed.
func TestCap(t *testing.T) {
	array.AssertNoLeaks(t)
	s, other := array.NewScope("s"), array.NewScope("other")
	x, y := s.Ones(weir.F32, 2), other.Ones(weir.F32, 2)
	l := s.Lend(x, other)
	s.Cap()
	fine(t, l.Close())
	inside := array.NewScope("inside", array.In(s))
	inside.Add(x, x) // only the operand's scope is capped, not the operation's
	fine(t, inside.Close())
	if other.Lend(y, s) != nil {
		t.Error("lent to a capped scope")
	}
	wants(t, other.Err(), weir.ErrInput, "capped", `"s"`)
	if wants(t, other.Close(), weir.ErrInput, "capped"); y.Tensor() != nil {
		t.Error("the loan that failed keeps the array")
	}
	s.Add(x, x)
	wants(t, s.Close(), weir.ErrInput, "capped")
}

// TestFaultsApart: an operation on a capped scope is an error of its own result. It does not stop loans, nor a later
// operation that needs no array, and its scope still returns the first error. What cannot be lent is an error of the
// borrower.
func TestFaultsApart(t *testing.T) {
	array.AssertNoLeaks(t)
	model := array.NewScope("model")
	w := model.Ones(weir.F32, 2)
	model.Cap()
	faulty := map[string]func() *array.Array{
		"compiled": func() *array.Array { return model.Add(w, w) },
		"moved":    func() *array.Array { return model.Flip(w) },
		"cut":      func() *array.Array { return model.Split(w, 0, 1, 1)[1] },
		"made":     func() *array.Array { return array.From(model, []float32{1}) },
		"shape":    func() *array.Array { return model.Reshape(w, 3) },
		"random":   func() *array.Array { return model.Normal(array.Key(1), weir.F32, 0, 1, 2) },
		"triangle": func() *array.Array { return model.Tril(model.Reshape(w, 1, 2), 0) },
		"indexed":  func() *array.Array { return model.Take(w, array.From(model, []int64{0}), 0) },
	}
	for name, operation := range faulty {
		for range 2 {
			request := array.NewScope("request")
			y := operation()
			_, err := array.Copy[float32](y)
			wants(t, err, weir.ErrInput, "ownership_test.go")
			request.Relu(y)
			wants(t, request.Err(), weir.ErrInput, "ownership_test.go")
			request.Close()
			request = array.NewScope("request")
			if l := model.Lend(w, request); l == nil || request.Err() != nil {
				t.Fatalf("%s: lent %v, %v", name, l, request.Err())
			}
			v, err := array.Copy[float32](request.Add(w, w))
			if err != nil || v[0] != 2 {
				t.Errorf("%s: %v, %v", name, v, err)
			}
			fine(t, request.Close())
			request = array.NewScope("request")
			if model.Lend(y, request) != nil {
				t.Errorf("%s: an array without elements is lent", name)
			}
			wants(t, request.Close(), weir.ErrInput, "ownership_test.go")
		}
	}
	values := array.NewScope("values")
	defer values.Close()
	model.Assign(w, values.Full(5, weir.F32, 2))
	if v, err := array.Copy[float32](w); err != nil || v[0] != 5 {
		t.Errorf("in place: %v, %v", v, err)
	}
	request, stranger := array.NewScope("request"), array.NewScope("stranger")
	model.Lend(w, request)
	model.Lend(w, request)
	wants(t, request.Err(), weir.ErrInput, "lent to", "already")
	stranger.Lend(w, request)
	model.Lend(nil, stranger)
	wants(t, stranger.Close(), weir.ErrInput, "nil")
	if err := request.Close(); err == nil {
		t.Error("no error")
	}
	wants(t, model.Close(), weir.ErrInput, "ownership_test.go") // the first of them
	if w.Tensor() != nil {
		t.Error("it lives on")
	}
}

// TestLimit: a scope with a limit refuses arrays beyond it, including those of scopes inside.
func TestLimit(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("s", array.Limit(1000))
	x := s.Ones(weir.F32, 100)
	inside := array.NewScope("inside", array.In(s))
	inside.Add(x, x)
	inside.Add(x, x)
	inside.Add(x, x)
	wants(t, inside.Close(), weir.ErrMemory, "1000", `"s"`)
	again := array.NewScope("again", array.In(s))
	again.Add(x, x)
	fine(t, again.Close())
	fine(t, s.Close())
}

// TestFirstError: a scope keeps its first error, with its line; later operations do nothing and add no error. Errors of
// closing are joined to it.
func TestFirstError(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("s")
	x, w := s.Ones(weir.F32, 2, 3), s.Ones(weir.F32, 4, 5)
	y := s.MatMul(x, w)
	z := s.Relu(s.Add(y, x))
	wants(t, s.Err(), weir.ErrInput, "matmul", "ownership_test.go")
	first := s.Err()
	if _, err := array.Copy[float32](z); err != first {
		t.Errorf("%v", err)
	}
	outer := array.NewScope("outer")
	outer.Add(y, y) // the dead result says why it is dead
	wants(t, outer.Close(), weir.ErrInput, "matmul")
	array.NewScope("inside", array.In(s)) //weirvet:ignore that it is open is the error
	err := s.Close()
	wants(t, err, weir.ErrInput, "matmul", "still open")
}

// TestPerElement: each result of a call has an owner of its own.
func TestPerElement(t *testing.T) {
	array.AssertNoLeaks(t)
	outer := array.NewScope("outer")
	c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.Add(in[0], in[0]), s.Mul(in[0], in[0])}
	}, array.Options{})
	fine(t, err)
	s := array.NewScope("s", array.In(outer))
	out := c.Call(s, s.Ones(weir.F32, 2))
	kept := s.Return(out[1])
	fine(t, s.Close())
	if out[0].Tensor() != nil || kept.Tensor() == nil {
		t.Error("the results share an owner")
	}
	fine(t, c.Close())
	fine(t, outer.Close())
}

// TestGoroutines: many goroutines read, borrow and return a shared parameter, each in a scope of its own; the scopes
// move between goroutines. Run under the race detector.
func TestGoroutines(t *testing.T) {
	array.AssertNoLeaks(t)
	model := array.NewScope("model")
	w := model.Ones(weir.F32, 8, 8)
	model.Cap()
	var all sync.WaitGroup
	for range 16 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 50 {
				s := array.NewScope("request")
				l := model.Lend(w, s)
				y := s.Sum(s.MatMul(w, w))
				if v, err := array.Item[float32](y); err != nil || v != 512 {
					t.Error(v, err)
				}
				done := make(chan error)
				go func() { done <- errors.Join(l.Close(), s.Close()) }()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
	fine(t, model.Close())
}

// TestSeveralGradients: gradients are computed at the same time, and inside each other.
func TestSeveralGradients(t *testing.T) {
	array.AssertNoLeaks(t)
	cube := func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.Sum(s.Mul(in[0], s.Mul(in[0], in[0])))}
	}
	sum := func(f array.Func) array.Func {
		return func(s *array.Scope, in ...*array.Array) []*array.Array { return []*array.Array{s.Sum(f(s, in...)[0])} }
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			s := array.NewScope("s")
			x := array.From(s, []float32{float32(i)})
			first, second := array.Grad(cube)(s, x)[0], array.Grad(sum(array.Grad(cube)))(s, x)[0]
			a, err := array.Item[float32](first)
			b, other := array.Item[float32](second)
			if want := float32(3 * i * i); err != nil || other != nil || a != want || b != float32(6*i) {
				t.Errorf("%v %v, want %v and %v: %v", a, b, want, 6*i, s.Err())
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	all.Wait()
}

// TestDump: the dump is a tree with bytes, counts, loans and lines.
func TestDump(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("model")
	x := s.Ones(weir.F32, 10)
	inside := array.NewScope("batch", array.In(s))
	s.Lend(x, inside)
	inside.Zeros(weir.F64, 2, 2)
	var text strings.Builder
	fine(t, s.Dump(&text))
	for _, want := range []string{"model: ", "f32[10]: 40 bytes", "lent 1 times", "  batch: 32 bytes, 1 arrays, 1 loans",
		"1 × f64[2,2]", "on loan: f32[10]", "ownership_test.go"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	fine(t, inside.Close())
	fine(t, s.Close())
}

// TestJitLoans: an array that a compiled function reads is lent to it: its scope cannot be closed before the function.
func TestJitLoans(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("weights")
	w := s.Ones(weir.F32, 2)
	c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array { return []*array.Array{s.Add(in[0], w)} },
		array.Options{Name: "plus", Inputs: []array.Spec{array.SpecOf("x", weir.F32, 2)}})
	fine(t, err)
	wants(t, s.Close(), weir.ErrInput, "loans out", `"plus"`)
	fine(t, c.Close())
	fine(t, s.Close())
	if c.Call(s, w); s.Err() == nil {
		t.Error("no error")
	}
}

// TestOf: a tensor that is lent to a scope is not closed with it.
func TestOf(t *testing.T) {
	array.AssertNoLeaks(t)
	x, err := weir.New(weir.F32, 3)
	fine(t, err)
	defer x.Close()
	s := array.NewScope("s")
	a := array.Of(s, x)
	y := s.Add(a, s.Number(1))
	fine(t, s.Err())
	if y.Tensor().Len() != 3 {
		t.Error(y)
	}
	fine(t, s.Close())
	if x.Bytes() == nil {
		t.Error("the tensor was closed")
	}
	fine(t, x.Close())
	s = array.NewScope("s")
	array.Of(s, x)
	wants(t, s.Close(), weir.ErrClosed)
}

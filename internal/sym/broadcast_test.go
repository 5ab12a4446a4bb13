package sym

import "testing"

// TestJoined evaluates the extent that two and three extents are broadcast to, the steps and the conditions, at extents
// of 0 to 3.
func TestJoined(t *testing.T) {
	for _, least := range []int64{0, 1} {
		d := NewDims()
		names := []Name{User("a"), User("b"), User("c")}
		extents := make([]Expr, 3)
		for i, name := range names {
			d.Set(name, Range{least, NoMax})
			extents[i] = Var(name)
		}
		for count := 2; count <= 3; count++ {
			to := d.Joined(extents[:count]...)
			if again := d.Joined(to, extents[0]); !again.Equal(to) {
				t.Errorf("%s joined with one of its extents is %s", to, again)
			}
			if short := d.Simplify(to); !Joins(to) || !Joins(short) || Joins(extents[0]) {
				t.Errorf("Joins of %s is %v, of %s %v", to, Joins(to), short, Joins(short))
			}
			for n := range 64 {
				at := []int64{int64(n % 4), int64(n / 4 % 4), int64(n / 16)}
				if min(at[0], at[1], at[2]) < least {
					continue
				}
				checkJoined(t, d, extents[:count], to, at)
			}
		}
	}
}

// TestJoinedLarge evaluates the extent and the conditions for many large extents: nothing leaves 64 bits.
func TestJoinedLarge(t *testing.T) {
	d := NewDims()
	var list []Expr
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
		d.Set(User(name), Range{0, NoMax})
		list = append(list, Var(User(name)))
	}
	const size = 1 << 60
	value := func(name Name) (int64, bool) {
		if name == User("b") {
			return 1, true
		}
		return size, true
	}
	to := d.Joined(list...)
	if got, err := to.Eval(value); err != nil || got != size {
		t.Errorf("%s is %d; %v", to, got, err)
	}
	for _, e := range list {
		if ok, err := Repeats(e, d.Step(e, to), to).Eval(value); err != nil || !ok {
			t.Errorf("the condition of %s: %v, %v", e, ok, err)
		}
	}
}

// checkJoined compares Joined, Step and Repeats with numbers.
func checkJoined(t *testing.T, d *Dims, extents []Expr, to Expr, at []int64) {
	value := func(name Name) (int64, bool) { return at[name.Text()[0]-'a'], true }
	want, fits := int64(1), true
	for _, x := range at[:len(extents)] {
		if x != 1 && want != 1 && want != x {
			fits = false
		}
		if x != 1 {
			want = x
		}
	}
	holds := true
	for i, e := range extents {
		step := d.Step(e, to)
		ok, err := Repeats(e, step, to).Eval(value)
		if err != nil {
			t.Fatal(err)
		}
		holds = holds && ok
		if got, err := step.Eval(value); fits && (err != nil || got != 0 && got != 1 || at[i] != 1+got*(want-1)) {
			t.Errorf("at %v the step of %s is %d; %v", at, e, got, err)
		}
	}
	if holds != fits {
		t.Errorf("at %v the conditions hold: %v", at, holds)
	}
	if got, err := to.Eval(value); fits && (err != nil || got != want) {
		t.Errorf("at %v %s is %d; %v", at, to, got, err)
	}
}

// TestRepeatsWords: a condition of a broadcast is told as equalities.
func TestRepeatsWords(t *testing.T) {
	d := NewDims()
	a, b, c := Var(User("a")), Var(User("b")), Var(User("c"))
	for _, name := range []string{"a", "b", "c"} {
		d.Set(User(name), Range{1, NoMax})
	}
	for _, x := range []struct {
		to   Expr
		want string
	}{
		{d.Joined(a, b), "a == b or a == 1 or b == 1"},
		{Const(8), "a == 8 or a == 1"},
		{b, "a == b or a == 1"},
		{d.Joined(a, b, c), "a == max(a, b, c) or a == 1"},
	} {
		if got := Repeats(a, d.Step(a, x.to), x.to).Words(); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}

// TestCondAt: of a branch's condition, what it says in a run that takes the branch is left.
func TestCondAt(t *testing.T) {
	a, b := Var(User("a")), Var(User("b"))
	other := a.Sub(Const(1)).Max(Const(1).Sub(a)).Min(Const(1)) // 0 if a = 1, else 1
	taken := Const(1).Sub(other)
	c := Cond{A: b.Sub(Const(1)).Mul(taken).Add(other), Rel: NE, B: Const(0)}
	at := func(x, y int64) func(Name) (int64, bool) {
		return func(name Name) (int64, bool) {
			if name == User("a") {
				return x, true
			}
			return y, name == User("b")
		}
	}
	if got, ok := c.At(at(1, 1)); !ok || got.String() != "1 != b" && got.String() != "b != 1" {
		t.Errorf("%s, %v", got, ok)
	}
	if got, ok := c.At(at(2, 1)); ok {
		t.Errorf("of a branch that is not taken, %s is left", got)
	}
}

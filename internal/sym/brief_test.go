package sym

import "testing"

// TestNotNegative shows that facts that are not shown briefly are shown with all means afterwards, that a fact stays
// shown, and that neither attempt shows it of an expression that can be negative.
func TestNotNegative(t *testing.T) {
	d := NewDims()
	d.Set(User("n"), Range{1, NoMax})
	d.Set(User("k"), Range{0, 7})
	for _, c := range []struct {
		text         string
		brief, shown bool
	}{
		{"3", true, true},
		{"n - 1", true, true},
		{"n + k - 1", true, true},
		{"max(n, k) - n", true, true},
		{"n - 8*(n//8)", true, true},
		{"(3*n + 5)//7 - (3*n)//7", true, true},
		{"(n + 3)//4 - (n + k)//16", true, true},
		{"n//2 - n//4", true, true},
		{"n - (n + 3)//4", true, true},
		{"k - n", false, false},
		{"n//8 - 1", false, false},
	} {
		e, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.NotNegative(e, true); got != c.brief {
			t.Errorf("%s, briefly: %v", c.text, got)
		}
		for range 2 {
			if got := d.NotNegative(e, false); got != c.shown {
				t.Errorf("%s: %v", c.text, got)
			}
		}
		if got := d.NotNegative(e, true); got != c.shown {
			t.Errorf("%s, briefly after a proof: %v", c.text, got)
		}
	}
	d.Set(User("n"), Range{8, NoMax})
	if e, _ := Parse("n//8 - 1"); !d.NotNegative(e, true) {
		t.Error("a range that was narrowed is not seen")
	}
}

// TestLessens shows for pairs of expressions whether subtraction cancels a product.
func TestLessens(t *testing.T) {
	for _, c := range []struct {
		e, f string
		want bool
	}{
		{"n + 2*m", "m - 5", true}, {"n - 2*m", "m - 5", false}, {"n*m + k", "n + m", false}, {"n*m + k", "3*n*m - k", true},
		{"4", "n", false}, {"n//2 - n", "n", false}, {"-n", "-3*n + k", true},
	} {
		e, _ := Parse(c.e)
		f, _ := Parse(c.f)
		if got := e.Lessens(f); got != c.want {
			t.Errorf("%s lessens %s: %v", c.f, c.e, got)
		}
	}
}

// TestBriefIsBrief shows that a brief question costs a small fraction of the credit of a full one.
func TestBriefIsBrief(t *testing.T) {
	d := NewDims()
	for _, name := range []string{"a", "b", "c"} {
		d.Set(User(name), Range{0, NoMax})
	}
	// These are squares, but nothing shows that.
	e, err := Parse("(a - b)*(a - b) + max((a + b)//256 + 4, c//256)*(b//3 - c//5)*(b//3 - c//5)")
	if err != nil {
		t.Fatal(err)
	}
	cost := func(briefly bool) int64 {
		before := d.credit.Load()
		if d.NotNegative(e, briefly) {
			t.Fatal("squares are shown: the test needs another formula")
		}
		return before - d.credit.Load()
	}
	if brief, whole := cost(true), cost(false); 4*brief > whole {
		t.Errorf("briefly %d, with all means %d", brief, whole)
	}
	if again := cost(false); again != 0 {
		t.Errorf("asked again it costs %d", again)
	}
}

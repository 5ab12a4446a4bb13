package texts

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// TestStory: a storage of 64 bytes holds 16 floats. For a tensor of m floats, that is proved, refused, or a condition
// that is checked before a run.
func TestStory(t *testing.T) {
	p, err := weirtest.CompileText(t, weirtest.Story("[0, inf]", "64"), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Requires(); len(r) != 1 || r[0] != (weir.Condition{Condition: "m <= 16", From: "carve %t of %s, line 6"}) {
		t.Fatalf("%v", r)
	}
	if most, err := p.Memory().Max(1); err != nil || most < 128 ||
		!slices.Equal(p.Dims(), []weir.Dimension{{Name: "m", Min: 0, Max: 16}}) {
		t.Errorf("at most %d bytes (%v), with %v", most, err, p.Dims())
	}
	for _, m := range []int{0, 1, 16, 17, 1025} {
		data := make([]float32, m)
		for i := range data {
			data[i] = float32(i) / 8
		}
		x, err := weir.FromSlice(data, m)
		if err != nil {
			t.Fatal(err)
		}
		before := weir.Usage().Current
		r, err := p.Run(context.Background(), weir.Inputs{"x": x})
		if m > 16 {
			var e *weir.Error
			if !errors.As(err, &e) || !errors.Is(err, weir.ErrInput) || e.Tensor != "t" || e.Dim != "m" ||
				!strings.Contains(e.Error(), "16") || !strings.Contains(e.Error(), "line 6") {
				t.Errorf("%d: %v", m, err)
			}
			if now := weir.Usage().Current; now > before {
				t.Errorf("%d: %d bytes, then %d", m, before, now)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%d: %v", m, err)
		}
		got, _ := weir.Copy[float32](r.Get("y"))
		for i, v := range got {
			if want := -math.Exp(float64(i) / 8); math.Abs(float64(v)-want) > 1e-5*math.Abs(want) {
				t.Errorf("%d: y[%d] is %v, not %v", m, i, v, want)
			}
		}
		r.Close()
		seen, err := p.Measure(context.Background(), weir.Inputs{"x": x})
		if err != nil {
			t.Fatal(err)
		}
		want, err := p.Memory().Peak(1, weir.Dims{"m": int64(m)})
		if err != nil {
			t.Fatal(err)
		}
		if m > 0 && seen.Peak(1) != want || seen.Arena != 64 {
			t.Errorf("%d: %d bytes predicted, %d measured, %d of them arena", m, want, seen.Peak(1), seen.Arena)
		}
	}
	_, err = weirtest.CompileText(t, weirtest.Story("[17, inf]", "64"), weir.Options{})
	if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "m = 17") ||
		!strings.Contains(err.Error(), "68 against 64") {
		t.Errorf("17 and more: %v", err)
	}
	if _, err = weirtest.CompileText(t, weirtest.Story("[0, inf]", "64"),
		weir.Options{Dims: map[string]weir.Range{"m": {Min: 20, Max: 30}}}); !errors.Is(err, weir.ErrInput) ||
		!strings.Contains(err.Error(), "m = 20") {
		t.Errorf("20 to 30: %v", err)
	}
	for _, free := range []struct{ dim, bytes string }{{"[0, inf]", "4*m"}, {"[0, 16]", "64"}} {
		p, err := weirtest.CompileText(t, weirtest.Story(free.dim, free.bytes), weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Requires()) != 0 || len(p.Proved()) == 0 {
			t.Errorf("%v: %v %v", free, p.Requires(), p.Proved())
		}
	}
}

// TestUndeclared loads a text whose attribute names an undeclared dimension.
func TestUndeclared(t *testing.T) {
	const source = "weir 1\nir @m {\ndim n in [1, inf]\nmain @main(%x: f32[n]) {\n" +
		"  %y: f32[1] = slice(%x) {begin = syms [f16], extent = syms [1], step = ints [1]}\n  return %y\n}\n}"
	if _, err := weir.LoadBytes([]byte(source)); !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "f16") {
		t.Error(err)
	}
}

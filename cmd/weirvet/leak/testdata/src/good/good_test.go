package good

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func compiled(t testing.TB) *weir.Program {
	t.Helper()
	m := must[*weir.Model](t)(weir.Load("m"))
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	p, err := weir.Compile(context.Background(), m, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func refuses(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
}

func TestRun(t *testing.T) {
	array.AssertNoLeaks(t)
	p := compiled(t)
	r := must[*weir.Results](t)(p.Run(t.Context(), nil))
	defer r.Close()
	if r.Get("y").Len() != 3 {
		t.Fatalf("%d elements", r.Get("y").Len())
	}
}

func TestErrors(t *testing.T) {
	p := compiled(t)
	if _, err := p.Run(t.Context(), nil); !errors.Is(err, weir.ErrInput) {
		t.Errorf("%v", err)
	}
	if _, err := p.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "x") {
		t.Errorf("%v", err)
	}
	_, err := weir.Load("none")
	refuses(t, err)
	for _, path := range []string{"a", "b"} {
		if _, err := weir.Load(path); err == nil {
			t.Errorf("%s was loaded", path)
		}
	}
}

func TestErrorsOfMany(t *testing.T) {
	for name, f := range map[string]func() error{
		"load":  func() error { _, err := weir.Load("none"); return err },
		"bytes": func() error { _, err := weir.LoadBytes(nil); return err },
	} {
		if err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTable(t *testing.T) {
	for _, c := range []struct{ name string }{{"a"}, {"b"}} {
		t.Run(c.name, func(t *testing.T) {
			s := array.NewScope(c.name)
			defer s.Close()
			s.Relu(nil) // tests may look at nothing but the error
			if s.Err() == nil {
				t.Error("no error")
			}
		})
	}
}

func TestSkips(t *testing.T) {
	s := array.NewScope("skips")
	if testing.Short() {
		t.Skip("-short")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkScope(b *testing.B) {
	for b.Loop() {
		s := array.NewScope("bench")
		s.Close()
	}
}

func TestHeld(t *testing.T) {
	p := compiled(t)
	for range 3 {
		r := must[*weir.Results](t)(p.Run(t.Context(), nil))
		t.Cleanup(func() { r.Close() })
	}
}

func FuzzLoad(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := weir.LoadBytes(data)
		if err != nil {
			return
		}
		m.Close()
	})
}

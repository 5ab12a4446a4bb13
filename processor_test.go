package weir_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/weirtest"
)

// alike reports whether scores are equal up to rounding.
func alike(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return max(x-y, y-x) < 1e-4 })
}

// TestCPU: a level that this machine does not have is refused, unless the program is only compiled for it. An artefact
// for a level is refused on a machine without it, with the command that makes another one, and runs if portable code is
// asked for.
func TestCPU(t *testing.T) {
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes(weirtest.Digits(t)))
	defer m.Close()
	portable := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{CPU: "portable"}))
	defer portable.Close()
	want := weirtest.Scored(t, portable)
	if portable.CPU() != "portable" || portable.Target() != weir.Portable {
		t.Errorf("portable code is for %s on %s", portable.CPU(), portable.Target())
	}
	if _, err := weir.Compile(t.Context(), m, weir.Options{CPU: "avx9"}); !errors.Is(err, weir.ErrUnsupported) ||
		!strings.Contains(err.Error(), "avx9") {
		t.Errorf("a processor that nobody knows: %v", err)
	}
	here := weir.HostProcessor()
	if _, err := weir.Compile(t.Context(), m, weir.Options{CPU: "avx2", Cross: true}); errors.Is(err,
		weir.ErrUnsupported) {
		t.Skip(err)
	}
	levels := []string{"avx2", "avxvnni", "avx512", "avx512vnni", "avx512bf16", "avx512amx"}
	for _, level := range levels {
		has := !strings.Contains(here.Why, level+" needs")
		p, err := weir.Compile(t.Context(), m, weir.Options{CPU: level})
		if has {
			if err != nil || p.CPU() != level || p.Target() != weir.CPU || !alike(weirtest.Scored(t, p), want) {
				t.Errorf("%s here: %v", level, err)
			}
			p.Close()
		} else if !errors.Is(err, weir.ErrUnsupported) || !strings.Contains(err.Error(), level) {
			t.Errorf("%s, which is not here: %v", level, err)
		}
		other := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{CPU: level, Cross: true}))
		if got := weirtest.Scored(t, other); !alike(got, want) {
			t.Errorf("compiled for %s: %v, want %v", level, got, want)
		}
		var file bytes.Buffer
		weirtest.Must[int64](t)(other.WriteTo(&file))
		other.Close()
		a := weirtest.Must[*weir.Model](t)(weir.LoadBytes(file.Bytes()))
		for _, cpu := range append([]string{"", "portable"}, levels...) {
			p, err := weir.Compile(t.Context(), a, weir.Options{CPU: cpu})
			switch {
			case cpu == "portable" || (cpu == "" || cpu == level) && has:
				if err != nil || (cpu == "portable") != (p.Target() == weir.Portable) || !alike(weirtest.Scored(t, p), want) {
					t.Errorf("an artefact for %s as one for %q: %v", level, cpu, err)
				}
				p.Close()
			case !errors.Is(err, weir.ErrUnsupported) || !strings.Contains(err.Error(), "weir compile"):
				t.Errorf("an artefact for %s as one for %q: %v", level, cpu, err)
			}
		}
		a.Close()
	}
}

// TestNoExecutablePages: if the system refuses executable memory, programs run portably, and the log says why.
func TestNoExecutablePages(t *testing.T) {
	if weir.HostProcessor().CPU == "portable" {
		t.Skip("there is no machine code here")
	}
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes(weirtest.Digits(t)))
	defer m.Close()
	defer mem.RefuseCode()()
	var log bytes.Buffer
	p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m,
		weir.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	defer p.Close()
	if p.Target() != weir.Portable || !strings.Contains(log.String(), "executable memory") {
		t.Errorf("the target is %s, the log %q", p.Target(), log.String())
	}
	if here := weir.HostProcessor(); here.CPU != "portable" || !strings.Contains(here.Why, "executable memory") {
		t.Errorf("this machine is %+v", here)
	}
	if len(weirtest.Scored(t, p)) == 0 {
		t.Error("no scores")
	}
}

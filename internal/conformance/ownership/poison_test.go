package ownership

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// TestPoison runs itself again under WEIR_DEBUG=poison, which makes a view of a closed result fault.
func TestPoison(t *testing.T) {
	if os.Getenv("WEIR_DEBUG") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPoison$", "-test.v")
		cmd.Env = append(os.Environ(), "WEIR_DEBUG=guard,poison", "WEIR_MAP=off")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("under WEIR_DEBUG=poison: %v\n%s", err, out)
		}
		return
	}
	p := weirtest.CompileDigits(t, weir.Options{})
	r, err := p.Run(t.Context(), weir.Inputs{"image": weirtest.Picture(t, 2)})
	if err != nil {
		t.Fatal(err)
	}
	scores := r.Get("scores")
	view, err := weir.View[float32](scores)
	if err != nil || len(view) != 20 {
		t.Fatalf("%d scores, %v", len(view), err)
	}
	r.Close()
	if _, err := weir.View[float32](scores); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("a view of a closed result: %v", err)
	}
	if scores.Bytes() != nil {
		t.Error("a closed result has bytes")
	}
	defer p.Close()
	if weir.Usage().Arenas != 0 {
		t.Errorf("%d bytes of arenas are left", weir.Usage().Arenas)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() == nil && runtime.GOOS == "linux" {
			t.Error("a stale view did not fault")
		}
	}()
	t.Log("stale:", view[0])
}

// buffer is a log that any goroutine may write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestNeverClosed drops a result without closing it: the log says where it was made, and nothing is freed.
func TestNeverClosed(t *testing.T) {
	log := &buffer{}
	//weirvet:ignore closing waits for results, and one of them is never closed
	p := weirtest.CompileDigits(t, weir.Options{Calls: 2, Logger: slog.New(slog.NewTextHandler(log, nil))})
	x := weirtest.Picture(t, 3)
	kept, err := p.Run(t.Context(), weir.Inputs{"image": x})
	if err != nil {
		t.Fatal(err)
	}
	//weirvet:ignore this is what the log must show
	if _, err := p.Run(t.Context(), weir.Inputs{"image": x}); err != nil {
		t.Fatal(err)
	}
	for wait := 0; !strings.Contains(log.String(), "never closed") && wait < 500; wait++ {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	if got := log.String(); !strings.Contains(got, "poison_test.go:") || !strings.Contains(got, "bytes=120") ||
		strings.Count(got, "never closed") != 1 {
		t.Errorf("the log is %q", got)
	}
	ctx, cancel := contextWithin(t, 20*time.Millisecond)
	defer cancel()
	if _, err := p.Run(ctx, weir.Inputs{"image": x}); err == nil || !strings.Contains(err.Error(), "poison_test.go:") {
		t.Errorf("a run with all calls taken: %v", err)
	}
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(t.Context(), weir.Inputs{"image": x})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}

func contextWithin(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

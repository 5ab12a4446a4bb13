package weir_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// cpuTags profiles work for a moment, and returns go tool pprof's list of the samples' labels.
func cpuTags(t *testing.T, work func()) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("samples of other systems are not tried")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not here")
	}
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		t.Skip(err) // another profile is running
	}
	for begin := time.Now(); time.Since(begin) < 600*time.Millisecond; {
		work()
	}
	pprof.StopCPUProfile()
	file := filepath.Join(t.TempDir(), "cpu.pb.gz")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "tool", "pprof", "-tags", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestProfileLabels: a CPU profile names the model and the kernel that run, on all workers; a caller's own labels stay,
// and workers take them over.
func TestProfileLabels(t *testing.T) {
	path := weirtest.DigitsFile(t)
	m, err := weir.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	x, err := weir.New(weir.F32, 2048, 1, 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	run := func() {
		r, err := p.Run(t.Context(), weir.Inputs{"image": x})
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	tags := cpuTags(t, run)
	share := regexp.MustCompile(`\(\s*([0-9.]+)%\): ` + regexp.QuoteMeta(path))
	if found := share.FindStringSubmatch(tags); found == nil || !strings.Contains(tags, "kernel:") {
		t.Errorf("the labels are\n%s", tags)
	}
	pprof.Do(t.Context(), pprof.Labels("request", "mine"), func(context.Context) {
		tags = cpuTags(t, run) // the goroutine has labels, the context of the runs has none
		if !strings.Contains(goroutineLabels(t), "mine") {
			t.Error("the caller's labels are gone after a run")
		}
	})
	if strings.Contains(tags, "model:") || !strings.Contains(tags, "request:") || !strings.Contains(tags, "mine") {
		t.Errorf("with the caller's own labels they are\n%s", tags)
	}
	if left := goroutineLabels(t); strings.Contains(left, path) {
		t.Errorf("goroutines keep labels:\n%s", left)
	}
}

// goroutineLabels returns the lines of a goroutine profile that have labels.
func goroutineLabels(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 0); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

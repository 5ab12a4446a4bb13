package memory

import (
	"runtime"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
)

// TestMillionRuns: a million runs leave nothing behind: no byte outside Go's heap, no object in it, no goroutine, no
// page.
func TestMillionRuns(t *testing.T) {
	runs := 1_000_000
	if testing.Short() || runtime.GOARCH == "wasm" {
		runs = 20_000
	}
	m, err := weir.Load("testdata/onnx/two_dims/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	d := weir.Dims{}
	for _, dim := range p.Dims() {
		d[dim.Name] = 3
	}
	call, err := p.NewCall(d)
	if err != nil {
		t.Fatal(err)
	}
	defer call.Close()
	for _, in := range p.Inputs() {
		if call.Input(in.Name) == nil {
			t.Fatalf("no memory for input %s", in)
		}
	}
	some := func(n int) {
		for range n {
			if err := call.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	some(1000)
	held, goroutines, objects, pages := mem.Usage(), runtime.NumGoroutine(), heapObjects(), resident()
	begin := time.Now()
	some(runs)
	each := time.Since(begin) / time.Duration(runs)
	grown := heapObjects() - objects
	if now := mem.Usage(); now.All != held.All || now.MappedAll != held.MappedAll || now.Blocks != held.Blocks {
		t.Errorf("after %d runs %d bytes are held in %d blocks, before it were %d in %d", runs, now.All, now.Blocks, held.All,
			held.Blocks)
	}
	// The runtime's own objects come and go.
	if grown > 200 {
		t.Errorf("%d runs left %d objects in Go's heap", runs, grown)
	}
	if now := runtime.NumGoroutine(); now > goroutines+2 {
		t.Errorf("%d goroutines became %d", goroutines, now)
	}
	t.Logf("%d runs of %v each: 0 bytes more outside Go's heap, %d objects more in it, %d KiB more resident", runs, each,
		grown, (resident()-pages)>>10)
}

// heapObjects returns the number of objects in Go's heap that are in use.
func heapObjects() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapObjects)
}

// resident returns the process's resident bytes, 0 if the system does not report them.
func resident() int64 {
	p, _ := mem.ProcessBytes()
	return p.Resident
}

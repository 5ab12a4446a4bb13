package ownership

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/weirtest"
)

// compileFile compiles a model of testdata for one call at a time.
func compileFile(t *testing.T, name string, o weir.Options) *weir.Program {
	t.Helper()
	m, err := weir.Load("testdata/onnx/" + name + "/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	p, err := weir.Compile(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// steps returns the number of training steps of the tests: 10⁵ if WEIR_LONG is set.
func steps() int {
	if os.Getenv("WEIR_LONG") != "" {
		return 100_000
	}
	return 3000
}

// flat returns a function that fails t if, at a later thousandth step, the process holds more than at step 1000: any
// byte outside Go's heap, or 8 MiB of Go's heap or of resident pages.
func flat(t *testing.T) func(step int) {
	var first mem.Totals
	var heap, resident int64
	return func(step int) {
		if step%1000 != 999 {
			return
		}
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		now := mem.Usage()
		process, known := mem.ProcessBytes()
		pages := process.Resident
		if step == 999 {
			first, heap, resident = now, int64(stats.HeapAlloc), pages
		}
		if grown := int64(stats.HeapAlloc) - heap; grown > 8<<20 {
			t.Fatalf("after %d steps Go's heap has %d bytes more than after 1000", step+1, grown)
		}
		if grown := pages - resident; known && grown > 8<<20 {
			t.Fatalf("after %d steps the process has %d bytes more than after 1000", step+1, grown)
		}
		if now.Current != first.Current || now.Blocks != first.Blocks || now.AllPeak != first.AllPeak {
			t.Fatalf("after %d steps %v in %d blocks, peak %d; after 1000 %v in %d, peak %d", step+1, now.Current, now.Blocks,
				now.AllPeak, first.Current, first.Blocks, first.AllPeak)
		}
	}
}

// TestForwardBackward: a backward program consumes the tensors that a forward one keeps for it, so that one call of
// each suffices.
func TestForwardBackward(t *testing.T) {
	forward, backward := compileFile(t, "training_forward", weir.Options{Threads: 1}),
		compileFile(t, "training_backward", weir.Options{Threads: 1})
	x, y := weirtest.Filled(t, 3, 16), weirtest.Filled(t, 3, 16)
	defer x.Close()
	defer y.Close()
	var w []*weir.Tensor
	for range 3 {
		w = append(w, weirtest.Filled(t, 16, 16))
		defer w[len(w)-1].Close()
	}
	check := flat(t)
	for step := range steps() {
		saved, err := forward.Run(t.Context(), weir.Inputs{"x": x, "w0": w[0], "w1": w[1], "w2": w[2]})
		if err != nil {
			t.Fatal(err)
		}
		kept := []*weir.Tensor{saved.Get("h1"), saved.Get("h2"), saved.Get("h3")}
		updated, err := backward.Run(t.Context(), weir.Inputs{"x": x, "y": y, "h1": weir.Consume(kept[0]),
			"h2": weir.Consume(kept[1]), "h3": weir.Consume(kept[2]), "w0": w[0], "w1": w[1], "w2": w[2]})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range kept {
			if k.Bytes() != nil {
				t.Fatal("a consumed tensor lives on")
			}
		}
		updated.Close()
		check(step)
	}
}

// TestConsumed: a consumed tensor's memory is released when the run ends, with or without an error, and the tensor is
// refused from then on.
func TestConsumed(t *testing.T) {
	p := compileFile(t, "training_forward", weir.Options{Threads: 1})
	before := mem.Usage()
	w := []*weir.Tensor{weirtest.Filled(t, 16, 16), weirtest.Filled(t, 16, 16), weirtest.Filled(t, 16, 16)}
	in := func(x weir.Arg) weir.Inputs { return weir.Inputs{"x": x, "w0": w[0], "w1": w[1], "w2": w[2]} }
	held := mem.Usage().Current[mem.Tensors]
	x := weirtest.Filled(t, 3, 16)
	r, err := p.Run(t.Context(), in(weir.Consume(x)))
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if now := mem.Usage().Current[mem.Tensors]; now != held {
		t.Errorf("%d bytes of tensors before, %d after", held, now)
	}
	if _, err := p.Run(t.Context(), in(x)); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("lent after it was consumed: %v", err)
	}
	if _, err := p.Run(t.Context(), in(weir.Consume(x))); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("consumed twice: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Errorf("closing it: %v", err)
	}
	// A run that is refused consumes nothing; a run that is stopped consumes all.
	x = weirtest.Filled(t, 3, 16)
	wrong := in(weir.Consume(x))
	wrong["w2"] = x
	if _, err := p.Run(t.Context(), wrong); !errors.Is(err, weir.ErrInput) || x.Bytes() == nil {
		t.Errorf("refused: %v", err)
	}
	twice := weir.Inputs{"x": x, "w0": weir.Consume(w[0]), "w1": w[0], "w2": w[2]}
	var e *weir.Error
	if _, err := p.Run(t.Context(), twice); !errors.Is(err, weir.ErrInput) || !errors.As(err, &e) || e.Tensor != "w0" ||
		!strings.Contains(e.Detail, "w1") {
		t.Errorf("consumed and lent: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := p.Run(stopped, in(weir.Consume(x))); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if now := mem.Usage().Current[mem.Tensors]; now != held {
		t.Errorf("%d bytes of tensors before, %d after it was stopped", held, now)
	}
	if _, err := p.Run(t.Context(), in(weir.Consume(borrowed(t, 3, 16)))); !errors.Is(err, weir.ErrInput) ||
		!errors.As(err, &e) || !strings.Contains(e.Fix, "weir.New") {
		t.Errorf("memory of Go's: %v", err)
	}
	for _, x := range w {
		x.Close()
	}
	if now := mem.Usage().Current[mem.Tensors]; now != before.Current[mem.Tensors] {
		t.Errorf("%d bytes of tensors are left", now-before.Current[mem.Tensors])
	}
}

// TestCallConsumes: the next run of a call consumes the tensors that are bound by Consume, and the call then needs
// others; refused tensors are not consumed.
func TestCallConsumes(t *testing.T) {
	p := compileFile(t, "training_forward", weir.Options{Threads: 1})
	w := []*weir.Tensor{weirtest.Filled(t, 16, 16), weirtest.Filled(t, 16, 16), weirtest.Filled(t, 16, 16)}
	held := mem.Usage().Current[mem.Tensors]
	c, err := p.NewCall(weir.Dims{"n": 3})
	if err != nil {
		t.Fatal(err)
	}
	bind := func(name string, a weir.Arg) {
		t.Helper()
		if err := c.Bind(name, a); err != nil {
			t.Fatal(err)
		}
	}
	for i := range w {
		bind(fmt.Sprintf("w%d", i), w[i])
	}
	for range 3 {
		x := weirtest.Filled(t, 3, 16)
		bind("x", weir.Consume(x))
		if err := c.Run(t.Context()); err != nil || x.Bytes() != nil || mem.Usage().Current[mem.Tensors] != held {
			t.Fatalf("%v: %d bytes of tensors before, %d after", err, held, mem.Usage().Current[mem.Tensors])
		}
	}
	if err := c.Run(t.Context()); !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "no value") {
		t.Errorf("after it was consumed: %v", err)
	}
	x, other := weirtest.Filled(t, 3, 16), weirtest.Filled(t, 3, 16)
	bind("x", weir.Consume(x))
	bind("x", other) // another takes its place
	if err := c.Run(t.Context()); err != nil || x.Bytes() == nil || other.Bytes() == nil {
		t.Errorf("bound anew: %v", err)
	}
	bind("w1", weir.Consume(w[0]))
	if err := c.Run(t.Context()); !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "elsewhere") ||
		w[0].Bytes() == nil {
		t.Errorf("consumed and lent: %v", err)
	}
	bind("w1", w[1])
	if err := c.Bind("x", weir.Consume(borrowed(t, 3, 16))); !errors.Is(err, weir.ErrInput) {
		t.Errorf("memory of Go's: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	bind("x", weir.Consume(x))
	if err := c.Run(stopped); !errors.Is(err, context.Canceled) || x.Bytes() != nil {
		t.Errorf("stopped: %v", err)
	}
	c.Close()
	for _, x := range append(w, other) {
		x.Close()
	}
	if now := mem.Usage().Current[mem.Tensors]; now != held-3*1024 {
		t.Errorf("%d bytes of tensors are left", now-held+3*1024)
	}
}

// eight returns the training step's weights.
func eight(t *testing.T) (weights []*weir.Tensor) {
	for range 8 {
		weights = append(weights, weirtest.Filled(t, 16, 16))
	}
	return weights
}

// TestDonate: weights that are donated to each training step are updated in place, with the same results as lent ones,
// and nothing grows.
func TestDonate(t *testing.T) {
	before := mem.Usage()
	p := compileFile(t, "training_step", weir.Options{Threads: 1})
	x, y := weirtest.Filled(t, 3, 16), weirtest.Filled(t, 3, 16)
	in, w := weir.Inputs{"x": x, "y": y}, eight(t)
	address := map[*byte]bool{}
	for i := range w {
		address[&w[i].Bytes()[0]] = true
	}
	check := flat(t)
	for step := range steps() {
		for i := range w {
			in[fmt.Sprintf("w%d", i)] = weir.Donate(w[i])
		}
		r, err := p.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for i := range w {
			if w[i].Bytes() != nil {
				t.Fatal("a donated tensor lives on")
			}
			w[i] = r.Get(fmt.Sprintf("u%d", i))
			if !address[&w[i].Bytes()[0]] {
				t.Fatalf("step %d: u%d lies elsewhere", step, i)
			}
		}
		if err := r.Get("loss").Close(); err != nil {
			t.Fatal(err)
		}
		check(step)
		if step == 20 {
			compareSteps(t, x, y, w, step+1)
		}
	}
	for _, x := range append(w, x, y) { // the last results are closed with their last tensor
		x.Close()
	}
	if u := mem.Usage(); u.Current[mem.Tensors] != before.Current[mem.Tensors] {
		t.Errorf("%d bytes of tensors are left", u.Current[mem.Tensors]-before.Current[mem.Tensors])
	}
}

// compareSteps runs as many steps with lent weights, and compares the weights.
func compareSteps(t *testing.T, x, y *weir.Tensor, want []*weir.Tensor, count int) {
	t.Helper()
	p, w := compileFile(t, "training_step", weir.Options{Threads: 1}), eight(t)
	in := weir.Inputs{"x": x, "y": y}
	for range count {
		for i := range w {
			in[fmt.Sprintf("w%d", i)] = w[i]
		}
		r, err := p.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for i := range w {
			copy(w[i].Bytes(), r.Get(fmt.Sprintf("u%d", i)).Bytes())
		}
		r.Close()
	}
	for i := range w {
		if !bytes.Equal(w[i].Bytes(), want[i].Bytes()) {
			t.Errorf("after %d steps weight %d is another than by steps that lend", count, i)
		}
		w[i].Close()
	}
}

// TestDonated: runs that donate have the certified bytes, and donations that cannot be used are refused.
func TestDonated(t *testing.T) {
	p := compileFile(t, "training_step", weir.Options{Threads: 2})
	in, w := weir.Inputs{"x": weirtest.Filled(t, 5, 16), "y": weirtest.Filled(t, 5, 16)}, eight(t)
	defer func() {
		for _, x := range append(w, in["x"].(*weir.Tensor), in["y"].(*weir.Tensor)) {
			x.Close()
		}
	}()
	var names []string
	for i := range w {
		names = append(names, fmt.Sprintf("w%d", i))
		in[names[i]] = w[i]
	}
	for count := range 9 {
		if count > 0 {
			in[names[count-1]] = weir.Donate(w[count-1])
		}
		certificate, err := p.Memory().Donating(names[:count]...)
		if err != nil {
			t.Fatal(err)
		}
		outputs, err := certificate.Outputs.At(nil)
		if want := int64(4 + (8-count)*1024); err != nil || outputs != want {
			t.Errorf("%d donated: outputs of %d, %v; %d are left", count, outputs, err, want)
		}
		dims := weir.Dims{"n": 5}
		seen, err := p.Measure(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if peak, err := certificate.Peak(1, dims); err != nil || peak != seen.Peak(1) {
			t.Errorf("%d donated: %d bytes are predicted, %d measured, %v", count, peak, seen.Peak(1), err)
		}
		if peak, err := certificate.PeakWith(1, dims, seen); err != nil || peak != seen.Peak(1) {
			t.Errorf("%d donated: %d bytes are observed, %d measured, %v", count, peak, seen.Peak(1), err)
		}
	}
	for i, x := range w {
		if x.Bytes() == nil {
			t.Errorf("measuring took w%d", i)
		}
	}
	for _, c := range []struct {
		name  string
		x     weir.Arg
		kind  error
		words string
	}{
		{"no use", weir.Donate(in["x"].(*weir.Tensor)), weir.ErrInput, "none has its 64*n bytes"},
		{"borrowed", weir.Donate(borrowed(t, 5, 16)), weir.ErrInput, "weir.New"},
	} {
		wrong := maps.Clone(in)
		wrong["x"] = c.x
		if _, err := p.Run(t.Context(), wrong); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	wrong := maps.Clone(in)
	wrong["w1"] = w[0]
	if _, err := p.Run(t.Context(), wrong); !errors.Is(err, weir.ErrInput) || w[0].Bytes() == nil {
		t.Errorf("donated and lent: %v", err)
	}
	if _, err := p.Memory().Donating("x"); !errors.Is(err, weir.ErrInput) {
		t.Errorf("the certificate of a donation of no use: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	held := mem.Usage().Current[mem.Tensors]
	if _, err := p.Run(stopped, in); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if now := mem.Usage().Current[mem.Tensors]; now != held-8*1024 {
		t.Errorf("%d bytes of tensors before, %d after it was stopped", held, now)
	}
	if _, err := p.Run(t.Context(), in); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("donated again: %v", err)
	}
}

// borrowed returns a tensor over memory of Go's.
func borrowed(t *testing.T, shape ...int) *weir.Tensor {
	count := 1
	for _, s := range shape {
		count *= s
	}
	x, err := weir.FromSlice(make([]float32, count), shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestBindOutput: outputs are written into the caller's tensors, weights over themselves, without allocation.
func TestBindOutput(t *testing.T) {
	p := compileFile(t, "training_step", weir.Options{Threads: 1})
	before := mem.Usage().Current[mem.Outputs]
	x, y, w := weirtest.Filled(t, 3, 16), weirtest.Filled(t, 3, 16), eight(t)
	c, err := p.NewCall(weir.Dims{"n": 3})
	if err != nil {
		t.Fatal(err)
	}
	bind := func(name string, a weir.Arg) {
		t.Helper()
		if err := c.Bind(name, a); err != nil {
			t.Fatal(err)
		}
	}
	bind("x", x)
	bind("y", y)
	for i := range w {
		bind(fmt.Sprintf("w%d", i), w[i])
		bind(fmt.Sprintf("u%d", i), w[i])
	}
	count := 0
	step := func() {
		count++
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if allocations := testing.AllocsPerRun(50, step); allocations != 0 {
		t.Errorf("a run allocates %v times", allocations)
	}
	held := mem.Usage().Current[mem.Outputs] - before
	compareSteps(t, x, y, w, count)
	if c.Output("u3") != w[3] {
		t.Error("an output is not what is bound to it")
	}
	certificate, err := p.Memory().Binding("u0", "u1", "u2", "u3", "u4", "u5", "u6", "u7")
	if err != nil {
		t.Fatal(err)
	}
	if outputs, err := certificate.Outputs.At(nil); err != nil || outputs != 4 || held < outputs || held > outputs {
		t.Errorf("outputs of %d bytes, %v; %d are held", outputs, err, held)
	}
	check := flat(t)
	for i := range steps() {
		step()
		check(i)
	}
	// Refused bindings.
	small, odd := weirtest.Filled(t, 4, 16), borrowed(t, 16, 17)
	data, err := weir.View[float32](odd)
	if err != nil {
		t.Fatal(err)
	}
	shifted := 1
	if uintptr(unsafe.Pointer(&data[1]))%64 == 0 {
		shifted = 2
	}
	unaligned, err := weir.FromSlice(data[shifted:shifted+256], 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name  string
		x     weir.Arg
		words string
	}{{"u0", small, "axis 0"}, {"u0", unaligned, "multiple of 64"}, {"u0", w[1], "bound to u1"}, {"u9", w[1], "no input"},
		{"u0", weir.Donate(w[0]), "gives an argument away"}} {
		if err := c.Bind(row.name, row.x); err == nil || !strings.Contains(err.Error(), row.words) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
	own := weirtest.Filled(t, 16, 16)
	bind("u0", own)
	bind("w1", w[1])
	bind("w7", own) // u0 may be written over w7, but not u7 over w0
	if err := c.Run(t.Context()); err != nil {
		t.Errorf("u0 over w7: %v", err)
	}
	bind("u0", w[0])
	bind("u7", own)
	bind("w0", own)
	bind("w7", w[7])
	var e *weir.Error
	if err := c.Run(t.Context()); !errors.Is(err, weir.ErrInput) || !errors.As(err, &e) || e.Tensor != "w0" ||
		!strings.Contains(e.Detail, "u7") {
		t.Errorf("u7 over w0: %v", err)
	}
	c.Close()
	for _, x := range append(w, x, y, small, own) {
		x.Close()
	}
}

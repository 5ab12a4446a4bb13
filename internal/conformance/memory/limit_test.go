package memory

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/weirtest"
)

// TestUsageLimit reads the limit from the totals.
func TestUsageLimit(t *testing.T) {
	const limit = 1 << 40
	before := weir.SetLimit(limit)
	defer weir.SetLimit(before)
	if got := weir.Usage().Limit; got != limit {
		t.Errorf("the limit is %d, %d was set", got, int64(limit))
	}
	weir.SetLimit(0)
	if got := weir.Usage().Limit; got != 0 {
		t.Errorf("the limit is %d, none is set", got)
	}
}

// limited is a model under a limit.
type limited struct {
	name string
	path string
	o    weir.Options
}

// limitedModels returns models of every source: with small and large weights, with and without dimensions, within a
// budget, with external data.
func limitedModels(t *testing.T) (list []limited) {
	to := func(v int64, names ...string) map[string]weir.Range {
		ranges := map[string]weir.Range{}
		for _, name := range names {
			ranges[name] = weir.Range{Min: 1, Max: v}
		}
		return ranges
	}
	at := func(v int64) map[string]weir.Range { return to(v, "batch") }
	digits := "examples/digits/data/digits.onnx"
	list = []limited{
		{"one picture", digits, weir.Options{Dims: at(1)}},
		{"up to 64 pictures", digits, weir.Options{Dims: at(64)}},
		{"portable", digits, weir.Options{Dims: at(7), Target: weir.Portable}},
		{"reference", digits, weir.Options{Dims: at(2), Target: weir.Reference}},
		{"external data", "testdata/onnx/external_data/model.onnx", weir.Options{Dims: to(9, "n")}},
		{"recurrent", "testdata/onnx/lstm_stacked/model.onnx", weir.Options{Dims: to(5, "n", "t")}},
		{"attention", "testdata/onnx/attention_23/model.onnx", weir.Options{Dims: to(6, "n", "q", "k", "p")}},
		{"training", "testdata/onnx/training_step/model.onnx",
			weir.Options{Dims: map[string]weir.Range{"n": {Min: 4096, Max: 4096}}}},
		{"a budget", "testdata/onnx/training_step/model.onnx",
			weir.Options{Dims: map[string]weir.Range{"n": {Min: 4096, Max: 4096}}, Budget: 2 << 20, Threads: 1}},
		{"weights in files", "testdata/onnx/tied_table/model.onnx",
			weir.Options{Dims: map[string]weir.Range{"n": {Min: 40, Max: 40}}, Budget: 240 << 10, Threads: 1}},
	}
	m, err := weir.Load(digits)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, file := weirtest.ArtefactOf(t, m)
	p.Close()
	stored := filepath.Join(t.TempDir(), "digits.weir")
	if err := os.WriteFile(stored, file, 0o666); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text.weir")
	source := "weir 1\nir @text {\n  dim m in [1, 3000]\n  main @main(%x: f32[m, 700]) {\n    %y: f32[m, 700] = " +
		"exp(%x)\n    %z: f32[m, m] = matmul(%y, %w)\n    return %z\n  }\n}\n"
	source = strings.Replace(source, "    %z: f32[m, m] = matmul(%y, %w)\n    return %z",
		"    %z: f32[m, 700] = neg(%y)\n    return %z, %y", 1)
	if err := os.WriteFile(text, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	return append(list, limited{"artefact", stored, weir.Options{Dims: at(5)}}, limited{"text", text, weir.Options{}})
}

// TestLimit loads, compiles and runs models within Memory.Limit, and fails to compile them with one byte less. It runs
// in a process of its own: the pool of small tensors may have free memory from other tests, and arguments then take no
// new memory.
func TestLimit(t *testing.T) {
	if os.Getenv("WEIR_TEST_LIMIT") == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestLimit$", "-test.count=1")
		again.Env = append(os.Environ(), "WEIR_TEST_LIMIT=1")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	for _, l := range limitedModels(t) {
		for _, calls := range []int{1, 4} {
			t.Run(l.name+" "+strconv.Itoa(calls), func(t *testing.T) { l.within(t, calls) })
		}
	}
}

// within runs the model under its limit, with calls at once, and fails with one byte less.
func (l *limited) within(t *testing.T, calls int) {
	l.o.Calls, l.o.Threads = calls, max(l.o.Threads, 2)
	if l.o.Budget > 0 {
		l.o.Budget, l.o.Threads = l.o.Budget*int64(calls), 1
	}
	limit, parts := l.limit(t)
	weir.Trim()
	base := mem.Usage().Held
	defer weir.SetLimit(weir.SetLimit(base + limit))
	mem.ResetPeaks()
	l.run(t, calls)
	if peak := weir.Usage().Peak; peak > base+limit {
		t.Errorf("%d bytes were held, %d more than the limit", peak, peak-base-limit)
	}
	weir.Trim()
	weir.SetLimit(base + limit - 1)
	m, err := weir.Load(l.path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(context.Background(), m, l.o)
	if err == nil {
		p.Close()
		t.Fatalf("compiled with a byte less than %d: %+v", limit, parts)
	}
	if text := err.Error(); !errors.Is(err, weir.ErrMemory) || !strings.Contains(text, "the limit") ||
		strings.Contains(text, "the system") || !strings.Contains(text, strconv.FormatInt(base+limit, 10)) {
		t.Errorf("a byte less: %v; %d is needed", err, base+limit)
	}
}

// limit returns the model's limit and its terms. It checks the terms against the bytes that are held, and against the
// peak of compiling.
func (l *limited) limit(t *testing.T) (int64, weir.Asked) {
	weir.Trim()
	before := mem.Usage()
	mem.ResetPeaks()
	m, err := weir.Load(l.path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(context.Background(), m, l.o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	limit, err := p.Memory().Limit(l.o.Calls)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := p.Memory().Asked(l.o.Calls, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := mem.Usage()
	if held, want := now.Held-before.Held, parts.Weights+parts.Files-parts.Reclaimable+parts.Code; held != want &&
		held != want+parts.Call-outputsOf(p) {
		t.Errorf("%d bytes held, %d told: %+v", held, want, parts)
	}
	if most := now.HeldPeak - before.Held; most > max(parts.Compiling, now.Held-before.Held) ||
		most < parts.Compiling {
		t.Errorf("compiling held %d bytes at once, %d told: %+v", most, parts.Compiling, parts)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if held := mem.Usage().MappedCurrent[mem.File] - before.MappedCurrent[mem.File]; mem.OutsideHeap() &&
		held != parts.Files {
		t.Errorf("%d bytes of files held after the model was closed, %d are read in place", held, parts.Files)
	}
	return limit, parts
}

// outputsOf returns the bytes of the pages of a call's outputs, which its first run takes.
func outputsOf(p *weir.Program) (bytes int64) {
	dims := map[string]int64{}
	for _, d := range p.Dims() {
		dims[d.Name] = d.Max
	}
	for _, info := range p.Outputs() {
		size := int64(info.DType.Bits() / 8)
		for _, e := range info.Shape {
			size *= max(dims[e.Dim], e.Size)
		}
		bytes += mem.WholePages(size)
	}
	return bytes
}

// run holds the results of as many runs as there are calls, with arguments of their own, at the upper bounds of the
// dimensions.
func (l *limited) run(t *testing.T, calls int) {
	m, err := weir.Load(l.path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(context.Background(), m, l.o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	dims := weir.Dims{}
	for _, d := range p.Dims() {
		dims[d.Name] = d.Max
	}
	var held []io.Closer
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for range calls {
		in := weir.Inputs{}
		for _, info := range p.Inputs() {
			shape := make([]int, len(info.Shape))
			for i, e := range info.Shape {
				if shape[i] = int(e.Size); e.Dim != "" {
					shape[i] = int(dims[e.Dim])
				}
			}
			x, err := weir.New(info.DType, shape...)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, x)
			in[info.Name] = x
		}
		r, err := p.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, r)
	}
	if err := m.Close(); err != nil { // the programs go on
		t.Fatal(err)
	}
	var again bytes.Buffer // the files that are read in place are still there
	if _, err := p.WriteTo(&again); err != nil && l.o.Target != weir.Reference && !errors.Is(err, weir.ErrUnsupported) {
		t.Fatal(err)
	}
}

// TestLimitFallsWithTheBudget compiles a model without a budget and with two, and an artefact, which holds what is
// paged in its own file: what a budget pages is in no limit. The model loads, compiles and runs within the lower limit.
func TestLimitFallsWithTheBudget(t *testing.T) {
	if _, inMemory := weir.PageFolder(); inMemory || !mem.OutsideHeap() || os.Getenv("WEIR_MAP") == "off" {
		t.Skip("files lie in memory here, and count")
	}
	dims := map[string]weir.Range{"n": {Min: 40, Max: 40}}
	const slack = 64 << 10 // full pages of each term
	const model = "testdata/onnx/tied_table/model.onnx"
	m, err := weir.Load(model)
	if err != nil {
		t.Fatal(err)
	}
	tight, err := weir.Compile(t.Context(), m, weir.Options{Dims: dims, Budget: 220 << 10, Threads: 1, Calls: 1})
	if err != nil {
		t.Fatal(err)
	}
	paged := artefactOf(t, tight)
	tight.Close()
	m.Close()
	for _, l := range []limited{{path: model}, {path: model, o: weir.Options{Budget: 240 << 10}},
		{path: model, o: weir.Options{Budget: 220 << 10}}, {path: paged, o: weir.Options{Budget: 220 << 10}}} {
		budget := l.o.Budget
		l.o.Dims, l.o.Threads, l.o.Calls = dims, 1, 1
		limit, parts := l.limit(t)
		if most := budget + parts.Arguments + slack; budget > 0 && (limit > most || parts.Compiling > budget+slack) {
			t.Errorf("within %d, the limit is %d: %+v", budget, limit, parts)
		}
		if most := 240<<10 + parts.Arguments + slack; budget == 0 && limit <= most {
			t.Errorf("without a budget, the limit is %d: %+v", limit, parts)
		}
		base := mem.Usage().Held
		mem.ResetPeaks()
		before := weir.SetLimit(base + limit)
		l.run(t, 1)
		weir.SetLimit(before)
		if peak := weir.Usage().Peak; peak > base+limit {
			t.Errorf("within %d, %d bytes were held of %d", budget, peak-base, limit)
		}
	}
}

// TestLimitOfUnbounded: the limit of a model with unbounded dimensions needs values for them.
func TestLimitOfUnbounded(t *testing.T) {
	p := weirtest.CompileDigits(t, weir.Options{})
	defer p.Close()
	if n, err := p.Memory().Limit(1); !errors.Is(err, weir.ErrInput) {
		t.Errorf("%d, %v", n, err)
	}
	small, err := p.Memory().LimitAt(1, weir.Dims{"batch": 1})
	if err != nil {
		t.Fatal(err)
	}
	large, err := p.Memory().LimitAt(1, weir.Dims{"batch": 1 << 12})
	if err != nil || large <= small {
		t.Errorf("%d for one, %d for 4096: %v", small, large, err)
	}
	if n, err := p.Memory().LimitAt(1, weir.Dims{"batch": 1 << 60}); !errors.Is(err, weir.ErrInput) {
		t.Errorf("%d for 1<<60: %v", n, err)
	}
}

// TestModelCompiledAgain compiles a model whose file is no longer mapped, and refuses it after the file was changed.
func TestModelCompiledAgain(t *testing.T) {
	data, err := os.ReadFile("examples/digits/data/digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := weir.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ctx := context.Background()
	for range 3 {
		p, err := weir.Compile(ctx, m, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		_ = m.Describe()
	}
	if err := os.WriteFile(path, append(data, 0), 0o666); err != nil {
		t.Fatal(err)
	}
	p, err := weir.Compile(ctx, m, weir.Options{})
	if err == nil {
		p.Close()
	}
	if mem.OutsideHeap() && os.Getenv("WEIR_MAP") != "off" && !errors.Is(err, weir.ErrInput) {
		t.Errorf("compiled from a file that was changed: %v", err)
	}
}

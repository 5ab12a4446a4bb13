package compiler

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/weirml/weir/internal/compiler/budget"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// image builds a model of convolutions, one of which is scaled, and products. Its weights lie at odd addresses in a
// mapped file; their bytes are returned.
func image(t *testing.T) (m *ir.Module, weights int64) {
	const bytes = 96 << 20
	path := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, bytes); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	block, err := mem.MapFile(file, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { block.Close() })

	m = &ir.Module{Name: "image", Dims: sym.NewDims()}
	body := &ir.Block{}
	m.Main = &ir.Func{Name: "main", Body: body}
	m.Funcs = []*ir.Func{m.Main}
	b := ir.NewBuilder(ir.NewInference(m), body)
	at := int64(1)
	weight := func(shape ...int64) *ir.Value {
		n, _ := tensor.Count(shape)
		w := tensor.Must(tensor.Over(dtype.F32, shape, block.Bytes()[at:at+4*n]))
		at, weights = at+4*n+1, weights+4*n
		return b.Constant(fmt.Sprintf("w%d", at), w)
	}
	convolution := func(x *ir.Value, from, to, side, pad int64) *ir.Value {
		w := ops.Window{Kernel: []int64{side, side}, Strides: []int64{1, 1}, Dilations: []int64{1, 1},
			Begin: []sym.Expr{sym.Const(pad), sym.Const(pad)}, End: []sym.Expr{sym.Const(pad), sym.Const(pad)}}
		return ops.Unary(b, ops.Tanh, ops.Convolution(b, x, weight(to, from, side, side), nil, w, 1))
	}
	factors := func(channels int64) *ir.Value {
		f := tensor.Must(tensor.New(dtype.F32, channels, 1, 1))
		for i := range channels {
			f.SetFloat(i, float64(i)+2)
		}
		return b.Constant("factors", f)
	}
	x := b.Param("x", ir.Type{DType: dtype.F32, Shape: ir.Constants([]int64{1, 64, 28, 28})})
	x = convolution(x, 64, 256, 1, 0)
	x = ops.Binary(b, ops.Mul, convolution(x, 256, 512, 3, 1), factors(512)) // in tiles, after a scale
	x = convolution(x, 512, 256, 3, 1)
	x = convolution(x, 256, 1024, 5, 0) // directly: 24 × 24
	x = convolution(x, 1024, 512, 1, 0)
	x = convolution(x, 512, 16, 3, 1)
	x = ops.MatMul(b, ops.Reshape(b, x, sym.Const(1), sym.Const(16*24*24)), weight(16*24*24, 800), false, false)
	gates := weight(800, 4, 512) // the product reads it in another order
	half := func(begin int64) *ir.Value {
		return ops.Slice(b, gates, ir.Constants([]int64{0, begin, 0}), ir.Constants([]int64{800, 2, 512}), []int64{1, 1, 1})
	}
	x = ops.MatMul(b, x, ops.Reshape(b, ops.Concat(b, 1, half(2), half(0)), sym.Const(800), sym.Const(2048)), false, false)
	body.Results = []*ir.Value{x}
	if weights > bytes || at > bytes {
		t.Fatalf("%d bytes of weights", weights)
	}
	return m, weights
}

// TestMemoryOfCompiling shows that a weight is held once: compiling a model of 64 MB of weights takes little more
// memory than the laid out weights.
func TestMemoryOfCompiling(t *testing.T) {
	if !mem.OutsideHeap() {
		t.Skip("there is no memory outside Go's heap to put weights into")
	}
	for _, reference := range []bool{false, true} {
		m, given := image(t)
		if given < 64<<20 {
			t.Fatalf("the model has %d bytes of weights", given)
		}
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		mem.ResetPeaks()
		held := mem.Usage().Peak[mem.Weights]
		peaked := mem.ResetProcessPeak()
		resident, _ := mem.ProcessBytes()
		c, err := Compile(m, Options{Machine: target.Host(2), Reference: reference})
		if err != nil {
			t.Fatal(err)
		}
		process, _ := mem.ProcessBytes()
		runtime.ReadMemStats(&after)
		mapped := mem.Usage().Peak[mem.Weights] - held
		total := int64(0)
		for _, w := range c.Program.Weights {
			total += int64(len(w.Data))
		}
		const aligning = 64 << 10 // of all weights together
		if mapped > total+aligning {
			t.Errorf("reference %v: compiling mapped %d bytes for weights of %d", reference, mapped, total)
		}
		const garbage = 48 << 20 // allocated in total; less is live at any time
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > garbage {
			t.Errorf("reference %v: compiling allocated %d bytes on Go's heap, and %d are allowed", reference, allocated,
				garbage)
		}
		const beside = 40 << 20 // Go's heap, and the file's pages that are read at a time
		if peaked && process.Peak-resident.Resident > total+beside {
			t.Errorf("reference %v: the process grew by %d bytes, for %d of weights", reference, process.Peak-resident.Resident,
				total)
		}
		t.Logf("reference %v: weights %d as given, %d as laid out; mapped %d, allocated %d, the process grew by %d",
			reference, given, total, mapped, after.TotalAlloc-before.TotalAlloc, process.Peak-resident.Resident)
		if c.Code.Release != nil {
			if err := c.Code.Release(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestMemoryWithinBudget shows that a budget holds while compiling too. Weights that do not fit in it are laid out in a
// file, so that the process's anonymous memory stays near the budget at every stage.
func TestMemoryWithinBudget(t *testing.T) {
	if !mem.OutsideHeap() {
		t.Skip("there is no memory outside Go's heap to put weights into")
	}
	m, given := image(t)
	folder := t.TempDir()
	runtime.GC()
	mem.ResetPeaks()
	held := mem.Usage()
	start, told := mem.ProcessBytes()
	const allowed = 40 << 20
	most, at := int64(0), ""
	look := func(stage string) {
		if now, _ := mem.ProcessBytes(); now.Anonymous-start.Anonymous > most {
			most, at = now.Anonymous-start.Anonymous, stage
		}
	}
	c, err := Compile(m, Options{Machine: target.Host(2), Budget: &budget.Budget{Bytes: allowed, Calls: 1, Workers: 2},
		Folder: folder, Progress: func(p Progress) { look(p.Stage) }})
	look("the plan")
	if err != nil {
		t.Fatal(err)
	}
	peak := mem.Usage()
	outside := int64(0) // an upper bound, since the kinds' peaks may be at different times
	for kind := range mem.Kind(mem.Kinds) {
		if kind != mem.File {
			outside += peak.MappedPeak[kind] - held.MappedCurrent[kind]
		}
	}
	if outside > allowed {
		t.Errorf("compiling took %d bytes beside files, and the budget is %d", outside, allowed)
	}
	const beside = 24 << 20 // Go's heap
	if told && most > allowed+beside {
		t.Errorf("the process had %d bytes of anonymous memory more at %s, for a budget of %d and %d bytes of weights",
			most, at, allowed, given)
	}
	t.Logf("%d bytes of weights: %d beside files, %d anonymous after %s", given, outside, most, at)
	if err := c.Code.Release(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 || mem.Usage().MappedAll != held.MappedAll {
		t.Errorf("%v in the folder, %v; %d bytes held", left, err, mem.Usage().MappedAll-held.MappedAll)
	}
}

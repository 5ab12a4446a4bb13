package weir

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

// sabotaged is a kernel that calls harm before its last tile, with a copy of the arguments.
type sabotaged struct {
	target.Kernel
	harm func(a *target.Args) // may change the arguments; nil: no harm
}

// Run runs the tiles, the last one with the changed arguments.
func (k *sabotaged) Run(a *target.Args, begin, end int64, scratch []byte) error {
	if tiles, _ := k.Tiles(a.Dims); end == tiles && k.harm != nil {
		bad := target.Args{Operands: slices.Clone(a.Operands), Dims: a.Dims}
		k.harm(&bad)
		return k.Kernel.Run(&bad, begin, end, scratch)
	}
	return k.Kernel.Run(a, begin, end, scratch)
}

// TestKernelsThatPanic: a panic in a kernel, in Go's code or as a fault of machine code with a wrong address, on any
// goroutine, is an ErrInternal of that run that names the node and has a stack. The program runs on, gives the same
// results as before, and closes without a byte left.
func TestKernelsThatPanic(t *testing.T) {
	harms := map[string]func(a *target.Args){"panic": func(*target.Args) { panic("a bug") }}
	if mem.OutsideHeap() {
		block, err := mem.Map(mem.Arena, "read-only", 1<<20)
		if err == nil {
			err = block.Protect(true)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer block.Close()
		harms["fault"] = func(a *target.Args) {
			for i := range a.Operands { // at least one of them is written
				a.Operands[i].Base = block.Pointer()
			}
		}
	}
	before := Usage()
	m, err := Load("examples/digits/data/digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, o := range []Options{{Target: Portable, Threads: 2}, {Threads: 2}} {
		p, err := Compile(t.Context(), m, o)
		if err != nil {
			t.Fatal(err)
		}
		x, err := New(F32, 64, 1, 8, 8)
		if err != nil {
			t.Fatal(err)
		}
		pixels, err := View[float32](x)
		if err != nil {
			t.Fatal(err)
		}
		for i := range pixels {
			pixels[i] = float32(i%17) / 17
		}
		scores := func() []float32 {
			r, err := p.Run(t.Context(), Inputs{"image": x})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			list, err := Copy[float32](r.Get("scores"))
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		want := scores()
		if _, err := p.session.CloseIdle(); err != nil { // its call uses the kernels without sabotage
			t.Fatal(err)
		}
		kernels := make([]*sabotaged, len(p.compiled.Code.Kernels))
		for i, k := range p.compiled.Code.Kernels {
			kernels[i] = &sabotaged{Kernel: k}
			p.compiled.Code.Kernels[i] = kernels[i]
		}
		for i, k := range kernels {
			for name, harm := range harms {
				k.harm = harm
				r, err := p.Run(t.Context(), Inputs{"image": x})
				if err == nil {
					r.Close()
				}
				var e *Error
				if !errors.Is(err, ErrInternal) || !errors.As(err, &e) || e.Node == "" ||
					!strings.Contains(diag.Stack(err), "sabotaged") && name == "panic" || diag.Stack(err) == "" {
					t.Errorf("%s in %s of %s: %v", name, p.compiled.Program.Kernels[i], p.Target(), err)
				}
			}
			k.harm = nil
			if got := scores(); !slices.Equal(got, want) {
				t.Errorf("after a panic in %s of %s: %v is not %v", p.compiled.Program.Kernels[i], p.Target(), got, want)
			}
		}
		x.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	m.Close()
	Trim()
	if after := Usage(); after.Current != before.Current {
		t.Errorf("%d bytes were held before, %d after: %+v", before.Current, after.Current, after)
	}
}

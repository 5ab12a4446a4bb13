package executor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/device/cpu"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// nothing is a kernel that does nothing.
type nothing struct {
	name  string
	tiles int64
}

func (k *nothing) Needs([]int64, []int64) error                 { return nil }
func (k *nothing) Name() string                                 { return k.name }
func (k *nothing) Tiles([]int64) (int64, error)                 { return k.tiles, nil }
func (k *nothing) TilesFormula() sym.Expr                       { return sym.Const(k.tiles) }
func (k *nothing) ScratchFormula() sym.Expr                     { return sym.Const(64) }
func (k *nothing) Scratch([]int64) (int64, error)               { return 64, nil }
func (k *nothing) Run(*target.Args, int64, int64, []byte) error { return nil }

// chain returns a call of a program with the given number of launches. Each reads the previous result and a weight;
// kernel makes the kernels.
func chain(t testing.TB, launches int, o Options, kernel func(name string) target.Kernel) *Call {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "weir 1\nprogram @p {\n dim n in [1, 9]\n storage %%s: arena bytes 64*%d*n align 64\n plan { }\n "+
		"tensor %%t0: f32[n] argument\n tensor %%w: f32[2] constant\n weight \"w\" %%w = [1, 2]\n", launches)
	var steps, kernels strings.Builder
	for i := range launches {
		fmt.Fprintf(&text, " tensor %%t%d: f32[n] in %%s at %d*n\n", i+1, 64*i)
		fmt.Fprintf(&kernels, " kernel @k%d\n", i)
		fmt.Fprintf(&steps, "  carve %%t%d\n  launch @k%d(%%t%d, %%w, write %%t%d) dims (n) source \"node\"\n", i+1, i, i,
			i+1)
	}
	fmt.Fprintf(&text, "%s input \"x\" = %%t0 borrow\n output \"y\" = %%t%d borrow\n body {\n%s }\n}\n", kernels.String(),
		launches, steps.String())
	p, err := program.Parse(text.String(), program.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	code := &target.Code{}
	for _, name := range p.Kernels {
		code.Kernels = append(code.Kernels, kernel(name))
	}
	o.Host = cpu.Host{}
	x, err := New(p, code, o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x.Bind(context.Background(), []int64{4})
	if err != nil {
		t.Fatal(err)
	}
	input := []float32{1, 2, 3, 4}
	if err := c.Input(0, unsafe.Pointer(&input[0]), 16); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); x.Close() })
	return c
}

// BenchmarkRun measures a run of kernels that do nothing, with several numbers of launches, tiles and threads.
func BenchmarkRun(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for _, c := range []struct{ launches, tiles, threads int }{{1, 1, 1}, {4, 1, 1}, {4, 1, 2}, {4, 8, 2}, {100, 1, 1}} {
		b.Run(fmt.Sprintf("launches=%d/tiles=%d/threads=%d", c.launches, c.tiles, c.threads), func(b *testing.B) {
			call := chain(b, c.launches, Options{Threads: c.threads}, func(name string) target.Kernel {
				return &nothing{name, int64(c.tiles)}
			})
			b.ReportAllocs()
			for b.Loop() {
				if err := call.Run(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

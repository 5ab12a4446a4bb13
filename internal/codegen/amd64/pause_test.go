package amd64

import (
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// pausing makes code return to Go at every iteration of every loop, until the test ends.
func pausing(t *testing.T) {
	lanes.PauseAlways = true
	t.Cleanup(func() { lanes.PauseAlways = false })
}

// TestPauseAnywhere checks that code that pauses at every iteration of every loop has the interpreter's results.
func TestPauseAnywhere(t *testing.T) {
	pausing(t)
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		h.One(29).Functions(t)
		h.One(17).Conversions(t)
		h.One(5).Powers(t)
		h.Checks(t)
		h.Contractions(t)
		h.EmptyContractions(t)
		h.Courses(t)
		h.TilesAtOnce(t)
		for seed := range int64(150) {
			h.Random(t, 4000+seed, seed%2 == 1)
		}
		for i, c := range kerneltest.NarrowProducts(100, []int64{0, 0, 6, 13}, []int64{16, 16, 24, 8, 64}) {
			if i%2 == 0 {
				c.Agree(t, h)
			}
		}
		for _, c := range kerneltest.Products(50, []int64{0, 0, 6, 13}, []int64{16, 16, 24, 8, 64, 32, 40, 48}) {
			c.Agree(t, h)
		}
	})
}

// TestStop checks that a kernel whose only tile would take years ends when its code returns the next time after it is
// stopped.
func TestStop(t *testing.T) {
	for name, write := range kerneltest.Endless {
		for which, n := range []sym.Expr{sym.Const(1 << 40), sym.Dim("n")} {
			t.Run(name+[]string{"", ", dynamic"}[which], func(t *testing.T) {
				levels(t, func(t *testing.T, h kerneltest.Harness) {
					b := loop.NewBuilder("endless")
					write(b, n)
					text := kerneltest.Finish(b)
					code, err := h.Compile(&loop.Module{Kernels: []*loop.Kernel{text}}, h.Machine)
					if err != nil {
						t.Fatal(err)
					}
					k, ok := code.Kernels[0].(*lanes.Kernel)
					if !ok {
						t.Fatalf("there is no machine code: %v", code.Left)
					}
					a, scratch := kerneltest.EndlessArgs(t, text, k)
					stop := make(chan struct{})
					a.Stop.Done = stop
					words := k.Frame(a, scratch)
					returns := 0
					err = k.RunBy(words, address(words), a, 0, 1, unsafe.Pointer(&words[0]),
						func(with unsafe.Pointer, k *lanes.Kernel, n *lanes.Nest, begin, end int64, resume bool) int64 {
							status := lanes.Enter(with, k, n, begin, end, resume)
							if returns++; returns == 3 {
								close(stop)
							}
							return status
						})
					if err != target.ErrStopped || returns != 3 {
						t.Errorf("%d returns, %v", returns, err)
					}
					if err := k.Run(a, 0, 1, scratch); err != target.ErrStopped {
						t.Errorf("stopped before it began: %v", err)
					}
				})
			})
		}
	}
}

// TestPauseMoves checks sums that several goroutines compute, while their code pauses and continues, stacks grow and
// move, and the collector runs.
func TestPauseMoves(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the code of amd64 runs on amd64 alone")
	}
	h := harness(t, target.Native)
	b := loop.NewBuilder("sum")
	y := b.Param("y", loop.Write, dtype.I64, kerneltest.Fixed(1))
	total := b.Var("total", loop.Integer(dtype.I64, 0))
	b.Serial("i", sym.Dim("n"), func(i sym.Expr) { b.Reduce(total, loop.Add, loop.At(i)) })
	b.Store(y, kerneltest.Fixed(0), total)
	code, err := h.Compile(&loop.Module{Kernels: []*loop.Kernel{kerneltest.Finish(b)}}, h.Machine)
	if err != nil {
		t.Fatal(err)
	}
	k, ok := code.Kernels[0].(*lanes.Kernel)
	if !ok {
		t.Skip("the processor has no AVX2, without which no code is emitted")
	}
	const n = 3 << 20
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			result := new([1]int64)
			a := &target.Args{Dims: []int64{n}, Operands: []target.Operand{{Base: unsafe.Pointer(result), Bytes: 8}}}
			size, _ := k.Scratch(a.Dims)
			scratch, _ := kerneltest.ScratchOf(int(size))
			words := k.Frame(a, scratch)
			depth := 0
			err := k.RunBy(words, address(words), a, 0, 1, unsafe.Pointer(&words[0]),
				func(with unsafe.Pointer, k *lanes.Kernel, n *lanes.Nest, begin, end int64, resume bool) int64 {
					runtime.GC()
					depth += 40
					return deep(depth, func() int64 { return lanes.Enter(with, k, n, begin, end, resume) })
				})
			if err != nil || result[0] != n*(n-1)/2 || depth < 80 {
				t.Errorf("the sum is %d after %d returns, %v", result[0], depth/40, err)
			}
		})
	}
	callers.Wait()
}

// deep calls do on a stack that has grown by this number of frames.
//
//go:noinline
func deep(frames int, do func() int64) int64 {
	var here [64]int64
	here[frames%64] = int64(frames)
	if frames == 0 {
		return do()
	}
	status := deep(frames-1, do)
	if here[frames%64] != int64(frames) {
		panic("a frame has changed")
	}
	return status
}

func address(words []int64) int64 { return int64(uintptr(unsafe.Pointer(&words[0]))) }

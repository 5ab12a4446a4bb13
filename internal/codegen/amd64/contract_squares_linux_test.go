package amd64

import (
	"bytes"
	"math/rand"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// squareCases returns random products for the tile registers.
func squareCases(count int) (cases []kerneltest.Product) {
	r := rand.New(rand.NewSource(9))
	pick := func(list ...int64) int64 { return list[r.Intn(len(list))] }
	kinds := []dtype.DType{dtype.I8, dtype.U8}
	for range count {
		c := kerneltest.Product{M: pick(4, 5, 7, 15, 16, 17, 31, 32, 33, 40, 47, 63, 64, 65, 97),
			N: pick(1, 7, 16, 17, 31, 32, 33, 50, 64, 100),
			K: 4 * pick(1, 5, 15, 16, 17, 32, 40), Width: pick(16, 32, 32, 32, 64, 24, 128), DType: dtype.I32,
			From: [2]dtype.DType{kinds[r.Intn(2)], kinds[r.Intn(2)]}, Dot: 4, Packed: true,
			First: []string{"zero", "bias"}[r.Intn(2)],
			Last:  []string{"", "relu"}[r.Intn(2)], Dynamic: r.Intn(2) == 0, Rows: pick(0, 0, 13, 32, 40),
			Extreme: r.Intn(2) == 0}
		if r.Intn(3) == 0 {
			c.Windows = []int64{pick(1, 2, 3), pick(1, 3)}[:1+r.Intn(2)]
		}
		if r.Intn(3) == 0 {
			c.DType, c.From, c.Dot, c.Extreme = dtype.F32, [2]dtype.DType{dtype.BF16, dtype.BF16}, 2, false
			c.Last = []string{c.Last, "bf16"}[r.Intn(2)]
		}
		cases = append(cases, c)
	}
	cases = append(cases, kerneltest.Product{M: 5, N: 16, K: 70000, Width: 16, DType: dtype.I32,
		From: [2]dtype.DType{dtype.U8, dtype.I8},
		Dot:  4, Packed: true, First: "zero", Extreme: true, Wraps: true})
	return append(cases, kerneltest.Product{M: 33, N: 32, K: 20000, Width: 32, DType: dtype.I32,
		From: [2]dtype.DType{dtype.U8, dtype.I8}, Dot: 4,
		Packed: true, First: "zero", Extreme: true})
}

// TestSquares compares products in tile registers with the interpreter, while signals interrupt them: once as usual,
// when the code of products with a known number of columns must use tile registers, and once with loops that return to
// Go at every iteration.
func TestSquares(t *testing.T) {
	h := harness(t, "avx512amx")
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-ended:
				return
			default:
				syscall.Kill(syscall.Getpid(), syscall.SIGURG)
				runtime.Gosched()
			}
		}
	}()
	defer func() { close(ended); <-stopped }()
	release := []byte{0xc4, 0xe2, 0x78, 0x49, 0xc0}
	run := func(t *testing.T, used bool) {
		for _, c := range squareCases(30) {
			t.Run(c.String(), func(t *testing.T) {
				c.Agree(t, h)
				k, _ := c.Kernel()
				code, reason := lanes.CompileKernel(k, &loop.Module{}, lanes.CompilerOf(isaOf(h.Machine)))
				has := code != nil && slices.ContainsFunc(code.Nests, func(n lanes.Nest) bool {
					return bytes.Contains(n.Code, release)
				})
				if used && !has && !c.Dynamic {
					t.Error("no tile registers: ", reason)
				}
			})
		}
	}
	t.Run("whole", func(t *testing.T) { run(t, true) })
	t.Run("pausing", func(t *testing.T) { pausing(t); run(t, false) })
}

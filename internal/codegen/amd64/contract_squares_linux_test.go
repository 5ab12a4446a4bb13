package amd64

import (
	"bytes"
	"math/rand"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// squareCases returns random products for the tile registers.
func squareCases(count int) (cases []productCase) {
	r := rand.New(rand.NewSource(9))
	pick := func(list ...int64) int64 { return list[r.Intn(len(list))] }
	kinds := []dtype.DType{dtype.I8, dtype.U8}
	for range count {
		c := productCase{m: pick(4, 5, 7, 15, 16, 17, 31, 32, 33, 40, 47, 63, 64, 65, 97),
			n: pick(1, 7, 16, 17, 31, 32, 33, 50, 64, 100),
			k: 4 * pick(1, 5, 15, 16, 17, 32, 40), width: pick(16, 32, 32, 32, 64, 24, 128), dt: dtype.I32,
			from: [2]dtype.DType{kinds[r.Intn(2)], kinds[r.Intn(2)]}, dot: 4, packed: true,
			first: []string{"zero", "bias"}[r.Intn(2)],
			last:  []string{"", "relu"}[r.Intn(2)], dynamic: r.Intn(2) == 0, rows: pick(0, 0, 13, 32, 40),
			extreme: r.Intn(2) == 0}
		if r.Intn(3) == 0 {
			c.windows = []int64{pick(1, 2, 3), pick(1, 3)}[:1+r.Intn(2)]
		}
		if r.Intn(3) == 0 {
			c.dt, c.from, c.dot, c.extreme = dtype.F32, [2]dtype.DType{dtype.BF16, dtype.BF16}, 2, false
			c.last = []string{c.last, "bf16"}[r.Intn(2)]
		}
		cases = append(cases, c)
	}
	cases = append(cases, productCase{m: 5, n: 16, k: 70000, width: 16, dt: dtype.I32,
		from: [2]dtype.DType{dtype.U8, dtype.I8},
		dot:  4, packed: true, first: "zero", extreme: true, wraps: true})
	return append(cases, productCase{m: 33, n: 32, k: 20000, width: 32, dt: dtype.I32,
		from: [2]dtype.DType{dtype.U8, dtype.I8}, dot: 4,
		packed: true, first: "zero", extreme: true})
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
				c.agree(t, h)
				k, _ := c.kernel()
				code, reason := lanes.CompileKernel(k, &loop.Module{}, &compiler{new(workspace), isaOf(h.Machine)})
				has := code != nil && slices.ContainsFunc(code.Nests, func(n lanes.Nest) bool {
					return bytes.Contains(n.Code, release)
				})
				if used && !has && !c.dynamic {
					t.Error("no tile registers: ", reason)
				}
			})
		}
	}
	t.Run("whole", func(t *testing.T) { run(t, true) })
	t.Run("pausing", func(t *testing.T) { pausing(t); run(t, false) })
}

package amd64

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/target"
	"golang.org/x/sys/unix"
)

// threadTime is the seconds that this thread has run: what other processes do meanwhile does not count.
func threadTime(t testing.TB) float64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		t.Fatal(err)
	}
	return float64(now.Sec) + float64(now.Nsec)*1e-9
}

// peakKernel is code that does nothing but products, from registers: 48 vectors a round, as many rounds as there are tiles.
func peakKernel(t testing.TB, i *isa) *kernel {
	b := newBuilder(i)
	count, again := b.general(), b.label()
	b.assign(count, asm.RDX)
	b.spoil()
	wide := func(op asm.Op, x, y, z asm.Reg) {
		b.emit(asm.Inst{Op: op, Bits: uint16(i.bits), Args: [4]asm.Reg{x, y, z}})
	}
	for n := range 16 {
		wide(asm.VXORPS, asm.V(n), asm.V(n), asm.V(n))
	}
	b.bind(again)
	for n := range 48 {
		wide(asm.VFMADD231PS, asm.V(n%12), asm.V(14), asm.V(15))
	}
	b.integerImm(asm.SUB, count, 1)
	b.jump(asm.JG, again)
	b.emit(asm.Inst{Op: asm.MOV, Bits: 32, Args: [4]asm.Reg{asm.RAX}, Imm: 0})
	b.emit(asm.Inst{Op: asm.RET})
	code, _ := b.finish(0)
	r := &routines{}
	n := nest{code: code}
	k := &kernel{nests: []nest{n}}
	r.add(k)
	block, err := r.place("peak")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { block.Close() })
	return k
}

// BenchmarkProducts reports the speed of products as a share of the fastest that registers allow, the probe and the product timed in turn.
func BenchmarkProducts(b *testing.B) {
	for _, c := range []productCase{
		{m: 128, n: 768, k: 3072, width: 16, rows: 128, block: 512, panels: 8},
		{m: 128, n: 768, k: 3072, width: 16, rows: 128, block: 384, panels: 8},
		{m: 128, n: 768, k: 3072, width: 16, rows: 128, block: 256, panels: 8},
		{m: 128, n: 768, k: 3072, width: 16, rows: 128, block: 256, panels: 48},
		{m: 128, n: 768, k: 3072, width: 16, rows: 64, block: 512, panels: 8},
		{m: 128, n: 768, k: 3072, width: 16, rows: 64, block: 384, panels: 16},
		{m: 128, n: 768, k: 3072, width: 16, rows: 128, block: 384, panels: 4},
		{m: 128, n: 768, k: 3072, width: 16, rows: 128},
	} {
		c.dt, c.packed, c.first, c.last = dtype.F32, true, "zero", "relu"
		b.Run(fmt.Sprintf("%dx%dx%d%v", c.m, c.n, c.k, c.windows)+fmt.Sprint(c.rows, c.block, c.panels), func(b *testing.B) {
			i := isaOf(target.Host(1))
			peak := peakKernel(b, i)
			k, dims := c.kernel()
			list := operandsOf(b, k, dims, 1)
			code := compiled(b, k, i)
			rounds := int64(100_000)
			best, fastest := 0.0, 0.0
			work := 2 * float64(c.m) * float64(c.n) * float64(c.k)
			for _, w := range c.windows {
				work *= float64(w)
			}
			bytes := float64(len(list[1].Bytes()))
			run := bound(b, code, k, list, dims)
			frame := make([]uint64, 64)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for b.Loop() {
				begin := threadTime(b)
				call.Call(peak.nests[0].entry, unsafe.Pointer(&frame[0]), 0, rounds)
				best = max(best, float64(rounds)*48*2*float64(i.lanes)/(threadTime(b)-begin))
				begin = threadTime(b)
				run()
				fastest = max(fastest, work/(threadTime(b)-begin))
			}
			b.ReportMetric(best/1e9, "peak-GFLOP/s")
			b.ReportMetric(100*fastest/best, "%peak")
			b.ReportMetric(fastest/work*bytes/1e9, "weights-GB/s")
		})
	}
}

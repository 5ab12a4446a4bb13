package amd64

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// threadTime returns the seconds for which this thread has run on a processor. The time of other threads and processes
// does not count.
func threadTime(t testing.TB) float64 {
	const clockThreadTime = 3 // CLOCK_THREAD_CPUTIME_ID
	var now syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockThreadTime, uintptr(unsafe.Pointer(&now)),
		0); err != 0 {
		t.Fatal(err)
	}
	return float64(now.Sec) + float64(now.Nsec)*1e-9
}

// peakKernel returns code that only multiplies and adds vectors in registers: 48 vectors for each tile.
func peakKernel(t testing.TB, i *isa) *lanes.Kernel {
	b := newBuilder(i)
	count, again := b.General(), b.Label()
	b.Assign(count, asm.RDX)
	b.Spoil()
	wide := func(op asm.Op, x, y, z asm.Reg) {
		b.Emit(asm.Inst{Op: op, Bits: uint16(i.bits), Args: [4]asm.Reg{x, y, z}})
	}
	for n := range 16 {
		wide(asm.VXORPS, asm.V(n), asm.V(n), asm.V(n))
	}
	b.Bind(again)
	for n := range 48 {
		wide(asm.VFMADD231PS, asm.V(n%12), asm.V(14), asm.V(15))
	}
	b.integerImm(asm.SUB, count, 1)
	b.jump(asm.JG, again)
	return probe(t, b)
}

// readKernel returns code that only reads memory: 256 bytes for each tile, from the address in the frame's first word
// on.
func readKernel(t testing.TB, i *isa) *lanes.Kernel {
	b := newBuilder(i)
	count, at, again := b.General(), b.LoadWord(asm.Mem{Base: frameRegister}), b.Label()
	b.Assign(count, asm.RDX)
	b.Spoil()
	b.Bind(again)
	for n := range 2048 / i.bits {
		b.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: uint16(i.bits), Args: [4]asm.Reg{asm.V(n), asm.Memory},
			Mem: asm.Mem{Base: at, Disp: int32(n * i.bits / 8)}})
	}
	b.integerImm(asm.ADD, at, 256)
	b.integerImm(asm.SUB, count, 1)
	b.jump(asm.JG, again)
	return probe(t, b)
}

// probe returns a kernel of a builder's instructions, which is executable until the test ends.
func probe(t testing.TB, b *builder) *lanes.Kernel {
	t.Helper()
	b.Emit(asm.Inst{Op: asm.MOV, Bits: 32, Args: [4]asm.Reg{asm.RAX}, Imm: 0})
	b.Emit(asm.Inst{Op: asm.RET})
	code, _ := finish(b)
	r := &lanes.Routines{}
	k := &lanes.Kernel{Nests: []lanes.Nest{{Code: code}}}
	r.Add(k)
	r.Seal()
	block, err := r.Load("probe")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { block.Close() })
	return k
}

// BenchmarkProducts reports the speed of products as a share of the speed of peakKernel, and the rates at which the
// products and readKernel read the weights. The three are timed in turn.
func BenchmarkProducts(b *testing.B) {
	for _, c := range []kerneltest.Product{
		{M: 96, N: 64, K: 64, Width: 16},
		{M: 126, N: 64, K: 256, Width: 16},
		{M: 128, N: 768, K: 768, Width: 16},
		{M: 128, N: 3072, K: 768, Width: 16},
		{M: 128, N: 768, K: 3072, Width: 16},
		{M: 12544, N: 64, K: 64, Width: 16, Rows: 392},
		{M: 3136, N: 64, K: 64, Windows: []int64{9}, Width: 16, Rows: 112},
		{M: 49, N: 512, K: 512, Windows: []int64{9}, Width: 16},
		{M: 1, N: 768, K: 3072, Width: 64},
		{M: 1, N: 32768, K: 768, Width: 64},
		{M: 2, N: 768, K: 768, Width: 48},
		{M: 4, N: 768, K: 768, Width: 24},
	} {
		c.DType, c.Packed, c.First, c.Last = dtype.F32, true, "zero", "relu"
		b.Run(fmt.Sprintf("%dx%dx%d%v", c.M, c.N, c.K, c.Windows), func(b *testing.B) {
			i := isaOf(target.Host(1))
			peak := peakKernel(b, i)
			k, dims := c.Kernel()
			list := kerneltest.Operands(b, k, dims, 1)
			weights, err := mem.Map(mem.Weights, "test", int64(len(list[1].Bytes()))) // large pages, as weights have
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { weights.Close() })
			copy(weights.Bytes(), list[1].Bytes())
			list[1] = tensor.Must(tensor.Over(c.DType, list[1].Shape(), weights.Bytes()))
			code, read := compiled(b, k, i), readKernel(b, i)
			rounds := int64(100_000)
			best, fastest, reading := 0.0, 0.0, 0.0
			work := 2 * float64(c.M) * float64(c.N) * float64(c.K)
			for _, w := range c.Windows {
				work *= float64(w)
			}
			bytes := float64(len(list[1].Bytes()))
			run := bound(b, code, k, list, dims)
			frame := make([]uint64, 64)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for b.Loop() {
				begin := threadTime(b)
				call.Call(peak.Nests[0].Entry, unsafe.Pointer(&frame[0]), 0, rounds)
				best = max(best, float64(rounds)*48*2*float64(i.lanes)/(threadTime(b)-begin))
				frame[0] = uint64(uintptr(weights.Pointer()))
				begin = threadTime(b)
				call.Call(read.Nests[0].Entry, unsafe.Pointer(&frame[0]), 0, int64(bytes)/256)
				reading = max(reading, bytes/(threadTime(b)-begin))
				begin = threadTime(b)
				run()
				fastest = max(fastest, work/(threadTime(b)-begin))
			}
			b.ReportMetric(best/1e9, "peak-GFLOP/s")
			b.ReportMetric(100*fastest/best, "%peak")
			b.ReportMetric(fastest/work*bytes/1e9, "weights-GB/s")
			b.ReportMetric(reading/1e9, "read-GB/s")
		})
	}
}

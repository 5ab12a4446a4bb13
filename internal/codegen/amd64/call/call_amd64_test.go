package call

import (
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/codetest"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

// sums adds up the words of each tile, writes that into a word of the tile's own, and returns the sum of all. It spoils
// every register that it may, Go's own among them, and keeps a value in the frame. Its frame: the source, the
// destination, the words in a tile, the kept value.
var sums = []byte{
	0x4C, 0x8B, 0x37, //                         mov   r14, [rdi]
	0x48, 0x8B, 0x5F, 0x08, //                   mov   rbx, [rdi+8]
	0x4C, 0x8B, 0x7F, 0x10, //                   mov   r15, [rdi+16]
	0x31, 0xC0, //                               xor   eax, eax
	0xC4, 0x41, 0x04, 0xC2, 0xFF, 0x0F, //       vcmptrueps ymm15, ymm15, ymm15
	0xC4, 0xC1, 0x04, 0xC2, 0xC7, 0x0F, //       vcmptrueps ymm0, ymm15, ymm15
	0x49, 0xC7, 0xC3, 0xFF, 0xFF, 0xFF, 0xFF, // mov   r11, -1
	0x4D, 0x89, 0xDC, //                         mov   r12, r11
	0x4D, 0x89, 0xDD, //                         mov   r13, r11
	0x48, 0x39, 0xD6, //                      1: cmp   rsi, rdx
	0x7D, 0x2A, //                               jge   3f
	0x49, 0x89, 0xF0, //                         mov   r8, rsi
	0x4D, 0x0F, 0xAF, 0xC7, //                   imul  r8, r15
	0x4D, 0x89, 0xF9, //                         mov   r9, r15
	0x45, 0x31, 0xD2, //                         xor   r10d, r10d
	0x4F, 0x03, 0x14, 0xC6, //                2: add   r10, [r14+r8*8]
	0x49, 0xFF, 0xC0, //                         inc   r8
	0x49, 0xFF, 0xC9, //                         dec   r9
	0x75, 0xF4, //                               jnz   2b
	0x4C, 0x89, 0x14, 0xF3, //                   mov   [rbx+rsi*8], r10
	0x4C, 0x89, 0x57, 0x18, //                   mov   [rdi+24], r10
	0x48, 0x03, 0x47, 0x18, //                   add   rax, [rdi+24]
	0x48, 0xFF, 0xC6, //                         inc   rsi
	0xEB, 0xD1, //                               jmp   1b
	0xC3, //                                  3: ret
}

// load makes code executable until the test ends.
func load(t testing.TB, code []byte) uintptr {
	t.Helper()
	if !target.Host(1).Has("avx") {
		t.Skip("the processor has no AVX, without which no code is emitted")
	}
	b, err := mem.MapCode("test", code)
	if err != nil {
		t.Skip("the system gives no executable pages: ", err)
	}
	t.Cleanup(func() { b.Close() })
	return uintptr(b.Pointer())
}

func TestCall(t *testing.T) { codetest.Calls(t, Call, load(t, sums)) }

// TestStress makes 10⁵ calls from many goroutines, while the collector and the profiler run.
func TestStress(t *testing.T) {
	calls := int64(100_000)
	if testing.Short() {
		calls = 5_000
	}
	codetest.Stress(t, Call, load(t, sums), calls)
}

func BenchmarkCall(b *testing.B) {
	code, frame := load(b, []byte{0x31, 0xC0, 0xC3}), [codetest.FrameWords]int64{} // xor eax, eax; ret
	for b.Loop() {
		Call(code, unsafe.Pointer(&frame), 0, 1)
	}
}

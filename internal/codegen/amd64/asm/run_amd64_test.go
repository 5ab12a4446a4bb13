package asm_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/codegen/amd64/emulatetest"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

// A block is what one instruction works on: 16 vectors, the general registers, and 256 bytes of memory.
const (
	vectorsAt, generalAt, memoryAt = 0, 512, 768
	blockBytes                     = 1024
)

var general = []asm.Reg{asm.RAX, asm.RCX, asm.RDX, asm.RBX, asm.R8, asm.R9, asm.R10, asm.R11, asm.R12, asm.R13}

// TestEmulated runs every form that is not AVX-512's on this machine and on the emulated one, on the same random
// operands.
func TestEmulated(t *testing.T) {
	host := target.Host(1)
	for _, feature := range []string{"avx2", "fma", "f16c", "bmi2"} {
		if !host.Has(feature) {
			t.Skip("the processor has no ", feature)
		}
	}
	machine := emulatetest.New(t)
	random := rand.New(rand.NewPCG(3, 4))
	insts := asm.RandomVEX(random, 4, general, asm.RSI)
	insts = slices.DeleteFunc(insts, func(i asm.Inst) bool {
		opmask := i.Features() &^ (asm.AVX | asm.AVX2 | asm.FMA | asm.F16C | asm.BMI1 | asm.BMI2 |
			asm.PREFETCHWFeature)
		return opmask != 0 || i.Op == asm.VRCPPS || i.Op == asm.VRSQRTPS // approximations differ between makers
	})
	code := program(t, insts)
	before := make([]byte, blockBytes*len(insts))
	for n := range len(before) / 4 {
		binary.LittleEndian.PutUint32(before[4*n:], word(random))
	}
	emulated := bytes.Clone(before)
	region := &emulatetest.Region{Bytes: emulated}
	emulatetest.Place(64, region)
	if _, err := machine.Run(code, map[asm.Reg]uint64{asm.RDI: region.Address}, region); err != nil {
		t.Fatal(err)
	}
	native := natively(t, code, before)
	wrong := 0
	for n, i := range insts {
		have, want := emulated[blockBytes*n:blockBytes*(n+1)], native[blockBytes*n:blockBytes*(n+1)]
		if at := slices.IndexFunc(indices(have), func(k int) bool { return have[k] != want[k] }); at >= 0 {
			if wrong++; wrong < 20 {
				at &^= 31
				t.Errorf("%s: at %d: emulated %x, here %x, before %x", i, at, have[at:at+32], want[at:at+32],
					before[blockBytes*n:][at:at+32])
			}
		}
	}
	t.Logf("%d instructions, %d differ", len(insts), wrong)
}

func indices(b []byte) []int {
	all := make([]int, len(b))
	for n := range all {
		all[n] = n
	}
	return all
}

// word draws the bits of a number: any, or a float of moderate size, or a special one.
func word(random *rand.Rand) uint32 {
	switch random.IntN(8) {
	case 0:
		return random.Uint32()
	case 1:
		special := []uint32{0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x3F800000, 0xFFFFFFFF}
		return special[random.IntN(len(special))]
	}
	return math.Float32bits(float32(random.NormFloat64() * 100))
}

// program loads each instruction's registers from its block, runs it, and stores them back. RDI is the first block.
func program(t *testing.T, insts []asm.Inst) []byte {
	t.Helper()
	var c asm.Code
	at := func(disp int) asm.Mem { return asm.Mem{Base: asm.RDI, Disp: int32(disp)} }
	for _, i := range insts {
		for n := range 16 {
			c.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: 256, Args: [4]asm.Reg{asm.V(n), asm.Memory}, Mem: at(vectorsAt + 32*n)})
		}
		for n, r := range general {
			c.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{r, asm.Memory}, Mem: at(generalAt + 8*n)})
		}
		c.Emit(asm.Inst{Op: asm.LEA, Bits: 64, Args: [4]asm.Reg{asm.RSI, asm.Memory}, Mem: at(memoryAt)})
		c.Emit(asm.Inst{Op: asm.CMP, Bits: 64, Args: [4]asm.Reg{asm.R12, asm.R13}})
		c.Emit(i)
		for n := range 16 {
			c.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: 256, Args: [4]asm.Reg{asm.Memory, asm.V(n)}, Mem: at(vectorsAt + 32*n)})
		}
		for n, r := range general {
			c.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.Memory, r}, Mem: at(generalAt + 8*n)})
		}
		c.Emit(asm.Inst{Op: asm.ADD, Bits: 64, Args: [4]asm.Reg{asm.RDI}, Imm: blockBytes})
	}
	c.Emit(asm.Inst{Op: asm.RET})
	code, err := c.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// natively runs the code on this machine and returns the blocks afterwards.
func natively(t *testing.T, code, blocks []byte) []byte {
	t.Helper()
	entry, err := mem.MapCode("test", code)
	if err != nil {
		t.Skip("the system gives no executable pages: ", err)
	}
	defer entry.Close()
	data, err := mem.Map(mem.Scratch, "test", int64(len(blocks)))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	memory := unsafe.Slice((*byte)(data.Pointer()), len(blocks))
	copy(memory, blocks)
	call.Call(uintptr(entry.Pointer()), data.Pointer(), 0, 0)
	return bytes.Clone(memory)
}

package emulatetest

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
)

// assemble returns the bytes of instructions.
func assemble(t *testing.T, insts ...asm.Inst) []byte {
	t.Helper()
	var c asm.Code
	for _, i := range insts {
		c.Emit(i)
	}
	code, err := c.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func floats(count int, f func(n int) float32) []byte {
	var b []byte
	for n := range count {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f(n)))
	}
	return b
}

type regs = [4]asm.Reg

// TestRun runs a masked loop of AVX-512 over arrays that end at the end of a page.
func TestRun(t *testing.T) {
	m := New(t)
	v, at := asm.V, func(base asm.Reg) asm.Mem { return asm.Mem{Base: base, Index: asm.RAX, Scale: 4} }
	code := assemble(t,
		asm.Inst{Op: asm.XOR, Bits: 32, Args: regs{asm.RAX, asm.RAX}},
		asm.Inst{Op: asm.LABEL, To: 1},
		asm.Inst{Op: asm.MOV, Bits: 64, Args: regs{asm.RDX, asm.RCX}},
		asm.Inst{Op: asm.SUB, Bits: 64, Args: regs{asm.RDX, asm.RAX}},
		asm.Inst{Op: asm.JLE, To: 2},
		asm.Inst{Op: asm.MOV, Bits: 32, Args: regs{asm.RBX}, Imm: 16},
		asm.Inst{Op: asm.CMP, Bits: 64, Args: regs{asm.RDX, asm.RBX}},
		asm.Inst{Op: asm.CMOVG, Bits: 64, Args: regs{asm.RDX, asm.RBX}}, // BZHI takes the low byte of its count
		asm.Inst{Op: asm.MOV, Bits: 32, Args: regs{asm.RBX}, Imm: 0xFFFF},
		asm.Inst{Op: asm.BZHI, Bits: 32, Args: regs{asm.RBX, asm.RBX, asm.RDX}},
		asm.Inst{Op: asm.KMOVW, Args: regs{asm.K(1), asm.RBX}},
		asm.Inst{Op: asm.VMOVUPS, Bits: 512, Args: regs{v(20), asm.Memory}, Mem: at(asm.RSI), Mask: asm.K(1), Zero: true},
		asm.Inst{Op: asm.VFMADD213PS, Bits: 512, Args: regs{v(20), v(20), asm.Memory},
			Mem: asm.Mem{Base: asm.R8}, Broadcast: true},
		asm.Inst{Op: asm.VMOVUPS, Bits: 512, Args: regs{asm.Memory, v(20)}, Mem: at(asm.RDI), Mask: asm.K(1)},
		asm.Inst{Op: asm.ADD, Bits: 64, Args: regs{asm.RAX}, Imm: 16},
		asm.Inst{Op: asm.JMP, To: 1},
		asm.Inst{Op: asm.LABEL, To: 2},
		asm.Inst{Op: asm.RET})
	for _, count := range []int{0, 1, 15, 16, 17, 1000, 4000} {
		in := &Region{Bytes: floats(count, func(n int) float32 { return float32(n) }), ReadOnly: true}
		out := &Region{Bytes: make([]byte, 4*count)}
		half := &Region{Bytes: floats(1, func(int) float32 { return 0.5 }), ReadOnly: true}
		Place(4, in, out, half)
		rax, err := m.Run(code, map[asm.Reg]uint64{asm.RSI: in.Address, asm.RDI: out.Address, asm.RCX: uint64(count),
			asm.R8: half.Address}, in, out, half)
		if err != nil || rax != uint64(count+15)/16*16 {
			t.Fatalf("%d elements: %v, RAX %d", count, err, rax)
		}
		if want := string(floats(count, func(n int) float32 {
			return float32(n)*float32(n) + 0.5
		})); string(out.Bytes) != want {
			for n := range count {
				if string(out.Bytes[4*n:4*n+4]) != want[4*n:4*n+4] {
					t.Fatalf("%d elements: element %d is %x, want %x", count, n, out.Bytes[4*n:4*n+4], want[4*n:4*n+4])
				}
			}
		}
	}
}

// TestFault checks that reading past a region, writing a read-only one, and an invalid instruction are errors.
func TestFault(t *testing.T) {
	m := New(t)
	load := assemble(t, asm.Inst{Op: asm.VMOVUPS, Bits: 512, Args: regs{asm.V(0), asm.Memory},
		Mem: asm.Mem{Base: asm.RSI, Disp: 4}}, asm.Inst{Op: asm.RET})
	store := assemble(t, asm.Inst{Op: asm.MOV, Bits: 64, Args: regs{asm.Memory, asm.RSI}, Mem: asm.Mem{Base: asm.RSI}},
		asm.Inst{Op: asm.RET})
	none := assemble(t, asm.Inst{Op: asm.UD2})
	r := &Region{Bytes: make([]byte, 64), ReadOnly: true}
	Place(4, r)
	for _, test := range []struct {
		code []byte
		want string
	}{{load, "page fault"}, {store, "page fault"}, {none, "does not exist"}} {
		if _, err := m.Run(test.code, map[asm.Reg]uint64{asm.RSI: r.Address}, r); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
	if _, err := m.Run(assemble(t, asm.Inst{Op: asm.RET}), nil); err != nil {
		t.Errorf("after faults: %v", err)
	}
}

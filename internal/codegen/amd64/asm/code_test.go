package asm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/codegen/assembly"
	"github.com/weirml/weir/internal/codegen/regalloc"
)

// TestCode compares a small function with labels, jumps both ways and constants with what GNU as makes of it.
func TestCode(t *testing.T) {
	var c Code
	again, done := c.NewLabel(), c.NewLabel()
	one := []byte{0, 0, 0x80, 0x3F}
	eight := bytes.Repeat(one, 8)
	pool1, pool8 := c.Constant(one), c.Constant(eight)
	if c.Constant(bytes.Clone(one)) != pool1 || pool1 == pool8 {
		t.Error("equal constants are not one")
	}
	for _, i := range []Inst{
		{Op: TEST, Bits: 64, Args: [4]Reg{RCX, RCX}},
		{Op: JE, To: done},
		{Op: VBROADCASTSS, Bits: 256, Args: [4]Reg{V(1), Memory}, Mem: Mem{Pool: pool1}},
		{Op: LABEL, To: again},
		{Op: VSHUFPS, Bits: 256, Args: [4]Reg{V(0), V(1), Memory}, Mem: Mem{Pool: pool8}, Imm: 5},
		{Op: VADDPS, Bits: 256, Args: [4]Reg{V(10), V(1), Memory}, Mem: Mem{Pool: pool8}},
		{Op: VADDPS, Bits: 512, Args: [4]Reg{V(10), V(1), Memory}, Mem: Mem{Pool: pool1}, Broadcast: true, Mask: K(0),
			Zero: true},
		{Op: SUB, Bits: 64, Args: [4]Reg{RCX}, Imm: 1},
		{Op: JNE, To: again},
		{Op: LABEL, To: done},
		{Op: RET},
	} {
		c.Emit(i)
	}
	have, err := c.Finish()
	if err != nil {
		t.Fatal(err)
	}
	parts := gas(t, []string{"test rcx, rcx", "{disp32} je i9", "vbroadcastss ymm1, dword ptr [rip+pool1]", "again:",
		"vshufps ymm0, ymm1, [rip+pool8], 5",
		"vaddps ymm10, ymm1, [rip+pool8]", "vaddps zmm10, zmm1, dword ptr [rip+pool1]{1to16}", "sub rcx, 1", "jne again",
		"ret",
		".p2align 5", "pool8: .rept 8\n.float 1\n.endr\npool1: .float 1"})
	copy(parts[10], have[len(bytes.Join(parts[:10], nil)):]) // as fills with other instructions that do nothing
	if want := bytes.Join(parts, nil); !bytes.Equal(have, want) {
		t.Errorf("%x, GNU as: %x", have, want)
	}
}

// TestAlign compares the instructions that fill with what GNU as takes them for.
func TestAlign(t *testing.T) {
	wants := gas(t, []string{"nop", "xchg ax, ax", "nop dword ptr [rax]", "{disp8} nop dword ptr [rax]",
		"{disp8} nop dword ptr [rax+rax*1]", "{disp8} nop word ptr [rax+rax*1]",
		"{disp32} nop dword ptr [rax]", "{disp32} nop dword ptr [rax+rax*1]", "{disp32} nop word ptr [rax+rax*1]"})
	for n, want := range wants {
		if nops[n] != string(want) || len(want) != n+1 {
			t.Errorf("%x, GNU as: %x", nops[n], want)
		}
	}
	var c Code
	for range 70 {
		c.Emit(Inst{Op: ALIGN, Imm: 32})
		if c.Len()%32 != 0 {
			t.Fatalf("%d bytes", c.Len())
		}
		c.Emit(Inst{Op: RET})
	}
}

// TestFeatures checks the features that code needs.
func TestFeatures(t *testing.T) {
	for _, test := range []struct {
		inst Inst
		want Features
	}{
		{Inst{Op: ADD, Bits: 64, Args: [4]Reg{RAX, RCX}}, 0},
		{Inst{Op: VADDPS, Bits: 256, Args: [4]Reg{V(0), V(1), V(2)}}, AVX},
		{Inst{Op: VADDPS, Bits: 256, Args: [4]Reg{V(16), V(1), V(2)}}, AVX512F | AVX512VL},
		{Inst{Op: VADDPS, Bits: 512, Args: [4]Reg{V(0), V(1), V(2)}}, AVX512F},
		{Inst{Op: VMOVSS, Args: [4]Reg{V(16), V(1), V(2)}}, AVX512F},
		{Inst{Op: VPSHUFD, Bits: 128, Args: [4]Reg{V(16), V(1)}}, AVX512F | AVX512VL},
		{Inst{Op: VANDPS, Bits: 512, Args: [4]Reg{V(0), V(1), V(2)}}, AVX512DQ},
		{Inst{Op: VFMADD231PS, Bits: 256, Args: [4]Reg{V(0), V(1), V(2)}}, FMA},
		{Inst{Op: KMOVW, Args: [4]Reg{K(1), RAX}}, AVX512F},
		{Inst{Op: BZHI, Bits: 64, Args: [4]Reg{RAX, RCX, RDX}}, BMI2},
	} {
		if have := test.inst.Features(); have != test.want {
			t.Errorf("%s: %b, want %b", test.inst, have, test.want)
		}
	}
}

// TestVisit checks registers and roles.
func TestVisit(t *testing.T) {
	v, g := func(n int) Reg { return regalloc.Virtual(Vector, n) }, func(n int) Reg { return regalloc.Virtual(General, n) }
	p := func(n int) Reg { return regalloc.Virtual(Opmask, n) }
	for _, test := range []struct {
		inst Inst
		text string
		want string
	}{
		{Inst{Op: VADDPS, Bits: 256, Args: [4]Reg{v(3), v(1), Memory}, Mem: Mem{Base: g(5), Index: g(6), Scale: 4, Disp: 8}},
			"vaddps v3, v1, ymmword ptr [g5+g6*4+8]", "v3=w v1=r g5=r g6=r"},
		{Inst{Op: VMOVUPS, Bits: 256, Args: [4]Reg{Memory, v(1)}, Mem: Mem{Base: g(5)}}, "vmovups ymmword ptr [g5], v1",
			"v1=r g5=r"},
		{Inst{Op: VADDPS, Bits: 512, Args: [4]Reg{v(3), v(1), v(2)}, Mask: p(7)}, "vaddps v3{p7}, v1, v2",
			"v3=rw v1=r v2=r p7=r"},
		{Inst{Op: VADDPS, Bits: 512, Args: [4]Reg{v(3), v(1), v(2)}, Mask: K(7), Zero: true}, "vaddps v3{k7}{z}, v1, v2",
			"v3=w v1=r v2=r k7=r"},
		{Inst{Op: VCMPPS, Bits: 512, Args: [4]Reg{p(1), v(1), v(2)}, Mask: K(7), Imm: 1},
			"vcmpps p1{k7}, v1, v2, 1", "p1=w v1=r v2=r k7=r"},
		{Inst{Op: VBLENDMPS, Bits: 512, Args: [4]Reg{v(3), v(1), v(2)}, Mask: K(7)}, "vblendmps v3{k7}, v1, v2",
			"v3=w v1=r v2=r k7=r"},
		{Inst{Op: VFMADD231PS, Bits: 512, Args: [4]Reg{v(3), v(1), Memory}, Mem: Mem{Base: RAX}, Broadcast: true},
			"vfmadd231ps v3, v1, dword ptr [rax]{1to16}", "v3=rw v1=r rax=r"},
		{Inst{Op: VXORPS, Bits: 256, Args: [4]Reg{v(3), v(3), v(3)}}, "vxorps v3, v3, v3", "v3=w v3=w v3=w"},
		{Inst{Op: VXORPS, Bits: 256, Args: [4]Reg{v(3), v(1), v(1)}}, "vxorps v3, v1, v1", "v3=w v1=r v1=r"},
		{Inst{Op: XOR, Bits: 32, Args: [4]Reg{g(1), g(1)}}, "xor g1, g1", "g1=w g1=w"},
		{Inst{Op: VGATHERDPS, Bits: 512, Args: [4]Reg{v(3), Memory}, Mem: Mem{Base: g(1), Index: v(2), Scale: 4},
			Mask: p(1)},
			"vgatherdps v3{p1}, dword ptr [g1+v2*4]", "v3=rw g1=r v2=r p1=rw"},
		{Inst{Op: VGATHERDPS, Bits: 256, Args: [4]Reg{v(3), Memory, v(4)}, Mem: Mem{Base: g(1), Index: v(2), Scale: 4}},
			"vgatherdps v3, dword ptr [g1+v2*4], v4", "v3=rw v4=rw g1=r v2=r"},
		{Inst{Op: IDIV, Bits: 64, Args: [4]Reg{g(1)}}, "idiv g1", "g1=r rax=rw rdx=rw"},
		{Inst{Op: CQO, Bits: 64}, "cqo", "rax=r rdx=w"},
		{Inst{Op: ADD, Bits: 64, Args: [4]Reg{g(1)}, Imm: 5}, "add g1, 5", "g1=rw"},
		{Inst{Op: ADD, Bits: 64, Args: [4]Reg{Memory}, Mem: Mem{Base: g(2)}, Imm: 5}, "add qword ptr [g2], 5", "g2=r"},
		{Inst{Op: VMOVUPS, Bits: 256, Args: [4]Reg{v(1), Memory}, Mem: Mem{Pool: 3}}, "vmovups v1, ymmword ptr [constant 2]",
			"v1=w"},
		{Inst{Op: LABEL, To: 3}, "L3:", ""},
		{Inst{Op: JL, To: 3}, "jl L3", ""},
	} {
		if have := test.inst.String(); have != test.text {
			t.Errorf("printed %q, want %q", have, test.text)
		}
		var have []string
		test.inst.Visit(func(r *Reg, role Role) {
			have = append(have, fmt.Sprintf("%s=%s", Name(*r), [...]string{"", "r", "w", "rw"}[role]))
		})
		if got := strings.Join(have, " "); got != test.want {
			t.Errorf("%s: visited %s, want %s", test.text, got, test.want)
		}
	}
}

// TestWrong checks that instructions without a form are refused, with an error that names the instruction.
func TestWrong(t *testing.T) {
	for _, i := range []Inst{
		{},
		{Op: VADDPS, Bits: 256, Args: [4]Reg{V(1), V(2)}},
		{Op: VADDPS, Bits: 64, Args: [4]Reg{V(1), V(2), V(3)}},
		{Op: VBLENDVPS, Bits: 256, Args: [4]Reg{V(16), V(2), V(3), V(4)}},
		{Op: VPERM2F128, Bits: 512, Args: [4]Reg{V(1), V(2), V(3)}},
		{Op: VMOVUPS, Bits: 512, Args: [4]Reg{Memory, V(1)}, Mem: Mem{Base: RAX}, Mask: K(1), Zero: true},
		{Op: VGATHERDPS, Bits: 512, Args: [4]Reg{V(1), Memory}, Mem: Mem{Base: RAX, Index: V(2), Scale: 4}},
		{Op: ADD, Bits: 64, Args: [4]Reg{RAX}, Imm: 1 << 40},
		{Op: ADD, Bits: 64, Args: [4]Reg{RAX, K(1)}},
		{Op: VADDPS, Bits: 256, Args: [4]Reg{V(1), V(2), regalloc.Virtual(Vector, 3)}},
		{Op: LEA, Bits: 64, Args: [4]Reg{RAX, Memory}, Mem: Mem{Base: RAX, Index: RSP, Scale: 1}},
		{Op: LEA, Bits: 64, Args: [4]Reg{RAX, Memory}, Mem: Mem{Base: RAX, Index: RCX, Scale: 3}},
		{Op: LEA, Bits: 64, Args: [4]Reg{RAX, Memory}, Mem: Mem{Base: RAX, Index: V(1), Scale: 4}},
		{Op: VGATHERDPS, Bits: 256, Args: [4]Reg{V(1), Memory, V(3)}, Mem: Mem{Base: RAX, Index: RCX, Scale: 4}},
		{Op: LABEL},
	} {
		func() {
			defer func() {
				if r := recover(); r == nil {
					t.Errorf("%s is taken", i)
				} else if text := fmt.Sprint(r); i.Op != LABEL && !strings.Contains(strings.ToLower(text),
					strings.ToLower(i.Op.String())) {
					t.Errorf("the refusal does not tell the instruction: %s", text)
				}
			}()
			var c Code
			c.Emit(i)
		}()
	}
	var c Code
	c.Emit(Inst{Op: JMP, To: c.NewLabel()})
	if _, err := c.Finish(); err == nil {
		t.Error("a jump to nowhere is finished")
	}
}

// BenchmarkEmit reports the time of one instruction.
func BenchmarkEmit(b *testing.B) {
	insts := []Inst{
		{Op: VMOVUPS, Bits: 256, Args: [4]Reg{V(1), Memory}, Mem: Mem{Base: RAX, Disp: 64}},
		{Op: VFMADD231PS, Bits: 256, Args: [4]Reg{V(3), V(1), V(12)}},
		{Op: VFMADD231PS, Bits: 512, Args: [4]Reg{V(3), V(1), Memory}, Mem: Mem{Base: RAX, Index: R9, Scale: 4, Disp: 128}},
		{Op: ADD, Bits: 64, Args: [4]Reg{RAX}, Imm: 64},
		{Op: LEA, Bits: 64, Args: [4]Reg{RCX, Memory}, Mem: Mem{Base: RAX, Index: R9, Scale: 4, Disp: 128}},
	}
	b.ReportAllocs()
	var c Code
	for n := 0; b.Loop(); n++ {
		if c.Len() > 1<<20 {
			c.Reset()
		}
		c.Emit(insts[n%len(insts)])
	}
}

// BenchmarkVisit reports the time of visiting one instruction.
func BenchmarkVisit(b *testing.B) {
	i := Inst{Op: VFMADD231PS, Bits: 512, Args: [4]Reg{V(3), V(1), Memory},
		Mem: Mem{Base: RAX, Index: R9, Scale: 4, Disp: 128}}
	b.ReportAllocs()
	count := 0
	for b.Loop() {
		i.Visit(func(*Reg, Role) { count++ })
	}
}

// BenchmarkFirst reports the time that the first use of an operation takes more.
func BenchmarkFirst(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		unread := assembly.NewTable(text, offsets[:], appendForms)
		b.StartTimer()
		unread.Forms(int(VADDPS))
	}
}

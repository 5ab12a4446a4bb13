package asm

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/diag"
)

// TestCode compares a function with labels, jumps both ways, constants and an address with what GNU as makes of it.
func TestCode(t *testing.T) {
	var c Code
	again, done := c.NewLabel(), c.NewLabel()
	one, word := []byte{0, 0, 0x80, 0x3F}, []byte{1, 2, 3, 4, 5, 6, 7, 8}
	four, wide := bytes.Repeat(one, 4), bytes.Repeat(word, 8)
	pool1, pool2, pool4, pool16 := c.Constant(one), c.Constant(word), c.Constant(four), c.Constant(wide)
	if c.Constant(bytes.Clone(one)) != pool1 || pool1 == pool4 {
		t.Error("equal constants are not one")
	}
	steps := []struct {
		inst Inst
		text string
	}{
		{Inst{Op: CBZ, Shape: X64, Args: [6]Reg{X(2)}, To: done}, "cbz x2, done"},
		{Inst{Op: LDR, Shape: Q, Args: [6]Reg{V(1), Memory}, Mem: Mem{Pool: pool4}}, "ldr q1, pool4"},
		{Inst{Op: LDR, Shape: D, Args: [6]Reg{V(2), Memory}, Mem: Mem{Pool: pool2}}, "ldr d2, pool2"},
		{Inst{Op: LDR, Shape: S, Args: [6]Reg{V(3), Memory}, Mem: Mem{Pool: pool1}}, "ldr s3, pool1"},
		{Inst{Op: LDR, Shape: S, Args: [6]Reg{V(3), Memory}, Mem: Mem{Pool: pool4, Disp: 8}}, "ldr s3, pool4+8"},
		{Inst{Op: LDR, Shape: X64, Args: [6]Reg{X(4), Memory}, Mem: Mem{Pool: pool2}}, "ldr x4, pool2"},
		{Inst{Op: LDR, Shape: W32, Args: [6]Reg{X(4), Memory}, Mem: Mem{Pool: pool1}}, "ldr w4, pool1"},
		{Inst{Op: ADR, Args: [6]Reg{X(5), Memory}, Mem: Mem{Pool: pool16, Disp: 3}}, "adr x5, pool16+3"},
		{Inst{Op: LABEL, To: again}, "again:"},
		{Inst{Op: BRANCHIF, If: LT, To: done}, "b.lt done"},
		{Inst{Op: BRANCHIF, If: HS, To: again}, "b.hs again"},
		{Inst{Op: CBNZ, Shape: W32, Args: [6]Reg{X(7)}, To: again}, "cbnz w7, again"},
		{Inst{Op: BRANCH, To: again}, "b again"},
		{Inst{Op: BRANCH, To: done}, "b done"},
		{Inst{Op: ALIGN, Imm: 32}, ".p2align 5"},
		{Inst{Op: LABEL, To: done}, "done:"},
		{Inst{Op: RET}, "ret"},
	}
	var texts []string
	for _, s := range steps {
		c.Emit(s.inst)
		texts = append(texts, s.text)
	}
	have, err := c.Finish()
	if err != nil {
		t.Fatal(err)
	}
	texts = append(texts, ".p2align 6", "pool16: .rept 8\n.byte 1, 2, 3, 4, 5, 6, 7, 8\n.endr\n"+
		"pool4: .rept 4\n.float 1\n.endr\npool2: .byte 1, 2, 3, 4, 5, 6, 7, 8\npool1: .float 1")
	if want := bytes.Join(gas(t, texts), nil); !bytes.Equal(have, want) {
		t.Errorf("%x, GNU as: %x", have, want)
	}
}

// TestReach checks the first and the last instruction that jumps and loads of constants reach, and that one more is an
// error.
func TestReach(t *testing.T) {
	for _, test := range []struct {
		jump  Inst
		reach int // in instructions
	}{
		{Inst{Op: CBZ, Shape: X64, Args: [6]Reg{X(1)}}, 1 << 18},
		{Inst{Op: BRANCHIF, If: EQ}, 1 << 18},
		{Inst{Op: LDR, Shape: Q, Args: [6]Reg{V(1), Memory}, Mem: Mem{Pool: 1}}, 1 << 18},
		{Inst{Op: ADR, Args: [6]Reg{X(1), Memory}, Mem: Mem{Pool: 1}}, 1 << 18},
		{Inst{Op: ADR, Args: [6]Reg{X(1)}}, 1 << 18},
	} {
		pool := test.jump.Mem.Pool != 0
		for _, far := range []int{test.reach - 1, test.reach, -test.reach, -test.reach - 1} {
			if pool && far < 0 {
				continue // constants stand after the code
			}
			var c Code
			there, jump := c.NewLabel(), test.jump
			if pool {
				c.Constant([]byte{1, 2, 3, 4})
			} else {
				jump.To = there
			}
			fill := func(n int) {
				for range n {
					c.bytes = append(c.bytes, 0x1F, 0x20, 0x03, 0xD5)
				}
			}
			if far > 0 {
				c.Emit(jump)
				fill(far - 1)
				c.Bind(there)
			} else {
				c.Bind(there)
				fill(-far)
				c.Emit(jump)
			}
			_, err := c.Finish()
			wrong := far >= test.reach || far < -test.reach
			if wrong != errors.Is(err, diag.ErrUnsupported) || !wrong && err != nil {
				t.Errorf("%s over %d instructions: %v", jump, far, err)
			}
		}
	}
}

// TestUnbound checks that jumps to labels that are never bound are errors, and constants that are not there panics.
func TestUnbound(t *testing.T) {
	var c Code
	c.Emit(Inst{Op: BRANCH, To: c.NewLabel()})
	if _, err := c.Finish(); !errors.Is(err, diag.ErrInternal) {
		t.Errorf("a jump to nowhere: %v", err)
	}
	panics(t, "a constant that is not there", func() {
		var c Code
		c.Emit(Inst{Op: LDR, Shape: Q, Args: [6]Reg{V(1), Memory}, Mem: Mem{Pool: 1}})
	})
	panics(t, "a constant of 3 bytes", func() {
		var c Code
		c.Constant([]byte{1, 2, 3})
	})
	panics(t, "a label twice", func() {
		var c Code
		c.Bind(1)
		c.Bind(1)
	})
	c.Reset()
	c.Emit(Inst{Op: RET})
	if code, err := c.Finish(); err != nil || len(code) != 4 {
		t.Errorf("after a reset: %x, %v", code, err)
	}
}

// panics checks that a function panics.
func panics(t *testing.T, what string, do func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	do()
}

// TestAlign checks that code is filled with instructions.
func TestAlign(t *testing.T) {
	var c Code
	for range 70 {
		c.Emit(Inst{Op: ALIGN, Imm: 32})
		if c.Len()%32 != 0 {
			t.Fatalf("%d bytes", c.Len())
		}
		c.Emit(Inst{Op: RET})
	}
}

// TestVisit checks texts, registers and roles.
func TestVisit(t *testing.T) {
	v, g := func(n int) Reg { return regalloc.Virtual(Vector, n) }, func(n int) Reg { return regalloc.Virtual(General, n) }
	for _, test := range []struct {
		inst Inst
		text string
		want string
	}{
		{Inst{Op: FADD, Shape: S4, Args: [6]Reg{v(3), v(1), v(2)}}, "fadd u3.4s, u1.4s, u2.4s", "u3=w u1=r u2=r"},
		{Inst{Op: FMLA, Shape: S4, Args: [6]Reg{v(3), v(1), v(2)}}, "fmla u3.4s, u1.4s, u2.4s", "u3=rw u1=r u2=r"},
		{Inst{Op: FMLABY, Shape: S4, Args: [6]Reg{v(3), v(1), v(2)}, Lane: 3}, "fmla u3.4s, u1.4s, u2.s[3]",
			"u3=rw u1=r u2=r"},
		{Inst{Op: XTN, Shape: B8, Args: [6]Reg{v(3), v(1)}}, "xtn u3.8b, u1.8h", "u3=w u1=r"},
		{Inst{Op: XTN, Shape: B16, Args: [6]Reg{v(3), v(1)}}, "xtn2 u3.16b, u1.8h", "u3=rw u1=r"},
		{Inst{Op: MOVK, Shape: X64, Args: [6]Reg{g(1)}, Imm: 5, Lane: 2}, "movk g1, #5, lsl #32", "g1=rw"},
		{Inst{Op: LDR, Shape: Q, Args: [6]Reg{v(1), Memory}, Mem: Mem{Base: g(2), Index: g(3), Scale: 16}},
			"ldr u1.q, [g2, g3, lsl #4]", "u1=w g2=r g3=r"},
		{Inst{Op: CMP, Shape: X64, Args: [6]Reg{g(1)}, Imm: 4096}, "cmp g1, #4096", "g1=r"},
		{Inst{Op: SUBS, Shape: X64, Args: [6]Reg{ZR, g(1), ZR}}, "subs xzr, g1, xzr, lsl #0", "g1=r"},
		{Inst{Op: LD1, Shape: H, Args: [6]Reg{V(1), Memory}, Mem: Mem{Base: X(2)}, Lane: 5}, "ld1 {v1.h}[5], [x2]",
			"v1=rw x2=r"},
		{Inst{Op: TBX, Shape: B16, Args: [6]Reg{v(1), v(2), v(3), v(4)}}, "tbx u1.16b, {u2.16b, u3.16b}, u4.16b",
			"u1=rw u2=r u3=r u4=r"},
		{Inst{Op: LDR, Shape: Q, Args: [6]Reg{v(1), Memory}, Mem: Mem{Pool: 3}}, "ldr u1.q, constant 2", "u1=w"},
		{Inst{Op: LABEL, To: 3}, "L3:", ""},
		{Inst{Op: BRANCHIF, If: GE, To: 3}, "b.ge L3", ""},
		{Inst{Op: RET}, "ret", ""},
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
	for op, want := range map[Op][3]bool{BRANCH: {true, false, true}, BRANCHIF: {true, true, false},
		CBZ: {true, true, false}, CBNZ: {true, true, false},
		RET: {false, false, true}, ADD: {}, UDF: {false, false, true}} {
		if have := [3]bool{op.Jumps(), op.Conditional(), op.Ends()}; have != want {
			t.Errorf("%s: %v, want %v", op, have, want)
		}
	}
}

// TestWrong checks that instructions without a form are refused, with a text that names the instruction.
func TestWrong(t *testing.T) {
	x, v := [6]Reg{X(1), X(2)}, [6]Reg{V(1), V(2), V(3)}
	access := func(r Reg) [6]Reg { return [6]Reg{r, Memory} }
	for _, i := range []Inst{
		{},
		{Op: ADD, Shape: X64, Args: x, Imm: -1},
		{Op: ADD, Shape: X64, Args: x, Imm: 4097},
		{Op: ADD, Shape: X64, Args: x, Imm: 1 << 24},
		{Op: ADD, Args: x, Imm: 1},
		{Op: ADD, Shape: S4, Args: x},
		{Op: ADD, Shape: X64, Args: [6]Reg{X(1), X(2), V(3)}},
		{Op: ADD, Shape: X64, Args: [6]Reg{X(1), X(2), X(3)}, Imm: 64},
		{Op: ADD, Shape: W32, Args: [6]Reg{X(1), X(2), X(3)}, Imm: 32},
		{Op: ADD, Shape: X64, Args: [6]Reg{X(1), X(2), SP}},
		{Op: ADD, Shape: X64, Args: [6]Reg{X(1), ZR}, Imm: 1},
		{Op: AND, Shape: X64, Args: x},
		{Op: AND, Shape: X64, Args: x, Imm: -1},
		{Op: AND, Shape: X64, Args: x, Imm: 5},
		{Op: AND, Shape: W32, Args: x, Imm: 1 << 32},
		{Op: MOVZ, Shape: X64, Args: [6]Reg{X(1)}, Imm: 1 << 16},
		{Op: MOVZ, Shape: W32, Args: [6]Reg{X(1)}, Imm: 1, Lane: 2},
		{Op: LSL, Shape: W32, Args: x, Imm: 32},
		{Op: LDR, Shape: X64, Args: access(X(1)), Mem: Mem{Base: X(2), Disp: 32768}},
		{Op: LDR, Shape: X64, Args: access(X(1)), Mem: Mem{Base: X(2), Disp: 257}},
		{Op: LDR, Shape: X64, Args: access(X(1)), Mem: Mem{Base: X(2), Disp: -257}},
		{Op: LDR, Shape: X64, Args: access(X(1)), Mem: Mem{Base: ZR}},
		{Op: LDR, Shape: X64, Args: access(X(1)), Mem: Mem{Base: V(2)}},
		{Op: LDR, Shape: X64, Args: access(X(1)), Mem: Mem{Base: X(2), Index: SP}},
		{Op: LDR, Shape: X64, Args: access(X(1)), Mem: Mem{Base: X(2), Index: X(3), Scale: 4}},
		{Op: LDR, Shape: X64, Args: access(X(1)), Mem: Mem{Base: X(2), Index: X(3), Disp: 8}},
		{Op: LDR, Shape: S4, Args: access(V(1)), Mem: Mem{Base: X(2)}},
		{Op: LD1, Shape: S4, Args: [6]Reg{V(1), V(3), Memory}, Mem: Mem{Base: X(2)}},
		{Op: LD1, Shape: S4, Args: access(V(1)), Mem: Mem{Base: X(2), Disp: 16}},
		{Op: LD1, Shape: S, Args: access(V(1)), Mem: Mem{Base: X(2)}, Lane: 4},
		{Op: FMLA, Shape: H8, Args: [6]Reg{V(1), V(2), Memory}},
		{Op: FADD, Shape: S, Args: [6]Reg{V(1), V(2)}},
		{Op: FADD, Shape: D1, Args: v},
		{Op: FADD, Shape: B16, Args: v},
		{Op: MUL, Shape: D2, Args: v},
		{Op: SDOT, Shape: H8, Args: v},
		{Op: SHL, Shape: S4, Args: [6]Reg{V(1), V(2)}, Imm: 32},
		{Op: SSHR, Shape: S4, Args: [6]Reg{V(1), V(2)}},
		{Op: SSHR, Shape: S4, Args: [6]Reg{V(1), V(2)}, Imm: 33},
		{Op: EXT, Shape: B8, Args: v, Imm: 8},
		{Op: MOVI, Shape: S4, Args: [6]Reg{V(1)}, Imm: 257},
		{Op: MOVI, Shape: S4, Args: [6]Reg{V(1)}, Imm: -1},
		{Op: MOVI, Shape: D2, Args: [6]Reg{V(1)}, Imm: 1},
		{Op: FMOV, Shape: S4, Args: [6]Reg{V(1)}, Imm: int64(math.Float64bits(0.1))},
		{Op: FMOV, Shape: S4, Args: [6]Reg{V(1)}},
		{Op: FMOV, Shape: S4, Args: [6]Reg{V(1)}, Imm: int64(math.Float64bits(32))},
		{Op: UMOV, Shape: W32, From: D, Args: [6]Reg{X(1), V(1)}},
		{Op: UMOV, Shape: W32, Args: [6]Reg{X(1), V(1)}},
		{Op: DUP, Shape: S4, Args: [6]Reg{V(1), V(2)}, Lane: 4},
		{Op: FMLABY, Shape: S4, Args: v, Lane: 4},
		{Op: SDOTBY, Shape: S4, Args: v, Lane: 4},
		{Op: FCVTZS, Shape: X64, From: Q, Args: [6]Reg{X(1), V(2)}},
		{Op: FADD, Shape: S4, Args: [6]Reg{V(1), V(2), regalloc.Virtual(Vector, 3)}},
	} {
		text := i.String()
		if i.Encodes() && !i.Args[2].Virtual() {
			t.Errorf("%s has a form", text)
		}
		if name := strings.TrimSuffix(i.Op.String(), "BY"); !strings.Contains(strings.ToUpper(text), strings.ToUpper(name)) {
			t.Errorf("%s does not name %s", text, name)
		}
		panics(t, text, func() {
			var c Code
			c.Emit(i)
		})
	}
}

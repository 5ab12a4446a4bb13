package arm64

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/target"
)

// registers are the numbers in general registers.
type registers map[asm.Reg]int64

// address returns the address of an access.
func (r registers) address(m asm.Mem) int64 {
	at := r[m.Base] + int64(m.Disp)
	if m.Index != asm.NoReg {
		at += r[m.Index] * int64(max(m.Scale, 1))
	}
	return at
}

// run does an instruction that Legal makes, or one of the test's.
func (r registers) run(t *testing.T, in *asm.Inst) {
	t.Helper()
	to, x := in.Args[0], r[in.Args[1]]
	switch in.Op {
	case asm.ADD, asm.SUB:
		y := in.Imm
		if in.Args[2] != asm.NoReg {
			y = r[in.Args[2]] << in.Imm
		}
		if in.Op == asm.SUB {
			y = -y
		}
		r[to] = x + y
	case asm.MOVZ:
		r[to] = in.Imm << (16 * in.Lane)
	case asm.MOVN:
		r[to] = ^(in.Imm << (16 * in.Lane))
	case asm.MOVK:
		r[to] = r[to]&^(0xFFFF<<(16*in.Lane)) | in.Imm<<(16*in.Lane)
	case asm.ORR:
		r[to] = in.Imm
	default:
		t.Fatalf("no meaning of %s", in)
	}
}

// TestLegalAddresses compares the addresses of random accesses before and after they are made legal, with changes of
// their registers and labels in between. At a label the scratch registers may have any numbers.
func TestLegalAddresses(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	bases := []asm.Reg{asm.X(3), asm.X(4), asm.X(5)}
	one := func(list []asm.Reg) asm.Reg { return list[r.Intn(len(list))] }
	accesses := []asm.Inst{{Op: asm.LDR, Shape: asm.Q}, {Op: asm.STR, Shape: asm.S}, {Op: asm.LDR, Shape: asm.B},
		{Op: asm.ST1, Shape: asm.S, Lane: 2}, {Op: asm.PRFM}}
	far := []int64{1, 16, 100, 4096, 1 << 16, 1 << 24, 1 << 29}
	longer := 0
	for range 2000 {
		var insts []asm.Inst
		for range 1 + r.Intn(30) {
			switch n := r.Intn(20); {
			case n == 0:
				insts = append(insts, asm.Inst{Op: asm.LABEL, To: 1})
			case n < 3:
				x := one(bases)
				insts = append(insts, asm.Inst{Op: asm.ADD, Shape: asm.X64, Args: [6]asm.Reg{x, x}, Imm: r.Int63n(4096)})
			default:
				in := accesses[r.Intn(len(accesses))]
				in.Args = [6]asm.Reg{asm.V(1), asm.Memory}
				if in.Op == asm.PRFM {
					in.Args = [6]asm.Reg{asm.Memory}
				}
				most := far[r.Intn(len(far))]
				in.Mem = asm.Mem{Base: one(bases), Disp: int32((r.Int63n(2*most) - most) * r.Int63n(3) / 2)}
				if r.Intn(2) == 0 {
					in.Mem.Index, in.Mem.Scale = one(bases), []uint8{1, 2, 4, 8}[r.Intn(4)]
				}
				insts = append(insts, in)
			}
		}
		legal := isaOf(target.Machine{}).Legal(nil, insts)
		longer += len(legal) - len(insts)
		start := func() registers { return registers{bases[0]: 1 << 40, bases[1]: 77, bases[2]: 1 << 20} }
		var want, have []int64
		before, after := start(), start()
		for _, in := range insts {
			if in.Mem.Base != asm.NoReg {
				want = append(want, before.address(in.Mem))
			} else if in.Op != asm.LABEL {
				before.run(t, &in)
			}
		}
		for _, in := range legal {
			switch {
			case !in.Encodes():
				t.Fatalf("%s has no form", in)
			case in.Mem.Base != asm.NoReg:
				have = append(have, after.address(in.Mem))
			case in.Op == asm.LABEL:
				after[addressScratch], after[numberScratch] = r.Int63(), r.Int63()
			default:
				after.run(t, &in)
			}
		}
		if !slices.Equal(want, have) {
			t.Fatalf("the accesses are to %x instead of %x", have, want)
		}
	}
	if longer == 0 {
		t.Error("every address was legal")
	}
}

// TestAddressesHeld counts the instructions of a loop's accesses around an address that no displacement reaches: its
// sum and a part of its displacement are computed once.
func TestAddressesHeld(t *testing.T) {
	var insts []asm.Inst
	for n := range int32(8) {
		insts = append(insts, asm.Inst{Op: asm.LDR, Shape: asm.Q, Args: [6]asm.Reg{asm.V(int(n)), asm.Memory},
			Mem: asm.Mem{Base: asm.X(3), Index: asm.X(4), Scale: 4, Disp: 576*n - 28800}})
	}
	if legal := isaOf(target.Machine{}).Legal(nil, insts); len(legal) != len(insts)+2 {
		t.Errorf("%d instructions for %d accesses", len(legal), len(insts))
	}
}

// TestDirect removes the copies of results that nothing else reads, and no others.
func TestDirect(t *testing.T) {
	for _, test := range []struct {
		name string
		emit func(b *builder, sum, x asm.Reg)
		left int // instructions
	}{
		{"a sum", func(b *builder, sum, x asm.Reg) {
			b.op(asm.MOV, asm.B16, sum, b.three(asm.FADD, asm.S4, sum, x))
		}, 1},
		{"read twice", func(b *builder, sum, x asm.Reg) {
			y := b.three(asm.FADD, asm.S4, sum, x)
			b.op(asm.MOV, asm.B16, sum, y)
			b.op(asm.MOV, asm.B16, x, y)
		}, 3},
		{"not adjacent", func(b *builder, sum, x asm.Reg) {
			y := b.three(asm.FADD, asm.S4, sum, x)
			b.op(asm.FADD, asm.S4, x, sum, x)
			b.op(asm.MOV, asm.B16, sum, y)
		}, 3},
		{"keeps elements", func(b *builder, sum, x asm.Reg) {
			y := b.NewVector()
			b.op(asm.FMLA, asm.S4, y, sum, x)
			b.op(asm.MOV, asm.B16, sum, y)
		}, 2},
	} {
		b := newBuilder(&isa{registers: 32})
		sum, x := b.NewVector(), b.NewVector()
		test.emit(b, sum, x)
		if b.isa.Fuse(&b.Routine); len(b.Insts) != test.left {
			t.Errorf("%s: %d instructions are left instead of %d: %v", test.name, len(b.Insts), test.left, b.Insts)
		}
		if in := b.Insts[0]; test.left == 1 && in.Args[0] != sum {
			t.Errorf("%s: the result is in another register: %s", test.name, in)
		}
	}
}

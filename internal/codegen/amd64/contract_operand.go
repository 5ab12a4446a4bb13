package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
)

// operandForm describes how a tile reads elements of a type as lanes of its sums' type. Narrower elements are widened
// to the same numbers as they are read; memory stays narrow.
type operandForm struct {
	size int64
	// widens the low elements of a register, or memory, to a full register; NoOp: elements are of the sums' type
	extend asm.Op
	repeat asm.Op // reads one narrow element into every element of a register
	high   bool   // the element is the upper half of its lane
	number asm.Op // converts widened lanes to numbers; NoOp: they are numbers
}

var floatForms = map[dtype.DType]*operandForm{
	dtype.F32:  {size: 4},
	dtype.F16:  {size: 2, extend: asm.VCVTPH2PS, repeat: asm.VPBROADCASTW},
	dtype.BF16: {size: 2, extend: asm.VPMOVZXWD, repeat: asm.VPBROADCASTW, high: true},
	dtype.I8:   {size: 1, extend: asm.VPMOVSXBD, repeat: asm.VPBROADCASTB, number: asm.VCVTDQ2PS},
	dtype.U8:   {size: 1, extend: asm.VPMOVZXBD, repeat: asm.VPBROADCASTB, number: asm.VCVTDQ2PS},
}

var integerForms = map[dtype.DType]*operandForm{
	dtype.I32: {size: 4},
	dtype.U32: {size: 4},
	dtype.I16: {size: 2, extend: asm.VPMOVSXWD, repeat: asm.VPBROADCASTW},
	dtype.U16: {size: 2, extend: asm.VPMOVZXWD, repeat: asm.VPBROADCASTW},
	dtype.I8:  {size: 1, extend: asm.VPMOVSXBD, repeat: asm.VPBROADCASTB},
	dtype.U8:  {size: 1, extend: asm.VPMOVZXBD, repeat: asm.VPBROADCASTB},
}

// operandForms are the types whose products can be added up in a type of sums.
var operandForms = map[dtype.DType]map[dtype.DType]*operandForm{
	dtype.F32: floatForms,
	dtype.F64: {dtype.F64: {size: 8}},
	dtype.I32: integerForms,
	dtype.U32: integerForms,
}

// formOf returns the form of elements whose products are added up in sums of a type; nil if there is none.
func formOf(from, sums dtype.DType) *operandForm { return operandForms[sums][from] }

// readOne reads an element into all lanes.
func (t *registerTile) readOne(f *operandForm, r asm.Reg, at asm.Mem) {
	if f.extend == asm.NoOp {
		t.wideFrom(t.ops.broadcast, at, r)
		return
	}
	bits := uint16(t.isa.bits)
	if !f.high { // as many elements as are widened
		bits = max(128, uint16(int64(bits)*f.size/t.ops.size))
	}
	t.Emit(asm.Inst{Op: f.repeat, Bits: bits, Args: [4]asm.Reg{r, asm.Memory}, Mem: at})
	if f.high {
		t.toHigh(r)
		return
	}
	t.wide(f.extend, r, r)
	t.toNumber(f, r)
}

// toNumber makes numbers of the sums' type of lanes that were widened.
func (t *registerTile) toNumber(f *operandForm, r asm.Reg) {
	if f.number != asm.NoOp {
		t.wide(f.number, r, r)
	}
}

// toHigh moves the lower half of each lane to the upper one.
func (t *registerTile) toHigh(r asm.Reg) {
	t.Emit(asm.Inst{Op: asm.VPSLLD, Bits: uint16(t.isa.bits), Args: [4]asm.Reg{r, r}, Imm: 16})
}

// readRun reads a vector of a row; if it is masked, without touching memory beyond its lanes.
func (t *registerTile) readRun(f *operandForm, r asm.Reg, vector int, at asm.Mem, masked bool) {
	switch {
	case f.extend == asm.NoOp && masked:
		t.loadLanes(r, vector, at)
		return
	case f.extend == asm.NoOp:
		t.wideFrom(t.ops.move, at, r)
		return
	case masked && t.isa.masks && (f.extend == asm.VPMOVSXBW || f.extend == asm.VPMOVZXBW): // lanes are two words of these
		t.Emit(asm.Inst{Op: asm.VMOVDQU16, Bits: uint16(t.isa.bits) / 2, Args: [4]asm.Reg{r, asm.Memory}, Mem: at,
			Mask: t.mask, Zero: true})
		t.wide(f.extend, r, r)
	case masked && t.isa.masks:
		t.Emit(asm.Inst{Op: f.extend, Bits: uint16(t.isa.bits), Args: [4]asm.Reg{r, asm.Memory}, Mem: at, Mask: t.mask,
			Zero: true})
	case masked:
		t.insertLanes(f, r, at)
		t.wide(f.extend, r, r)
	default:
		t.wideFrom(f.extend, at, r)
	}
	if f.high {
		t.toHigh(r)
	}
	t.toNumber(f, r)
}

// insertLanes reads the narrow elements of the last vector's lanes one by one, if there are no opmasks; the others
// become 0.
func (t *registerTile) insertLanes(f *operandForm, r asm.Reg, at asm.Mem) {
	op := asm.VPINSRW
	if f.size == 1 {
		op = asm.VPINSRB
	}
	t.Emit(asm.Inst{Op: asm.VPXOR, Bits: 128, Args: [4]asm.Reg{r, r, r}})
	t.eachLane(func(i int64) {
		t.Emit(asm.Inst{Op: op, Args: [4]asm.Reg{r, r, asm.Memory}, Mem: at, Imm: i})
		at.Disp += int32(f.size)
	})
}

// readLeft reads a row's element of A, at displacement dispA from the step's elements.
func (t *registerTile) readLeft(m *term, r asm.Reg, rows rowBases, row int, dispA int64) {
	if m.dot != nil {
		t.readGroup(m.dot, m.formA, r, func(i int64) asm.Mem { return rows.at(row, dispA+i*m.dot.step) })
		return
	}
	t.readOne(m.formA, r, rows.at(row, dispA))
}

// addProduct adds the products of two registers' lanes to a sum.
func (t *registerTile) addProduct(m *term, sum, a, b asm.Reg) {
	switch {
	case m.dot != nil && m.dot.size == 2:
		t.wide(asm.VDPBF16PS, sum, a, b)
	case m.dot != nil && m.dot.group == 4:
		if m.dot.unsignedB {
			a, b = b, a
		}
		op := asm.VPDPBUSD
		if !t.isa.masks {
			op = asm.AVXVPDPBUSD
		}
		t.wide(op, sum, a, b)
	case t.ops.multiplyAdd != asm.NoOp:
		t.wide(t.ops.multiplyAdd, sum, a, b)
	default:
		multiply, through := t.ops.mul, asm.V(t.isa.registers-1)
		if m.dot != nil {
			multiply = asm.VPMADDWD
		}
		t.wide(multiply, through, a, b)
		t.wide(t.ops.add, sum, sum, through)
	}
}

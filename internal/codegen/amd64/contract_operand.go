package amd64

import (
	"encoding/binary"
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
)

// operandForm describes how a tile reads elements of a type as lanes of another. Narrower elements are widened to the
// same numbers as they are read; memory stays narrow.
type operandForm struct {
	size int64
	// widens the low elements of a register, or memory, to a full register; NoOp: elements are as large as lanes
	extend asm.Op
	repeat asm.Op // reads one narrow element into every element of a register
	high   bool   // the element is the upper half of its lane
	number asm.Op // converts widened lanes to numbers; NoOp: they are numbers
}

// operandForms are forms by the type of the elements.
type operandForms [math.MaxUint8 + 1]*operandForm

var floatForms = operandForms{
	dtype.F32:  {size: 4},
	dtype.F16:  {size: 2, extend: asm.VCVTPH2PS, repeat: asm.VPBROADCASTW},
	dtype.BF16: {size: 2, extend: asm.VPMOVZXWD, repeat: asm.VPBROADCASTW, high: true},
	dtype.I8:   {size: 1, extend: asm.VPMOVSXBD, repeat: asm.VPBROADCASTB, number: asm.VCVTDQ2PS},
	dtype.U8:   {size: 1, extend: asm.VPMOVZXBD, repeat: asm.VPBROADCASTB, number: asm.VCVTDQ2PS},
}

var integerForms = operandForms{
	dtype.I32: {size: 4},
	dtype.U32: {size: 4},
	dtype.I16: {size: 2, extend: asm.VPMOVSXWD, repeat: asm.VPBROADCASTW},
	dtype.U16: {size: 2, extend: asm.VPMOVZXWD, repeat: asm.VPBROADCASTW},
	dtype.I8:  {size: 1, extend: asm.VPMOVSXBD, repeat: asm.VPBROADCASTB},
	dtype.U8:  {size: 1, extend: asm.VPMOVZXBD, repeat: asm.VPBROADCASTB},
}

// formsOf are the forms by the type of the lanes.
var formsOf = [math.MaxUint8 + 1]*operandForms{dtype.F32: &floatForms, dtype.F64: {dtype.F64: {size: 8}},
	dtype.I32: &integerForms, dtype.U32: &integerForms}

// groupForms are the forms of groups: of two bytes, which become words, and of four bytes.
var groupForms = operandForms{
	dtype.I8: {size: 2, extend: asm.VPMOVSXBW, repeat: asm.VPBROADCASTW},
	dtype.U8: {size: 2, extend: asm.VPMOVZXBW, repeat: asm.VPBROADCASTW},
}
var wholeGroups = &operandForm{size: 4}

// formOf returns the form of elements; nil if there is none.
func formOf(f lanes.Elements) *operandForm {
	switch {
	case f.Group == 0:
		return formsOf[f.As][f.In]
	case f.Size() == 4:
		return wholeGroups
	}
	return groupForms[f.In]
}

// ReadsElements reports whether there is a form of elements.
func (e *machine) ReadsElements(f lanes.Elements) bool { return formOf(f) != nil }

// WritesElements reports whether WriteRun writes elements: integers, and bf16 if there are opmasks.
func (e *machine) WritesElements(f lanes.Elements) bool {
	return f.In.IsInt() || f.In == dtype.BF16 && e.isa.masks
}

// ReadOne reads an element into all lanes.
func (e *machine) ReadOne(t *lanes.RegisterTile, from lanes.Elements, r asm.Reg, at asm.Mem) {
	f, bits := formOf(from), uint16(8*t.Bytes)
	if f.extend == asm.NoOp {
		e.tileFrom(t, sized(t.DType, asm.VBROADCASTSS, asm.VBROADCASTSD), at, r)
		return
	}
	if !f.high { // as many elements as are widened
		bits = max(128, uint16(8*t.Bytes*f.size/t.Size))
	}
	e.Emit(asm.Inst{Op: f.repeat, Bits: bits, Args: [4]asm.Reg{r, asm.Memory}, Mem: at})
	if !f.high {
		e.tileWide(t, f.extend, r, r)
	}
	e.toLanes(t, f, r)
}

// toLanes makes numbers of lanes that were widened.
func (e *machine) toLanes(t *lanes.RegisterTile, f *operandForm, r asm.Reg) {
	if f.high {
		e.shiftedLanes(t, asm.VPSLLD, r, 16)
	}
	if f.number != asm.NoOp {
		e.tileWide(t, f.number, r, r)
	}
}

// shiftedLanes shifts lanes of 32 bits.
func (e *machine) shiftedLanes(t *lanes.RegisterTile, op asm.Op, r asm.Reg, bits int64) {
	e.Emit(asm.Inst{Op: op, Bits: uint16(8 * t.Bytes), Args: [4]asm.Reg{r, r}, Imm: bits})
}

// ReadRun reads a vector of a row; of a part, without touching memory beyond its lanes. r may be the mask's register.
func (e *machine) ReadRun(t *lanes.RegisterTile, from lanes.Elements, r asm.Reg, at asm.Mem, part bool) {
	f, bits := formOf(from), uint16(8*t.Bytes)
	switch {
	case f.extend == asm.NoOp:
		e.loadFull(t, r, at, part)
		return
	case part && e.isa.masks && from.Group > 0: // lanes are two words of these
		e.Emit(asm.Inst{Op: asm.VMOVDQU16, Bits: bits / 2, Args: [4]asm.Reg{r, asm.Memory}, Mem: at, Mask: t.Mask,
			Zero: true})
		e.tileWide(t, f.extend, r, r)
	case part && e.isa.masks:
		e.Emit(asm.Inst{Op: f.extend, Bits: bits, Args: [4]asm.Reg{r, asm.Memory}, Mem: at, Mask: t.Mask, Zero: true})
	case part:
		e.insertLanes(t, f, r, at)
		e.tileWide(t, f.extend, r, r)
	default:
		e.tileFrom(t, f.extend, at, r)
	}
	e.toLanes(t, f, r)
}

// loadFull reads a vector of elements as large as lanes.
func (e *machine) loadFull(t *lanes.RegisterTile, r asm.Reg, at asm.Mem, part bool) {
	in := asm.Inst{Op: tileMove(t), Bits: uint16(8 * t.Bytes), Args: [4]asm.Reg{r, asm.Memory}, Mem: at}
	switch {
	case part && e.isa.masks:
		in.Mask, in.Zero = t.Mask, true
	case part && t.Mask != asm.NoReg:
		in.Op, in.Args = maskMove(t), [4]asm.Reg{r, t.Mask, asm.Memory}
	case part:
		e.loadMask(t, r)
		in.Op, in.Args = maskMove(t), [4]asm.Reg{r, r, asm.Memory}
	}
	e.Emit(in)
}

// tileMove returns the instruction that moves a tile's lanes, and maskMove that moves those of a mask in a vector
// register.
func tileMove(t *lanes.RegisterTile) asm.Op { return sized(t.DType, asm.VMOVUPS, asm.VMOVUPD) }
func maskMove(t *lanes.RegisterTile) asm.Op { return sized(t.DType, asm.VMASKMOVPS, asm.VMASKMOVPD) }

// loadMask puts the mask of the last vector's lanes into a vector register, on machines without opmasks.
func (e *machine) loadMask(t *lanes.RegisterTile, r asm.Reg) {
	if t.Part.Known() {
		e.tileFrom(t, asm.VMOVUPS, e.ones(int(t.Part.Fixed*t.Size), int(t.Bytes)), r)
		return
	}
	var counts []byte
	for i := range uint64(t.Lanes()) {
		counts = append(counts, binary.LittleEndian.AppendUint64(nil, i)[:t.Size]...)
	}
	e.Emit(asm.Inst{Op: sized(t.DType, asm.VMOVD, asm.VMOVQ), Args: [4]asm.Reg{r, t.Part.Register}})
	e.tileWide(t, sized(t.DType, asm.VPBROADCASTD, asm.VPBROADCASTQ), r, r)
	e.tileFrom(t, sized(t.DType, asm.VPCMPGTD, asm.VPCMPGTQ), asm.Mem{Pool: e.Pool.Constant(counts)}, r, r)
}

// insertLanes reads the narrow elements of the last vector's lanes one by one, if there are no opmasks; the others
// become 0.
func (e *machine) insertLanes(t *lanes.RegisterTile, f *operandForm, r asm.Reg, at asm.Mem) {
	op := asm.VPINSRW
	if f.size == 1 {
		op = asm.VPINSRB
	}
	e.Emit(asm.Inst{Op: asm.VPXOR, Bits: 128, Args: [4]asm.Reg{r, r, r}})
	t.EachLane(func(i int64) {
		e.Emit(asm.Inst{Op: op, Args: [4]asm.Reg{r, r, asm.Memory}, Mem: at, Imm: i})
		at.Disp += int32(f.size)
	})
}

// WriteRun writes a vector of a row.
func (e *machine) WriteRun(t *lanes.RegisterTile, to lanes.Elements, at asm.Mem, r asm.Reg, part bool) {
	switch f := formOf(to); {
	case f.extend == asm.NoOp:
		e.storeFull(t, at, r, part)
	case f.high:
		e.storeBF16(t, at, r, part)
	default:
		e.storeIntegers(t, f, at, r, part)
	}
}

// storeFull writes a vector of elements as large as lanes.
func (e *machine) storeFull(t *lanes.RegisterTile, at asm.Mem, r asm.Reg, part bool) {
	in := asm.Inst{Op: tileMove(t), Bits: uint16(8 * t.Bytes), Args: [4]asm.Reg{asm.Memory, r}, Mem: at}
	switch {
	case part && e.isa.masks:
		in.Mask = t.Mask
	case part:
		if t.Mask == asm.NoReg {
			t.Mask = t.Take()
			e.loadMask(t, t.Mask)
		}
		in.Op, in.Args = maskMove(t), [4]asm.Reg{asm.Memory, t.Mask, r}
	}
	e.Emit(in)
}

// storeBF16 writes a vector of f32 as bf16, rounded to nearest, half to even. The instruction for it takes subnormal
// numbers as zeros: if there are some, integers are rounded.
func (e *machine) storeBF16(t *lanes.RegisterTile, at asm.Mem, r asm.Reg, part bool) {
	bits, to, mask := uint16(8*t.Bytes), t.Take(), asm.NoReg
	if part {
		mask = t.Mask
	}
	end := e.Label()
	if e.isa.bf16 > 0 {
		slow := e.Label()
		small := e.maskRegister()
		e.Emit(asm.Inst{Op: asm.VFPCLASSPS, Bits: bits, Args: [4]asm.Reg{small, r}, Imm: subnormal})
		e.Emit(asm.Inst{Op: asm.KORTESTW, Args: [4]asm.Reg{small, small}})
		e.jump(asm.JNE, slow)
		e.tileWide(t, asm.VCVTNEPS2BF16, to, r)
		e.Emit(asm.Inst{Op: asm.VMOVDQU16, Bits: bits / 2, Args: [4]asm.Reg{asm.Memory, to}, Mem: at, Mask: mask})
		e.jump(asm.JMP, end)
		e.Bind(slow)
	}
	nan := e.maskRegister()
	e.compareTile(t, asm.VCMPPS, predicates[mathematics.Unordered], nan, r, r)
	e.tileWide(t, asm.VMOVUPS, to, r)
	e.shiftedLanes(t, asm.VPSRLD, to, 16)
	e.tileOperand(t, asm.VPANDD, e.RepeatedBits(t, 1), to, to)
	e.tileOperand(t, asm.VPADDD, e.RepeatedBits(t, 0x7fff), to, to)
	e.tileWide(t, asm.VPADDD, to, to, r)
	e.Emit(asm.Inst{Op: asm.VPORD, Bits: bits, Args: [4]asm.Reg{to, r, asm.Memory}, Mem: e.RepeatedBits(t, 0x40<<16).At,
		Mask: nan})
	e.shiftedLanes(t, asm.VPSRLD, to, 16)
	e.Emit(asm.Inst{Op: asm.VPMOVDW, Bits: bits, Args: [4]asm.Reg{asm.Memory, to}, Mem: at, Mask: mask})
	e.Bind(end)
	t.Give(to)
}

// subnormal is the class of VFPCLASSPS.
const subnormal = 0x20

// storeIntegers writes a vector of integers as narrow ones of the same values.
func (e *machine) storeIntegers(t *lanes.RegisterTile, f *operandForm, at asm.Mem, r asm.Reg, part bool) {
	if e.isa.masks {
		in := asm.Inst{Op: asm.VPMOVDB, Bits: uint16(8 * t.Bytes), Args: [4]asm.Reg{asm.Memory, r}, Mem: at}
		if f.size == 2 {
			in.Op = asm.VPMOVDW
		}
		if part {
			in.Mask = t.Mask
		}
		e.Emit(in)
		return
	}
	to := e.packed(t, f, r)
	switch {
	case part:
		e.extractLanes(t, f, at, to)
	case f.size == 1:
		e.Emit(asm.Inst{Op: asm.VMOVQ, Args: [4]asm.Reg{asm.Memory, to}, Mem: at})
	default:
		e.Emit(asm.Inst{Op: asm.VMOVUPS, Bits: 128, Args: [4]asm.Reg{asm.Memory, to}, Mem: at})
	}
	t.Give(to)
}

// packed returns a register with a vector's narrow integers in its lowest part.
func (e *machine) packed(t *lanes.RegisterTile, f *operandForm, r asm.Reg) asm.Reg {
	words, bytes := asm.VPACKUSDW, asm.VPACKUSWB
	if f.extend == asm.VPMOVSXBD || f.extend == asm.VPMOVSXWD {
		words, bytes = asm.VPACKSSDW, asm.VPACKSSWB
	}
	to := t.Take()
	narrow := func(op asm.Op, x, y asm.Reg) { e.Emit(asm.Inst{Op: op, Bits: 128, Args: [4]asm.Reg{to, x, y}}) }
	e.Emit(asm.Inst{Op: asm.VEXTRACTI128, Bits: 256, Args: [4]asm.Reg{to, r}, Imm: 1})
	narrow(words, r, to)
	if f.size == 1 {
		narrow(bytes, to, to)
	}
	return to
}

// extractLanes writes the narrow elements of the last vector's lanes one by one.
func (e *machine) extractLanes(t *lanes.RegisterTile, f *operandForm, at asm.Mem, r asm.Reg) {
	op := asm.VPEXTRW
	if f.size == 1 {
		op = asm.VPEXTRB
	}
	t.EachLane(func(i int64) {
		e.Emit(asm.Inst{Op: op, Args: [4]asm.Reg{asm.Memory, r}, Mem: at, Imm: i})
		at.Disp += int32(f.size)
	})
}

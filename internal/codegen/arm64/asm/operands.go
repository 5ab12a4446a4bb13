package asm

import (
	"math"
	"strconv"
	"strings"
)

// This file has the texts of operands, as assemblers read them.

// immediate appends the immediate.
func immediate(b []byte, i *Inst, _ *operand, _ int) []byte {
	return strconv.AppendInt(append(b, '#'), i.Imm, 10)
}

// condition appends the name of the condition.
func condition(b []byte, i *Inst, _ *operand, _ int) []byte { return append(b, i.If.String()...) }

// label appends the name of the label.
func label(b []byte, i *Inst, _ *operand, _ int) []byte {
	return strconv.AppendInt(append(b, 'L'), int64(i.To), 10)
}

// maskText appends a mask in hexadecimal, of the register's width.
func maskText(b []byte, i *Inst, _ *operand, _ int) []byte {
	return strconv.AppendUint(append(b, "#0x"...), uint64(i.Imm)<<(64-i.Shape.Bits())>>(64-i.Shape.Bits()), 16)
}

// wideText appends 16 bits and their place.
func wideText(b []byte, i *Inst, o *operand, at int) []byte {
	b = immediate(b, i, o, at)
	if i.Lane > 0 {
		b = strconv.AppendInt(append(b, ", lsl #"...), 16*int64(i.Lane), 10)
	}
	return b
}

// shiftText appends what is done to the last register.
func shiftText(b []byte, i *Inst, _ *operand, _ int) []byte {
	return strconv.AppendInt(append(b, "lsl #"...), i.Imm, 10)
}

// fieldText appends two immediates.
func fieldText(b []byte, i *Inst, o *operand, at int) []byte {
	return strconv.AppendInt(append(immediate(b, i, o, at), ", #"...), int64(i.Lane), 10)
}

// flagsText appends four flags as a number.
func flagsText(b []byte, i *Inst, _ *operand, _ int) []byte {
	return strconv.AppendInt(append(b, '#'), int64(i.Lane), 10)
}

// constantText appends the constant of a vector: its byte and the place of it, or all bytes.
func constantText(b []byte, i *Inst, _ *operand, _ int) []byte {
	if i.Shape == D || i.Shape == D2 {
		return strconv.AppendUint(append(b, "#0x"...), uint64(i.Imm), 16)
	}
	shift := shiftOf(i.Imm)
	b = strconv.AppendInt(append(b, '#'), i.Imm>>shift, 10)
	if layouts[i.Shape].log > 0 {
		b = strconv.AppendInt(append(b, ", lsl #"...), int64(shift), 10)
	}
	return b
}

// floatText appends a float.
func floatText(b []byte, i *Inst, _ *operand, _ int) []byte {
	b = strconv.AppendFloat(append(b, '#'), math.Float64frombits(uint64(i.Imm)), 'f', -1, 64)
	if i.Imm == 0 {
		b = append(b, ".0"...)
	}
	return b
}

// shaped appends a register of Inst.Shape.
func shaped(b []byte, i *Inst, _ *operand, at int) []byte { return appendReg(b, i.Args[at], i.Shape) }

// asFrom appends a register of Inst.From.
func asFrom(b []byte, i *Inst, _ *operand, at int) []byte { return appendReg(b, i.Args[at], i.From) }

// as returns a text for registers of a shape.
func as(s Shape) func([]byte, *Inst, *operand, int) []byte {
	return func(b []byte, i *Inst, _ *operand, at int) []byte { return appendReg(b, i.Args[at], s) }
}

// other returns a text for registers of a shape that follows from the instruction's.
func other(of func(Shape) Shape) func([]byte, *Inst, *operand, int) []byte {
	return func(b []byte, i *Inst, _ *operand, at int) []byte { return appendReg(b, i.Args[at], of(i.Shape)) }
}

// twoText appends two elements of the shape's size.
func twoText(b []byte, i *Inst, _ *operand, at int) []byte {
	return append(append(appendReg(b, i.Args[at], NoShape), ".2"...), elementName(i.Shape)...)
}

// highText appends the upper half.
func highText(b []byte, i *Inst, _ *operand, at int) []byte {
	return appendElement(b, i.Args[at], "d", 1)
}

// asElement appends a general register as wide as an element.
func asElement(b []byte, i *Inst, _ *operand, at int) []byte {
	if layouts[i.Shape].log == 3 {
		return appendReg(b, i.Args[at], X64)
	}
	return appendReg(b, i.Args[at], W32)
}

// ofElement returns a text for element Lane, of a type; "" is the shape's or Inst.From's.
func ofElement(name string) func([]byte, *Inst, *operand, int) []byte {
	return func(b []byte, i *Inst, o *operand, at int) []byte {
		if name == "" {
			return appendElement(b, i.Args[at], elementName(o.element(i)), int64(i.Lane))
		}
		return appendElement(b, i.Args[at], name, int64(i.Lane))
	}
}

// ofList appends a register of a list of which one element is accessed.
func ofList(b []byte, i *Inst, _ *operand, at int) []byte {
	return append(append(appendReg(b, i.Args[at], NoShape), '.'), elementName(i.Shape)...)
}

// elementName returns the letter of a shape's elements.
func elementName(s Shape) string { return strings.ToLower(layouts[B+Shape(layouts[s].log)].name) }

// appendElement appends one element of a vector register.
func appendElement(b []byte, r Reg, name string, lane int64) []byte {
	b = append(append(append(appendReg(b, r, NoShape), '.'), name...), '[')
	return append(strconv.AppendInt(b, lane, 10), ']')
}

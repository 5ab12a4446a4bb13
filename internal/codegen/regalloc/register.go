// Package regalloc allocates the registers of a routine, for any machine with registers.
//
// A code generator collects a routine's instructions over virtual registers (see Routine). Allocate replaces these by
// registers of the machine. What it must know of the machine and of its instructions is the interface Machine.
package regalloc

import "strconv"

// Class is a kind of register. A machine may have further classes, from Classes on, whose registers its code names
// itself.
type Class uint8

// The classes whose registers are allocated.
const (
	NoClass Class = iota
	General
	Vector
	Mask // of the lanes of a vector
	Classes
)

// Reg is a register of some class: one of the machine's, or a virtual one. The zero value is none.
type Reg uint32

// NoReg is the absence of a register.
const NoReg Reg = 0

// ClassShift is the position of the class in a Reg. The machine's register n of a class is Reg(class)<<ClassShift + n.
const ClassShift = 28

const (
	virtualBit Reg = 1 << 27
	numberMask Reg = virtualBit - 1
)

// Virtual returns the virtual register n of a class.
func Virtual(c Class, n int) Reg { return Reg(c)<<ClassShift | virtualBit | Reg(n) }

// Class returns the register's class.
func (r Reg) Class() Class { return Class(r >> ClassShift) }

// Virtual reports whether the register is virtual.
func (r Reg) Virtual() bool { return r&virtualBit != 0 }

// Number returns the register's number within its class, virtual or not.
func (r Reg) Number() int { return int(r & numberMask) }

// String returns a virtual register's name, such as g3, v12 or p1. A register of the machine has a capital letter here;
// its name is the machine's.
func (r Reg) String() string {
	letters, c := "?gvp", r.Class()
	if !r.Virtual() {
		letters = "?GVP"
	}
	if c >= Classes {
		c = NoClass
	}
	return letters[c:c+1] + strconv.Itoa(r.Number())
}

// Mem is an address: Base + Index·Scale + Disp bytes or, if Pool is not 0, constant Pool−1 of the routine's pool.
type Mem struct {
	Base  Reg // general, or none
	Index Reg // general, or a vector of indices (gathers), or none
	Disp  int32
	Pool  int32
	Scale uint8
}

// Label names a position in a routine.
type Label int32

// Role says what an instruction does to an operand.
type Role uint8

// The roles.
const (
	Read Role = 1 << iota
	Write
	ReadWrite = Read | Write
)

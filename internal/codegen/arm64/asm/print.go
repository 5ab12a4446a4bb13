package asm

import (
	"fmt"
	"strconv"
	"strings"
)

// Name returns the register's name: of the machine's x3, v12, xzr or sp, of virtual ones g3 or u12.
func Name(r Reg) string {
	switch r {
	case NoReg:
		return "none"
	case Memory:
		return "memory"
	}
	return string(appendReg(nil, r, NoShape))
}

// appendReg appends a register's name as an operand of a shape; without a shape a vector is whole.
func appendReg(b []byte, r Reg, s Shape) []byte {
	vector := r.Class() == Vector
	prefix, suffix := byte('x'), ""
	switch {
	case r.Virtual() && vector:
		prefix = 'u'
	case r.Virtual():
		prefix = 'g'
	case vector:
		prefix = 'v'
	case s == W32:
		prefix = 'w'
	}
	if vector && s != NoShape {
		switch name := strings.ToLower(layouts[s].name); {
		case !s.single() || r.Virtual():
			suffix = "." + name
		default:
			prefix = name[0]
		}
	}
	switch r {
	case ZR:
		return append(append(b, prefix), "zr"...)
	case SP:
		if s == W32 {
			return append(b, "wsp"...)
		}
		return append(b, "sp"...)
	}
	return append(strconv.AppendInt(append(b, prefix), int64(r.Number()), 10), suffix...)
}

// String returns the instruction in the syntax of Arm's assemblers.
func (i Inst) String() string {
	switch i.Op {
	case LABEL:
		return fmt.Sprintf("L%d:", i.To)
	case ALIGN:
		return fmt.Sprintf(".p2align to %d", i.Imm)
	}
	f := find(&i)
	if f == nil {
		return i.unknown()
	}
	name, fixed, _ := strings.Cut(strings.ToLower(f.name), "_")
	b := append(make([]byte, 0, 64), name...)
	if f.flags&two != 0 && i.Shape.full() == 1 {
		b = append(b, '2')
	}
	separator := " "
	if fixed != "" {
		b = append(append(b, ' '), fixed...)
	}
	at := 0
	for n := range int(f.count) {
		o := &f.operands[n]
		if i.Op == BRANCHIF && n == 0 {
			separator = "."
		}
		b = append(b, separator...)
		if o.kind.list && o.place != 'L' {
			b = append(b, '{')
		}
		b = o.kind.text(b, &i, o, at)
		if o.kind.list && f.operands[n+1].place != 'L' {
			b = append(b, '}')
			if i.Shape.single() {
				b = append(strconv.AppendInt(append(b, '['), int64(i.Lane), 10), ']')
			}
		}
		if o.kind.class != NoClass {
			at++
		}
		if separator = ", "; i.Op == BRANCHIF {
			separator = " "
		}
	}
	return string(b)
}

// unknown describes an instruction that has no form.
func (i *Inst) unknown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s", i.Op, i.Shape)
	if i.From != NoShape {
		fmt.Fprintf(&b, " from %s", i.From)
	}
	for _, r := range i.Args {
		if r != NoReg {
			fmt.Fprintf(&b, " %s", Name(r))
		}
	}
	if i.Mem != (Mem{}) {
		fmt.Fprintf(&b, " at %+v", i.Mem)
	}
	if i.Imm != 0 || i.Lane != 0 {
		fmt.Fprintf(&b, " immediate %d, lane %d", i.Imm, i.Lane)
	}
	return b.String()
}

// String returns the operation's name in the table, which is the constant's.
func (o Op) String() string { return table.Name(int(o)) }

// String returns the shape's name in the table.
func (s Shape) String() string {
	if s >= shapes {
		return "Shape(" + strconv.Itoa(int(s)) + ")"
	}
	return layouts[s].name
}

// conditionNames are the names of conditions in assemblers' texts.
var conditionNames = [...]string{"eq", "ne", "hs", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le",
	"al"}

// String returns the condition's name.
func (c Condition) String() string {
	if int(c) >= len(conditionNames) {
		return "Condition(" + strconv.Itoa(int(c)) + ")"
	}
	return conditionNames[c]
}

package asm

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/codegen/assembly"
)

// Op is an operation: a mnemonic of Arm's, or one of the two that stand for no instruction, LABEL and ALIGN.
type Op uint16

// Features are the abilities of a machine that instructions need beyond those that every AArch64 has.
type Features uint32

// The features.
const (
	DotProducts Features = 1 << iota // dotprod
	Int8Matrix                       // i8mm
	BFloat16                         // bf16
	Float16                          // fp16: arithmetic of f16; conversions need no feature
)

var featureNames = map[string]Features{"-": 0, "dotprod": DotProducts, "i8mm": Int8Matrix, "bf16": BFloat16,
	"fp16": Float16, "half": 0}

// flags of a form.
type flags uint8

const (
	two   flags = 1 << iota // the mnemonic ends in 2 for vectors of 128 bits
	upper                   // so it does, and the destination's lower half is kept
	half                    // the shapes of f16 need Float16
)

// operand is an operand of a form.
type operand struct {
	kind  *kind
	place byte // D N M A B L I J C @
	role  Role
	size  uint8 // bytes of an access, if the shape does not tell them
	from  bool  // the kind is about Inst.From
}

// form is one way of encoding an operation.
type form struct {
	op        Op
	flags     flags
	count     uint8
	registers uint8 // of the operands, with memory
	operands  [7]operand
	word      uint32
	bits      func(i *Inst) uint32
	signature uint32 // the classes of Args
	shapes    uint32 // what Inst.Shape may be, as bits
	from      uint32 // what Inst.From may be
	features  Features
	name      string // what assemblers call it, in capitals
}

//go:embed forms.txt
var text string

// table has the forms of each operation.
var table = assembly.NewTable(text, offsets[:], func(forms []form, op int, fields []string) []form {
	return append(forms, row(Op(op), fields))
})

// row reads the columns of one line.
func row(o Op, fields []string) form {
	word, err := strconv.ParseUint(fields[1], 16, 32)
	if err != nil {
		panic(fmt.Sprintf("asm: the table of forms: %v", err))
	}
	f := form{op: o, word: uint32(word), name: fields[0]}
	var ok bool
	if f.bits, ok = shapeBits[fields[2]]; !ok {
		panic("asm: the table of forms has " + fields[2])
	}
	f.readOperands(fields[3], fields[4])
	shape, from, _ := strings.Cut(fields[5], "<")
	f.shapes, f.from = readShapes(shape), readShapes(from)
	if f.features, ok = featureNames[fields[6]]; !ok {
		panic("asm: the table of forms has " + fields[6])
	}
	if fields[6] == "half" {
		f.flags |= half
	}
	for _, word := range fields[7:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "two":
			f.flags |= two
		case "upper":
			f.flags |= two | upper
		case "as":
			f.name = value
		default:
			panic("asm: the table of forms has " + word)
		}
	}
	return f
}

// readOperands reads the columns of places and operands.
func (f *form) readOperands(places, operands string) {
	if operands == "-" {
		return
	}
	for n, word := range strings.Split(operands, ",") {
		o := operand{place: places[n], role: Read}
		switch word[0] {
		case '=':
			o.role, word = Write, word[1:]
		case '+':
			o.role, word = ReadWrite, word[1:]
		}
		name, about, _ := strings.Cut(word, "/")
		if o.kind = kinds[name]; o.kind == nil {
			panic("asm: the table of forms has " + word)
		}
		switch about {
		case "from":
			o.from = true
		case "1", "2", "4", "8":
			o.size = about[0] - '0'
		}
		if o.kind.class != NoClass {
			f.signature |= uint32(o.kind.class) << (4 * f.registers)
			f.registers++
		}
		f.operands[n] = o
		f.count++
	}
}

// shapeSets are the names of several shapes in the table.
var shapeSets = map[string]uint32{
	"": 0, "-": 0, "r": bit(W32) | bit(X64), "b": bit(B8) | bit(B16), "h": bit(H4) | bit(H8), "s": bit(S2) | bit(S4),
	"f": bit(S2) | bit(S4) | bit(D2), "bh": bit(B8) | bit(B16) | bit(H4) | bit(H8),
	"hs": bit(H4) | bit(H8) | bit(S2) | bit(S4), "bhs": bit(D1) - bit(B8), "all": bit(D1) - bit(B8) | bit(D2),
}

// bit returns a set with one shape.
func bit(s Shape) uint32 { return 1 << s }

// readShapes reads a set of shapes; 0 is none.
func readShapes(text string) (set uint32) {
	for word := range strings.SplitSeq(text, ",") {
		some, ok := shapeSets[word]
		for s := W32; s < shapes && !ok; s++ {
			if layouts[s].name == word {
				some, ok = bit(s), true
			}
		}
		if !ok {
			panic("asm: the table of forms has the shape " + word)
		}
		set |= some
	}
	return set
}

// find returns the first form that the instruction has, nil if none. Virtual registers fit any form of their class.
func find(i *Inst) *form {
	var signature uint32
	for n, r := range i.Args {
		signature |= uint32(r>>classShift) << (4 * n)
	}
	rows := table.Forms(int(i.Op))
	for n := range rows {
		f := &rows[n]
		if signature == f.signature && contains(f.shapes, i.Shape) && contains(f.from, i.From) && f.fits(i) {
			return f
		}
	}
	return nil
}

// contains reports whether a set has a shape; the empty set has NoShape only.
func contains(set uint32, s Shape) bool {
	if set == 0 {
		return s == NoShape
	}
	return s < shapes && set&bit(s) != 0
}

// fits reports whether the operands are those of the form: their registers, immediates and addresses.
func (f *form) fits(i *Inst) bool {
	at := 0
	for n := range int(f.count) {
		o := &f.operands[n]
		if o.kind.fits != nil && !o.kind.fits(f, i, o, at) {
			return false
		}
		if o.kind.class != NoClass {
			at++
		}
	}
	return true
}

// needs returns the features that the form needs.
func (f *form) needs(i *Inst) Features {
	if f.flags&half != 0 && (i.Shape == H || i.From == H) {
		return f.features | Float16
	}
	return f.features
}

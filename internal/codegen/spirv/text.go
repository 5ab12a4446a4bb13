package spirv

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/target"
)

// Text prints a module in the language of Khronos's tools: one instruction a line, with numbers for ids. spirv-as reads
// the text of a module of this package back to the same words. Unknown words are printed as numbers after an
// exclamation mark.
func Text(words []uint32) string {
	var out strings.Builder
	if len(words) < 5 {
		for _, w := range words {
			fmt.Fprintf(&out, "!%d\n", w)
		}
		return out.String()
	}
	fmt.Fprintf(&out, "; SPIR-V\n; version %d.%d\n; bound %d\n", words[1]>>16&255, words[1]>>8&255, words[3])
	t := printer{floats: map[uint32]uint32{}, ints: map[uint32]uint32{}}
	for rest := words[5:]; len(rest) > 0; {
		count := int(rest[0] >> 16)
		if count == 0 || count > len(rest) {
			count = len(rest)
		}
		out.WriteString(t.line(rest[:count]))
		out.WriteByte('\n')
		rest = rest[count:]
	}
	return out.String()
}

// Texts prints the kernels that run on a device, each after its name.
func Texts(kernels []target.Kernel) string {
	var out strings.Builder
	for _, k := range kernels {
		if b, ok := k.(target.Blocks); ok {
			fmt.Fprintf(&out, "; kernel @%s\n%s\n", k.Name(), Text(b.Binary().Words))
		}
	}
	return out.String()
}

// printer holds the widths of the types that it has printed, by id.
type printer struct{ floats, ints map[uint32]uint32 }

// line returns one instruction as a line.
func (t *printer) line(words []uint32) string {
	if int(words[0]>>16) == len(words) {
		if l, ok := layouts[opcode(words[0])]; ok {
			if s, ok := t.instruction(l, words); ok {
				return s
			}
		}
	}
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = "!" + strconv.FormatUint(uint64(w), 10)
	}
	return strings.Join(list, " ")
}

// instruction returns an instruction as text; false if its operands do not have the layout.
func (t *printer) instruction(l layout, words []uint32) (string, bool) {
	result, operands := "", ""
	rest, typ := words[1:], uint32(0)
	for at := 0; at < len(l.operands); {
		letter := l.operands[at]
		kind := ""
		if at++; letter == '<' {
			end := at + strings.IndexByte(l.operands[at:], '>')
			kind, at = l.operands[at:end], end+1
		}
		times := byte('1')
		if at < len(l.operands) && (l.operands[at] == '?' || l.operands[at] == '*') {
			times = l.operands[at]
			at++
		}
		for n := 0; len(rest) > 0 && (n == 0 || times == '*'); n++ {
			text, used := t.operand(letter, kind, typ, rest)
			if used == 0 {
				return "", false
			}
			switch letter {
			case 'r':
				result = text + " = "
			case 't':
				typ = rest[0]
				fallthrough
			default:
				operands += " " + text
			}
			rest = rest[used:]
		}
	}
	switch opcode(words[0]) {
	case opDecorate, opMemberDecorate, opExecutionMode, opLoad, opStore, opLoopMerge: // an enumerant's own operands
		for _, w := range rest {
			operands += " " + decoration(words, w)
		}
		rest = nil
	case opTypeInt, opTypeFloat:
		if len(words) > 2 {
			t.note(opcode(words[0]), words[1], words[2])
		}
	}
	return result + l.name + operands, len(rest) == 0
}

// note records the width of a type.
func (t *printer) note(op opcode, typ, width uint32) {
	if op == opTypeInt {
		t.ints[typ] = width
	} else {
		t.floats[typ] = width
	}
}

// decoration returns an enumerant's own operand as text: a name for BuiltIn, or else a number.
func decoration(words []uint32, w uint32) string {
	if opcode(words[0]) == opDecorate && len(words) == 4 && words[2] == decorationBuiltIn {
		if name, ok := enumerants["BuiltIn"][w]; ok {
			return name
		}
	}
	return strconv.FormatUint(uint64(w), 10)
}

// operand returns the operand at the beginning of words as text, and the number of its words; 0 if it is malformed.
func (t *printer) operand(letter byte, kind string, typ uint32, words []uint32) (text string, used int) {
	switch letter {
	case 't', 'r', 'i':
		return "%" + strconv.FormatUint(uint64(words[0]), 10), 1
	case 'x':
		name, ok := glslNames[words[0]]
		if !ok {
			return "", 0
		}
		return name, 1
	case 'n':
		return strconv.FormatUint(uint64(words[0]), 10), 1
	case 's':
		return str(words)
	case 'c':
		return t.number(typ, words)
	}
	name, ok := enumerants[kind][words[0]]
	if !ok && (kind == "MemoryAccess" || kind == "CooperativeMatrixOperands") {
		name, ok = flags(enumerants[kind], words[0])
	}
	if !ok {
		return "", 0
	}
	return name, 1
}

// flags returns the names of the bits of a word, the lowest first; false if one has no name.
func flags(names map[uint32]string, word uint32) (text string, ok bool) {
	var list []string
	for ; word != 0; word &= word - 1 {
		name, ok := names[word&-word]
		if !ok {
			return "", false
		}
		list = append(list, name)
	}
	return strings.Join(list, "|"), true
}

// str returns the string at the beginning of words, quoted, and the number of its words; 0 if it has no end, or
// characters that are not printable ASCII or would need an escape.
func str(words []uint32) (text string, used int) {
	var b []byte
	for i, w := range words {
		for shift := 0; shift < 32; shift += 8 {
			c := byte(w >> shift)
			if c == 0 {
				if w>>shift != 0 { // the bytes after the end must be zero
					return "", 0
				}
				return `"` + string(b) + `"`, i + 1
			}
			if c < ' ' || c > '~' || c == '"' || c == '\\' {
				return "", 0
			}
			b = append(b, c)
		}
	}
	return "", 0
}

// number returns a constant of a type as text. Floats are hexadecimal, which loses no bit.
func (t *printer) number(typ uint32, words []uint32) (text string, used int) {
	if width, ok := t.ints[typ]; ok {
		switch {
		case width == 64 && len(words) == 2:
			return strconv.FormatUint(uint64(words[1])<<32|uint64(words[0]), 10), 2
		case width == 32:
			return strconv.FormatUint(uint64(words[0]), 10), 1
		}
		return "", 0
	}
	switch width := t.floats[typ]; {
	case width == 32:
		if exponent := words[0] >> 23 & 0xff; exponent == 0xff {
			return special(words[0]>>31 != 0, uint64(words[0])<<29, 128), 1
		}
		return strconv.FormatFloat(float64(math.Float32frombits(words[0])), 'x', -1, 32), 1
	case width == 64 && len(words) == 2:
		x := uint64(words[1])<<32 | uint64(words[0])
		if x>>52&0x7ff == 0x7ff {
			return special(x>>63 != 0, x, 1024), 2
		}
		return strconv.FormatFloat(math.Float64frombits(x), 'x', -1, 64), 2
	}
	return "", 0
}

// special returns an infinity or a NaN as text, with the exponent after the greatest one: significand has 52 bits, 0
// for infinity.
func special(negative bool, significand uint64, exponent int) string {
	sign, digits := "", strings.TrimRight(fmt.Sprintf("%013x", significand&(1<<52-1)), "0")
	if negative {
		sign = "-"
	}
	if digits != "" {
		digits = "." + digits
	}
	return fmt.Sprintf("%s0x1%sp+%d", sign, digits, exponent)
}

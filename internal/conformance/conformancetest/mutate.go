package conformancetest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
)

// Mutable is an artefact whose texts can be changed, as in a hostile file that is otherwise well formed. It knows the
// file's sections and checksums, and not the meaning of the texts.
type Mutable struct {
	magic   []byte // the version of the format included
	texts   [3]string
	words   [3]Words // of the texts, by index
	weights []byte
}

// The indices of an artefact's texts.
const (
	ManifestText = iota
	LoopText
	ProgramText
)

const (
	mutableHeader = 64
	mutableAlign  = 64
)

// ParseMutable splits an artefact into its sections.
func ParseMutable(file []byte) (*Mutable, error) {
	m := &Mutable{}
	if len(file) < mutableHeader {
		return nil, diag.Inputf("an artefact of %d bytes", len(file))
	}
	m.magic = slices.Clone(file[:12])
	at := int64(mutableHeader)
	for i := range 4 {
		size := int64(binary.LittleEndian.Uint64(file[16+8*i:]))
		if i == 3 {
			at = (at + mutableAlign - 1) / mutableAlign * mutableAlign
		}
		if at+size > int64(len(file)) {
			return nil, diag.Inputf("part %d of the artefact ends behind it", i)
		}
		if i < 3 {
			m.texts[i] = string(file[at : at+size])
			m.words[i] = WordsOf(m.texts[i])
		} else {
			m.weights = file[at : at+size]
		}
		at += size
	}
	return m, nil
}

// Text returns one of the texts.
func (m *Mutable) Text(part int) string { return m.texts[part] }

// Words returns the tokens of one of the texts.
func (m *Mutable) Words(part int) Words { return m.words[part] }

// With returns the artefact with one text replaced, and with the right sizes and checksum.
func (m *Mutable) With(part int, text string) []byte {
	texts := m.texts
	texts[part] = text
	file := append(make([]byte, 0, mutableHeader), m.magic...)
	sum, table := uint32(0), crc32.MakeTable(crc32.Castagnoli)
	for _, t := range texts {
		sum = crc32.Update(sum, table, []byte(t))
	}
	file = binary.LittleEndian.AppendUint32(file, sum)
	for _, t := range texts {
		file = binary.LittleEndian.AppendUint64(file, uint64(len(t)))
	}
	file = binary.LittleEndian.AppendUint64(file, uint64(len(m.weights)))
	file = append(file, make([]byte, mutableHeader-len(file))...)
	for _, t := range texts {
		file = append(file, t...)
	}
	file = append(file, make([]byte, -len(file)&(mutableAlign-1))...)
	return append(file, m.weights...)
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// Harmful returns the integers by which an attack replaces one: its neighbours, its negative, and numbers near powers
// of two at which integers overflow or are truncated.
func Harmful(was int64) []int64 {
	list := []int64{0, 1, -1, 2, was - 1, was + 1, -was, 2 * was, 4096 * was}
	for _, bits := range []int{31, 32, 47, 60, 61, 62} {
		p := int64(1) << bits
		list = append(list, p-1, p, p+1, -p, p/max(1, min(was, 1<<20))+1)
	}
	return append(list, math.MaxInt64, math.MaxInt64-1, math.MinInt64, math.MinInt64+1)
}

// token matches a token of a text: a name, an integer, a quoted word, a sign, or the end of a line.
var token = regexp.MustCompile(
	`"(?:\\.|[^"\\\n])*"|[%@&$?#]?[A-Za-z_][A-Za-z0-9_.#]*|[0-9]+|->|//|<=|==|\n|[^\sA-Za-z0-9]|[ \t]+`)

// oddTokens replace others: names of each of the compiler's own namespaces, words of the texts, signs and numbers.
var oddTokens = []string{"$i", "$i_1", "$c", "&arena", "&arena.2", "?d0", "?n", "%x", "%x_1", "%y", "%acc", "@main",
	"#", "n", "batch",
	"each", "for", "parallel", "vector", "check", "guard", "when", "local", "var", "let", "store", "read", "write",
	"update", "work",
	"where", "min", "max", "ceildiv", "load", "select", "cast", "index", "add", "mul", "lt", "ge", "f32", "f64", "i64",
	"i8", "u8", "bool", "f16",
	"launch", "carve", "release", "copy", "loop", "if", "bind", "view", "arena", "+", "-", "*", "//", "%", "(", ")", "[",
	"]", "{", "}", ",",
	"0", "1", "-1", "4611686018427387904", "9223372036854775807"}

// Words are the tokens of a text.
type Words []string

// WordsOf splits a text into tokens.
func WordsOf(text string) Words { return token.FindAllString(text, -1) }

// Mutate returns the text with one to three random changes, and a description of them: an integer becomes a harmful
// one, or another of the text's; a token or a line is left out, doubled, swapped with another, or replaced.
func (w Words) Mutate(r *rand.Rand) (mutated, what string) {
	list := slices.Clone([]string(w))
	for range 1 + max(0, r.Intn(6)-3) {
		at := r.Intn(len(list))
		if len(list) < 8 {
			break
		}
		switch n := r.Intn(10); {
		case n < 5: // the next integer
			for range len(list) {
				if c := list[at][0]; c >= '0' && c <= '9' {
					break
				}
				at = (at + 1) % len(list)
			}
			was, err := strconv.ParseInt(list[at], 10, 64)
			if err != nil {
				continue
			}
			harmful := Harmful(was)
			v := harmful[r.Intn(len(harmful))]
			word := strconv.FormatInt(v, 10)
			if v < 0 {
				word = "(" + word + ")"
			}
			what += fmt.Sprintf("token %d, %s, becomes %s; ", at, list[at], word)
			list[at] = word
		case n < 7: // a token of the same kind
			from := r.Intn(len(list))
			for range len(list) {
				if kindOf(list[from]) == kindOf(list[at]) && list[from] != list[at] {
					break
				}
				from = (from + 1) % len(list)
			}
			what += fmt.Sprintf("token %d, %s, becomes token %d, %s; ", at, list[at], from, list[from])
			list[at] = list[from]
		case n == 7:
			word := oddTokens[r.Intn(len(oddTokens))]
			what += fmt.Sprintf("token %d, %s, becomes %s; ", at, list[at], word)
			list[at] = word
		default: // whole lines
			begin, end := line(list, at)
			other, last := line(list, r.Intn(len(list)))
			what += fmt.Sprintf("tokens %d to %d ", begin, end)
			moved := slices.Clone(list[begin:end])
			switch r.Intn(3) {
			case 0:
				what += "are left out; "
				list = slices.Delete(list, begin, end)
			case 1:
				what += fmt.Sprintf("stand before token %d, too; ", other)
				list = slices.Insert(list, other, moved...)
			default:
				what += fmt.Sprintf("become tokens %d to %d; ", other, last)
				list = slices.Replace(list, begin, end, slices.Clone(list[other:last])...)
			}
		}
		if len(list) == 0 {
			break
		}
	}
	return strings.Join(list, ""), what
}

// kindOf returns the kind of a token by its first character: a mark, a letter, a digit, or the character itself.
func kindOf(word string) byte {
	switch c := word[0]; {
	case letter(c) || c == '_':
		return 'a'
	case c >= '0' && c <= '9':
		return '0'
	default:
		return c
	}
}

// line returns the range of tokens of the line that token at belongs to, its end included.
func line(list []string, at int) (begin, end int) {
	for begin = at; begin > 0 && list[begin-1] != "\n"; begin-- {
	}
	for end = at; end < len(list) && list[end] != "\n"; end++ {
	}
	return begin, min(end+1, len(list))
}

// Mutant returns the artefact with one of its texts mutated, and a description.
func (m *Mutable) Mutant(r *rand.Rand) (what string, file []byte) {
	part := []int{LoopText, LoopText, ProgramText}[r.Intn(3)]
	text, what := m.words[part].Mutate(r)
	return [...]string{"manifest", "loops", "program"}[part] + ": " + what, m.With(part, text)
}

package conformance

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
)

// Mutable is an artefact whose texts can be changed: what a hostile file is, that is well formed but for one thing. It knows the file's parts and checksums, not what the texts mean.
type Mutable struct {
	magic   []byte // with the format's version
	texts   [3]string
	weights []byte
}

// The texts of an artefact.
const (
	ManifestText = iota
	LoopText
	ProgramText
)

const (
	mutableHeader = 64
	mutableAlign  = 64
)

// ParseMutable takes an artefact apart.
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
		} else {
			m.weights = file[at : at+size]
		}
		at += size
	}
	return m, nil
}

// Text is one of the texts.
func (m *Mutable) Text(part int) string { return m.texts[part] }

// With is the artefact with another text in the place of one, its sizes and checksum set right.
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

// Number is a decimal integer of a text.
type Number struct{ Begin, End int }

// Numbers finds the integers of a text, those in names and quoted words left out.
func Numbers(text string) (list []Number) {
	quoted := false
	for at := 0; at < len(text); at++ {
		c := text[at]
		switch {
		case c == '\\' && quoted:
			at++
		case c == '"':
			quoted = !quoted
		case c >= '0' && c <= '9' && !quoted:
			end := at
			for end < len(text) && text[end] >= '0' && text[end] <= '9' {
				end++
			}
			if at == 0 || !strings.ContainsRune("._#@%$", rune(text[at-1])) && !letter(text[at-1]) {
				list = append(list, Number{at, end})
			}
			at = end - 1
		}
	}
	return list
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// Replace is the text with another integer in the place of one, in parentheses where it is below 0.
func (n Number) Replace(text string, v int64) string {
	word := strconv.FormatInt(v, 10)
	if v < 0 {
		word = "(" + word + ")"
	}
	return text[:n.Begin] + word + text[n.End:]
}

// Harmful are the integers that an attack puts in the place of one: its neighbours, its negative, and what is near a power of two at which something wraps or is cut off.
func Harmful(was int64) []int64 {
	list := []int64{0, 1, -1, 2, was - 1, was + 1, -was, 2 * was, 4096 * was}
	for _, bits := range []int{31, 32, 47, 60, 61, 62} {
		p := int64(1) << bits
		list = append(list, p-1, p, p+1, -p, p/max(1, min(was, 1<<20))+1)
	}
	return append(list, math.MaxInt64, math.MaxInt64-1, math.MinInt64, math.MinInt64+1)
}

// Mutations calls visit for each artefact that differs from m in one integer of its loops or its program, or in that integer wherever it stands, and says what was changed, until visit
// answers false. One of so many is built, with other ones for another seed.
func (m *Mutable) Mutations(of, seed int, visit func(what string, file []byte) bool) {
	count := seed
	for _, part := range []int{LoopText, ProgramText} {
		text := m.texts[part]
		for _, n := range Numbers(text) {
			was, err := strconv.ParseInt(text[n.Begin:n.End], 10, 64)
			if err != nil {
				continue
			}
			for _, v := range Harmful(was) {
				if count++; v == was || count%of != 0 {
					continue
				}
				line := 1 + strings.Count(text[:n.Begin], "\n")
				what := [...]string{"manifest", "loops", "program"}[part] + ", line " + strconv.Itoa(line) + ", " + text[n.Begin:n.End] + " becomes " + strconv.FormatInt(v, 10)
				if !visit(what, m.With(part, n.Replace(text, v))) {
					return
				}
			}
		}
	}
}

package tokenizer

import (
	"sync"
	"unicode/utf8"
)

// The classes of characters. A class is a bit of characters' entries in the table.
const (
	classNumber      = iota // Nd, Nl, No
	classSpace              // White_Space
	classWord               // \w
	classPunctuation        // P, and ASCII's symbols
	classControl            // Cc, Cf and Co, except \t \n \r
	classMark               // M
	classAccent             // Mn
	classComposed           // has a decomposition or a combining class
	classCount
)

// classTable has a byte of bits for each character, in blocks of 256 characters, of which equal ones are stored once.
type classTable struct {
	block [(utf8.MaxRune + 1) >> 8]uint8
	bits  [][256]uint8
}

// classes returns the table of classes, which the first call builds.
var classes = sync.OnceValue(func() *classTable {
	t := &classTable{}
	var seen = map[[256]uint8]uint8{}
	var next [classCount]int
	for b := range t.block {
		var bits [256]uint8
		first, last := int32(b)<<8, int32(b)<<8+255
		for c, ranges := range classRanges {
			for next[c] < len(ranges) && ranges[next[c]] <= last {
				begin, end := max(ranges[next[c]], first), min(ranges[next[c]+1], last)
				for r := begin; r <= end; r++ {
					bits[r&255] |= 1 << c
				}
				if ranges[next[c]+1] > last {
					break
				}
				next[c] += 2
			}
		}
		at, ok := seen[bits]
		if !ok {
			at = uint8(len(t.bits))
			seen[bits] = at
			t.bits = append(t.bits, bits)
		}
		t.block[b] = at
	}
	return t
})

// of returns the classes of a character as bits.
func (t *classTable) of(r rune) uint8 { return t.bits[t.block[uint32(r)>>8]][r&255] }

// is reports whether a character is in a class.
func (t *classTable) is(r rune, class int) bool { return t.of(r)&(1<<class) != 0 }

// lowerTable maps characters to their lower case, if it is another single character.
var lowerTable = sync.OnceValue(func() map[rune]rune {
	m := make(map[rune]rune, 1500)
	for _, l := range lowerRanges {
		for r := l[0]; r <= l[1]; r += l[3] {
			m[r] = r + l[2]
		}
	}
	return m
})

// lower returns the lower case of a character. Of U+0130, which has two characters, it is the first.
func lower(r rune, table map[rune]rune) rune {
	if r < 0x80 {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	if r == 0x130 {
		return 'i'
	}
	if l, ok := table[r]; ok {
		return l
	}
	return r
}

// isChinese reports whether BERT treats a character as a word of its own.
func isChinese(r rune) bool {
	return r >= 0x3400 && (r <= 0x4DBF || 0x4E00 <= r && r <= 0x9FFF || 0xF900 <= r && r <= 0xFAFF ||
		0x20000 <= r && r <= 0x2A6DF || 0x2A700 <= r && r <= 0x2B81F || 0x2B920 <= r && r <= 0x2CEAF ||
		0x2F800 <= r && r <= 0x2FA1F)
}

package charsmap

import (
	_ "embed"
	"encoding/binary"
	"sync"
	"unicode/utf8"
)

// graphemeData is the file that testdata/tables.py writes.
//
//go:embed graphemes.bin
var graphemeData string

// The classes of characters by which grapheme clusters are bounded, in the order of testdata/tables.py, and their bits.
const (
	classAny = iota
	classCR
	classLF
	classControl
	classExtend
	classZWJ
	classSpacingMark
	classPrepend
	classL
	classV
	classT
	classLV
	classLVT
	classRegional
	classPictographic
	classConsonant
	bitLinker  = 16
	bitBetween = 32
	classOnly  = 15
)

// graphemeTable is the classes of all characters, in pages of 256.
type graphemeTable struct {
	pages [(utf8.MaxRune + 1) / 256]uint8
	table [][256]uint8
}

func (t *graphemeTable) class(r rune) uint8 { return t.table[t.pages[r>>8]][r&0xff] }

var graphemes = sync.OnceValue(func() *graphemeTable {
	rest := []byte(graphemeData)
	number := func() int {
		n, size := binary.Uvarint(rest)
		rest = rest[size:]
		return int(n)
	}
	all := make([]uint8, utf8.MaxRune+1)
	for at := 0; len(rest) > 0; {
		begin := at + number()
		at = begin + number()
		class := uint8(number())
		for c := begin; c < at; c++ {
			all[c] = class
		}
	}
	t := &graphemeTable{}
	known := map[[256]uint8]uint8{}
	for p := range t.pages {
		page := [256]uint8(all[p*256:])
		index, ok := known[page]
		if !ok {
			index = uint8(len(t.table))
			known[page] = index
			t.table = append(t.table, page)
		}
		t.pages[p] = index
	}
	return t
})

// joins reports whether no boundary lies between two characters by their classes alone; other says that it depends on
// what is before them.
func joins(before, after uint8) (joined, other bool) {
	switch {
	case before == classCR && after == classLF:
		return true, false
	case before == classControl, before == classCR, before == classLF,
		after == classControl, after == classCR, after == classLF:
		return false, false
	case before == classL:
		if after == classL || after == classV || after == classLV || after == classLVT {
			return true, false
		}
	case before == classLV || before == classV:
		if after == classV || after == classT {
			return true, false
		}
	case before == classLVT || before == classT:
		if after == classT {
			return true, false
		}
	}
	if after == classExtend || after == classZWJ || after == classSpacingMark || before == classPrepend {
		return true, false
	}
	return false, after == classConsonant || before == classZWJ && after == classPictographic ||
		before == classRegional && after == classRegional
}

// Grapheme returns the number of bytes of the extended grapheme cluster at the beginning of s, which must be the
// beginning of a cluster of a text. A byte that is not UTF-8 is U+FFFD.
func Grapheme(s string) int {
	if len(s) < 2 || s[0] < utf8.RuneSelf && s[1] < utf8.RuneSelf && s[0] != '\r' {
		return min(len(s), 1)
	}
	t := graphemes()
	r, at := utf8.DecodeRuneInString(s)
	full := t.class(r)
	regional := 1                                       // indicators in a row; joins asks only between two of them
	pictographic := full&classOnly == classPictographic // a pictograph, then only extenders
	consonant := full&classOnly == classConsonant       // a consonant, then only what may stand between
	linked := false
	for at < len(s) {
		before := full & classOnly
		r, size := utf8.DecodeRuneInString(s[at:])
		full = t.class(r)
		after := full & classOnly
		joined, other := joins(before, after)
		if other {
			switch {
			case after == classConsonant:
				joined = consonant && linked
			case after == classPictographic:
				joined = pictographic
			default:
				joined = regional%2 == 1
			}
		}
		if !joined {
			return at
		}
		at += size
		if after == classRegional {
			regional++
		}
		switch {
		case after == classPictographic:
			pictographic = true
		case after != classExtend && after != classZWJ:
			pictographic = false
		}
		switch {
		case after == classConsonant:
			consonant, linked = true, false
		case full&bitLinker != 0:
			linked = true
		case full&bitBetween == 0:
			consonant, linked = false, false
		}
		if after != classRegional {
			regional = 0
		}
	}
	return at
}

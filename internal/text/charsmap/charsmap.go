// Package charsmap reads the precompiled_charsmap of SentencePiece's normalisation: a trie of what is replaced, and the
// replacements. Hugging Face's tokenizers and SentencePiece itself apply it differently; the package has both ways.
package charsmap

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/weirml/weir/internal/diag"
)

// Map is a charsmap. Goroutines may share it. It keeps the bytes that it was parsed from.
type Map struct {
	units        []uint32 // a double array, as Darts-clone writes it
	replacements string   // each ends in a zero byte
}

// The greatest lengths, in bytes, of what is replaced and of replacements.
const (
	maxKey         = 1 << 10
	maxReplacement = 1 << 12
)

func fault(format string, args ...any) error {
	return &diag.Error{Kind: diag.ErrInput, Op: "precompiled_charsmap", Detail: fmt.Sprintf(format, args...)}
}

// Parse returns the map that data holds. Its error is an ErrInput if a lookup could leave the tables or not end. The
// map occupies the size of data, once more.
func Parse(data []byte) (*Map, error) {
	if len(data) < 4 {
		return nil, fault("%d bytes are too few", len(data))
	}
	size := int64(binary.LittleEndian.Uint32(data))
	if size > int64(len(data)-4) {
		return nil, fault("a trie of %d bytes does not fit into %d", size, len(data)-4)
	}
	rest := data[4+size/4*4:]
	if !utf8.Valid(rest) {
		return nil, fault("the replacements are not UTF-8")
	}
	m := &Map{units: make([]uint32, size/4), replacements: string(rest)}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(data[4+4*i:])
	}
	if len(m.units) == 0 {
		return nil, fault("the trie is empty")
	}
	return m, m.check()
}

func offset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// label is the byte that leads to a unit; a unit that holds a value has none below 256.
func label(unit uint32) uint32 { return unit & (1<<31 | 0xff) }

func leaf(unit uint32) bool { return unit>>8&1 != 0 }

// check walks the trie and returns an error if a path leaves the array, ends at a value that is no replacement or too
// long a one, or is longer than maxKey, as it is if it leads to itself.
func (m *Map) check() error {
	const open, done = 1, 2
	state := make([]uint8, (len(m.units)+255)/256*256) // by base: open on the path, done after it
	type step struct {
		base uint32
		next uint32 // the next byte to try
	}
	var path []step
	enter := func(base uint32) error {
		if int64(base|0xff) >= int64(len(m.units)) {
			return fault("the trie leads out of itself")
		}
		if state[base] == open || len(path) > maxKey {
			return fault("the trie leads to itself, or has keys of more than %d bytes", maxKey)
		}
		if state[base] != done {
			state[base] = open
			path = append(path, step{base, 1})
		}
		return nil
	}
	if err := enter(offset(m.units[0])); err != nil {
		return err
	}
	for len(path) > 0 {
		top := &path[len(path)-1]
		c := top.next
		if top.next++; c == 256 {
			state[top.base] = done
			path = path[:len(path)-1]
			continue
		}
		unit := m.units[top.base^c]
		if label(unit) != c {
			continue
		}
		child := top.base ^ c ^ offset(unit)
		if err := enter(child); err != nil {
			return err
		}
		if leaf(unit) {
			value := int(m.units[child] & math.MaxInt32)
			if value > len(m.replacements) || value < len(m.replacements) && !utf8.RuneStart(m.replacements[value]) {
				return fault("a value of the trie is the place of no replacement")
			}
			if with := m.replacements[value:]; len(with) > maxReplacement && strings.IndexByte(with[:maxReplacement], 0) < 0 {
				return fault("a replacement has more than %d bytes", maxReplacement)
			}
		}
	}
	return nil
}

// value returns the replacement at an index.
func (m *Map) value(index uint32) string {
	s, _, _ := strings.Cut(m.replacements[index&math.MaxInt32:], "\x00")
	return s
}

// Shortest returns the replacement of the shortest key with which s begins. A zero byte ends s.
func (m *Map) Shortest(s string) (replacement string, ok bool) {
	at := offset(m.units[0])
	for i := 0; i < len(s) && s[i] != 0; i++ {
		at ^= uint32(s[i])
		unit := m.units[at]
		if label(unit) != uint32(s[i]) {
			break
		}
		at ^= offset(unit)
		if leaf(unit) {
			return m.value(m.units[at]), true
		}
	}
	return "", false
}

// Begins reports whether a key begins with s, which has no zero bytes.
func (m *Map) Begins(s string) bool {
	at := offset(m.units[0])
	for i := 0; i < len(s); i++ {
		at ^= uint32(s[i])
		if label(m.units[at]) != uint32(s[i]) {
			return false
		}
		at ^= offset(m.units[at])
	}
	return true
}

// Longest returns the replacement of the longest key with which s begins, and the key's length in bytes; 0 if there is
// none. It considers the 32 shortest keys, as SentencePiece does.
func (m *Map) Longest(s string) (replacement string, length int) {
	at := offset(m.units[0])
	index := uint32(0)
	for i, found := 0, 0; i < len(s) && found < 32; i++ {
		if s[i] == 0 {
			break
		}
		at ^= uint32(s[i])
		unit := m.units[at]
		if label(unit) != uint32(s[i]) {
			break
		}
		at ^= offset(unit)
		if leaf(unit) {
			index, length = m.units[at], i+1
			found++
		}
	}
	if length == 0 {
		return "", 0
	}
	return m.value(index), length
}

// Walk iterates over the parts of a text as Hugging Face's Precompiled normaliser replaces them: a grapheme cluster of
// at most five bytes whose beginning is a key is one part, and each character of other clusters is one.
type Walk struct {
	m          *Map
	text       string
	cluster    int    // the end of the current cluster, whose characters are parts
	Begin, End int    // the current part: text[Begin:End]
	Changed    bool   // whether the part is replaced
	With       string // what the part becomes; text[Begin:End] if it is not Changed
}

// Walk returns an iterator before the first part of text.
func (m *Map) Walk(text string) Walk { return Walk{m: m, text: text} }

// Next moves to the next part, and reports whether there is one.
func (w *Walk) Next() bool {
	if w.End >= len(w.text) {
		return false
	}
	w.Begin = w.End
	rest := w.text[w.Begin:]
	if w.Begin >= w.cluster {
		size := Grapheme(rest)
		w.cluster = w.Begin + size
		if size < 6 {
			if w.With, w.Changed = w.m.Shortest(rest[:size]); w.Changed {
				w.End = w.cluster
				return true
			}
		}
	}
	_, size := utf8.DecodeRuneInString(rest)
	w.End = w.Begin + size
	if w.With, w.Changed = w.m.Shortest(rest[:size]); !w.Changed {
		w.With = rest[:size]
	}
	return true
}

// Bytes returns the memory that m occupies, in bytes.
func (m *Map) Bytes() int64 { return int64(len(m.units))*4 + int64(len(m.replacements)) }

package tokenizer

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// bpe joins the characters of a piece by a list of merges, the first in the list first.
type bpe struct {
	vocabulary *vocabulary
	merges     mergeTable
	unknown    string // "": unknown characters are dropped
	prefix     string // of tokens that follow another
	suffix     string // of the last token
	fuse       bool   // unknown characters next to each other are one token
	fallback   bool   // unknown characters are the tokens of their bytes
	direct     bool   // a piece that is a token is not taken apart

	// whole has the pieces that are one token.
	whole map[string]int32
	// letters has the ids of bytes, if the model reads bytes.
	raw     bool
	letters [256]int32
	bytes   [256]int32 // the tokens of bytes for fallback, or -1
}

// symbol is a part of a piece.
type symbol struct {
	id, size   int32
	prev, next int32 // of a list; of an array, the rank of the merge with the next symbol, and what that merge gives
}

// rank returns the rank of the merge with the next symbol.
func (y *symbol) rank() uint32 { return uint32(y.prev) }

// merge is a merge that may be done.
type merge struct {
	rank   uint32
	at     int32
	merged int32
}

const noRank = math.MaxUint32

// mergeTable has the rank and the result for two ids, by open addressing.
type mergeTable struct {
	slots []mergeSlot
	shift uint
}

type mergeSlot struct {
	key    uint64 // 0: the slot is free; otherwise 1 more than the two ids
	rank   uint32
	merged int32
}

func newMergeTable(n int) mergeTable {
	size := bits.Len(uint(n + n*2/3 + 2)) // at most six in ten are taken
	return mergeTable{make([]mergeSlot, 1<<size), uint(64 - size)}
}

func (t *mergeTable) find(a, b int32) *mergeSlot {
	key := (uint64(uint32(a))<<32 | uint64(uint32(b))) + 1
	for i := key * 0x9E3779B97F4A7C15 >> t.shift; ; i++ {
		slot := &t.slots[i&uint64(len(t.slots)-1)]
		if slot.key == key || slot.key == 0 {
			return slot
		}
	}
}

func (t *mergeTable) set(a, b int32, rank uint32, merged int32) {
	slot := t.find(a, b)
	*slot = mergeSlot{(uint64(uint32(a))<<32 | uint64(uint32(b))) + 1, rank, merged}
}

func (m *bpe) tokenize(dst []token, piece string, s *modelScratch) ([]token, error) {
	if id, ok := m.whole[piece]; ok {
		return append(dst, token{id, 0, int32(len(piece))}), nil
	}
	if err := m.begin(piece, s); err != nil {
		return dst, err
	}
	if len(s.symbols) <= 24 {
		m.join(s)
	} else {
		dst = room(dst, m.joinLong(s))
	}
	at := int32(0)
	for _, y := range s.symbols {
		if y.size > 0 {
			dst = append(dst, token{y.id, at, at + y.size})
			at += y.size
		}
	}
	return dst, nil
}

// longPiece is the length in bytes from which the characters of a piece are counted before memory is taken for them.
const longPiece = 4096

// begin fills the symbols with the characters of a piece.
func (m *bpe) begin(piece string, s *modelScratch) error {
	s.symbols = s.symbols[:0]
	if n := len(piece); m.raw || m.fallback {
		s.symbols = room(s.symbols, n)
	} else if n > longPiece {
		s.symbols = room(s.symbols, utf8.RuneCountInString(piece))
	}
	if m.raw {
		for i := range len(piece) {
			s.symbols = append(s.symbols, symbol{id: m.letters[piece[i]], size: 1})
		}
		return nil
	}
	unknown, size := int32(-1), int32(0)
	flush := func() {
		if unknown >= 0 {
			s.symbols = append(s.symbols, symbol{id: unknown, size: size})
			unknown = -1
		}
	}
	for i := 0; i < len(piece); {
		_, n := utf8.DecodeRuneInString(piece[i:])
		text := piece[i : i+n]
		if i > 0 && m.prefix != "" || i+n == len(piece) && m.suffix != "" {
			s.built = s.built[:0]
			if i > 0 {
				s.built = append(s.built, m.prefix...)
			}
			s.built = append(s.built, text...)
			if i+n == len(piece) {
				s.built = append(s.built, m.suffix...)
			}
			text = view(s.built)
		}
		i += n
		if id, ok := m.vocabulary.ids[text]; ok {
			flush()
			s.symbols = append(s.symbols, symbol{id: id, size: int32(n)})
			continue
		}
		if m.fallback && m.spell(text, s) {
			continue
		}
		if m.unknown == "" {
			continue
		}
		id, ok := m.vocabulary.ids[m.unknown]
		if !ok {
			return missing(m.unknown)
		}
		if unknown >= 0 && m.fuse {
			size += int32(n)
			continue
		}
		flush()
		unknown, size = id, int32(n)
	}
	flush()
	return nil
}

// spell adds the tokens of a text's bytes, if each of them has one.
func (m *bpe) spell(text string, s *modelScratch) bool {
	for i := range len(text) {
		if m.bytes[text[i]] < 0 {
			return false
		}
	}
	for i := range len(text) {
		s.symbols = append(s.symbols, symbol{id: m.bytes[text[i]], size: 1})
	}
	return true
}

// look sets what symbol i merges to with symbol j.
func (m *bpe) look(y []symbol, i, j int32) {
	slot := m.merges.find(y[i].id, y[j].id)
	if slot.key == 0 {
		y[i].prev = -1 // noRank
		return
	}
	y[i].prev, y[i].next = int32(slot.rank), slot.merged
}

// join does the merges of a few symbols: it looks for the first one in the list again and again.
func (m *bpe) join(s *modelScratch) {
	y := s.symbols
	n := int32(len(y))
	for i := int32(0); i+1 < n; i++ {
		m.look(y, i, i+1)
	}
	for n > 1 {
		best, at := uint32(noRank), int32(0)
		for i := int32(0); i+1 < n; i++ {
			if rank := y[i].rank(); rank < best {
				best, at = rank, i
			}
		}
		if best == noRank {
			break
		}
		y[at].id = y[at].next
		y[at].size += y[at+1].size
		copy(y[at+1:n], y[at+2:n])
		n--
		if at+1 < n {
			m.look(y, at, at+1)
		}
		if at > 0 {
			m.look(y, at-1, at)
		}
	}
	s.symbols = y[:n]
}

// joinLong does the merges of many symbols, with a heap of those that may be done. It returns how many are left.
func (m *bpe) joinLong(s *modelScratch) (kept int) {
	y := s.symbols
	kept = len(y)
	s.queue = slices.Grow(s.queue[:0], len(y))
	last := int32(len(y)) - 1
	for i := range y {
		y[i].prev, y[i].next = int32(i)-1, int32(i)+1
	}
	y[last].next = -1
	for i := int32(0); i < last; i++ {
		if slot := m.merges.find(y[i].id, y[i+1].id); slot.key != 0 {
			s.push(merge{slot.rank, i, slot.merged})
		}
	}
	for len(s.queue) > 0 {
		top := s.pop()
		left := &y[top.at]
		if left.size == 0 || left.next < 0 {
			continue
		}
		right := &y[left.next]
		if slot := m.merges.find(left.id, right.id); slot.key == 0 || slot.merged != top.merged {
			continue
		}
		left.id = top.merged
		left.size += right.size
		right.size = 0
		kept--
		left.next = right.next
		if left.next >= 0 {
			y[left.next].prev = top.at
			if slot := m.merges.find(left.id, y[left.next].id); slot.key != 0 {
				s.push(merge{slot.rank, top.at, slot.merged})
			}
		}
		if left.prev >= 0 {
			if slot := m.merges.find(y[left.prev].id, left.id); slot.key != 0 {
				s.push(merge{slot.rank, left.prev, slot.merged})
			}
		}
	}
	return kept
}

func (a merge) before(b merge) bool { return a.rank < b.rank || a.rank == b.rank && a.at < b.at }

func (s *modelScratch) push(m merge) {
	q := append(s.queue, m)
	i := len(q) - 1
	for i > 0 && m.before(q[(i-1)/2]) {
		q[i] = q[(i-1)/2]
		i = (i - 1) / 2
	}
	q[i] = m
	s.queue = q
}

func (s *modelScratch) pop() merge {
	q := s.queue
	top, m := q[0], q[len(q)-1]
	q = q[:len(q)-1]
	i := 0
	for 2*i+1 < len(q) {
		c := 2*i + 1
		if c+1 < len(q) && q[c+1].before(q[c]) {
			c++
		}
		if !q[c].before(m) {
			break
		}
		q[i] = q[c]
		i = c
	}
	if len(q) > 0 {
		q[i] = m
	}
	s.queue = q
	return top
}

// finish computes the tables that follow from the vocabulary and the merges. A raw model reads the bytes that a
// byte-level vocabulary's characters stand for; it is false if the vocabulary lacks one of them.
func (m *bpe) finish(raw bool) bool {
	for b := range m.bytes {
		m.bytes[b] = -1
		if id, ok := m.vocabulary.ids[fmt.Sprintf("<0x%02X>", b)]; ok {
			m.bytes[b] = id
		}
		m.letters[b] = -1
		if id, ok := m.vocabulary.ids[string(byteCharacters[b])]; ok {
			m.letters[b] = id
		} else {
			raw = false
		}
	}
	m.raw = raw && m.prefix == "" && m.suffix == ""
	m.fillWhole()
	return m.raw
}

// fillWhole finds the tokens that stay whole.
func (m *bpe) fillWhole() {
	whole := make(map[string]int32, len(m.vocabulary.ids))
	var s modelScratch
	var made []token
	var buffer []byte
	var block []byte // in which pieces that are not tokens' texts lie one after the other
	for text, id := range m.vocabulary.ids {
		piece := text
		if m.raw {
			buffer = buffer[:0]
			for _, r := range text {
				if r >= int32(len(characterBytes)) || characterBytes[r] < 0 {
					buffer = nil
					break
				}
				buffer = append(buffer, byte(characterBytes[r]))
			}
			if len(buffer) == 0 {
				continue
			}
			if len(block)+len(buffer) > cap(block) {
				block = make([]byte, 0, max(1<<14, len(buffer)))
			}
			block = append(block, buffer...)
			piece = view(block[len(block)-len(buffer):])
		}
		if !m.direct {
			if len(piece) > 64 {
				continue
			}
			var err error
			if made, err = m.tokenize(made[:0], piece, &s); err != nil || len(made) != 1 || made[0].id != id ||
				int(made[0].end) != len(piece) {
				continue
			}
		}
		if piece != "" {
			whole[piece] = id
		}
	}
	m.whole = whole
}

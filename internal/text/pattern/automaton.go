package pattern

import (
	"encoding/binary"
	"unicode/utf8"
)

// Limits of an automaton. A pattern beyond them is matched by backtracking.
const (
	maxStates  = 1 << 11
	maxEntries = 1 << 18
)

// automaton is a deterministic automaton that finds the match that backtracking would find first.
//
// A state is the list of the instructions at which backtracking would stand, the preferred one first. State 0 has none.
// An entry is the next state, and whether a match ends before the character.
type automaton struct {
	next   []uint16 // by state and class; the class after the last is the end of the text
	ascii  []uint16 // by state and byte
	stride int
	width  *alphabet
}

const accepts = 1 << 15 // the bit of an entry that says that a match ends here

// newAutomaton returns the automaton of p, or nil if p needs backtracking.
func newAutomaton(p *Pattern) *automaton {
	for _, in := range p.code {
		if in.op != opMatch && in.op != opSet && in.op != opSplit && in.op != opPeek {
			return nil
		}
	}
	b := &builder{p: p, numbers: map[string]uint16{}, here: make([]int, len(p.code)), there: make([]int, len(p.code))}
	a := &automaton{stride: p.alphabet.size + 1, width: p.alphabet}
	b.number(nil)
	b.number([]int32{p.start})
	for s := 0; s < len(b.states); s++ {
		if (s+1)*(a.stride+utf8.RuneSelf) > maxEntries || len(b.states) > maxStates {
			return nil
		}
		for class := range p.alphabet.size {
			a.next = append(a.next, b.step(b.states[s], class))
		}
		a.next = append(a.next, b.step(b.states[s], endBit)&accepts)
		if b.work > 1<<24 {
			return nil
		}
	}
	a.ascii = make([]uint16, len(b.states)*utf8.RuneSelf)
	for s := range b.states {
		for c := range utf8.RuneSelf {
			a.ascii[s*utf8.RuneSelf+c] = a.next[s*a.stride+int(p.alphabet.ascii[c])]
		}
	}
	return a
}

// builder makes the states of an automaton.
type builder struct {
	p           *Pattern
	states      [][]int32
	numbers     map[string]uint16
	here, there []int // the stamp of the step that visited an instruction before and after its character
	stamp       int
	work        int
}

// number returns the number of a state.
func (b *builder) number(state []int32) uint16 {
	key := make([]byte, 0, len(state)*4)
	for _, pc := range state {
		key = binary.LittleEndian.AppendUint32(key, uint32(pc))
	}
	n, ok := b.numbers[string(key)]
	if !ok {
		n = uint16(min(len(b.states), accepts-1))
		b.numbers[string(key)] = n
		b.states = append(b.states, state)
	}
	return n
}

// step returns the entry of a state for a class.
func (b *builder) step(state []int32, class int) uint16 {
	b.stamp++
	var next []int32
	accept := uint16(0)
	todo := make([]int32, 0, len(state)+8)
	for i := len(state) - 1; i >= 0; i-- {
		todo = append(todo, state[i])
	}
	for len(todo) > 0 {
		b.work++
		pc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if b.here[pc] == b.stamp {
			continue
		}
		b.here[pc] = b.stamp
		in := &b.p.code[pc]
		switch in.op {
		case opMatch:
			accept = accepts
			todo = todo[:0]
		case opSplit:
			todo = append(todo, in.b, in.a)
		case opPeek:
			if b.p.masks[in.mask].has(class) {
				todo = append(todo, in.a)
			}
		case opSet:
			if b.p.masks[in.mask].has(class) && b.there[in.a] != b.stamp {
				b.there[in.a] = b.stamp
				next = append(next, in.a)
			}
		}
	}
	return b.number(next) | accept
}

// find returns the first match that begins at from or after it, or -1; atEnd says that the empty match at the end
// counts. It reduces steps by what it reads without finding a match, and gives up below 0.
func (a *automaton) find(text string, from int, atEnd bool, steps *int) (begin, end int) {
	for begin = from; begin < len(text); {
		end = -1
		at, state, width := begin, 1, 1
		for at < len(text) {
			var entry uint16
			if b := text[at]; b < utf8.RuneSelf {
				entry = a.ascii[state<<7|int(b)]
				width = 1
			} else {
				var r rune
				r, width = utf8.DecodeRuneInString(text[at:])
				entry = a.next[state*a.stride+int(a.width.class(r))]
			}
			if entry&accepts != 0 {
				end = at
			}
			if state = int(entry &^ accepts); state == 0 {
				break
			}
			at += width
		}
		if state != 0 && a.next[state*a.stride+a.stride-1]&accepts != 0 {
			end = at
		}
		if end >= 0 {
			return begin, end
		}
		if *steps -= at - begin; *steps < 0 {
			return -1, -1
		}
		if at > begin { // else width is the first character's
			_, width = utf8.DecodeRuneInString(text[begin:])
		}
		begin += width
	}
	if atEnd && a.next[2*a.stride-1]&accepts != 0 {
		return begin, begin
	}
	return -1, -1
}

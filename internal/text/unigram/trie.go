package unigram

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
)

// Trie maps byte strings to numbers. It is a double array: the child of state s for byte c is next[s]+c, if owner there
// is s. State 0 is the root.
type Trie struct {
	cells []cell
}

type cell struct {
	next  int32 // the place of the child for byte 0, less than all others; 0: no child
	owner int32 // the parent, plus 1; 0: free
	value int32 // the number of the string that ends here, or -1
}

// Entry is a string of a trie and its number.
type Entry struct {
	Text  string
	Value int32
}

// NewTrie returns the trie of entries, which it sorts; of entries with equal strings the last one's number counts. An
// empty string is left out. Its error is an ErrInput if the strings are too long altogether.
func NewTrie(entries []Entry) (*Trie, error) {
	total := 0
	for _, e := range entries {
		total += len(e.Text)
	}
	if total > math.MaxInt32/16 {
		return nil, &diag.Error{Kind: diag.ErrInput, Op: "vocabulary",
			Detail: fmt.Sprintf("pieces of %d bytes are too long", total)}
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return strings.Compare(a.Text, b.Text) })
	kept := entries[:0]
	for _, e := range entries {
		if n := len(kept); n > 0 && kept[n-1].Text == e.Text {
			kept[n-1] = e
		} else if e.Text != "" {
			kept = append(kept, e)
		}
	}
	t := &Trie{cells: make([]cell, 1, total/2+512)}
	t.cells[0] = cell{owner: 1, value: -1}
	type work struct{ state, lo, hi, depth int32 }
	todo := []work{{0, 0, int32(len(kept)), 0}}
	f := free{first: 256} // a base is at least 1
	labels := make([]byte, 0, 256)
	starts := make([]int32, 0, 257)
	for len(todo) > 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		labels, starts = labels[:0], starts[:0]
		for i := w.lo; i < w.hi; i++ {
			if int32(len(kept[i].Text)) == w.depth {
				t.cells[w.state].value = kept[i].Value
			} else if c := kept[i].Text[w.depth]; len(labels) == 0 || labels[len(labels)-1] != c {
				labels, starts = append(labels, c), append(starts, i)
			}
		}
		if len(labels) == 0 {
			continue
		}
		starts = append(starts, w.hi)
		base := t.place(labels, &f)
		t.cells[w.state].next = int32(base)
		for i, c := range labels {
			child := base + int(c)
			t.cells[child] = cell{owner: w.state + 1, value: -1}
			todo = append(todo, work{int32(child), starts[i], starts[i+1], w.depth + 1})
		}
	}
	t.cells = slices.Clip(t.cells)
	return t, nil
}

// place returns a base at which the children's cells are free. It extends the cells so that every byte has a cell at
// the base. A single child takes the first free cell; for several, the search begins at f.wide, which moves on past
// each 256 cells that do not fit, so that the time is linear.
func (t *Trie) place(labels []byte, f *free) (base int) {
	for f.first < len(t.cells) && t.cells[f.first].owner != 0 {
		f.first++
	}
	low := int(labels[0])
	from := f.first
	if len(labels) > 1 {
		f.wide = max(f.wide, f.first)
		from = f.wide
	}
	scanned := 0
search:
	for base = from - low; ; base++ {
		if scanned++; scanned%256 == 0 && len(labels) > 1 {
			f.wide = max(f.wide, base+low)
		}
		for _, c := range labels {
			if i := base + int(c); i < len(t.cells) && t.cells[i].owner != 0 {
				continue search
			}
		}
		break
	}
	if need := base + 256; need > len(t.cells) {
		t.cells = append(t.cells, make([]cell, need-len(t.cells))...)
	}
	return base
}

// free is where cells may be free: the first one, and the first that may suit several children.
type free struct{ first, wide int }

// Step returns the child of a state for a byte, or -1.
func (t *Trie) Step(state int32, c byte) int32 {
	next := t.cells[state].next
	if next == 0 {
		return -1
	}
	child := next + int32(c)
	if t.cells[child].owner != state+1 {
		return -1
	}
	return child
}

// Value returns the number of the string that leads to a state, or -1.
func (t *Trie) Value(state int32) int32 { return t.cells[state].value }

// Find returns the number of a string, or -1.
func (t *Trie) Find(s string) int32 {
	state := int32(0)
	for i := 0; i < len(s); i++ {
		if state = t.Step(state, s[i]); state < 0 {
			return -1
		}
	}
	return t.cells[state].value
}

// Longest returns the length of the longest string of t with which s begins, and its number; -1 if there is none.
func (t *Trie) Longest(s string) (length int, value int32) {
	value = -1
	state := int32(0)
	for i := 0; i < len(s); i++ {
		if state = t.Step(state, s[i]); state < 0 {
			break
		}
		if v := t.cells[state].value; v >= 0 {
			length, value = i+1, v
		}
	}
	return length, value
}

// Bytes returns the memory that t occupies, in bytes.
func (t *Trie) Bytes() int64 { return int64(len(t.cells)) * 12 }

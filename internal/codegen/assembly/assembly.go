// Package assembly is what assemblers of machine code have in common: labels, pools of constants, and tables of forms.
package assembly

import (
	"slices"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/diag"
)

// Labels are the labels of a routine and their positions. The zero value has none.
type Labels struct {
	positions []int32 // −1 before Bind; labels count from 1
}

// New returns a new label that is not bound.
func (l *Labels) New() regalloc.Label {
	l.positions = append(l.positions, -1)
	return regalloc.Label(len(l.positions))
}

// Bind binds a label to a position. It makes the label if New did not: callers may number labels from 1.
func (l *Labels) Bind(label regalloc.Label, position int) {
	for int(label) > len(l.positions) {
		l.positions = append(l.positions, -1)
	}
	if label < 1 || l.positions[label-1] >= 0 {
		panic(diag.Internalf("machine code: label %d is bound twice, or none", label))
	}
	l.positions[label-1] = int32(position)
}

// Position returns the position of a label; ok is false if it is not bound.
func (l *Labels) Position(label regalloc.Label) (position int32, ok bool) {
	if label < 1 || int(label) > len(l.positions) {
		return 0, false
	}
	position = l.positions[label-1]
	return position, position >= 0
}

// Target is Position for a jump that must have a target.
func (l *Labels) Target(label regalloc.Label) (int32, error) {
	position, ok := l.Position(label)
	if !ok {
		return 0, diag.Internalf("machine code: a jump to label %d, which is not bound", label)
	}
	return position, nil
}

// Reset removes all labels and keeps the memory.
func (l *Labels) Reset() { l.positions = l.positions[:0] }

// Line is the greatest size of a constant, and its alignment, in bytes.
const Line = 64

// Pool is the constants after a routine's instructions, each once. The zero value has none.
type Pool struct {
	constants []string
	indices   map[string]int32
}

// Add puts a constant into the pool and returns its number, as in regalloc.Mem.Pool: they count from 1. The size in
// bytes must be a power of two from least to Line.
func (p *Pool) Add(bytes []byte, least int) int32 {
	n := len(bytes)
	if n < least || n > Line || n&(n-1) != 0 {
		panic(diag.Internalf("machine code: a constant of %d bytes", n))
	}
	if index, ok := p.indices[string(bytes)]; ok {
		return index
	}
	if p.indices == nil {
		p.indices = map[string]int32{}
	}
	p.constants = append(p.constants, string(bytes))
	index := int32(len(p.constants))
	p.indices[string(bytes)] = index
	return index
}

// Len returns the number of constants.
func (p *Pool) Len() int { return len(p.constants) }

// Align returns the alignment of the pool: the size of its largest constant, 1 if there is none.
func (p *Pool) Align() int {
	align := 1
	for _, c := range p.constants {
		align = max(align, len(c))
	}
	return align
}

// AppendTo appends the constants to code that ends at a multiple of Align, the largest first so that each lies on a
// multiple of its size. It returns their positions, in the order of their numbers, and empties the pool.
func (p *Pool) AppendTo(code []byte) (all []byte, positions []int32) {
	order := make([]int, len(p.constants))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(p.constants[b]) - len(p.constants[a]) })
	positions = make([]int32, len(p.constants))
	for _, n := range order {
		positions[n] = int32(len(code))
		code = append(code, p.constants[n]...)
	}
	p.Reset()
	return code, positions
}

// Reset removes all constants and keeps the memory.
func (p *Pool) Reset() {
	p.constants = p.constants[:0]
	clear(p.indices)
}

package lanes

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// A weight of few bits becomes a number by an expression such as convert(word & 15) − 8, in three instructions. It has
// at most sixteen values, which a machine with enough entries looks up by the low four bits of each lane of the word.

// lookedUp is an f32 expression of the low bits of an integer as one read of a table.
type lookedUp struct {
	word  loop.Expr
	table []float32 // by the word's low bits: a power of two of numbers
}

// lookedUpOf reads an expression as a conversion of an integer's low bits, with constants added, subtracted or
// multiplied; ok is false for others, and for those with more than most values.
func lookedUpOf(x loop.Expr, most int) (l lookedUp, ok bool) {
	switch x := x.(type) {
	case *loop.Cast:
		and, isAnd := x.X.(*loop.Binary)
		if x.Type != dtype.F32 || !isAnd || and.Op != loop.And || Kinds[and.DType()] != Integers {
			return l, false
		}
		word, mask := and.X, constantOf(and.Y)
		if mask == nil {
			word, mask = and.Y, constantOf(and.X)
		}
		if mask == nil {
			return l, false
		}
		high := loop.ToInt(mask.Type, mask.Bits)
		if high < 1 || high >= int64(most) || high&(high+1) != 0 {
			return l, false
		}
		for i := range high + 1 {
			l.table = append(l.table, float32(i))
		}
		l.word = word
		return l, true
	case *loop.Binary:
		c := constantOf(x.Y)
		if c == nil || x.DType() != dtype.F32 {
			return l, false
		}
		if l, ok = lookedUpOf(x.X, most); !ok {
			return l, false
		}
		y := math.Float32frombits(uint32(c.Bits))
		for i, v := range l.table {
			switch x.Op {
			case loop.Add:
				l.table[i] = v + y
			case loop.Sub:
				l.table[i] = v - y
			case loop.Mul:
				l.table[i] = v * y
			default:
				return l, false
			}
		}
		return l, true
	}
	return l, false
}

// constantOf returns an expression as a constant; nil if it is none.
func constantOf(x loop.Expr) *loop.Const {
	c, _ := x.(*loop.Const)
	return c
}

// lookedUp emits an expression as a read of a table in one register; false if it cannot be.
func (e *Emitter) lookedUp(x loop.Expr) (Value, bool) {
	l, ok := lookedUpOf(x, e.Entries())
	if !ok {
		return Value{}, false
	}
	word := e.Value(l.word)
	table := make([]uint32, len(l.table))
	for i, v := range l.table {
		table[i] = math.Float32bits(v)
	}
	return Value{DType: dtype.F32, Uniform: word.Uniform, Lo: e.Lookup(table, word.Lo)}, true
}

package lanes

import (
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/loop"
)

// quantise emits a conversion that is loop.Quantised.
func (e *Emitter) quantise(c *loop.Cast) (Value, bool) {
	q, ok := loop.QuantisedOf(c)
	if !ok {
		return Value{}, false
	}
	x := e.Value(q.X)
	var r regalloc.Reg
	if q.Rest == 0 {
		r = e.word.Mul(x.Lo, e.word.Float(q.First))
	} else {
		r = e.word.Fma(x.Lo, e.word.Float(q.First), e.word.Mul(x.Lo, e.word.Float(q.Rest)))
	}
	// For NaN the machine gives the second operand, the least value. If that does not become 0 at the end, NaN is set to
	// 0.
	nan := regalloc.NoReg
	if q.Low != 0 {
		nan = e.word.Compare(mathematics.Unordered, r, r)
	}
	r = e.word.ToInt(e.word.Min(e.word.Max(r, e.word.Float(q.Low-q.Zero)), e.word.Float(q.High-q.Zero)))
	if q.Zero != 0 {
		r = e.word.AddInt(r, e.word.Integer(int32(q.Zero)))
	}
	if q.Low != 0 {
		r = e.word.SelectLanes(nan, e.word.Integer(0), r)
	}
	return Value{DType: c.Type, Lo: r, Uniform: x.Uniform}, true
}

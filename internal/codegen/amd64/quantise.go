package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/loop"
)

// quantise emits such an expression, if a conversion is one.
func (e *machine) quantise(c *loop.Cast) (lanes.Value, bool) {
	q, ok := lanes.QuantisedOf(c)
	if !ok {
		return lanes.Value{}, false
	}
	x := e.Value(q.X)
	var r asm.Reg
	if q.Rest == 0 {
		r = e.mul(x.Lo, e.float(q.First))
	} else {
		r = e.fma(x.Lo, e.float(q.First), e.mul(x.Lo, e.float(q.Rest)))
	}
	// For NaN the machine gives the second operand, the least value. If that does not become 0 at the end, NaN is set to
	// 0.
	nan := asm.NoReg
	if q.Low != 0 {
		nan = e.compare(unordered, r, r)
	}
	r = e.toInt(e.min(e.max(r, e.float(q.Low-q.Zero)), e.float(q.High-q.Zero)))
	if q.Zero != 0 {
		r = e.addInt(r, e.integer32(int32(q.Zero)))
	}
	if q.Low != 0 {
		r = e.selectLanes(nan, e.integer32(0), r)
	}
	return lanes.Value{DType: c.Type, Lo: r, Uniform: x.Uniform}, true
}

package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// known applies an integer function to elements that are known, so that shape arithmetic stays known.
func known(v *ir.Value, f loop.UnaryOp, x []sym.Expr) {
	if x == nil || f != loop.Neg && f != loop.Not {
		return
	}
	v.Known = make([]sym.Expr, len(x))
	for i, e := range x {
		if f == loop.Neg {
			v.Known[i] = e.Neg()
		} else {
			v.Known[i] = one.Sub(e)
		}
	}
}

// knownBinary is the integer functions that have a symbolic counterpart.
var knownBinary = map[loop.BinaryOp]func(d *sym.Dims, x, y sym.Expr) (sym.Expr, bool){
	loop.Add: func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Add(y), true },
	loop.Sub: func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Sub(y), true },
	loop.Mul: func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Mul(y), true },
	loop.Min: func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Min(y), true },
	loop.Max: func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Max(y), true },
	loop.Div: func(d *sym.Dims, x, y sym.Expr) (sym.Expr, bool) {
		// Truncation and floor agree where the dividend is not negative and the divisor is positive.
		ok := d.LE(sym.Const(0), x) == sym.Yes && d.LE(one, y) == sym.Yes
		return x.FloorDiv(y), ok
	},
	loop.FloorMod: func(d *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Mod(y), d.LE(one, y) == sym.Yes },
	loop.Eq:       truth((*sym.Dims).EQ),
	loop.Lt:       truth((*sym.Dims).LT),
	loop.Le:       truth((*sym.Dims).LE),
	loop.Gt:       truth(func(d *sym.Dims, x, y sym.Expr) sym.Truth { return d.LT(y, x) }),
	loop.Ge:       truth(func(d *sym.Dims, x, y sym.Expr) sym.Truth { return d.LE(y, x) }),
	loop.And:      func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Mul(y), true }, // of bools
	loop.Or:       func(_ *sym.Dims, x, y sym.Expr) (sym.Expr, bool) { return x.Max(y), true },
}

// truth is a comparison that is known when the prover decides it for every value.
func truth(prove func(d *sym.Dims, x, y sym.Expr) sym.Truth) func(d *sym.Dims, x, y sym.Expr) (sym.Expr, bool) {
	return func(d *sym.Dims, x, y sym.Expr) (sym.Expr, bool) {
		switch prove(d, x, y) {
		case sym.Yes:
			return one, true
		case sym.No:
			return sym.Const(0), true
		}
		return sym.Expr{}, false
	}
}

// known2 applies an integer function to two operands whose elements are known.
func known2(c *ir.Inference, v *ir.Value, f loop.BinaryOp, a, b *ir.Value) {
	apply, ok := knownBinary[f]
	if !ok || a.Known == nil || b.Known == nil || (f == loop.And || f == loop.Or) && a.Type.DType != dtype.Bool {
		return
	}
	shape, okShape := constants(v.Type.Shape)
	sa, okA := constants(a.Type.Shape)
	sb, okB := constants(b.Type.Shape)
	if !okShape || !okA || !okB {
		return
	}
	var out []sym.Expr
	tensor.Each(shape, func(at []int64) {
		e, fine := apply(c.Dims(), a.Known[stretchedFlat(at, sa)], b.Known[stretchedFlat(at, sb)])
		ok = ok && fine
		out = append(out, e)
	})
	if ok && len(out) <= ir.MaxKnown {
		if out == nil {
			out = []sym.Expr{}
		}
		v.Known = out
	}
}

// constants are the sizes of a shape whose every extent is a number.
func constants(shape []sym.Expr) ([]int64, bool) {
	out := make([]int64, len(shape))
	for i, e := range shape {
		v, ok := e.Const()
		if !ok {
			return nil, false
		}
		out[i] = v
	}
	return out, true
}

// bitsOf is an element as loop constants hold it: its representation, zero-extended.
func bitsOf(t *tensor.Tensor, i int64) uint64 { return loop.LoadBits(t.DType(), t.Bytes(), i) }

// setBits is bitsOf's converse.
func setBits(t *tensor.Tensor, i int64, bits uint64) { loop.StoreBits(t.DType(), t.Bytes(), i, bits) }

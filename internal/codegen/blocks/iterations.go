package blocks

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// Some drivers silently end loops of a thread after too many iterations: see target.Limits.Iterations. A kernel with
// such loops is refused, so that the host runs it. If the number of iterations is dynamic, the kernel is refused if it
// is too large for dimensions of a common size; otherwise a launch returns an error if its dimensions are too large.

// commonSize is the size of dimensions for which every kernel on a device must run.
const commonSize = 64

// limitIterations refuses a kernel whose loops have more than most iterations, always or for dimensions of a common
// size. If the number is dynamic, it keeps the formula for launches.
func (k *kernel) limitIterations(w *Writer, most int64) (err error) {
	if most == 0 {
		return nil
	}
	n := w.longest
	low, _ := w.ranges.Of(n)
	if low.Min > most {
		Refuse("loops of %d iterations, and the driver runs at most %d", low.Min, most)
	}
	if low.Max <= most {
		return nil
	}
	k.most = most
	if k.iterations, err = n.Compile(k.loop.Dims); err != nil {
		return diag.Internalf("code of kernel @%s: %v", k.loop.Name, err)
	}
	common := w.commonDims()
	if n, err := k.eval(k.iterations, common); err == nil && n > most {
		Refuse("loops of %d iterations for dimensions %v, and the driver runs at most %d", n, common, most)
	}
	return nil
}

// commonDims returns dimensions of a common size.
func (w *Writer) commonDims() []int64 {
	common := make([]int64, len(w.kernel.Dims))
	for i, name := range w.kernel.Dims {
		r, _ := w.ranges.Of(sym.Var(name))
		common[i] = min(max(commonSize, r.Min), r.Max)
	}
	return common
}

// fewEnough returns an error, of kind ErrUnsupported, if the loops have too many iterations for some dimensions.
func (k *kernel) fewEnough(dims []int64) error {
	n, err := k.eval(k.iterations, dims)
	if err == nil && n > k.most {
		return diag.Unsupportedf("kernel @%s has loops of %d iterations for dimensions %v, and this device's driver runs "+
			"at most %d", k.loop.Name, n, dims, k.most).
			AtNode(k.loop.Source, "").WithFix("run the model with --target cpu, or give the dimensions smaller values")
	}
	return err
}

// Counted writes a loop by calling write, and adds its number of iterations, with those of the loops inside, to the
// thread's.
func (w *Writer) Counted(iterations sym.Expr, write func()) {
	before := w.taken
	w.taken = sym.Const(0)
	write()
	w.taken = before.Add(iterations.Mul(w.taken.Add(sym.Const(1))))
}

// overAll returns an upper bound, over dimensions only, of an extent that may depend on loop variables.
func (w *Writer) overAll(e sym.Expr) sym.Expr {
	if w.overDims(e) {
		return e.Max(sym.Const(0))
	}
	if bound, ok := w.extreme(e, true); ok {
		return bound.Max(sym.Const(0))
	}
	return sym.Const(max(w.most(e), 0))
}

// extreme returns a bound, over dimensions only, of an integer for all values of the loop variables and the checked
// integers in it: an upper bound if up, or else a lower bound. ok is false if it finds none.
func (w *Writer) extreme(e sym.Expr, up bool) (sym.Expr, bool) {
	if w.overDims(e) {
		return e, true
	}
	constant, terms := e.Terms()
	total := sym.Const(constant)
	for _, t := range terms {
		product := sym.Const(t.Coef)
		for _, f := range t.Factors {
			x, ok := w.extremeFactor(f, up == (t.Coef > 0))
			if !ok || len(t.Factors) > 1 && !w.overDims(x) {
				return e, false
			}
			low, _ := w.ranges.Of(x)
			if own, _ := w.ranges.Of(f.Expr()); len(t.Factors) > 1 && min(low.Min, own.Min) < 0 {
				return e, false
			}
			product = product.Mul(x)
		}
		total = total.Add(product)
	}
	return total, true
}

// extremeFactor is extreme for a factor.
func (w *Writer) extremeFactor(f sym.Factor, up bool) (sym.Expr, bool) {
	var args []sym.Expr
	for i, arg := range f.Args {
		if i == 1 && (f.Kind == sym.FloorQuotient || f.Kind == sym.CeilQuotient || f.Kind == sym.Remainder) {
			args = append(args, arg)
			continue
		}
		x, ok := w.extreme(arg, up)
		if !ok {
			return x, false
		}
		args = append(args, x)
	}
	switch f.Kind {
	case sym.Variable:
		return w.extremeName(f.Name, up)
	case sym.Least, sym.Greatest:
		x := args[0]
		for _, y := range args[1:] {
			if f.Kind == sym.Least {
				x = x.Min(y)
			} else {
				x = x.Max(y)
			}
		}
		return x, true
	case sym.FloorQuotient, sym.CeilQuotient, sym.Remainder:
		if !w.overDims(args[1]) {
			return sym.Expr{}, false
		}
	}
	switch f.Kind {
	case sym.FloorQuotient:
		return args[0].FloorDiv(args[1]), true
	case sym.CeilQuotient:
		return args[0].CeilDiv(args[1]), true
	case sym.Remainder:
		if up {
			return args[1].Sub(sym.Const(1)), true
		}
		return sym.Const(0), true
	}
	return sym.Expr{}, false
}

// extremeName is extreme for a dimension, a loop variable or a checked integer.
func (w *Writer) extremeName(name sym.Name, up bool) (sym.Expr, bool) {
	if w.overDims(sym.Var(name)) {
		return sym.Var(name), true
	}
	if c := w.checked[name]; c != nil && up {
		return w.extreme(c.Max, true)
	} else if c != nil {
		return w.extreme(c.Min, false)
	}
	extent, known := w.extents[name]
	switch {
	case !known:
		return extent, false
	case up:
		top, ok := w.extreme(extent, true)
		return top.Sub(sym.Const(1)).Max(sym.Const(0)), ok
	}
	return sym.Const(0), true
}

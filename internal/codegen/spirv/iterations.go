package spirv

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Some drivers end the loops of a thread that take too long, without a word: see target.Limits.Iterations. Such a kernel is refused, or where dimensions decide, its launch is.

// limitIterations refuses a kernel whose loops always take more iterations than the machine does, and notes what dimensions decide.
func (k *kernel) limitIterations(w *writer, most int64) (err error) {
	if most == 0 {
		return nil
	}
	n := w.longest
	low, _ := w.ranges.Of(n)
	if low.Min > most {
		refuse("loops of %d iterations, of which this driver does at most %d", low.Min, most)
	}
	if low.Max <= most {
		return nil
	}
	k.most = most
	if k.iterations, err = n.Compile(k.loop.Dims); err != nil {
		return diag.Internalf("spirv: kernel @%s: %v", k.loop.Name, err)
	}
	return nil
}

func (k *kernel) fewEnough(dims []int64) error {
	n, err := k.eval(k.iterations, dims)
	if err == nil && n > k.most {
		return diag.Unsupportedf("kernel @%s has loops of %d iterations for dimensions %v, and this device's driver does at most %d", k.loop.Name, n, dims, k.most).
			AtNode(k.loop.Source, "").WithFix("run the model with --target cpu, or give the dimensions smaller values")
	}
	return err
}

// noteLoops notes how many iterations the loops of an entry's thread take, all together.
func (w *writer) noteLoops(n sym.Expr) { w.longest = w.longest.Max(n) }

// iterationsOf is a bound of the iterations of the loops of a thread's statements, over dimensions.
func (w *writer) iterationsOf(body []loop.Stmt) sym.Expr {
	total := sym.Const(0)
	for _, s := range body {
		switch s := s.(type) {
		case *loop.For:
			total = total.Add(w.overAll(s.Extent).Mul(sym.Const(1).Add(w.iterationsOf(s.Body))))
		case *loop.When:
			total = total.Add(w.iterationsOf(s.Then).Max(w.iterationsOf(s.Else)))
		case *loop.Contract:
			total = total.Add(w.overAll(s.M).Mul(w.overAll(s.N).Add(sym.Const(1))).Mul(w.overAll(s.K).Add(sym.Const(1))))
		}
	}
	return total
}

// overAll is an extent over dimensions: one that loops' variables decide is taken at its greatest.
func (w *writer) overAll(e sym.Expr) sym.Expr {
	if !w.overDims(e) {
		e = sym.Const(w.most(e))
	}
	return e.Max(sym.Const(0))
}

package lanes

import (
	"fmt"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file computes several strips of a vector loop together, if each lane sums along inner loops, as for the sums of
// a matrix's columns: the inner loops are emitted once, with the sums of all strips in them. The sums then need not
// wait for one another, and one iteration reads adjacent memory.

// jam is copies of a vector loop's body, one for each strip.
type jam struct {
	copies [][]loop.Stmt
	tails  []regalloc.Reg // by copy: the mask of its lanes; NoReg: all
}

// Jammable returns the number of strips of a vector loop that can be done together; at most 1 if it is not such a loop.
func (e *Emitter) Jammable(s *loop.For) int64 {
	if e.rows != nil || e.Collect != nil || e.Override != nil || e.turning != nil {
		return 1
	}
	sums, loops := int64(0), false
	own := map[string]bool{}
	for _, stmt := range s.Body {
		switch stmt := stmt.(type) {
		case *loop.Var:
			own[stmt.Name] = true
		case *loop.Let:
		case *loop.Store:
			if stmt.Mask != nil {
				return 1
			}
		case *loop.For:
			n := sumsIn(stmt, own)
			if n == 0 || loops || e.inPieces(stmt) {
				return 1
			}
			sums, loops = n, true
		default:
			return 1
		}
	}
	if !loops {
		return 1
	}
	return e.MostSums / sums
}

// inPieces reports whether a loop is better unrolled, or cut where its indices leave an interior.
func (e *Emitter) inPieces(f *loop.For) bool {
	n, fixed := e.Resolve(f.Extent).Const()
	if !fixed {
		return false
	}
	if copied(n, f.Body) <= mostUnrolled {
		return true
	}
	_, _, cut := e.interior(f.Var, n, f.Body)
	return cut
}

// sumsIn returns the number of variables that a loop, or the loops directly inside it, reduce; 0 if they do anything
// else, or reduce a variable that is not in own: a variable from outside the vector loop is the sum of all lanes.
func sumsIn(f *loop.For, own map[string]bool) (count int64) {
	if f.Kind == loop.Vector {
		return 0
	}
	if inner, only := loop.Only(f.Body); only {
		return sumsIn(inner, own)
	}
	for _, s := range f.Body {
		switch s := s.(type) {
		case *loop.Reduce:
			if !own[s.Name] {
				return 0
			}
			count++
		case *loop.Let:
		default:
			return 0
		}
	}
	return count
}

// jammed returns count copies of a vector loop's body, for consecutive strips.
func (e *Emitter) jammed(s *loop.For, count int64) *jam {
	declared := map[string]bool{}
	for _, name := range declaredIn(s.Body) {
		declared[name] = true
	}
	j := &jam{}
	for c := range count {
		next := map[sym.Name]sym.Expr{s.Var: sym.Var(s.Var).Add(sym.Const(c * int64(e.lanes)))}
		r := &loop.Rewrite{
			Integer: func(x sym.Expr) sym.Expr {
				return x.Subst(func(n sym.Name) (sym.Expr, bool) { v, ok := next[n]; return v, ok })
			},
			Name: func(name string) string {
				if declared[name] {
					return fmt.Sprintf("%s#%d", name, c)
				}
				return name
			},
		}
		j.copies, j.tails = append(j.copies, r.Body(s.Body)), append(j.tails, regalloc.NoReg)
	}
	return j
}

// emit emits the statements of all copies, a loop's together.
func (j *jam) emit(e *Emitter) {
	for i, first := range j.copies[0] {
		f, ok := first.(*loop.For)
		if !ok {
			for c, body := range j.copies {
				e.Strip.tail = j.tails[c]
				e.statement(body[i])
			}
			continue
		}
		inner := &jam{tails: j.tails}
		var all []loop.Stmt
		for _, body := range j.copies {
			list := body[i].(*loop.For).Body
			inner.copies, all = append(inner.copies, list), append(all, list...)
		}
		e.counted(f, sym.Const(0), e.Resolve(f.Extent), all, func() { inner.emit(e) })
	}
}

// Together returns the number of strips for one turn: at most most, with as few turns as possible.
func Together(strips, most int64) int64 {
	best := int64(1)
	for n := int64(2); n <= min(most, strips); n++ {
		if strips/n+strips%n <= strips/best+strips%best {
			best = n
		}
	}
	return best
}

package pass

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// masked reports whether no further mask can be taken: the limit is reached, or a scale or cap would apply to the mask
// as well as to the scores.
func (s *scores) masked() bool {
	return s.scale != 1 || s.cap != 0 || s.joined != nil || len(s.keep)+len(s.bias) >= masksMost
}

// leads reports whether v may be the scores: a matrix product leads to it through functions of elements and aliases.
func (s *scores) leads(v *ir.Value, depth int) bool {
	if !s.r.inside(v) || depth > 2*masksMost+4 {
		return false
	}
	if v.Node.Op.Name() == "matmul" {
		return true
	}
	between := ops.Elementwise(v.Node) || ops.Of(v.Node).Alias
	return between && slices.ContainsFunc(v.Node.Inputs, func(in *ir.Value) bool { return s.leads(in, depth+1) })
}

// filling returns the score that a choice gives to hidden keys: a number far below others, or −∞.
func (s *scores) filling(v *ir.Value) (float64, bool) {
	if v.Const == nil || v.Const.Len() != 1 {
		return 0, false
	}
	x, ok := uniform(v)
	return x, ok && x <= -1e3
}

// choose notes a mask of bools; false if its fill differs from an earlier mask's, or if a finite fill is added to.
func (s *scores) choose(mask *ir.Value, drop bool, fill float64) bool {
	if s.filled && s.fill != fill || len(s.bias) > 0 && !math.IsInf(fill, -1) {
		return false
	}
	s.fill, s.filled = fill, true
	if !s.causal && len(s.keep) == 0 {
		if past, ok := s.order(mask, drop); ok {
			s.causal, s.past = true, past
			return true
		}
	}
	s.keep, s.drop = append(s.keep, mask), append(s.drop, drop)
	return true
}

// add notes a mask that is added to the scores.
func (s *scores) add(mask *ir.Value) bool {
	if !s.causal && mask.Const != nil && len(s.keep) == 0 && len(s.bias) == 0 && !s.filled {
		if past, ok := s.constantOrder(mask, false); ok {
			s.causal, s.past, s.fill, s.filled = true, past, math.Inf(-1), true
			return true
		}
	}
	s.bias = append(s.bias, mask)
	return true
}

// order reports whether a mask is causal: for each query it is true (with drop, false) for exactly the keys up to the
// query's own position plus past.
func (s *scores) order(mask *ir.Value, drop bool) (past sym.Expr, ok bool) {
	if mask.Const != nil {
		return s.constantOrder(mask, drop)
	}
	if mask.Node == nil {
		return past, false
	}
	shape := mask.Type.Shape
	in := mask.Node.Inputs
	ordered := func(kept bool, keys, queries *ir.Value) (sym.Expr, bool) {
		if !kept {
			return past, false
		}
		return s.ordered(keys, queries)
	}
	switch mask.Node.Op.Name() {
	case "not":
		return s.order(in[0], !drop)
	case "le":
		return ordered(!drop, in[0], in[1])
	case "gt":
		return ordered(drop, in[0], in[1])
	case "ge":
		return ordered(!drop, in[1], in[0])
	case "lt":
		return ordered(drop, in[1], in[0])
	case "triangle":
		if mask.Node.Attrs.Bool("upper") != drop || len(shape) < 2 {
			return past, false
		}
		past, _ = mask.Node.Attrs["k"].(sym.Expr)
		if drop {
			past = past.Sub(sym.Const(1)) // the first diagonal that is hidden
		}
		full := sameShape(s.r.Dims(), shape[len(shape)-2:], []sym.Expr{s.queries, s.keys}) &&
			s.r.Dims().EQ(sym.Product(shape...), s.queries.Mul(s.keys)) == sym.Yes
		return past, full && always(in[0]) && s.r.Dims().LE(sym.Const(0), past) == sym.Yes
	}
	return past, false
}

// always reports whether all elements of v are certain to be true.
func always(v *ir.Value) bool {
	if e := producer(v, "expand"); e != nil {
		v = e.Inputs[0]
	}
	if v.Const == nil || v.Type.DType != dtype.Bool || v.Const.Len() > uniformMost {
		return false
	}
	for i := range v.Const.Len() {
		if v.Const.Int(i) == 0 {
			return false
		}
	}
	return true
}

// ordered matches a comparison of the positions of keys, a row, with the positions of queries plus past, a column.
func (s *scores) ordered(keys, queries *ir.Value) (past sym.Expr, ok bool) {
	row, column := keys.Type.Shape, queries.Type.Shape
	if len(row) < 1 || len(column) < 2 || !row[len(row)-1].Equal(s.keys) || !isOne(column[len(column)-1]) ||
		!column[len(column)-2].Equal(s.queries) || !s.counts(keys, s.keys) {
		return past, false
	}
	if a := producer(queries, "add"); a != nil {
		for i, in := range a.Inputs {
			if len(in.Known) == 1 && !in.Bound {
				past, queries = in.Known[0], a.Inputs[1-i]
				break
			}
		}
	}
	return past, s.counts(queries, s.queries)
}

// counts reports whether v is 0, 1, … up to an extent, along one axis, around which there may be axes of 1.
func (s *scores) counts(v *ir.Value, extent sym.Expr) bool {
	if s.r.Dims().EQ(sym.Product(v.Type.Shape...), extent) != sym.Yes {
		return false
	}
	if v.Const != nil {
		for i := range v.Const.Len() {
			if !v.Type.DType.IsInt() || v.Const.Int(i) != i {
				return false
			}
		}
		return true
	}
	if r := producer(v, "reshape"); r != nil {
		v = r.Inputs[0]
	}
	n := producer(v, "range")
	if n == nil {
		return false
	}
	start, okStart := uniform(n.Inputs[0])
	delta, okDelta := uniform(n.Inputs[1])
	return okStart && okDelta && start == 0 && delta == 1
}

// constantOrder returns the result of the function constantOrder, which it computes once for each mask.
func (s *scores) constantOrder(mask *ir.Value, drop bool) (past sym.Expr, ok bool) {
	what := map[bool]string{false: "keeps", true: "hides"}[drop]
	return s.r.about(what, mask, func() (sym.Expr, bool) { return constantOrder(mask, drop) })
}

// hidesAll is the largest number that hides a key when it is added to the key's score: its weight is 0, as with −∞, if
// another key is not hidden.
const hidesAll = -1e30

// constantOrder is order for a constant: bools, or numbers to add that are 0 or at most hidesAll.
func constantOrder(mask *ir.Value, drop bool) (past sym.Expr, ok bool) {
	shape := mask.Const.Shape()
	rank := len(shape)
	if rank < 2 || mask.Const.Len() != shape[rank-2]*shape[rank-1] || mask.Const.Len() > 1<<24 || mask.Const.Len() == 0 {
		return past, false
	}
	rows, columns := shape[rank-2], shape[rank-1]
	kept := func(i int64) (keep, legal bool) {
		if mask.Type.DType == dtype.Bool {
			return mask.Const.Int(i) != 0 != drop, true
		}
		x := mask.Const.Float(i)
		return x == 0, x == 0 || x <= hidesAll
	}
	first := int64(0)
	for first < columns {
		keep, _ := kept(first)
		if !keep {
			break
		}
		first++
	}
	if first == 0 || first == columns || rows == 1 {
		return past, false
	}
	for i := range rows {
		for j := range columns {
			if keep, legal := kept(i*columns + j); !legal || keep != (j < first+i) {
				return past, false
			}
		}
	}
	return sym.Const(first - 1), true
}

// mask joins the masks to one; nil if there is none, or if they cannot be joined.
func (s *scores) mask() *ir.Value {
	var mask *ir.Value
	for i, m := range s.keep {
		if s.drop[i] {
			m = ops.Unary(s.b, ops.Not, m)
		}
		if mask == nil {
			mask = m
		} else {
			mask = ops.Binary(s.b, ops.And, mask, m)
		}
	}
	if len(s.bias) == 0 {
		return mask
	}
	sum := s.bias[len(s.bias)-1]
	for i := len(s.bias) - 2; i >= 0; i-- {
		sum = ops.Binary(s.b, ops.Add, sum, s.bias[i])
	}
	switch {
	case mask == nil:
		return sum
	case s.fill <= hidesAll: // the sum of a score and the fill is the fill
		return ops.Where(s.b, mask, sum, ops.Scalar(s.b, sum.Type.DType, s.fill))
	}
	return nil
}

package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// counting reads a loop's condition as a comparison of two counters, as exporters write "while i < n"; each counter is
// begin + step × the iteration's number.
type counting struct {
	c     *ir.Inference
	n     *ir.Node
	body  *ir.Block
	made  map[*ir.Value]*ir.Node
	bound map[sym.Name]bool // the dimensions that the body binds
	read  []*ir.Value       // the values whose elements are those of counters
}

// counter is an integer that starts at begin and grows by step in every iteration.
type counter struct {
	begin sym.Expr
	step  int64
}

// countedTrips returns the most iterations that a loop makes before its condition ends it; ok is false if the condition
// is not a comparison of counters. It requires that the integers which bound them fit their types.
func countedTrips(c *ir.Inference, n *ir.Node) (most sym.Expr, ok bool) {
	t := counting{c: c, n: n, body: n.Regions[0], made: map[*ir.Value]*ir.Node{}, bound: boundIn(c, n)}
	for _, inner := range t.body.Nodes {
		for _, v := range inner.Outputs {
			t.made[v] = inner
		}
	}
	if most, ok = t.most(t.body.Results[0]); !ok {
		return most, false
	}
	for _, v := range t.read {
		require := func(cond sym.Cond, why string) error { return c.Require(n, cond, why) }
		if c.Settle(v, require) == nil {
			return most, false
		}
	}
	return most, true
}

// most returns the largest number of iterations in a loop whose condition is cond, computed in each: the iteration in
// which it is first false is the last.
func (t *counting) most(cond *ir.Value) (sym.Expr, bool) {
	n := t.made[cond]
	if n == nil {
		return sym.Expr{}, false
	}
	switch n.Op.Name() {
	case "reshape":
		return t.most(n.Inputs[0])
	case "and":
		a, okA := t.most(n.Inputs[0])
		b, okB := t.most(n.Inputs[1])
		switch {
		case okA && okB:
			return a.Min(b), true
		case okA:
			return a, true
		}
		return b, okB
	}
	compared, known := comparisons[n.Op.Name()]
	if !known {
		return sym.Expr{}, false
	}
	x, y := t.of(n.Inputs[compared.less]), t.of(n.Inputs[1-compared.less])
	if x == nil || y == nil || x.step <= y.step {
		return sym.Expr{}, false
	}
	// x.begin + x.step·k < y.begin + y.step·k holds for the first ⌈distance / speed⌉ numbers k.
	distance := y.begin.Sub(x.begin)
	if compared.orEqual {
		distance = distance.Add(one)
	}
	held := distance.CeilDiv(sym.Const(x.step - y.step)).Max(sym.Const(0))
	return t.c.Dims().Simplify(held.Add(one)), true
}

// comparisons are the operators that order two numbers: the index of the operand that is the lesser if the comparison
// is true.
var comparisons = map[string]struct {
	less    int
	orEqual bool
}{"lt": {0, false}, "le": {0, true}, "gt": {1, false}, "ge": {1, true}}

// of returns a value of the body as a counter; nil if it is not one. Conversions to floats are ignored: they keep the
// order.
func (t *counting) of(v *ir.Value) *counter {
	if v == t.body.Params[0] {
		return &counter{sym.Const(0), 1}
	}
	for i, p := range t.body.Params[2:] {
		if v == p {
			return t.carried(i)
		}
	}
	if n := t.made[v]; n != nil {
		switch n.Op.Name() {
		case "reshape", "cast":
			return t.of(n.Inputs[0])
		case "add":
			for k := range 2 {
				if by, ok := number(n.Inputs[1-k]); ok {
					if x := t.of(n.Inputs[k]); x != nil {
						return &counter{x.begin.Add(sym.Const(by)), x.step}
					}
				}
			}
			return nil
		}
	}
	return t.constant(v)
}

// carried returns the i-th carried value as a counter, or nil.
func (t *counting) carried(i int) *counter {
	begin := t.constant(t.n.Inputs[2+i])
	if begin == nil {
		return nil
	}
	step, v := int64(0), t.body.Results[1+i]
	for v != t.body.Params[2+i] {
		n := t.made[v]
		if n == nil {
			return nil
		}
		switch n.Op.Name() {
		case "reshape":
			v = n.Inputs[0]
		case "add":
			by, ok := number(n.Inputs[1])
			v = n.Inputs[0]
			if !ok {
				by, ok = number(n.Inputs[0])
				v = n.Inputs[1]
			}
			if !ok {
				return nil
			}
			step += by
		default:
			return nil
		}
	}
	return &counter{begin.begin, step}
}

// constant returns a value that is the same in every iteration as a counter of step 0.
func (t *counting) constant(v *ir.Value) *counter {
	elements, _ := t.c.Knows(v)
	if len(elements) != 1 {
		return nil
	}
	for _, name := range elements[0].Vars() {
		if t.bound[name] {
			return nil
		}
	}
	t.read = append(t.read, v)
	return &counter{elements[0], 0}
}

// number returns a small constant of one element; ok is false if v is none.
func number(v *ir.Value) (int64, bool) {
	if len(v.Known) != 1 {
		return 0, false
	}
	x, ok := v.Known[0].Const()
	return x, ok && x > -1<<31 && x < 1<<31
}

package loop

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// WorkOf returns the number of operations that a kernel's results need: Work if it is set, else the number that the
// loops do.
func WorkOf(k *Kernel) sym.Expr {
	if k.Work.Equal(sym.Const(0)) {
		return CostOf(k).Operations
	}
	return k.Work
}

// JoinWork returns the Work of a kernel that does the work of two.
func JoinWork(a, b *Kernel) sym.Expr {
	if none := sym.Const(0); a.Work.Equal(none) && b.Work.Equal(none) {
		return none
	}
	return WorkOf(a).Add(WorkOf(b))
}

// Done is the work that a launch executes.
type Done struct {
	Operations int64 // additions, multiplications and functions of single elements
	Slots      int64 // Operations in units of f32 throughput: a product of a narrower type is a fraction of a slot
}

// Widths are the numbers of products of a type that an instruction does in the time of one product of f32.
type Widths struct{ Bytes, BF16 int64 }

// DoneBy counts the work of a launch: each loop as often as it runs, and the side of a branch that is taken. If
// elements decide a branch, the side with less work counts; if it has one side only, that side counts. known returns
// the values of dimensions.
func DoneBy(k *Kernel, known func(sym.Name) (int64, bool), widths Widths) (Done, error) {
	for most := int64(1 << 12); ; most /= 4 {
		c := counter{values: map[sym.Name]int64{}, known: known, types: map[string]dtype.DType{}, widths: widths,
			most: max(most, 2), left: countedMost}
		for _, p := range k.Params {
			c.types[p.Name] = p.DType
		}
		c.decisive(k.Body)
		total := c.body(k.Body)
		if c.left > 0 || most <= 2 || c.err != nil {
			return Done{rounded(total[0]), rounded(total[1])}, c.err
		}
	}
}

// countedMost is the number of statements that a count visits before it visits fewer iterations of each loop.
const countedMost = 1 << 17

// rounded returns a count as an integer.
func rounded(v float64) int64 { return int64(math.Round(min(v, math.MaxInt64/2))) }

// counter counts one launch.
type counter struct {
	values map[sym.Name]int64 // of the enclosing loops' variables
	known  func(sym.Name) (int64, bool)
	types  map[string]dtype.DType
	widths Widths
	decide map[sym.Name]bool // loop variables in extents and conditions
	most   int64             // iterations of a loop that are visited
	left   int               // statements that may still be visited
	err    error
}

// decisive collects the names that decide how often a statement runs.
func (c *counter) decisive(body []Stmt) {
	c.decide = map[sym.Name]bool{}
	add := func(list ...sym.Expr) {
		for _, e := range list {
			for _, name := range e.Vars() {
				c.decide[name] = true
			}
		}
	}
	Walk(body, func(s Stmt) bool {
		switch s := s.(type) {
		case *For:
			add(s.Extent)
		case *Contract:
			add(s.M, s.N, s.K)
		case *Local:
			c.types[s.Name] = s.DType
		case *When:
			WalkExpr(s.Cond, func(e Expr) {
				if x, ok := e.(*Index); ok {
					add(x.X)
				}
			})
		}
		return true
	})
}

// value returns the value of a loop variable or of a dimension.
func (c *counter) value(name sym.Name) (int64, bool) {
	if v, ok := c.values[name]; ok {
		return v, true
	}
	return c.known(name)
}

// integer returns the value of a symbolic integer, at least 0. A checked value counts as its minimum.
func (c *counter) integer(e sym.Expr) float64 {
	v, err := e.Eval(c.value)
	if err != nil && c.err == nil {
		c.err = err
	}
	return float64(max(v, 0))
}

// counts are operations and slots.
type counts [2]float64

// plus returns a + times·b.
func (a counts) plus(b counts, times float64) counts {
	return counts{a[0] + times*b[0], a[1] + times*b[1]}
}

// body counts a list of statements.
func (c *counter) body(body []Stmt) (total counts) {
	for _, s := range body {
		if c.left--; c.left <= 0 || c.err != nil {
			return total
		}
		total = total.plus(c.statement(s), 1)
	}
	return total
}

// statement counts one statement, its bodies included.
func (c *counter) statement(s Stmt) (total counts) {
	n := float64(0)
	if _, ok := s.(*When); !ok {
		list, count := values(s)
		for _, e := range list[:count] {
			WalkExpr(e, func(e Expr) {
				if arithmetic(e) {
					n++
				}
			})
		}
	}
	total = counts{n, n}
	switch s := s.(type) {
	case *Reduce:
		total = total.plus(counts{1, 1}, 1)
	case *Contract:
		operations := 2 * c.integer(s.M) * c.integer(s.N) * c.integer(s.K)
		total = total.plus(counts{1, 1 / c.width(s)}, operations)
	case *Check:
		c.values[s.Name] = int64(c.integer(s.Min))
	case *For:
		total = total.plus(c.loop(s.Var, c.integer(s.Extent), s.Body), 1)
	case *When:
		total = total.plus(c.when(s), 1)
	}
	return total
}

// width returns the number of a product's steps that fit one slot.
func (c *counter) width(s *Contract) float64 {
	a, b := c.types[s.A.Buffer], c.types[s.B.Buffer]
	switch {
	case a.IsInt() && b.IsInt() && a.Bits() <= 8 && b.Bits() <= 8:
		return float64(max(1, c.widths.Bytes))
	case a == dtype.BF16 && b == dtype.BF16:
		return float64(max(1, c.widths.BF16))
	}
	return 1
}

// loop counts a loop. If its variable decides how often statements run, it visits every iteration, or c.most of them,
// evenly spread; otherwise one.
func (c *counter) loop(name sym.Name, extent float64, body []Stmt) (total counts) {
	if extent <= 0 {
		return total
	}
	looked := int64(1)
	if c.decide[name] {
		looked = min(int64(extent), c.most)
	}
	for i := range looked {
		at := i
		if looked > 1 && float64(looked) < extent {
			at = int64(float64(i) * (extent - 1) / float64(looked-1))
		}
		c.values[name] = at
		total = total.plus(c.body(body), extent/float64(looked))
	}
	delete(c.values, name)
	return total
}

// when counts a branch.
func (c *counter) when(s *When) counts {
	if v, ok := c.test(s.Cond); ok {
		if v != 0 {
			return c.body(s.Then)
		}
		return c.body(s.Else)
	}
	then, otherwise := c.body(s.Then), c.body(s.Else)
	if len(s.Else) == 0 || len(s.Then) > 0 && then[1] < otherwise[1] {
		return then
	}
	return otherwise
}

// test returns the value of a condition; ok is false if it depends on elements or has another form.
func (c *counter) test(e Expr) (v int64, ok bool) {
	switch e := e.(type) {
	case *Const:
		return int64(e.Bits), e.Type == dtype.Bool || e.Type == dtype.I64
	case *Index:
		x, err := e.X.Eval(c.value)
		return x, err == nil
	case *Unary:
		x, ok := c.test(e.X)
		return x ^ 1, ok && e.Op == Not
	case *Binary:
		x, left := c.test(e.X)
		y, right := c.test(e.Y)
		if !left || !right {
			// One side may decide alone.
			sure := left && (e.Op == And && x == 0 || e.Op == Or && x != 0)
			return x, sure
		}
		holds := func(b bool) (int64, bool) {
			if b {
				return 1, true
			}
			return 0, true
		}
		switch e.Op {
		case And:
			return x & y, true
		case Or:
			return x | y, true
		case Eq:
			return holds(x == y)
		case Ne:
			return holds(x != y)
		case Lt:
			return holds(x < y)
		case Le:
			return holds(x <= y)
		case Gt:
			return holds(x > y)
		case Ge:
			return holds(x >= y)
		}
	}
	return 0, false
}

// arithmetic reports whether an expression counts as an operation: comparisons, choices and conversions do not.
func arithmetic(e Expr) bool {
	switch e := e.(type) {
	case *Unary:
		return e.DType() != dtype.Bool
	case *Binary:
		return e.DType() != dtype.Bool
	}
	return false
}

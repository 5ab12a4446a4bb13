package schedule

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// usual is the value of an unknown dimension in estimates.
const usual = 64

// guess returns a likely value of an expression: dimensions have the usual value, within their ranges, and loop
// variables are 0.
func (s *scheduler) guess(e sym.Expr) float64 {
	v, err := e.Eval(func(name sym.Name) (int64, bool) {
		r, ok := s.dims.Get(name)
		if !ok && slices.Contains(s.free, name) {
			return usual, true
		} else if !ok {
			return 0, true
		}
		return min(max(usual, r.Min), r.Max), true
	})
	if err != nil {
		return usual
	}
	return float64(v)
}

// trips guesses the number of iterations of a loop in a kernel. A value that a check names, which only a run decides,
// has the usual value, within its bounds.
func (s *scheduler) trips(k *loop.Kernel, f *loop.For) float64 {
	var bounds map[sym.Name]sym.Expr // nil for most loops
	for _, name := range f.Extent.Vars() {
		if _, known := s.dims.Get(name); known || slices.Contains(k.Dims, name) {
			continue
		}
		loop.Walk(k.Body, func(stmt loop.Stmt) bool {
			if c, ok := stmt.(*loop.Check); ok && c.Name == name {
				if bounds == nil {
					bounds = map[sym.Name]sym.Expr{}
				}
				bounds[name] = sym.Const(max(int64(min(usual, s.guess(c.Max))), int64(s.guess(c.Min))))
			}
			return true
		})
	}
	if bounds == nil {
		return s.guess(f.Extent)
	}
	return s.guess(f.Extent.Subst(func(name sym.Name) (sym.Expr, bool) { e, is := bounds[name]; return e, is }))
}

// costs are rough times in nanoseconds. They choose between forms of one kernel, so ratios matter.
type costs struct {
	scalar        float64 // an operation outside vector loops
	strip         float64 // starting an operation on a strip
	each          float64 // an operation in one lane
	unit          float64 // a load or store of one lane, contiguous
	strided       float64 // the same, with a stride
	odd           float64 // the same, at an index that is not linear
	function      float64 // a transcendental function, added to operation
	lanes         float64 // of a strip, at most
	product       float64 // a product's multiplication or addition
	operand       float64 // an element of a product's operands
	half          float64 // a load or store of f16 or bf16, contiguous, added to unit
	quotient      float64 // a quotient or a remainder of symbolic integers outside vector loops
	stripQuotient float64 // a quotient or a remainder in a strip, as a number of operations
	across        float64 // combining the lanes of a reduction
	smallStride   float64 // a load of one lane, of 32 bits, with a stride of two to four elements
	group         float64 // a group of products
	sum           float64 // beginning and storing a sum of products
}

// portableCosts are for the portable generator, whose strips are long since each operation on one is a call.
// registerCosts are for machine code, whose strips are registers: an operation on one takes as long as one on a scalar,
// and only strided elements are expensive.
var (
	portableCosts = costs{scalar: 5, strip: 12, each: 0.4, unit: 0.2, strided: 1.2, odd: 25, function: 6, lanes: 512,
		product: 0.11, operand: 0.7, half: 1, group: 200, sum: 0.5}
	registerCosts = costs{scalar: 0.4, strip: 0.4, strided: 0.6, odd: 0.6, function: 0.5, product: 0.11, operand: 0.7,
		quotient: 4, stripQuotient: 6, across: 8, smallStride: 0.1, group: 200, sum: 0.5}
)

// expensive has the functions that take many instructions.
var expensive = map[loop.UnaryOp]bool{loop.Exp: true, loop.Log: true, loop.Log1p: true, loop.Expm1: true,
	loop.Sin: true,
	loop.Cos: true, loop.Tan: true,
	loop.Asin: true, loop.Acos: true, loop.Atan: true, loop.Sinh: true, loop.Cosh: true, loop.Tanh: true, loop.Asinh: true,
	loop.Acosh: true, loop.Atanh: true,
	loop.Erf: true, loop.Sigmoid: true}

// fewSteps is the largest K of a contraction that counts as one group of bytes.
const fewSteps = 4

// coster estimates the time of statements with one of their loops as the vector loop, or none.
type coster struct {
	*scheduler
	costs
	kernel  *loop.Kernel
	tile    float64  // target time of a tile
	large   float64  // iterations longer than this are cut further inside
	wanted  int64    // tiles, as far as dimensions decide: for fewer, loops inside shorter iterations are tiles too
	lane    sym.Name // the vector loop's variable
	inner   sym.Name // the innermost loop's variable
	filled  float64  // average number of used lanes of a strip
	whole   bool     // strips are taken to be full
	varying map[sym.Name]bool
	shapes  map[string]*loop.Param // of parameters and locals
	known   map[accessKey]sym.Expr // cache of the offsets of accesses; nil while accesses are rewritten
}

// accessKey identifies an access: a buffer, and the address of its index.
type accessKey struct {
	buffer string
	index  *sym.Expr
}

// offset returns the offset of an access in its buffer, in elements.
func (c *coster) offset(p *loop.Param, index []sym.Expr) sym.Expr {
	if c.known == nil || len(index) == 0 {
		return c.offsets.Of(p, index)
	}
	key := accessKey{p.Name, &index[0]}
	offset, found := c.known[key]
	if !found {
		offset = c.offsets.Of(p, index)
		c.known[key] = offset
	}
	return offset
}

// coster returns a coster for a kernel, without a vector loop.
func (s *scheduler) coster(k *loop.Kernel) *coster {
	c := &coster{scheduler: s, costs: portableCosts, kernel: k, tile: tileTime, large: largeTile,
		shapes: map[string]*loop.Param{}}
	if s.registerTiles() {
		c.costs = registerCosts
		c.lanes = float64(s.machine.VectorBytes / 4)
	}
	for _, p := range k.Params {
		c.shapes[p.Name] = p
	}
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		if l, ok := s.(*loop.Local); ok {
			c.shapes[l.Name] = &loop.Param{Name: l.Name, DType: l.DType, Shape: l.Shape}
		}
		return true
	})
	return c
}

// as returns a coster with f as the vector loop.
func (c *coster) as(f *loop.For) *coster {
	v := *c
	extent := max(c.guess(f.Extent), 1)
	v.lane, v.inner, v.filled, v.varying = f.Var, f.Var, extent/math.Ceil(extent/c.lanes), map[sym.Name]bool{f.Var: true}
	if c.whole {
		v.filled = c.lanes
	}
	return &v
}

// of returns the time of statements for one iteration of the enclosing loops; inside the vector loop, for one lane.
func (c *coster) of(body []loop.Stmt) float64 {
	total := 0.0
	for _, s := range body {
		total += c.statement(s)
	}
	return total
}

// statement returns the time of a statement and the statements inside it.
func (c *coster) statement(s loop.Stmt) float64 {
	total := 0.0
	for _, e := range loop.Values(s) {
		cost, varies := c.value(e)
		total += cost
		if !c.lane.None() && varies {
			switch s := s.(type) {
			case *loop.Let:
				c.varying[scalar(s.Name)] = true
			case *loop.Check:
				c.varying[s.Name] = true
			}
		}
	}
	switch s := s.(type) {
	case *loop.Var:
		if !c.lane.None() {
			c.varying[scalar(s.Name)] = true
		}
		total += c.operation(!c.lane.None())
	case *loop.Set, *loop.Reduce:
		total += c.operation(!c.lane.None())
	case *loop.Store:
		cost, _ := c.access(s.To, s.Index, false)
		total += cost
	case *loop.For:
		n := max(c.trips(c.kernel, s), 0)
		if _, known := s.Extent.Const(); !known {
			n = max(n, 1) // an extent guessed as 0 may be larger: its body must be scheduled too
		}
		if s.Kind == loop.Vector && c.lane.None() {
			return total + n*c.as(s).of(s.Body) + c.across*reduced(s.Body)
		}
		defer func(outer sym.Name) { c.inner = outer }(c.inner)
		c.inner = s.Var
		each := c.scalar / 2.0
		if !c.lane.None() {
			each = c.strip / 2 / c.filled
		}
		total += n * (each + c.of(s.Body))
	case *loop.When:
		then := c.of(s.Then)
		if loop.ReadsMemory(s.Cond) {
			then /= 16 // a rare case
		}
		total += max(then, c.of(s.Else))
	case *loop.Contract:
		m, n, k := c.guess(s.M), c.guess(s.N), c.guess(s.K)
		if k > fewSteps {
			total += c.group
		}
		total += 2*m*n*k*c.product + (m*k+n*k)*c.operand + m*n*c.sum
	}
	return total
}

// reduced returns the number of variables from outside a vector loop's body into which it may reduce.
func reduced(body []loop.Stmt) float64 {
	declared, names := map[string]bool{}, map[string]bool{}
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Var:
			declared[s.Name] = true
		case *loop.Reduce:
			names[s.Name] = !declared[s.Name]
		}
		return true
	})
	count := 0.0
	for _, outside := range names {
		if outside {
			count++
		}
	}
	return count
}

// arithmetic returns the time of the quotients, remainders and bounds in an integer, as far as the innermost loop
// changes them: others are computed further out.
func (c *coster) arithmetic(x sym.Expr) float64 {
	if c.quotient == 0 || x.Multilinear() {
		return 0
	}
	total := 0.0
	_, terms := x.Terms()
	for _, t := range terms {
		for _, f := range t.Factors {
			if f.Kind == sym.Variable || !c.inner.None() && !slices.Contains(f.Expr().Vars(), c.inner) {
				continue
			}
			total += c.integerFunction(f)
			for _, a := range f.Args {
				total += c.arithmetic(a)
			}
		}
	}
	return total
}

// integerFunction returns the time of one quotient, remainder or bound.
func (c *coster) integerFunction(f sym.Factor) float64 {
	varies := c.differs(f.Expr())
	switch f.Kind {
	case sym.FloorQuotient, sym.CeilQuotient, sym.Remainder:
		if v, ok := f.Args[1].Const(); ok && v > 0 && v&(v-1) == 0 {
			return c.operation(varies)
		} else if varies {
			return c.stripQuotient * c.operation(true)
		}
		return c.quotient / max(c.filled, 1)
	}
	return c.operation(varies) * float64(len(f.Args))
}

// operation returns the time of one function, on lanes or on a uniform value.
func (c *coster) operation(varies bool) float64 {
	switch {
	case c.lane.None():
		return c.scalar
	case varies:
		return c.each + c.strip/c.filled
	}
	return c.scalar / c.filled
}

// value returns the time of an expression, and whether it varies by lane.
func (c *coster) value(e loop.Expr) (cost float64, varies bool) {
	for _, x := range loop.Operands(e) {
		more, v := c.value(x)
		cost += more
		varies = varies || v
	}
	switch e := e.(type) {
	case *loop.Ref:
		varies = c.varying[scalar(e.Name)]
	case *loop.Index:
		varies = c.differs(e.X)
		cost += c.operation(varies) + c.arithmetic(e.X)
	case *loop.Load:
		more, v := c.access(e.From, e.Index, true)
		cost += more
		varies = varies || v
	case *loop.Unary:
		cost += c.operation(varies)
		if expensive[e.Op] {
			if varies || c.lane.None() {
				cost += c.function
			} else {
				cost += c.function / c.filled
			}
		}
	case *loop.Binary:
		if cheap, ok := c.interval(e, varies); ok {
			return cheap, varies
		}
		cost += c.operation(varies)
	case *loop.Select, *loop.Cast:
		cost += c.operation(varies)
	}
	return cost, varies
}

// interval returns the time of a condition that holds for one interval of lanes, which costs nothing per lane: a
// comparison of integers, or a conjunction of such conditions. ok is false for other conditions.
func (c *coster) interval(e *loop.Binary, varies bool) (float64, bool) {
	if c.lane.None() || !varies {
		return 0, false
	}
	_, left := e.X.(*loop.Index)
	_, right := e.Y.(*loop.Index)
	switch {
	case left && right && e.Op != loop.Eq && e.Op != loop.Ne:
		return c.strip / c.filled, true
	case e.Op == loop.And && e.DType() == dtype.Bool:
		x, _ := c.value(e.X)
		y, _ := c.value(e.Y)
		return x + y + c.strip/4/c.filled, true
	}
	return 0, false
}

// differs reports whether an integer varies by lane.
func (c *coster) differs(e sym.Expr) bool {
	if c.lane.None() {
		return false
	}
	for _, name := range e.Vars() {
		if c.varying[name] {
			return true
		}
	}
	return false
}

// access returns the time of a load or a store, and whether it varies by lane.
func (c *coster) access(buffer string, index []sym.Expr, read bool) (float64, bool) {
	p := c.shapes[buffer]
	if p == nil {
		bug(c.kernel, "no buffer is named "+buffer)
	}
	offset := c.offset(p, index)
	if c.lane.None() {
		return c.scalar + c.arithmetic(offset), false
	}
	if !c.differs(offset) {
		return c.scalar/c.filled + c.arithmetic(offset), false
	}
	step, rest, ok := offset.Linear(c.lane)
	converted := 0.0
	if p.DType.Bits() < 8 || p.DType.Bits() == 8 && p.DType.IsFloat() {
		converted = 5
	} else if p.DType == dtype.F16 || p.DType == dtype.BF16 {
		converted = c.half + c.strip/c.filled
	}
	switch {
	case !ok || c.differs(step) || c.differs(rest):
		return c.odd + c.strip/c.filled + c.arithmetic(offset), true
	case isOne(step):
		return c.unit + converted + c.strip/2/c.filled, true
	}
	if by, ok := step.Const(); ok && read && c.smallStride > 0 && p.DType.Bits() == 32 && -4 <= by && by <= 4 {
		return c.smallStride + 2*c.strip/c.filled, true
	}
	return c.strided + converted + c.strip/c.filled, true
}

package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// usual is what an unknown dimension counts as in estimates.
const usual = 64

// guess is a likely value of an expression: dimensions at the usual size within their ranges, loop variables at 0.
func (s *scheduler) guess(e sym.Expr) float64 {
	v, err := e.Eval(func(name string) (int64, bool) {
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

// Costs in nanoseconds, of the portable generator, roughly. They choose between forms of one kernel, so ratios matter.
const (
	scalarCost  = 5    // an operation outside vector loops
	stripCost   = 12   // of starting an operation on a strip
	laneCost    = 0.4  // an operation in one lane
	unitCost    = 0.2  // a load or store of one lane, element after element
	stridedCost = 1.2  // the same, elements apart
	oddCost     = 25   // the same, at an index that is not linear
	functionTax = 6    // a transcendental function, in addition
	contractTax = 0.11 // a product's multiplication or addition
	stripLanes  = 512
)

var dear = map[loop.UnaryOp]bool{loop.Exp: true, loop.Log: true, loop.Log1p: true, loop.Expm1: true, loop.Sin: true, loop.Cos: true, loop.Tan: true,
	loop.Asin: true, loop.Acos: true, loop.Atan: true, loop.Sinh: true, loop.Cosh: true, loop.Tanh: true, loop.Asinh: true, loop.Acosh: true, loop.Atanh: true,
	loop.Erf: true, loop.Sigmoid: true}

// coster estimates the time of statements, with one loop of them as the vector loop (or none).
type coster struct {
	*scheduler
	kernel  *loop.Kernel
	lane    string  // the vector loop's variable
	lanes   float64 // of a strip
	varying map[string]bool
	shapes  map[string]*loop.Param // of parameters and locals
}

func (s *scheduler) coster(k *loop.Kernel) *coster {
	c := &coster{scheduler: s, kernel: k, shapes: map[string]*loop.Param{}}
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

// as is the coster with a vector loop.
func (c *coster) as(f *loop.For) *coster {
	v := *c
	v.lane, v.lanes, v.varying = f.Var, max(min(c.guess(f.Extent), stripLanes), 1), map[string]bool{f.Var: true}
	return &v
}

// of is the time of statements in one iteration of what is around them; inside the vector loop, of one lane.
func (c *coster) of(body []loop.Stmt) float64 {
	total := 0.0
	for _, s := range body {
		total += c.statement(s)
	}
	return total
}

func (c *coster) statement(s loop.Stmt) float64 {
	total := 0.0
	for _, e := range loop.Values(s) {
		cost, varies := c.value(e)
		total += cost
		if c.lane != "" && varies {
			switch s := s.(type) {
			case *loop.Let:
				c.varying[s.Name] = true
			case *loop.Check:
				c.varying[s.Name] = true
			}
		}
	}
	switch s := s.(type) {
	case *loop.Var:
		if c.lane != "" {
			c.varying[s.Name] = true
		}
		total += c.operation(c.lane != "")
	case *loop.Set, *loop.Reduce:
		total += c.operation(c.lane != "")
	case *loop.Store:
		cost, _ := c.access(s.To, s.Index)
		total += cost
	case *loop.For:
		n := max(c.guess(s.Extent), 0)
		if s.Kind == loop.Vector && c.lane == "" {
			return total + n*c.as(s).of(s.Body)
		}
		each := scalarCost / 2.0
		if c.lane != "" {
			each = stripCost / 2 / c.lanes
		}
		total += n * (each + c.of(s.Body))
	case *loop.When:
		total += max(c.of(s.Then), c.of(s.Else))
	case *loop.Contract:
		m, n, k := c.guess(s.M), c.guess(s.N), c.guess(s.K)
		total += 200 + 2*m*n*k*contractTax + (m*k+n*k)*0.7 + m*n*0.5
	}
	return total
}

// operation is the time of one function, of lanes or of a uniform value.
func (c *coster) operation(varies bool) float64 {
	switch {
	case c.lane == "":
		return scalarCost
	case varies:
		return laneCost + stripCost/c.lanes
	}
	return scalarCost / c.lanes
}

func (c *coster) value(e loop.Expr) (cost float64, varies bool) {
	for _, x := range loop.Operands(e) {
		more, v := c.value(x)
		cost += more
		varies = varies || v
	}
	switch e := e.(type) {
	case *loop.Ref:
		varies = c.varying[e.Name]
	case *loop.Index:
		varies = c.differs(e.X)
		cost += c.operation(varies)
	case *loop.Load:
		more, v := c.access(e.From, e.Index)
		cost += more
		varies = varies || v
	case *loop.Unary:
		cost += c.operation(varies)
		if dear[e.Op] {
			if varies || c.lane == "" {
				cost += functionTax
			} else {
				cost += functionTax / c.lanes
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

// interval is the time of a condition that holds in one run of lanes, which costs nothing per lane: a comparison of
// integers, or a conjunction of conditions.
func (c *coster) interval(e *loop.Binary, varies bool) (float64, bool) {
	if c.lane == "" || !varies {
		return 0, false
	}
	_, left := e.X.(*loop.Index)
	_, right := e.Y.(*loop.Index)
	switch {
	case left && right && e.Op != loop.Eq && e.Op != loop.Ne:
		return stripCost / c.lanes, true
	case e.Op == loop.And && e.DType() == dtype.Bool:
		x, _ := c.value(e.X)
		y, _ := c.value(e.Y)
		return x + y + stripCost/4/c.lanes, true
	}
	return 0, false
}

// differs reports whether an integer has a value of its own in each lane.
func (c *coster) differs(e sym.Expr) bool {
	if c.lane == "" {
		return false
	}
	for _, name := range e.Vars() {
		if c.varying[name] {
			return true
		}
	}
	return false
}

// access is the time of a load or a store, and whether it differs by lane.
func (c *coster) access(buffer string, index []sym.Expr) (float64, bool) {
	if c.lane == "" {
		return scalarCost, false
	}
	p := c.shapes[buffer]
	if p == nil {
		bug(c.kernel, "no buffer is named "+buffer)
	}
	offset := p.Offset(index)
	if !c.differs(offset) {
		return scalarCost / c.lanes, false
	}
	step, rest, ok := offset.Linear(c.lane)
	converted := 0.0
	if p.DType.Bits() < 8 || p.DType.Bits() == 8 && p.DType.IsFloat() {
		converted = 5
	} else if p.DType == dtype.F16 || p.DType == dtype.BF16 {
		converted = 1
	}
	switch {
	case !ok || c.differs(step):
		return oddCost, true
	case c.differs(rest):
		return stridedCost*2 + stripCost/c.lanes, true
	case isOne(step):
		return unitCost + converted + stripCost/2/c.lanes, true
	}
	return stridedCost + converted + stripCost/c.lanes, true
}

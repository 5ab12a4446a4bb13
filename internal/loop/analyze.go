package loop

import (
	"iter"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// ScratchAlign is the alignment, in bytes, of every local in a worker's scratch.
const ScratchAlign = 64

// RowMajor returns the strides, in elements, of a row-major buffer. They are 0 if an extent is the number 0: the
// product of the others may be of any size.
func RowMajor(shape []sym.Expr) []sym.Expr {
	strides := make([]sym.Expr, len(shape))
	step := sym.Const(1)
	if slices.ContainsFunc(shape, func(e sym.Expr) bool { return e.Equal(sym.Expr{}) }) {
		step = sym.Expr{}
	}
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = step
		step = step.Mul(shape[i])
	}
	return strides
}

// Offset returns the position of the element at index, in elements from the buffer's first one. Strides nil means
// row-major. Quotients and remainders that split one loop variable over contiguous axes are joined again.
func Offset(index, shape, strides []sym.Expr) sym.Expr {
	total := offset(index, shape, strides)
	if !total.Multilinear() {
		return sym.NewDims().Simplify(total)
	}
	return total
}

// offset is Offset without joining quotients and remainders.
func offset(index, shape, strides []sym.Expr) sym.Expr {
	if strides == nil {
		strides = RowMajor(shape)
	}
	terms := make([]sym.Expr, len(index))
	for i := range index {
		terms[i] = index[i].Mul(strides[i])
	}
	return sym.Sum(terms...)
}

// Offsets caches offsets for callers that ask for the same ones repeatedly. It is not safe for concurrent use.
type Offsets struct{ known map[string]sym.Expr }

// Of returns p.Offset(index).
func (o *Offsets) Of(p *Param, index []sym.Expr) sym.Expr {
	total := offset(index, p.Shape, p.Strides)
	if total.Multilinear() {
		return total
	}
	key := total.Key()
	simple, ok := o.known[key]
	if !ok {
		if simple = sym.NewDims().Simplify(total); o.known == nil || len(o.known) >= mostOffsets {
			o.known = map[string]sym.Expr{}
		}
		o.known[key] = simple
	}
	return simple
}

// mostOffsets is the largest number of offsets that are cached.
const mostOffsets = 1 << 12

// Offset returns the position of the element at index, in elements from the parameter's first one.
func (p *Param) Offset(index []sym.Expr) sym.Expr { return Offset(index, p.Shape, p.Strides) }

// Bytes returns the size in bytes of a row-major buffer. A negative extent counts as 0.
func Bytes(dt dtype.DType, shape []sym.Expr) sym.Expr {
	size := sym.Const(int64(dt.Bits()))
	for _, extent := range shape {
		if n, ok := extent.Const(); !ok || n < 0 {
			extent = extent.Max(sym.Const(0))
		}
		size = size.Mul(extent)
	}
	return size.CeilDiv(sym.Const(8))
}

// LocalOffset is a local and its offset in a worker's scratch, in bytes.
type LocalOffset struct {
	Local  *Local
	Offset sym.Expr
}

// Locals returns a kernel's locals in their printed order, each with its offset in the worker's scratch. A local keeps
// its memory to the end of the body that declares it; bodies that are never active together share memory. All code
// generators use these offsets, and Scratch relies on them.
func Locals(k *Kernel) []LocalOffset {
	locals, _ := localsOf(k.Body, sym.Const(0))
	return locals
}

// Scratch returns the bytes that one worker needs for a kernel's locals: the end of the highest one.
func Scratch(k *Kernel) sym.Expr {
	_, end := localsOf(k.Body, sym.Const(0))
	return end
}

// localsOf gives the locals of body offsets from start on, and returns them and the end of the highest one, in bytes.
func localsOf(body []Stmt, start sym.Expr) (locals []LocalOffset, end sym.Expr) {
	at, end := start, start
	for _, s := range body {
		if l, ok := s.(*Local); ok {
			align := sym.Const(ScratchAlign)
			at = at.CeilDiv(align).Mul(align)
			locals = append(locals, LocalOffset{l, at})
			at = at.Add(Bytes(l.DType, l.Shape))
			end = end.Max(at)
		}
		for _, inner := range Bodies(s) {
			more, high := localsOf(*inner, at)
			locals = append(locals, more...)
			end = end.Max(high)
		}
	}
	return locals, end
}

// FreeDims returns the kernel's dimensions, sorted: the names that its symbolic integers use and nothing in it
// declares.
func FreeDims(k *Kernel) []sym.Name {
	bound := map[sym.Name]bool{}
	for _, name := range integerNames(k.Body) {
		bound[name] = true
	}
	free := map[sym.Name]bool{}
	visit := func(e sym.Expr) {
		for _, name := range e.Vars() {
			if !bound[name] {
				free[name] = true
			}
		}
	}
	for _, p := range k.Params {
		for _, e := range append(p.Shape[:len(p.Shape):len(p.Shape)], p.Strides...) {
			visit(e)
		}
	}
	for _, e := range k.Meaning.integers() {
		visit(e)
	}
	WalkIntegers(k.Body, visit)
	return sym.Sorted(free)
}

// integers returns the symbolic integers among a meaning's attributes; m may be nil.
func (m *Meaning) integers() (list []sym.Expr) {
	if m == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(m.Attrs)) {
		switch v := m.Attrs[name].(type) {
		case sym.Expr:
			list = append(list, v)
		case []sym.Expr:
			list = append(list, v...)
		}
	}
	return list
}

// integerNames returns the loop variables and checked values that body declares, in their printed order.
func integerNames(body []Stmt) []sym.Name {
	var names []sym.Name
	Walk(body, func(s Stmt) bool {
		switch s := s.(type) {
		case *For:
			names = append(names, s.Var)
		case *Check:
			names = append(names, s.Name)
		}
		return true
	})
	return names
}

// Touches is one access of a statement or an expression to a buffer.
type Touches struct {
	Buffer string
	Write  bool       // a Store, or the C of a Contract (which reads too)
	Index  []sym.Expr // of a Load or Store; the origin of a Tile
	Tile   *Tile      // of a Contract
	Rows   sym.Expr   // of the Tile
	Cols   sym.Expr   // of the Tile
	Mask   Expr       // of a masked Load or Store
	Loops  []*For     // the enclosing loops, outermost first
	Stmt   Stmt       // the statement of the access
}

// Accesses returns every access to a buffer in body, in printed order, a statement's loads before its store.
func Accesses(body []Stmt) []Touches { return slices.Collect(EachAccess(body)) }

// EachAccess is Accesses without the list, for loops that do not change body.
func EachAccess(body []Stmt) iter.Seq[Touches] {
	return func(yield func(Touches) bool) { accesses(body, nil, yield) }
}

// accesses yields the accesses in body, and reports whether yield wants more; loops are those around body, outermost
// first.
func accesses(body []Stmt, loops []*For, yield func(Touches) bool) bool {
	for _, s := range body {
		list, n := values(s)
		for _, e := range list[:n] {
			if !loads(e, s, loops, yield) {
				return false
			}
		}
		switch s := s.(type) {
		case *Store:
			if !yield(Touches{Buffer: s.To, Write: true, Index: s.Index, Mask: s.Mask, Loops: loops, Stmt: s}) {
				return false
			}
		case *Contract:
			tile := func(t *Tile, rows, cols sym.Expr, write bool) bool {
				return yield(Touches{Buffer: t.Buffer, Write: write, Index: t.Origin, Tile: t, Rows: rows, Cols: cols,
					Loops: loops, Stmt: s})
			}
			if !tile(&s.A, s.M, s.K, false) || !tile(&s.B, s.K, s.N, false) || !tile(&s.C, s.M, s.N, true) {
				return false
			}
		case *For:
			if !accesses(s.Body, append(loops[:len(loops):len(loops)], s), yield) {
				return false
			}
		case *When:
			if !accesses(s.Then, loops, yield) || !accesses(s.Else, loops, yield) {
				return false
			}
		}
	}
	return true
}

// loads yields the loads in an expression of a statement.
func loads(e Expr, of Stmt, loops []*For, yield func(Touches) bool) bool {
	if l, ok := e.(*Load); ok && !yield(Touches{Buffer: l.From, Index: l.Index, Mask: l.Mask, Loops: loops, Stmt: of}) {
		return false
	}
	inside, n := operands(e)
	for _, x := range inside[:n] {
		if !loads(x, of, loops, yield) {
			return false
		}
	}
	return true
}

// Cost estimates the work of a kernel, over its dimensions. If a loop's extent depends on outer variables, the larger
// of its values at the two ends of their ranges counts. The dearer body of a branch counts; if elements decide the
// branch and it has both bodies, the cheaper counts.
type Cost struct {
	// Operations counts arithmetic and functions of elements, without comparisons, choices and conversions; a Contract
	// counts two for each product.
	Operations sym.Expr
	Read       sym.Expr // bytes loaded from parameters, counting each load
	Written    sym.Expr // bytes stored to parameters
	Footprint  sym.Expr // bytes of the parameters, counting each once
}

// CostOf estimates a kernel's cost.
func CostOf(k *Kernel) Cost {
	c := coster{widths: map[string]int64{}}
	zero := sym.Const(0)
	footprint := zero
	for _, p := range k.Params {
		c.widths[p.Name] = int64(p.DType.Bits())
		footprint = footprint.Add(Bytes(p.DType, p.Shape))
	}
	t := c.body(k.Body)
	eight := sym.Const(8)
	return Cost{Operations: t[0], Read: t[1].CeilDiv(eight), Written: t[2].CeilDiv(eight), Footprint: footprint}
}

// tally counts operations, bits read and bits written.
type tally [3]sym.Expr

// add returns the sum of two tallies.
func (t tally) add(u tally) tally {
	for i := range t {
		t[i] = t[i].Add(u[i])
	}
	return t
}

// coster estimates costs; widths are the bits of the parameters' elements.
type coster struct{ widths map[string]int64 }

// body sums from the end, so that the bound of a checked name replaces it at its Check.
func (c *coster) body(body []Stmt) (total tally) {
	for i := len(body) - 1; i >= 0; i-- {
		if s, ok := body[i].(*Check); ok {
			for j, e := range total {
				total[j] = ends(e, s.Name, s.Min, s.Max)
			}
		}
		total = total.add(c.statement(body[i]))
	}
	return total
}

// statement returns the cost of one statement, its bodies included.
func (c *coster) statement(s Stmt) (total tally) {
	for _, e := range Values(s) {
		WalkExpr(e, func(e Expr) {
			if l, ok := e.(*Load); ok {
				total[1] = total[1].Add(sym.Const(c.widths[l.From]))
			} else if arithmetic(e) {
				total[0] = total[0].Add(sym.Const(1))
			}
		})
	}
	switch s := s.(type) {
	case *Reduce:
		total[0] = total[0].Add(sym.Const(1))
	case *Store:
		total[2] = total[2].Add(sym.Const(c.widths[s.To]))
	case *Contract:
		product := func(width int64, extents ...sym.Expr) sym.Expr {
			return sym.Product(append(extents, sym.Const(width))...)
		}
		total[0] = total[0].Add(product(2, s.M, s.N, s.K))
		total[1] = sym.Sum(total[1], product(c.widths[s.A.Buffer], s.M, s.K), product(c.widths[s.B.Buffer], s.K, s.N),
			product(c.widths[s.C.Buffer], s.M, s.N))
		total[2] = total[2].Add(product(c.widths[s.C.Buffer], s.M, s.N))
	case *When:
		then, otherwise := c.body(s.Then), c.body(s.Else)
		for i := range then {
			switch {
			case len(s.Else) == 0 || len(s.Then) == 0 || !ofElements(s.Cond):
				otherwise[i] = then[i].Max(otherwise[i])
			default:
				otherwise[i] = then[i].Min(otherwise[i])
			}
			total[i] = total[i].Add(otherwise[i])
		}
	case *For:
		inside := c.body(s.Body)
		last := s.Extent.Sub(sym.Const(1))
		for i, e := range inside {
			total[i] = total[i].Add(s.Extent.Max(sym.Const(0)).Mul(ends(e, s.Var, sym.Const(0), last)))
		}
	}
	return total
}

// ReadsMemory reports whether an expression loads an element. A branch with such a condition is assumed to be rare:
// estimates count the other one.
func ReadsMemory(e Expr) (reads bool) {
	WalkExpr(e, func(e Expr) {
		_, load := e.(*Load)
		reads = reads || load
	})
	return reads
}

// ofElements reports whether a condition may depend on elements: it loads one or uses a scalar.
func ofElements(e Expr) (of bool) {
	WalkExpr(e, func(e Expr) {
		_, scalar := e.(*Ref)
		of = of || scalar
	})
	return of || ReadsMemory(e)
}

// ends returns the larger of e's values at name = low and at name = high; e itself if it does not use name.
func ends(e sym.Expr, name sym.Name, low, high sym.Expr) sym.Expr {
	if !slices.Contains(e.Vars(), name) {
		return e
	}
	at := func(v sym.Expr) sym.Expr {
		return e.Subst(func(n sym.Name) (sym.Expr, bool) { return v, n == name })
	}
	return at(low).Max(at(high))
}

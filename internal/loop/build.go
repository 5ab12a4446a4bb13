package loop

import (
	"fmt"
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// Builder writes a kernel. Names given to it are hints: it makes them unique.
type Builder struct {
	Kernel *Kernel
	body   *[]Stmt
	taken  map[sym.Name]int
}

// Memory is a buffer as a builder's user sees it: a parameter of the kernel, or a local.
type Memory struct {
	Name  string
	DType dtype.DType
	Shape []sym.Expr
}

// NewBuilder begins an empty kernel.
func NewBuilder(name string) *Builder {
	k := &Kernel{Name: name}
	return &Builder{Kernel: k, body: &k.Body, taken: map[sym.Name]int{}}
}

// name returns a unique name for a buffer or a scalar. Names of integers (see bound) are different too.
func (b *Builder) name(hint string) string { return b.bound(hint).Text() }

// bound returns a unique name for a loop variable or a checked integer.
func (b *Builder) bound(hint string) sym.Name {
	if hint == "" {
		hint = "v"
	}
	name := sym.Bound(hint)
	count := b.taken[name]
	b.taken[name] = count + 1
	if count == 0 {
		return name
	}
	return b.bound(fmt.Sprintf("%s_%d", hint, count))
}

// Finish sets the kernel's dimensions to the names that nothing in it declares, sorted, and returns it.
func (b *Builder) Finish() *Kernel {
	b.Kernel.Dims = FreeDims(b.Kernel)
	return b.Kernel
}

// Param adds a parameter.
func (b *Builder) Param(hint string, access Access, dt dtype.DType, shape []sym.Expr) *Memory {
	m := &Memory{Name: b.name(hint), DType: dt, Shape: shape}
	b.Kernel.Params = append(b.Kernel.Params, &Param{Name: m.Name, Access: access, DType: dt, Shape: shape})
	return m
}

// Local adds a local buffer to the body under construction.
func (b *Builder) Local(hint string, dt dtype.DType, shape ...sym.Expr) *Memory {
	m := &Memory{Name: b.name(hint), DType: dt, Shape: shape}
	b.add(&Local{Name: m.Name, DType: dt, Shape: shape})
	return m
}

// Append adds statements that were built elsewhere. The names that they declare must not be used in the kernel.
func (b *Builder) Append(list ...Stmt) { *b.body = append(*b.body, list...) }

// add appends a statement to the body under construction.
func (b *Builder) add(s Stmt) { *b.body = append(*b.body, s) }

// inside runs write while body is the body under construction.
func (b *Builder) inside(body *[]Stmt, write func()) {
	outer := b.body
	b.body = body
	write()
	b.body = outer
}

// For adds a loop.
func (b *Builder) For(kind LoopKind, hint string, extent sym.Expr, body func(i sym.Expr)) {
	f := &For{Kind: kind, Var: b.bound(hint), Extent: extent}
	b.add(f)
	b.inside(&f.Body, func() { body(sym.Var(f.Var)) })
}

// Each adds a loop of independent iterations.
func (b *Builder) Each(hint string, extent sym.Expr, body func(i sym.Expr)) {
	b.For(Each, hint, extent, body)
}

// Serial adds a loop whose iterations run in order.
func (b *Builder) Serial(hint string, extent sym.Expr, body func(i sym.Expr)) {
	b.For(Serial, hint, extent, body)
}

// Nest adds one loop per extent, outermost first.
func (b *Builder) Nest(kind LoopKind, hint string, extents []sym.Expr, body func(index []sym.Expr)) {
	index := make([]sym.Expr, len(extents))
	var descend func(axis int)
	descend = func(axis int) {
		if axis == len(extents) {
			body(index)
			return
		}
		b.For(kind, fmt.Sprintf("%s%d", hint, axis), extents[axis], func(i sym.Expr) {
			index[axis] = i
			descend(axis + 1)
		})
	}
	descend(0)
}

// Let names a value.
func (b *Builder) Let(hint string, x Expr) *Ref {
	r := &Ref{Name: b.name(hint), Type: x.DType()}
	b.add(&Let{Name: r.Name, X: x})
	return r
}

// Var declares a mutable scalar.
func (b *Builder) Var(hint string, x Expr) *Ref {
	r := &Ref{Name: b.name(hint), Type: x.DType()}
	b.add(&Var{Name: r.Name, X: x})
	return r
}

// Set assigns a new value to a scalar.
func (b *Builder) Set(r *Ref, x Expr) { b.add(&Set{Name: r.Name, X: x}) }

// Reduce combines a scalar with a value.
func (b *Builder) Reduce(r *Ref, op BinaryOp, x Expr) {
	b.add(&Reduce{Name: r.Name, Op: op, X: x})
}

// Check adds a check that x lies in [min, max], and returns x as a symbolic integer, usable in indices.
func (b *Builder) Check(hint string, x Expr, min, max sym.Expr, what string) sym.Expr {
	c := &Check{Name: b.bound(hint), X: x, Min: min, Max: max, What: what}
	b.add(c)
	return sym.Var(c.Name)
}

// Store writes one element.
func (b *Builder) Store(to *Memory, index []sym.Expr, x Expr) { b.StoreIf(nil, to, index, x) }

// StoreIf writes one element if mask holds (nil: always).
func (b *Builder) StoreIf(mask Expr, to *Memory, index []sym.Expr, x Expr) {
	b.add(&Store{To: to.Name, Index: append([]sym.Expr(nil), index...), X: x, Mask: mask})
}

// When adds a branch; otherwise may be nil.
func (b *Builder) When(cond Expr, then, otherwise func()) {
	w := &When{Cond: cond}
	b.add(w)
	b.inside(&w.Then, then)
	if otherwise != nil {
		b.inside(&w.Else, otherwise)
	}
}

// Contract adds a product of tiles.
func (b *Builder) Contract(m, n, k sym.Expr, c, a, x Tile) {
	b.add(&Contract{M: m, N: n, K: k, C: c, A: a, B: x})
}

// Tile returns the matrix in m at origin, with the index steps between its rows and between its columns.
func (m *Memory) Tile(origin, row, col []sym.Expr) Tile {
	return Tile{Buffer: m.Name, Origin: append([]sym.Expr(nil), origin...), Row: append([]sym.Expr(nil), row...),
		Col: append([]sym.Expr(nil), col...)}
}

// Load returns the read of one element.
func (m *Memory) Load(index ...sym.Expr) Expr {
	return &Load{From: m.Name, Index: append([]sym.Expr(nil), index...), Type: m.DType}
}

// LoadIf returns the read of one element if mask holds, and otherwise else.
func (m *Memory) LoadIf(mask, otherwise Expr, index ...sym.Expr) Expr {
	return &Load{From: m.Name, Index: append([]sym.Expr(nil), index...), Type: m.DType, Mask: mask, Else: otherwise}
}

// Number returns a constant of any element type, rounded to it.
func Number(dt dtype.DType, x float64) *Const {
	var word [16]byte
	if dt.IsInt() || dt == dtype.Bool {
		dtype.StoreInt(dt, word[:], 0, int64(x))
	} else {
		dtype.StoreFloat(dt, word[:], 0, x)
	}
	return &Const{Type: dt, Bits: loadBits(dt.Bits(), word[:], 0)}
}

// Integer returns a constant of an integer type or Bool; x wraps if it does not fit.
func Integer(dt dtype.DType, x int64) *Const {
	var word [16]byte
	dtype.StoreInt(dt, word[:], 0, x)
	return &Const{Type: dt, Bits: loadBits(dt.Bits(), word[:], 0)}
}

// Lowest returns the least value of a type: −infinity for floats.
func Lowest(dt dtype.DType) *Const {
	if dt == dtype.Bool {
		return Integer(dt, 0)
	}
	if dt.IsInt() {
		return Integer(dt, dt.MinInt())
	}
	return Number(dt, math.Inf(-1))
}

// Highest returns the largest value of a type: infinity for floats.
func Highest(dt dtype.DType) *Const {
	if dt == dtype.Bool {
		return Integer(dt, 1)
	}
	if dt.IsInt() {
		return Integer(dt, int64(dt.MaxInt()))
	}
	return Number(dt, math.Inf(1))
}

// Apply returns a function of one operand.
func Apply(op UnaryOp, x Expr) Expr { return &Unary{Op: op, X: x} }

// Apply2 returns a function of two operands of the same type.
func Apply2(op BinaryOp, x, y Expr) Expr { return &Binary{Op: op, X: x, Y: y} }

// Both returns the conjunction of x and y; nil stands for true.
func Both(x, y Expr) Expr {
	switch {
	case x == nil:
		return y
	case y == nil:
		return x
	}
	return Apply2(And, x, y)
}

// Convert returns x converted to type dt: x itself if it has that type.
func Convert(dt dtype.DType, x Expr) Expr {
	if x.DType() == dt {
		return x
	}
	return &Cast{Type: dt, X: x}
}

// Choose returns x if cond holds, else y.
func Choose(cond, x, y Expr) Expr { return &Select{Cond: cond, X: x, Y: y} }

// Share returns exp(x) for x ≤ 0, a difference from the maximum, or 0 if exp(x) is below the least normal number: it
// would add nothing to a sum of at least 1, and processors multiply such numbers a hundred times more slowly. Masks of
// −100 make many.
func Share(x Expr) Expr {
	dt := x.DType()
	return Choose(Apply2(Lt, x, Number(dt, LeastShare(dt))), Number(dt, 0), Apply(Exp, x))
}

// LeastShare returns the least x for which Share, computed in a type, does not return 0.
func LeastShare(dt dtype.DType) float64 {
	if dt == dtype.F64 {
		return -708.39 // exp of it is just above 2⁻¹⁰²²
	}
	return float64(float32(-87.33)) // 2⁻¹²⁶
}

// At returns a symbolic integer as an i64 value.
func At(x sym.Expr) Expr { return &Index{X: x} }

// Inside returns lo ≤ x < hi as a bool value.
func Inside(x, lo, hi sym.Expr) Expr {
	return Apply2(And, Apply2(Le, At(lo), At(x)), Apply2(Lt, At(x), At(hi)))
}

// Reshape gives a parameter another shape with the same number of elements.
func (b *Builder) Reshape(m *Memory, shape ...sym.Expr) {
	m.Shape = shape
	for _, p := range b.Kernel.Params {
		if p.Name == m.Name {
			p.Shape = shape
		}
	}
}

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

// name is a name for a buffer or a scalar, bound one for an integer. No two have the same text.
func (b *Builder) name(hint string) string { return b.bound(hint).Text() }

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

// Local adds a buffer of the kernel's own to the body under construction.
func (b *Builder) Local(hint string, dt dtype.DType, shape ...sym.Expr) *Memory {
	m := &Memory{Name: b.name(hint), DType: dt, Shape: shape}
	b.add(&Local{Name: m.Name, DType: dt, Shape: shape})
	return m
}

func (b *Builder) add(s Stmt) { *b.body = append(*b.body, s) }

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

// Set gives a scalar a new value.
func (b *Builder) Set(r *Ref, x Expr) { b.add(&Set{Name: r.Name, X: x}) }

// Reduce combines a scalar with a value.
func (b *Builder) Reduce(r *Ref, op BinaryOp, x Expr) {
	b.add(&Reduce{Name: r.Name, Op: op, X: x})
}

// Check makes an integer value usable in indices, once it is known to lie in [min, max].
func (b *Builder) Check(hint string, x Expr, min, max sym.Expr, what string) sym.Expr {
	c := &Check{Name: b.bound(hint), X: x, Min: min, Max: max, What: what}
	b.add(c)
	return sym.Var(c.Name)
}

// Store writes one element.
func (b *Builder) Store(to *Memory, index []sym.Expr, x Expr) { b.StoreIf(nil, to, index, x) }

// StoreIf writes one element where mask (nil: always) holds.
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

// Tile is the matrix in m at origin, with the index steps of its rows and columns.
func (m *Memory) Tile(origin, row, col []sym.Expr) Tile {
	return Tile{Buffer: m.Name, Origin: append([]sym.Expr(nil), origin...), Row: append([]sym.Expr(nil), row...),
		Col: append([]sym.Expr(nil), col...)}
}

// Load reads one element.
func (m *Memory) Load(index ...sym.Expr) Expr {
	return &Load{From: m.Name, Index: append([]sym.Expr(nil), index...), Type: m.DType}
}

// LoadIf reads one element where mask holds, and is otherwise elsewhere.
func (m *Memory) LoadIf(mask, otherwise Expr, index ...sym.Expr) Expr {
	return &Load{From: m.Name, Index: append([]sym.Expr(nil), index...), Type: m.DType, Mask: mask, Else: otherwise}
}

// Number is a constant of any element type, rounded to it.
func Number(dt dtype.DType, x float64) *Const {
	var word [16]byte
	if dt.IsInt() || dt == dtype.Bool {
		dtype.StoreInt(dt, word[:], 0, int64(x))
	} else {
		dtype.StoreFloat(dt, word[:], 0, x)
	}
	return &Const{Type: dt, Bits: loadBits(dt.Bits(), word[:], 0)}
}

// Integer is a constant of an integer type (or Bool), exact; it wraps if it does not fit.
func Integer(dt dtype.DType, x int64) *Const {
	var word [16]byte
	dtype.StoreInt(dt, word[:], 0, x)
	return &Const{Type: dt, Bits: loadBits(dt.Bits(), word[:], 0)}
}

// Lowest and Highest are the values at the ends of a type's order: infinities for floats.
func Lowest(dt dtype.DType) *Const {
	if dt == dtype.Bool {
		return Integer(dt, 0)
	}
	if dt.IsInt() {
		return Integer(dt, dt.MinInt())
	}
	return Number(dt, math.Inf(-1))
}

// Highest is the largest value of a type: infinity for floats.
func Highest(dt dtype.DType) *Const {
	if dt == dtype.Bool {
		return Integer(dt, 1)
	}
	if dt.IsInt() {
		return Integer(dt, int64(dt.MaxInt()))
	}
	return Number(dt, math.Inf(1))
}

// Apply is a function of one operand.
func Apply(op UnaryOp, x Expr) Expr { return &Unary{Op: op, X: x} }

// Apply2 is a function of two operands of one type.
func Apply2(op BinaryOp, x, y Expr) Expr { return &Binary{Op: op, X: x, Y: y} }

// Convert is x in type dt; x itself where it is that already.
func Convert(dt dtype.DType, x Expr) Expr {
	if x.DType() == dt {
		return x
	}
	return &Cast{Type: dt, X: x}
}

// Choose is x where cond holds, y elsewhere.
func Choose(cond, x, y Expr) Expr { return &Select{Cond: cond, X: x, Y: y} }

// At is a symbolic integer as an i64 value.
func At(x sym.Expr) Expr { return &Index{X: x} }

// Inside is lo ≤ x < hi, as a bool value.
func Inside(x, lo, hi sym.Expr) Expr {
	return Apply2(And, Apply2(Le, At(lo), At(x)), Apply2(Lt, At(x), At(hi)))
}

// Reshape gives a parameter another shape with as many elements.
func (b *Builder) Reshape(m *Memory, shape ...sym.Expr) {
	m.Shape = shape
	for _, p := range b.Kernel.Params {
		if p.Name == m.Name {
			p.Shape = shape
		}
	}
}

package kerneltest

import (
	"math"
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// hostileNames are names of dimensions that a file may have.
var hostileNames = []string{"n", "i", "i0", "i0_1#", "i_1", "t", "c", "x", "y", "", " ", "a b", "$i", "?i", "&arena",
	"%x",
	"max", "-1", "0", "é", "\x00", "\n", "\"", "#", "inf", "arena.0"}

// hostileIntegers are coefficients, bounds and values of dimensions: small ones, and those around powers of two.
var hostileIntegers = func() []int64 {
	list := []int64{0, 0, 1, 1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 33, 63, 64, 65, 100}
	for _, power := range []int{7, 8, 15, 16, 31, 32, 47, 60, 61, 62} {
		list = append(list, 1<<power-1, 1<<power, 1<<power+1)
	}
	return append(list, math.MaxInt64-1, math.MaxInt64)
}()

// hostileSmall are extents, and values of dimensions small enough to run kernels.
var hostileSmall = []int64{0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 19, 31, 32, 33, 40}

// hostile writes kernels with any integers that a file may have.
type hostile struct {
	*rand.Rand
	*loop.Builder
	dims     []sym.Expr
	loops    []sym.Expr
	extents  []sym.Expr // of the loops
	checked  []sym.Expr
	values   []*loop.Ref
	sources  []*loop.Memory // parameters that are read, and locals after they are written
	types    []dtype.DType
	huge     bool // most numbers are near powers of two
	integral bool // floats are small integers, so that sums of products are exact
}

// number returns a small integer, or sometimes a huge one, perhaps negated.
func (a *hostile) number() int64 {
	n := hostileSmall[a.Intn(len(hostileSmall))]
	if a.huge || a.Intn(32) == 0 {
		n = hostileIntegers[a.Intn(len(hostileIntegers))]
	}
	if a.Intn(4) == 0 {
		return -n
	}
	return n
}

func (a *hostile) dim() sym.Expr { return a.dims[a.Intn(len(a.dims))] }

func (a *hostile) small() sym.Expr {
	return sym.Const(hostileSmall[a.Intn(len(hostileSmall))])
}

// extent returns an extent of a shape, never below 0: a number, or an integer over a dimension.
func (a *hostile) extent() sym.Expr {
	switch a.Intn(8) {
	case 0, 1:
		return a.small()
	case 2, 3, 4:
		return a.dim()
	case 5:
		return a.dim().Min(sym.Const(a.Int63n(40)))
	case 6:
		if a.Intn(2) == 0 {
			return a.dim().Mod(sym.Const(17)).Add(n1)
		}
		return a.dim().Min(sym.Const(99)).CeilDiv(sym.Const(1 + a.Int63n(8)))
	}
	return a.dim().Sub(sym.Const(a.Int63n(5))).Max(n0)
}

// count returns an extent of a loop, which may be negative or huge.
func (a *hostile) count() sym.Expr {
	switch a.Intn(10) {
	case 0:
		return a.dim().Sub(sym.Const(a.Int63n(9)))
	case 1:
		return sym.Const(a.number())
	case 2:
		return a.integer(1).Min(sym.Const(a.Int63n(40)))
	case 3:
		return a.dim().FloorDiv(sym.Const(max(1, a.number())))
	}
	return a.extent()
}

// integer returns an integer over the dimensions, loop variables and checked values in scope.
func (a *hostile) integer(depth int) sym.Expr {
	leaf := func() sym.Expr {
		list := slices.Concat(a.loops, a.loops, a.dims, a.checked)
		if a.Intn(5) == 0 {
			return sym.Const(a.number())
		}
		return list[a.Intn(len(list))]
	}
	if depth == 0 {
		return leaf()
	}
	x := a.integer(depth - 1)
	switch a.Intn(9) {
	case 0:
		return x.Add(leaf())
	case 1:
		return x.Sub(leaf())
	case 2:
		return x.Mul(sym.Const(a.number()))
	case 3:
		return x.Mul(leaf())
	case 4:
		return x.FloorDiv(sym.Const(max(1, a.number())))
	case 5:
		return x.Mod(sym.Const(max(1, a.number())))
	case 6:
		return x.Min(leaf())
	case 7:
		return x.Max(leaf())
	}
	return x.Add(sym.Const(a.number()))
}

// index returns an index of an axis. It is often inside, for various reasons, and sometimes outside.
func (a *hostile) index(extent sym.Expr) sym.Expr {
	last := extent.Sub(n1)
	switch a.Intn(12) {
	case 0:
		return a.integer(2).Max(n0).Min(last)
	case 1:
		return a.integer(2).Min(last).Max(n0)
	case 2:
		return a.integer(2).Mod(extent.Max(n1))
	case 3:
		return a.integer(1)
	case 4:
		return a.integer(0).FloorDiv(sym.Const(1 + a.Int63n(9)))
	case 5:
		return last.Sub(a.integer(0))
	case 6:
		return a.integer(0).Mul(sym.Const(1 + a.Int63n(3))).Add(sym.Const(a.Int63n(5) - 2))
	}
	for i, e := range a.extents {
		if e.Equal(extent) {
			return a.loops[i]
		}
	}
	return a.integer(0).Min(last)
}

// indices returns an index of each axis of a shape.
func (a *hostile) indices(shape []sym.Expr) (index []sym.Expr) {
	for _, extent := range shape {
		index = append(index, a.index(extent))
	}
	return index
}

// condition returns a bool.
func (a *hostile) condition(depth int) loop.Expr {
	op := []loop.BinaryOp{loop.Lt, loop.Le, loop.Gt, loop.Ge, loop.Eq, loop.Ne}[a.Intn(6)]
	switch n := a.Intn(8); {
	case depth > 0 && n < 2:
		return loop.Apply2([]loop.BinaryOp{loop.And, loop.Or, loop.Xor}[a.Intn(3)], a.condition(depth-1),
			a.condition(depth-1))
	case depth > 0 && n == 2:
		return loop.Apply(loop.Not, a.condition(depth-1))
	case depth > 0 && n == 3:
		dt := a.pick()
		if op.Accepts(dt) {
			return loop.Apply2(op, a.value(dt, depth-1), a.value(dt, depth-1))
		}
	}
	return loop.Apply2(op, loop.At(a.integer(1)), loop.At(a.integer(a.Intn(2))))
}

func (a *hostile) pick() dtype.DType { return a.types[a.Intn(len(a.types))] }

// value returns an expression of operations whose results are equal to the bit in all generators.
func (a *hostile) value(dt dtype.DType, depth int) loop.Expr {
	switch n := a.Intn(10); {
	case depth > 0 && n < 2:
		op := loop.BinaryOp(a.Intn(int(loop.Atan2)))
		if op.Accepts(dt) && (!dt.IsFloat() || op < loop.FloorMod || op > loop.Pow) {
			return loop.Apply2(op, a.value(dt, depth-1), a.value(dt, depth-1))
		}
	case depth > 0 && n == 2:
		if op := loop.UnaryOp(a.Intn(int(loop.Sqrt) + 1)); op.Accepts(dt) {
			return loop.Apply(op, a.value(dt, depth-1))
		}
	case depth > 0 && n == 3:
		return loop.Choose(a.condition(1), a.value(dt, depth-1), a.value(dt, depth-1))
	case depth > 0 && n == 4 && dt == dtype.Bool:
		return a.condition(1)
	case depth > 0 && n == 5:
		return loop.Convert(dt, a.value(a.pick(), depth-1))
	case n == 6:
		return loop.Convert(dt, loop.At(a.integer(2)))
	case n == 7:
		if dt.IsInt() {
			return loop.Integer(dt, a.number())
		}
		return loop.Number(dt, float64(a.Intn(5)))
	case n == 8 && len(a.values) > 0:
		return loop.Convert(dt, a.values[a.Intn(len(a.values))])
	}
	return a.load(dt)
}

// load returns a load from a source, perhaps masked, converted to a type.
func (a *hostile) load(dt dtype.DType) loop.Expr {
	m := a.sources[a.Intn(len(a.sources))]
	if a.Intn(2) == 0 {
		return loop.Convert(dt, m.LoadIf(a.condition(1), a.otherwise(m.DType), a.indices(m.Shape)...))
	}
	return loop.Convert(dt, m.Load(a.indices(m.Shape)...))
}

// otherwise returns the value of a masked load whose mask does not hold.
func (a *hostile) otherwise(dt dtype.DType) loop.Expr {
	if a.Intn(4) == 0 {
		m := a.sources[a.Intn(len(a.sources))]
		return loop.Convert(dt, m.Load(a.indices(m.Shape)...))
	}
	return loop.Number(dt, 1)
}

// loop writes a loop, whose body is a scope.
func (a *hostile) loop(kind loop.LoopKind, extent sym.Expr, body func(i sym.Expr)) {
	a.For(kind, "i", extent, func(i sym.Expr) {
		a.scope(func() {
			a.loops, a.extents = append(a.loops, i), append(a.extents, extent)
			body(i)
		})
	})
}

// scope calls body, and then forgets the names that it declared.
func (a *hostile) scope(body func()) {
	loops, checked, values, sources := len(a.loops), len(a.checked), len(a.values), len(a.sources)
	body()
	a.loops, a.extents = a.loops[:loops], a.extents[:loops]
	a.checked, a.values, a.sources = a.checked[:checked], a.values[:values], a.sources[:sources]
}

// nest writes loops over a result around statements; each iteration stores an element of its own. If full, every
// element is stored.
func (a *hostile) nest(depth int, out *loop.Memory, index []sym.Expr, lanes, full bool) {
	if depth == len(out.Shape) {
		a.statements(out, index, lanes, full)
		return
	}
	extent := out.Shape[depth]
	kind := []loop.LoopKind{loop.Each, loop.Parallel, loop.Vector, loop.Serial}[a.Intn(4)]
	if kind == loop.Vector && depth+1 < len(out.Shape) {
		kind = loop.Each
	}
	count := extent
	if !full && a.Intn(6) == 0 {
		count = a.count()
	}
	a.loop(kind, count, func(i sym.Expr) {
		if kind != loop.Vector {
			a.between()
		}
		a.nest(depth+1, out, append(slices.Clone(index), i), lanes || kind == loop.Vector, full)
	})
}

// between writes statements between two loops: a value, a local and its elements, a sum in lanes, or a check.
func (a *hostile) between() {
	switch a.Intn(8) {
	case 0:
		a.values = append(a.values, a.Let("u", a.value(a.pick(), 2)))
	case 1:
		shape := []sym.Expr{a.extent()}
		l := a.Local("l", a.pick(), shape...)
		kind := []loop.LoopKind{loop.Each, loop.Vector, loop.Serial}[a.Intn(3)]
		a.loop(kind, shape[0], func(i sym.Expr) { a.Store(l, []sym.Expr{i}, a.value(l.DType, 1)) })
		a.sources = append(a.sources, l)
	case 2:
		dt := []dtype.DType{dtype.I32, dtype.I64, dtype.U8}[a.Intn(3)]
		total := a.Var("s", loop.Number(dt, 0))
		a.loop(loop.Vector, a.count(), func(sym.Expr) {
			a.Reduce(total, []loop.BinaryOp{loop.Add, loop.Max, loop.Min, loop.Xor}[a.Intn(4)], a.value(dt, 2))
		})
		a.values = append(a.values, total)
	case 3:
		a.checked = append(a.checked, a.check())
	}
}

// check writes a check, and returns the checked value.
func (a *hostile) check() sym.Expr {
	low, high := sym.Const(-a.Int63n(3)), a.extent()
	if a.Intn(8) == 0 {
		low, high = sym.Const(a.number()), sym.Const(a.number())
	}
	dt := []dtype.DType{dtype.I64, dtype.I64, dtype.I32, dtype.U64, dtype.I8}[a.Intn(5)]
	x := a.value(dt, 1)
	if a.Intn(3) > 0 { // mostly a value within the bounds
		x = loop.Convert(dt, loop.Apply2(loop.And, loop.Convert(dtype.I64, x), loop.Integer(dtype.I64, 3)))
	}
	return a.Check("c", x, low, high, "a value")
}

// statements writes the body of a nest, which stores the element at index.
func (a *hostile) statements(out *loop.Memory, index []sym.Expr, lanes, full bool) {
	if a.Intn(5) == 0 {
		a.checked = append(a.checked, a.check())
	}
	if a.Intn(4) == 0 {
		a.values = append(a.values, a.Let("v", a.value(a.pick(), 2)))
	}
	if a.Intn(4) == 0 {
		a.serial(out, index, lanes)
		return
	}
	var mask loop.Expr
	if !full && a.Intn(3) == 0 {
		mask = a.condition(2)
	}
	if !full && !lanes && a.Intn(5) == 0 {
		otherwise := func() {}
		if a.Intn(2) == 0 {
			otherwise = func() { a.Store(out, index, a.value(out.DType, 1)) }
		}
		a.When(a.condition(1), func() { a.StoreIf(mask, out, index, a.value(out.DType, 1)) }, otherwise)
		return
	}
	a.StoreIf(mask, out, index, a.value(out.DType, 2))
}

// serial writes a loop that changes a scalar, and a store of the scalar.
func (a *hostile) serial(out *loop.Memory, index []sym.Expr, lanes bool) {
	dt := []dtype.DType{dtype.I64, dtype.I32, a.pick()}[a.Intn(3)]
	total := a.Var("w", loop.Number(dt, 1))
	extent := a.small()
	if !lanes {
		extent = a.count()
	}
	a.loop(loop.Serial, extent, func(sym.Expr) {
		op := []loop.BinaryOp{loop.Add, loop.Max, loop.Min, loop.Xor}[a.Intn(4)]
		if !op.Accepts(dt) {
			op = loop.Max
		}
		a.Reduce(total, op, a.value(dt, 1))
		if a.Intn(3) == 0 {
			a.Set(total, loop.Choose(a.condition(1), total, a.value(dt, 1)))
		}
	})
	a.Store(out, index, loop.Convert(out.DType, total))
}

// step returns the step along an axis to a tile's next row or column.
func (a *hostile) step() sym.Expr {
	return []sym.Expr{n0, n0, n1, n1, n1, sym.Const(2), sym.Const(-1), a.dim(), sym.Const(a.number())}[a.Intn(9)]
}

// productTypes are the element types of a product and its operands.
var productTypes = [][3]dtype.DType{
	{dtype.F32, dtype.F32, dtype.F32}, {dtype.F32, dtype.F16, dtype.F32}, {dtype.F32, dtype.BF16, dtype.BF16},
	{dtype.F64, dtype.F64, dtype.F64}, {dtype.I32, dtype.I8, dtype.U8}, {dtype.I32, dtype.I32, dtype.I32},
	{dtype.I64, dtype.I64, dtype.I64}, {dtype.U32, dtype.U8, dtype.U8},
}

// product writes a contraction, mostly of entire matrices, or of tiles of rows in a loop.
func (a *hostile) product() {
	types := productTypes[a.Intn(len(productTypes))]
	a.integral = true
	m, n, k := a.extent(), a.extent(), a.extent()
	disjoint := true                    // the iterations of a loop around it write disjoint elements
	some := func(e sym.Expr) sym.Expr { // mostly the extent itself
		if a.Intn(8) == 0 {
			disjoint = false
			return a.count()
		}
		return e
	}
	x := a.Param("a", loop.Read, types[1], []sym.Expr{m, k})
	y := a.Param("b", loop.Read, types[2], []sym.Expr{k, n})
	z := a.Param("p", loop.Update, types[0], []sym.Expr{m, n})
	row, col := []sym.Expr{n1, n0}, []sym.Expr{n0, n1}
	tile := func(at *loop.Memory, top sym.Expr) loop.Tile {
		origin, row, col := []sym.Expr{top, n0}, row, col
		n := a.Intn(12)
		disjoint = disjoint && (n > 2 || at != z)
		switch n {
		case 0:
			origin = []sym.Expr{top, a.index(at.Shape[1])}
		case 1:
			row = []sym.Expr{a.step(), a.step()}
		case 2:
			col = []sym.Expr{a.step(), a.step()}
		}
		return at.Tile(origin, row, col)
	}
	if a.Intn(2) == 0 {
		a.Contract(some(m), some(n), some(k), tile(z, n0), tile(x, n0), tile(y, n0))
		return
	}
	count := []int64{1, 2, 6, 8, 14}[a.Intn(5)]
	t := sym.Bound("tile")
	top := sym.Var(t).Mul(sym.Const(count))
	rows, cols, depth := some(m.Sub(top).Min(sym.Const(count))), some(n), some(k)
	to := tile(z, top)
	kind := loop.Serial
	if disjoint {
		kind = []loop.LoopKind{loop.Parallel, loop.Each, loop.Serial}[a.Intn(3)]
	}
	a.loop(kind, m.CeilDiv(sym.Const(count)), func(i sym.Expr) {
		put := func(e sym.Expr) sym.Expr {
			return e.Subst(func(name sym.Name) (sym.Expr, bool) { return i, name == t })
		}
		for axis, e := range to.Origin {
			to.Origin[axis] = put(e)
		}
		if a.Intn(3) == 0 {
			a.between()
		}
		top := i.Mul(sym.Const(count))
		a.Contract(put(rows), cols, depth, to, tile(x, top), tile(y, n0))
	})
}

// shape returns a shape of one to atMost axes.
func (a *hostile) shape(atMost int) (list []sym.Expr) {
	for range 1 + a.Intn(atMost) {
		list = append(list, a.extent())
	}
	return list
}

// hostileKernel writes the kernel of a seed.
func hostileKernel(seed int64) (k *loop.Kernel, a *hostile) {
	a = &hostile{Rand: rand.New(rand.NewSource(seed)), Builder: loop.NewBuilder("hostile")}
	for _, i := range a.Perm(len(hostileNames))[:1+a.Intn(3)] {
		a.dims = append(a.dims, sym.Var(sym.User(hostileNames[i])))
	}
	a.huge = a.Intn(4) == 0
	a.types = []dtype.DType{dtype.I64, dtype.I32, dtype.F32}
	for range 2 {
		a.types = append(a.types, ElementTypes[a.Intn(len(ElementTypes))])
	}
	for range 1 + a.Intn(2) {
		a.sources = append(a.sources, a.Param("x", loop.Read, a.pick(), a.shape(2)))
	}
	for range 1 + a.Intn(2) {
		if a.Intn(8) == 0 {
			a.product()
			continue
		}
		access, full := loop.Update, a.Intn(5) == 0
		if full {
			access = loop.Write
		}
		out := a.Param("y", access, a.pick(), a.shape(3))
		a.scope(func() { a.nest(0, out, nil, false, full) })
	}
	return Finish(a.Builder), a
}

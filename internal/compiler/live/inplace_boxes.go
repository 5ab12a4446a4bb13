package live

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// InPlaceByBoxes reports whether a kernel may write parameter w into the storage of parameter r, because loops surround
// all its accesses to both, their iterations access disjoint boxes of elements, and each iteration reads before it
// writes. For example, a recurrent layer reads a step's rows of its input and then writes its result over them.
func InPlaceByBoxes(k *loop.Kernel, dims *sym.Dims, r, w int) bool {
	in, out := k.Params[r], k.Params[w]
	if in.DType.Bits() != out.DType.Bits() || in.DType.Bits()%8 != 0 || in.Strides != nil || out.Strides != nil ||
		!slices.EqualFunc(in.Shape, out.Shape, sym.Expr.Equal) {
		return false
	}
	b := &boxes{in: in.Name, out: out.Name, dims: dims.Clone(), loops: map[sym.Name]*loop.For{}}
	for _, a := range loop.Accesses(k.Body) {
		if a.Buffer != in.Name && a.Buffer != out.Name {
			continue
		}
		_, stored := a.Stmt.(*loop.Store)
		if a.Tile != nil || a.Write != (a.Buffer == out.Name) || a.Write && !stored {
			return false
		}
		b.accesses = append(b.accesses, a)
		for _, f := range a.Loops {
			if other := b.loops[f.Var]; other == f {
				continue
			} else if _, known := b.dims.Get(f.Var); known {
				return false
			}
			of := b.dims
			if !slices.ContainsFunc(f.Extent.Vars(), b.inner) {
				of = dims // which remembers bounds for other kernels
			}
			_, most := of.Bounds(f.Extent)
			if most != math.MaxInt64 {
				most = max(most-1, 0)
			}
			b.loops[f.Var] = f
			b.dims.Set(f.Var, sym.Range{Min: 0, Max: most})
		}
	}
	return b.ordered(k.Body, nil)
}

// boxes holds a kernel's accesses to two parameters.
type boxes struct {
	in, out  string
	dims     *sym.Dims // with the loops' variables
	loops    map[sym.Name]*loop.For
	accesses []loop.Touches
}

// inner reports whether a name is the variable of a loop.
func (b *boxes) inner(name sym.Name) bool { return b.loops[name] != nil }

// ordered finds the loops around all accesses in whose iterations reads come before writes, and reports whether their
// iterations are disjoint.
func (b *boxes) ordered(body []loop.Stmt, around []*loop.For) bool {
	lastRead, firstWrite := -1, len(body)
	for i, s := range body {
		for _, a := range loop.Accesses([]loop.Stmt{s}) {
			switch a.Buffer {
			case b.in:
				lastRead = i
			case b.out:
				firstWrite = min(firstWrite, i)
			}
		}
	}
	switch {
	case lastRead < 0 || firstWrite == len(body):
		return false
	case lastRead < firstWrite:
		return b.disjoint(around)
	case lastRead > firstWrite:
		return false
	}
	// One statement both reads and writes: it must be the only one.
	for i, s := range body {
		if i != lastRead && slices.ContainsFunc(loop.Accesses([]loop.Stmt{s}), func(a loop.Touches) bool {
			return a.Buffer == b.in || a.Buffer == b.out
		}) {
			return false
		}
	}
	f, ok := body[lastRead].(*loop.For)
	return ok && b.ordered(f.Body, append(slices.Clip(around), f))
}

// disjoint reports whether no two iterations of nested loops access one element, and several workers run no other loop.
// Once iterations that differ in an outer variable are proved disjoint, inner loops are checked with that variable
// fixed.
func (b *boxes) disjoint(loops []*loop.For) bool {
	for _, f := range b.loops {
		if f.Kind == loop.Parallel && !slices.Contains(loops, f) {
			return false
		}
	}
	var fixed []sym.Name
	for _, f := range loops {
		if _, most := b.dims.Bounds(f.Extent); most <= 1 {
			fixed = append(fixed, f.Var)
			continue
		}
		found := false
		for axis := range b.accesses[0].Index {
			found = found || b.disjointAlong(axis, f, fixed)
		}
		if !found {
			return false
		}
		fixed = append(fixed, f.Var)
	}
	return true
}

// disjointAlong reports whether iterations that differ in one loop's variable, with the fixed ones equal, access
// disjoint elements along an axis. They do if the variable's step is larger than the extent that one iteration
// accesses, or if all accesses are at constant positions at least the loop's entire length apart.
func (b *boxes) disjointAlong(axis int, f *loop.For, fixed []sym.Name) bool {
	step := int64(0)
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	var common []sym.Expr
	var positions []int64
	for i, a := range b.accesses {
		coef, rest, ok := a.Index[axis].Linear(f.Var)
		c, number := coef.Const()
		if !ok || !number || c == 0 || i > 0 && c != step {
			return false
		}
		step = c
		for j, name := range fixed {
			coef, without, ok := rest.Linear(name)
			if !ok || i > 0 && !coef.Equal(common[j]) {
				return false
			}
			if i == 0 {
				common = append(common, coef)
			}
			rest = without
		}
		lo, hi := b.dims.Bounds(rest)
		if lo == math.MinInt64 || hi == math.MaxInt64 {
			return false
		}
		low, high = min(low, lo), max(high, hi)
		if lo == hi {
			positions = append(positions, lo)
		}
	}
	if step < 0 {
		step = -step
	}
	if high-low < step {
		return true
	}
	_, most := b.dims.Bounds(f.Extent)
	if len(positions) < len(b.accesses) || most == math.MaxInt64 || most > math.MaxInt64/step {
		return false
	}
	slices.Sort(positions)
	positions = slices.Compact(positions)
	for i := 1; i < len(positions); i++ {
		if positions[i]-positions[i-1] < step*most {
			return false
		}
	}
	return true
}

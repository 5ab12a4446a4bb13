package schedule

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Kernels that need only some of a weight at a time: rows that indices choose, or one slice after another. Both
// transformations change only the indices and the extent of one loop of a scheduled kernel: each result is computed by
// the same operations in the same order.

// Chosen is a kernel whose parameter Param has, instead of an entire table, the rows that a run needs, in the order of
// the elements of parameter Index.
type Chosen struct {
	Kernel        *loop.Kernel
	Param, Index  int
	Rows          int64      // of the table
	Shape, Stride []sym.Expr // of the table: the axes that number its rows, then the axes of a row
}

// Choose returns a kernel with chosen rows instead of the parameter with an index. It returns nil unless the kernel
// reads that parameter only by loads whose row is one checked value, an element of another parameter.
func Choose(k *loop.Kernel, param int) *Chosen {
	table := k.Params[param]
	shape, ok := numbers(table.Shape)
	if !ok || table.Access != loop.Read || table.Strides != nil || table.DType.Bits()%8 != 0 {
		return nil
	}
	checks, lets := map[sym.Name]*loop.Check{}, map[string]loop.Expr{}
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Check:
			ok = ok && checks[s.Name] == nil
			checks[s.Name] = s
		case *loop.Let:
			ok = ok && lets[s.Name] == nil
			lets[s.Name] = s.X
		}
		return true
	})
	var by *loop.Check
	var leading []int // the axes that number the rows
	for _, a := range loop.Accesses(k.Body) {
		if a.Buffer != table.Name {
			continue
		}
		check, axes := numbering(a.Index, shape, checks)
		if a.Tile != nil || check == nil || by != nil && (check != by || !slices.Equal(axes, leading)) {
			return nil
		}
		by, leading = check, axes
	}
	if !ok || by == nil {
		return nil
	}
	low, _ := by.Min.Const()
	high, fixed := by.Max.Const()
	from := element(by.X, high+1, lets)
	if !fixed || low != 0 || from == nil || from.Mask != nil {
		return nil
	}
	c := &Chosen{Param: param, Index: slices.IndexFunc(k.Params, func(p *loop.Param) bool {
		return p.Name == from.From
	}), Rows: high + 1}
	if c.Index < 0 || k.Params[c.Index].Access != loop.Read || k.Params[c.Index].Strides != nil {
		return nil
	}
	steps := loop.RowMajor(table.Shape)
	own := func(axis int) bool { return !slices.Contains(leading, axis) }
	for _, axis := range leading {
		c.Shape, c.Stride = append(c.Shape, table.Shape[axis]), append(c.Stride, steps[axis])
	}
	for axis, extent := range table.Shape {
		if own(axis) {
			c.Shape, c.Stride = append(c.Shape, extent), append(c.Stride, steps[axis])
		}
	}
	rewrite := &loop.Rewrite{Expr: func(e loop.Expr) loop.Expr {
		if l, is := e.(*loop.Load); is && l.From == table.Name {
			index := slices.Clone(from.Index)
			for axis, at := range l.Index {
				if own(axis) {
					index = append(index, at)
				}
			}
			l.Index = index
		}
		return e
	}}
	c.Kernel = rewrite.Kernel(k)
	c.Kernel.Params[param].Shape = slices.Concat(k.Params[c.Index].Shape, c.Shape[len(leading):])
	c.Kernel.Dims = dimsOf(c.Kernel, k)
	return c
}

// numbering returns the checked value that chooses a row by some axes of an index: by one axis or, in a packed table,
// by the panel and the column in it.
func numbering(index []sym.Expr, shape []int64, checks map[sym.Name]*loop.Check) (by *loop.Check, axes []int) {
	for axis, e := range index {
		for _, name := range e.Vars() {
			if checks[name] == nil {
				continue
			}
			if by != nil && by != checks[name] {
				return nil, nil
			}
			if by = checks[name]; !slices.Contains(axes, axis) {
				axes = append(axes, axis)
			}
		}
	}
	if by == nil {
		return nil, nil
	}
	at := sym.Var(by.Name)
	switch len(axes) {
	case 1:
		if index[axes[0]].Equal(at) {
			return by, axes
		}
	case 2:
		width := sym.Const(shape[axes[1]])
		if index[axes[0]].Equal(at.FloorDiv(width)) && index[axes[1]].Equal(at.Mod(width)) {
			return by, axes
		}
	}
	return nil, nil
}

// element returns the load of the integer of a checked value, which may be rows + the integer if that is negative.
func element(x loop.Expr, rows int64, lets map[string]loop.Expr) *loop.Load {
	x = named(x, lets)
	if s, is := x.(*loop.Select); is {
		less, _ := named(s.Cond, lets).(*loop.Binary)
		more, _ := named(s.X, lets).(*loop.Binary)
		if less == nil || more == nil || less.Op != loop.Lt || more.Op != loop.Add {
			return nil
		}
		zero, _ := less.Y.(*loop.Const)
		count, _ := more.Y.(*loop.Index)
		if zero == nil || zero.Bits != 0 || count == nil || !count.X.Equal(sym.Const(rows)) {
			return nil
		}
		one, two, three := element(less.X, rows, lets), element(more.X, rows, lets), element(s.Y, rows, lets)
		if one == nil || !alike(one, two) || !alike(one, three) {
			return nil
		}
		return one
	}
	if c, is := x.(*loop.Cast); is && c.Type == dtype.I64 {
		x = named(c.X, lets)
	}
	if l, is := x.(*loop.Load); is && (l.Type == dtype.I64 || l.Type == dtype.I32) {
		return l
	}
	return nil
}

// alike reports whether two loads read the same element.
func alike(a, b *loop.Load) bool {
	return a == b || b != nil && a.From == b.From && a.Mask == nil && b.Mask == nil &&
		slices.EqualFunc(a.Index, b.Index, sym.Expr.Equal)
}

// named returns the value of a name.
func named(x loop.Expr, lets map[string]loop.Expr) loop.Expr {
	for range lets {
		r, is := x.(*loop.Ref)
		if !is || lets[r.Name] == nil {
			break
		}
		x = lets[r.Name]
	}
	return x
}

// Cut is a kernel that can run one slice of a weight at a time. It consists of a loop with independent iterations; each
// iteration reads its own slice of the weight along Axis, and writes its own slice of each result.
type Cut struct {
	Extent int64 // of the loop
	Axis   int
	Step   int64 // of the weight's indices along Axis, for one iteration

	kernel *loop.Kernel
	param  int
	loop   sym.Name
	dims   *sym.Dims
	moves  []move // by parameter
}

// move is how a parameter's indices change with the loop: by step along an axis; not at all if step is 0.
type move struct {
	axis int
	step int64
}

// CutBy returns the cut of a kernel by which it can read a parameter in slices, the finest of several; nil if there is
// none.
func CutBy(k *loop.Kernel, param int, dims *sym.Dims) *Cut {
	if k.Params[param].Access != loop.Read || k.Params[param].Strides != nil {
		return nil
	}
	d := dims.Clone()
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.For:
			_, most := d.Bounds(s.Extent)
			if most == math.MaxInt64 {
				most = sym.NoMax
			} else {
				most = max(most-1, 0)
			}
			d.Set(s.Var, sym.Range{Max: most})
		case *loop.Check:
			low, _ := d.Bounds(s.Min)
			_, high := d.Bounds(s.Max)
			d.Set(s.Name, sym.Range{Min: low, Max: max(low, high)})
		}
		return true
	})
	var best *Cut
	for body := k.Body; len(body) == 1; {
		f, is := body[0].(*loop.For)
		if !is || f.Kind != loop.Each && f.Kind != loop.Parallel {
			break
		}
		body = f.Body
		extent, fixed := f.Extent.Const()
		if !fixed || extent < 2 {
			continue
		}
		c := &Cut{Extent: extent, kernel: k, param: param, loop: f.Var, dims: d}
		if c.follow() && (best == nil || c.Extent > best.Extent) {
			best = c
		}
	}
	return best
}

// follow finds how the parameters' indices change with the loop. It reports whether those of the weight and of every
// result move on from slice to slice without overlap.
func (c *Cut) follow() bool {
	accesses := map[string][]loop.Touches{}
	for _, a := range loop.Accesses(c.kernel.Body) {
		accesses[a.Buffer] = append(accesses[a.Buffer], a)
	}
	for i, p := range c.kernel.Params {
		m, ok := c.along(p, accesses[p.Name])
		if p.Access != loop.Read && p.Access != loop.Write || (p.Access == loop.Write || i == c.param) &&
			(!ok || m.step == 0) {
			return false
		}
		c.moves = append(c.moves, m)
	}
	c.Axis, c.Step = c.moves[c.param].axis, c.moves[c.param].step
	return true
}

// along finds how a parameter's indices change with the loop: one axis moves by the same step in all accesses, and
// reaches no further within an iteration. ok is false otherwise.
func (c *Cut) along(p *loop.Param, accesses []loop.Touches) (m move, ok bool) {
	found := false
	for _, a := range accesses {
		for axis, e := range a.Index {
			coefficient, rest, linear := e.Linear(c.loop)
			step, fixed := coefficient.Const()
			if !linear || !fixed || step < 0 || step == 0 && found && m.axis == axis && m.step > 0 {
				return move{}, false
			}
			if step == 0 {
				continue
			}
			if found && m != (move{axis, step}) {
				return move{}, false
			}
			m, found = move{axis, step}, true
			reach := rest
			if a.Tile != nil {
				reach = reach.Add(a.Tile.Row[axis].Mul(a.Rows.Sub(one))).Add(a.Tile.Col[axis].Mul(a.Cols.Sub(one)))
			}
			if low, _ := c.dims.Bounds(rest); low < 0 {
				return move{}, false
			}
			if _, high := c.dims.Bounds(reach); high >= step {
				return move{}, false
			}
		}
	}
	if found { // every access must move with the loop
		for _, a := range accesses {
			if coefficient, _, _ := a.Index[m.axis].Linear(c.loop); coefficient.Equal(zero) {
				return move{}, false
			}
		}
	}
	return m, true
}

// Slice is a kernel for some iterations of a cut kernel, whose parameters are slices of the cut kernel's.
type Slice struct {
	Kernel *loop.Kernel
	Axis   []int   // by parameter
	Offset []int64 // by parameter: the offset of its slice along that axis
}

// Slice returns the kernel for iterations [begin, end). The weight's slice is a row-major buffer of its own; the slices
// of other parameters are views.
func (c *Cut) Slice(begin, end int64) *Slice {
	dims := c.dims.Clone()
	dims.Set(c.loop, sym.Range{Max: end - begin - 1})
	from := sym.Var(c.loop).Add(sym.Const(begin))
	change := func(e sym.Expr, back int64) sym.Expr {
		if !slices.Contains(e.Vars(), c.loop) {
			return e
		}
		e = e.Subst(func(name sym.Name) (sym.Expr, bool) { return from, name == c.loop })
		return dims.Simplify(e.Sub(sym.Const(back)))
	}
	slice := &Slice{}
	moved := map[string]move{}
	for i, p := range c.kernel.Params {
		m := c.moves[i]
		if m.step == 0 {
			m = move{}
		}
		moved[p.Name] = m
		slice.Axis, slice.Offset = append(slice.Axis, m.axis), append(slice.Offset, m.step*begin)
	}
	shift := func(buffer string, index []sym.Expr) {
		if m := moved[buffer]; m.step > 0 {
			index[m.axis] = dims.Simplify(index[m.axis].Sub(sym.Const(m.step * begin)))
		}
	}
	rewrite := &loop.Rewrite{
		Integer: func(e sym.Expr) sym.Expr { return change(e, 0) },
		Expr: func(e loop.Expr) loop.Expr {
			if l, is := e.(*loop.Load); is {
				shift(l.From, l.Index)
			}
			return e
		},
		Stmt: func(s loop.Stmt) []loop.Stmt {
			switch s := s.(type) {
			case *loop.Store:
				shift(s.To, s.Index)
			case *loop.Contract:
				for _, t := range []loop.Tile{s.C, s.A, s.B} {
					shift(t.Buffer, t.Origin)
				}
			case *loop.For:
				if s.Var == c.loop {
					s.Extent = sym.Const(end - begin)
				}
			}
			return []loop.Stmt{s}
		},
	}
	slice.Kernel = rewrite.Kernel(c.kernel)
	for i, p := range slice.Kernel.Params {
		m := moved[p.Name]
		if m.step == 0 {
			continue
		}
		if i != c.param && p.Strides == nil && slices.ContainsFunc(p.Shape[:m.axis], func(e sym.Expr) bool {
			return !e.Equal(one)
		}) {
			p.Strides = loop.RowMajor(p.Shape)
		}
		p.Shape = slices.Clone(p.Shape)
		p.Shape[m.axis] = c.extent(p.Shape[m.axis], m.step, begin, end)
	}
	slice.Kernel.Dims = dimsOf(slice.Kernel, c.kernel)
	return slice
}

// extent returns the extent of an axis for iterations [begin, end), the last of which has the remainder.
func (c *Cut) extent(all sym.Expr, step, begin, end int64) sym.Expr {
	if end == c.Extent {
		return all.Sub(sym.Const(step * begin))
	}
	return sym.Const(step * (end - begin))
}

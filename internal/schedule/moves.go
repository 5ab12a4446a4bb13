package schedule

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// move returns the load that a map stores unchanged, if the map only copies; nil otherwise.
func (m *mapping) move() *loop.Load {
	l, ok := m.store.X.(*loop.Load)
	if !ok || l.Mask != nil || len(m.before) > 0 {
		return nil
	}
	return l
}

// retiled translates a tile of a copying map's result to a tile of its source. ok is false if that is no tile, or if
// contiguous elements would become strided.
func (s *scheduler) retiled(m *mapping, t *loop.Tile, p *loop.Param) (loop.Tile, bool) {
	l := m.move()
	if l == nil {
		return loop.Tile{}, false
	}
	var from *loop.Param
	for _, q := range m.kernel.Params {
		if q.Name == l.From {
			from = q
		}
	}
	out := loop.Tile{Buffer: l.From}
	for _, e := range l.Index {
		row, col, origin := zero, zero, e
		for axis, index := range m.store.Index {
			name, ok := index.Name()
			if !ok {
				continue
			}
			factor, rest, linear := e.Linear(name)
			still := isZero(t.Row[axis]) && isZero(t.Col[axis])
			if _, fixed := factor.Const(); !linear || !fixed && !still {
				return out, false
			}
			e = rest
			row, col = row.Add(factor.Mul(t.Row[axis])), col.Add(factor.Mul(t.Col[axis]))
		}
		for _, name := range e.Vars() {
			if _, dim := s.dims.Get(name); !dim {
				return out, false
			}
		}
		origin = origin.Subst(func(name sym.Name) (sym.Expr, bool) {
			for axis, index := range m.store.Index {
				if isVar(index, name) {
					return t.Origin[axis], true
				}
			}
			return sym.Expr{}, false
		})
		out.Origin, out.Row, out.Col = append(out.Origin, origin), append(out.Row, row), append(out.Col, col)
	}
	for _, steps := range [][2][]sym.Expr{{t.Row, out.Row}, {t.Col, out.Col}} {
		if isOne(loop.Offset(steps[0], p.Shape, p.Strides)) && !isOne(loop.Offset(steps[1], from.Shape, from.Strides)) {
			return out, false
		}
	}
	return out, true
}

// replaceTiles makes contractions read the source of a copying map instead of its result.
func (s *scheduler) replaceTiles(m *mapping, k *loop.Kernel, p *loop.Param, params map[string]string) {
	for _, a := range loop.Accesses(k.Body) {
		c, ok := a.Stmt.(*loop.Contract)
		if !ok || a.Buffer != p.Name {
			continue
		}
		for _, t := range []*loop.Tile{&c.A, &c.B} {
			if t.Buffer == p.Name {
				*t, _ = s.retiled(m, t, p)
				t.Buffer = params[t.Buffer]
			}
		}
	}
}

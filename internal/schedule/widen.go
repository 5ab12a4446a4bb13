package schedule

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// A register tile of f32 widens the elements of a narrow right operand each time that it reads them, in two or three
// instructions a vector, beside one multiply-add for each of its six to fourteen rows. If a panel is read by the tiles
// of many rows, it is widened once, into a local, before the sums that need it begin.
const (
	widerRows  = 48 // rows that read a panel, for a wide copy to pay
	widestPart = 2  // of the second-level cache that the copy may take: a half
)

// widenPanels has the contractions of a kernel that read narrow panels for many rows read wide copies of them. Rows
// whose number only a run decides choose between the panel and its copy.
func widenPanels(s *scheduler, k *loop.Kernel) bool {
	if !s.registerTiles() {
		return false
	}
	names := s.newNamer(k)
	changed := false
	var visit func(body []loop.Stmt) []loop.Stmt
	visit = func(body []loop.Stmt) []loop.Stmt {
		for i, stmt := range body {
			if l, ok := stmt.(*loop.Local); ok {
				if wide := s.widened(k, l, body[i:], names); wide != nil {
					changed = true
					return append(body[:i:i], wide...)
				}
			}
			for _, inner := range loop.Bodies(stmt) {
				*inner = visit(*inner)
			}
		}
		return body
	}
	k.Body = visit(k.Body)
	return changed
}

// widened returns the statements from a local of sums on, with a copy of the panel that is added up in it; nil if a
// copy does not pay.
func (s *scheduler) widened(k *loop.Kernel, l *loop.Local, list []loop.Stmt, names *namer) []loop.Stmt {
	at := -1
	for i, stmt := range list {
		if c, ok := stmt.(*loop.Contract); ok && c.C.Buffer == l.Name {
			if at >= 0 {
				return nil
			}
			at = i
		}
	}
	if at < 0 {
		return nil
	}
	c := list[at].(*loop.Contract)
	b := bufferOf(k, c.B.Buffer)
	if l.DType != dtype.F32 || b == nil || !widens(b.DType) || !s.overDims(k, c.K) ||
		!isOne(loop.Offset(c.B.Col, b.Shape, b.Strides)) {
		return nil
	}
	steps, columns := s.most(c.K), s.most(c.N)
	room := int64(s.machine.Limits.L2) / widestPart / int64(l.DType.Bits()/8)
	if steps < 1 || columns < 1 || steps > room/columns || s.most(c.M) < widerRows {
		return nil
	}
	wide := func(list []loop.Stmt) []loop.Stmt {
		c := *list[at].(*loop.Contract)
		shape := [2]sym.Expr{c.K, sym.Const(columns)}
		fill := nearby(b, &c.B, &c.B.Row, &c.B.Col, [2]sym.Expr{c.K, c.N}, shape, "wide", names)
		convert(fill, l.DType)
		list[at] = &c
		return append(fill, list...)
	}
	if least, _ := s.dims.Bounds(c.M); least >= widerRows {
		return wide(list)
	}
	return []loop.Stmt{&loop.When{Cond: loop.Apply2(loop.Ge, loop.At(c.M), loop.At(sym.Const(widerRows))),
		Then: wide(names.again(list)), Else: list}}
}

// widens reports whether register tiles of f32 read elements of a type and widen them.
func widens(dt dtype.DType) bool {
	return dt == dtype.F16 || dt == dtype.BF16 || dt == dtype.I8 || dt == dtype.U8
}

// convert makes the local of a copy, and what is stored to it, elements of another type.
func convert(fill []loop.Stmt, to dtype.DType) {
	fill[0].(*loop.Local).DType = to
	loop.Walk(fill, func(stmt loop.Stmt) bool {
		if store, ok := stmt.(*loop.Store); ok {
			store.X = &loop.Cast{X: store.X, Type: to}
		}
		return true
	})
}

package recipes

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// recurrentTogether is a recipe for recurrent layers and their derivatives: blocks of sequences go through all steps
// together, so that a step's product reads the weights once for all of them. The plain loops compute one sequence after
// another: for each direction a loop over the sequences, whose nests and locals have one row.
func recurrentTogether(k *nest) bool {
	var chains []*loop.For
	for _, s := range k.plain.Body {
		f, ok := s.(*loop.For)
		if !ok || f.Kind != loop.Each || len(chains) > 0 && !f.Extent.Equal(chains[0].Extent) || !hasOneRow(f.Body) {
			return false
		}
		chains = append(chains, f)
	}
	if len(chains) == 0 {
		return false
	}
	batch, block := chains[0].Extent, sym.Const(2*k.sizes.Lanes)
	most := k.D.Simplify(block.Min(batch))
	write := func(first, rows sym.Expr) {
		for _, f := range chains {
			body := loop.Substitute(f.Body, map[sym.Name]sym.Expr{f.Var: first})
			together(body, rows, most, false)
			k.Each("d", one, func(sym.Expr) { k.Append(body...) })
		}
	}
	if k.D.LE(batch, block) == sym.Yes {
		write(sym.Const(0), batch)
		return true
	}
	k.Each("b", batch.CeilDiv(block), func(at sym.Expr) { write(at.Mul(block), block.Min(batch.Sub(at.Mul(block)))) })
	return true
}

// hasOneRow reports whether the locals and the products in a body have one row.
func hasOneRow(body []loop.Stmt) bool {
	is := true
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Local:
			is = is && len(s.Shape) > 0 && isOne(s.Shape[0])
		case *loop.Contract:
			is = is && isOne(s.M)
		}
		return is
	})
	return is
}

// together gives the nests and products of a sequence several rows, and its locals room for most. inside says whether
// the body is in a loop over rows.
func together(body []loop.Stmt, rows, most sym.Expr, inside bool) {
	for _, s := range body {
		over := inside
		switch s := s.(type) {
		case *loop.Local:
			s.Shape = slices.Clone(s.Shape)
			s.Shape[0] = most
		case *loop.Contract:
			s.M = rows
		case *loop.For:
			if !inside && (s.Kind == loop.Each || onlyReduces(s)) && isOne(s.Extent) && loop.Uses(s.Body, s.Var) {
				s.Extent, over = rows, true
			}
		}
		for _, inner := range loop.Bodies(s) {
			together(*inner, rows, most, over)
		}
	}
}

// onlyReduces reports whether a serial loop does nothing but combine scalars with values.
func onlyReduces(f *loop.For) bool {
	return f.Kind == loop.Serial && !slices.ContainsFunc(f.Body, func(s loop.Stmt) bool {
		_, is := s.(*loop.Reduce)
		return !is
	})
}

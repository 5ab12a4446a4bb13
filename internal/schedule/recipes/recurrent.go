package recipes

import (
	"math"
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
	batch := chains[0].Extent
	block := sym.Const(k.sequences(chains))
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
	k.Each("b", batch.CeilDiv(block), func(at sym.Expr) {
		rows := block.Min(batch.Sub(at.Mul(block)))
		if k.D.EQ(batch.Mod(block), sym.Const(0)) == sym.Yes {
			rows = block
		}
		write(at.Mul(block), rows)
	})
	return true
}

// sequences returns the number of sequences that go through the steps together: as many as a product of good speed has
// rows, or fewer, so that several workers have as many sequences each, if a worker's cache holds the weights. Workers
// that share the steps of one block instead wait for each other in every step.
func (k *nest) sequences(chains []*loop.For) int64 {
	most := 2 * k.sizes.Lanes
	batch, fixed := chains[0].Extent.Const()
	if !fixed || len(chains) > 1 || batch < 1 || k.weights(chains[0].Body) > k.sizes.Streamed {
		return most
	}
	blocks := ceilDiv(ceilDiv(batch, most), k.sizes.Workers) * k.sizes.Workers
	if even := ceilDiv(batch, blocks); even >= k.sizes.Lanes/2 {
		return even
	}
	return most
}

// weights returns the bytes of the operands that products read at each step; a large number if it is not known.
func (k *nest) weights(body []loop.Stmt) (bytes int64) {
	loop.Walk(body, func(s loop.Stmt) bool {
		c, ok := s.(*loop.Contract)
		if !ok {
			return true
		}
		i := slices.IndexFunc(k.plain.Params, func(p *loop.Param) bool { return p.Name == c.B.Buffer })
		rows, short := c.K.Const()
		columns, narrow := c.N.Const()
		if i >= 0 && short && narrow {
			bytes += rows * columns * int64(k.plain.Params[i].DType.Bits()) / 8
		} else if i >= 0 {
			bytes = math.MaxInt32
		}
		return true
	})
	return bytes
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

package arm64

import (
	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
)

// This file is products by matrix instructions. SMMLA, UMMLA, USMMLA and BFMMLA multiply two rows of 8 bytes by two
// columns of 8 bytes, and add the four products to four sums of 32 bits. A group of a column, 8 bytes, is a half of a
// register of the right operand. A group of two rows is made from two reads: the rows are not packed.
//
// Between BeginTerm and EndTerm, the two registers with four columns of a pair of rows have two columns of both rows
// each. A tile with an odd number of rows has another row of sums, whose contents are of no use.

const (
	groupBytes = 8 // of a row or a column in a matrix instruction
	pairRows   = 2
	// pairColumns is the number of registers of a vector of columns. There is room for two vectors at least.
	pairColumns      = 2
	leastPairColumns = 2 * pairColumns
)

// inPairs reports whether a term's products are by matrix instructions.
func inPairs(m *lanes.Term) bool { return m.Together() == pairRows }

// mostPairRows returns the most rows of a tile of pairs of rows.
func (e *machine) mostPairRows(vectors int) int {
	sums := min(mostSumRegisters, e.isa.registers-leastPairColumns-1)
	return min(mostTileRows/pairRows, sums/(pairRows*vectors)) * pairRows
}

// columnsFirst reports whether columns are the first operand of a matrix instruction: if only they have no sign, since
// USMMLA takes bytes without one there. The sums are then column by column.
func columnsFirst(m *lanes.Term) bool { return m.Left.In == dtype.I8 && m.Right.In == dtype.U8 }

// eachPair calls do for the registers of each vector of each pair of rows; single says that the second row is of no
// use.
func eachPair(t *lanes.RegisterTile, do func(one, other asm.Reg, single bool)) {
	for row := 0; row < t.Rows; row += pairRows {
		for v := range t.Vectors {
			do(t.Sum(row, v), t.Sum(row+1, v), row+1 == t.Rows)
		}
	}
}

// beginPairs puts the sums in the order of matrix instructions.
func (e *machine) beginPairs(t *lanes.RegisterTile, m *lanes.Term) {
	low, high, s := asm.TRN1, asm.TRN2, asm.D2
	if columnsFirst(m) {
		low, high, s = asm.ZIP1, asm.ZIP2, asm.S4
	}
	spare := asm.V(t.Registers - 1)
	eachPair(t, func(one, other asm.Reg, single bool) {
		switch {
		case t.Cleared && single:
			e.ClearLanes(t, other)
		case t.Cleared:
		case single:
			e.op(high, s, other, one, one)
			e.op(low, s, one, one, one)
		default:
			e.op(high, s, spare, one, other)
			e.op(low, s, one, one, other)
			e.op(asm.MOV, asm.B16, other, spare)
		}
	})
}

// endPairs puts the sums in the order of rows.
func (e *machine) endPairs(t *lanes.RegisterTile, m *lanes.Term) {
	low, high, s := asm.TRN1, asm.TRN2, asm.D2
	if columnsFirst(m) {
		low, high, s = asm.UZP1, asm.UZP2, asm.S4
	}
	spare := asm.V(t.Registers - 1)
	eachPair(t, func(one, other asm.Reg, single bool) {
		if single {
			e.op(low, s, one, one, other)
			return
		}
		e.op(high, s, spare, one, other)
		e.op(low, s, one, one, other)
		e.op(asm.MOV, asm.B16, other, spare)
	})
}

// pairsRound adds the products of a round's steps, for as many pairs of rows at once as there are registers for their
// groups.
func (e *machine) pairsRound(t *lanes.RegisterTile, r *lanes.Round) {
	all := (t.Rows + 1) / pairRows
	free := t.Registers - pairRows*all*t.Vectors - leastPairColumns
	held := min(all, free)
	blocks := (all + held - 1) / held
	for n := range blocks {
		from, to := n*all/blocks, (n+1)*all/blocks
		for k := int64(0); k < r.Steps; {
			b := pairsOfRound{machine: e, t: t, r: r, first: from, fetch: n == 0}
			for i := pairRows * all * t.Vectors; i < t.Registers; i++ {
				b.free = append(b.free, asm.V(i))
			}
			if k+2 <= r.Steps && 2*all <= free && r.DeepA.Is(groupBytes) && r.Group.Count == r.Group.Steps &&
				r.Group.Step == r.Group.Size {
				b.readTwo(k, to-from)
			} else {
				b.readOne(k, to-from)
			}
			b.products(k)
			k += int64(len(b.pairs))
		}
	}
}

// pairsOfRound is a block of a tile's pairs of rows in one or two steps of a round.
type pairsOfRound struct {
	*machine
	t     *lanes.RegisterTile
	r     *lanes.Round
	first int         // pair
	pairs [][]asm.Reg // groups of the rows, by step and pair
	free  []asm.Reg   // for columns
	fetch bool        // columns for later
}

// take takes a free register.
func (b *pairsOfRound) take() asm.Reg {
	r := b.free[0]
	b.free = b.free[1:]
	return r
}

// readOne reads the groups of count pairs of rows of step k.
func (b *pairsOfRound) readOne(k int64, count int) {
	b.pairs = make([][]asm.Reg, 1)
	for i := range count {
		one, other, row := b.take(), b.free[0], pairRows*(b.first+i)
		b.readGroups(one, row, k, groupBytes)
		if row+1 < b.t.Rows {
			b.readGroups(other, row+1, k, groupBytes)
			b.op(asm.TRN1, asm.D2, one, one, other)
		}
		b.pairs[0] = append(b.pairs[0], one)
	}
}

// readTwo reads the groups of count pairs of rows of two steps, each row's by one read.
func (b *pairsOfRound) readTwo(k int64, count int) {
	b.pairs = make([][]asm.Reg, 2)
	for i := range count {
		one, other, turned, row := b.take(), b.take(), b.free[0], pairRows*(b.first+i)
		b.readGroups(one, row, k, vectorBytes)
		second := other
		if row+1 < b.t.Rows {
			b.readGroups(other, row+1, k, vectorBytes)
		} else {
			second = one
		}
		b.op(asm.TRN1, asm.D2, turned, one, second)
		b.op(asm.TRN2, asm.D2, other, one, second)
		b.pairs[0], b.pairs[1] = append(b.pairs[0], turned), append(b.pairs[1], other)
		b.free[0] = one
	}
}

// readGroups reads one group of a row, or two.
func (b *pairsOfRound) readGroups(to asm.Reg, row int, k, bytes int64) {
	g, at := b.r.Group, b.r.Row(row, k)
	if g.Count+g.Before == g.Steps && g.Step == g.Size {
		b.access(asm.LDR, singleOf(bytes), to, after(at, -g.Before*g.Step))
		return
	}
	b.readParts(g, to, at)
}

// products adds the products of the steps from k on whose rows are in registers. A vector of columns is read while the
// one before it is multiplied.
func (b *pairsOfRound) products(k int64) {
	t, r := b.t, b.r
	op, turned := b.product(), columnsFirst(r.Term)
	all := len(b.pairs) * t.Vectors
	atOnce := len(b.free) / pairColumns
	register := func(n, half int) asm.Reg { return b.free[n%atOnce*pairColumns+half] }
	read := func(n int) {
		if n >= all {
			return
		}
		step := k + int64(n/t.Vectors)
		if n%t.Vectors == 0 && b.fetch {
			r.FetchColumns(t, step)
		}
		at, part := r.Column(t, n%t.Vectors, step)
		b.readColumns(n%t.Vectors, [pairColumns]asm.Reg{register(n, 0), register(n, 1)}, at, part)
	}
	read(0)
	for n := range all {
		read(n + 1)
		v := n % t.Vectors
		for half := range b.halves(v) {
			for i, pair := range b.pairs[n/t.Vectors] {
				one, other := pair, register(n, half)
				if turned {
					one, other = other, one
				}
				b.op(op, asm.S4, t.Sum(pairRows*(b.first+i)+half, v), one, other)
			}
		}
	}
}

// halves returns the number of registers of a vector of columns that have columns of the tile.
func (b *pairsOfRound) halves(vector int) int {
	if b.t.Partial(vector) && b.t.Part.Known() && b.t.Part.Fixed <= pairColumns {
		return 1
	}
	return pairColumns
}

// readColumns reads a vector of columns; part says that the others must not be read.
func (b *pairsOfRound) readColumns(vector int, to [pairColumns]asm.Reg, at asm.Mem, part bool) {
	t, halves := b.t, b.halves(vector)
	switch {
	case part && !t.Part.Known():
		for _, r := range to {
			b.ClearLanes(t, r)
		}
		t.EachLane(func(i int64) {
			b.accessLane(asm.LD1, asm.D, to[i/pairColumns], int(i%pairColumns), after(at, i*groupBytes))
		})
	default:
		for half := range halves {
			bytes := int64(vectorBytes)
			if part {
				bytes = min(bytes, groupBytes*t.Part.Fixed-vectorBytes*int64(half))
			}
			b.access(asm.LDR, singleOf(bytes), to[half], after(at, vectorBytes*int64(half)))
		}
	}
	if g := b.r.Group; g.Before > 0 { // the bytes of an incomplete group move to A's positions
		for _, r := range to[:halves] {
			b.opImm(asm.SHL, asm.D2, 8*g.Before, r, r)
		}
	}
}

// product returns the instruction.
func (b *pairsOfRound) product() asm.Op {
	left, right := b.r.Left.In, b.r.Right.In
	switch {
	case left == dtype.BF16:
		return asm.BFMMLA
	case left != right:
		return asm.USMMLA
	case left == dtype.U8:
		return asm.UMMLA
	}
	return asm.SMMLA
}

package arm64

import (
	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
)

// This file is lanes.Tiles: products of tiles whose sums stay in registers. An instruction multiplies a vector of
// columns by one element of a register, so that one read of a row serves as many steps of the sum as the register has
// elements.

// mostSumRegisters is the largest number of registers of sums. The others hold rows and columns.
const mostSumRegisters = 24

// leastColumns is the least number of registers in which columns are read in turn.
const leastColumns = 2

// SumsOf returns the vectors that add up in a type; nil if there are none.
func (e *machine) SumsOf(dt dtype.DType) *lanes.Sums {
	switch dt {
	case dtype.F32, dtype.F64, dtype.I32, dtype.U32:
		return &lanes.Sums{DType: dt, Size: int64(dt.Bits() / 8), Bytes: vectorBytes, Registers: e.isa.registers}
	}
	return nil
}

// GroupOf returns the steps of a group of bytes or bf16 that one instruction adds up, and one more row of sums if A is
// shifted.
func (e *machine) GroupOf(left, right, _ dtype.DType) lanes.Grouping {
	switch {
	case left == dtype.BF16 && right == dtype.BF16 && e.isa.bf16:
		return lanes.Grouping{Steps: groupBytes / 2, Together: pairRows}
	case !isByte(left) || !isByte(right) || !e.isa.dot:
		return lanes.Grouping{}
	case e.isa.matrix:
		return lanes.Grouping{Steps: groupBytes, Together: pairRows}
	case left != right: // no instruction multiplies bytes with a sign and bytes without
		return lanes.Grouping{Steps: 4, More: 1}
	}
	return lanes.Grouping{Steps: 4}
}

// isByte reports whether a type is an integer of 8 bits.
func isByte(dt dtype.DType) bool { return dt == dtype.I8 || dt == dtype.U8 }

// mostTileRows is the largest number of rows of a tile: more would only lengthen the code.
const mostTileRows = 14

// MostRows returns the most rows of a tile.
func (e *machine) MostRows(_ *lanes.Sums, vectors int, g lanes.Grouping) int {
	if g.Together == pairRows {
		return e.mostPairRows(vectors)
	}
	return min(mostTileRows, min(mostSumRegisters, e.isa.registers-5)/vectors-g.More)
}

// RowsOfBase returns how many rows a register addresses: those whose elements lie within every displacement.
func (e *machine) RowsOfBase(distance lanes.Distance) int {
	const bytes, words = 1 << 12, 1 << 14 // that a displacement of bytes, and of words of 32 bits, reaches
	if !distance.Known() || distance.Fixed < 0 {
		return 1
	}
	most := int64(bytes)
	if distance.Fixed%4 == 0 {
		most = words
	}
	return 1 + int((most-2*vectorBytes*lanes.RoundSteps)/max(distance.Fixed, 1))
}

// InMatrices reports that no registers hold matrices.
func (e *machine) InMatrices(*lanes.Product, int, lanes.Distance) bool { return false }

// BeginTile begins a tile's code.
func (e *machine) BeginTile(*lanes.RegisterTile) { e.Spoil() }

// shiftRegister returns the register with the number by which A is shifted, in the bytes that are multiplied: a number
// with a sign becomes one without, or the reverse. Each sum is then off by 128 times the sum of its column. A row of
// these is added up beside the tile's rows, and subtracted from them at the end.
func (e *machine) shiftRegister() asm.Reg { return asm.V(e.isa.registers - 1) }

// BeginTerm prepares a term of pairs of rows, or one whose left operand is shifted.
func (e *machine) BeginTerm(t *lanes.RegisterTile, m *lanes.Term) {
	if inPairs(m) {
		e.beginPairs(t, m)
		return
	}
	if m.More() == 0 {
		return
	}
	pattern := uint32(0x80808080 >> (8 * (4 - m.Group.Count - m.Group.Before)))
	e.access(asm.LDR, asm.Q, e.shiftRegister(), e.pooled32(pattern))
	for v := range t.Vectors {
		e.ClearLanes(t, t.Sum(t.Rows, v))
	}
}

// EndTerm ends a term of pairs of rows, or subtracts from the sums the effect of the shift.
func (e *machine) EndTerm(t *lanes.RegisterTile, m *lanes.Term) {
	if inPairs(m) {
		e.endPairs(t, m)
		return
	}
	if m.More() == 0 {
		return
	}
	for row := range t.Rows {
		for v := range t.Vectors {
			e.op(asm.SUB, asm.S4, t.Sum(row, v), t.Sum(row, v), t.Sum(t.Rows, v))
		}
	}
}

// Round adds the products of a round's steps, for as many rows at once as there are registers for their elements.
func (e *machine) Round(t *lanes.RegisterTile, r *lanes.Round) {
	if inPairs(r.Term) {
		e.pairsRound(t, r)
		return
	}
	first, end := (t.Rows+r.More())*t.Vectors, t.Registers-r.More()
	held := min(t.Rows, end-first-leastColumns)
	blocks := (t.Rows + held - 1) / held
	for n := range blocks {
		from, to := n*t.Rows/blocks, (n+1)*t.Rows/blocks
		b := rowsOfRound{machine: e, t: t, r: r, first: from, rows: to - from, registers: first, last: n == blocks-1}
		b.columns, b.end = first+b.rows, end
		for k := int64(0); k < r.Steps; k += b.steps {
			b.readRows(k)
			b.products(k, n == 0)
		}
	}
}

// rowsOfRound is a block of a tile's rows in a round. Their elements are in registers, as many steps as one read gives.
type rowsOfRound struct {
	*machine
	t                       *lanes.RegisterTile
	r                       *lanes.Round
	first, rows             int
	registers, columns, end int // of the rows, and of the columns up to before end
	steps                   int64
	last                    bool // block of the round
}

// readRows reads the rows' elements from step k on.
func (b *rowsOfRound) readRows(k int64) {
	r := b.r
	b.steps = 1
	if n := vectorBytes / max(b.t.Size, r.Left.Size()); k+n <= r.Steps && r.DeepA.Is(r.Left.Size()) && (r.Group == nil ||
		r.Group.Count == r.Group.Steps && r.Group.Step == r.Group.Size) {
		b.steps = n
	}
	for i := range b.rows {
		to, at := asm.V(b.registers+i), r.Row(b.first+i, k)
		switch g := r.Group; {
		case b.steps > 1:
			b.ReadRun(b.t, r.Left, to, at, false)
		case r.Left.Narrow():
			b.ReadOne(b.t, r.Left, to, at)
		case g == nil || g.Count+g.Before == g.Steps && g.Step == g.Size:
			if g != nil {
				at.Disp -= int32(g.Before * g.Step)
			}
			b.access(asm.LDR, singleOf(r.Left.Size()), to, at)
		default:
			b.readParts(g, to, at)
		}
		if r.More() > 0 {
			b.op(asm.EOR, asm.B16, to, to, b.shiftRegister())
		}
	}
}

// singleOf returns the shape of one element of a number of bytes.
func singleOf(bytes int64) asm.Shape {
	return [...]asm.Shape{1: asm.B, 2: asm.H, 4: asm.S, 8: asm.D, 16: asm.Q}[bytes]
}

// readParts reads a group of A that is not contiguous, or not complete. The register's other bytes become 0.
func (e *machine) readParts(g *lanes.Group, to asm.Reg, at asm.Mem) {
	bytes, count := g.Count*g.Size, int64(1)
	if g.Step != g.Size {
		bytes, count = g.Size, g.Count
	}
	for i := range count {
		e.parts(bytes, func(part, from int64) {
			if i == 0 && from == 0 {
				e.access(asm.LDR, singleOf(part), to, at)
			} else {
				e.accessLane(asm.LD1, singleOf(part), to, int((i*g.Size+from)/part), after(at, i*g.Step+from))
			}
		})
	}
}

// products adds the products of the steps from k on whose elements of the rows are in registers. A vector of columns is
// read while the one before it is multiplied. fetch says that columns are fetched for later.
func (b *rowsOfRound) products(k int64, fetch bool) {
	t, r := b.t, b.r
	op, s := b.product()
	all := int(b.steps) * t.Vectors
	register := func(n int) asm.Reg { return asm.V(b.columns + n%(b.end-b.columns)) }
	read := func(n int) {
		if n >= all {
			return
		}
		step := k + int64(n/t.Vectors)
		if n%t.Vectors == 0 && fetch {
			r.FetchColumns(t, step)
		}
		at, part := r.Column(t, n%t.Vectors, step)
		b.ReadRun(t, r.Right, register(n), at, part)
		if g := r.Group; g != nil && g.Before > 0 { // the bytes of an incomplete group move to A's positions
			b.opImm(asm.SHL, asm.S4, 32/g.Steps*g.Before, register(n), register(n))
		}
	}
	read(0)
	for n := range all {
		read(n + 1)
		v, x, lane := n%t.Vectors, register(n), uint8(n/t.Vectors)
		for i := range b.rows {
			b.Emit(asm.Inst{Op: op, Shape: s, Args: [6]asm.Reg{t.Sum(b.first+i, v), x, asm.V(b.registers + i)}, Lane: lane})
		}
		if b.last && r.More() > 0 {
			b.Emit(asm.Inst{Op: op, Shape: s, Args: [6]asm.Reg{t.Sum(t.Rows, v), x, b.shiftRegister()}})
		}
	}
}

// product returns the instruction that adds the products of columns and an element of a row, and its shape.
func (b *rowsOfRound) product() (asm.Op, asm.Shape) {
	r, s := b.r, shapeOf(b.t.DType)
	if r.Group == nil {
		if b.t.DType.IsFloat() {
			return asm.FMLABY, s
		}
		return asm.MLABY, s
	}
	if r.Right.In == dtype.I8 {
		return asm.SDOTBY, s
	}
	return asm.UDOTBY, s
}

// Fetch brings a line of memory into a cache.
func (b *builder) Fetch(at regalloc.Mem, how lanes.Fetch) {
	b.Emit(asm.Inst{Op: asm.PRFM, Args: [6]asm.Reg{asm.Memory}, Mem: at, Imm: fetches[how]})
}

// fetches are the ways of PRFM: into the first cache, the second, and the first to be written.
var fetches = [...]int64{lanes.FetchNear: 0, lanes.FetchSecond: 2, lanes.FetchWrite: 16}

// Halve divides an integer of 0 or more by 2.
func (b *builder) Halve(x regalloc.Reg) { b.ShiftDown(x, 1) }

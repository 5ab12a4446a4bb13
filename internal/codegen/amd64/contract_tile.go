package amd64

import (
	"encoding/binary"
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/target"
)

// A register tile is rows × vectors of sums that stay in vector registers until the sums are complete: the first
// registers are the sums, row by row; the others hold operands. Its code names machine registers, unknown to the
// allocator, so it begins with spoil.

// unrolled is the number of steps of a sum in one round of its loop.
const unrolled = 4

// prefetchAhead is the distance, in bytes, at which packed columns are fetched before their use. Tiles of at most
// fewestRows wait for memory anyway, and the processor's own prefetching is fastest for them, except for narrow
// columns, whose widening leaves few reads under way: these are fetched at streamAhead.
const (
	prefetchAhead = 1024
	fewestRows    = 3
)

// fetchesAhead returns the distance in bytes at which a tile of a term fetches columns before their use; 0 leaves
// prefetching to the processor.
func (t *registerTile) fetchesAhead(m *term) int64 {
	switch {
	case !m.packed:
		return 0
	case t.rows > fewestRows:
		return prefetchAhead
	case m.formB.extend != asm.NoOp:
		return streamAhead
	}
	return 0
}

// elementOps are the instructions for a type of sums; NoOp if there is none.
type elementOps struct {
	size                                            int64
	multiplyAdd, broadcast, move, maskMove, compare asm.Op
	add, sub, mul, div, min, max, sqrt, and, xor    asm.Op
}

// registers returns the number of the machine's vector registers, less one for products that no single instruction adds
// to a sum.
func (o *elementOps) registers(i *isa) int {
	if o.multiplyAdd == asm.NoOp {
		return i.registers - 1
	}
	return i.registers
}

var elements = map[dtype.DType]*elementOps{
	dtype.F32: {4, asm.VFMADD231PS, asm.VBROADCASTSS, asm.VMOVUPS, asm.VMASKMOVPS, asm.VPCMPGTD,
		asm.VADDPS, asm.VSUBPS, asm.VMULPS, asm.VDIVPS, asm.VMINPS, asm.VMAXPS, asm.VSQRTPS, asm.VANDPS, asm.VXORPS},
	dtype.F64: {8, asm.VFMADD231PD, asm.VBROADCASTSD, asm.VMOVUPD, asm.VMASKMOVPD, asm.VPCMPGTQ,
		asm.VADDPD, asm.VSUBPD, asm.VMULPD, asm.VDIVPD, asm.VMINPD, asm.VMAXPD, asm.VSQRTPD, asm.VANDPD, asm.VXORPD},
	dtype.I32: wholeNumbers(asm.VPMINSD, asm.VPMAXSD),
	dtype.U32: wholeNumbers(asm.VPMINUD, asm.VPMAXUD),
}

// wholeNumbers returns the instructions for i32 or u32 elements, given those for the minimum and the maximum.
func wholeNumbers(least, greatest asm.Op) *elementOps {
	return &elementOps{size: 4, broadcast: asm.VBROADCASTSS, move: asm.VMOVUPS, maskMove: asm.VMASKMOVPS,
		compare: asm.VPCMPGTD,
		add:     asm.VPADDD, sub: asm.VPSUBD, mul: asm.VPMULLD, min: least, max: greatest, xor: asm.VXORPS}
}

// stream is memory of which a tile reads or writes a row for each row of its own.
type stream struct {
	from, at asm.Reg // the address of its beginning, and of the tile's first row
	row      lanes.Distance
}

// term is a sum of products: K of them, for every iteration of the serial loops around.
type term struct {
	a            *stream
	kind         string // of operands for tile registers; see squareKind
	formA, formB *operandForm
	dot          *dot
	b            asm.Reg        // the right operand's address
	deepA, deepB lanes.Distance // bytes from a step of the sum to the next
	depth        lanes.Distance // steps
	serial       []serial       // outermost first
	packed       bool           // the right operand's steps are contiguous in memory, in full cache lines
	room         int64          // columns that may be read at every step, used or not
	// ahead moves through the next panel while this one's tiles are computed; NoReg if none does
	ahead asm.Reg
	pace  int64 // its bytes in a round
}

// serial is a loop around a contraction.
type serial struct {
	extent, stepA, stepB lanes.Distance
}

// lookAhead emits prefetches of the next panel of packed columns into the second-level cache, spread evenly over this
// panel's tiles: without them the first tile of each panel would wait for memory. It assumes that the next panel, if
// there is one, follows this one in memory.
func (t *term) lookAhead(e *machine, tiles int64) {
	t.ahead = asm.NoReg
	if !t.packed || !t.depth.Known() || !t.deepB.Known() || t.depth.Fixed < unrolled || tiles < 2 {
		return
	}
	panel, inside := t.depth.Fixed*t.deepB.Fixed, int64(1)
	for _, s := range t.serial {
		if !s.extent.Known() || s.extent.Fixed > mostAhead/inside {
			return
		}
		inside = max(inside*s.extent.Fixed, 1)
	}
	rounds := min(tiles, mostAhead) * (t.depth.Fixed / unrolled)
	if (panel+rounds-1)/rounds > mostPace {
		return
	}
	t.ahead = e.CopyOf(t.b)
	e.MoveOn(t.ahead, lanes.Known(panel*inside))
	t.pace = (panel + rounds - 1) / rounds
}

// Limits of lookAhead: the largest panel, and the most bytes that one round fetches, each line by one instruction.
const (
	mostAhead = 1 << 20
	mostPace  = 4096
)

// merge joins serial loops with the sum if their steps continue the sum's.
func (t *term) merge() {
	for n := len(t.serial); n > 0; n = len(t.serial) {
		s := t.serial[n-1]
		if !t.depth.Known() || !s.extent.Known() || !t.deepA.Known() || !t.deepB.Known() ||
			t.depth.Fixed > math.MaxInt32/max(s.extent.Fixed, 1) || !s.stepA.Is(t.depth.Fixed*t.deepA.Fixed) ||
			!s.stepB.Is(t.depth.Fixed*t.deepB.Fixed) {
			return
		}
		t.depth.Fixed *= s.extent.Fixed
		t.serial = t.serial[:n-1]
	}
}

// registerTile is a tile that is being emitted.
type registerTile struct {
	*machine
	isa           *isa // of its vectors
	ops           *elementOps
	rows, vectors int
	part          lanes.Distance // lanes of the last vector; 0: all
	whole         bool           // all lanes may be written
	spare         []asm.Reg
	mask          asm.Reg // of the last vector's lanes, after it was made
}

// lanes returns the number of a vector's lanes.
func (t *registerTile) lanes() int64 { return t.isa.lanesOf(t.ops) }

// sum returns the register of a row's vector of sums.
func (t *registerTile) sum(row, vector int) asm.Reg { return asm.V(row*t.vectors + vector) }

// wide emits an instruction on full vectors.
func (t *registerTile) wide(op asm.Op, args ...asm.Reg) {
	in := asm.Inst{Op: op, Bits: uint16(t.isa.bits)}
	copy(in.Args[:], args)
	t.Emit(in)
}

// wideFrom emits an instruction whose last operand is in memory.
func (t *registerTile) wideFrom(op asm.Op, at asm.Mem, args ...asm.Reg) {
	in := asm.Inst{Op: op, Bits: uint16(t.isa.bits), Mem: at}
	copy(in.Args[:], append(args, asm.Memory))
	t.Emit(in)
}

// begin takes the vector registers for the tile; those that are not sums are spare.
func (t *registerTile) begin() {
	t.spoil()
	t.spare = t.spare[:0]
	for n := t.isa.registers - 1; n >= t.rows*t.vectors; n-- {
		t.spare = append(t.spare, asm.V(n))
	}
	t.mask = asm.NoReg
	if t.isa.masks && t.partial(t.vectors-1) {
		t.opmask()
	}
}

// take returns a spare register, which give makes spare again.
func (t *registerTile) take() asm.Reg {
	if len(t.spare) == 0 {
		lanes.Refuse("an expression of sums that needs many registers")
	}
	r := t.spare[len(t.spare)-1]
	t.spare = t.spare[:len(t.spare)-1]
	return r
}

// give makes a register spare again.
func (t *registerTile) give(r asm.Reg) { t.spare = append(t.spare, r) }

// clear makes all sums 0.
func (t *registerTile) clear() {
	for n := range t.rows * t.vectors {
		t.wide(t.ops.xor, asm.V(n), asm.V(n), asm.V(n))
	}
}

// partial reports whether a vector is the last one and lacks some lanes.
func (t *registerTile) partial(vector int) bool {
	return vector == t.vectors-1 && (!t.part.Known() || t.part.Fixed != 0)
}

// loadMask puts the mask of the last vector's lanes into a vector register, on machines without opmasks.
func (t *registerTile) loadMask(r asm.Reg) {
	if t.part.Known() {
		bytes := make([]byte, t.isa.bits/8)
		for i := range t.part.Fixed * t.ops.size {
			bytes[i] = 0xff
		}
		t.wideFrom(asm.VMOVUPS, asm.Mem{Pool: t.code.Constant(bytes)}, r)
		return
	}
	var counts []byte
	for i := range t.lanes() {
		if t.ops.size == 4 {
			counts = binary.LittleEndian.AppendUint32(counts, uint32(i))
		} else {
			counts = binary.LittleEndian.AppendUint64(counts, uint64(i))
		}
	}
	broadcast, from := asm.VPBROADCASTD, asm.VMOVD
	if t.ops.size == 8 {
		broadcast, from = asm.VPBROADCASTQ, asm.VMOVQ
	}
	t.Emit(asm.Inst{Op: from, Args: [4]asm.Reg{r, t.part.Register}})
	t.wide(broadcast, r, r)
	t.wideFrom(t.ops.compare, asm.Mem{Pool: t.code.Constant(counts)}, r, r)
}

// opmask makes the mask of the last vector's lanes on machines that have opmasks.
func (t *registerTile) opmask() {
	bits := t.General()
	if t.part.Known() {
		t.SetNumber(bits, 1<<t.part.Fixed-1)
	} else {
		t.SetNumber(bits, -1)
		t.Emit(asm.Inst{Op: asm.BZHI, Bits: 64, Args: [4]asm.Reg{bits, bits, t.part.Register}})
	}
	t.mask = t.maskRegister()
	t.Emit(asm.Inst{Op: asm.KMOVW, Args: [4]asm.Reg{t.mask, bits}})
}

// loadLanes reads a vector of a row; of the last vector, without touching memory beyond its lanes. r may be the mask's
// register.
func (t *registerTile) loadLanes(r asm.Reg, vector int, at asm.Mem) {
	switch {
	case !t.partial(vector):
		t.wideFrom(t.ops.move, at, r)
	case t.isa.masks:
		t.Emit(asm.Inst{Op: t.ops.move, Bits: uint16(t.isa.bits), Args: [4]asm.Reg{r, asm.Memory}, Mem: at, Mask: t.mask,
			Zero: true})
	case t.mask != asm.NoReg:
		t.wideFrom(t.ops.maskMove, at, r, t.mask)
	default:
		t.loadMask(r)
		t.wideFrom(t.ops.maskMove, at, r, r)
	}
}

// storeLanes writes a vector of a row.
func (t *registerTile) storeLanes(at asm.Mem, vector int, r asm.Reg) {
	switch {
	case t.whole || !t.partial(vector):
		t.Emit(asm.Inst{Op: t.ops.move, Bits: uint16(t.isa.bits), Args: [4]asm.Reg{asm.Memory, r}, Mem: at})
	case t.isa.masks:
		t.Emit(asm.Inst{Op: t.ops.move, Bits: uint16(t.isa.bits), Args: [4]asm.Reg{asm.Memory, r}, Mem: at, Mask: t.mask})
	default:
		if t.mask == asm.NoReg {
			t.mask = t.take()
			t.loadMask(t.mask)
		}
		t.Emit(asm.Inst{Op: t.ops.maskMove, Bits: uint16(t.isa.bits), Args: [4]asm.Reg{asm.Memory, t.mask, r}, Mem: at})
	}
}

// products adds a term's products to the sums.
func (t *registerTile) products(m *term) {
	t.beginShifted(m)
	t.walk(m, 0, t.CopyOf(m.a.at), t.CopyOf(m.b))
	t.endShifted(m)
}

// walk does a term's serial loops from a level inward. It changes the pointers.
func (t *registerTile) walk(m *term, level int, a, b asm.Reg) {
	if level == len(m.serial) {
		t.innermost(m, a, b)
		return
	}
	s := m.serial[level]
	insideA, insideB := m.advance(level + 1)
	onA, onB := s.stepA.Known() && insideA.Is(s.stepA.Fixed), s.stepB.Known() && insideB.Is(s.stepB.Fixed)
	t.Repeat(s.extent, func() {
		innerA, innerB := a, b
		if !onA {
			innerA = t.CopyOf(a)
		}
		if !onB {
			innerB = t.CopyOf(b)
		}
		t.walk(m, level+1, innerA, innerB)
		if !onA {
			t.MoveOn(a, s.stepA)
		}
		if !onB {
			t.MoveOn(b, s.stepB)
		}
	})
}

// advance returns the distance by which the loops from a level inward move the pointers.
func (m *term) advance(level int) (a, b lanes.Distance) {
	n, a, b := m.depth, m.deepA, m.deepB
	if level < len(m.serial) {
		n, a, b = m.serial[level].extent, m.serial[level].stepA, m.serial[level].stepB
	}
	times := func(d lanes.Distance) lanes.Distance {
		if n.Known() && d.Known() {
			return lanes.Known(n.Fixed * d.Fixed)
		}
		return lanes.Distance{Register: asm.RAX}
	}
	return times(a), times(b)
}

// innermost adds the products of one iteration of the serial loops.
func (t *registerTile) innermost(m *term, a, b asm.Reg) {
	even := m.deepA.Known() && m.deepB.Known()
	rows := t.rowBases(m, a)
	round := func(steps int64) func() {
		return func() {
			if m.ahead != asm.NoReg && steps == unrolled && t.rows > fewestRows {
				for line := int64(0); line < m.pace; line += 64 {
					t.Emit(asm.Inst{Op: asm.PREFETCHT1, Args: [4]asm.Reg{asm.Memory}, Mem: asm.Mem{Base: m.ahead, Disp: int32(line)}})
				}
				t.MoveOn(m.ahead, lanes.Known(m.pace))
			}
			for k := range steps {
				t.step(m, rows, b, k, even)
				if !even {
					t.advanceRows(rows, m.deepA)
					t.MoveOn(b, m.deepB)
				}
			}
			if even {
				t.advanceRows(rows, lanes.Known(m.deepA.Fixed*steps))
				t.MoveOn(b, lanes.Known(m.deepB.Fixed*steps))
			}
		}
	}
	if m.depth.Known() {
		t.Repeat(lanes.Known(m.depth.Fixed/unrolled), round(unrolled))
		if rest := m.depth.Fixed % unrolled; rest > 0 {
			round(rest)()
		}
		return
	}
	n := t.CopyOf(m.depth.Register)
	t.Emit(asm.Inst{Op: asm.SAR, Bits: 64, Args: [4]asm.Reg{n}, Imm: 2})
	t.Repeat(lanes.Distance{Register: n}, round(unrolled))
	t.Assign(n, m.depth.Register)
	t.integerImm(asm.AND, n, unrolled-1)
	t.RepeatAtMost(lanes.Distance{Register: n}, unrolled-1, round(1))
}

// rowBases holds the registers that address the rows of A: one if the rows' distance is constant, else one for three
// rows.
type rowBases struct {
	bases []asm.Reg
	row   lanes.Distance
}

// rowBases returns the registers that address a tile's rows: one if the distance of rows is a number, else one for
// three rows.
func (t *registerTile) rowBases(m *term, a asm.Reg) rowBases {
	r := rowBases{bases: []asm.Reg{a}, row: m.a.row}
	if m.a.row.Known() {
		return r
	}
	for i := 3; i < t.rows; i += 3 {
		next := t.CopyOf(r.bases[len(r.bases)-1])
		for range 3 {
			t.integerOp(asm.ADD, next, m.a.row.Register)
		}
		r.bases = append(r.bases, next)
	}
	return r
}

// advanceRows adds a distance to all base registers.
func (t *registerTile) advanceRows(r rowBases, d lanes.Distance) {
	for _, base := range r.bases {
		t.MoveOn(base, d)
	}
}

// at returns the address of a row's element at a displacement.
func (r rowBases) at(row int, disp int64) asm.Mem {
	if r.row.Known() {
		return asm.Mem{Base: r.bases[0], Disp: int32(int64(row)*r.row.Fixed + disp)}
	}
	m := asm.Mem{Base: r.bases[row/3], Disp: int32(disp)}
	if row%3 > 0 {
		m.Index, m.Scale = r.row.Register, uint8(row%3)
	}
	return m
}

// step adds the products of one step of a sum, the k-th of a round.
func (t *registerTile) step(m *term, rows rowBases, b asm.Reg, k int64, even bool) {
	dispA, dispB := int64(0), int64(0)
	if even {
		dispA, dispB = k*m.deepA.Fixed, k*m.deepB.Fixed
	}
	line := m.formB.size * t.lanes() // of a vector
	column := func(vector int) asm.Mem {
		return asm.Mem{Base: b, Disp: int32(dispB + int64(vector)*line)}
	}
	masked := func(vector int) bool { return t.partial(vector) && m.room < int64(t.vectors)*t.lanes() }
	if ahead := t.fetchesAhead(m); even && ahead > 0 {
		step := line * int64(t.vectors)
		for next := (k*step + 63) &^ 63; next < (k+1)*step; next += 64 {
			t.Emit(asm.Inst{Op: asm.PREFETCHT0, Args: [4]asm.Reg{asm.Memory},
				Mem: asm.Mem{Base: b, Disp: int32(dispB + next - k*step + ahead)}})
		}
	}
	registers, all := t.ops.registers(t.isa), t.rows+m.dot.moreRows()
	free := registers - all*t.vectors
	first := registers - 1
	left := func(row int, r asm.Reg) asm.Reg { // an element of A, in r or in the register of the shift
		if row == t.rows {
			return t.shift()
		}
		t.readLeft(m, r, rows, row, dispA)
		return r
	}
	switch {
	case all == 1: // the columns are used once
		a := left(0, asm.V(first))
		for v := range t.vectors {
			if masked(v) || m.formB.extend != asm.NoOp || m.dot != nil || t.ops.multiplyAdd == asm.NoOp {
				t.readRight(m, asm.V(first-1), v, column(v), masked(v))
				t.addProduct(m, t.sum(0, v), a, asm.V(first-1))
			} else {
				t.wideFrom(t.ops.multiplyAdd, column(v), t.sum(0, v), a)
			}
		}
	case free > t.vectors: // the columns stay in registers, the rows are read in turn
		for v := range t.vectors {
			t.readRight(m, asm.V(first-v), v, column(v), masked(v))
		}
		others := free - t.vectors
		if t.vectors == 1 && t.repeats(m) {
			for i := range all {
				t.Emit(asm.Inst{Op: t.ops.multiplyAdd, Bits: uint16(t.isa.bits), Mem: rows.at(i, dispA), Broadcast: true,
					Args: [4]asm.Reg{t.sum(i, 0), asm.V(first), asm.Memory}})
			}
			return
		}
		for i := range all {
			a := left(i, asm.V(first-t.vectors-i%others))
			for v := range t.vectors {
				t.addProduct(m, t.sum(i, v), a, asm.V(first-v))
			}
		}
	default: // the rows stay in registers, the columns are read in turn
		at := make([]asm.Reg, all)
		for i := range at {
			at[i] = left(i, asm.V(first-i))
		}
		others := free - t.rows
		for v := range t.vectors {
			x := asm.V(first - t.rows - v%others)
			t.readRight(m, x, v, column(v), masked(v))
			for i, a := range at {
				t.addProduct(m, t.sum(i, v), a, x)
			}
		}
	}
}

// repeats reports whether the instruction that adds a product can itself read an element of A into all lanes.
func (t *registerTile) repeats(m *term) bool {
	return t.isa.masks && m.dot == nil && m.formA.extend == asm.NoOp && t.ops.multiplyAdd != asm.NoOp
}

// mostTileRows returns the largest number of rows of a tile with so many vectors whose sums fit so many registers; 0 if
// not even one row's do.
func mostTileRows(registers, vectors, most int) int {
	rows := most
	for rows > 0 && target.SumRegisters(int64(rows), int64(vectors)) > int64(registers) {
		rows--
	}
	return rows
}

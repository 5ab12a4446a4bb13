package amd64

import (
	"encoding/binary"
	"fmt"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
)

// A product by groups of four bytes is done in tile registers if the machine has them (AMX): each has 16 rows of 64
// bytes. Four of them, two by two, hold sums of 32 bits; the others hold a square of A, 16 rows of 16 groups, and one
// of B, 16 groups of 16 columns, in B's layout in memory. All squares of a block of rows have one shape: if a block has
// an odd number of rows, its second half begins in the last row of the first, which is computed twice; columns
// likewise. The remaining groups have squares of their own, with fewer groups. All blocks of a known number of rows
// have one shape.
//
// Configuring the registers takes as long as ten products of squares. A return to Go loses the configuration, so they
// stay configured for as many blocks as may be computed without one, and are then released.

// The shape of a tile register.
const (
	squareRows  = 16
	squareBytes = 64
)

// The parts of a configuration: the registers' bytes of a row, two bytes each, and their rows.
const (
	configBytes   = 64
	configColumns = 16
	configRows    = 48
)

// The tile registers: sums, A and B, and those of the groups that are left over, or else a second A and B.
const (
	leftSquare, rightSquare, leftRest, rightRest = 4, 5, 6, 7
)

// squares is a product that is computed in tile registers.
type squares struct {
	*machine
	product *lanes.Product
	width   int64   // columns of a square
	starts  []int64 // the squares' first columns
	rest    int64   // groups of a term that do not fill a square; 0 if there are none
	line    int64   // bytes of a row of sums in the frame; 0: sums are in memory
	at      int32   // where they are in the frame
	config  int32   // where the frame has the configuration for blocks whose rows are in a register
	cost    int64   // of a block's products
}

// squaresOf prepares a product for the tile registers; if it cannot be done there, reason says why. part is the number
// of columns in the last vector; 0: all.
func (e *machine) squaresOf(p *lanes.Product, vectors int, part lanes.Distance) (q *squares, reason string) {
	if rows, ok := p.Rows.Const(); ok && rows < fewestSquareRows {
		return nil, fmt.Sprintf("%d rows are fewer than %d", rows, fewestSquareRows)
	}
	if !part.Known() {
		return nil, "the number of columns is not known"
	}
	perVector := p.Sums.Lanes()
	n := int64(vectors) * perVector
	if part.Fixed > 0 {
		n += part.Fixed - perVector
	}
	q = &squares{machine: e, product: p}
	across := (n + squareBytes/4 - 1) / (squareBytes / 4)
	q.width = (n + across - 1) / across
	for i := range across {
		q.starts = append(q.starts, min(i*q.width, n-q.width))
	}
	steps := int64(0)
	for _, t := range p.Terms {
		if reason := noSquares(t); reason != "" {
			return nil, reason
		}
		rest := t.Depth.Fixed % (squareBytes / 4)
		if rest != 0 && q.rest != 0 && rest != q.rest {
			return nil, "its sums leave over different numbers of groups"
		}
		q.rest = max(q.rest, rest)
		rounds := (t.Depth.Fixed + squareBytes/4 - 1) / (squareBytes / 4)
		for _, s := range t.Serial {
			rounds = lanes.Times(rounds, max(s.Extent.Fixed, 0))
		}
		steps = min(steps+rounds, lanes.Unbounded)
	}
	if q.cost = lanes.Times(steps*across, mostSquareCost); q.cost > lanes.TileMost {
		return nil, "its sums are too long to be done without a pause"
	}
	if p.Save == nil || !p.Cleared {
		q.line = n * 4
	}
	if _, ok := p.Rows.Const(); !ok || q.line > 0 {
		q.config = squareRoom(p.Kernel, configBytes+2*squareRows*q.line)
		q.at = q.config + configBytes
	}
	return q, ""
}

// noSquares returns why a term cannot be done in tile registers; "" if it can.
func noSquares(m *lanes.Term) string {
	g := m.Group
	switch {
	case g == nil || g.Steps*g.Size != 4:
		return "the steps of its sums do not lie in groups"
	case g.Count != g.Steps:
		return fmt.Sprintf("its sums leave over a group of %d steps, not %d", g.Count, g.Steps)
	case g.Step != g.Size:
		return "the steps of its left operand are not adjacent"
	case !m.Depth.Known() || m.Depth.Fixed < 1:
		return "the length of its sums is not known"
	case !m.DeepA.Is(4):
		return "the groups of its left operand are not adjacent"
	case !m.DeepB.Known():
		return "the distance of its right operand's groups is not known"
	}
	for _, s := range m.Serial {
		if !s.Extent.Known() {
			return "the length of its sums is not known"
		}
	}
	return ""
}

// InMatrices emits the product in tile registers, and reports whether that can be done. If it cannot, but its element
// types would allow it, a note says why, unless there are so few rows that vectors are faster.
func (e *machine) InMatrices(p *lanes.Product, vectors int, part lanes.Distance) bool {
	if !e.isa.squares {
		return false
	}
	q, reason := e.squaresOf(p, vectors, part)
	rows, ok := p.Rows.Const()
	if q == nil && (!ok || rows >= fewestSquareRows) {
		for _, m := range p.Terms {
			if kind := e.squareKind(m, p.Sums); kind != "" {
				p.Kernel.Note("a product of %s does not use tile registers: %s", kind, reason)
			}
		}
	}
	if q != nil {
		q.all()
	}
	return q != nil
}

// fewestSquareRows is the fewest rows for which the tile registers are faster than vectors.
const fewestSquareRows = 4

// mostSquareCost is the most that a step of two by two squares costs, shared among the columns.
const mostSquareCost = 2*squareProductCost + 3*squareReadCost + 16

// The costs of instructions on tile registers.
const (
	squareProductCost = 24
	squareReadCost    = 16
)

// squareRoom reserves bytes of the frame for a configuration and for sums, which all products of a kernel share.
func squareRoom(k *lanes.KernelEmitter, bytes int64) int32 {
	if bytes > k.SquareBytes {
		const line = 64 / 8
		k.Words = (k.Words + line - 1) / line * line
		k.SquareAt, k.SquareBytes = int32(k.Words*8), bytes
		k.Words += int(bytes / 8)
	}
	return k.SquareAt
}

// squareBlock is rows that are computed together: a number of them, or one that is in a register.
type squareBlock struct {
	*squares
	rows   lanes.Distance
	height lanes.Distance // of a square; for a register, the configuration is chosen by it
	halves int            // one below the other
	again  int64          // rows at its beginning that the block before it has computed
}

// all writes the blocks of all rows.
func (q *squares) all() {
	for _, s := range q.product.Streams {
		s.At = q.CopyOf(s.From)
	}
	if n, ok := q.product.Rows.Const(); ok {
		q.even(n)
		return
	}
	constant := q.NewVector()
	q.Emit(q.isa.Load(constant, asm.Mem{Pool: q.Pool.Constant(q.configuration(squareRows))}))
	q.Emit(q.isa.Store(asm.Mem{Base: frameRegister, Disp: q.config}, constant))
	end := q.Label()
	if full, rest, ok := q.product.Few(q.product.Rows); ok {
		q.product.Either(q.product.Height, full, rest, end, q.even)
		return
	}
	// Full blocks while at least two of them are left, then two blocks of even size, or one.
	left, size, again := q.CopyOf(q.product.Height), q.General(), q.Label()
	q.integerOp(asm.TEST, left, left)
	q.jump(asm.JLE, end)
	q.Turns(again, q.product.Most(q.product.Rows), false, asm.NoReg, 0)
	chosen := q.Label()
	q.SetNumber(size, 2*squareRows)
	q.integerImm(asm.CMP, left, 4*squareRows)
	q.jump(asm.JGE, chosen)
	q.Assign(size, left)
	q.integerImm(asm.CMP, left, 2*squareRows)
	q.jump(asm.JLE, chosen)
	q.integerImm(asm.ADD, size, 1)
	q.Emit(asm.Inst{Op: asm.SHR, Bits: 64, Args: [4]asm.Reg{size}, Imm: 1})
	q.Bind(chosen)
	q.block(lanes.Distance{Register: size})
	q.integerOp(asm.SUB, left, size)
	q.integerOp(asm.TEST, left, left)
	q.jump(asm.JG, again)
	q.Bind(end)
}

// even writes the blocks of n rows: all of one size, of which the last begins in the one before it.
func (q *squares) even(n int64) {
	if n <= 0 {
		return
	}
	count := (n + 2*squareRows - 1) / (2 * squareRows)
	size := (n + count - 1) / count
	b := &squareBlock{squares: q, rows: lanes.Known(size), height: lanes.Known(size), halves: 1}
	if size > squareRows {
		b.height, b.halves = lanes.Known((size+1)/2), 2
	}
	last := *b
	if last.again = count*size - n; last.again > 0 {
		count--
	}
	compute := func(b *squareBlock) {
		b.products()
		b.finishRows()
	}
	// So many blocks are computed without a return to Go.
	whole := max(1, lanes.LoopMost/(q.cost+size*int64(len(q.starts))*finishCost))
	switch {
	case count > whole:
		left, some, again, inner := q.Number(count), q.General(), q.Label(), q.Label()
		q.Turns(again, (count+whole-1)/whole, true, asm.NoReg, 0)
		b.configured(func() {
			enough := q.Label()
			q.SetNumber(some, whole)
			q.integerImm(asm.CMP, left, whole)
			q.jump(asm.JGE, enough)
			q.Assign(some, left)
			q.Bind(enough)
			q.Turns(inner, whole, false, asm.NoReg, 0)
			compute(b)
			q.integerImm(asm.SUB, some, 1)
			q.jump(asm.JNE, inner)
		})
		q.integerImm(asm.SUB, left, whole)
		q.jump(asm.JG, again)
		if last.again > 0 {
			last.configured(func() { compute(&last) })
		}
	default:
		b.configured(func() {
			b.loop(count, func() { compute(b) })
			if last.again > 0 {
				compute(&last)
			}
		})
	}
}

// finishCost is an estimate of the cost of finishing a row of a square's sums.
const finishCost = 48

// configured emits body between the configuration of the registers and their release, without a return to Go.
func (b *squareBlock) configured(body func()) {
	b.configure()
	b.Budgets.Whole(body)
	b.Emit(asm.Inst{Op: asm.TILERELEASE})
}

// block computes a block of as many rows as a register says, and moves the streams on.
func (q *squares) block(rows lanes.Distance) {
	two, done := q.Label(), q.Label()
	q.integerImm(asm.CMP, rows.Register, squareRows)
	q.jump(asm.JG, two)
	one := &squareBlock{squares: q, rows: rows, height: rows, halves: 1}
	one.configured(one.products)
	q.jump(asm.JMP, done)
	q.Bind(two)
	half := q.CopyOf(rows.Register)
	q.integerImm(asm.ADD, half, 1)
	q.Emit(asm.Inst{Op: asm.SHR, Bits: 64, Args: [4]asm.Reg{half}, Imm: 1})
	both := &squareBlock{squares: q, rows: rows, height: lanes.Distance{Register: half}, halves: 2}
	both.configured(both.products)
	q.Bind(done)
	both.finishRows()
}

// configuration returns the shapes of the tile registers for squares of so many rows.
func (q *squares) configuration(height int64) []byte {
	config := make([]byte, configBytes)
	config[0] = 1
	shape := func(register int, rows, bytes int64) {
		binary.LittleEndian.PutUint16(config[configColumns+2*register:], uint16(bytes))
		config[configRows+register] = byte(rows)
	}
	for n := range leftSquare {
		shape(n, height, 4*q.width)
	}
	shape(leftSquare, height, squareBytes)
	shape(rightSquare, squareRows, 4*q.width)
	shape(leftRest, height, squareBytes)
	shape(rightRest, squareRows, 4*q.width)
	if q.rest > 0 {
		shape(leftRest, height, 4*q.rest)
		shape(rightRest, q.rest, 4*q.width)
	}
	return config
}

// configure loads the shapes of the tile registers for the block's height.
func (b *squareBlock) configure() {
	if b.height.Known() {
		pool := b.Pool.Constant(b.configuration(b.height.Fixed))
		b.Emit(asm.Inst{Op: asm.LDTILECFG, Args: [4]asm.Reg{asm.Memory}, Mem: asm.Mem{Pool: pool}})
		return
	}
	// Eight bytes of the configuration are the registers' numbers of rows; for five registers it is the block's.
	rest := b.rest
	if rest == 0 {
		rest = squareRows
	}
	rows := b.Number(0x0001_0001_0101_0101)
	b.integerOp(asm.IMUL, rows, b.height.Register)
	b.integerOp(asm.OR, rows, b.Number(squareRows<<(8*rightSquare)|rest<<(8*rightRest)))
	b.StoreWord(asm.Mem{Base: frameRegister, Disp: b.config + configRows}, rows)
	b.Emit(asm.Inst{Op: asm.LDTILECFG, Args: [4]asm.Reg{asm.Memory},
		Mem: asm.Mem{Base: frameRegister, Disp: b.config}})
}

// below returns the distance from a block's first row to the first of its second half, if rows are so far apart.
func (b *squareBlock) below(row lanes.Distance) lanes.Distance {
	if b.rows.Known() && row.Known() {
		return lanes.Known((b.rows.Fixed - b.height.Fixed) * row.Fixed)
	}
	if b.rows.Known() {
		return lanes.Distance{Register: b.Times(row.Register, b.rows.Fixed-b.height.Fixed)}
	}
	r := b.CopyOf(b.rows.Register)
	b.integerOp(asm.SUB, r, b.height.Register)
	if row.Known() {
		return lanes.Distance{Register: b.Times(r, row.Fixed)}
	}
	b.integerOp(asm.IMUL, r, row.Register)
	return lanes.Distance{Register: r}
}

// sumRows returns the addresses of the sums of a block's halves in memory, and the distance of their rows.
func (b *squareBlock) sumRows(s *lanes.Stream) (at [2]asm.Mem, stride asm.Reg) {
	row, base, disp := lanes.Known(b.line), frameRegister, b.at
	if b.line == 0 {
		row, base, disp = s.Row, b.first(s), 0
	}
	stride = b.inRegister(row)
	at[0] = asm.Mem{Base: base, Index: stride, Scale: 1, Disp: disp}
	at[1] = at[0]
	if b.halves == 2 {
		second := b.CopyOf(base)
		b.product.MoveOn(second, b.below(row))
		at[1].Base = second
	}
	return at, stride
}

// first returns the address of a block's first row in a stream.
func (b *squareBlock) first(s *lanes.Stream) asm.Reg {
	if b.again == 0 {
		return s.At
	}
	r := b.CopyOf(s.At)
	b.product.MoveOn(r, b.product.TimesDistance(s.Row, -b.again))
	return r
}

// inRegister returns a distance in a general register.
func (b *squareBlock) inRegister(d lanes.Distance) asm.Reg {
	if d.Known() {
		return b.Number(d.Fixed)
	}
	return d.Register
}

// products computes the sums, and writes them.
func (b *squareBlock) products() {
	for first := 0; first < len(b.starts); first += 2 {
		columns := b.starts[first:min(first+2, len(b.starts))]
		each := func(at [2]asm.Mem, do func(register int, at asm.Mem)) {
			for half := range b.halves {
				for i, column := range columns {
					address := at[half]
					address.Disp += int32(4 * column)
					do(2*half+i, address)
				}
			}
		}
		each([2]asm.Mem{}, func(register int, _ asm.Mem) {
			b.Emit(asm.Inst{Op: asm.TILEZERO, Args: [4]asm.Reg{asm.T(register)}})
		})
		for _, m := range b.product.Terms {
			b.walk(m, 0, b.CopyOf(b.first(m.A)), b.CopyOf(m.B), b.inRegister(m.A.Row), b.Number(m.DeepB.Fixed), columns)
		}
		at, _ := b.sumRows(b.product.Save)
		each(at, func(register int, at asm.Mem) {
			b.Emit(asm.Inst{Op: asm.TILESTORED, Args: [4]asm.Reg{asm.Memory, asm.T(register)}, Mem: at})
		})
	}
}

// read fills a tile register.
func (b *squareBlock) read(register int, at asm.Mem) {
	b.Emit(asm.Inst{Op: asm.TILELOADD, Args: [4]asm.Reg{asm.T(register), asm.Memory}, Mem: at})
}

// loop emits body n times, without a pause between.
func (b *squareBlock) loop(n int64, body func()) {
	if n <= 1 {
		b.product.Repeat(lanes.Known(n), body)
		return
	}
	count, again := b.Number(n), b.Label()
	b.WholeTurns(again, n)
	body()
	b.integerImm(asm.SUB, count, 1)
	b.jump(asm.JNE, again)
}

// walk does a term's serial loops from a level inward.
func (b *squareBlock) walk(m *lanes.Term, level int, left, right, strideA, strideB asm.Reg, columns []int64) {
	if level == len(m.Serial) {
		b.innermost(m, left, right, strideA, strideB, columns)
		return
	}
	s := m.Serial[level]
	b.loop(s.Extent.Fixed, func() {
		b.walk(m, level+1, b.CopyOf(left), b.CopyOf(right), strideA, strideB, columns)
		b.product.MoveOn(left, s.StepA)
		b.product.MoveOn(right, s.StepB)
	})
}

// innermost adds the products of one iteration of the serial loops. It changes the pointers.
func (b *squareBlock) innermost(m *lanes.Term, left, right, strideA, strideB asm.Reg, columns []int64) {
	rows := []asm.Reg{left}
	if b.halves == 2 {
		second := b.CopyOf(left)
		b.product.MoveOn(second, b.below(m.A.Row))
		rows = append(rows, second)
	}
	product := squareProduct(m)
	readA := func(half, register int) {
		b.read(register, asm.Mem{Base: rows[half], Index: strideA, Scale: 1})
	}
	readB := func(i, register int) {
		b.read(register, asm.Mem{Base: right, Index: strideB, Scale: 1, Disp: int32(4 * columns[i])})
	}
	add := func(half, i, a, x int) {
		b.Emit(asm.Inst{Op: product, Args: [4]asm.Reg{asm.T(2*half + i), asm.T(a), asm.T(x)}})
	}
	// Each step reads each square once, or B's first one again if there are no registers for both.
	step := func(a, x, a2, x2 int) {
		readA(0, a)
		readB(0, x)
		add(0, 0, a, x)
		if len(columns) == 2 {
			readB(1, x2)
			add(0, 1, a, x2)
		}
		if len(rows) == 1 {
			return
		}
		readA(1, a2)
		if len(columns) == 2 {
			add(1, 1, a2, x2)
			if x == x2 {
				readB(0, x)
			}
		}
		add(1, 0, a2, x)
	}
	const groups = squareBytes / 4
	full, rest := m.Depth.Fixed/groups, m.Depth.Fixed%groups
	b.loop(full, func() {
		if b.rest > 0 {
			step(leftSquare, rightSquare, leftSquare, rightSquare)
		} else {
			step(leftSquare, rightSquare, leftRest, rightRest)
		}
		if 2*b.cost <= lanes.TileMost && m.DeepB.Fixed >= 0 && m.DeepB.Fixed <= lanes.MostPace {
			b.fetchColumns(m, right, columns)
		}
		for _, r := range rows {
			b.product.MoveOn(r, lanes.Known(squareBytes))
		}
		b.product.MoveOn(right, lanes.Known(groups*m.DeepB.Fixed))
	})
	if rest > 0 {
		step(leftRest, rightRest, leftRest, rightRest)
	}
}

// fetchColumns has the columns of the step after the next one brought into the nearest cache: squares are read from
// there several times as fast as from the second one, above all while another thread of the core is busy.
func (b *squareBlock) fetchColumns(m *lanes.Term, right asm.Reg, columns []int64) {
	const groups = squareBytes / 4
	begin, end := 4*columns[0], 4*(columns[len(columns)-1]+b.width)
	for group := range int64(groups) {
		for line := begin; line < end; line += 64 {
			at := asm.Mem{Base: right, Disp: int32((2*groups+group)*m.DeepB.Fixed + line)}
			b.Emit(asm.Inst{Op: asm.PREFETCHT0, Args: [4]asm.Reg{asm.Memory}, Mem: at})
		}
	}
}

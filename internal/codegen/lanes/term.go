package lanes

import (
	"math"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Term is a sum of products: Depth of them, for every iteration of the serial loops around.
type Term struct {
	Left, Right  Elements
	Group        *Group // nil: the steps of the sum are added one by one
	A            *Stream
	B            regalloc.Reg // the right operand's address
	DeepA, DeepB Distance     // bytes from a step of the sum to the next
	Depth        Distance     // steps
	Serial       []Serial     // outermost first
	packed       bool         // the right operand's steps are contiguous in memory, in full cache lines
	room         int64        // columns that may be read at every step, used or not
	// ahead moves through the next panel while this one's tiles are computed; NoReg if none does
	ahead regalloc.Reg
	pace  int64 // its bytes in a round
	panel int64 // bytes of a panel
	// from is where it begins in a tile, and share the bytes to where it begins in the next tile, if the number of
	// tiles is not a constant; else NoReg: it stays where the last tile left it.
	from, share regalloc.Reg
}

// Serial is a loop around a contraction.
type Serial struct {
	Extent, StepA, StepB Distance
}

// Group describes the steps of a sum that are added up at once: a step of its Term is one group of them. The right
// operand has each column's groups side by side. Everything is exact, and wraps as the sums do, or is in f32.
type Group struct {
	Grouping
	Size   int64 // bytes of an element
	Count  int64 // elements of A in a group that are multiplied
	Step   int64 // bytes from one of them to the next
	Before int64 // elements of A before these, which are read with them and multiplied by 0
}

// More returns the number of rows of sums besides a tile's own.
func (m *Term) More() int {
	if m.Group != nil {
		return m.Group.More
	}
	return 0
}

// Together returns the number of rows that are multiplied at once.
func (m *Term) Together() int {
	if m.Group != nil {
		return max(m.Group.Together, 1)
	}
	return 1
}

// term prepares the operands of a contraction.
func (p *Product) term(c contraction) *Term {
	s, dt := c.product, p.Sums.DType
	a, b := p.Kernel.Memory(s.A.Buffer), p.Kernel.Memory(s.B.Buffer)
	left, right := Elements{In: a.DType, As: dt}, Elements{In: b.DType, As: dt}
	if !p.ReadsElements(left) || !p.ReadsElements(right) {
		Refuse("a product of %s and %s added up in %s", a.DType, b.DType, dt)
	}
	originA, originB := p.Resolve(a.Offset(s.A.Origin)), p.Resolve(b.Offset(s.B.Origin))
	depth := p.Resolve(s.K)
	if lo, _ := p.Bounds(depth); lo < 0 {
		depth = depth.Max(sym.Const(0))
	}
	t := &Term{Left: left, Right: right, Depth: p.Iterations(depth), Group: p.groupOf(s, left, right),
		DeepA: p.Distance(p.Offset(s.A.Buffer, s.A.Col), left.Size()),
		DeepB: p.Distance(p.Offset(s.B.Buffer, s.B.Row), right.Size())}
	if step, ok := p.Offset(s.B.Buffer, s.B.Col).Const(); t.Group == nil && !isOne(p.cols) && (!ok || step != 1) {
		Refuse("a product whose columns are not adjacent")
	}
	forward := true // along rows, and with each loop
	if lo, _ := p.Bounds(p.Offset(s.A.Buffer, s.A.Row)); lo < 0 {
		forward = false
	}
	for _, f := range c.serial {
		coefA, restA, okA := originA.Linear(f.Var)
		coefB, restB, okB := originB.Linear(f.Var)
		if !okA || !okB {
			Refuse("an operand that does not move evenly with %s", f.Var)
		}
		t.Serial = append(t.Serial, Serial{p.Iterations(f.Extent), p.Distance(coefA, left.Size()),
			p.Distance(coefB, right.Size())})
		originA, originB = restA, restB
		if lo, _ := p.Bounds(coefA); lo < 0 {
			forward = false
		}
	}
	if lo, _ := p.Bounds(originA); forward {
		t.Group.readBefore(lo)
	}
	t.A = p.stream(s.A.Buffer, originA, p.Distance(p.Offset(s.A.Buffer, s.A.Row), left.Size()))
	t.B = p.Pointer(s.B.Buffer, originB)
	t.room = 1
	axis := len(b.Shape) - 1
	if t.Group != nil {
		t.inGroups()
		axis--
	}
	if axis >= 0 && b.Strides == nil && IsZero(s.B.Origin[axis]) && unitAxis(s.B.Col) == axis {
		if n, ok := b.Shape[axis].Const(); ok {
			t.room = n
			line := n * t.Right.Size()
			t.packed = axis > 0 && t.DeepB.Is(line) && line*RoundSteps%cacheLine == 0
		}
	}
	t.merge()
	return t
}

// groupOf returns how a contraction is done by groups; nil if it cannot be.
func (p *Product) groupOf(s *loop.Contract, left, right Elements) *Group {
	by := p.GroupOf(left.In, right.In, p.Sums.DType)
	row, fixedRow := p.Offset(s.B.Buffer, s.B.Row).Const()
	column, fixedColumn := p.Offset(s.B.Buffer, s.B.Col).Const()
	step, fixed := p.Offset(s.A.Buffer, s.A.Col).Const()
	count, known := p.Resolve(s.K).Const()
	if !fixedRow || !fixedColumn || !fixed || !known || row != 1 || column != by.Steps || count < 1 || count > by.Steps ||
		step > farApart || step < -farApart {
		return nil
	}
	return &Group{Grouping: by, Size: right.Size(), Count: count, Step: step * left.Size()}
}

// inGroups makes a term's steps groups: those of the innermost serial loop, or a single one.
func (m *Term) inGroups() {
	m.Depth, m.DeepA, m.DeepB = Known(1), Known(0), Known(0)
	if n := len(m.Serial); n > 0 {
		s := m.Serial[n-1]
		m.Depth, m.DeepA, m.DeepB, m.Serial = s.Extent, s.StepA, s.StepB, m.Serial[:n-1]
	}
	m.Left.Group, m.Right.Group = m.Group.Steps, m.Group.Steps
}

// readBefore makes an incomplete group of bytes be read together with the bytes before it that complete it, if these
// are known to be in memory; from is the least offset of an incomplete group.
func (g *Group) readBefore(from int64) {
	if g != nil && g.Size == 1 && g.Count < g.Steps && g.Step == g.Size && from >= g.Steps-g.Count {
		g.Before = g.Steps - g.Count
	}
}

// merge joins serial loops with the sum if their steps continue the sum's.
func (m *Term) merge() {
	for n := len(m.Serial); n > 0; n = len(m.Serial) {
		s := m.Serial[n-1]
		if !m.Depth.Known() || !s.Extent.Known() || !m.DeepA.Known() || !m.DeepB.Known() ||
			m.Depth.Fixed > math.MaxInt32/max(s.Extent.Fixed, 1) || !s.StepA.Is(m.Depth.Fixed*m.DeepA.Fixed) ||
			!s.StepB.Is(m.Depth.Fixed*m.DeepB.Fixed) {
			return
		}
		m.Depth.Fixed *= s.Extent.Fixed
		m.Serial = m.Serial[:n-1]
	}
}

// Memory is fetched before its use: packed columns by packedAhead bytes. Tiles of at most fewestRows wait for memory
// anyway, and the processor's own prefetching is fastest for them, except for narrow columns, whose widening leaves few
// reads under way: these are fetched by narrowAhead.
const (
	cacheLine   = 64 // bytes
	packedAhead = 1024
	narrowAhead = 2048
	fewestRows  = 3
)

// fetchesAhead returns the distance in bytes at which a tile of a term fetches columns before their use; 0 leaves
// prefetching to the processor.
func (t *RegisterTile) fetchesAhead(m *Term) int64 {
	switch {
	case !m.packed:
		return 0
	case t.Rows > fewestRows:
		return packedAhead
	case m.Right.Narrow():
		return narrowAhead
	}
	return 0
}

// Limits of lookAhead: the largest panel, and the most bytes that one round fetches, each line by one instruction.
const (
	mostAhead = 1 << 20
	MostPace  = 4096
)

// fewTiles is the number of tiles during which a panel's next one can be fetched whole, if a run decides the number of
// tiles; with more of them, the tiles fetch some lines twice.
const fewTiles = 8

// lookAhead emits fetches of the next panel of packed columns into the second cache, spread evenly over this panel's
// tiles of most rows: without them the first tile of each panel would wait for memory. It assumes that the next panel,
// if there is one, follows this one in memory.
func (m *Term) lookAhead(p *Product, most int64) {
	m.ahead, m.from, m.share = regalloc.NoReg, regalloc.NoReg, regalloc.NoReg
	tiles, known := p.tilesAhead(most)
	if !m.packed || !m.Depth.Known() || !m.DeepB.Known() || m.Depth.Fixed < RoundSteps || tiles < 2 {
		return
	}
	panel, inside := m.Depth.Fixed*m.DeepB.Fixed, int64(1)
	for _, s := range m.Serial {
		if !s.Extent.Known() || s.Extent.Fixed > mostAhead/inside {
			return
		}
		inside = max(inside*s.Extent.Fixed, 1)
	}
	if !known {
		tiles = min(tiles, fewTiles)
	}
	rounds := min(tiles, mostAhead) * (m.Depth.Fixed / RoundSteps)
	if (panel+rounds-1)/rounds > MostPace {
		return
	}
	m.ahead, m.panel = p.CopyOf(m.B), panel*inside
	p.MoveOn(m.ahead, Known(m.panel))
	m.pace = (panel + rounds - 1) / rounds
}

// divideAhead divides the fetches of lookAhead among the tiles of a positive number of rows, most of them each. The
// last tile may fetch a little of the panel after the next one.
func (m *Term) divideAhead(p *Product, rows regalloc.Reg, most int64) {
	if m.ahead == regalloc.NoReg {
		return
	}
	panel := p.General()
	p.SetNumber(panel, m.panel*most)
	m.from, m.share = p.CopyOf(m.ahead), p.DivideNatural(panel, rows, false)
}

// RoundSteps is the number of steps of a sum in one turn of its loop.
const RoundSteps = 4

// Round is consecutive steps of a sum, which a machine adds together: RoundSteps of them, or fewer.
type Round struct {
	*Term
	Steps int64
	Ahead int64 // the distance in bytes at which columns are to be fetched before their use; 0: none
	// bases address the rows of A, perBase of them each; columns addresses B.
	bases   []regalloc.Reg
	perBase int
	columns regalloc.Reg
	line    int64 // bytes of a vector's elements of B
	masked  bool  // the last vector must not be read in full
}

// products adds a term's products to the sums.
func (t *RegisterTile) products(m *Term) {
	t.BeginTerm(t, m)
	if m.from != regalloc.NoReg {
		t.Assign(m.ahead, m.from)
		t.MoveOn(m.from, Distance{Register: m.share})
	}
	t.walk(m, 0, t.CopyOf(m.A.At), t.CopyOf(m.B))
	t.EndTerm(t, m)
}

// walk does a term's serial loops from a level inward. It changes the pointers.
func (t *RegisterTile) walk(m *Term, level int, a, b regalloc.Reg) {
	if level == len(m.Serial) {
		t.innermost(m, a, b)
		return
	}
	s, inside := m.Serial[level], Serial{m.Depth, m.DeepA, m.DeepB}
	if level+1 < len(m.Serial) {
		inside = m.Serial[level+1]
	}
	// A pointer that is moved inside by a step of this loop need not be moved back.
	moved := func(by, step Distance) bool {
		return step.Known() && inside.Extent.Known() && by.Known() && inside.Extent.Fixed*by.Fixed == step.Fixed
	}
	onA, onB := moved(inside.StepA, s.StepA), moved(inside.StepB, s.StepB)
	t.Repeat(s.Extent, func() {
		innerA, innerB := a, b
		if !onA {
			innerA = t.CopyOf(a)
		}
		if !onB {
			innerB = t.CopyOf(b)
		}
		t.walk(m, level+1, innerA, innerB)
		if !onA {
			t.MoveOn(a, s.StepA)
		}
		if !onB {
			t.MoveOn(b, s.StepB)
		}
	})
}

// innermost adds the products of one iteration of the serial loops.
func (t *RegisterTile) innermost(m *Term, a, b regalloc.Reg) {
	r := t.rounds(m, a, b)
	some := func(steps int64) {
		r.Steps = steps
		t.Round(t, r)
		for _, base := range r.bases {
			t.MoveOn(base, t.TimesDistance(m.DeepA, steps))
		}
		t.MoveOn(b, t.TimesDistance(m.DeepB, steps))
	}
	round := func(steps int64) func() {
		return func() {
			if m.ahead != regalloc.NoReg && steps == RoundSteps && t.Rows > fewestRows {
				for line := int64(0); line < m.pace; line += cacheLine {
					t.Fetch(regalloc.Mem{Base: m.ahead, Disp: int32(line)}, FetchSecond)
				}
				t.MoveOn(m.ahead, Known(m.pace))
			}
			if m.DeepA.Known() && m.DeepB.Known() {
				some(steps)
				return
			}
			for range steps {
				some(1)
			}
		}
	}
	if m.Depth.Known() {
		t.Repeat(Known(m.Depth.Fixed/RoundSteps), round(RoundSteps))
		if rest := m.Depth.Fixed % RoundSteps; rest > 0 {
			round(rest)()
		}
		return
	}
	n := t.CopyOf(m.Depth.Register)
	t.ShiftDown(n, 2)
	t.Repeat(Distance{Register: n}, round(RoundSteps))
	t.Assign(n, m.Depth.Register)
	t.IntegerNumber(And, n, RoundSteps-1)
	t.RepeatAtMost(Distance{Register: n}, RoundSteps-1, round(1))
}

// rounds returns a round at pointers to the first row and column.
func (t *RegisterTile) rounds(m *Term, a, b regalloc.Reg) *Round {
	r := &Round{Term: m, bases: []regalloc.Reg{a}, perBase: max(1, t.RowsOfBase(m.A.Row)), columns: b,
		line: m.Right.Size() * t.Lanes(), masked: m.room < int64(t.Vectors)*t.Lanes()}
	if m.DeepA.Known() && m.DeepB.Known() {
		r.Ahead = t.fetchesAhead(m)
	}
	for i := r.perBase; i < t.Rows; i += r.perBase {
		next := t.CopyOf(r.bases[len(r.bases)-1])
		if m.A.Row.Known() {
			t.MoveOn(next, Known(int64(r.perBase)*m.A.Row.Fixed))
		} else {
			for range r.perBase {
				t.Integer(Add, next, m.A.Row.Register)
			}
		}
		r.bases = append(r.bases, next)
	}
	return r
}

// Row returns the address of a row's element, or group, of A at a step of the round.
func (r *Round) Row(row int, step int64) regalloc.Mem {
	at, disp := regalloc.Mem{Base: r.bases[row/r.perBase]}, step*r.DeepA.Fixed
	if row %= r.perBase; r.A.Row.Known() {
		disp += int64(row) * r.A.Row.Fixed
	} else if row > 0 {
		at.Index, at.Scale = r.A.Row.Register, uint8(row)
	}
	at.Disp = int32(disp)
	return at
}

// Column returns the address of a vector of B at a step of the round, and whether only Part of it may be read.
func (r *Round) Column(t *RegisterTile, vector int, step int64) (at regalloc.Mem, part bool) {
	at = regalloc.Mem{Base: r.columns, Disp: int32(step*r.DeepB.Fixed + int64(vector)*r.line)}
	return at, r.masked && t.Partial(vector)
}

// FetchColumns fetches the columns that will be used Ahead of a step.
func (r *Round) FetchColumns(t *RegisterTile, step int64) {
	if r.Ahead <= 0 {
		return
	}
	bytes := r.line * int64(t.Vectors)
	for next := (step*bytes + cacheLine - 1) &^ (cacheLine - 1); next < (step+1)*bytes; next += cacheLine {
		disp := step*r.DeepB.Fixed + next - step*bytes + r.Ahead
		t.Fetch(regalloc.Mem{Base: r.columns, Disp: int32(disp)}, FetchNear)
	}
}

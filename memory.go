package weir

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// Memory is a program's certificate: peak = weights + code + calls × (arena + outputs + workers × scratch), each a size
// in bytes over the model's named dimensions. It is what the program takes, neither more nor less. If data decide a
// size that nothing bounds, the dimensions that they decide stand in the formulas too (see Program.Decided), and a run
// takes that part when it knows them.
type Memory struct {
	Weights Size // constants, and the program's own states (see Info.Initial)
	Code    Size // executable pages
	Arena   Size // working memory of one run
	Outputs Size // results of one run
	Scratch Size // workspace of one worker
	// LowerBound is the most bytes that are alive together: no plan of the arena is smaller. Use it to see what the
	// model's live ranges demand.
	LowerBound Size
	// Least is the best lower bound that is proved: LowerBound, or more if a search refuted what lies between, which an
	// artefact does not claim. Use it to judge the plan: at most Arena − Least could be saved by another one.
	Least   Size
	Workers int // workers that one run may use
	// the file that one run spills to, where Options.Budget asked for that: no memory, and no part of the sum
	Spill         Size
	DataDependent Size // of Arena and Outputs, what a run takes when data have decided its size
	// Exhausted: proofs used up what they may cost. What was not proved is checked by the code, and the plan may be
	// larger and the code slower than they have to be. Narrower ranges of dimensions mend it.
	Exhausted bool
	Proven    bool // Arena equals Least for every binding: no plan is smaller
	// Device is what the program takes of a device's memory, beside all that; nil if it runs on the host alone.
	Device *DeviceMemory

	program   *Program
	elsewhere map[int]bool // storages of outputs that are no part of it
}

// Size is a number of bytes: a formula over the dimensions.
type Size struct {
	x    sym.Expr
	dims *sym.Dims
}

// At is the size for a binding of the dimensions.
func (s Size) At(d Dims) (int64, error) {
	v, err := s.x.Eval(func(name sym.Name) (int64, bool) { v, ok := d[name.Text()]; return v, ok })
	if err != nil {
		return 0, diag.Inputf("%s bytes: %v", s.x, err).WithFix("bind %s", strings.Join(s.Dims(), ", "))
	}
	return v, nil
}

// Max is the size at the dimensions' upper bounds; an error if there is no bound.
func (s Size) Max() (int64, error) {
	_, hi := s.dims.Bounds(s.x)
	if hi == math.MaxInt64 {
		return 0, diag.Inputf("%s bytes have no bound", s.x).WithFix("give %s a range with Options.Dims",
			strings.Join(s.Dims(), ", "))
	}
	return hi, nil
}

// String is the formula.
func (s Size) String() string { return s.x.String() }

// Dims are the names that the formula mentions.
func (s Size) Dims() []string {
	var names []string
	for _, name := range s.x.Vars() {
		names = append(names, name.Text())
	}
	return names
}

func newMemory(p *Program) *Memory {
	c := p.compiled
	dims := p.ranges()
	size := func(x sym.Expr) Size { return Size{dims.Simplify(p.labels.Show(x)), dims} }
	weights := p.ownHeld()
	for _, w := range c.Program.Weights {
		if !w.Paged && w.Device == "" {
			weights += int64(len(w.Data))
		}
	}
	arena, outputs, bound, least, late, proven := c.Arena.Arena, c.Outputs, c.Arena.Bound, c.Arena.Least, sym.Const(0),
		c.Arena.Proven
	for _, l := range c.Late {
		if l.Device != "" {
			continue
		}
		late = late.Add(l.Plan.Arena)
		if l.Kind == program.Results {
			outputs = outputs.Add(l.Plan.Arena)
			continue
		}
		arena, bound, least, proven = arena.Add(l.Plan.Arena), bound.Add(l.Plan.Bound), least.Add(l.Plan.Least),
			proven && l.Plan.Proven
	}
	m := &Memory{
		Weights: size(sym.Const(weights)), Code: size(sym.Const(c.Code.Bytes)), Arena: size(arena), Outputs: size(outputs),
		Scratch: size(c.Scratch), LowerBound: size(bound), Least: size(least), DataDependent: size(late),
		Spill: size(c.Spilled), Workers: p.options.Threads, Proven: proven, program: p,
		Exhausted: p.exhausted,
	}
	m.Device = newDeviceMemory(p, size)
	return m
}

// Of is the bytes of some outputs, each by itself, as a formula.
func (m *Memory) Of(outputs ...string) (Size, error) {
	sum, p := sym.Const(0), m.program
	for _, name := range outputs {
		i := slices.IndexFunc(p.outputs, func(o Info) bool { return o.Name == name })
		if i < 0 || !p.outputs[i].simple() {
			return Size{}, diag.Inputf("the program has no output %q that is a tensor of numbers", name).AtTensor(name).
				WithFix("its outputs are %s", infoList(p.outputs))
		}
		sum = sum.Add(p.compiled.Program.Tensors[p.compiled.Program.Outputs[p.gives[i].Parts[0]].Tensor].Bytes())
	}
	return Size{m.Outputs.dims.Simplify(p.labels.Show(sum)), m.Outputs.dims}, nil
}

// Formula is the peak as an expression over the dimensions, for so many calls. It reads in Python, given ceildiv.
func (m *Memory) Formula(calls int) Size {
	call := sym.Sum(m.Arena.x, m.Outputs.x, m.Scratch.x.Mul(sym.Const(int64(m.Workers))))
	return Size{m.Arena.dims.Simplify(sym.Sum(m.Weights.x, m.Code.x, call.Mul(sym.Const(int64(calls))))), m.Arena.dims}
}

// Peak is the whole for so many calls and a binding of the dimensions: what the program takes once it is compiled. Use
// Limit for SetLimit, which must also admit what loading and compiling take, and Measurement.Peak for what runs were
// seen to take. A name that is no dimension's is ErrInput.
func (m *Memory) Peak(calls int, d Dims) (int64, error) {
	if err := m.program.named(d); err != nil {
		return 0, err
	}
	return m.Formula(calls).At(d)
}

// Max is the whole at the dimensions' upper bounds.
func (m *Memory) Max(calls int) (int64, error) { return m.Formula(calls).Max() }

// before is the formula without what only data bound: what calls take whatever the data decide.
func (m *Memory) before(calls int) Size {
	none := m.program.decidedDims()
	f := m.Formula(calls)
	return Size{f.dims.Simplify(f.x.Subst(func(name sym.Name) (sym.Expr, bool) {
		return sym.Const(0), none[name.Text()]
	})), f.dims}
}

// Alive is a tensor alive at the peak.
type Alive struct {
	Tensor string
	Bytes  int64
}

// PeakAt tells where the arena's lower bound is reached for a binding: the source node and who is alive there, largest
// first.
func (m *Memory) PeakAt(d Dims) (node string, alive []Alive, err error) {
	c, err := m.program.compiled.Certify(m.program.labels.Values(d))
	if err != nil {
		return "", nil, err
	}
	for _, a := range c.Alive {
		alive = append(alive, Alive{a.Name, a.Bytes})
	}
	return m.program.compiled.SourceAt(c.Step), alive, nil
}

// LargestStep is the step whose operands and results take most of the arena, for a binding of the dimensions: its nodes
// and its bytes. A kernel that computes in the place of an operand takes less. No budget makes the arena smaller than
// this but by computing the step in pieces.
func (m *Memory) LargestStep(d Dims) (node string, bytes int64, err error) {
	bytes, node, err = m.program.compiled.LargestStep(m.program.labels.Values(d))
	return node, bytes, err
}

// String is the certificate in words.
func (m *Memory) String() string {
	rows := [][2]string{{"weights", m.Weights.text()}, {"code", m.Code.text()}, {"arena", m.Arena.text()},
		{"outputs", m.Outputs.text()},
		{"scratch", fmt.Sprintf("%d × %s", m.Workers, m.Scratch.text())}, {"lower bound of the arena", m.LowerBound.text()}}
	if m.Least.String() != m.LowerBound.String() {
		rows = append(rows, [2]string{"proven least of the arena", m.Least.text()})
	}
	rows = append(rows, [2]string{"peak of one call", m.Formula(1).text()})
	if copies, err := m.Copies(); err == nil && copies.String() != "0" {
		rows = append(rows, [2]string{"beside it, at most", copies.text() +
			" a call, of arguments that do not lie as declared"})
	}
	if d := m.Device; d != nil {
		rows = append(rows, [2]string{"on " + d.Name, "weights " + d.Weights.text() + ", arena " + d.Arena.text() +
			", scratch " + d.Scratch.text() + ", queue " + d.Queue.text()},
			[2]string{"its peak of one call", d.Formula(1).text()})
	}
	if m.Exhausted {
		rows = append(rows, [2]string{"proofs",
			"used up what they may cost: narrower dimensions may make it smaller and faster"})
	}
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%-25s %s\n", r[0], r[1])
	}
	return b.String()
}

func (s Size) text() string {
	if v, ok := s.x.Const(); ok {
		return fmt.Sprintf("%d (%s)", v, mem.FormatBytes(v))
	}
	return s.x.String()
}

// Totals is what the process holds, in bytes, outside Go's heap: for metrics.
type Totals struct {
	Weights, Arenas, Outputs, Scratch, Code, Tensors, Files int64
	Current, Peak                                           int64 // all together
	// free in the pool that small tensors come from; in none of the others
	Cached int64
	// of Cached, what Trim cannot give back: it lies beside tensors that are in use
	Fragmented int64
	// that other code lends and has not back yet (see Foreign): its memory, and in none of the others
	Foreign int64
	Limit   int64 // that SetLimit set; 0: none
}

// SizeClass is what the pool that small tensors come from has of pieces of about one size, in bytes.
type SizeClass struct {
	Least         int64 // the smallest piece of the class
	Current, Peak int64 // in tensors
	Cached        int64 // free: a piece that is free beside others is one with them
}

// SizeClasses returns the classes that the pool has or had pieces of, the smallest first.
func SizeClasses() (list []SizeClass) {
	for _, c := range mem.UserPool().Stats().Classes {
		list = append(list, SizeClass(c))
	}
	return list
}

// Usage returns the process's totals.
func Usage() Totals {
	u := mem.Usage()
	return Totals{Weights: u.Current[mem.Weights], Arenas: u.Current[mem.Arena], Outputs: u.Current[mem.Outputs],
		Scratch: u.Current[mem.Scratch],
		Code:    u.Current[mem.Code], Tensors: u.Current[mem.Tensors], Files: u.Current[mem.File], Current: u.All,
		Peak: u.AllPeak, Cached: u.Cached, Fragmented: mem.Fragmented(), Foreign: u.Current[mem.Foreign],
		Limit: mem.Limit()}
}

// Trim gives back to the system what is cached and can be, and returns how many bytes that were. It is done without
// being asked for where memory is refused.
func Trim() (bytes int64) { return mem.Trim() }

// Holder is who holds memory outside Go's heap.
type Holder struct {
	Kind, Name string // as the fields of Totals, and what it is for
	Bytes      int64
	Line       string // "file:line" of the code that asked for it, outside this module where it can be
}

// Holders are those that held most when memory was refused, at most twenty, the largest first; nil if the error is no
// such refusal.
func Holders(err error) (list []Holder) {
	var r *mem.Refusal
	if errors.As(err, &r) {
		for _, h := range r.Largest {
			line := h.User
			if line == "" {
				line = h.Caller
			}
			list = append(list, Holder{h.Kind.String(), h.Label, h.Bytes, line})
		}
	}
	return list
}

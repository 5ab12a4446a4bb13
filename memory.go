package weir

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/weirml/weir/internal/certificate"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/sym"
)

// Memory is a program's certificate: peak = weights + code + calls × (arena + outputs + workers × scratch), each a size
// in bytes over the model's named dimensions. The program takes exactly this much. If data determine a size without a
// bound, the dimensions that they determine are in the formulas too (see Program.Decided), and a run allocates that
// memory once the sizes are known.
type Memory struct {
	Weights Size // constants, and the program's own states (see Info.Initial)
	Code    Size // executable pages
	Arena   Size // working memory of one run
	Outputs Size // results of one run
	Scratch Size // workspace of one worker
	// LowerBound is the largest number of bytes that are live at the same time: no plan of the arena is smaller. Use it
	// to see the demand of the model's live ranges.
	LowerBound Size
	// Least is the best lower bound that is proved: LowerBound, or more if a search refuted all smaller plans. Artefacts
	// have LowerBound here. Use it to judge the plan: another plan saves at most Arena − Least.
	Least   Size
	Workers int // workers that one run may use
	// Spill is the size of the file that one run spills to, if Options.Budget needs one: on disk, not part of the peak.
	Spill         Size
	DataDependent Size // the share of Arena and Outputs that a run allocates when data have determined its size
	// Exhausted reports whether proofs reached their limit of work. Generated code checks what was not proved, and the
	// plan may be larger and the code slower than necessary. Narrower ranges of dimensions help.
	Exhausted bool
	// Proven reports whether Arena equals Least for every binding, so that no plan is smaller. It is false if Bounded.
	Proven bool
	// Bounded reports whether data decide the size of a buffer that is planned for its bound: a run may reach less.
	Bounded bool
	// Device is the certificate of the device's memory; nil for a program that runs on the host alone.
	Device *DeviceMemory

	program   *Program
	call      *certificate.CallFormula // nil if data decide more than it can tell
	dims      *sym.Dims                // with public names
	elsewhere map[int]bool             // storages of outputs that lie in the caller's memory
}

// Size is a number of bytes: a formula over the dimensions.
type Size struct {
	x    sym.Expr
	dims *sym.Dims
}

// At returns the size for a binding of the dimensions. It is ErrInput if a dimension of the formula has no value.
func (s Size) At(d Dims) (int64, error) {
	v, err := s.x.Eval(func(name sym.Name) (int64, bool) { v, ok := d[name.Text()]; return v, ok })
	if err != nil {
		return 0, diag.Inputf("%s bytes: %v", s.x, err).WithFix("bind %s", strings.Join(s.Dims(), ", "))
	}
	return v, nil
}

// Max returns the size at the dimensions' upper bounds. It is ErrInput if a dimension has no bound.
func (s Size) Max() (int64, error) {
	_, hi := s.dims.Bounds(s.x)
	if hi == math.MaxInt64 {
		return 0, diag.Inputf("%s bytes have no bound", s.x).WithFix("give %s a range with Options.Dims",
			strings.Join(s.Dims(), ", "))
	}
	return hi, nil
}

// String returns the formula.
func (s Size) String() string { return s.x.String() }

// Dims returns the names of the dimensions in the formula.
func (s Size) Dims() []string {
	var names []string
	for _, name := range s.x.Vars() {
		names = append(names, name.Text())
	}
	return names
}

// newMemory builds the certificate of a compiled program; own is the number of bytes of its own states.
func newMemory(p *Program, own int64) *Memory {
	c := certificate.TermsOf(p.compiled, own)
	m := &Memory{program: p, dims: certificate.Ranges(p.compiled, p.labels), Workers: p.options.Threads,
		Proven: c.Proven, Bounded: c.Bounded, Exhausted: p.exhausted}
	m.Weights, m.Code, m.Arena = m.size(sym.Const(c.Weights)), m.size(sym.Const(c.Code)), m.size(c.Arena)
	m.Outputs, m.Scratch, m.Spill = m.size(c.Outputs), m.size(c.Scratch), m.size(p.compiled.Spilled)
	m.LowerBound, m.Least, m.DataDependent = m.size(c.LowerBound), m.size(c.Least), m.size(c.DataDependent)
	m.Device = m.onDevice()
	m.call, _ = certificate.CallFormulaOf(p.compiled, p.options.Threads)
	return m
}

// size returns a formula over the program's dimensions with their public names.
func (m *Memory) size(x sym.Expr) Size {
	return Size{m.dims.Simplify(m.program.labels.Show(x)), m.dims}
}

// Of returns the bytes of some outputs together, as a formula. It is ErrInput if an output is not a tensor of numbers.
// A tensor whose rank a run decides takes the bytes of its extents as well.
func (m *Memory) Of(outputs ...string) (Size, error) {
	sum, p := sym.Const(0), m.program
	for _, name := range outputs {
		i := p.session.Output(name)
		if i < 0 || p.session.Outputs[i].Info.Kind != sources.Tensor || p.session.Outputs[i].Info.DType == StringType {
			return Size{}, diag.Inputf("the program has no output %q that is a tensor of numbers", name).AtTensor(name).
				WithFix("its outputs are %s", signature.List(p.session.Outputs))
		}
		for _, part := range p.session.Outputs[i].Parts {
			sum = sum.Add(p.compiled.Program.Tensors[p.compiled.Program.Outputs[part].Tensor].Bytes())
		}
	}
	return m.size(sum), nil
}

// Formula returns the peak for a number of calls, as a formula over the dimensions. It is a Python expression, if
// ceildiv is defined.
func (m *Memory) Formula(calls int) Size {
	call := sym.Sum(m.Arena.x, m.Outputs.x, m.Scratch.x.Mul(sym.Const(int64(m.Workers))))
	return Size{m.Arena.dims.Simplify(sym.Sum(m.Weights.x, m.Code.x, call.Mul(sym.Const(int64(calls))))), m.Arena.dims}
}

// Peak returns the bytes that the compiled program takes with a number of calls and a binding of the dimensions. An
// unknown name in d is ErrInput, as are sizes with which a run is refused: see Program.Check. See Limit for SetLimit,
// which must also admit loading and compiling, and Measurement.Peak for measured peaks.
func (m *Memory) Peak(calls int, d Dims) (int64, error) {
	if err := m.program.labels.Check(d); err != nil {
		return 0, err
	}
	if err := m.program.Check(d); err != nil {
		return 0, err
	}
	return m.Formula(calls).At(d)
}

// Max returns the peak at the dimensions' upper bounds.
func (m *Memory) Max(calls int) (int64, error) { return m.Formula(calls).Max() }

// before returns the peak without the sizes that only data determine: the bytes that calls take for any data.
func (m *Memory) before(calls int) Size {
	none := m.program.decidedDims()
	f := m.Formula(calls)
	return Size{f.dims.Simplify(f.x.Subst(func(name sym.Name) (sym.Expr, bool) {
		return sym.Const(0), none[name.Text()]
	})), f.dims}
}

// Alive is a tensor that is live at the peak.
type Alive struct {
	Tensor string
	Bytes  int64
}

// PeakAt returns the node at which the lower bound of the arena is reached for a binding, and the tensors that are live
// there, largest first.
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

// LargestStep returns the step whose operands and results take the most bytes of the arena, for a binding of the
// dimensions: its nodes and its bytes. A kernel that overwrites an operand takes less. A budget can make the arena
// smaller than this only by computing the step in pieces.
func (m *Memory) LargestStep(d Dims) (node string, bytes int64, err error) {
	bytes, node, err = m.program.compiled.LargestStep(m.program.labels.Values(d))
	return node, bytes, err
}

// String returns the certificate as a table, one term a line.
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
			", states " + d.States.text() + ", scratch " + d.Scratch.text() + ", queue " + d.Queue.text()},
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

// text returns the size in bytes with a unit, or the formula.
func (s Size) text() string {
	if v, ok := s.x.Const(); ok {
		return fmt.Sprintf("%d (%s)", v, mem.FormatBytes(v))
	}
	return s.x.String()
}

// Totals are the bytes that the process holds outside Go's heap, for metrics.
type Totals struct {
	Weights, Arenas, Outputs, Scratch, Code, Tensors, Files int64
	Current                                                 int64 // all together
	// Held is all together as SetLimit counts it, and Peak the most that Held was: full pages, and Cached, without pages
	// of files that the system may take back.
	Held, Peak int64
	// Cached is free memory in the pools for tensors; of the other fields, only Held and Peak include it.
	Cached int64
	// Fragmented is the share of Cached that Trim cannot return, since it lies between tensors in use.
	Fragmented int64
	// Foreign is memory that other code has lent (see Foreign); it is not part of the other fields.
	Foreign int64
	Limit   int64 // that SetLimit set; 0: none
}

// SizeClass counts the blocks of about one size in the pool for small tensors, in bytes.
type SizeClass struct {
	Least         int64 // the smallest block of the class
	Current, Peak int64 // in tensors
	Cached        int64 // free; adjacent free blocks are merged into one
}

// SizeClasses returns the classes with blocks, present or past, smallest first.
func SizeClasses() (list []SizeClass) {
	for _, c := range mem.UserPool().Stats().Classes {
		list = append(list, SizeClass(c))
	}
	return list
}

// Usage returns the totals of the process.
func Usage() Totals {
	u := mem.Usage()
	return Totals{Weights: u.Current[mem.Weights], Arenas: u.Current[mem.Arena], Outputs: u.Current[mem.Outputs],
		Scratch: u.Current[mem.Scratch],
		Code:    u.Current[mem.Code], Tensors: u.Current[mem.Tensors], Files: u.Current[mem.File], Current: u.All,
		Held: u.Held, Peak: u.HeldPeak, Cached: u.Cached, Fragmented: mem.Fragmented(), Foreign: u.Current[mem.Foreign],
		Limit: mem.Limit()}
}

// Trim returns cached memory to the system, and returns the number of bytes. It runs by itself when memory is refused.
func Trim() (bytes int64) { return mem.Trim() }

// Holder is an owner of memory outside Go's heap.
type Holder struct {
	Kind, Name string // the field of Totals, and the purpose
	Bytes      int64
	Line       string // "file:line" of the code that asked for it, outside this module if possible
}

// Holders returns the largest holders, at most twenty, at the moment when memory was refused; nil if err is not such a
// refusal.
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

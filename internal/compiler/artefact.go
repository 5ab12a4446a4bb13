package compiler

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"slices"

	"github.com/weirml/weir/internal/compiler/budget"
	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/text"
)

// An artefact is a compiled model as a file. It holds no machine code: code is generated when it is compiled again,
// from the scheduled loops that it holds as text. In order, little-endian:
//
//	8 bytes   artefactMagic
//	4 bytes   format version
//	4 bytes   CRC-32C of manifest, loops and program
//	4 × 8     the sizes of manifest, loops, program and weights
//	16 bytes  zero
//	manifest  JSON: the loops' target machine, the certificate's formulas, the outputs' names, the nodes' operators, the
//	          writer's notes
//	loops     a loop.Module's text
//	program   a program.Program's text
//	zeros     to a multiple of 64
//	weights   the program's data section: each weight at a multiple of 64, to be used where it lies
//
// An artefact is not trusted. The loops are verified like a user's text. The program is assembled again from them, with
// the offsets of the artefact's program, and must equal it. The plan is validated like a new plan.
const (
	artefactMagic   = "\x93WEIR\r\n\x1a"
	artefactVersion = 4
	artefactHeader  = 64
	artefactAlign   = 64
)

// proofsOfKernel is the proof budget, in operations, of one scheduled kernel.
const proofsOfKernel = 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// manifest is the JSON part of an artefact.
type manifest struct {
	Machine target.Machine `json:"machine"`
	Arena   certified      `json:"arena"`
	Late    []certified    `json:"late,omitempty"`
	Device  *onDevice      `json:"device,omitempty"` // of a program for a device
	Names   []string       `json:"names"`            // of the outputs
	// Operators are the program's; artefacts of earlier writers have none.
	Operators diag.Operators  `json:"operators,omitempty"`
	About     json.RawMessage `json:"about"`
}

// onDevice holds the fields of an OnDevice that a program's text does not have.
type onDevice struct {
	Arena   certified `json:"arena"`
	Refused []OnHost  `json:"refused,omitempty"`
}

// certified holds the fields of a memplan.Solution that a program's text does not have.
type certified struct {
	Lets     int      `json:"lets"` // the number of the plans' names that are its own
	Layouts  []string `json:"layouts"`
	Bound    string   `json:"bound"`
	Complete bool     `json:"complete"`
}

// certificateOf returns the certificate of a plan as JSON holds it.
func certificateOf(s *memplan.Solution) certified {
	c := certified{Bound: s.Bound.String(), Complete: s.BoundComplete}
	for _, l := range s.Layouts {
		c.Lets = len(l.Lets)
		c.Layouts = append(c.Layouts, l.Arena.String())
	}
	return c
}

// WriteTo writes the artefact and returns the bytes written; about is the caller's own JSON. It returns ErrUnsupported
// if a reader could not verify a kernel.
func (c *Compiled) WriteTo(w io.Writer, about []byte) (int64, error) {
	if _, err := loop.VerifySteps(c.Loop); err != nil {
		return 0, diag.Unsupportedf("an artefact of this model: a scheduled kernel cannot be verified (%v)", err).
			WithFix("run the model itself")
	}
	machine, ok := c.Machine.Known() // without the fields that a reader does not trust
	if !ok {
		machine = c.Machine
	}
	m := manifest{Machine: machine, Arena: certificateOf(c.Arena), Operators: c.Program.Operators, About: about}
	for _, l := range c.Late {
		m.Late = append(m.Late, certificateOf(l.Plan))
	}
	if c.device != "" {
		m.Device = &onDevice{certificateOf(c.Device.Arena), c.Device.Refused}
	}
	for _, o := range c.Program.Outputs {
		m.Names = append(m.Names, o.Name)
	}
	head, err := json.Marshal(m)
	if err != nil {
		return 0, err
	}
	pieces, size := c.Program.Data()
	out := &counter{w: w}
	texts := [][]byte{head, []byte(c.Loop.String()), []byte(c.Program.String())}
	header := make([]byte, 0, artefactHeader)
	header = append(header, artefactMagic...)
	header = binary.LittleEndian.AppendUint32(header, artefactVersion)
	sum := uint32(0)
	for _, t := range texts {
		sum = crc32.Update(sum, castagnoli, t)
	}
	header = binary.LittleEndian.AppendUint32(header, sum)
	for _, t := range texts {
		header = binary.LittleEndian.AppendUint64(header, uint64(len(t)))
	}
	header = binary.LittleEndian.AppendUint64(header, uint64(size))
	out.write(header)
	out.pad(artefactHeader)
	for _, t := range texts {
		out.write(t)
	}
	start := live.AlignUp(out.n)
	out.pad(start)
	for _, p := range pieces {
		out.pad(start + p.Offset)
		out.write(p.Data)
	}
	out.pad(start + size)
	return out.n, out.err
}

// counter writes to w until the first error, and counts bytes.
type counter struct {
	w   io.Writer
	n   int64
	err error
}

// write writes data unless an error occurred before.
func (c *counter) write(data []byte) {
	if c.err == nil {
		n, err := c.w.Write(data)
		c.n, c.err = c.n+int64(n), err
	}
}

// pad writes zeros up to an offset.
func (c *counter) pad(to int64) {
	var zeros [artefactAlign]byte
	for c.err == nil && c.n < to {
		c.write(zeros[:min(to-c.n, artefactAlign)])
	}
}

// IsArtefact reports whether a file with these first bytes is an artefact.
func IsArtefact(head []byte) bool {
	return len(head) >= len(artefactMagic) && string(head[:len(artefactMagic)]) == artefactMagic
}

// Artefact is an artefact that was read but is not yet compiled.
type Artefact struct {
	About   []byte // as it was given to WriteTo
	Machine target.Machine
	Program *program.Program // verified, but not compared with the loops; must not be changed

	manifest    manifest
	loops, text string
	weights     []byte
}

// ReadArtefact reads an artefact from memory, which the Artefact and everything compiled from it borrow, and charges
// its tables to the file's claim. Errors are of kind ErrInput, ErrUnsupported for another version, or the error of the
// claim's context.
func ReadArtefact(claim *mem.Claim, data []byte) (a *Artefact, err error) {
	defer damaged(&err)
	if len(data) < artefactHeader || !IsArtefact(data) {
		return nil, diag.Inputf("it is no artefact, or it ends before its header does")
	}
	if v := binary.LittleEndian.Uint32(data[8:]); v != artefactVersion {
		return nil, diag.Unsupportedf("version %d of the artefact's format; version %d is supported", v, artefactVersion).
			WithFix("compile the model again with this weir")
	}
	var sections [4][]byte
	at := int64(artefactHeader)
	for i := range sections {
		size := binary.LittleEndian.Uint64(data[16+8*i:])
		if i == len(sections)-1 {
			at = live.AlignUp(at)
		}
		if left := int64(len(data)) - at; left < 0 || size > uint64(left) {
			return nil, diag.Inputf("section %d of the artefact has %d bytes at %d of a file of %d: it is cut off, or damaged",
				i,
				size, at, len(data))
		}
		sections[i] = data[at : at+int64(size) : at+int64(size)]
		at += int64(size)
	}
	if at != int64(len(data)) {
		return nil, diag.Inputf("%d bytes follow the artefact's end", int64(len(data))-at)
	}
	sum := uint32(0)
	for _, p := range sections[:3] {
		sum = crc32.Update(sum, castagnoli, p)
	}
	if want := binary.LittleEndian.Uint32(data[12:]); sum != want {
		return nil, diag.Inputf("the artefact's checksum is %08x, its header says %08x: it is damaged", sum, want)
	}
	a = &Artefact{loops: string(sections[1]), text: string(sections[2]), weights: sections[3]}
	if err := claim.JSON(sections[0]); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(sections[0], &a.manifest); err != nil {
		return nil, diag.Inputf("the artefact's manifest: %v", err)
	}
	a.About, a.Machine = a.manifest.About, a.manifest.Machine
	if a.Program, err = a.read(); err != nil {
		return nil, err
	}
	return a, nil
}

// damaged turns a panic into an error: only a damaged artefact can cause one.
func damaged(err *error) {
	if r := recover(); r != nil {
		*err = diag.Inputf("the artefact is damaged: %v", r)
	}
}

// read parses and verifies the artefact's program.
func (a *Artefact) read() (*program.Program, error) {
	p, err := program.Parse(a.text, program.ParseOptions{Data: a.weights})
	if err != nil {
		return nil, err
	}
	if err := p.Verify(); err != nil {
		return nil, err
	}
	if len(p.Outputs) != len(a.manifest.Names) {
		return nil, diag.Inputf("the artefact names %d outputs and has %d", len(a.manifest.Names), len(p.Outputs))
	}
	return p, nil
}

// Compile verifies an artefact and generates its code. It uses the options Reference, Portable, Budget, Planned, Files,
// Folder and After only.
// dims narrows dimensions' ranges. The search for a budget stops with the error that ask returns.
func (a *Artefact) Compile(o Options, dims map[sym.Name]sym.Range, ask func() error) (c *Compiled, err error) {
	defer damaged(&err)
	machine, err := trusted(a.Machine, o)
	if err != nil {
		return nil, err
	}
	weights := map[string][]byte{}
	for _, w := range a.Program.Weights {
		weights[w.Name] = w.Data
	}
	c = &Compiled{Machine: machine, files: o.Files, folder: o.Folder}
	c.Loop, err = loop.Parse(a.loops, loop.ParseOptions{Share: true,
		Data: func(name string, dt dtype.DType, shape []int64, bytes int64) (*tensor.Tensor, error) {
			data, ok := weights[name]
			if !ok || int64(len(data)) != bytes {
				return nil, diag.Inputf("weight %q has %d bytes, not %d", name, len(data), bytes)
			}
			return tensor.Over(dt, shape, data)
		}})
	if err != nil {
		return nil, err
	}
	c.Loop.Operators = a.manifest.Operators
	if err := a.onDevice(c); err != nil {
		return nil, err
	}
	c.Loop.Dims.Grant(proofsOfKernel * (1 + len(c.Loop.Kernels)))
	open, err := c.unproven()
	if err != nil {
		return nil, err
	}
	c.open = len(open) > 0
	c.time = live.Ranges(c.Loop)
	if len(dims) > 0 { // generating code may look at their ranges
		if err := a.assemble(c, o, dims); err != nil {
			return nil, err
		}
		if err := c.generate(o); err != nil {
			return nil, err
		}
	} else if err := a.assembleAndGenerate(c, o); err != nil {
		return nil, err
	}
	if o.Budget != nil {
		if err := a.keepWithin(c, o, ask); err != nil {
			c.drop()
			return nil, err
		}
	}
	if o.After != nil && c.machineCode() {
		o.After("asm", c.assembly())
	}
	if err := c.permitted(&o); err != nil {
		c.drop()
		return nil, err
	}
	c.own()
	return c, nil
}

// onDevice sets the device as the artefact's manifest says; an error if a launch or a buffer names another one.
func (a *Artefact) onDevice(c *Compiled) error {
	if a.manifest.Device != nil {
		c.device, c.Device.Refused = c.Machine.Name, a.manifest.Device.Refused
	}
	if refusals[c.Machine.Name] == nil && c.device != "" {
		return diag.Inputf("the artefact has a device's memory, and is for %s", c.Machine.Name)
	}
	return c.foreign()
}

// keepWithin makes the scheduled loops keep within a budget, and assembles the program again if its own is too large; a
// narrower range of a dimension may allow a better plan.
func (a *Artefact) keepWithin(c *Compiled, o Options, ask func() error) (err error) {
	defer damaged(&err)
	k := saving{&compilation{c: c, o: o}}
	if budget.Holds(k, *o.Budget, c.Arena.Arena) {
		return nil
	}
	c.uncut = uncutArtefact
	if c.Saved, err = budget.OfLoops(k, *o.Budget, ask); err != nil {
		return err
	}
	c.time = live.Ranges(c.Loop)
	if c.Program, err = assemble(c.Loop, c.time, func(as *assembly) error { return c.layout(as, search) }); err != nil {
		return err
	}
	c.giveContents(true)
	for i, name := range a.manifest.Names {
		c.Program.Outputs[i].Name = name
	}
	if err := c.Program.Verify(); err != nil {
		return err
	}
	if o.After != nil {
		o.After("budget", c.Loop.String())
		o.After("program", c.Program.String())
	}
	return nil
}

// assembleAndGenerate makes the program and the code concurrently, since neither needs the other.
func (a *Artefact) assembleAndGenerate(c *Compiled, o Options) error {
	generated := make(chan error, 1)
	diag.Go("generating code", func() (err error) {
		defer damaged(&err)
		return c.generate(o)
	}, func(err error) { generated <- err })
	err := func() (err error) {
		defer damaged(&err)
		return a.assemble(c, o, nil)
	}()
	if failed := <-generated; err == nil {
		err = failed
	}
	if err != nil && c.Code != nil && c.Code.Release != nil {
		c.Code.Release()
	}
	return err
}

// assemble makes the program from the loops with the artefact's offsets, and returns an error if it differs from the
// artefact's program.
func (a *Artefact) assemble(c *Compiled, o Options, dims map[sym.Name]sym.Range) (err error) {
	given := a.Program
	claimed := &claims{program: given, tensors: map[string]*program.Tensor{}, manifest: &a.manifest}
	for i := range given.Tensors {
		claimed.tensors[given.Tensors[i].Name] = &given.Tensors[i]
	}
	if c.Program, err = assemble(c.Loop, c.time, func(as *assembly) error {
		return c.layout(as, claimed.solve)
	}); err != nil {
		return err
	}
	c.giveContents(true)
	if len(c.Program.Outputs) != len(a.manifest.Names) {
		return diag.Inputf("the artefact names %d outputs, its loops write %d", len(a.manifest.Names), len(c.Program.Outputs))
	}
	for i, name := range a.manifest.Names {
		c.Program.Outputs[i].Name = name
	}
	if made := c.Program.String(); made != a.text && made != given.String() {
		return diag.Inputf("the artefact's program does not follow from its loops")
	}
	if err := c.narrow(dims); err != nil {
		return err
	}
	if o.After != nil {
		o.After("schedule", a.loops)
		o.After("program", a.text)
	}
	return nil
}

// narrow gives dimensions smaller ranges, in the program and in its loops.
func (c *Compiled) narrow(dims map[sym.Name]sym.Range) error {
	for name, r := range dims {
		old, ok := c.Loop.Dims.Get(name)
		if !ok {
			return diag.Inputf("the model has no dimension %s", name).AtDim(name.Text())
		}
		lo, hi := max(old.Min, r.Min), min(old.Max, r.Max)
		if lo > hi {
			return diag.Inputf("%s leaves nothing of the range %s that the artefact was compiled for", r, old).AtDim(name.Text())
		}
		c.Loop.Dims.Set(name, sym.Range{Min: lo, Max: hi})
		for i := range c.Program.Dims {
			if c.Program.Dims[i].Name == name {
				c.Program.Dims[i].Range = sym.Range{Min: lo, Max: hi}
			}
		}
	}
	return nil
}

// claims is a solver that takes the plan from an artefact.
type claims struct {
	program  *program.Program
	tensors  map[string]*program.Tensor
	manifest *manifest
}

// solve returns the artefact's plan of a storage. The caller validates it.
func (c *claims) solve(storage string, p memplan.Problem, roots []*loop.Buffer, _ memplan.Options) (*memplan.Solution,
	error) {
	at := slices.IndexFunc(c.program.Storages, func(s program.Storage) bool { return s.Name == storage })
	if at < 0 {
		return nil, diag.Inputf("the artefact has no storage %s", storage)
	}
	from, plans, skipped, choosing := c.manifest.Arena, c.program.Plans, 0, at == 0
	stored := &c.program.Storages[at]
	switch device := c.manifest.Device; {
	case stored.Late:
		// The entry storages come before the late ones.
		i := at - slices.IndexFunc(c.program.Storages, func(s program.Storage) bool { return s.Late })
		if i >= len(c.manifest.Late) {
			return nil, diag.Inputf("the artefact has no certificate of the storage %s", storage)
		}
		from, plans = c.manifest.Late[i], []program.Plan{{Lets: stored.Lets}}
	case device != nil && stored.Device == "": // it has one layout; each layout of the device begins with its names
		plans, choosing = plans[:min(1, len(plans))], false
	case device != nil:
		from, skipped, choosing = device.Arena, from.Lets, true
	}
	names := 0
	if len(plans) > 0 {
		names = len(plans[0].Lets) - skipped
	}
	if len(plans) == 0 || len(from.Layouts) != len(plans) || from.Lets < 0 || skipped < 0 || from.Lets > names {
		return nil, diag.Inputf("the artefact's certificate of the %s has %d layouts of %d names, its program has %d plans "+
			"of %d", storage, len(from.Layouts), from.Lets, len(plans), names)
	}
	s := &memplan.Solution{Height: c.program.Storages[at].Size, BoundComplete: from.Complete}
	for _, b := range roots {
		t := c.tensors[b.Name]
		if t == nil || t.Class != program.Carved || t.Of != at {
			return nil, diag.Inputf("the artefact gives %s no place in the %s", b.Name, storage)
		}
		s.Offsets = append(s.Offsets, t.Offset)
	}
	var arenas []sym.Expr
	for i, plan := range plans {
		l := memplan.Layout{}
		if choosing {
			l.When = plan.When
		}
		for _, let := range plan.Lets[skipped : skipped+from.Lets] {
			l.Lets = append(l.Lets, memplan.Let{Name: let.Name, X: let.X})
		}
		var err error
		if l.Arena, err = formula(from.Layouts[i], p.Dims); err != nil {
			return nil, err
		}
		s.Layouts, arenas = append(s.Layouts, l), append(arenas, l.Arena)
	}
	var err error
	s.Arena = sym.MinOf(arenas...)
	if s.Bound, err = formula(from.Bound, p.Dims); err != nil {
		return nil, err
	}
	s.Least = s.Bound // the results of the writer's search are not trusted
	s.Proven = p.Dims.LE(s.Arena, s.Least) == sym.Yes
	return s, nil
}

// formula parses an expression over the dimensions.
func formula(source string, dims *sym.Dims) (sym.Expr, error) {
	s := text.NewScanner(source)
	x := s.Expr()
	s.Done()
	if err := s.Err(); err != nil {
		return x, err
	}
	for _, name := range x.Vars() {
		if _, ok := dims.Get(name); !ok {
			return x, diag.Inputf("the formula %s names %s, which is no dimension", source, name)
		}
	}
	return x, nil
}

// unproven proves a module's kernels, and lists the conditions of its steps that are neither proved nor refuted;
// Recheck decides them.
func (c *Compiled) unproven() ([]string, error) {
	err := c.prove()
	var open []string
	if err == nil {
		open, err = loop.VerifySteps(c.Loop)
	}
	if _, wrong := err.(*loop.VerifyError); wrong {
		return nil, diag.Inputf("%v", err)
	}
	return ofSteps(open), err
}

// Recheck verifies, for one binding of the inputs' dimensions, the conditions that are not proved for all. It does
// nothing if none is open. dims has the order of executor.Bind.
func (c *Compiled) Recheck(dims []int64) (err error) {
	if !c.open {
		return nil
	}
	defer damaged(&err)
	m := *c.Loop
	m.Dims = c.Loop.Dims.Fresh() // each binding has proofs of its own
	m.Dims.Grant(proofsOfKernel * (1 + len(m.Kernels)))
	for i, d := range c.Program.Dims {
		if !d.Data {
			m.Dims.Set(d.Name, sym.Range{Min: dims[i], Max: dims[i]})
		}
	}
	open, err := loop.VerifySteps(&m)
	if err != nil {
		return diag.Inputf("%v", err)
	}
	if list := ofSteps(open); len(list) > 0 {
		return diag.Unsupportedf("for dimensions %v it is not proved that the kernels' operands are valid: %s",
			dims, list[0]).
			WithFix("run an artefact's model itself; in a text, require that indices are in range")
	}
	return nil
}

// Certify returns the arena's certificate for one binding of the dimensions.
func (c *Compiled) Certify(value func(name sym.Name) (int64, bool)) (*memplan.Certificate, error) {
	c.certify.Do(func() {
		c.found = c.Arena
		// An artefact does not have the results of the search; and late storages are not part of the arena's plan.
		if c.IR == nil || c.late != nil {
			problem := c.problem
			problem.Buffers = slices.Clone(problem.Buffers)
			for i, p := range c.late {
				if c.Late[i].Kind == program.Arena && c.Late[i].Device == "" {
					problem.Buffers = appendProblem(problem.Buffers, p.Buffers)
				}
			}
			c.found, c.failed = memplan.Plan(problem, c.planned)
		}
	})
	if c.failed != nil {
		return nil, c.failed
	}
	return c.found.Certify(value)
}

// appendProblem appends another problem's buffers and adjusts their aliases' indices.
func appendProblem(to, from []memplan.Buffer) []memplan.Buffer {
	first := len(to)
	for _, b := range from {
		if b.Alias != nil {
			b.Alias = &memplan.Alias{Of: first + b.Alias.Of, Offset: b.Alias.Offset}
		}
		to = append(to, b)
	}
	return to
}

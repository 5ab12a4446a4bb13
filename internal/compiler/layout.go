package compiler

import (
	"errors"
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/memplan/validator"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// solver plans a storage: it gives buffer i of the problem, roots[i], its offset.
type solver func(storage string, p memplan.Problem, roots []*loop.Buffer, o memplan.Options) (*memplan.Solution, error)

// search is the solver that searches for a plan.
func search(_ string, p memplan.Problem, _ []*loop.Buffer, o memplan.Options) (*memplan.Solution, error) {
	return memplan.Plan(p, o)
}

// layout plans and validates the arenas, outputs, late storages and the spill file, and adds them to the program.
func (c *Compiled) layout(a *assembly, solve solver) error {
	arena, err := c.plan(a, space{name: "arena"}, solve)
	if err != nil {
		return err
	}
	c.Arena = arena
	var host []memplan.Let
	if c.device != "" {
		host = arena.Layouts[0].Lets // the host's arena has one layout; the larger one of the device may have several
		if arena, err = c.plan(a, space{name: "arena." + c.device, device: c.device}, solve); err != nil {
			return err
		}
		c.Device.Arena = arena
	}
	if err := c.planOutputs(a); err != nil {
		return err
	}
	if err := c.planLate(a, solve); err != nil {
		return err
	}
	if err := c.planSpill(a); err != nil {
		return err
	}
	for _, l := range arena.Layouts {
		p := program.Plan{When: l.When}
		for _, let := range slices.Concat(host, l.Lets) {
			p.Lets = append(p.Lets, program.Let{Name: let.Name, X: let.X})
		}
		a.to.Plans = append(a.to.Plans, p)
	}
	return nil
}

// space is an arena: its storage's name, and its device.
type space struct{ name, device string }

// plan plans the temporaries of an arena.
func (c *Compiled) plan(a *assembly, where space, solve solver) (*memplan.Solution, error) {
	p, roots, err := c.problemOf(a, loop.Temp, where.device)
	if err != nil {
		return nil, err
	}
	options := memplan.Options{Prefix: where.name + "."}
	if where.device == "" && c.device != "" {
		options.Layouts = 1
	}
	if where.device == "" {
		c.problem, c.planned = p, options
	}
	s, err := c.solve(a, where.name, p, roots, options, solve)
	if err != nil {
		return nil, err
	}
	at := len(a.to.Storages)
	a.to.Storages = append(a.to.Storages, program.Storage{Name: where.name, Kind: program.Arena, Device: where.device,
		Align: 64, Size: s.Height})
	for _, b := range roots {
		a.storage[b] = at
	}
	return s, nil
}

// planOutputs gives each output its own storage, since an output may lie in an argument's storage or the caller's
// memory, and outlive the others.
func (c *Compiled) planOutputs(a *assembly) error {
	p, roots, err := c.problemOf(a, loop.Output, "")
	if err != nil {
		return err
	}
	if len(roots) > 0 { // refuses sizes whose sum overflows, as the arena's plan does
		if err := memplan.Countable(p); err != nil {
			return err
		}
	}
	c.Outputs = sym.Const(0)
	for i, b := range roots {
		size := a.from.Dims.Simplify(p.Buffers[i].Size)
		a.storage[b], a.offset[b] = len(a.to.Storages), sym.Const(0)
		a.to.Storages = append(a.to.Storages, program.Storage{Name: "output." + b.Name, Kind: program.Results,
			Align: memplan.DefaultAlign, Size: size})
		c.Outputs = c.Outputs.Add(size)
	}
	return nil
}

// planSpill lays out a call's spill file: one buffer after another.
func (c *Compiled) planSpill(a *assembly) error {
	c.Spilled = sym.Const(0)
	align := sym.Const(memplan.DefaultAlign)
	for _, b := range a.from.Buffers {
		if b.Kind != loop.Spill || b.View != nil || a.time.Alive[b] == nil {
			continue
		}
		size, err := live.AtLimits(a.from, b)
		if err != nil {
			return err
		}
		a.storage[b], a.offset[b] = len(a.to.Storages), c.Spilled
		c.Spilled = a.from.Dims.Simplify(c.Spilled.Add(size.CeilDiv(align).Mul(align)))
	}
	if n, ok := c.Spilled.Const(); !ok || n > 0 {
		a.to.Storages = append(a.to.Storages, program.Storage{Name: "spill", Kind: program.Spill, Align: memplan.DefaultAlign,
			Size: c.Spilled})
	}
	return nil
}

// problemOf returns the planning problem of one kind of buffers in one memory: buffer i of the problem is roots[i].
func (c *Compiled) problemOf(a *assembly, kind loop.BufferKind, device string) (p memplan.Problem, roots []*loop.Buffer,
	err error) {
	p = memplan.Problem{Dims: a.from.Dims, Steps: max(1, a.time.Steps)}
	for _, b := range a.from.Buffers {
		if b.Kind != kind || b.Device != device || b.View != nil || b.State != nil || live.Late(a.from, b) {
			continue
		}
		life := a.time.Alive[b]
		if kind == loop.Output {
			life = &live.Interval{First: 0, Last: p.Steps - 1} // the caller has it from the beginning to the end
			a.time.Alive[b] = life
		}
		if life == nil {
			continue
		}
		size, err := live.AtLimits(a.from, b)
		if err != nil {
			return p, nil, err
		}
		p.Buffers = append(p.Buffers, memplan.Buffer{Name: b.Name, Size: size, First: life.First, Last: life.Last})
		roots = append(roots, b)
	}
	live.Alias(a.from, a.time, roots, &p, c.overwrites)
	return p, roots, nil
}

// solve solves a problem, validates the solution, and sets the buffers' offsets.
func (c *Compiled) solve(a *assembly, name string, p memplan.Problem, roots []*loop.Buffer, o memplan.Options,
	solve solver) (*memplan.Solution, error) {
	s, err := solve(name, p, roots, o)
	if err != nil {
		return nil, err
	}
	if c.Proof, err = validator.Verify(claim(&p, s), validatorSamples); err != nil && !uncomputable(err) {
		panic(diag.Internalf("the plan of %s is wrong: %v", name, err))
	}
	for i, b := range roots {
		if alias := p.Buffers[i].Alias; alias != nil {
			a.over[b] = roots[alias.Of]
		}
		a.offset[b] = s.Offsets[i]
	}
	return s, nil
}

// validatorSamples is the number of random bindings, beside the corners, at which every plan is validated.
const validatorSamples = 4

// uncomputable reports whether validation failed only because sizes at a sample exceed any memory.
func uncomputable(err error) bool {
	var fault *validator.Fault
	return errors.As(err, &fault) && fault.Rule == validator.Value
}

// claim converts a problem and its solution to the validator's types.
func claim(p *memplan.Problem, s *memplan.Solution) *validator.Plan {
	v := &validator.Plan{Dims: p.Dims, Offsets: s.Offsets, Height: s.Height, Arena: s.Arena, Bound: s.Bound,
		Weak: !s.BoundComplete}
	for _, b := range p.Buffers {
		w := validator.Buffer{Name: b.Name, Size: b.Size, Align: b.Align, First: b.First, Last: b.Last, AliasOf: -1}
		if b.Alias != nil {
			w.AliasOf, w.AliasOffset = b.Alias.Of, b.Alias.Offset
		}
		v.Buffers = append(v.Buffers, w)
	}
	for _, l := range s.Layouts {
		w := validator.Layout{When: l.When, Arena: l.Arena}
		for _, let := range l.Lets {
			w.Lets = append(w.Lets, validator.Let(let))
		}
		v.Layouts = append(v.Layouts, w)
	}
	return v
}

package compiler

import (
	"errors"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/memplan/validator"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// A solver places the root buffers of a storage: buffer i of the problem is roots[i].
type solver func(storage string, p memplan.Problem, roots []*loop.Buffer, o memplan.Options) (*memplan.Solution, error)

// search is the solver that looks for a plan.
func search(_ string, p memplan.Problem, _ []*loop.Buffer, o memplan.Options) (*memplan.Solution, error) {
	return memplan.Plan(p, o)
}

// layout has the arenas and the outputs placed, has their plans validated, and writes them into the program.
func (c *Compiled) layout(a *assembly, solve solver) error {
	arena, err := c.plan(a, space{name: "arena"}, solve)
	if err != nil {
		return err
	}
	c.Arena = arena
	var host []memplan.Let
	if c.device != "" {
		host = arena.Layouts[0].Lets // it has one layout, and the device's, which is the larger, may have several
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

// space is an arena: its storage's name, and the device in whose memory it is.
type space struct{ name, device string }

// plan places the temps of an arena.
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
	a.to.Storages = append(a.to.Storages, program.Storage{Name: where.name, Kind: program.Arena, Device: where.device, Align: 64, Size: s.Height})
	for _, b := range roots {
		a.storage[b] = at
	}
	return s, nil
}

// planOutputs gives each output storage of its own: one may be elsewhere, in an argument's storage or the caller's, and outlive the others.
func (c *Compiled) planOutputs(a *assembly) error {
	p, roots, err := c.problemOf(a, loop.Output, "")
	if err != nil {
		return err
	}
	if len(roots) > 0 { // refuses what cannot be added up, as the arena's plan does
		if _, err := memplan.Naive(p); err != nil {
			return err
		}
	}
	c.Outputs = sym.Const(0)
	for i, b := range roots {
		size := a.from.Dims.Simplify(p.Buffers[i].Size)
		a.storage[b], a.offset[b] = len(a.to.Storages), sym.Const(0)
		a.to.Storages = append(a.to.Storages, program.Storage{Name: "output." + b.Name, Kind: program.Results, Align: memplan.DefaultAlign, Size: size})
		c.Outputs = c.Outputs.Add(size)
	}
	return nil
}

// planSpill lays out the file of a call: one buffer behind the other, each at a place of its own.
func (c *Compiled) planSpill(a *assembly) error {
	c.Spilled = sym.Const(0)
	align := sym.Const(memplan.DefaultAlign)
	for _, b := range a.from.Buffers {
		if b.Kind != loop.Spill || b.View != nil || a.time.alive[b] == nil {
			continue
		}
		size, err := atLimits(a.from, b)
		if err != nil {
			return err
		}
		a.storage[b], a.offset[b] = len(a.to.Storages), c.Spilled
		c.Spilled = a.from.Dims.Simplify(c.Spilled.Add(size.CeilDiv(align).Mul(align)))
	}
	if n, ok := c.Spilled.Const(); !ok || n > 0 {
		a.to.Storages = append(a.to.Storages, program.Storage{Name: "spill", Kind: program.Spill, Align: memplan.DefaultAlign, Size: c.Spilled})
	}
	return nil
}

// problemOf is what there is to place of one kind in one memory: buffer i of the problem is roots[i].
func (c *Compiled) problemOf(a *assembly, kind loop.BufferKind, device string) (p memplan.Problem, roots []*loop.Buffer, err error) {
	p = memplan.Problem{Dims: a.from.Dims, Steps: max(1, a.time.steps)}
	for _, b := range a.from.Buffers {
		if b.Kind != kind || b.Device != device || b.View != nil || b.State != nil || late(a.from, b) {
			continue
		}
		life := a.time.alive[b]
		if kind == loop.Output {
			life = &span{0, p.Steps - 1} // the caller's from the beginning to the end
			a.time.alive[b] = life
		}
		if life == nil {
			continue
		}
		size, err := atLimits(a.from, b)
		if err != nil {
			return p, nil, err
		}
		p.Buffers = append(p.Buffers, memplan.Buffer{Name: b.Name, Size: size, First: life.first, Last: life.last})
		roots = append(roots, b)
	}
	c.alias(a, roots, &p)
	return p, roots, nil
}

// solve has a problem solved and the solution validated, and notes where the buffers lie.
func (c *Compiled) solve(a *assembly, name string, p memplan.Problem, roots []*loop.Buffer, o memplan.Options, solve solver) (*memplan.Solution, error) {
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

// atLimits is a buffer's size in bytes over the inputs' dimensions: what data decide is taken at its limit.
func atLimits(m *loop.Module, b *loop.Buffer) (sym.Expr, error) {
	size := bytesOf(b, sym.Product(b.Shape...))
	limit, most := atMost(m, size)
	for _, name := range limit.Vars() {
		if _, data := m.Limits[name]; data {
			return size, unbounded(b, size)
		}
	}
	if size.Equal(limit) {
		return size, nil
	}
	if lo, _ := m.Dims.Bounds(limit); lo > mostAtLimit {
		return size, unbounded(b, size)
	}
	if most {
		return limit, nil
	}
	if limit = largest(m, size); limit.Equal(size) {
		return size, unbounded(b, size)
	}
	return limit, nil
}

// mostAtLimit is the largest size, in bytes, that is planned for because data might decide it.
const mostAtLimit = 1 << 38

func unbounded(b *loop.Buffer, size sym.Expr) error {
	return diag.Unsupportedf("the data decide the size of %s, %s bytes, and nothing bounds it", b.Name, size).AtTensor(b.Source).WithFix("declare a range for the dimension")
}

// monotone reports whether a size grows with each dimension that data decide.
func monotone(m *loop.Module, size sym.Expr) bool {
	for _, name := range size.Vars() {
		if limit, data := m.Limits[name]; !data || sym.IsUnlimited(limit) {
			continue
		}
		coef, _, linear := size.Linear(name)
		if !linear || m.Dims.LE(sym.Const(0), coef) != sym.Yes {
			return false
		}
	}
	return true
}

// alias lets a kernel compute in place: its result takes the storage of an operand that dies there and that the kernel
// reads only where it writes. A copy of what dies there takes its storage too, and then moves nothing.
func (c *Compiled) alias(a *assembly, roots []*loop.Buffer, p *memplan.Problem) {
	index := map[*loop.Buffer]int{}
	for i, b := range roots {
		index[b] = i
	}
	c.copies(a.from.Body, func(s *loop.Copy) {
		out, in := wholeOf(s.To), wholeOf(s.From)
		o, planned := index[out]
		i, both := index[in]
		if at := a.time.at[s].first; planned && both && i != o && p.Buffers[o].Alias == nil &&
			p.Buffers[o].First == at && p.Buffers[i].Last == at && p.Buffers[i].Size.Equal(p.Buffers[o].Size) {
			p.Buffers[o].Alias = &memplan.Alias{Of: i}
		}
	})
	c.launches(a.from.Body, func(l *loop.Launch) {
		taken := map[int]bool{} // an operand's storage goes to one result
		for w, out := range l.Args {
			if access := l.Kernel.Params[w].Access; access == loop.Read || access == loop.Work || out.View != nil {
				continue
			}
			o, planned := index[out]
			if !planned || p.Buffers[o].Alias != nil || p.Buffers[o].First != a.time.at[l].first {
				continue
			}
			for r, in := range l.Args {
				i, planned := index[wholeOf(in)]
				if l.Kernel.Params[r].Access != loop.Read || !planned || i == o || p.Buffers[i].Last != a.time.at[l].first ||
					!p.Buffers[i].Size.Equal(p.Buffers[o].Size) || in.DType.Bits() != out.DType.Bits() || !onlyOperand(l, in.Root()) {
					continue
				}
				if !taken[i] && (inPlace(l.Kernel, r, w) || inPlaceByBoxes(l.Kernel, c.Loop.Dims, r, w)) {
					p.Buffers[o].Alias = &memplan.Alias{Of: i}
					taken[i] = true
					break
				}
			}
		}
	})
}

// onlyOperand reports whether a buffer is given to a launch once, views of it counted.
func onlyOperand(l *loop.Launch, b *loop.Buffer) bool {
	count := 0
	for _, arg := range l.Args {
		if arg.Root() == b {
			count++
		}
	}
	return count == 1
}

// launches visits the launches of a body, inner bodies included.
func (c *Compiled) launches(steps []loop.Step, visit func(*loop.Launch)) { each(steps, visit) }

// copies visits the copies of whole buffers of a body, inner bodies included.
func (c *Compiled) copies(steps []loop.Step, visit func(*loop.Copy)) {
	each(steps, func(s *loop.Copy) {
		if s.Pick == nil {
			visit(s)
		}
	})
}

// each visits the steps of a kind, those of inner bodies included.
func each[S loop.Step](steps []loop.Step, visit func(S)) {
	for _, step := range steps {
		switch s := step.(type) {
		case S:
			visit(s)
		case *loop.If:
			each(s.Then, visit)
			each(s.Else, visit)
		case *loop.Loop:
			each(s.Body, visit)
		}
	}
}

// validatorSamples is the number of random bindings at which every plan is checked, beside the corners.
const validatorSamples = 4

// uncomputable reports whether a plan could not be checked at a sample only because the sizes there are beyond any memory.
func uncomputable(err error) bool {
	var fault *validator.Fault
	return errors.As(err, &fault) && fault.Rule == validator.Value
}

// claim is a problem and its solution in the validator's own words.
func claim(p *memplan.Problem, s *memplan.Solution) *validator.Plan {
	v := &validator.Plan{Dims: p.Dims, Offsets: s.Offsets, Height: s.Height, Arena: s.Arena, Bound: s.Bound, Weak: !s.BoundComplete}
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

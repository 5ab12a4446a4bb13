package compiler

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/sym"
)

// This file divides a module between the host and a device with memory of its own. Every launch whose kernel the
// device's generator takes runs there; other launches, host operators, and the steps that decide branches, loops and
// dimensions run on the host. A root buffer that both touch has a mirror in the other memory, of the same bytes, and
// copies between the two stand before the steps that need them: contents that one side wrote are copied only when the
// other side uses them.

// OnHost is a launch that runs on the host though the program is for a device.
type OnHost struct {
	Kernel, Source string // the kernel, and the model's nodes that it computes
	Reason         string // why the device does not run it
}

// OnDevice is a program's use of a device, in addition to the host.
type OnDevice struct {
	Arena   *memplan.Solution // nil if there is no device
	Scratch sym.Expr          // bytes that one launch needs at most, over the inputs' dimensions
	Refused []OnHost          // launches that run on the host
}

// divide divides the module between the host and a device. refuses returns why the device cannot run a kernel; nil if
// it can, on conditions that become the module's.
func (c *Compiled) divide(device string, refuses func(k *loop.Kernel) ([]sym.Cond, error)) {
	c.device = device
	d := &division{module: c.Loop, device: device, home: map[*loop.Buffer]string{}, valid: map[*loop.Buffer]memories{},
		other: map[*loop.Buffer]*loop.Buffer{}, names: map[string]bool{}}
	for _, b := range c.Loop.Buffers {
		d.names[b.Name] = true
	}
	for _, k := range c.Loop.Kernels {
		d.names[k.Name] = true
	}
	verdicts := map[*loop.Kernel]error{}
	live.Each(c.Loop.Body, func(l *loop.Launch) {
		verdict, known := verdicts[l.Kernel]
		if !known {
			var conditions []sym.Cond
			conditions, verdict = refuses(l.Kernel)
			verdicts[l.Kernel] = verdict
			for _, cond := range conditions {
				c.Loop.Requires = append(c.Loop.Requires, loop.Require{Cond: cond,
					From: l.Source + " (" + l.Kernel.Name + "): sizes and offsets fit the device's integers of 32 bits"})
			}
		}
		if verdict == nil {
			l.Device = device
			return
		}
		c.Device.Refused = append(c.Device.Refused, OnHost{Kernel: l.Kernel.Name, Source: l.Source, Reason: verdict.Error()})
	})
	d.keepTogether(func(l *loop.Launch, reason string) {
		c.Device.Refused = append(c.Device.Refused, OnHost{Kernel: l.Kernel.Name, Source: l.Source, Reason: reason})
	})
	d.settle()
	body := d.steps(c.Loop.Body)
	c.Loop.Body = append(body, d.deliver()...)
	c.Loop.Buffers = append(c.Loop.Buffers, d.made...)
}

// memories are the memories in which a root buffer's contents are current.
type memories struct{ host, device bool }

// any reports whether the contents are current in some memory.
func (m memories) any() bool { return m.host || m.device }

// in reports whether the contents are current in a device's memory; "" is the host.
func (m memories) in(device string) bool {
	if device == "" {
		return m.host
	}
	return m.device
}

// and returns the memories that are in both sets.
func (m memories) and(o memories) memories { return memories{m.host && o.host, m.device && o.device} }

// only returns the memory of one device; "" is the host.
func only(device string) memories { return memories{host: device == "", device: device != ""} }

// division is the state of divide.
type division struct {
	module  *loop.Module
	device  string
	home    map[*loop.Buffer]string // by root buffer: the memory that has its contents whenever a body begins or ends
	valid   map[*loop.Buffer]memories
	other   map[*loop.Buffer]*loop.Buffer // a buffer's stand-in in the memory that is not its home
	strided map[*loop.Buffer]memories     // by root buffer: the sides that write strided views of it
	after   []loop.Step                   // steps that follow the current step
	made    []*loop.Buffer
	names   map[string]bool
}

// keepTogether makes one side write all strided views of a root buffer, because a mirror of the buffer would hold only
// the elements written there: if the host writes one, it writes all.
func (d *division) keepTogether(refuse func(l *loop.Launch, reason string)) {
	d.strided = map[*loop.Buffer]memories{}
	for again := true; again; {
		again = false
		clear(d.strided)
		d.writes(d.module.Body, func(b *loop.Buffer, device string) {
			if root := b.Root(); live.Covered(b) != root && !rowMajor(b) {
				have := d.strided[root]
				d.strided[root] = memories{have.host || device == "", have.device || device != ""}
			}
		})
		live.Each(d.module.Body, func(l *loop.Launch) {
			for i, b := range l.Args {
				if p := d.strided[b.Root()]; l.Device != "" && l.Kernel.Params[i].Access != loop.Read && !rowMajor(b) && p.host &&
					p.device {
					refuse(l, "it writes some elements of "+b.Root().Name+", and the host writes others")
					l.Device, again = "", true
					return
				}
			}
		})
	}
}

// writes visits the buffers that launches, host operators and host copies write, with the device that writes them,
// inner bodies included.
func (d *division) writes(steps []loop.Step, visit func(b *loop.Buffer, device string)) {
	live.Each(steps, func(s *loop.Launch) {
		for i, b := range s.Args {
			if s.Kernel.Params[i].Access != loop.Read {
				visit(b, s.Device)
			}
		}
	})
	live.Each(steps, func(s *loop.Host) {
		for _, b := range s.Out {
			if b != nil {
				visit(b, "")
			}
		}
	})
	live.Each(steps, func(s *loop.Copy) {
		if d.hostCopies(s) {
			visit(s.To, "")
		}
	})
}

// settle gives every root buffer its home: the device's memory if a launch there uses it, unless it is an input. A
// temporary then lies there itself, and so do a weight that nothing else uses and a state whose new value is written
// there; another output has a mirror there, which is copied to the output at the end.
func (d *division) settle() {
	host, device := map[*loop.Buffer]bool{}, map[*loop.Buffer]bool{}
	d.reach(d.module.Body, func(b *loop.Buffer, on string) {
		if on == "" {
			host[b.Root()] = true
		} else {
			device[b.Root()] = true
		}
	})
	for root, p := range d.strided {
		if p.host {
			delete(device, root)
		}
	}
	for grown := true; grown; { // the target of a copy from the device lies there too
		grown = false
		live.Each(d.module.Body, func(s *loop.Copy) {
			from, to := s.From.Root(), s.To.Root()
			if s.Pick == nil && device[from] && from.Kind == loop.Temp && !device[to] && !s.To.Away() && !d.strided[to].host {
				device[to], grown = true, true
			}
		})
	}
	for _, b := range d.module.Buffers {
		if b.View != nil {
			continue
		}
		if d.strided[b].host {
			delete(device, b)
		}
		if b.Kind == loop.Input || b.Kind == loop.Weight {
			d.valid[b] = memories{host: true}
		}
		if device[b] && (b.Kind == loop.Temp || b.Kind == loop.Weight && !host[b] && !b.Paged) {
			b.Device, d.home[b] = d.device, d.device
			if b.Kind == loop.Weight {
				d.valid[b] = memories{device: true}
			}
		}
		if device[b] && b.Kind == loop.Output {
			d.home[b] = d.device
		}
	}
	for _, b := range d.module.Buffers {
		if b.State == nil || !device[b] || d.strided[b].host || d.strided[b.State].host {
			continue
		}
		for _, state := range []*loop.Buffer{b.State, b} {
			state.Device, d.home[state] = d.device, d.device
		}
		d.valid[b.State] = memories{device: true}
	}
}

// reach visits the buffers that steps use, with the device that uses them.
func (d *division) reach(steps []loop.Step, visit func(b *loop.Buffer, device string)) {
	loop.WalkSteps(steps, func(step loop.Step) {
		device := ""
		switch s := step.(type) {
		case *loop.Launch:
			device = s.Device
		case *loop.Copy:
			if s.Pick == nil && !s.From.Away() && !s.To.Away() {
				return
			}
		}
		loop.StepOperands(step, func(b *loop.Buffer) { visit(b, device) })
	})
}

// steps returns a body in which each step finds its operands in the memory of its own device.
func (d *division) steps(body []loop.Step) []loop.Step {
	var out []loop.Step
	for _, step := range body {
		switch s := step.(type) {
		case *loop.Launch:
			out = d.launch(out, s)
		case *loop.Copy:
			out = d.copy(out, s)
		case *loop.Host:
			h := *s
			h.In, h.Out = slices.Clone(s.In), slices.Clone(s.Out)
			for i, b := range h.In {
				out, h.In[i] = d.read(out, b, "")
			}
			for i, b := range h.Out {
				out, h.Out[i] = d.write(out, b, "", false)
			}
			out = append(out, &h)
		case *loop.Bind:
			b := *s
			out, b.From = d.read(out, s.From, "")
			out = append(out, &b)
		case *loop.If:
			out = d.branch(out, s)
		case *loop.Loop:
			out = d.loop(out, s)
		}
		out, d.after = append(out, d.after...), nil
	}
	return out
}

// read returns the stand-in of a buffer in a device's memory, and appends the copy that makes it current. Of a
// contiguous view only the view is copied, since the rest may not be written yet.
func (d *division) read(out []loop.Step, b *loop.Buffer, device string) ([]loop.Step, *loop.Buffer) {
	if b == nil {
		return out, nil
	}
	root := b.Root()
	if have := d.valid[root]; have.any() && !have.in(device) {
		if live.Covered(b) != root && rowMajor(b) && root.Kind != loop.Weight {
			own, from := d.own(b, device), d.device
			if have.host {
				from = ""
			}
			return append(out, &loop.Copy{To: own, From: d.standIn(b, from)}), own
		}
		out = d.bring(out, root, device)
	}
	return out, d.standIn(b, device)
}

// own returns a new buffer in a device's memory for the contents of a view.
func (d *division) own(b *loop.Buffer, device string) *loop.Buffer {
	own := &loop.Buffer{Name: d.fresh(b.Name + "." + memoryWord(device)), Kind: loop.Temp, DType: b.DType, Shape: b.Shape,
		Source: b.Source, Device: device}
	d.made = append(d.made, own)
	return own
}

// bring appends the copy of a root buffer into a memory in which it is not current.
func (d *division) bring(out []loop.Step, root *loop.Buffer, device string) []loop.Step {
	from := d.device
	if device != "" {
		from = ""
	}
	d.valid[root] = memories{host: true, device: true}
	to, source := d.standIn(root, device), d.standIn(root, from)
	if to.Kind == loop.Weight {
		return out // it is there from the beginning
	}
	return append(out, &loop.Copy{To: to, From: source})
}

// write returns the stand-in of a buffer that a step writes in a device's memory; the other memory's contents become
// stale. If the step writes a view, the root's other contents are copied first, unless the view is contiguous: then the
// step writes a buffer of its own, which is copied home after the step.
func (d *division) write(out []loop.Step, b *loop.Buffer, device string, update bool) ([]loop.Step, *loop.Buffer) {
	if b == nil {
		return out, nil
	}
	root := b.Root()
	have, home, full := d.valid[root], d.home[root], live.Covered(b) == root
	if !full && device != home && rowMajor(b) {
		if have.any() && !have.in(home) {
			out = d.bring(out, root, home)
		}
		own := d.own(b, device)
		d.valid[root] = only(home)
		there := d.standIn(b, home)
		if update {
			out = append(out, &loop.Copy{To: own, From: there})
		}
		d.after = append(d.after, &loop.Copy{To: there, From: own})
		return out, own
	}
	if !full && have.any() && !have.in(device) {
		out = d.bring(out, root, device)
	}
	d.valid[root] = only(device)
	return out, d.standIn(b, device)
}

// launch replaces a launch's operands by their stand-ins.
func (d *division) launch(out []loop.Step, s *loop.Launch) []loop.Step {
	l := *s
	l.Args = slices.Clone(s.Args)
	for i, b := range s.Args {
		if access := s.Kernel.Params[i].Access; access == loop.Read || access == loop.Update {
			out, l.Args[i] = d.read(out, b, s.Device)
		}
	}
	for i, b := range s.Args {
		if access := s.Kernel.Params[i].Access; access != loop.Read {
			out, l.Args[i] = d.write(out, b, s.Device, access == loop.Update)
		}
	}
	return append(out, &l)
}

// copy does a copy in the memory of its source. A copy on the device with a strided end is done by a kernel if both
// ends have one shape, else by the host.
func (d *division) copy(out []loop.Step, s *loop.Copy) []loop.Step {
	c := *s
	if s.Pick != nil {
		p := *s.Pick
		c.Pick = &p
		out, p.Index = d.read(out, s.Pick.Index, "")
	}
	device, dense := "", rowMajor(s.From) && rowMajor(s.To)
	if d.home[s.To.Root()] != "" && !d.hostCopies(s) && (d.valid[s.From.Root()].device ||
		live.Covered(s.To) != s.To.Root()) {
		device = d.device // a view is written in its root's memory
	}
	out, c.From = d.read(out, s.From, device)
	out, c.To = d.write(out, s.To, device, false)
	if device != "" && !dense {
		return append(out, d.kernelFor(&c))
	}
	return append(out, &c)
}

// hostCopies reports whether only the host can do a copy.
func (d *division) hostCopies(s *loop.Copy) bool {
	return s.Pick != nil || s.From.Away() || s.To.Away() || !(rowMajor(s.From) && rowMajor(s.To)) &&
		!d.sameShape(s.From, s.To)
}

// rowMajor reports whether a buffer is contiguous in memory.
func rowMajor(b *loop.Buffer) bool { return b.View == nil || b.View.Strides == nil }

// sameShape reports whether two buffers are proved to have the same shape.
func (d *division) sameShape(a, b *loop.Buffer) bool {
	return slices.EqualFunc(a.Shape, b.Shape, func(x, y sym.Expr) bool { return d.module.Dims.EQ(x, y) == sym.Yes })
}

// kernelFor returns a launch of a new kernel that copies one buffer of the device to another, element by element.
func (d *division) kernelFor(c *loop.Copy) *loop.Launch {
	shape := c.To.Shape
	param := func(name string, access loop.Access, b *loop.Buffer) *loop.Param {
		p := &loop.Param{Name: name, Access: access, DType: b.DType, Shape: shape}
		if b.View != nil {
			p.Strides = b.View.Strides
		}
		return p
	}
	from, to := param("from", loop.Read, c.From), param("to", loop.Write, c.To)
	index, names := make([]sym.Expr, len(shape)), make([]sym.Name, len(shape))
	for axis := range shape {
		names[axis] = sym.Bound(fmt.Sprintf("i%d", axis))
		index[axis] = sym.Var(names[axis])
	}
	body := []loop.Stmt{&loop.Store{To: to.Name, Index: index,
		X: &loop.Load{From: from.Name, Index: index, Type: from.DType}}}
	for axis := len(shape) - 1; axis >= 0; axis-- {
		body = []loop.Stmt{&loop.For{Kind: loop.Each, Var: names[axis], Extent: shape[axis], Body: body}}
	}
	k := &loop.Kernel{Name: d.fresh("copy_" + c.To.Name), Params: []*loop.Param{from, to}, Body: body}
	k.Dims = loop.FreeDims(k)
	d.module.Kernels = append(d.module.Kernels, k)
	return &loop.Launch{Kernel: k, Args: []*loop.Buffer{c.From, c.To}, Device: d.device}
}

// branch divides the bodies of an If. Buffers that either writes are home after both.
func (d *division) branch(out []loop.Step, s *loop.If) []loop.Step {
	b := *s
	out, b.Cond = d.read(out, s.Cond, "")
	written := d.written(append(slices.Clone(s.Then), s.Else...))
	before := maps.Clone(d.valid)
	b.Then = d.goHome(d.steps(s.Then), written)
	then := d.valid
	d.valid = before
	b.Else = d.goHome(d.steps(s.Else), written)
	for root, have := range then {
		switch now := d.valid[root]; {
		case !now.any():
			d.valid[root] = have
		case have.any():
			d.valid[root] = now.and(have)
		}
	}
	return append(out, &b)
}

// loop divides the body of a Loop. Buffers that it writes are home when an iteration begins and ends, and its trip
// count and condition on the host too; buffers that it only reads are copied before it.
func (d *division) loop(out []loop.Step, s *loop.Loop) []loop.Step {
	l := *s
	written := d.written([]loop.Step{s})
	out = d.goHome(out, written)
	d.reach(s.Body, func(b *loop.Buffer, device string) {
		if !slices.Contains(written, b.Root()) {
			out, _ = d.read(out, b.Root(), device)
		}
	})
	out, l.Trip = d.read(out, s.Trip, "")
	out, l.Cond = d.read(out, s.Cond, "")
	start := maps.Clone(d.valid)
	if s.Index != nil {
		_, l.Index = d.write(nil, s.Index, "", false)
	}
	l.Body = d.goHome(d.steps(s.Body), written)
	l.Body, _ = d.read(l.Body, s.Trip, "")
	l.Body, _ = d.read(l.Body, s.Cond, "")
	for root, have := range start {
		if have.any() {
			d.valid[root] = d.valid[root].and(have)
		}
	}
	return append(out, &l)
}

// written returns the root buffers that steps write, each once.
func (d *division) written(steps []loop.Step) (roots []*loop.Buffer) {
	seen := map[*loop.Buffer]bool{}
	add := func(list ...*loop.Buffer) {
		for _, b := range list {
			if b != nil && !seen[b.Root()] {
				seen[b.Root()] = true
				roots = append(roots, b.Root())
			}
		}
	}
	loop.WalkSteps(steps, func(step loop.Step) {
		switch s := step.(type) {
		case *loop.Launch:
			for i, b := range s.Args {
				if s.Kernel.Params[i].Access != loop.Read {
					add(b)
				}
			}
		case *loop.Copy:
			add(s.To)
		case *loop.Host:
			add(s.Out...)
		case *loop.Loop:
			add(s.Index)
		}
	})
	return roots
}

// goHome copies root buffers home, and marks all other copies of them stale.
func (d *division) goHome(out []loop.Step, roots []*loop.Buffer) []loop.Step {
	for _, root := range roots {
		have, home := d.valid[root], d.home[root]
		if !have.any() {
			continue
		}
		if !have.in(home) {
			out = d.bring(out, root, home)
		}
		d.valid[root] = only(home)
	}
	return out
}

// deliver returns the copies of the outputs to the host; those that replace states of the device stay there.
func (d *division) deliver() (out []loop.Step) {
	for _, b := range d.module.Buffers {
		if b.State != nil && b.Device != "" {
			out = d.goHome(out, []*loop.Buffer{b})
			continue
		}
		if b.Kind == loop.Output && b.View == nil {
			out, _ = d.read(out, b, "")
		}
	}
	return out
}

// standIn returns the buffer that holds b's contents in a device's memory: b itself at its home, else its mirror, or
// the same view of one.
func (d *division) standIn(b *loop.Buffer, device string) *loop.Buffer {
	root := b.Root()
	if root.Device == device {
		return b
	}
	if made := d.other[b]; made != nil {
		return made
	}
	m := *b
	m.Name, m.Elements, m.State = d.fresh(b.Name+"."+memoryWord(device)), nil, nil
	switch {
	case b.View != nil:
		view := *b.View
		view.Of = d.standIn(b.View.Of, device)
		m.View = &view
	default:
		m.Device = device
		if b.Kind != loop.Weight {
			m.Kind = loop.Temp
		}
	}
	d.other[b] = &m
	d.made = append(d.made, &m)
	return &m
}

// memoryWord returns the suffix of a mirror's name.
func memoryWord(device string) string {
	if device == "" {
		return "host"
	}
	return device
}

// foreign returns an error if an artefact launches a kernel on another device than the module's, or has a buffer in the
// memory of another one.
func (c *Compiled) foreign() (err error) {
	live.Each(c.Loop.Body, func(l *loop.Launch) {
		if l.Device != "" && l.Device != c.device {
			err = diag.Inputf("the artefact launches @%s on %q, and is for %q", l.Kernel.Name, l.Device, c.device)
		}
	})
	if err != nil {
		return err
	}
	for _, b := range c.Loop.Buffers {
		if b.Device != "" && b.Device != c.device {
			return diag.Inputf("the artefact has %s in the memory of %q, and is for %q", b.Name, b.Device, c.device)
		}
	}
	return nil
}

// fresh returns a name that no buffer or kernel has.
func (d *division) fresh(hint string) string {
	name := hint
	for i := 1; d.names[name]; i++ {
		name = fmt.Sprintf("%s.%d", hint, i)
	}
	d.names[name] = true
	return name
}

// Package lower turns ir into loop: one kernel for each operator, buffers for the values between them, steps in the
// order of the nodes. Views become buffers inside buffers; If and Loop become steps with bodies.
//
// It decides nothing about speed: fusing, tiling and ordering are scheduling's.
package lower

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// lowering is one module's translation.
type lowering struct {
	from    *ir.Module
	to      *loop.Module
	buffers map[*ir.Value]*loop.Buffer
	names   map[string]int
	outputs map[*loop.Buffer]bool
	blocks  bool                       // see ops.Lowering
	rooms   map[*ir.Value]*loop.Buffer // of scan outputs, where their rows are made
	// branches is how many branches are around the nodes. What they need of the dimensions holds only if they are taken;
	// memory is planned for every run.
	branches int
	storages map[string]*loop.Buffer // that the model's text lays out, by name
}

// For lowers main, for a machine with blocks of threads or without. Values named in the results become Output buffers,
// parameters Input buffers, both in order.
func For(m *ir.Module, blocks bool) (*loop.Module, error) {
	l := &lowering{from: m, blocks: blocks, buffers: map[*ir.Value]*loop.Buffer{}, names: map[string]int{},
		outputs: map[*loop.Buffer]bool{}, rooms: map[*ir.Value]*loop.Buffer{}, storages: map[string]*loop.Buffer{},
		to: &loop.Module{Name: m.Name, Dims: m.Dims, Limits: m.Limits, Origins: m.Origins}}
	for _, r := range m.Requires {
		l.to.Requires = append(l.to.Requires, loop.Require(r))
	}
	for _, p := range m.Main.Body.Params {
		b := l.buffer(p.Name, loop.Input, p.Type, p.Name)
		l.buffers[p] = b
		if p.Bound {
			for _, x := range p.Known {
				name, _ := x.Name()
				b.Elements = append(b.Elements, name)
			}
		}
	}
	// Outputs come first, in order, so that their producers can write into them.
	outputs := make([]*loop.Buffer, len(m.Main.Body.Results))
	for i, v := range m.Main.Body.Results {
		outputs[i] = l.buffer(v.Name, loop.Output, v.Type, v.Name)
	}
	for _, s := range m.Main.States {
		outputs[s.Out].State = l.buffers[s.In]
	}
	l.claim(m.Main.Body, outputs)
	if err := l.block(m.Main.Body, &l.to.Body); err != nil {
		return nil, err
	}
	if err := l.deliver(m.Main.Body, outputs, &l.to.Body); err != nil {
		return nil, err
	}
	l.prune()
	return l.to, nil
}

// name makes a buffer's or kernel's name unique.
func (l *lowering) name(hint string) string {
	for {
		count := l.names[hint]
		l.names[hint] = count + 1
		if count == 0 {
			return hint
		}
		hint = fmt.Sprintf("%s.%d", hint, count)
	}
}

func (l *lowering) buffer(hint string, kind loop.BufferKind, t ir.Type, source string) *loop.Buffer {
	b := &loop.Buffer{Name: l.name(hint), Kind: kind, DType: t.DType, Shape: t.Shape, Source: source}
	if kind == loop.Temp {
		b.Shape = l.numbered(t.Shape) // so that two of them that are as large are seen to be
	}
	l.to.Buffers = append(l.to.Buffers, b)
	return b
}

// numbered is a shape in which the model's dimensions that have one value are that number. What data decide stays a
// name, which a step binds.
func (l *lowering) numbered(shape []sym.Expr) []sym.Expr {
	out := ops.Settled(l.from.Dims, shape)
	for axis, extent := range shape {
		if name, alone := extent.Name(); alone {
			if _, decided := l.from.Limits[name]; decided {
				out[axis] = extent
			}
		}
	}
	return out
}

// claim lets the node that produces a block's result write it where it is wanted: once for each value, and only for
// values that the block itself computes.
func (l *lowering) claim(b *ir.Block, into []*loop.Buffer) {
	inBlock := map[*ir.Node]bool{}
	for _, n := range b.Nodes {
		inBlock[n] = true
	}
	for i, v := range b.Results {
		if l.buffers[v] != nil || v.Const != nil || v.Node == nil || !inBlock[v.Node] || placed(v.Node) ||
			!sameShape(l.numbered(v.Type.Shape), l.numbered(into[i].Shape)) {
			continue
		}
		for {
			// What is only the same elements under another shape is written by what it is a view of.
			view := viewOf(v.Node, l.from.Dims)
			if view == nil {
				l.buffers[v] = into[i]
				break
			}
			of := v.Node.Inputs[view.Of]
			if view.Strides != nil || !(view.Whole && l.branches == 0 && l.settled(into[i])) &&
				l.from.Dims.EQ(sym.Product(of.Type.Shape...), sym.Product(v.Type.Shape...)) != sym.Yes {
				break // a part of what is viewed
			}
			if of.Node == nil || !inBlock[of.Node] || placed(of.Node) || of.Const != nil || l.buffers[of] != nil ||
				isResult(b, of) || into[i].Shape == nil {
				break
			}
			if viewOf(of.Node, l.from.Dims) == nil && len(of.Node.Regions) == 0 {
				root := into[i]
				l.buffers[of] = &loop.Buffer{Name: l.name(of.Name), Kind: loop.Temp, DType: of.Type.DType, Shape: of.Type.Shape,
					Source: of.Name, View: &loop.View{Of: root}}
				l.to.Buffers = append(l.to.Buffers, l.buffers[of])
				l.buffers[v] = root
				break
			}
			break
		}
	}
}

// settled reports whether the run knows a buffer's shape when it begins.
func (l *lowering) settled(b *loop.Buffer) bool {
	for _, e := range b.Shape {
		for _, name := range e.Vars() {
			if _, data := l.from.Limits[name]; data {
				return false
			}
		}
	}
	return true
}

// sameShape reports whether two shapes are the same as they are written: a buffer whose extents are bound after its
// producer ran cannot be written by it.
func sameShape(a, b []sym.Expr) bool { return slices.EqualFunc(a, b, sym.Expr.Equal) }

// sameCount reports whether two values always have as many elements.
func (l *lowering) sameCount(a, b *ir.Value) bool {
	return l.from.Dims.EQ(sym.Product(a.Type.Shape...), sym.Product(b.Type.Shape...)) == sym.Yes
}

func isResult(b *ir.Block, v *ir.Value) bool {
	for _, r := range b.Results {
		if r == v {
			return true
		}
	}
	return false
}

// deliver copies the results that were not written in place.
func (l *lowering) deliver(b *ir.Block, into []*loop.Buffer, steps *[]loop.Step) error {
	for i, v := range b.Results {
		from, err := l.value(v)
		if err != nil {
			return err
		}
		if from != into[i] {
			*steps = append(*steps, &loop.Copy{To: into[i], From: from})
		}
	}
	return nil
}

// value is the buffer of a value that is computed already, or a constant's.
func (l *lowering) value(v *ir.Value) (*loop.Buffer, error) {
	if b := l.buffers[v]; b != nil {
		return b, nil
	}
	if v.Const == nil {
		panic(fmt.Sprintf("lower: %s is used before it is computed", v.Name))
	}
	b := l.buffer(v.Name, loop.Weight, v.Type, v.Name)
	b.Data = v.Const
	l.buffers[v] = b
	return b, nil
}

func viewOf(n *ir.Node, d *sym.Dims) *ops.View {
	if def := ops.Of(n); def.View != nil {
		return def.View(n, d)
	}
	return nil
}

// block lowers the nodes of a block in order.
func (l *lowering) block(b *ir.Block, steps *[]loop.Step) error {
	l.reserve(b)
	for _, n := range b.Nodes {
		if err := l.from.Ask(); err != nil {
			return err
		}
		if err := l.node(n, steps); err != nil {
			return err
		}
		for _, v := range n.Outputs {
			l.bind(v, n.Source, steps)
		}
	}
	return nil
}

// bind gives the dimensions that a value's elements decide their values.
func (l *lowering) bind(v *ir.Value, source string, steps *[]loop.Step) {
	if !v.Bound {
		return
	}
	for i, x := range v.Known {
		name, _ := x.Name()
		*steps = append(*steps, &loop.Bind{Dim: name, From: l.buffers[v], At: int64(i), Source: source})
	}
}

func (l *lowering) node(n *ir.Node, steps *[]loop.Step) error {
	if structure := structures[n.Op.Name()]; structure != nil {
		return structure(l, n, steps)
	}
	def := ops.Of(n)
	if view := viewOf(n, l.from.Dims); view != nil {
		if l.buffers[n.Outputs[0]] == nil {
			of, err := l.value(n.Inputs[view.Of])
			if err != nil {
				return err
			}
			if l.branches > 0 && view.Whole && !l.sameCount(n.Inputs[view.Of], n.Outputs[0]) {
				// In a run that does not take the branch it may be larger than what it would lie in.
				own := l.buffer(n.Outputs[0].Name, loop.Temp, n.Outputs[0].Type, n.Outputs[0].Name)
				*steps = append(*steps, &loop.Copy{To: own, From: of})
				l.buffers[n.Outputs[0]] = own
				return nil
			}
			part := l.view(n.Outputs[0], of, view)
			if view.Strides != nil {
				// Kernels and views of views expect row-major operands: what is not is gathered.
				whole := l.buffer(part.Source, loop.Temp, n.Outputs[0].Type, part.Source)
				*steps = append(*steps, &loop.Copy{To: whole, From: part})
				part = whole
			}
			l.buffers[n.Outputs[0]] = part
		}
		return nil
	}
	for _, v := range n.Outputs {
		if l.buffers[v] == nil {
			l.buffers[v] = l.buffer(v.Name, loop.Temp, v.Type, v.Name)
		}
	}
	if low := def.LoweringOf(n, l.from.Dims, l.blocks); low != nil {
		return l.launch(n, def, *low, steps)
	}
	if def.Host != "" {
		return l.host(n, def.Host, steps)
	}
	return diag.Unsupportedf("no way to compute it for these types and attributes").AtNode(n.Source, n.Op.Name())
}

// view makes the buffer of a view; a view of a view is a view of what that one lies in, where the elements stay in
// order.
func (l *lowering) view(v *ir.Value, of *loop.Buffer, view *ops.View) *loop.Buffer {
	b := l.buffer(v.Name, loop.Temp, v.Type, v.Name)
	b.View = &loop.View{Of: of, Offset: view.Offset, Strides: view.Strides}
	return b
}

func (l *lowering) launch(n *ir.Node, def *ops.Def, low ops.Lowering, steps *[]loop.Step) error {
	nest := &ops.Nest{Builder: loop.NewBuilder(l.name(n.Op.Name())), D: l.from.Dims}
	step := &loop.Launch{Kernel: nest.Kernel, Source: n.Source}
	nest.Kernel.Source = n.Source
	// A value given twice is one parameter, unless the lowering gives each a shape of its own.
	seen := map[*loop.Buffer]*loop.Memory{}
	for i, v := range n.Inputs {
		if v == nil {
			nest.In = append(nest.In, nil)
			continue
		}
		b, err := l.value(v)
		if err != nil {
			return err
		}
		if i == 0 && low.Onto {
			*steps = append(*steps, &loop.Copy{To: l.buffers[n.Outputs[0]], From: b})
			nest.In = append(nest.In, nil)
			continue
		}
		if seen[b] == nil || low.Apart {
			seen[b] = nest.Param(fmt.Sprintf("x%d", i), loop.Read, v.Type.DType, ops.Settled(l.from.Dims, v.Type.Shape))
			step.Args = append(step.Args, b)
		}
		nest.In = append(nest.In, seen[b])
	}
	for i, v := range n.Outputs {
		access := loop.Write
		if low.Onto {
			access = loop.Update
		}
		nest.Out = append(nest.Out, nest.Param(fmt.Sprintf("y%d", i), access, v.Type.DType,
			ops.Settled(l.from.Dims, v.Type.Shape)))
		step.Args = append(step.Args, l.buffers[v])
	}
	low.Build(nest, n)
	nest.Finish()
	if nest.Kernel.Work = loop.CostOf(nest.Kernel).Operations; def.Work != nil {
		nest.Kernel.Work = def.Work(n)
	}
	l.to.Kernels = append(l.to.Kernels, nest.Kernel)
	*steps = append(*steps, step)
	return nil
}

func (l *lowering) host(n *ir.Node, name string, steps *[]loop.Step) error {
	step := &loop.Host{Op: name, Attrs: n.Attrs, Source: n.Source}
	for _, v := range n.Inputs {
		if v == nil {
			step.In = append(step.In, nil)
			continue
		}
		b, err := l.value(v)
		if err != nil {
			return err
		}
		step.In = append(step.In, b)
	}
	for _, v := range n.Outputs {
		step.Out = append(step.Out, l.buffers[v])
	}
	*steps = append(*steps, step)
	return nil
}

// prune drops the buffers that no step mentions: parameters and results stay.
func (l *lowering) prune() {
	used := map[*loop.Buffer]bool{}
	mark := func(b *loop.Buffer) {
		for ; b != nil; b = viewed(b) {
			used[b] = true
		}
	}
	loop.EachBuffer(l.to.Body, mark)
	kept := l.to.Buffers[:0]
	for _, b := range l.to.Buffers {
		if used[b] || b.Kind == loop.Input || b.Kind == loop.Output {
			kept = append(kept, b)
		}
	}
	l.to.Buffers = kept
}

func viewed(b *loop.Buffer) *loop.Buffer {
	if b.View == nil {
		return nil
	}
	return b.View.Of
}

// scalar is a weight of one element.
func (l *lowering) scalar(hint string, dt dtype.DType, value int64) (*loop.Buffer, error) {
	t, err := tensor.New(dt)
	if err != nil {
		return nil, err
	}
	t.SetInt(0, value)
	b := l.buffer(hint, loop.Weight, ir.Type{DType: dt}, "")
	b.Data = t
	return b, nil
}

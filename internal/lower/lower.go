// Package lower translates ir into loop: each operator becomes one kernel, each value between operators becomes a
// buffer, and steps follow the order of the nodes. Views become buffers inside buffers; If and Loop become steps with
// bodies.
//
// Lower decides nothing about speed: package schedule fuses, tiles and orders.
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

// lowering is the state of one module's translation.
type lowering struct {
	from    *ir.Module
	to      *loop.Module
	buffers map[*ir.Value]*loop.Buffer
	names   map[string]int
	outputs map[*loop.Buffer]bool
	blocks  bool                       // the target machine runs blocks of threads
	rooms   map[*ir.Value]*loop.Buffer // buffers for the rows of scan outputs; see room
	// branches is the number of If branches around the current nodes. The conditions of these nodes hold only in runs
	// that take the branch, but memory is planned for every run.
	branches int
	storages map[string]*loop.Buffer // the memory that the model's program text lays out, by name
}

// For lowers main. If blocks is set, the target machine runs blocks of threads. Parameters become Input buffers and
// results become Output buffers, each in order.
func For(m *ir.Module, blocks bool) (*loop.Module, error) {
	l := &lowering{from: m, blocks: blocks, buffers: map[*ir.Value]*loop.Buffer{}, names: map[string]int{},
		outputs: map[*loop.Buffer]bool{}, rooms: map[*ir.Value]*loop.Buffer{}, storages: map[string]*loop.Buffer{},
		to: &loop.Module{Name: m.Name, Dims: m.Dims, Limits: m.Limits, Choices: slices.Clone(m.Choices), Origins: m.Origins,
			Operators: m.Operators}}
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

// name returns hint, with a number appended if a buffer or kernel already has that name.
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

// buffer adds a buffer to the module. The name is made from hint; source is the model's name for the value.
func (l *lowering) buffer(hint string, kind loop.BufferKind, t ir.Type, source string) *loop.Buffer {
	b := &loop.Buffer{Name: l.name(hint), Kind: kind, DType: t.DType, Shape: t.Shape, Source: source}
	if kind == loop.Temp {
		b.Shape = l.numbered(t.Shape) // so that equal extents have the same expression
	}
	l.to.Buffers = append(l.to.Buffers, b)
	return b
}

// numbered returns shape with each dimension of the model that has a single value replaced by that number. A dimension
// that depends on data keeps its name, which a step binds.
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

// claim lets the node that produces a result of the block write directly into the result's buffer: once for each value,
// and only for values that the block itself computes.
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
			// A reshape's producer writes directly into the reshape's buffer.
			view := viewOf(v.Node, l.from.Dims)
			if view == nil {
				l.buffers[v] = into[i]
				break
			}
			of := v.Node.Inputs[view.Of]
			if view.Strides != nil || !(view.Full && l.branches == 0 && l.settled(into[i])) &&
				l.from.Dims.EQ(sym.Product(of.Type.Shape...), sym.Product(v.Type.Shape...)) != sym.Yes {
				break // a slice of the viewed value
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

// settled reports whether the buffer's shape is known when the run begins.
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

// sameShape reports whether two shapes have the same expressions. If the extents of a buffer are bound after its
// producer ran, the producer cannot write into it.
func sameShape(a, b []sym.Expr) bool { return slices.EqualFunc(a, b, sym.Expr.Equal) }

// sameCount reports whether two values have the same number of elements in every run.
func (l *lowering) sameCount(a, b *ir.Value) bool {
	return l.from.Dims.EQ(sym.Product(a.Type.Shape...), sym.Product(b.Type.Shape...)) == sym.Yes
}

// isResult reports whether v is a result of the block.
func isResult(b *ir.Block, v *ir.Value) bool {
	for _, r := range b.Results {
		if r == v {
			return true
		}
	}
	return false
}

// deliver copies the results that their producers did not write into the result buffers.
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

// value returns the buffer of a computed value; a constant gets a Weight buffer on first use.
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

// viewOf returns the view that a node is, or nil if the node is not a view.
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

// bind binds each dimension that an element of the value decides.
func (l *lowering) bind(v *ir.Value, source string, steps *[]loop.Step) {
	if !v.Bound {
		return
	}
	for i, x := range v.Known {
		name, _ := x.Name()
		*steps = append(*steps, &loop.Bind{Dim: name, From: l.buffers[v], At: int64(i), Source: source})
	}
}

// node lowers one node: to a step with bodies, a view, a kernel launch or a host operator.
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
			if l.branches > 0 && view.Full && !l.sameCount(n.Inputs[view.Of], n.Outputs[0]) {
				// In a run that does not take the branch, the view may be larger than the viewed buffer.
				own := l.buffer(n.Outputs[0].Name, loop.Temp, n.Outputs[0].Type, n.Outputs[0].Name)
				*steps = append(*steps, &loop.Copy{To: own, From: of})
				l.buffers[n.Outputs[0]] = own
				return nil
			}
			made := l.view(n.Outputs[0], of, view)
			if view.Strides != nil {
				// Kernels and views of views expect row-major operands, so a strided view is gathered into a buffer.
				full := l.buffer(made.Source, loop.Temp, n.Outputs[0].Type, made.Source)
				*steps = append(*steps, &loop.Copy{To: full, From: made})
				made = full
			}
			l.buffers[n.Outputs[0]] = made
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

// view makes the buffer of a view of another buffer.
func (l *lowering) view(v *ir.Value, of *loop.Buffer, view *ops.View) *loop.Buffer {
	b := l.buffer(v.Name, loop.Temp, v.Type, v.Name)
	b.View = &loop.View{Of: of, Offset: view.Offset, Strides: view.Strides}
	return b
}

// launch builds the kernel of a node from its lowering, and adds a step that launches it.
func (l *lowering) launch(n *ir.Node, def *ops.Def, low ops.Lowering, steps *[]loop.Step) error {
	nest := &ops.Nest{Builder: loop.NewBuilder(l.name(n.Op.Name())), D: l.from.Dims}
	step := &loop.Launch{Kernel: nest.Kernel, Source: n.Source}
	nest.Kernel.Source = n.Source
	// An input given twice becomes one parameter, unless the lowering gives each occurrence its own shape.
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
		if seen[b] == nil || low.Separate {
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
	if !l.idle(n) {
		low.Lower(nest, n)
	}
	nest.Finish()
	if nest.Kernel.Work = loop.CostOf(nest.Kernel).Operations; def.Work != nil {
		nest.Kernel.Work = def.Work(n)
	}
	l.to.Kernels = append(l.to.Kernels, nest.Kernel)
	*steps = append(*steps, step)
	return nil
}

// idle reports whether a node writes nothing, whatever the run's dimensions are: an extent of each result is 0.
func (l *lowering) idle(n *ir.Node) bool {
	return !slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool {
		return !slices.ContainsFunc(l.numbered(v.Type.Shape), func(e sym.Expr) bool { return e.Equal(sym.Expr{}) })
	})
}

// host adds a step that runs the node by the host operator of that name.
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

// prune drops each temporary and each weight that no step mentions.
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

// viewed returns the buffer that b is a view of, or nil if b is not a view.
func viewed(b *loop.Buffer) *loop.Buffer {
	if b.View == nil {
		return nil
	}
	return b.View.Of
}

// scalar makes a weight with one element.
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

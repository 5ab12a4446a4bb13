package lower

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// structures are the operators that become steps rather than kernels.
var structures map[string]func(l *lowering, n *ir.Node, steps *[]loop.Step) error

func init() {
	structures = map[string]func(l *lowering, n *ir.Node, steps *[]loop.Step) error{"if": (*lowering).branch, "loop": (*lowering).loop}
}

// branch lowers If: both bodies write the same result buffers. A dimension that the branches decide is bound by each.
func (l *lowering) branch(n *ir.Node, steps *[]loop.Step) error {
	cond, err := l.value(n.Inputs[0])
	if err != nil {
		return err
	}
	step := &loop.If{Cond: cond, Source: n.Source}
	out := make([]*loop.Buffer, len(n.Outputs))
	for i, v := range n.Outputs {
		if l.buffers[v] == nil {
			l.buffers[v] = l.buffer(v.Name, loop.Temp, v.Type, v.Name)
		}
		out[i] = l.buffers[v]
	}
	for i, body := range []*[]loop.Step{&step.Then, &step.Else} {
		region := n.Regions[i]
		l.claim(region, out)
		if err := l.block(region, body); err != nil {
			return err
		}
		for j, v := range region.Results {
			l.bindShape(n.Outputs[j].Type.Shape, v.Type.Shape, n.Source, body)
		}
		if err := l.deliver(region, out, body); err != nil {
			return err
		}
	}
	*steps = append(*steps, step)
	return nil
}

// bindShape binds the dimensions that stand alone in a shape to what they are here.
func (l *lowering) bindShape(shape, is []sym.Expr, source string, steps *[]loop.Step) {
	for axis, extent := range shape {
		name, ok := extent.Name()
		if _, decided := l.from.Limits[name]; ok && decided && !extent.Equal(is[axis]) {
			*steps = append(*steps, &loop.Bind{Dim: name, Value: is[axis], Source: source})
		}
	}
}

// loop lowers Loop. Inputs: trip (may be absent), condition (may be absent), then the carried values; the body takes the iteration's number,
// the condition, the carried values, and yields the condition, the carried values, and one slice for each scan output. A carried value has one buffer,
// which the body's new value is copied to when the body has ended; a slice is copied to its place in the whole.
func (l *lowering) loop(n *ir.Node, steps *[]loop.Step) error {
	body := n.Regions[0]
	carried := len(n.Inputs) - 2
	step := &loop.Loop{Source: n.Source, Count: n.Attrs.String("count", "")}
	var err error
	if n.Inputs[0] != nil {
		if step.Trip, err = l.value(n.Inputs[0]); err != nil {
			return err
		}
	}
	step.Index = l.buffer(body.Params[0].Name, loop.Temp, body.Params[0].Type, "")
	l.buffers[body.Params[0]] = step.Index
	step.Cond = l.buffer(body.Params[1].Name, loop.Temp, ir.Type{DType: dtype.Bool}, "")
	l.buffers[body.Params[1]] = step.Cond
	var first *loop.Buffer
	if n.Inputs[1] != nil {
		first, err = l.value(n.Inputs[1])
	} else {
		first, err = l.scalar("true", dtype.Bool, 1)
	}
	if err != nil {
		return err
	}
	*steps = append(*steps, &loop.Copy{To: step.Cond, From: first})
	states := make([]*loop.Buffer, carried)
	for i := range states {
		v := n.Outputs[i]
		if l.buffers[v] == nil {
			l.buffers[v] = l.buffer(v.Name, loop.Temp, v.Type, v.Name)
		}
		states[i] = l.buffers[v]
		l.buffers[body.Params[2+i]] = states[i]
		init, err := l.value(n.Inputs[2+i])
		if err != nil {
			return err
		}
		*steps = append(*steps, &loop.Copy{To: states[i], From: init})
	}
	iteration, _ := body.Params[0].Known[0].Name()
	step.Body = append(step.Body, &loop.Bind{Dim: iteration, From: step.Index, Source: n.Source})
	if err := l.block(body, &step.Body); err != nil {
		return err
	}
	var next []loop.Step
	for i, v := range body.Results {
		from, err := l.value(v)
		if err != nil {
			return err
		}
		switch {
		case i == 0:
			next = append(next, &loop.Copy{To: step.Cond, From: from})
		case i <= carried:
			if from == states[i-1] {
				continue
			}
			if l.isState(from, states) {
				// It reads a state that another copy may overwrite first: it gets a place of its own.
				own := l.buffer(v.Name, loop.Temp, v.Type, v.Name)
				step.Body = append(step.Body, &loop.Copy{To: own, From: from})
				from = own
			}
			next = append(next, &loop.Copy{To: states[i-1], From: from})
		default:
			whole := n.Outputs[i-1]
			if l.buffers[whole] == nil {
				l.buffers[whole] = l.buffer(whole.Name, loop.Temp, whole.Type, whole.Name)
			}
			slot := l.buffer(v.Name+".slot", loop.Temp, v.Type, v.Name)
			slot.View = &loop.View{Of: l.buffers[whole], Offset: sym.Var(iteration).Mul(sym.Product(v.Type.Shape...))}
			// Before the states change: the row may be what a state was.
			step.Body = append(step.Body, &loop.Copy{To: slot, From: from})
		}
	}
	step.Body = append(step.Body, next...)
	*steps = append(*steps, step)
	return nil
}

// isState reports whether a buffer lies in one of the states.
func (l *lowering) isState(b *loop.Buffer, states []*loop.Buffer) bool {
	for ; b != nil; b = viewed(b) {
		for _, s := range states {
			if b == s {
				return true
			}
		}
	}
	return false
}

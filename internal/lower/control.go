package lower

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// structures are the operators that become steps with bodies or copies, rather than kernels. They are listed here by
// name, rather than by a property of operators, since each has a translation of its own that no other room needs.
var structures map[string]func(l *lowering, n *ir.Node, steps *[]loop.Step) error

// init fills structures: a literal would make an initialization cycle.
func init() {
	structures = map[string]func(l *lowering, n *ir.Node, steps *[]loop.Step) error{"if": (*lowering).branch,
		"loop":     (*lowering).loop,
		ir.PlaceOp: (*lowering).place}
}

// branch lowers If: both bodies write the same result buffers, and each binds the dimensions that the branches decide.
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
	l.branches++
	defer func() { l.branches-- }()
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

// bindShape binds each dimension that is an entire extent of shape to the corresponding extent of is.
func (l *lowering) bindShape(shape, is []sym.Expr, source string, steps *[]loop.Step) {
	for axis, extent := range shape {
		if name, ok := l.changed(extent, is[axis]); ok {
			*steps = append(*steps, &loop.Bind{Dim: name, Value: is[axis], Source: source})
		}
	}
}

// loop lowers Loop. Its inputs are the trip count and the condition, each of which may be absent, and the carried
// values. The body takes the iteration number, the condition and the carried values; it yields the condition, the
// carried values, and one slice for each scan output. A carried value has one buffer, into which the body's new value
// is copied at the end of the body; a slice is copied to its position in the scan output. For carried values whose
// extents vary, see varies.
func (l *lowering) loop(n *ir.Node, steps *[]loop.Step) error {
	body := n.Regions[0]
	carried := len(n.Inputs) - 2
	step := &loop.Loop{Source: n.Source}
	step.Count, _ = sym.ParseName(n.Attrs.String("count", ""))
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
	l.rows(n, steps, &step.Body)
	iteration, _ := body.Params[0].Known[0].Name()
	step.Body = append(step.Body, &loop.Bind{Dim: iteration, From: step.Index, Source: n.Source})
	states := make([]*loop.Buffer, carried)
	between := map[sym.Name]sym.Name{}
	for i := range states {
		if states[i], err = l.state(n, i, steps, &step.Body); err != nil {
			return err
		}
		l.bind(body.Params[2+i], n.Source, &step.Body)
		for axis, e := range states[i].Shape {
			next, _ := e.Name()
			if name, ok := l.changed(body.Params[2+i].Type.Shape[axis], e); ok {
				between[name] = next
			}
		}
	}
	for _, c := range l.from.Choices {
		if c, ok := c.Renamed(between); ok {
			l.to.Choices = append(l.to.Choices, c)
		}
	}
	if err := l.block(body, &step.Body); err != nil {
		return err
	}
	var after []loop.Step
	for i, v := range body.Results[min(1+carried, len(body.Results)):] {
		copied, err := l.room(n, n.Outputs[carried+i])
		if err != nil {
			return err
		}
		after = append(after, copied...)
		offset := sym.Var(iteration).Mul(sym.Product(v.Type.Shape...))
		if at := n.Attrs.Exprs("at"); at != nil {
			offset = at[i].Mul(sym.Product(v.Type.Shape[1:]...))
		}
		if dt := v.Type.DType; dt.IsSubByte() {
			if within := offset.Mod(sym.Const(int64(8 / dt.Bits()))); l.from.Dims.EQ(within, sym.Const(0)) != sym.Yes {
				return diag.Unsupportedf("rows of %s, which begin within a byte", v.Type).AtNode(n.Source, "Loop").
					AtTensor(n.Outputs[carried+i].Name)
			}
		}
		if err := l.row(n.Outputs[carried+i], v, offset, n.Source, &step.Body); err != nil {
			return err
		}
	}
	if err := l.next(n, states, step); err != nil {
		return err
	}
	*steps = append(append(*steps, step), after...)
	ends := ops.NamesAttr(n, "ends")
	for i, v := range n.Outputs[:carried] {
		if l.varies(n, i) {
			for axis, extent := range v.Type.Shape {
				if name, ok := extent.Name(); ok && slices.Contains(ends, name) {
					*steps = append(*steps, &loop.Bind{Dim: name, Value: states[i].Shape[axis], Source: n.Source})
				}
			}
			if l.buffers[v] == nil {
				l.buffers[v] = l.buffer(v.Name, loop.Temp, v.Type, v.Name)
			}
			*steps = append(*steps, &loop.Copy{To: l.buffers[v], From: states[i]})
		}
	}
	return nil
}

// varies reports whether the extents of the i-th carried value change from one iteration to the next. Such an extent
// has three dimensions: one in the body, one after the loop, and one between two iterations. Each is bound before a
// buffer of its size is touched, and does not change while such a buffer is in use.
func (l *lowering) varies(n *ir.Node, i int) bool {
	param, end := n.Regions[0].Params[2+i].Type.Shape, n.Outputs[i].Type.Shape
	for axis := range param {
		if _, ok := l.changed(param[axis], end[axis]); ok {
			return true
		}
	}
	return false
}

// changed returns the name of an extent if a step must bind that dimension to the value is. A dimension of the model
// with a single value may be written by its name or as that number: it needs no step.
func (l *lowering) changed(extent, is sym.Expr) (name sym.Name, ok bool) {
	name, ok = extent.Name()
	_, decided := l.from.Limits[name]
	return name, ok && decided && !extent.Equal(is)
}

// state makes the buffer of a carried value, initializes it, and makes the buffer by which the body reads it.
func (l *lowering) state(n *ir.Node, i int, steps, body *[]loop.Step) (*loop.Buffer, error) {
	v, param := n.Outputs[i], n.Regions[0].Params[2+i]
	init, err := l.value(n.Inputs[2+i])
	if err != nil {
		return nil, err
	}
	if !l.varies(n, i) {
		if l.buffers[v] == nil {
			l.buffers[v] = l.buffer(v.Name, loop.Temp, v.Type, v.Name)
		}
		l.buffers[param] = l.buffers[v]
		*steps = append(*steps, &loop.Copy{To: l.buffers[v], From: init})
		return l.buffers[v], nil
	}
	between := ir.Type{DType: v.Type.DType, Shape: slices.Clone(param.Type.Shape)}
	for axis, end := range v.Type.Shape {
		if name, ok := l.changed(param.Type.Shape[axis], end); ok {
			between.Shape[axis] = l.like(name, ".next")
		}
	}
	state := l.buffer(v.Name+".next", loop.Temp, between, v.Name)
	l.bindShape(between.Shape, n.Inputs[2+i].Type.Shape, n.Source, steps)
	*steps = append(*steps, &loop.Copy{To: state, From: init})
	l.buffers[param] = l.buffer(param.Name, loop.Temp, param.Type, v.Name)
	l.bindShape(param.Type.Shape, between.Shape, n.Source, body)
	*body = append(*body, &loop.Copy{To: l.buffers[param], From: state})
	return state, nil
}

// like adds a dimension with the range and the limit of another, named after it and role.
func (l *lowering) like(name sym.Name, role string) sym.Expr {
	r, _ := l.to.Dims.Get(name)
	made := sym.Made(name.Text() + role)
	for _, taken := l.to.Dims.Get(made); taken; _, taken = l.to.Dims.Get(made) {
		made = sym.Made(made.Text() + role)
	}
	l.to.Dims.Set(made, r)
	l.to.Limits[made] = l.to.Limits[name]
	if origin := l.to.Origins[name]; origin != "" {
		l.to.Origins[made] = origin
	}
	return sym.Var(made)
}

// rows prepares the dimensions of scan slices whose size is found in the body: they are 0 before the first iteration,
// and all iterations must agree.
func (l *lowering) rows(n *ir.Node, steps, body *[]loop.Step) {
	names := ops.NamesAttr(n, "rows")
	iteration := n.Regions[0].Params[0].Known[0]
	for _, name := range names {
		before, row := l.like(name, ".before"), sym.Var(name)
		kept, _ := before.Name()
		*steps = append(*steps, &loop.Bind{Dim: kept, Value: sym.Const(0), Source: n.Source},
			&loop.Bind{Dim: name, Value: sym.Const(0), Source: n.Source})
		*body = append(*body, &loop.Bind{Dim: kept, Value: row, Source: n.Source})
		same := sym.Cond{A: row.Sub(before).Mul(iteration.Min(sym.Const(1))), Rel: sym.EQ, B: sym.Const(0)}
		l.to.Requires = append(l.to.Requires, loop.Require{Cond: same,
			From: n.Source + " (loop): the slices of a scan output have the same shape"})
	}
}

// room prepares a scan output of a Loop whose number of iterations is known only at its end and has no bound. A buffer
// cannot change its size while it is in use, so the rows are written to a buffer for as many rows as the trip count
// allows; the returned steps copy the rows that were made to the output after the loop. The result is empty if the
// output needs no such buffer.
func (l *lowering) room(n *ir.Node, output *ir.Value) ([]loop.Step, error) {
	_, counted := sym.ParseName(n.Attrs.String("count", ""))
	unlimited := func(e sym.Expr) bool {
		return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { return sym.IsUnlimited(l.from.Limits[name]) })
	}
	if !counted || !slices.ContainsFunc(output.Type.Shape, unlimited) {
		return nil, nil
	}
	rows := ops.NamesAttr(n, "rows")
	trip := n.Inputs[0]
	if trip == nil || len(trip.Known) != 1 || slices.ContainsFunc(output.Type.Shape[1:], func(e sym.Expr) bool {
		return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool {
			return slices.Contains(rows, name) && sym.IsUnlimited(l.from.Limits[name])
		})
	}) {
		return nil, diag.Unsupportedf("a scan output of %s: neither the size nor the number of its rows has a bound",
			output.Type).AtNode(n.Source, "Loop").AtTensor(output.Name)
	}
	if l.buffers[output] == nil {
		l.buffers[output] = l.buffer(output.Name, loop.Temp, output.Type, output.Name)
	}
	most := slices.Clone(output.Type.Shape)
	most[0] = trip.Known[0].Max(sym.Const(0))
	l.rooms[output] = l.buffer(output.Name+".rows", loop.Temp, ir.Type{DType: output.Type.DType, Shape: most}, output.Name)
	made := l.buffer(output.Name+".made", loop.Temp, output.Type, output.Name)
	made.View = &loop.View{Of: l.rooms[output]}
	return []loop.Step{&loop.Copy{To: l.buffers[output], From: made}}, nil
}

// row copies an iteration's slice to its position in the scan output. It does so before the states change, since the
// slice may be a state's old value. A scan output that always has 0 rows needs no copy.
func (l *lowering) row(output, v *ir.Value, offset sym.Expr, source string, steps *[]loop.Step) error {
	from, err := l.value(v)
	if err != nil {
		return err
	}
	if l.buffers[output] == nil {
		l.buffers[output] = l.buffer(output.Name, loop.Temp, output.Type, output.Name)
	}
	room := l.buffers[output]
	if own := l.rooms[output]; own != nil {
		room = own
	}
	count := output.Type.Shape[0]
	if l.from.Dims.EQ(count, sym.Const(0)) == sym.Yes {
		return nil
	}
	row := v.Type.Shape
	if len(row) == len(output.Type.Shape) { // some rows at once
		row = row[1:]
	}
	l.bindShape(output.Type.Shape[1:], row, source, steps)
	slot := l.buffer(v.Name+".slot", loop.Temp, v.Type, v.Name)
	if some := l.from.Dims.Simplify(count.Min(sym.Const(1))); !some.Equal(sym.Const(1)) {
		slot.Shape = append([]sym.Expr{some}, v.Type.Shape...)
	}
	slot.View = &loop.View{Of: room, Offset: offset}
	*steps = append(*steps, &loop.Copy{To: slot, From: from})
	return nil
}

// next ends a body: it copies the condition and the states that the body yields to their buffers.
func (l *lowering) next(n *ir.Node, states []*loop.Buffer, step *loop.Loop) error {
	results := n.Regions[0].Results
	from, err := l.value(results[0])
	if err != nil {
		return err
	}
	next := []loop.Step{&loop.Copy{To: step.Cond, From: from}}
	for i, v := range results[1:][:len(states)] {
		if from, err = l.value(v); err != nil {
			return err
		}
		if from == states[i] {
			continue
		}
		if l.varies(n, i) {
			l.bindShape(states[i].Shape, v.Type.Shape, n.Source, &next)
		}
		if l.isState(from, states) {
			// It reads a state that another copy may overwrite first, so it gets its own buffer.
			own := l.buffer(v.Name, loop.Temp, v.Type, v.Name)
			step.Body = append(step.Body, &loop.Copy{To: own, From: from})
			from = own
		}
		next = append(next, &loop.Copy{To: states[i], From: from})
	}
	step.Body = append(step.Body, next...)
	return nil
}

// isState reports whether a buffer is one of the states, or a view of one.
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

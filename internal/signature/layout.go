package signature

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/strided"
	"github.com/weirml/weir/internal/sym"
)

// Lay gives inputs layouts: layouts maps their names to orders of axes, in the syntax of weir.Layout. The module's
// parameter for such an input becomes a tensor in the order of the memory, and nodes (slice, transpose, expand) compute
// the input from it. Kernels read through these nodes if they can.
func (s *Signature) Lay(module *ir.Module, layouts map[string]string) (err error) {
	defer ir.Catch(&err)
	var repeated []*ir.Value
	for _, name := range slices.Sorted(maps.Keys(layouts)) {
		i, is := s.Input(name)
		if !is {
			return s.NoInput(name)
		}
		edge := &s.Inputs[i]
		old := module.Main.Body.Params[edge.Parts[0]]
		if err := mayLay(module, edge.Info, old); err != nil {
			return err
		}
		order, err := strided.Parse(layouts[name], len(old.Type.Shape))
		if err != nil {
			return diag.As(err, diag.ErrInput).AtTensor(name)
		}
		if slices.Equal(order, strided.RowMajor(len(order))) {
			continue
		}
		layMemory(module, edge.Parts[0], order)
		edge.Info.Layout = order.String()
		if slices.ContainsFunc(order, func(a strided.OrderedAxis) bool { return a.Repeated }) {
			repeated = append(repeated, old)
		}
	}
	for _, v := range repeated {
		if err := stillBound(module, v); err != nil {
			return err
		}
	}
	return nil
}

// mayLay returns an error if an input, whose value is v, cannot have a layout.
func mayLay(module *ir.Module, info Info, v *ir.Value) error {
	switch {
	case !info.Simple():
		return diag.Unsupportedf("a layout of %s, which is no tensor of numbers", info).AtTensor(info.Name)
	case info.DType.IsSubByte():
		return diag.Unsupportedf("a layout of %s, whose elements are packed", info).AtTensor(info.Name)
	case v.Bound || v.Known != nil:
		return diag.Unsupportedf("a layout of %s, whose elements are dimensions", info).AtTensor(info.Name)
	case slices.ContainsFunc(module.Main.States, func(s ir.State) bool { return s.In == v }):
		return diag.Unsupportedf("a layout of %s, which is a state", info).AtTensor(info.Name).
			WithFix("a state lies in row-major order")
	}
	return nil
}

// layMemory replaces the parameter of a port by a tensor in the order of its memory, and computes the old value from
// it.
func layMemory(module *ir.Module, port int, order strided.Order) {
	body := module.Main.Body
	old, front := body.Params[port], &ir.Block{}
	b := ir.NewBuilder(ir.NewInference(module), front)
	shape := strided.Laid(old.Type.Shape, order, sym.Const(1))
	memory := &ir.Value{Name: b.Name(old.Name + laidSuffix), Type: ir.Type{DType: old.Type.DType, Shape: shape}}
	v := memory
	if slices.ContainsFunc(order, func(a strided.OrderedAxis) bool { return a.Reversed }) {
		begin, step := make([]sym.Expr, len(order)), make([]int64, len(order))
		for i, a := range order {
			if begin[i], step[i] = sym.Const(0), 1; a.Reversed {
				begin[i], step[i] = shape[i].Sub(sym.Const(1)), -1
			}
		}
		v = ops.Slice(b, v, begin, shape, step)
	}
	perm := make([]int64, len(order))
	for i, a := range order {
		perm[a.Axis] = int64(i)
	}
	if !slices.IsSorted(perm) {
		v = ops.Transpose(b, v, perm...)
	}
	if slices.ContainsFunc(order, func(a strided.OrderedAxis) bool { return a.Repeated }) {
		v = ops.Expand(b, v, old.Type.Shape...)
	}
	memory.TakeName(old)
	v.Node.Outputs[0], old.Node = old, v.Node
	body.Params[port] = memory
	body.Nodes, body.Consts = append(front.Nodes, body.Nodes...), append(body.Consts, front.Consts...)
}

// stillBound returns an error unless the parameters' shapes still determine all dimensions of v, the value of an input
// whose layout repeats axes.
func stillBound(module *ir.Module, v *ir.Value) error {
	told := map[sym.Name]bool{}
	for _, param := range module.Main.Body.Params {
		for _, e := range param.Type.Shape {
			if name, ok := e.Name(); ok {
				told[name] = true
			}
		}
	}
	for _, e := range v.Type.Shape {
		for _, name := range e.Vars() {
			if !told[name] {
				return diag.Unsupportedf("a layout with which no input determines the dimension %s", name.Text()).AtTensor(v.Name).
					AtDim(name.Text()).
					WithFix("leave out the layout: the argument is copied for the run")
			}
		}
	}
	return nil
}

// Copied reports whether a program copies an input with a layout into row-major order when a run begins, since some
// kernel cannot read it in place.
func Copied(p *program.Program, info Info) bool {
	for t := range p.Tensors {
		root := &p.Tensors[p.Root(t)]
		if p.Tensors[t].Source == info.Name+laidSuffix && root.Class == program.Carved &&
			p.Storages[root.Of].Kind == program.Arena {
			return true
		}
	}
	return false
}

// laidSuffix is the end of the name of an input in row-major order, if the input has a layout. The tensor in the order
// of the memory has the input's own name.
const laidSuffix = ".laid"

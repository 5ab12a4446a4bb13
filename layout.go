package weir

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

// Layout is the order of an input's axes in memory, from the outermost to the innermost, separated by commas: "0,2,3,1"
// is an image with adjacent channels, "1,0" a transposed matrix. An axis with "-" is reversed: its last element comes
// first. An axis with "*" repeats a single element, with a stride of 0. There are no gaps between elements. The empty
// layout is row-major order. See Options.Layouts.
type Layout string

// LayoutOf returns the layout of memory with these strides, in elements. Memory with gaps, such as every second column
// of a matrix, and memory that overlaps other than by strides of 0, is ErrUnsupported. The stride of an axis with one
// element only determines the position of the axis.
func LayoutOf(shape, strides []int) (Layout, error) {
	if len(shape) != len(strides) {
		return "", diag.Inputf("%d strides of %d axes", len(strides), len(shape))
	}
	order, err := strided.OrderOf(sizesOf(shape), sizesOf(strides))
	return Layout(order.String()), err
}

// axes parses a layout of rank axes.
func (l Layout) axes(rank int) (strided.Order, error) { return strided.Parse(string(l), rank) }

// lay gives inputs the layouts of Options.Layouts. The module's parameter becomes the memory; nodes after it turn the
// memory into the input, and kernels read through them if they can.
func (p *Program) lay(module *ir.Module, layouts map[string]Layout) (err error) {
	defer ir.Catch(&err)
	var repeated []*ir.Value
	for _, name := range slices.Sorted(maps.Keys(layouts)) {
		i, is := p.input(name)
		if !is {
			return p.noInput(name)
		}
		old := module.Main.Body.Params[p.takes[i].Parts[0]]
		if err := p.mayLay(module, i, old); err != nil {
			return err
		}
		order, err := layouts[name].axes(len(old.Type.Shape))
		if err != nil {
			return diag.As(err, ErrInput).AtTensor(name)
		}
		if slices.Equal(order, strided.RowMajor(len(order))) {
			continue
		}
		layMemory(module, p.takes[i].Parts[0], order)
		l := Layout(order.String())
		p.takes[i].Info.Layout, p.inputs[i].Layout = l, l
		if slices.ContainsFunc(order, func(a strided.Place) bool { return a.Once }) {
			repeated = append(repeated, old)
		}
	}
	for _, v := range repeated {
		if err := p.stillBound(module, v); err != nil {
			return err
		}
	}
	return nil
}

// mayLay returns an error if input i cannot have a layout.
func (p *Program) mayLay(module *ir.Module, i int, v *ir.Value) error {
	info := p.inputs[i]
	switch {
	case !info.simple():
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

// layMemory makes the parameter of a port a tensor in the order of its memory, and computes the old value from it.
func layMemory(module *ir.Module, port int, order strided.Order) {
	body := module.Main.Body
	old, front := body.Params[port], &ir.Block{}
	b := ir.NewBuilder(ir.NewInference(module), front)
	shape := strided.Laid(old.Type.Shape, order, sym.Const(1))
	memory := &ir.Value{Name: b.Name(old.Name + laidSuffix), Type: ir.Type{DType: old.Type.DType, Shape: shape}}
	v := memory
	if slices.ContainsFunc(order, func(a strided.Place) bool { return a.Back }) {
		begin, step := make([]sym.Expr, len(order)), make([]int64, len(order))
		for i, a := range order {
			if begin[i], step[i] = sym.Const(0), 1; a.Back {
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
	if slices.ContainsFunc(order, func(a strided.Place) bool { return a.Once }) {
		v = ops.Expand(b, v, old.Type.Shape...)
	}
	memory.TakeName(old)
	v.Node.Outputs[0], old.Node = old, v.Node
	body.Params[port] = memory
	body.Nodes, body.Consts = append(front.Nodes, body.Nodes...), append(body.Consts, front.Consts...)
}

// stillBound returns an error unless other inputs determine the dimensions of axes with "*".
func (p *Program) stillBound(module *ir.Module, v *ir.Value) error {
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
				return diag.Unsupportedf("a layout in which no input tells the dimension %s", name.Text()).AtTensor(v.Name).
					AtDim(name.Text()).
					WithFix("leave out the layout: the argument is copied for the run")
			}
		}
	}
	return nil
}

// Laid is an input that Options.Layouts declared.
type Laid struct {
	Input  string
	Layout Layout
	// Copied reports whether some kernel cannot read the input in place: a run then makes a copy in row-major order, of
	// Bytes bytes of the arena.
	Copied bool
	Bytes  Size
}

// Laid lists the inputs with layouts by Options.Layouts, in the order of the inputs.
func (p *Program) Laid() (list []Laid) {
	prog := p.compiled.Program
	for i, info := range p.inputs {
		if info.Layout == "" {
			continue
		}
		port := prog.Inputs[p.takes[i].Parts[0]]
		l := Laid{Input: info.Name, Layout: info.Layout,
			Bytes: Size{p.memory.Arena.dims.Simplify(p.labels.Show(prog.Tensors[port.Tensor].Bytes())), p.memory.Arena.dims}}
		for t := range prog.Tensors {
			root := &prog.Tensors[prog.Root(t)]
			if prog.Tensors[t].Source == info.Name+laidSuffix && root.Class == program.Carved &&
				prog.Storages[root.Of].Kind == program.Arena {
				l.Copied = true
			}
		}
		list = append(list, l)
	}
	return list
}

// laidSuffix is appended to the name of an input's memory, to name the input in row-major order.
const laidSuffix = ".laid"

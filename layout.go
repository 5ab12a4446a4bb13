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

// Layout says how the elements of an input lie in memory: its axes, from the outermost to the innermost, with commas.
// "0,2,3,1" is an image whose channels lie side by side; "1,0" is a transposed matrix. An axis followed by "-" runs
// backwards: its last element lies first. One followed by "*" repeats a single element, by a stride of 0. There are no
// gaps between elements. The empty layout is row-major order. See Options.Layouts.
type Layout string

// LayoutOf returns the layout of memory whose elements lie so many elements apart along each axis. Memory with gaps, as
// every second column of a matrix, has none, nor has memory that overlaps otherwise than by strides of 0:
// ErrUnsupported. The stride of an axis of one element says only where the axis belongs.
func LayoutOf(shape, strides []int) (Layout, error) {
	if len(shape) != len(strides) {
		return "", diag.Inputf("%d strides of %d axes", len(strides), len(shape))
	}
	order, err := strided.OrderOf(sizesOf(shape), sizesOf(strides))
	return Layout(order.String()), err
}

// axes reads a layout of so many axes.
func (l Layout) axes(rank int) (strided.Order, error) { return strided.Parse(string(l), rank) }

// lay has inputs lie in memory as layouts say. The module's parameter is the memory; what turns it into the input
// follows as nodes, which kernels that can read through.
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

// mayLay refuses inputs that have no layout of their own.
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

// layMemory makes a parameter memory in an order of axes, and the old value what nodes make of it.
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

// stillBound checks that inputs tell the dimensions of one that is there once along them.
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
	// Copied: no kernel reads the input where it lies, or not all do: a run makes a copy in row-major order, which is a
	// part of the arena, of so many bytes.
	Copied bool
	Bytes  Size
}

// Laid lists the inputs that lie in memory as Options.Layouts says, in the order of the inputs.
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
			if prog.Tensors[t].Source == info.Name+laidSuffix && root.Place == program.Carved &&
				prog.Storages[root.Of].Kind == program.Arena {
				l.Copied = true
			}
		}
		list = append(list, l)
	}
	return list
}

// laidSuffix is what the name of an input in row-major order ends in, after that of its memory.
const laidSuffix = ".laid"

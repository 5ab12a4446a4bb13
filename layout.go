package weir

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
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
	sizes, steps, order := sizesOf(shape), sizesOf(strides), rowMajor(len(shape))
	if slices.Contains(sizes, 0) || lies(sizes, steps, order) {
		return "", nil
	}
	far := func(axis int) uint64 { // a stride of 0 is outside of all others: its axis has one element
		if steps[axis] == 0 {
			return math.MaxUint64
		}
		return magnitude(steps[axis])
	}
	slices.SortStableFunc(order, func(a, b axisPlace) int { return cmp.Compare(far(b.axis), far(a.axis)) })
	for i, a := range order {
		order[i].back, order[i].once = sizes[a.axis] > 1 && steps[a.axis] < 0, sizes[a.axis] > 1 && steps[a.axis] == 0
	}
	if !lies(sizes, steps, order) {
		return "", diag.Unsupportedf("a layout of the extents %v with the strides %v, between which there are gaps, or elements in common", shape, strides).
			WithFix("leave it out: the argument is copied for the run")
	}
	return layoutOf(order), nil
}

// axisPlace is an axis in a layout.
type axisPlace struct {
	axis int
	back bool // it runs backwards
	once bool // all its elements are one
}

// rowMajor is the order of axes of memory in row-major order.
func rowMajor(rank int) []axisPlace {
	order := make([]axisPlace, rank)
	for axis := range order {
		order[axis].axis = axis
	}
	return order
}

// layoutOf is the text of an order of axes.
func layoutOf(order []axisPlace) Layout {
	list := make([]string, len(order))
	for i, a := range order {
		list[i] = strconv.Itoa(a.axis)
		switch {
		case a.back:
			list[i] += "-"
		case a.once:
			list[i] += "*"
		}
	}
	return Layout(strings.Join(list, ","))
}

// axes reads a layout of so many axes.
func (l Layout) axes(rank int) ([]axisPlace, error) {
	if l == "" {
		return rowMajor(rank), nil
	}
	var order []axisPlace
	for word := range strings.SplitSeq(string(l), ",") {
		word = strings.TrimSpace(word)
		number := strings.TrimRight(word, "-*")
		axis, err := strconv.Atoi(number)
		mark := word[len(number):]
		if err != nil || axis < 0 || axis >= rank || len(mark) > 1 || slices.ContainsFunc(order, func(a axisPlace) bool { return a.axis == axis }) {
			return nil, diag.Inputf("layout %q: %q is no axis of %d, or stands there twice", string(l), word, rank).
				WithFix("name each axis once, from the outermost in memory to the innermost, as %q", string(layoutOf(rowMajor(rank))))
		}
		order = append(order, axisPlace{axis, mark == "-", mark == "*"})
	}
	if len(order) != rank {
		return nil, diag.Inputf("layout %q names %d axes of %d", string(l), len(order), rank)
	}
	return order, nil
}

// lies reports whether elements of a shape, which has some, that lie so far apart lie in an order of axes. Nil strides
// are row-major.
func lies(sizes, steps []int64, order []axisPlace) bool {
	if steps == nil {
		return slices.Equal(order, rowMajor(len(sizes))) || lies(sizes, tensor.Strides(sizes), order)
	}
	want := int64(1)
	for _, a := range slices.Backward(order) {
		size, step := sizes[a.axis], steps[a.axis]
		switch {
		case size == 1:
		case a.once:
			if step != 0 {
				return false
			}
		case a.back && step != -want || !a.back && step != want:
			return false
		default:
			want *= size
		}
	}
	return true
}

// laid is a shape as memory in an order of axes has it.
func laid[T any](shape []T, order []axisPlace, one T) []T {
	out := make([]T, len(order))
	for i, a := range order {
		if out[i] = shape[a.axis]; a.once {
			out[i] = one
		}
	}
	return out
}

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
		if slices.Equal(order, rowMajor(len(order))) {
			continue
		}
		layMemory(module, p.takes[i].Parts[0], order)
		p.takes[i].Info.Layout, p.inputs[i].Layout = layoutOf(order), layoutOf(order)
		if slices.ContainsFunc(order, func(a axisPlace) bool { return a.once }) {
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
		return diag.Unsupportedf("a layout of %s, which is a state", info).AtTensor(info.Name).WithFix("a state lies in row-major order")
	}
	return nil
}

// layMemory makes a parameter memory in an order of axes, and the old value what nodes make of it.
func layMemory(module *ir.Module, port int, order []axisPlace) {
	body := module.Main.Body
	old, front := body.Params[port], &ir.Block{}
	b := ir.NewBuilder(ir.NewInference(module), front)
	shape := laid(old.Type.Shape, order, sym.Const(1))
	memory := &ir.Value{Name: b.Name(old.Name + laidSuffix), Type: ir.Type{DType: old.Type.DType, Shape: shape}}
	v := memory
	if slices.ContainsFunc(order, func(a axisPlace) bool { return a.back }) {
		begin, step := make([]sym.Expr, len(order)), make([]int64, len(order))
		for i, a := range order {
			if begin[i], step[i] = sym.Const(0), 1; a.back {
				begin[i], step[i] = shape[i].Sub(sym.Const(1)), -1
			}
		}
		v = ops.Slice(b, v, begin, shape, step)
	}
	perm := make([]int64, len(order))
	for i, a := range order {
		perm[a.axis] = int64(i)
	}
	if !slices.IsSorted(perm) {
		v = ops.Transpose(b, v, perm...)
	}
	if slices.ContainsFunc(order, func(a axisPlace) bool { return a.once }) {
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
				return diag.Unsupportedf("a layout in which no input tells the dimension %s", name.Text()).AtTensor(v.Name).AtDim(name.Text()).
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
		l := Laid{Input: info.Name, Layout: info.Layout, Bytes: Size{p.memory.Arena.dims.Simplify(p.labels.Show(prog.Tensors[port.Tensor].Bytes())), p.memory.Arena.dims}}
		for t := range prog.Tensors {
			root := &prog.Tensors[report.RootOf(prog, t)]
			if prog.Tensors[t].Source == info.Name+laidSuffix && root.Place == program.Carved && prog.Storages[root.Of].Kind == program.Arena {
				l.Copied = true
			}
		}
		list = append(list, l)
	}
	return list
}

// laidSuffix is what the name of an input in row-major order ends in, after that of its memory.
const laidSuffix = ".laid"

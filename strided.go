package weir

import (
	"math"
	"slices"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// lent is memory that other code lends for a run, with strides.
type lent struct {
	dtype DType
	data  unsafe.Pointer // of the first element
	shape []int64
	steps []int64 // between elements; nil in row-major order
	// below and above are where the elements begin and end, counted in elements from the first one.
	below, above int64
}

// Strided returns an argument of memory that other code lends for a run: data is its first element's address, and its
// elements lie so many elements apart along each axis. Strides may be negative, and 0; nil is row-major order. A run
// reads the memory where it lies if that is as the input is declared to lie (Options.Layouts; else in row-major order),
// at a multiple of the element's size. If not, the run copies it, into memory that it takes when it begins and gives
// back when it ends: Memory.Copies says how much. Beyond SetLimit that is ErrMemory, and beyond Options.Budget
// ErrBudget. All elements lie within memory that stays as it is until the run has returned.
func Strided(dt DType, data unsafe.Pointer, shape, strides []int) (a Arg, err error) {
	defer diag.Recover(&err, "describing memory")
	if dt == StringType {
		return nil, diag.Unsupportedf("strings in memory that other code made").WithFix("copy them by FromSlice")
	}
	l := &lent{dtype: dt, data: data, shape: sizesOf(shape)}
	bytes, err := bytesOf(dt, l.shape)
	if err != nil {
		return nil, diag.As(err, ErrInput)
	}
	if strides != nil {
		if l.steps = sizesOf(strides); len(strides) != len(shape) {
			return nil, diag.Inputf("%d strides of %s", len(strides), l)
		}
	}
	if bytes == 0 {
		l.steps = nil
		return l.given(), nil
	}
	return l.given(), l.check()
}

// given is the memory as an argument.
func (l *lent) given() given { return given{kind: TensorKind, lent: l} }

// String is like "f32[2,3] with strides [1,2]".
func (l *lent) String() string {
	text := l.dtype.String() + tensor.ShapeString(l.shape)
	if l.steps != nil {
		text += " with strides " + tensor.ShapeString(l.steps)
	}
	return text
}

// check finds where elements that there are lie, and checks that this is within the address space.
func (l *lent) check() error {
	if l.data == nil {
		return diag.Inputf("%s has no memory", l)
	}
	if l.steps != nil && tensor.RowMajor(l.shape, l.steps) {
		l.steps = nil
	}
	if l.steps != nil && l.dtype.IsSubByte() {
		return diag.Unsupportedf("%s, packed and not in row-major order", l).WithFix("give a contiguous tensor")
	}
	steps := l.steps
	if steps == nil {
		steps = tensor.Strides(l.shape)
	}
	const most = math.MaxInt64 / 64 // so that bytes do not overflow either
	l.above = 1
	for axis, step := range steps {
		size := uint64(l.shape[axis] - 1)
		if size > 0 && magnitude(step) > most/size {
			return diag.Inputf("%s has a stride of %d", l, step)
		}
		if far := int64(size) * step; far < 0 {
			l.below += far
		} else {
			l.above += far
		}
		if l.below < -most || l.above > most {
			return diag.Inputf("%s has a stride of %d", l, step)
		}
	}
	size, at := uint64(max(1, l.dtype.Size())), uint64(uintptr(l.data))
	if at < uint64(-l.below)*size || at > lastAddress || uint64(l.above)*size > lastAddress-at {
		return diag.Inputf("%s at %p does not lie within the address space", l, l.data)
	}
	return nil
}

// magnitude is a stride without its sign.
func magnitude(step int64) uint64 {
	if step < 0 {
		return -uint64(step)
	}
	return uint64(step)
}

// lentBy is a tensor's memory as memory that is lent.
func lentBy(t *tensor.Tensor) *lent {
	l := &lent{dtype: t.DType(), shape: t.Shape(), above: max(1, t.Len())}
	if data := t.Bytes(); len(data) > 0 {
		l.data = unsafe.Pointer(unsafe.SliceData(data))
	}
	return l
}

// empty reports whether there are no elements.
func (l *lent) empty() bool {
	count, err := tensor.Count(l.shape)
	return err == nil && count == 0
}

// in is the memory as a tensor whose axes are in an order, if it lies so; else nil.
func (l *lent) in(order []axisPlace) (*tensor.Tensor, error) {
	shape := laid(l.shape, order, 1)
	if l.empty() {
		return tensor.Over(l.dtype, shape, nil)
	}
	if !lies(l.shape, l.steps, order) || uintptr(l.data)%alignOf(l.dtype) != 0 {
		return nil, nil
	}
	bytes, err := bytesOf(l.dtype, shape)
	if err != nil {
		return nil, err
	}
	first := unsafe.Add(l.data, l.below*int64(max(1, l.dtype.Size())))
	return tensor.Over(l.dtype, shape, unsafe.Slice((*byte)(first), bytes))
}

// gather copies the elements, in an order of axes.
func (l *lent) gather(to []byte, order []axisPlace) {
	if len(to) == 0 {
		return
	}
	if l.dtype.IsSubByte() { // which lie in row-major order
		copy(to, unsafe.Slice((*byte)(l.data), len(to)))
		return
	}
	steps, at := l.steps, -l.below
	if steps == nil {
		steps = tensor.Strides(l.shape)
	}
	turned := make([]int64, len(order))
	for i, a := range order {
		if turned[i] = steps[a.axis]; a.back {
			turned[i] = -steps[a.axis]
			at += (l.shape[a.axis] - 1) * steps[a.axis]
		}
	}
	size := int64(l.dtype.Size())
	from := unsafe.Slice((*byte)(unsafe.Add(l.data, l.below*size)), (l.above-l.below)*size)
	tensor.Gather(to, from, size, laid(l.shape, order, 1), turned, at)
}

// copying is an argument that is to be copied for a run.
type copying struct {
	name  string
	port  int
	from  *lent
	order []axisPlace
	shape []int64
}

// lie adds an argument of memory with strides, or for an input with a layout.
func (p *Program) lie(args *packing, e edge, g given) error {
	l, info := g.lent, e.Info
	if l == nil {
		l = lentBy(g.data[0])
	}
	if l.dtype != info.DType || len(l.shape) != len(info.Shape) || !info.simple() {
		return diag.Inputf("%s is given, %s is expected", l, info)
	}
	if g.owner != lending && g.owner != updating {
		return diag.Unsupportedf("a tensor that is %s, for an input that lies otherwise", partWords[g.owner]).WithFix("lend it")
	}
	order, err := info.Layout.axes(len(info.Shape))
	if err != nil {
		return err
	}
	for _, a := range order {
		if a.once && l.shape[a.axis] > 1 && (l.steps == nil || l.steps[a.axis] != 0) && !l.empty() {
			return diag.Inputf("%s does not repeat along axis %d, as its layout %s says", l, a.axis, info.Layout).WithFix("give memory with a stride of 0")
		}
	}
	port := e.Parts[0]
	t, err := l.in(order)
	if t == nil && err == nil {
		c := copying{info.Name, port, l, order, laid(l.shape, order, 1)}
		if p.compiled.Program.Inputs[port].Elements != nil { // they are dimensions
			t, err = args.copy(p, c)
		} else if t, err = tensor.Outline(l.dtype, c.shape); err == nil {
			args.copies = append(args.copies, c)
		}
	}
	args.parts[port] = t
	return err
}

// repeats checks the extents of arguments along axes that are there once: their memory does not tell them.
func (p *Program) repeats(list []given, dims []int64) error {
	for i, info := range p.inputs {
		if info.Layout == "" {
			continue
		}
		order, err := info.Layout.axes(len(info.Shape))
		if err != nil {
			return err
		}
		for _, a := range order {
			if !a.once {
				continue
			}
			want, got := info.Shape[a.axis].Size, list[i].shape()[a.axis]
			for d, dim := range p.compiled.Program.Dims {
				if name := info.Shape[a.axis].Dim; name != "" && (name == dim.Name.Text() || name == p.label(d)) {
					want = dims[d]
				}
			}
			if want != got {
				return diag.Inputf("axis %d of %s is %d, not %d", a.axis, list[i], got, want).AtTensor(info.Name)
			}
		}
	}
	return nil
}

// copyAll makes the copies of a run's arguments, once it may begin. release gives them back.
func (p *packing) copyAll(by *Program) error {
	for _, c := range p.copies {
		t, err := p.copy(by, c)
		if err != nil {
			return err
		}
		p.parts[c.port] = t
	}
	return nil
}

// copy copies an argument for a run. It takes its bytes out of the budget before it asks for them.
func (p *packing) copy(by *Program, c copying) (*tensor.Tensor, error) {
	bytes, err := bytesOf(c.from.dtype, c.shape)
	if err != nil {
		return nil, err
	}
	const fix = "give it as the input is declared to lie, or declare how it lies by Options.Layouts"
	if err := by.reserve(bytes); err != nil {
		return nil, diag.As(err, ErrBudget).AtTensor(c.name).WithFix(fix)
	}
	p.by, p.reserved = by, p.reserved+bytes
	block, err := mem.UserPool().Take(mem.Tensors, "copy of "+c.name, bytes)
	if err != nil {
		return nil, diag.As(err, ErrMemory).AtTensor(c.name)
	}
	p.blocks = append(p.blocks, block)
	c.from.gather(block.Bytes(), c.order)
	return tensor.Over(c.from.dtype, c.shape, block.Bytes())
}

// unlaid is a run's arguments in row-major order, as the model has them.
func (p *Program) unlaid(args *packing, in Inputs) ([]*tensor.Tensor, error) {
	parts := slices.Clone(args.parts)
	for i, info := range p.inputs {
		if info.Layout == "" {
			continue
		}
		g := in[info.Name].given()
		l := g.lent
		if l == nil {
			inner, err := g.tensors[0].entered()
			if err != nil {
				return nil, err
			}
			l = lentBy(inner)
			g.tensors[0].leave() // args has entered it too
		}
		t, err := tensor.New(l.dtype, l.shape...)
		if err != nil {
			return nil, err
		}
		l.gather(t.Bytes(), rowMajor(len(l.shape)))
		parts[p.takes[i].Parts[0]] = t
	}
	return parts, nil
}

// Copies is what one run takes beside the certificate, while it lasts, if the arguments of these inputs do not lie in
// memory as the inputs are declared to (see Strided): their bytes. Without names it is all inputs that can be such.
func (m *Memory) Copies(inputs ...string) (Size, error) {
	p := m.program
	if len(inputs) == 0 {
		for _, info := range p.inputs {
			if info.simple() && info.State == "" {
				inputs = append(inputs, info.Name)
			}
		}
	}
	total := sym.Const(0)
	for _, name := range inputs {
		i, ok := p.input(name)
		switch {
		case !ok:
			return Size{}, p.noInput(name)
		case !p.inputs[i].simple() || p.inputs[i].State != "":
			return Size{}, diag.Inputf("%s is never copied: it is a state, or no tensor of numbers", p.inputs[i]).AtTensor(name)
		}
		port := p.compiled.Program.Inputs[p.takes[i].Parts[0]]
		total = total.Add(p.compiled.Program.Tensors[port.Tensor].Bytes())
	}
	return Size{m.Arena.dims.Simplify(p.labels.Show(total)), m.Arena.dims}, nil
}

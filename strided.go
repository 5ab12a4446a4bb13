package weir

import (
	"slices"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/strided"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Strided returns an argument in memory that other code lends for a run: data is the address of the first element, and
// strides are distances in elements, which may be negative or 0; nil is row-major order. A run reads the memory in
// place if its order is the input's (Options.Layouts, or row-major) and it is aligned to the element's size. Otherwise
// the run copies it into memory that it allocates when it begins and releases when it ends: see Memory.Copies. A copy
// beyond SetLimit is ErrMemory, and beyond Options.Budget ErrBudget. All elements must lie in memory that does not
// change until the run has returned.
func Strided(dt DType, data unsafe.Pointer, shape, strides []int) (a Arg, err error) {
	defer diag.Recover(&err, "describing memory")
	if dt == StringType {
		return nil, diag.Unsupportedf("strings in memory that other code made").WithFix("copy them by FromSlice")
	}
	var steps []int64
	if strides != nil {
		steps = sizesOf(strides)
	}
	l, err := strided.Describe(dt, data, sizesOf(shape), steps)
	if err != nil {
		return nil, err
	}
	return givenLent(l), nil
}

// givenLent returns strided memory as an argument.
func givenLent(l *strided.Memory) given { return given{kind: TensorKind, lent: l} }

// copying is an argument to copy for a run.
type copying struct {
	name  string
	port  int
	from  *strided.Memory
	order strided.Order
	shape []int64
}

// lie adds an argument in strided memory, or for an input with a layout, to args.
func (p *Program) lie(args *packing, e edge, g given) error {
	l, info := g.lent, e.Info
	if l == nil {
		l = strided.Of(g.data[0])
	}
	if l.DType != info.DType || len(l.Shape) != len(info.Shape) || !info.simple() {
		return diag.Inputf("%s is given, %s is expected", l, info)
	}
	if g.owner != lending && g.owner != updating {
		return diag.Unsupportedf("a tensor that is %s, for an input that lies otherwise", partWords[g.owner]).
			WithFix("lend it")
	}
	order, err := info.Layout.axes(len(info.Shape))
	if err != nil {
		return err
	}
	for _, a := range order {
		if a.Once && l.Shape[a.Axis] > 1 && (l.Steps == nil || l.Steps[a.Axis] != 0) && !l.Empty() {
			return diag.Inputf("%s does not repeat along axis %d, as its layout %s says", l, a.Axis, info.Layout).
				WithFix("give memory with a stride of 0")
		}
	}
	port := e.Parts[0]
	t, err := l.In(order)
	if t == nil && err == nil {
		c := copying{info.Name, port, l, order, strided.Laid(l.Shape, order, 1)}
		if p.compiled.Program.Inputs[port].Elements != nil { // they are dimensions
			t, err = args.copy(p, c)
		} else if t, err = tensor.Outline(l.DType, c.shape); err == nil {
			args.copies = append(args.copies, c)
		}
	}
	args.parts[port] = t
	return err
}

// repeats checks the extents of arguments along repeated axes ("*"), which the memory's shape does not have.
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
			if !a.Once {
				continue
			}
			want, got := info.Shape[a.Axis].Size, list[i].shape()[a.Axis]
			for d, dim := range p.compiled.Program.Dims {
				if name := info.Shape[a.Axis].Dim; name != "" && (name == dim.Name.Text() || name == p.label(d)) {
					want = dims[d]
				}
			}
			if want != got {
				return diag.Inputf("axis %d of %s is %d, not %d", a.Axis, list[i], got, want).AtTensor(info.Name)
			}
		}
	}
	return nil
}

// copyAll copies a run's arguments, once the run may begin. release frees the copies.
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

// copy copies an argument for a run. It reserves the bytes in the budget first.
func (p *packing) copy(by *Program, c copying) (*tensor.Tensor, error) {
	bytes, err := strided.BytesOf(c.from.DType, c.shape)
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
	c.from.Gather(block.Bytes(), c.order)
	return tensor.Over(c.from.DType, c.shape, block.Bytes())
}

// unlaid returns a run's arguments in row-major order, as the model declares them.
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
			l = strided.Of(inner)
			g.tensors[0].leave() // args has entered it too
		}
		t, err := tensor.New(l.DType, l.Shape...)
		if err != nil {
			return nil, err
		}
		l.Gather(t.Bytes(), strided.RowMajor(len(l.Shape)))
		parts[p.takes[i].Parts[0]] = t
	}
	return parts, nil
}

// Copies returns the bytes that one run takes beyond the certificate, while it lasts, if the arguments of these inputs
// are not in the order of the inputs (see Strided). Without names it assumes so for all inputs that can be copied.
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

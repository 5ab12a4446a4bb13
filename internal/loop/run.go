package loop

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// HostFunc runs a host operator on entire tensors (nil for an absent optional one) and returns its results, one for
// each of the step's Out. dims returns the values of the dimensions bound so far, for symbolic attributes.
type HostFunc func(s *Host, in []*tensor.Tensor, dims func(name sym.Name) (int64, bool)) ([]*tensor.Tensor, error)

// Runner interprets modules: the oracle for executors. It assumes that a module is well formed (see VerifyModule).
type Runner struct {
	// Reversed runs independent loops backward, as InterpretReversed does.
	Reversed bool
	Host     HostFunc // nil: a Host step is an error
	// After, if not nil, is called after every Launch, Host and Copy; get copies a buffer's contents.
	After func(s Step, get func(*Buffer) (*tensor.Tensor, error))
}

// Run interprets a module and returns the contents of its Output buffers by name. inputs are the contents of its Input
// buffers by name; they are only read. Errors of kind ErrInput name the input, dimension or checked value at fault.
func (r *Runner) Run(m *Module, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	s := &running{runner: r, module: m, dims: map[sym.Name]int64{}, storage: map[*Buffer]*storage{},
		kernels: map[*Kernel]*Interpreter{}, waiting: map[sym.Name][]*Require{}}
	s.sortRequires()
	if err := s.enter(inputs); err != nil {
		return nil, err
	}
	if err := s.steps(m.Body); err != nil {
		return nil, err
	}
	outputs := map[string]*tensor.Tensor{}
	for _, b := range m.Buffers {
		if b.Kind != Output {
			continue
		}
		t, err := s.read(b)
		if err != nil {
			return nil, err
		}
		outputs[b.Name] = t
	}
	return outputs, nil
}

// running is the state of one run.
type running struct {
	runner  *Runner
	module  *Module
	dims    map[sym.Name]int64
	storage map[*Buffer]*storage // of buffers that are not views
	kernels map[*Kernel]*Interpreter
	waiting map[sym.Name][]*Require // by the dimension that completes the condition; the empty name if none is awaited
}

// storage is a buffer's memory. It is as large as the buffer at the limits of the data dimensions, if that much can be
// allocated.
type storage struct {
	data     []byte
	strings  []string // of a String buffer
	full     bool     // has its largest size
	written  bool
	borrowed bool // belongs to the caller, or is constant: must not be written
}

// location is the present location of a buffer's elements.
type location struct {
	*storage
	dt             dtype.DType
	shape, strides []int64
	offset         int64 // in elements
}

// locate returns the location of a buffer's elements, and allocates or grows its storage.
func (s *running) locate(b *Buffer, writing bool) (*location, error) {
	shape, err := s.shape(b.Shape)
	if err != nil {
		return nil, err
	}
	p := &location{dt: b.DType, shape: shape, strides: tensor.Strides(shape)}
	root := b
	for v := b.View; v != nil; v = root.View {
		offset, err := s.eval(v.Offset)
		if err != nil {
			return nil, err
		}
		if root == b && v.Strides != nil {
			if p.strides, err = s.shape(v.Strides); err != nil {
				return nil, err
			}
		}
		p.offset += offset
		root = v.Of
	}
	if p.storage, err = s.root(root); err != nil {
		return nil, err
	}
	switch {
	case writing && p.borrowed:
		panic(diag.Internalf("module @%s: %%%s is constant or an input and is written", s.module.Name, root.Name))
	case !writing && !p.written:
		panic(diag.Internalf("module @%s: %%%s is read before it was written", s.module.Name, b.Name))
	}
	p.written = p.written || writing
	return p, nil
}

// root returns the storage of a buffer that is not a view. If its size at the limits is too large, the storage has the
// size for the largest dimensions so far.
func (s *running) root(b *Buffer) (*storage, error) {
	st := s.storage[b]
	if st == nil {
		st = &storage{}
		s.storage[b] = st
	}
	if st.borrowed || st.full {
		return st, nil
	}
	count, err := s.count(b, s.atMost)
	st.full = err == nil
	if err != nil {
		if count, err = s.count(b, s.eval); err != nil {
			return nil, err
		}
	}
	bytes, err := b.DType.Bytes(count)
	if err != nil {
		return nil, err
	}
	if more := count - int64(len(st.strings)); b.DType == dtype.String && more > 0 {
		st.strings = append(st.strings, make([]string, more)...)
	}
	if bytes > int64(len(st.data)) {
		data := make([]byte, bytes)
		for i := copy(data, st.data); i < len(data); i++ {
			data[i] = 0xFF
		}
		st.data = data
	}
	return st, nil
}

// count returns the number of a buffer's elements; the error says if no memory can hold so many.
func (s *running) count(b *Buffer, eval func(sym.Expr) (int64, error)) (int64, error) {
	shape := make([]int64, len(b.Shape))
	for i, e := range b.Shape {
		v, err := eval(e)
		if err != nil {
			return 0, err
		}
		shape[i] = v
	}
	count, err := tensor.Count(shape)
	if err != nil {
		return 0, err
	}
	width := int64(max(b.DType.Bits(), 1))
	if b.DType == dtype.String {
		width = 128
	}
	if most := min(tensor.MaxBytes(), 1<<32); count > most/width*8 {
		return 0, diag.Inputf("buffer %s of shape %v is too large to be interpreted", b.Name, shape)
	}
	return count, nil
}

// read copies a buffer's contents.
func (s *running) read(b *Buffer) (*tensor.Tensor, error) {
	p, err := s.locate(b, false)
	if err != nil {
		return nil, err
	}
	if b.DType == dtype.String {
		return tensor.OverStrings(p.shape, slices.Clone(p.strings[:elements(p.shape)]))
	}
	t, err := tensor.New(b.DType, p.shape...)
	if err != nil {
		return nil, err
	}
	width, i := b.DType.Bits(), int64(0)
	p.each(func(at int64) {
		copyElement(width, t.Bytes(), i, p.data, at)
		i++
	})
	return t, nil
}

// write sets a buffer's contents, element by element in row-major order.
func (s *running) write(b *Buffer, t *tensor.Tensor) error {
	p, err := s.locate(b, true)
	if err != nil {
		return err
	}
	if elements(p.shape) != t.Len() || b.DType != t.DType() {
		panic(diag.Internalf("module @%s: %s is written to %%%s of shape %v and type %s", s.module.Name, t, b.Name, p.shape,
			b.DType))
	}
	if b.DType == dtype.String {
		copy(p.strings, t.Strings())
		return nil
	}
	width, i := b.DType.Bits(), int64(0)
	p.each(func(at int64) {
		copyElement(width, p.data, at, t.Bytes(), i)
		i++
	})
	return nil
}

// each visits the elements' offsets from the storage's first element, in row-major order.
func (p *location) each(visit func(at int64)) {
	tensor.Each(p.shape, func(index []int64) { visit(p.offset + tensor.Offset(p.strides, index)) })
}

// copyElement copies one element of width bits.
func copyElement(width int, to []byte, i int64, from []byte, j int64) {
	if width == 128 {
		copy(to[16*i:16*i+16], from[16*j:])
		return
	}
	storeBits(width, to, i, loadBits(width, from, j))
}

// steps runs a list of steps.
func (s *running) steps(body []Step) error {
	for _, step := range body {
		if err := s.step(step); err != nil {
			return err
		}
		switch step.(type) {
		case *Launch, *Host, *Copy:
			if s.runner.After != nil {
				s.runner.After(step, s.read)
			}
		}
	}
	return nil
}

// step runs a step.
func (s *running) step(step Step) error {
	switch step := step.(type) {
	case *Launch:
		return s.launch(step)
	case *Host:
		return s.host(step)
	case *Bind:
		return s.bindStep(step)
	case *Copy:
		t, err := s.read(step.From)
		if err == nil && step.Pick != nil {
			t, err = s.pick(step, t)
		}
		if err != nil {
			return err
		}
		return s.write(step.To, t)
	case *If:
		cond, err := s.scalar(step.Cond)
		if err != nil {
			return err
		}
		if cond != 0 {
			return s.steps(step.Then)
		}
		return s.steps(step.Else)
	case *Loop:
		return s.loop(step)
	}
	panic(diag.Internalf("module @%s: a step of type %T is not known", s.module.Name, step))
}

// pick returns the rows of a tensor that a copy picks.
func (s *running) pick(step *Copy, from *tensor.Tensor) (*tensor.Tensor, error) {
	of, err := s.read(step.Pick.Index)
	if err != nil {
		return nil, err
	}
	row := from.Shape()[from.Rank()-len(step.To.Shape)+of.Rank():]
	to, err := tensor.New(from.DType(), append(slices.Clone(of.Shape()), row...)...)
	if err != nil {
		return nil, err
	}
	size := elements(row)
	for i := range of.Len() {
		p, rows := of.Int(i), step.Pick.Rows
		if p < 0 && of.DType().IsSigned() {
			p += rows
		}
		if p < 0 || p >= rows {
			return nil, &diag.Error{Kind: diag.ErrInput, Node: step.Pick.Source,
				Detail: CheckDetail("an index", dtype.I64, uint64(p), 0, rows-1)}
		}
		for j := range size {
			copyElement(from.DType().Bits(), to.Bytes(), i*size+j, from.Bytes(), p*size+j)
		}
	}
	return to, nil
}

// launch interprets a kernel over the step's buffers.
func (s *running) launch(step *Launch) error {
	k := step.Kernel
	x := s.kernels[k]
	if x == nil {
		x = NewInterpreter(k)
		s.kernels[k] = x
	}
	operands := make([]Data, len(step.Args))
	for i, b := range step.Args {
		p, err := s.locate(b, k.Params[i].Access != Read)
		if err != nil {
			return fmt.Errorf("launching @%s: %w", k.Name, err)
		}
		begin, err := byteOffset(p.dt, p.offset)
		if err != nil {
			return err
		}
		operands[i] = Data{p.dt, p.data[min(begin, int64(len(p.data))):]}
	}
	dims := make([]int64, len(k.Dims))
	for i, name := range k.Dims {
		v, ok := s.dims[name]
		if !ok {
			panic(diag.Internalf("module @%s: kernel @%s needs dimension %s before it is bound", s.module.Name, k.Name, name))
		}
		dims[i] = v
	}
	bytes, err := x.Scratch(dims)
	if err != nil {
		return err
	}
	if bytes > tensor.MaxBytes() {
		return diag.Inputf("kernel @%s needs %d bytes of scratch", k.Name, bytes)
	}
	return x.run(operands, dims, make([]byte, bytes), s.runner.Reversed)
}

// byteOffset returns the byte at which element at begins. It panics if the element begins inside a byte.
func byteOffset(dt dtype.DType, at int64) (int64, error) {
	if at*int64(dt.Bits())%8 != 0 {
		panic(diag.Internalf("a view of %s begins inside a byte, at element %d", dt, at))
	}
	return dt.Bytes(at)
}

// host runs a host operator and binds the dimensions of its results.
func (s *running) host(step *Host) error {
	if s.runner.Host == nil {
		return diag.Unsupportedf("host operator %s: no host operators are given", step.Op)
	}
	in := make([]*tensor.Tensor, len(step.In))
	for i, b := range step.In {
		if b == nil {
			continue
		}
		t, err := s.read(b)
		if err != nil {
			return err
		}
		in[i] = t
	}
	out, err := s.runner.Host(step, in, s.lookup)
	if err != nil {
		return err
	}
	if len(out) < len(step.Out) {
		panic(diag.Internalf("host operator %s: %d results, want %d", step.Op, len(out), len(step.Out)))
	}
	for i, b := range step.Out {
		if b == nil {
			continue
		}
		if err := s.match(b, out[i].Shape(), true); err != nil {
			return err
		}
		if err := s.write(b, out[i]); err != nil {
			return err
		}
	}
	return nil
}

// bindStep binds a dimension to an element or to a value.
func (s *running) bindStep(step *Bind) error {
	if step.From == nil {
		v, err := s.eval(step.Value)
		if err != nil {
			return err
		}
		return s.bind(step.Dim, v, step.Source)
	}
	t, err := s.read(step.From)
	if err != nil {
		return err
	}
	if step.At < 0 || step.At >= t.Len() {
		panic(diag.Internalf("module @%s: %s is bound to element %d of %%%s, which has %d", s.module.Name, step.Dim, step.At,
			step.From.Name, t.Len()))
	}
	return s.bind(step.Dim, t.Int(step.At), step.Source)
}

// scalar returns the element of an integer or bool buffer with a single element.
func (s *running) scalar(b *Buffer) (int64, error) {
	t, err := s.read(b)
	if err != nil {
		return 0, err
	}
	if t.Len() != 1 {
		panic(diag.Internalf("module @%s: %%%s has %d elements, want one", s.module.Name, b.Name, t.Len()))
	}
	return t.Int(0), nil
}

// loop runs a Loop.
func (s *running) loop(step *Loop) error {
	trip := int64(-1)
	if step.Trip != nil {
		v, err := s.scalar(step.Trip)
		if err != nil {
			return err
		}
		trip = max(v, 0)
	}
	for i := int64(0); ; i++ {
		on := i != trip
		if on && step.Cond != nil {
			v, err := s.scalar(step.Cond)
			if err != nil {
				return err
			}
			on = v != 0
		}
		switch {
		case !on && !step.Count.None():
			return s.bind(step.Count, i, step.Source)
		case !on:
			return nil
		case !step.Count.None(): // so that the iteration's row has a position
			if err := s.within(step.Count, i+1, step.Source); err != nil {
				return err
			}
			s.dims[step.Count] = i + 1
		}
		if step.Index != nil {
			if err := s.write(step.Index, tensor.Must(tensor.FromSlice([]int64{i}))); err != nil {
				return err
			}
		}
		if err := s.steps(step.Body); err != nil {
			return err
		}
	}
}

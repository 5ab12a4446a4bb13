package program

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Operand is a tensor as a kernel receives it. Data begins with its first element; Strides are in elements.
type Operand struct {
	Name    string
	DType   dtype.DType
	Shape   []int64
	Strides []int64
	Data    []byte
	Write   bool
}

// Interpreter runs programs slowly, over byte slices, and checks each access to memory. It refuses reads of bytes that
// are unwritten, released or overwritten, writes to borrowed memory, carves that overlap, and unordered accesses of two
// streams to the same bytes. Tests compare the executor with it; the two share no code.
type Interpreter struct {
	// Kernel runs a kernel by name, with its dimensions.
	Kernel func(name string, operands []Operand, dims []int64) error
	// Host runs a host operator; symbolic attributes have become int64 and []int64. It asks result for the memory of
	// result i, with the shape found.
	Host func(op string, attrs map[string]any, in []*tensor.Tensor,
		result func(i int, shape ...int64) (*tensor.Tensor, error)) error
	// Dims gives the dimensions that are in no input's shape.
	Dims map[sym.Name]int64
	// Steps limits the steps of a run; 0 means 2²⁰.
	Steps int64
}

// poison is the byte that fills memory without contents.
const poison = 0xa5

// block is a contiguous memory. Only steps of its device access it, except copies between it and the host's memory.
type block struct {
	name    string
	device  string
	data    []byte
	written []bool // by byte: it holds something
	log     []access
}

// access is a step's access to a block, with its stream and the stream's own count of steps.
type access struct {
	stream     int
	time       int64
	begin, end int64
	write      bool
}

// newBlock returns a block over data; written says whether all its bytes have contents.
func newBlock(name, device string, data []byte, written bool) *block {
	b := &block{name: name, device: device, data: data, written: make([]bool, len(data))}
	for i := range b.written {
		b.written[i] = written
	}
	return b
}

// location is a range of bytes of a block.
type location struct {
	*block
	begin, size int64
}

// run is one run of a program.
type run struct {
	o        *Interpreter
	left     int64     // steps
	clocks   [][]int64 // by stream: the work of each stream that is done before its next step
	on       []string  // by stream: its device
	p        *Program
	values   map[sym.Name]int64
	storages []location
	given    map[int]location // arguments and constants
	live     map[int]bool
	lost     map[int]bool
	over     map[int][]int
	waiting  map[int][]Require // conditions by the last of their dimensions to be bound
	taken    map[int]bool      // late storages
	late     lateness
	// newValues maps a state's new value to the old one.
	newValues map[int]int
	events    [][]int64
}

// Run interprets a verified program. States are written to; results are new tensors.
func (o *Interpreter) Run(p *Program, inputs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if len(inputs) != len(p.Inputs) {
		return nil, diag.Inputf("%d inputs for %d", len(inputs), len(p.Inputs))
	}
	values := map[sym.Name]int64{}
	for name, v := range o.Dims {
		values[name] = v
	}
	for i, port := range p.Inputs {
		if err := bindShape(p, port, inputs[i], values); err != nil {
			return nil, err
		}
		if int64(len(port.Elements)) > inputs[i].Len() {
			return nil, diag.Inputf("it has %d elements, %d are dimensions", inputs[i].Len(), len(port.Elements)).
				AtTensor(port.Name)
		}
		for j, d := range port.Elements {
			values[p.Dims[d].Name] = inputs[i].Int(int64(j))
		}
	}
	r := o.start(p, values)
	if err := p.entry(values); err != nil {
		if errors.Is(err, errNotAdmitted) {
			return nil, diag.Inputf("%v", err)
		}
		return nil, err
	}
	lent := make([][]byte, len(inputs))
	for i, port := range p.Inputs {
		data := inputs[i].Bytes()
		if port.Ownership == Borrow {
			lent[i] = bytes.Clone(data)
		}
		r.given[port.Tensor] = location{newBlock(port.Name, port.Device, data, true), 0, int64(len(data))}
	}
	sizes, err := p.sizes(values, false)
	if err != nil {
		return nil, err
	}
	for i, size := range sizes {
		at, err := fresh(p.Storages[i].Name, p.Storages[i].Device, size)
		if err != nil {
			return nil, err
		}
		r.storages = append(r.storages, at)
	}
	if err := r.steps(p.Steps); err != nil {
		return nil, err
	}
	for _, clock := range r.clocks {
		r.join(0, clock)
	}
	for i, data := range lent {
		if data != nil && !bytes.Equal(data, inputs[i].Bytes()) {
			return nil, diag.Inputf("a borrowed argument was written").AtTensor(p.Inputs[i].Name)
		}
	}
	return r.results()
}

// fresh allocates a block of size bytes without contents.
func fresh(name, device string, size int64) (location, error) {
	if size > tensor.MaxBytes() {
		return location{}, diag.New(diag.ErrMemory, "%s of %d bytes is more than an interpreter takes", name, size)
	}
	return location{newBlock(name, device, bytes.Repeat([]byte{poison}, int(size)), false), 0, size}, nil
}

// bindShape gives the dimensions in an input's shape their values, and returns an error if its type or shape does not
// fit.
func bindShape(p *Program, port Port, t *tensor.Tensor, values map[sym.Name]int64) error {
	want := &p.Tensors[port.Tensor]
	if t.DType() != want.DType || t.Rank() != len(want.Shape) {
		return diag.Inputf("%s%v is given for %s%v", t.DType(), t.Shape(), want.DType, want.Shape).AtTensor(port.Name)
	}
	for pass := range 2 {
		for axis, e := range want.Shape {
			if name, ok := e.Name(); ok && pass == 0 {
				if _, bound := values[name]; !bound {
					values[name] = t.Shape()[axis]
				}
			}
			if x, err := e.Eval(lookup(values)); pass == 1 && (err != nil || x != t.Shape()[axis]) {
				return diag.Inputf("it has %d along axis %d, and %s is %d", t.Shape()[axis], axis, e, x).AtTensor(port.Name)
			}
		}
	}
	for i, d := range port.Elements {
		if int64(i) < t.Len() {
			values[p.Dims[d].Name] = t.Int(int64(i))
		}
	}
	return nil
}

// waiting groups the conditions on data dimensions by the dimension whose binding step comes last in the program's
// text.
func (p *Program) waiting() map[int][]Require {
	index, order, number := map[sym.Name]int{}, map[int]int{}, 0
	for i, d := range p.Dims {
		if d.Data {
			index[d.Name] = i
		}
	}
	mark := func(dim int) { number++; order[dim] = number }
	var walk func(steps []Step)
	walk = func(steps []Step) {
		for _, step := range steps {
			for _, body := range Bodies(step) {
				walk(body)
			}
			switch s := step.(type) {
			case *Bind:
				mark(s.Dim)
			case *Host:
				for _, t := range s.Out {
					for _, e := range p.Tensors[t].Shape {
						if name, ok := e.Name(); ok {
							if d, data := index[name]; data {
								mark(d)
							}
						}
					}
				}
			case *Loop:
				if s.Count >= 0 {
					mark(s.Count)
				}
			}
		}
	}
	walk(p.Steps)
	out := map[int][]Require{}
	for _, q := range p.Requires {
		last := -1
		for _, name := range slices.Concat(q.Cond.A.Vars(), q.Cond.B.Vars()) {
			if d, data := index[name]; data && (last < 0 || order[d] > order[last]) {
				last = d
			}
		}
		if last >= 0 {
			out[last] = append(out[last], q)
		}
	}
	return out
}

// start returns a run whose only memory is the weights.
func (o *Interpreter) start(p *Program, values map[sym.Name]int64) *run {
	r := &run{o: o, left: o.Steps, clocks: make([][]int64, 1+len(p.Streams)), on: []string{""}, p: p, values: values,
		given: map[int]location{},
		live:  map[int]bool{}, lost: map[int]bool{}, over: map[int][]int{}, waiting: p.waiting(), taken: map[int]bool{},
		late: p.lateness(), newValues: p.newValues(), events: make([][]int64, len(p.Events))}
	if r.left <= 0 {
		r.left = 1 << 20
	}
	for i := range p.Streams {
		r.on = append(r.on, p.Streams[i].Device)
	}
	for i := range p.Weights {
		w := &p.Weights[i]
		r.given[w.Tensor] = location{newBlock(w.Name, w.Device, w.Data, true), 0, int64(len(w.Data))}
	}
	return r
}

// results returns copies of the outputs.
func (r *run) results() ([]*tensor.Tensor, error) {
	var out []*tensor.Tensor
	for _, port := range r.p.Outputs {
		access := r.access
		if _, state := r.newValues[port.Tensor]; state {
			access = r.reach // it may lie in a device's memory, where the caller finds it
		}
		t, err := elements(access, port.Tensor)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", port.Name, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// elements returns a row-major copy of all of a tensor's elements, which access gets for the host.
func elements(access func(t int, write bool, stream int) (Operand, error), t int) (*tensor.Tensor, error) {
	x, err := access(t, false, 0)
	if err != nil {
		return nil, err
	}
	out, err := tensor.New(x.DType, x.Shape...)
	if err != nil {
		return nil, err
	}
	err = gather(out.Bytes(), nil, x.Data, x.Strides, x)
	return out, err
}

// gather copies x's elements between two buffers; nil toStrides mean row-major.
func gather(to []byte, toStrides []int64, from []byte, fromStrides []int64, x Operand) error {
	row := tensor.Strides(x.Shape)
	if toStrides == nil {
		toStrides = row
	}
	if slices.Equal(toStrides, row) && slices.Equal(fromStrides, row) {
		copy(to, from)
		return nil
	}
	width := int64(x.DType.Bits() / 8)
	if x.DType.Bits()%8 != 0 {
		return diag.Unsupportedf("strides of elements of %d bits", x.DType.Bits())
	}
	tensor.Each(x.Shape, func(at []int64) {
		a, b := tensor.Offset(toStrides, at)*width, tensor.Offset(fromStrides, at)*width
		copy(to[a:a+width], from[b:b+width])
	})
	return nil
}

// eval evaluates an expression at the run's values.
func (r *run) eval(e sym.Expr) (int64, error) { return e.Eval(lookup(r.values)) }

// evals evaluates expressions at the run's values.
func (r *run) evals(list []sym.Expr) ([]int64, error) {
	out := make([]int64, len(list))
	for i, e := range list {
		x, err := r.eval(e)
		if err != nil {
			return nil, err
		}
		out[i] = x
	}
	return out, nil
}

// locate returns the bytes that a tensor lies in now.
func (r *run) locate(t int) (location, error) {
	x := &r.p.Tensors[t]
	size, err := x.bytes(r.values)
	if err != nil {
		return location{}, err
	}
	var room location
	switch x.Class {
	case Carved:
		if room = r.storages[x.Of]; r.p.Storages[x.Of].Late && !r.taken[x.Of] {
			return location{}, diag.Inputf("it lies in %s, which is not taken, or not since a dimension changed",
				r.p.Storages[x.Of].Name).AtTensor(x.Name)
		}
	case View:
		if room, err = r.locate(x.Of); err != nil {
			return location{}, err
		}
	default:
		if size > r.given[t].size {
			return location{}, diag.Inputf("it has %d bytes of %d", r.given[t].size, size).AtTensor(x.Name)
		}
		return location{r.given[t].block, r.given[t].begin, size}, nil
	}
	at, err := r.eval(x.Offset)
	if err != nil {
		return location{}, err
	}
	if size == 0 {
		return location{room.block, room.begin, 0}, nil
	}
	if at < 0 || size > room.size-at {
		return location{}, diag.Inputf("%d bytes at %d leave the %d that it lies in", size, at, room.size).AtTensor(x.Name)
	}
	return location{room.block, room.begin + at, size}, nil
}

// allowed returns an error if a tensor may not be read, or written, now.
func (r *run) allowed(t int, write bool) error {
	x := &r.p.Tensors[t]
	root, home := r.p.Root(t), r.p.home(r.newValues, t)
	for _, port := range r.p.Inputs {
		if port.Tensor == root {
			if write && port.Ownership == Borrow {
				return diag.Inputf("a borrowed argument is written").AtTensor(x.Name)
			}
			if write && port.Ownership == State && home == root {
				return diag.Inputf("a state is written, and not by the output that replaces it").AtTensor(x.Name)
			}
		}
	}
	switch {
	case r.p.Tensors[root].Class == Carved && !r.live[root]:
		return diag.Inputf("it is used while it is not carved, or after its release").AtTensor(x.Name)
	case write && r.p.Tensors[root].Class == Constant:
		return diag.Inputf("a constant is written").AtTensor(x.Name)
	case !write && r.lost[home]:
		return diag.Inputf("it is read after another tensor was written over it").AtTensor(x.Name)
	}
	return nil
}

// access returns a tensor for a step of a stream to read or write, after all checks; it must be in the memory of the
// stream's device.
func (r *run) access(t int, write bool, stream int) (Operand, error) {
	if at, err := r.locate(t); err == nil && at.block != nil && at.device != r.on[stream] {
		return Operand{}, diag.Inputf("a step on %s reaches into the memory of %s", memoryWord(r.on[stream]),
			memoryWord(at.device)).AtTensor(r.p.Tensors[t].Name)
	}
	return r.reach(t, write, stream)
}

// reach is access for a copy, which may have one end in the host's memory.
func (r *run) reach(t int, write bool, stream int) (Operand, error) {
	x := &r.p.Tensors[t]
	fault := func(format string, args ...any) (Operand, error) {
		return Operand{}, diag.Inputf(format, args...).AtTensor(x.Name)
	}
	if err := r.allowed(t, write); err != nil {
		return Operand{}, err
	}
	at, err := r.locate(t)
	if err != nil {
		return Operand{}, err
	}
	o := Operand{Name: x.Name, DType: x.DType, Data: at.data[at.begin : at.begin+at.size : at.begin+at.size], Write: write}
	if o.Shape, err = r.evals(x.Shape); err != nil {
		return Operand{}, err
	}
	o.Strides = tensor.Strides(o.Shape)
	if x.Strides != nil {
		if o.Strides, err = r.evals(x.Strides); err != nil {
			return Operand{}, err
		}
	}
	if err := r.meet(at, write, stream); err != nil {
		return fault("%v", err)
	}
	if x.DType.Bits()%8 != 0 || slices.Equal(o.Strides, tensor.Strides(o.Shape)) {
		err = at.mark(0, at.size, write)
	} else {
		width := int64(x.DType.Bits() / 8)
		tensor.Each(o.Shape, func(index []int64) {
			if e := at.mark(tensor.Offset(o.Strides, index)*width, width, write); e != nil {
				err = e
			}
		})
	}
	if err != nil {
		return fault("%v", err)
	}
	return o, nil
}

// mark marks bytes as written, or returns an error if one that is read was not written.
func (w location) mark(from, size int64, write bool) error {
	for i := w.begin + from; i < w.begin+from+size; i++ {
		if !write && !w.written[i] {
			return fmt.Errorf("byte %d of %s is read, and nothing wrote it", i, w.name)
		}
		w.written[i] = w.written[i] || write
	}
	return nil
}

// wrote marks the tensors lost that the written tensors replace or overlap.
func (r *run) wrote(tensors ...int) {
	for _, t := range tensors {
		root := r.p.home(r.newValues, t)
		delete(r.lost, root)
		if old, is := r.newValues[root]; is {
			r.lost[old] = true
		}
		for _, x := range r.over[root] {
			r.lost[x] = r.live[x]
		}
	}
}

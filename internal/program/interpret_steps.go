package program

import (
	"fmt"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// begin starts a step of a stream, after all earlier steps of stream 0, and returns the stream.
func (r *run) begin(stream int) int {
	if stream > 0 {
		r.join(stream, r.clocks[0])
	}
	c := &r.clocks[stream]
	for len(*c) <= stream {
		*c = append(*c, 0)
	}
	(*c)[stream]++
	return stream
}

// join merges another clock into a stream's clock.
func (r *run) join(stream int, clock []int64) {
	c := &r.clocks[stream]
	for i, time := range clock {
		for len(*c) <= i {
			*c = append(*c, 0)
		}
		(*c)[i] = max((*c)[i], time)
	}
}

// meet logs an access. It returns an error if another stream has accessed some of the bytes, one of the two writes, and
// nothing orders them.
func (r *run) meet(at location, write bool, stream int) error {
	clock := r.clocks[stream]
	same := -1
	for i, a := range at.log {
		if a.stream == stream && a.begin == at.begin && a.end == at.begin+at.size && a.write == write {
			same = i
		}
		if a.stream == stream || !(a.write || write) || a.begin >= at.begin+at.size || at.begin >= a.end {
			continue
		}
		if a.stream >= len(clock) || clock[a.stream] < a.time {
			return fmt.Errorf("two streams meet in bytes %d to %d of %s, and neither waited for the other",
				max(a.begin, at.begin), min(a.end, at.begin+at.size), at.name)
		}
	}
	time := int64(0)
	if stream < len(clock) {
		time = clock[stream]
	}
	if same >= 0 {
		at.log[same].time = time
		return nil
	}
	at.log = append(at.log, access{stream, time, at.begin, at.begin + at.size, write})
	return nil
}

// steps runs a list of steps; ErrBudget if the run takes too many.
func (r *run) steps(steps []Step) error {
	for _, step := range steps {
		if r.left--; r.left < 0 {
			return diag.New(diag.ErrBudget, "the run takes too many steps")
		}
		if err := r.step(step); err != nil {
			return err
		}
	}
	return nil
}

// step runs one step; an error names the step's node.
func (r *run) step(step Step) error {
	switch s := step.(type) {
	case *Carve:
		return r.carve(s)
	case *Release:
		return r.release(s)
	case *Take:
		return r.take(s)
	case *Launch:
		return at(r.launch(s), s.Source)
	case *Host:
		return at(r.host(s), s.Source)
	case *Bind:
		return at(r.bind(s), s.Source)
	case *If:
		yes, err := r.integer(s.Cond, 0)
		if err != nil {
			return at(err, s.Source)
		}
		if yes != 0 {
			return r.steps(s.Then)
		}
		return r.steps(s.Else)
	case *Loop:
		return at(r.loop(s), s.Source)
	case *Copy:
		return r.copy(s)
	case *Record:
		r.events[s.Event] = append([]int64{}, r.clocks[r.begin(s.Stream)]...)
		return nil
	case *Wait:
		if r.events[s.Event] == nil {
			return diag.Inputf("event %s is waited for before it is recorded", r.p.Events[s.Event])
		}
		r.join(r.begin(s.Stream), r.events[s.Event])
		return nil
	}
	return diag.Inputf("a step of an unknown kind, %T", step)
}

// carve makes a tensor live and, unless it lies over others, clears its bytes; an error if its bytes are another live
// tensor's.
func (r *run) carve(s *Carve) error {
	t := &r.p.Tensors[s.Tensor]
	limit, late := r.values, r.p.Storages[t.Of].Late
	if late && r.late.alone[t.Of] >= 0 { // its offset is known after its Take
		r.live[s.Tensor], r.over[s.Tensor] = true, s.Over
		delete(r.lost, s.Tensor)
		return nil
	}
	if !late && t.depends(r.p) { // its size is planned at the limits
		limit = map[sym.Name]int64{}
		for name, v := range r.values {
			limit[name] = v
		}
		for _, d := range r.p.Dims {
			if d.Data {
				delete(limit, d.Name)
			}
		}
		if err := r.p.entry(limit); err != nil {
			return err
		}
	}
	inner := &run{p: r.p, values: limit, storages: r.storages, given: r.given, taken: r.taken}
	at, err := inner.locate(s.Tensor)
	if err != nil {
		return err
	}
	for x := range r.live {
		over := false
		for _, y := range s.Over {
			over = over || x == y
		}
		if over || !r.live[x] || r.p.Tensors[x].Class != Carved || r.p.Tensors[x].Of != t.Of {
			continue
		}
		if other, err := r.locate(x); err != nil || other.block == at.block && other.begin < at.begin+at.size &&
			at.begin < other.begin+other.size {
			return diag.Inputf("it is carved from bytes that %s has (%v)", r.p.Tensors[x].Name, err).AtTensor(t.Name)
		}
	}
	r.live[s.Tensor], r.over[s.Tensor] = true, s.Over
	delete(r.lost, s.Tensor)
	if len(s.Over) == 0 {
		at.forget()
	}
	return nil
}

// depends reports whether a tensor's size depends on a data dimension.
func (t *Tensor) depends(p *Program) bool {
	for _, name := range t.Bytes().Vars() {
		for _, d := range p.Dims {
			if d.Data && d.Name == name {
				return true
			}
		}
	}
	return false
}

// forget poisons the bytes and marks them unwritten.
func (w location) forget() {
	for i := w.begin; i < w.begin+w.size; i++ {
		w.data[i], w.written[i] = poison, false
	}
}

// release ends the live ranges of tensors.
func (r *run) release(s *Release) error {
	for _, t := range s.Tensors {
		if !r.live[t] {
			return diag.Inputf("it is released while it is not alive").AtTensor(r.p.Tensors[t].Name)
		}
		delete(r.live, t)
		delete(r.lost, t)
		delete(r.over, t)
	}
	return nil
}

// launch gets the operands, reads before writes, and runs the kernel.
func (r *run) launch(s *Launch) error {
	stream := r.begin(s.Stream)
	operands := make([]Operand, len(s.Args))
	for _, write := range []bool{false, true} { // all reads are checked before any write
		for i, t := range s.Args {
			if s.Writes[i] == write {
				o, err := r.access(t, write, stream)
				if err != nil {
					return err
				}
				operands[i] = o
			}
		}
	}
	dims := make([]int64, len(s.Dims))
	for i, d := range s.Dims {
		dims[i] = r.values[r.p.Dims[d].Name]
	}
	if r.o.Kernel == nil {
		return diag.Unsupportedf("no kernels")
	}
	if err := r.o.Kernel(r.p.Kernels[s.Kernel], operands, dims); err != nil {
		return err
	}
	for i, t := range s.Args {
		if s.Writes[i] {
			r.wrote(t)
		}
	}
	return nil
}

// host runs a host operator on copies of its inputs; its results' shapes bind data dimensions.
func (r *run) host(s *Host) error {
	stream := r.begin(0)
	attrs := map[string]any{}
	for name, v := range s.Attrs {
		var err error
		switch v := v.(type) {
		case sym.Expr:
			attrs[name], err = r.eval(v)
		case []sym.Expr:
			attrs[name], err = r.evals(v)
		default:
			attrs[name] = v
		}
		if err != nil {
			return err
		}
	}
	in := make([]*tensor.Tensor, len(s.In))
	for i, t := range s.In {
		if t >= 0 {
			var err error
			if in[i], err = elements(r.access, t); err != nil {
				return err
			}
		}
	}
	if r.o.Host == nil {
		return diag.Unsupportedf("no host operators")
	}
	err := r.o.Host(s.Op, attrs, in, func(i int, shape ...int64) (*tensor.Tensor, error) {
		t := &r.p.Tensors[s.Out[i]]
		if len(shape) != len(t.Shape) {
			return nil, diag.Inputf("%s gives rank %d", s.Op, len(shape)).AtTensor(t.Name)
		}
		for axis, e := range t.Shape {
			if name, ok := e.Name(); ok {
				for d := range r.p.Dims {
					if dim := &r.p.Dims[d]; dim.Name == name && dim.Data {
						if err := r.set(d, shape[axis]); err != nil {
							return nil, err
						}
					}
				}
			}
		}
		if err := r.takesResult(s.Out[i]); err != nil {
			return nil, err
		}
		o, err := r.access(s.Out[i], true, stream)
		if err != nil {
			return nil, err
		}
		return tensor.Over(o.DType, shape, o.Data)
	})
	r.wrote(s.Out...)
	return err
}

// set gives a data dimension its final value and checks the conditions that waited for it.
func (r *run) set(dim int, v int64) error {
	if err := r.count(dim, v); err != nil {
		return err
	}
	for _, q := range r.waiting[dim] {
		if ok, err := q.Cond.Eval(lookup(r.values)); err != nil || !ok {
			return diag.Inputf("%s does not hold", q.Cond.Shown(r.p.Labels()).Words()).From(q.From).
				AtDim(r.p.Labels()[r.p.Dims[dim].Name])
		}
	}
	return nil
}

// count gives a data dimension a value that may still change; an error if it is outside the dimension's range or limit.
func (r *run) count(dim int, v int64) error {
	d := &r.p.Dims[dim]
	limit, err := r.eval(d.Limit)
	if err != nil {
		return err
	}
	if v < d.Range.Min || v > min(d.Range.Max, limit) {
		return r.p.Beyond(dim, v, sym.Range{Min: d.Range.Min, Max: min(d.Range.Max, limit)})
	}
	r.values[d.Name] = v
	r.late.changed(dim, r.taken)
	return nil
}

// integer returns element i of a tensor in the host's memory.
func (r *run) integer(t int, i int64) (int64, error) {
	x, err := elements(r.access, t)
	if err != nil {
		return 0, err
	}
	if i >= x.Len() {
		return 0, diag.Inputf("element %d of %d is read", i, x.Len()).AtTensor(r.p.Tensors[t].Name)
	}
	return x.Int(i), nil
}

// bind gives a data dimension the value of an element or an expression.
func (r *run) bind(s *Bind) error {
	r.begin(0)
	v, err := int64(0), error(nil)
	if s.From >= 0 {
		v, err = r.integer(s.From, s.At)
	} else {
		v, err = r.eval(s.Value)
	}
	if err != nil {
		return err
	}
	return r.set(s.Dim, v)
}

// loop runs a loop. Before each iteration, Count is the iterations begun; after the last, it has its final value.
func (r *run) loop(s *Loop) error {
	trip := int64(-1)
	if s.Trip >= 0 {
		v, err := r.integer(s.Trip, 0)
		if err != nil {
			return err
		}
		trip = max(v, 0)
	}
	for i := int64(0); ; i++ {
		stream, on := r.begin(0), trip < 0 || i < trip
		if on && s.Cond >= 0 {
			yes, err := r.integer(s.Cond, 0)
			if err != nil {
				return err
			}
			on = yes != 0
		}
		switch {
		case !on && s.Count >= 0:
			return r.set(s.Count, i)
		case !on:
			return nil
		case s.Count >= 0: // before the iteration, whose slice needs it
			if err := r.count(s.Count, i+1); err != nil {
				return err
			}
		}
		if s.Index >= 0 {
			o, err := r.access(s.Index, true, stream)
			if err != nil {
				return err
			}
			dtype.StoreInt(o.DType, o.Data, 0, i)
			r.wrote(s.Index)
		}
		if r.left--; r.left < 0 {
			return diag.New(diag.ErrBudget, "the run takes too many steps")
		}
		if err := r.steps(s.Body); err != nil {
			return err
		}
	}
}

// copy copies a tensor's elements by way of a temporary, so that source and target may overlap.
func (r *run) copy(s *Copy) error {
	stream := r.begin(s.Stream)
	if s.Pick != nil {
		return at(r.pick(s, stream), s.Pick.Source)
	}
	for _, t := range []int{s.From, s.To} { // one end may be the host's
		if end, err := r.locate(t); err == nil && end.block != nil && end.device != "" && end.device != r.on[stream] {
			return diag.Inputf("a copy by %s reaches into the memory of %s", memoryWord(r.on[stream]), memoryWord(end.device)).
				AtTensor(r.p.Tensors[t].Name)
		}
	}
	from, err := r.reach(s.From, false, stream)
	if err != nil {
		return err
	}
	piece, err := tensor.New(from.DType, from.Shape...) // source and target may overlap
	if err != nil {
		return err
	}
	if err := gather(piece.Bytes(), nil, from.Data, from.Strides, from); err != nil {
		return err
	}
	to, err := r.reach(s.To, true, stream)
	if err != nil {
		return err
	}
	if have, want := count(to.Shape), count(from.Shape); have != want {
		return diag.Inputf("%d elements are copied to %d", want, have).AtTensor(to.Name)
	}
	r.wrote(s.To)
	return gather(to.Data, to.Strides, piece.Bytes(), tensor.Strides(to.Shape), to)
}

// pick copies the rows that the index tensor selects.
func (r *run) pick(s *Copy, stream int) error {
	from, err := r.access(s.From, false, stream)
	if err != nil {
		return err
	}
	of, err := r.access(s.Pick.Index, false, stream)
	if err != nil {
		return err
	}
	to, err := r.access(s.To, true, stream)
	if err != nil {
		return err
	}
	leading := len(from.Shape) - len(to.Shape) + len(of.Shape)
	row, steps, number := from.Shape[leading:], from.Strides, make([]int64, leading)
	if have, want := count(to.Shape), count(of.Shape)*count(row); have != want {
		return diag.Inputf("%d elements are copied to %d", want, have).AtTensor(to.Name)
	}
	width, done := int64(from.DType.Bits()/8), int64(0)
	for i := range count(of.Shape) {
		p := dtype.LoadInt(of.DType, of.Data, i)
		if p < 0 && of.DType.IsSigned() {
			p += s.Pick.Rows
		}
		if p < 0 || p >= s.Pick.Rows {
			return diag.Inputf("an index is %d, outside [0, %d]", p, s.Pick.Rows-1)
		}
		tensor.Unravel(p, from.Shape[:leading], number)
		begin := tensor.Offset(steps[:leading], number)
		tensor.Each(row, func(at []int64) {
			b := (begin + tensor.Offset(steps[leading:], at)) * width
			copy(to.Data[done:done+width], from.Data[b:b+width])
			done += width
		})
	}
	r.wrote(s.To)
	return nil
}

// count returns the number of elements of a shape.
func count(shape []int64) int64 {
	n := int64(1)
	for _, x := range shape {
		n *= x
	}
	return n
}

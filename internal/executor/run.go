package executor

import (
	"cmp"
	"context"
	"math"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/pprof"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// Run runs the program once on the inputs that were lent. An ended context stops it between steps and between tiles of
// a kernel. A panic of a kernel or host operator, and a memory fault, become its error, so that the caller learns which
// states were begun.
func (c *Call) Run(ctx context.Context) (err error) {
	defer diag.Recover(&err, "running")
	defer diag.Faults(diag.Faults(true))
	defer c.forget()
	c.ctx, c.reached = ctx, -1
	if len(c.scratch) == 0 || c.lacks {
		if err := c.beginAgain(); err != nil {
			return c.x.typed(err, c.values)
		}
	}
	if err := c.ready(c.early()); err != nil {
		return err
	}
	before := pprof.Current()
	defer before.Set()
	c.labelled = !before.None()
	err = c.team.Enter(c.x.threads, target.StopOf(ctx))
	defer c.team.Leave()
	if err == nil {
		err = c.all()
	}
	if err == target.ErrStopped {
		return cmp.Or(ctx.Err(), context.DeadlineExceeded) // the context's timer may be late
	}
	return c.x.typed(err, c.values)
}

// all runs the program to its end, and waits for the device.
func (c *Call) all() (err error) {
	defer c.settleDevice(&err)
	clear(c.events)
	if err := c.sendStates(); err != nil {
		return err
	}
	defer c.returnStates(&err)
	return c.consuming()
}

// steps runs a list of steps, timed if the call has a Timing.
func (c *Call) steps(steps []program.Step) error {
	for _, step := range steps {
		do := (*Call).step
		if c.timing != nil {
			do = (*Call).timed
		}
		if err := do(c, step); err != nil {
			return err
		}
	}
	return nil
}

// step runs one step.
func (c *Call) step(step program.Step) error {
	c.watch.begin(step)
	c.label(step)
	switch s := step.(type) {
	case *program.Launch:
		if c.x.onDevice(s.Stream) {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			return c.launchRemote(s)
		}
		return c.launch(s)
	case *program.Host:
		return c.host[s].run(c)
	case *program.Bind:
		return c.bind(s)
	case *program.If:
		yes, err := c.truth(s.Cond)
		if err != nil {
			return err
		}
		if yes {
			c.watch.entered(s, 1)
			return c.steps(s.Then)
		}
		c.watch.entered(s, 2)
		return c.steps(s.Else)
	case *program.Loop:
		if err := c.loop(s); err != nil || s.Count < 0 {
			return err
		}
		if err := c.counted(s); err != nil {
			return err
		}
		return c.decided(s.Count)
	case *program.Copy:
		return c.copy(s)
	case *program.Take:
		return c.take(s.Storage)
	case *program.Record:
		return c.record(s)
	case *program.Wait:
		return c.wait(s)
	case *program.Carve:
		if c.x.program.Tensors[s.Tensor].Reserved {
			c.watch.touch(c, s.Tensor)
		}
		c.poison.carve(s)
	case *program.Release:
		c.poison.release(c, s)
	default:
		return diag.Internalf("a step of the unknown type %T", step)
	}
	return nil // Carve and Release only say which tensor owns which range
}

// label sets the goroutine's labels in CPU profiles to the model and the launched kernel, unless the caller has set
// labels. Workers inherit them.
func (c *Call) label(step program.Step) {
	if c.labelled {
		return
	}
	at := len(c.x.labels) - 1
	if s, ok := step.(*program.Launch); ok {
		at = s.Kernel
	}
	c.x.labels[at].Set()
}

// operand returns a tensor's current address and size.
func (c *Call) operand(i int) (target.Operand, error) {
	if c.x.isRemote(i) {
		return target.Operand{}, diag.Internalf("the host uses %s, which lies in a device's memory",
			c.x.program.Tensors[i].Name)
	}
	if c.x.layout.tensors[i].dynamic {
		for at := i; c.x.program.Tensors[at].Class == program.View; {
			at = c.x.program.Tensors[at].Of
			if c.x.layout.tensors[at].dynamic {
				if _, err := c.operand(at); err != nil {
					return target.Operand{}, err
				}
				break
			}
		}
		if err := c.placeTensor(i); err != nil {
			return target.Operand{}, err
		}
	}
	return c.operands[i], nil
}

// boundTo returns a prepared launch; that of the current step needs no lookup.
func (c *Call) boundTo(s *program.Launch) *bound {
	if b := c.next; b != nil && b.step == s {
		return b
	}
	return c.args[s]
}

// launch runs a kernel on the host's workers, after preparing it if its dimensions have changed. One that writes
// nothing is not run, and may have dimensions for which it cannot be prepared.
func (c *Call) launch(s *program.Launch) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	b := c.boundTo(s)
	for i, t := range s.Args {
		o, err := c.operand(t)
		if err != nil {
			return err
		}
		b.Args.Operands[i] = o
	}
	for i, d := range s.Dims {
		v := c.values[d]
		if b.Args.Dims[i] != v {
			b.Args.Dims[i], b.ready = v, false
		}
	}
	rests := idle(s, b)
	if !b.ready {
		if err := c.relies(s.Dims); err != nil {
			return err
		}
		if err := c.prepareHost(s, b); err != nil && !rests {
			return err
		}
	}
	if !b.ready || b.Tiles == 0 {
		if c.watch != nil { // record its operands, although there is nothing to do
			c.watch.operands(c, s, b)
		}
		return nil
	}
	if !rests {
		if err := c.suffices(s, b); err != nil {
			return err
		}
	}
	if c.watch != nil {
		return c.watch.launch(c, s, b)
	}
	if rests {
		return nil
	}
	if c.guards != nil {
		return c.guarded(s, b)
	}
	return at(c.team.Launch(&b.Job, c.workers), s.Source)
}

// prepareHost computes the tiles, operand sizes and scratch of a launch, which depend on its dimensions only.
func (c *Call) prepareHost(s *program.Launch, b *bound) error {
	tiles, err := b.Kernel.Tiles(b.Args.Dims)
	if err != nil {
		return err
	}
	b.Tiles = tiles
	if k, ok := b.Kernel.(target.Stepped); ok {
		if b.Course, err = k.Course(b.Args.Dims); err != nil {
			return err
		}
	}
	if err := b.Kernel.Needs(b.Args.Dims, b.needs); err != nil {
		return at(err, s.Source)
	}
	if c.x.layout.asks[s] && tiles > 0 {
		if err := c.moreScratch(b, s.Source); err != nil {
			return err
		}
	}
	b.ready = true
	return nil
}

// suffices checks that every operand has the bytes that its kernel is proved to stay within.
func (c *Call) suffices(s *program.Launch, b *bound) error {
	for i, need := range b.needs {
		if have := b.Args.Operands[i].Bytes; have < need {
			return diag.Internalf("operand %s of @%s has %d bytes, and the kernel needs %d",
				c.x.program.Tensors[s.Args[i]].Name, b.Kernel.Name(), have, need)
		}
	}
	return nil
}

// idle reports whether all operands that a launch writes are empty. Its loops may still be long, around a loop without
// iterations.
func idle(s *program.Launch, b *bound) bool {
	for i, writes := range s.Writes {
		if writes && b.Args.Operands[i].Bytes > 0 {
			return false
		}
	}
	return true
}

// at adds the model's node to an error that does not name one.
func at(err error, source string) error {
	if e, ok := err.(*diag.Error); ok && e.Node == "" {
		return e.AtNode(source, e.Op)
	}
	return err
}

// bind gives a data dimension its value; an error if it is outside the dimension's range or limit.
func (c *Call) bind(s *program.Bind) error {
	d := &c.x.program.Dims[s.Dim]
	var v int64
	if s.From >= 0 {
		o, err := c.operand(s.From)
		if err != nil {
			return err
		}
		c.watch.touch(c, s.From)
		t := &c.x.program.Tensors[s.From]
		if s.At >= o.Bytes*8/int64(t.DType.Bits()) {
			return diag.Inputf("it is element %d of %s, which has fewer", s.At, t.Name).AtDim(c.x.program.Labels()[d.Name]).
				AtNode(s.Source, "")
		}
		v = dtype.LoadInt(t.DType, bytesOf(o), s.At)
	} else {
		var err error
		if v, err = c.x.layout.binds[s].Eval(c.values); err != nil {
			return err
		}
	}
	limit, err := c.x.layout.limits[s.Dim].Eval(c.values)
	if err != nil {
		return err
	}
	if v < d.Range.Min || v > min(d.Range.Max, limit) {
		e := c.x.program.Beyond(s.Dim, v, sym.Range{Min: d.Range.Min, Max: min(d.Range.Max, limit)})
		if d.Origin == "" {
			e = e.AtNode(s.Source, "")
		}
		return e
	}
	c.values[s.Dim] = v
	return c.decided(s.Dim)
}

// bytesOf returns the bytes of an operand in the host's memory.
func bytesOf(o target.Operand) []byte { return unsafe.Slice((*byte)(o.Base), o.Bytes) }

// truth returns the element of a bool tensor.
func (c *Call) truth(t int) (bool, error) {
	o, err := c.operand(t)
	if err != nil {
		return false, err
	}
	c.watch.touch(c, t)
	return bytesOf(o)[0] != 0, nil
}

// loop runs a loop's iterations; an error if it runs more often than planned.
func (c *Call) loop(s *program.Loop) error {
	limit := int64(-1)
	if s.Trip >= 0 {
		o, err := c.operand(s.Trip)
		if err != nil {
			return err
		}
		c.watch.touch(c, s.Trip)
		limit = max(0, dtype.LoadInt(c.x.program.Tensors[s.Trip].DType, bytesOf(o), 0))
	}
	planned := int64(math.MaxInt64)
	if s.Count >= 0 {
		most, err := c.x.layout.limits[s.Count].Eval(c.values)
		if err != nil {
			return err
		}
		planned, c.values[s.Count] = min(most, c.x.program.Dims[s.Count].Range.Max), 0
	}
	for i := int64(0); limit < 0 || i < limit; i++ {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		c.watch.begin(s)
		if s.Cond >= 0 {
			c.watch.entered(s, 2)
			if yes, err := c.truth(s.Cond); err != nil || !yes {
				return err
			}
		}
		if s.Index >= 0 {
			o, err := c.operand(s.Index)
			if err != nil {
				return err
			}
			dtype.StoreInt(c.x.program.Tensors[s.Index].DType, bytesOf(o), 0, i)
			c.watch.touch(c, s.Index)
		}
		if i >= planned {
			return diag.Inputf("the loop runs more often than the %d times it was planned for", planned).
				AtDim(c.x.program.Labels()[c.x.program.Dims[s.Count].Name]).AtNode(s.Source, "loop")
		}
		if s.Count >= 0 {
			c.values[s.Count] = i + 1 // so that the iteration's slices have an offset
			if err := c.counted(s); err != nil {
				return err
			}
		}
		c.watch.entered(s, 1)
		if err := c.steps(s.Body); err != nil {
			return err
		}
	}
	return nil
}

// counted checks that the number of iterations begun is in its dimension's range, on which kernels' proofs rely.
func (c *Call) counted(s *program.Loop) error {
	if d := &c.x.program.Dims[s.Count]; c.values[s.Count] < d.Range.Min {
		return c.x.program.Beyond(s.Count, c.values[s.Count], d.Range).AtNode(s.Source, "loop")
	}
	return nil
}

// copy copies a tensor between host memory, a device and a file.
func (c *Call) copy(s *program.Copy) error {
	if s.Pick != nil {
		return c.pick(s)
	}
	if c.x.isRemote(s.To) || c.x.isRemote(s.From) {
		return c.copyRemote(s)
	}
	if c.away(s.To) || c.away(s.From) {
		return c.page(s)
	}
	from, err := c.operand(s.From)
	if err != nil {
		return err
	}
	to, err := c.operand(s.To)
	if err != nil {
		return err
	}
	c.watch.touch(c, s.From)
	c.watch.touch(c, s.To)
	return copyTensor(c, s, to, from)
}

// bytesAtOnce is the number of file bytes moved between two checks of the context.
const bytesAtOnce = 4 << 20

// lookup returns a dimension's current value.
func (c *Call) lookup(name sym.Name) (int64, bool) {
	for i, n := range c.x.layout.names {
		if n == name {
			return c.values[i], true
		}
	}
	return 0, false
}

// hostCall is a prepared call of a host operator.
type hostCall struct {
	step  *program.Host
	f     hostop.Func
	types []dtype.DType
	parts splitter
}

// newHostCall looks up a host operator and its results' types.
func newHostCall(c *Call, s *program.Host) (*hostCall, error) {
	f, err := hostop.Lookup(s.Op)
	if err != nil {
		return nil, err
	}
	h := &hostCall{step: s, f: f}
	for _, t := range s.Out {
		h.types = append(h.types, c.x.program.Tensors[t].DType)
	}
	return h, nil
}

// run calls the host operator. It writes each result at its planned location; the shape that it asks for binds data
// dimensions.
func (h *hostCall) run(c *Call) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	call := &hostop.Call{Types: h.types, Attrs: map[string]any{}, Ask: c.ctx.Err}
	for name, v := range h.step.Attrs {
		v, err := c.attribute(v)
		if err != nil {
			return err
		}
		call.Attrs[name] = v
	}
	for _, t := range h.step.In {
		if t < 0 {
			call.In = append(call.In, nil)
			continue
		}
		view, err := c.tensor(t)
		if err != nil {
			return err
		}
		c.watch.touch(c, t)
		call.In = append(call.In, view)
	}
	call.Reserve = func(bytes int64) error { return c.reserveHeap(h.step, bytes) }
	defer c.freeHeap()
	if c.x.threads > 1 {
		call.Split = func(count int64, f func(c *hostop.Call, from, to int64) error) error {
			return h.parts.split(c, count, f)
		}
	}
	call.Result = func(i int, shape ...int64) (*tensor.Tensor, error) { return c.hostResult(h.step, i, shape) }
	return at(h.f(call), h.step.Source)
}

// attribute evaluates a symbolic attribute; others are returned unchanged.
func (c *Call) attribute(v any) (any, error) {
	switch v := v.(type) {
	case sym.Expr:
		return v.Eval(c.lookup)
	case []sym.Expr:
		out := make([]int64, len(v))
		for i, e := range v {
			x, err := e.Eval(c.lookup)
			if err != nil {
				return nil, err
			}
			out[i] = x
		}
		return out, nil
	}
	return v, nil
}

// tensor returns a view of a program's tensor at its current location.
func (c *Call) tensor(t int) (*tensor.Tensor, error) {
	o, err := c.operand(t)
	if err != nil {
		return nil, err
	}
	return tensor.Over(c.x.program.Tensors[t].DType, c.shapes[t], bytesOf(o))
}

// hostResult returns the memory of result i with the shape found; it binds data dimensions and takes late storage.
func (c *Call) hostResult(s *program.Host, i int, shape []int64) (*tensor.Tensor, error) {
	t := &c.x.program.Tensors[s.Out[i]]
	if len(shape) != len(t.Shape) {
		panic(diag.Internalf("%s gives rank %d for %s", s.Op, len(shape), t.Name))
	}
	var decided []int
	for axis, extent := range t.Shape {
		name, ok := extent.Name()
		if !ok {
			continue
		}
		for d := range c.x.program.Dims {
			dim := &c.x.program.Dims[d]
			if dim.Name != name || !dim.Data {
				continue
			}
			limit, err := c.x.layout.limits[d].Eval(c.values)
			if err != nil {
				return nil, err
			}
			if shape[axis] > min(limit, dim.Range.Max) {
				return nil, c.x.program.Beyond(d, shape[axis], sym.Range{Min: dim.Range.Min, Max: min(limit, dim.Range.Max)})
			}
			if shape[axis] < dim.Range.Min { // kernels' proofs rely on it
				return nil, c.x.program.Beyond(d, shape[axis], dim.Range)
			}
			c.values[d] = shape[axis]
			decided = append(decided, d)
		}
	}
	for _, d := range decided {
		if err := c.decided(d); err != nil {
			return nil, err
		}
	}
	if at := c.lateAlone(s.Out[i]); at >= 0 {
		if err := c.take(at); err != nil {
			return nil, err
		}
	}
	if _, err := c.operand(s.Out[i]); err != nil {
		return nil, err
	}
	for axis, size := range c.shapes[s.Out[i]] {
		if size != shape[axis] {
			panic(diag.Internalf("%s gives shape %v for %s of %v", s.Op, shape, t.Name, c.shapes[s.Out[i]]))
		}
	}
	c.watch.touch(c, s.Out[i])
	return c.tensor(s.Out[i])
}

package weir

import (
	"context"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Call is a run with bound dimensions, inputs and outputs: repeating it allocates nothing. One goroutine uses it at a
// time: Run and Bind return ErrInput while another goroutine uses the call, Input and Output wait. A Call occupies one
// of the program's calls until closed.
type Call struct {
	program *Program
	use     mem.Gate[*bound] // shut by Close; the last user returns the call to the program
	alone   sync.Mutex       // held by the goroutine that uses the call
	inputs  []*Tensor        // lent; nil until bound, or made by Input
	outputs []*Tensor
	places  []*Tensor // the caller's tensors that outputs are written to
	refused error     // the error of the last allocation by Input
	// disjoint: no state shares memory with another input.
	disjoint bool

	parting []*parted // the inputs that the next run consumes
	took    bool      // the run has taken them

	data    []*tensor.Tensor // the elements of the inputs, then of the places, while a run uses them
	entered int              // data[:entered] is in use
	held    int              // the states among inputs[:held] are being updated
}

// enter gives one goroutine access to the call's memory until leave; others wait. ok is false if the call is closed.
func (c *Call) enter() (b *bound, ok bool) {
	if b, ok = c.use.Enter(); ok {
		c.alone.Lock()
	}
	return b, ok
}

// try is enter that returns an error instead of waiting.
func (c *Call) try() (*bound, error) {
	b, ok := c.use.Enter()
	if !ok {
		return nil, diag.New(ErrClosed, "the call is closed")
	}
	if !c.alone.TryLock() {
		c.use.Leave()
		return nil, diag.Inputf("another goroutine is using the call").
			WithFix("bind a call for each goroutine, with Options.Calls of them")
	}
	return b, nil
}

// leave ends the access that enter or try began.
func (c *Call) leave() {
	c.alone.Unlock()
	c.use.Leave()
}

// NewCall makes a call with these dimensions; d needs a value for each dimension of the inputs' shapes. If
// Options.Calls calls are in use, it returns an error instead of waiting.
func (p *Program) NewCall(d Dims) (c *Call, err error) {
	defer diag.Recover(&err, "binding a call")
	for _, info := range slices.Concat(p.inputs, p.outputs) {
		if !info.simple() {
			return nil, diag.Unsupportedf("a call bound to its memory; %s is no tensor of numbers", info).AtTensor(info.Name).
				WithFix("use Program.Run")
		}
	}
	dims := make([]int64, len(p.compiled.Program.Dims))
	for i, dim := range p.compiled.Program.Dims {
		v, ok := d[p.label(i)]
		if !ok && !dim.Data {
			return nil, diag.Inputf("dimension %s has no value", p.label(i)).AtDim(p.label(i)).WithFix("add Dims{%q: …}",
				p.label(i))
		}
		dims[i] = v
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	b, err := p.acquire(gone, dims)
	if err != nil {
		return nil, err
	}
	c = &Call{program: p, inputs: make([]*Tensor, len(p.inputs)), outputs: make([]*Tensor, len(p.outputs)),
		places: make([]*Tensor, len(p.outputs)), data: make([]*tensor.Tensor, len(p.inputs)+len(p.outputs))}
	for i := range p.own {
		c.inputs[i] = p.own[i].tensor
	}
	c.use.Set(b, func() {
		p.drop(c)
		p.release(b)
	})
	p.hold(holder{c, "call", here()})
	return c, nil
}

// Input returns the tensor bound to an input; if none is bound, it makes one to fill. It is nil if there is no such
// input, or no memory: then Run returns the error.
func (c *Call) Input(name string) *Tensor {
	i, ok := c.program.input(name)
	if !ok {
		return nil
	}
	b, ok := c.enter()
	if !ok {
		return nil
	}
	defer c.leave()
	if c.inputs[i] == nil {
		t := &c.program.compiled.Program.Tensors[c.program.compiled.Program.Inputs[i].Tensor]
		shape := make([]int, len(t.Shape))
		for axis, e := range t.Shape {
			v, err := e.Eval(b.dim(c.program))
			if err != nil {
				return nil
			}
			shape[axis] = int(v)
		}
		made, err := New(t.DType, shape...)
		if err != nil {
			c.refused = err
			return nil
		}
		c.inputs[i], c.disjoint = made, false
	}
	return c.inputs[i]
}

// dim returns a function that looks up the size of a dimension in the call.
func (b *bound) dim(p *Program) func(name sym.Name) (int64, bool) {
	return func(name sym.Name) (int64, bool) {
		for i, d := range p.compiled.Program.Dims {
			if d.Name == name {
				return b.dims[i], true
			}
		}
		return 0, false
	}
}

// Bind lends a tensor to an input, or makes an output write to a tensor, for the runs that follow; the call allocates
// no memory for such outputs (Memory.Binding). A tensor bound to an output starts at a multiple of 64 bytes, as those
// of New do, and shares no memory with the inputs and other outputs, with one exception: it may also be bound to an
// input that the output may overwrite (see Donate), and is then updated in place. An input that is a state is bound to
// an Update, and its output is the same tensor. A tensor bound by Consume must have memory of its own, as those of New
// do; the next run consumes it, after which the input is unbound. A Donate is refused.
func (c *Call) Bind(name string, a Arg) (err error) {
	defer diag.Recover(&err, "binding an argument")
	b, err := c.try()
	if err != nil {
		return err
	}
	defer c.leave()
	p := c.program
	ports, infos := p.compiled.Program.Inputs, p.inputs
	i, input := p.input(name)
	if !input {
		if i = slices.IndexFunc(p.outputs, func(o Info) bool { return o.Name == name }); i < 0 {
			return p.noInput(name)
		}
		ports, infos = p.compiled.Program.Outputs, p.outputs
	}
	g := a.given()
	if input {
		if err := p.maySupply(infos[i], g); err != nil {
			return err
		}
	} else if at := p.replaces[i]; at >= 0 {
		return diag.Inputf("it lies where the state %s does", p.inputs[at].Name).AtTensor(name).WithFix("bind %s",
			p.inputs[at].Name)
	}
	if g.owner == donating || g.owner != lending && !input {
		return diag.Unsupportedf("a call bound to its memory that parts with an argument, which is gone after its first run").
			AtTensor(name).WithFix("use Program.Run, or bind the tensor to the output as well, which is then written in its " +
			"place")
	}
	if g.kind != TensorKind {
		return diag.Inputf("%s is given, %s is expected", g, infos[i]).AtTensor(name)
	}
	if g.lent != nil {
		return diag.Unsupportedf("a call bound to memory with strides").AtTensor(name).
			WithFix("bind a tensor of the memory (see Foreign), or use Program.Run")
	}
	t := g.tensors[0]
	inner, err := t.entered()
	if err != nil {
		return diag.As(err, ErrClosed).AtTensor(name)
	}
	defer t.leave()
	if err := c.fits(b, &infos[i], ports[i].Tensor, t); err != nil {
		return err
	}
	if !input || g.owner == updating {
		if err := t.mayWrite(name); err != nil {
			return err
		}
	}
	if input && g.owner == updating {
		if err := update(inner.Bytes(), name); err != nil {
			return err
		}
		defer updated(inner.Bytes())
		if err := writable(inner.Bytes(), name); err != nil {
			return err
		}
	}
	if input {
		return c.bindInput(i, t, g.owner)
	}
	return c.bindOutput(b, i, t, inner.Bytes())
}

// bindInput binds a tensor to an input, for the next run only if it is consumed.
func (c *Call) bindInput(i int, t *Tensor, owner ownership) error {
	if owner == consuming && t.block == nil {
		return diag.Inputf("its memory is not its own, and cannot be consumed by a call").AtTensor(c.program.inputs[i].Name).
			WithFix("copy it into a tensor made by weir.New first")
	}
	c.keep(i)
	if c.inputs[i], c.disjoint = t, false; owner == consuming {
		c.parting = append(c.parting, &parted{t: t, port: i, owner: owner, output: -1})
	}
	return nil
}

// keep removes an input from those that the next run consumes.
func (c *Call) keep(i int) {
	c.parting = slices.DeleteFunc(c.parting, func(a *parted) bool { return a.port == i })
}

// part takes the inputs that the run consumes from the caller: all of them, or none and an error.
func (c *Call) part() error {
	for _, a := range c.parting {
		name := c.program.inputs[a.port].Name
		for k, other := range c.data {
			if k != a.port && other != nil && overlap(c.data[a.port], other) {
				return diag.Inputf("it is consumed, and bound elsewhere too").AtTensor(name).WithFix("lend it to both")
			}
		}
	}
	for n, a := range c.parting {
		if !a.t.data.Take(false) {
			for _, b := range c.parting[:n] {
				b.taken = false
				b.t.data.Open()
			}
			return diag.Inputf("it is consumed, while somebody closes it, or gives it to another run").
				AtTensor(c.program.inputs[a.port].Name)
		}
		a.taken = true
	}
	c.took = true
	return nil
}

// consume makes the run release each input that it consumes after the last step that reads it.
func (c *Call) consume(b *bound) {
	for _, a := range c.parting {
		b.call.Consume(a.port, func() error {
			c.data[a.port] = nil
			return a.done()
		})
	}
}

// consumed unbinds the inputs that the run took.
func (c *Call) consumed() {
	for _, a := range c.parting {
		c.inputs[a.port] = nil
	}
	c.parting, c.took = c.parting[:0], false
}

// bindOutput makes output i write to data, the memory of t.
func (c *Call) bindOutput(b *bound, i int, t *Tensor, data []byte) error {
	name := c.program.outputs[i].Name
	if uintptr(unsafe.Pointer(unsafe.SliceData(data)))%placeAlign != 0 {
		return diag.Inputf("its memory does not begin at a multiple of %d bytes", placeAlign).AtTensor(name).
			WithFix("make it by weir.New")
	}
	for k, other := range c.places {
		if k != i && other != nil && sharing(data, other.Bytes()) {
			return diag.Inputf("it shares memory with what is bound to %s", c.program.outputs[k].Name).AtTensor(name)
		}
	}
	if err := b.call.PutOutput(i, unsafe.Pointer(unsafe.SliceData(data)), int64(len(data))); err != nil {
		return err
	}
	c.places[i] = t
	return nil
}

// placeAlign is the alignment of outputs, in bytes.
const placeAlign = 64

// apart returns an error if input i shares memory with an output, unless the output may overwrite that input.
func (c *Call) apart(i int) error {
	p := c.program.compiled.Program
	for k, place := range c.data[len(c.inputs):] {
		if place == nil || !overlap(place, c.data[i]) {
			continue
		}
		a, b := place.Bytes(), c.data[i].Bytes()
		if unsafe.SliceData(a) == unsafe.SliceData(b) && len(a) == len(b) &&
			slices.Contains(p.Inputs[i].Gives, p.Outputs[k].Tensor) {
			continue
		}
		return diag.Inputf("it shares memory with output %s, which is written before it is read for the last time",
			p.Outputs[k].Name).AtTensor(c.program.inputs[i].Name)
	}
	return nil
}

// statesApart returns an error if a state shares memory with another input.
func (c *Call) statesApart() error {
	if c.disjoint {
		return nil
	}
	for i, t := range c.data[:len(c.inputs)] {
		for k, other := range c.data[:len(c.inputs)] {
			if c.program.becomes[i] >= 0 && k != i && overlap(t, other) {
				return diag.Inputf("it is updated, and bound to %s too", c.program.inputs[k].Name).
					AtTensor(c.program.inputs[i].Name)
			}
		}
	}
	c.disjoint = true
	return nil
}

// arguments enters the tensors that the call is bound to; free leaves them.
func (c *Call) arguments() error {
	for i, t := range c.inputs {
		if t == nil && c.refused != nil {
			return c.refused
		}
		if t == nil {
			return diag.Inputf("no value is bound to it").AtTensor(c.program.inputs[i].Name)
		}
		inner, ok := t.enter()
		if !ok {
			return diag.New(ErrClosed, "the tensor bound to it is closed, or was given away").AtTensor(c.program.inputs[i].Name)
		}
		c.data[i], c.entered = inner, i+1
	}
	for i, t := range c.places {
		if t != nil {
			inner, ok := t.enter()
			if !ok {
				return diag.New(ErrClosed, "the tensor bound to it is closed, or was given away").
					AtTensor(c.program.outputs[i].Name)
			}
			c.data[len(c.inputs)+i] = inner
		}
		c.entered = len(c.inputs) + i + 1
	}
	return nil
}

// hold reserves the states for this call's run; free ends that.
func (c *Call) hold() error {
	for i, t := range c.data[:len(c.inputs)] {
		if c.program.becomes[i] < 0 {
			continue
		}
		if err := update(t.Bytes(), c.program.inputs[i].Name); err != nil {
			return err
		}
		c.held = i + 1
	}
	return nil
}

// free ends the use of states and arguments after a run.
func (c *Call) free() {
	for i, t := range c.data[:c.held] {
		if c.program.becomes[i] >= 0 {
			updated(t.Bytes())
		}
	}
	for i := range c.entered {
		if c.data[i] == nil {
			continue
		}
		c.data[i] = nil
		if i < len(c.inputs) {
			c.inputs[i].leave()
		} else {
			c.places[i-len(c.inputs)].leave()
		}
	}
	if c.held, c.entered = 0, 0; c.took {
		c.consumed()
	}
}

// run binds tensors to all inputs, none of which is a state, and all outputs, and runs the call.
func (c *Call) run(tensors []any) (err error) {
	defer c.program.counts.ended(&err)
	defer diag.Recover(&err, "running")
	b, err := c.try()
	if err != nil {
		return err
	}
	defer c.leave()
	defer c.free()
	if err = c.lend(b, tensors); err == nil {
		err = c.start(context.Background(), b)
	}
	return err
}

// lend enters tensors and binds them to the inputs and outputs.
func (c *Call) lend(b *bound, tensors []any) error {
	if len(tensors) != len(c.data) {
		return diag.Internalf("%d tensors for %d inputs and outputs", len(tensors), len(c.data))
	}
	n := len(c.inputs)
	for i := range c.inputs {
		c.inputs[i] = tensors[i].(*Tensor)
	}
	for i := range c.places {
		c.places[i] = tensors[n+i].(*Tensor)
	}
	if err := c.arguments(); err != nil {
		return err
	}
	p := c.program
	for i := range c.inputs {
		if err := c.fits(b, &p.inputs[i], p.compiled.Program.Inputs[i].Tensor, c.inputs[i]); err != nil {
			return err
		}
	}
	for i, t := range c.places {
		if err := c.fits(b, &p.outputs[i], p.compiled.Program.Outputs[i].Tensor, t); err != nil {
			return err
		}
		if err := c.bindOutput(b, i, t, c.data[n+i].Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// fits returns an error unless t has the element type and shape of the program's tensor at.
func (c *Call) fits(b *bound, info *Info, at int, t *Tensor) error {
	want := &c.program.compiled.Program.Tensors[at]
	if t.dtype != want.DType || len(t.shape) != len(want.Shape) {
		return diag.Inputf("%s is given, %s is expected", t, *info).AtTensor(info.Name)
	}
	for axis, e := range want.Shape {
		v, err := e.Eval(b.dim(c.program))
		if err != nil || v != t.shape[axis] {
			return diag.Inputf("axis %d of %s is not the %d that the call is bound to", axis, t, v).AtTensor(info.Name)
		}
	}
	return nil
}

// Run runs the call on its inputs. It overwrites the outputs of the previous run, and updates states in place.
func (c *Call) Run(ctx context.Context) (err error) {
	defer c.program.counts.ended(&err)
	defer diag.Recover(&err, "running")
	b, err := c.try()
	if err != nil {
		return err
	}
	defer c.leave()
	defer c.free()
	if err = c.arguments(); err == nil {
		err = c.start(ctx, b)
	}
	return err
}

// start runs the call on arguments that are entered.
func (c *Call) start(ctx context.Context, b *bound) error {
	for i := range c.inputs {
		if err := c.apart(i); err != nil {
			return err
		}
		data := c.data[i].Bytes()
		if err := b.call.Input(i, unsafe.Pointer(unsafe.SliceData(data)), int64(len(data))); err != nil {
			return err
		}
	}
	if err := c.statesApart(); err != nil {
		return err
	}
	if err := c.hold(); err != nil {
		return err
	}
	if err := c.program.unchanged(); err != nil {
		return err
	}
	if len(c.parting) > 0 {
		if err := c.part(); err != nil {
			return err
		}
		c.consume(b)
	}
	defer c.program.counts.busy(time.Now())
	return c.program.torn(b.call.Run(ctx), b.call)
}

// Output returns an output of the last run; nil if there is none with that name. The tensor is invalid after Close.
func (c *Call) Output(name string) *Tensor {
	i := slices.IndexFunc(c.program.outputs, func(o Info) bool { return o.Name == name })
	if i < 0 {
		return nil
	}
	b, ok := c.enter()
	if !ok {
		return nil
	}
	defer c.leave()
	if c.places[i] != nil {
		return c.places[i]
	}
	if at := c.program.replaces[i]; at >= 0 {
		return c.inputs[at]
	}
	t := c.outputs[i]
	shape, data, err := b.call.Output(i)
	if err != nil {
		return nil
	}
	if t == nil || !slices.Equal(t.shape, shape) || len(data) > 0 &&
		unsafe.SliceData(data) != unsafe.SliceData(t.Bytes()) {
		p := c.program.compiled.Program
		if t, err = outputOf(b.call, i, p.Tensors[p.Outputs[i].Tensor].DType, &c.use); err != nil {
			return nil
		}
		c.outputs[i] = t
	}
	return t
}

// Close returns the call to the program. It does not wait for a run: the call is then returned when the run ends.
// Closing twice is allowed.
func (c *Call) Close() error {
	c.use.Shut()
	return nil
}

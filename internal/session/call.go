package session

import (
	"context"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Call is a run with bound dimensions, inputs and outputs, as weir.Call.
type Call struct {
	session *Session
	use     mem.Gate[*bound] // shut by Close; the last user returns the call to the program
	alone   sync.Mutex       // held by the goroutine that uses the call
	inputs  []*Tensor        // lent; nil until bound, or made by Input
	outputs []*Tensor        // by output: the tensor that Output made in memory of the call, or nil
	places  []*Tensor        // by output: the caller's tensor that it is written to, or nil
	refused error            // the error of the last allocation by Input
	// disjoint reports that statesApart has found no state that shares memory with another input.
	disjoint bool

	parting []*parted // the inputs that the next run consumes
	took    bool      // the run has taken them

	data    []*tensor.Tensor // the elements of the inputs, then of the places, while a run uses them
	entered int              // data[:entered] is in use
	lent    []lent           // the states that lie on a device, while a run uses them
	held    int              // the states among inputs[:held] are reserved, by update
}

// enter gives one goroutine access to the call's memory until leave; others wait. ok is false if the call is closed.
func (c *Call) enter() (b *bound, ok bool) {
	if b, ok = c.use.Enter(); ok {
		c.alone.Lock()
	}
	return b, ok
}

// try is enter, but returns an error instead of waiting.
func (c *Call) try() (*bound, error) {
	b, ok := c.use.Enter()
	if !ok {
		return nil, diag.New(diag.ErrClosed, "the call is closed")
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

// NewCall makes a call with these dimensions, by public name, as weir.Program.NewCall does. All inputs and outputs are
// tensors of numbers, each with one port; methods of Call use one index for both.
func (s *Session) NewCall(d map[string]int64) (c *Call, err error) {
	defer diag.Recover(&err, "binding a call")
	for _, edges := range [][]signature.Edge{s.Inputs, s.Outputs} {
		for i, e := range edges {
			if info := e.Info; info.Form().Rank == sources.AnyRank {
				return nil, diag.Unsupportedf("a call bound to its memory; a run decides the rank of %s", info).AtTensor(info.Name).
					WithFix("give the dimensions ranges without 1, or of 1 alone, by Options.Dims; or use Program.Run")
			} else if !info.Simple() {
				return nil, diag.Unsupportedf("a call bound to its memory; %s is not a tensor of numbers", info).
					AtTensor(info.Name).WithFix("use Program.Run")
			} else if e.Parts[0] != i { // only an artefact that was not written by WriteTo has another order
				return nil, diag.Unsupportedf("a call of a program whose inputs and outputs are in another order than its " +
					"artefact lists them").AtTensor(info.Name).WithFix("use Program.Run")
			}
		}
	}
	dims := make([]int64, len(s.prog.Dims))
	for i, dim := range s.prog.Dims {
		v, ok := d[s.label(i)]
		if !ok && !dim.Data {
			return nil, diag.Inputf("dimension %s has no value", s.label(i)).AtDim(s.label(i)).WithFix("add Dims{%q: …}",
				s.label(i))
		}
		dims[i] = v
	}
	b, err := s.acquire(nil, dims)
	if err != nil {
		return nil, err
	}
	c = &Call{session: s, inputs: make([]*Tensor, len(s.Inputs)), outputs: make([]*Tensor, len(s.Outputs)),
		places: make([]*Tensor, len(s.Outputs)), data: make([]*tensor.Tensor, len(s.Inputs)+len(s.Outputs))}
	for i := range s.own {
		c.inputs[i] = s.own[i].tensor
	}
	c.use.Set(b, func() {
		s.drop(c)
		s.release(b)
	})
	s.hold(holder{c, "call", here()})
	return c, nil
}

// Input returns the tensor bound to an input, or makes one, as weir.Call.Input does.
func (c *Call) Input(name string) *Tensor {
	i, ok := c.session.Input(name)
	if !ok {
		return nil
	}
	b, ok := c.enter()
	if !ok {
		return nil
	}
	defer c.leave()
	if c.inputs[i] == nil {
		t := &c.session.prog.Tensors[c.session.prog.Inputs[i].Tensor]
		shape := make([]int64, len(t.Shape))
		for axis, e := range t.Shape {
			v, err := e.Eval(b.dim(c.session))
			if err != nil {
				return nil
			}
			shape[axis] = v
		}
		made, err := NewTensor(t.DType, shape)
		if err != nil {
			c.refused = err
			return nil
		}
		c.inputs[i], c.disjoint = made, false
	}
	return c.inputs[i]
}

// dim returns a function that looks up the size of a dimension in the call.
func (b *bound) dim(s *Session) func(name sym.Name) (int64, bool) {
	return func(name sym.Name) (int64, bool) {
		for i, d := range s.prog.Dims {
			if d.Name == name {
				return b.dims[i], true
			}
		}
		return 0, false
	}
}

// Bind lends a tensor to an input, or makes the program write an output to a tensor, as weir.Call.Bind does.
func (c *Call) Bind(name string, g Argument) (err error) {
	defer diag.Recover(&err, "binding an argument")
	b, err := c.try()
	if err != nil {
		return err
	}
	defer c.leave()
	s := c.session
	ports, edges := s.prog.Inputs, s.Inputs
	i, input := s.Input(name)
	if !input {
		if i = s.Output(name); i < 0 {
			return s.NoInput(name)
		}
		ports, edges = s.prog.Outputs, s.Outputs
	}
	info := edges[i].Info
	if input {
		if err := s.maySupply(info, g); err != nil {
			return err
		}
	} else if at := s.replaces[i]; at >= 0 {
		return diag.Inputf("the output is the state %s, which is updated in place", s.Inputs[at].Info.Name).AtTensor(name).
			WithFix("bind %s",
				s.Inputs[at].Info.Name)
	}
	if g.owner == donating || g.owner != lending && !input {
		return diag.Unsupportedf("a bound call that gives an argument away, which is gone after the first run").
			AtTensor(name).WithFix("use Program.Run, or bind the tensor to the output as well, which is then written in its " +
			"place")
	}
	if g.kind != sources.Tensor {
		return diag.Inputf("%s is given, %s is expected", g, info).AtTensor(name)
	}
	if g.lent != nil {
		return diag.Unsupportedf("a call bound to memory with strides").AtTensor(name).
			WithFix("bind a tensor of the memory (see Foreign), or use Program.Run")
	}
	t := g.tensors[0]
	inner, err := t.Enter()
	if err != nil {
		return diag.As(err, diag.ErrClosed).AtTensor(name)
	}
	defer t.Leave()
	if err := c.fits(b, info, ports[i].Tensor, t); err != nil {
		return err
	}
	if !input || g.owner == updating {
		if err := t.MayWrite(name); err != nil {
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

// bindInput binds a tensor to input i: for the next run only if the tensor is consumed, else for all that follow.
func (c *Call) bindInput(i int, t *Tensor, owner ownership) error {
	if owner == consuming && t.block == nil {
		return diag.Inputf("its memory is not its own, and cannot be consumed by a call").
			AtTensor(c.session.Inputs[i].Info.Name).
			WithFix("copy it into a tensor made by weir.New first")
	}
	c.keep(i)
	if c.inputs[i], c.disjoint = t, false; owner == consuming {
		c.parting = append(c.parting, &parted{t: t, port: i, owner: owner, output: -1})
	}
	return nil
}

// keep removes input i from the inputs that the next run consumes.
func (c *Call) keep(i int) {
	c.parting = slices.DeleteFunc(c.parting, func(a *parted) bool { return a.port == i })
}

// part takes the inputs that the run consumes from the caller: all of them, or none and an error.
func (c *Call) part() error {
	for _, a := range c.parting {
		name := c.session.Inputs[a.port].Info.Name
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
			return diag.Inputf("it is consumed while another goroutine closes it or gives it to another run").
				AtTensor(c.session.Inputs[a.port].Info.Name)
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

// bindOutput makes the program write output i to data, the memory of t.
func (c *Call) bindOutput(b *bound, i int, t *Tensor, data []byte) error {
	name := c.session.Outputs[i].Info.Name
	if uintptr(unsafe.Pointer(unsafe.SliceData(data)))%placeAlign != 0 {
		return diag.Inputf("its memory does not begin at a multiple of %d bytes", placeAlign).AtTensor(name).
			WithFix("make it by weir.New")
	}
	for k, other := range c.places {
		if k != i && other != nil && sharing(data, other.place()) {
			return diag.Inputf("it shares memory with what is bound to %s", c.session.Outputs[k].Info.Name).AtTensor(name)
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
	p := c.session.prog
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
			p.Outputs[k].Name).AtTensor(c.session.Inputs[i].Info.Name)
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
			if c.session.becomes[i] >= 0 && k != i && overlap(t, other) {
				return diag.Inputf("it is updated, and bound to %s too", c.session.Inputs[k].Info.Name).
					AtTensor(c.session.Inputs[i].Info.Name)
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
			return diag.Inputf("no value is bound to it").AtTensor(c.session.Inputs[i].Info.Name)
		}
		inner, ok := t.enter()
		if !ok {
			return diag.New(diag.ErrClosed, "the tensor bound to it is closed, or was given away").
				AtTensor(c.session.Inputs[i].Info.Name)
		}
		c.data[i], c.entered = inner, i+1
		owner := lending
		if c.session.becomes[i] >= 0 {
			owner = updating
		}
		if err := c.session.fetchArgument(owner, c.session.Inputs[i], t, inner); err != nil {
			return err
		}
	}
	for i, t := range c.places {
		if t != nil {
			inner, ok := t.enter()
			if !ok {
				return diag.New(diag.ErrClosed, "the tensor bound to it is closed, or was given away").
					AtTensor(c.session.Outputs[i].Info.Name)
			}
			c.data[len(c.inputs)+i] = inner
			if err := t.stays.fetch(inner, writing); err != nil {
				t.Leave()
				return err
			}
		}
		c.entered = len(c.inputs) + i + 1
	}
	return nil
}

// hold reserves the states for this call's run; free ends that.
func (c *Call) hold() error {
	for i, t := range c.data[:len(c.inputs)] {
		if c.session.becomes[i] < 0 {
			continue
		}
		if err := update(t.Bytes(), c.session.Inputs[i].Info.Name); err != nil {
			return err
		}
		c.held = i + 1
	}
	return nil
}

// free ends the use of states and arguments after a run.
func (c *Call) free() {
	for i, t := range c.data[:c.held] {
		if c.session.becomes[i] >= 0 {
			updated(t.Bytes())
		}
	}
	for i := range c.entered {
		if c.data[i] == nil {
			continue
		}
		c.data[i] = nil
		if i < len(c.inputs) {
			c.inputs[i].Leave()
		} else {
			c.places[i-len(c.inputs)].Leave()
		}
	}
	if c.held, c.entered = 0, 0; c.took {
		c.consumed()
	}
}

// RunOn binds tensors to all inputs, none of which is a state, and all outputs, and runs the call: at(i) is the tensor
// of the i-th of them, inputs first, and count their number.
func (c *Call) RunOn(count int, at func(i int) *Tensor) error {
	return c.run(context.Background(), func(b *bound) error { return c.lend(b, count, at) })
}

// lend enters tensors and binds them to the inputs and outputs.
func (c *Call) lend(b *bound, count int, at func(i int) *Tensor) error {
	if count != len(c.data) {
		return diag.Internalf("%d tensors for %d inputs and outputs", count, len(c.data))
	}
	n := len(c.inputs)
	for i := range c.inputs {
		c.inputs[i] = at(i)
	}
	for i := range c.places {
		c.places[i] = at(n + i)
	}
	if err := c.arguments(); err != nil {
		return err
	}
	s := c.session
	for i := range c.inputs {
		if err := c.fits(b, s.Inputs[i].Info, s.prog.Inputs[i].Tensor, c.inputs[i]); err != nil {
			return err
		}
	}
	for i, t := range c.places {
		if err := c.fits(b, s.Outputs[i].Info, s.prog.Outputs[i].Tensor, t); err != nil {
			return err
		}
		if err := c.bindOutput(b, i, t, c.data[n+i].Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// fits returns an error unless t has the element type and shape of the program's tensor with index at. info describes
// the input or output, for the error.
func (c *Call) fits(b *bound, info signature.Info, at int, t *Tensor) error {
	want := &c.session.prog.Tensors[at]
	if t.dtype != want.DType || len(t.shape) != len(want.Shape) {
		return diag.Inputf("%s is given, %s is expected", t, info).AtTensor(info.Name)
	}
	for axis, e := range want.Shape {
		v, err := e.Eval(b.dim(c.session))
		if err != nil || v != t.shape[axis] {
			return diag.Inputf("axis %d of %s is not the %d that the call is bound to", axis, t, v).AtTensor(info.Name)
		}
	}
	return nil
}

// Run runs the call on its inputs. It overwrites the outputs of the previous run, and updates states in place.
func (c *Call) Run(ctx context.Context) error {
	return c.run(ctx, func(*bound) error { return c.arguments() })
}

// run calls enter, which enters the tensors that the call is bound to, and runs the call on them.
func (c *Call) run(ctx context.Context, enter func(b *bound) error) (err error) {
	defer c.session.Counts.Ended(&err)
	defer diag.Recover(&err, "running")
	b, err := c.try()
	if err != nil {
		return err
	}
	defer c.leave()
	defer c.free()
	if err = enter(b); err == nil {
		err = c.start(ctx, b)
	}
	return err
}

// start runs the call on arguments that are entered.
func (c *Call) start(ctx context.Context, b *bound) (err error) {
	for i := range c.inputs {
		if err := c.apart(i); err != nil {
			return err
		}
	}
	if err := c.statesApart(); err != nil {
		return err
	}
	if err := c.hold(); err != nil {
		return err
	}
	c.lent = c.lent[:0]
	defer func() { returnAll(c.lent, b.call) }()
	for i := range c.inputs {
		stays := false
		if c.lent, stays, err = c.session.lendState(b.call, i, c.inputs[i], c.data[i].Bytes(), c.lent); err != nil {
			return err
		}
		if stays {
			continue
		}
		data := c.data[i].Bytes()
		if err := b.call.Input(i, unsafe.Pointer(unsafe.SliceData(data)), int64(len(data))); err != nil {
			return err
		}
	}
	if err := c.session.Unchanged(); err != nil {
		return err
	}
	if len(c.parting) > 0 {
		if err := c.part(); err != nil {
			return err
		}
		c.consume(b)
	}
	defer c.session.Counts.busy(time.Now())
	return c.session.torn(b.call.Run(ctx), b.call)
}

// Output returns an output of the last run, as weir.Call.Output does.
func (c *Call) Output(name string) *Tensor {
	i := c.session.Output(name)
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
	if at := c.session.replaces[i]; at >= 0 {
		return c.inputs[at]
	}
	t := c.outputs[i]
	shape, data, err := b.call.Output(i)
	if err != nil {
		return nil
	}
	if t == nil || !slices.Equal(t.shape, shape) || len(data) > 0 &&
		unsafe.SliceData(data) != unsafe.SliceData(t.place()) {
		p := c.session.prog
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

package array

import (
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/traced"
)

// compiled is a program with its bound calls.
type compiled struct {
	key           string
	model         *weir.Model
	program       *weir.Program
	inputs        []string
	types         []weir.DType
	states        []bool       // by input: whether it is updated in place
	outputs       []port       // outputs that are not states
	named         bool         // inputs have named extents
	dataDependent bool         // data decide outputs' sizes
	updates       bool         // there are states
	held          atomic.Int64 // upper bound of the bytes that it holds, without its calls' outputs
	bytes         int64        // the part of held that the cache has counted
	users         int
	gone          bool
	element       *list.Element

	slots    chan struct{} // one for each run that is active
	mu       sync.Mutex
	bindings []*binding // the most recently used first
	open     int        // calls
	most     int        // the maximum of open so far: the program keeps the memory of as many
	largest  int64      // the largest call in bytes; if data decide sizes, the most that a run read and returned
}

// port is an output.
type port struct {
	name  string
	dtype weir.DType
}

// binding is a set of values of a program's named extents, with the unused calls that are bound to them.
type binding struct {
	key    string
	dims   weir.Dims
	bytes  int64   // arena and scratch of a call; −1 if data decide their size
	shapes [][]int // of the outputs
	free   []*call
}

// call is a call of a binding.
type call struct {
	call    *weir.Call
	of      *binding
	tensors []any          // the arguments of a run
	numbers []*weir.Tensor // by input: the call's memory for a number
}

// number writes a number into the call's memory for input i, and returns it as a tensor.
func (k *call) number(i int, dt weir.DType, x float64) (*weir.Tensor, error) {
	for len(k.numbers) <= i {
		k.numbers = append(k.numbers, nil)
	}
	if k.numbers[i] == nil {
		t, err := traced.Number(dt)
		if err != nil {
			return nil, err
		}
		k.numbers[i] = t.(*weir.Tensor)
	}
	store(dt, k.numbers[i].Bytes(), x)
	return k.numbers[i], nil
}

// run runs a call, and writes its results. An input that is nil is a number.
func (c *compiled) run(k *call, in []*weir.Tensor, numbers []float64, out []*Array) error {
	if c.updates {
		return c.runBound(k, in, out)
	}
	k.tensors = k.tensors[:0]
	for i, t := range in {
		if t == nil {
			var err error
			if t, err = k.number(i, c.types[i], numbers[i]); err != nil {
				return err
			}
		}
		k.tensors = append(k.tensors, t)
	}
	for _, a := range out {
		k.tensors = append(k.tensors, a.tensor)
	}
	err := traced.Run(k.call, k.tensors)
	clear(k.tensors)
	return err
}

// runBound is run for a program with states, whose new values are not among the results.
func (c *compiled) runBound(k *call, in []*weir.Tensor, out []*Array) error {
	return c.runWith(k, len(in), func(i int) weir.Arg { return c.argument(i, in[i]) }, out)
}

// argument returns a tensor as an argument for input i.
func (c *compiled) argument(i int, t *weir.Tensor) weir.Arg {
	if c.states[i] {
		return weir.Update(t)
	}
	return t
}

// runWith is runBound with arguments that arg returns. It binds outputs first: if one is refused, no argument is
// consumed.
func (c *compiled) runWith(k *call, inputs int, arg func(i int) weir.Arg, out []*Array) error {
	for i, a := range out {
		if err := k.call.Bind(c.outputs[i].name, a.tensor); err != nil {
			return err
		}
	}
	for i := range inputs {
		if err := k.call.Bind(c.inputs[i], arg(i)); err != nil {
			return err
		}
	}
	return k.call.Run(context.Background())
}

// mostBindings is the number of bindings of a program whose calls are kept.
const mostBindings = 8

// compile makes a program of a module. At most o.Calls of its runs are active at once; others wait. If once is true,
// the module is of use for nothing else.
func compile(m *ir.Module, where string, o weir.Options, once bool) (*compiled, error) {
	runs := max(1, o.Calls)
	loaded, err := traced.Load(where, m, once)
	if err != nil {
		return nil, err
	}
	model := loaded.(*weir.Model)
	p, err := weir.Compile(context.Background(), model, o)
	if err != nil {
		model.Close()
		return nil, err
	}
	c := &compiled{model: model, program: p, slots: make(chan struct{}, runs)}
	c.held.Store(c.fixed())
	names := c.readInputs()
	for _, out := range p.Outputs() {
		if slices.ContainsFunc(p.Inputs(), func(in weir.Info) bool { return in.State == out.Name }) {
			continue
		}
		c.outputs = append(c.outputs, port{out.Name, out.DType})
		c.dataDependent = c.dataDependent || data(out, names)
	}
	return c, nil
}

// readInputs records the program's inputs, and returns the names of their extents.
func (c *compiled) readInputs() (names []string) {
	for _, in := range c.program.Inputs() {
		c.inputs, c.states = append(c.inputs, in.Name), append(c.states, in.State != "")
		c.types = append(c.types, in.DType)
		c.updates = c.updates || in.State != ""
		for _, e := range in.Shape {
			if e.Dim != "" {
				c.named, names = true, append(names, e.Dim)
			}
		}
	}
	return names
}

// data reports whether an output has an extent that depends on more than the inputs' extents.
func data(out weir.Info, names []string) bool {
	for _, e := range out.Shape {
		if e.Dim == "" {
			continue
		}
		expr, err := sym.Parse(e.Dim)
		if err != nil || slices.ContainsFunc(expr.Vars(), func(v sym.Name) bool {
			return !slices.Contains(names, sym.Var(v).String())
		}) {
			return true
		}
	}
	return false
}

// take returns an unused call for inputs of these shapes. It waits until one is free; give returns it.
func (c *compiled) take(in []*weir.Tensor) (*call, error) {
	c.slots <- struct{}{}
	k, err := c.find(in)
	if err != nil {
		<-c.slots
	}
	return k, err
}

// find returns a call of the binding for inputs of these shapes.
func (c *compiled) find(in []*weir.Tensor) (*call, error) {
	var buffer [64]byte
	key := buffer[:0]
	if c.named {
		key = shapesKey(key, in)
	}
	c.mu.Lock()
	b := c.front(key)
	if b == nil {
		c.mu.Unlock()
		return c.bind(string(key), in)
	}
	if n := len(b.free); n > 0 {
		k := b.free[n-1]
		b.free = b.free[:n-1]
		c.mu.Unlock()
		return k, nil
	}
	c.mu.Unlock()
	made, err := c.newCall(b)
	return &call{call: made, of: b}, err
}

// front returns the binding of a key, and moves it to the front; nil if there is none.
func (c *compiled) front(key []byte) *binding {
	for i, b := range c.bindings {
		if b.key == string(key) {
			copy(c.bindings[1:i+1], c.bindings[:i])
			c.bindings[0] = b
			return b
		}
	}
	return nil
}

// shapesKey appends the shapes of tensors to a key.
func shapesKey(b []byte, in []*weir.Tensor) []byte {
	for _, t := range in {
		if t == nil { // a number
			continue
		}
		for _, e := range t.Shape() {
			b = binary.AppendUvarint(b, uint64(e))
		}
	}
	return b
}

// bind makes a binding for inputs of these shapes, and its first call.
func (c *compiled) bind(key string, in []*weir.Tensor) (*call, error) {
	b := &binding{key: key, dims: weir.Dims{}}
	for i, info := range c.program.Inputs() {
		if in[i] == nil {
			continue
		}
		shape := in[i].Shape()
		for axis, e := range info.Shape {
			if e.Dim != "" && axis < len(shape) {
				b.dims[e.Dim] = int64(shape[axis])
			}
		}
	}
	for _, out := range c.program.Outputs() {
		if !slices.ContainsFunc(c.outputs, func(o port) bool { return o.name == out.Name }) {
			continue
		}
		shape, err := b.shape(out)
		if err != nil {
			return nil, err
		}
		b.shapes = append(b.shapes, shape)
	}
	b.size(c.program.Memory())
	made, err := c.newCall(b)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bindings = slices.Insert(c.bindings, 0, b)
	if n := len(c.bindings); n > mostBindings {
		c.closeFree(c.bindings[n-1])
		c.bindings = c.bindings[:n-1]
	}
	return &call{call: made, of: b}, nil
}

// shape returns an output's shape at the values of the named extents.
func (b *binding) shape(out weir.Info) ([]int, error) {
	shape := make([]int, len(out.Shape))
	for i, e := range out.Shape {
		if shape[i] = int(e.Size); e.Dim == "" {
			continue
		}
		expr, err := sym.Parse(e.Dim)
		if err != nil {
			return nil, diag.Internalf("extent %q of %s: %v", e.Dim, out.Name, err)
		}
		v, err := expr.Eval(func(name sym.Name) (int64, bool) { v, ok := b.dims[sym.Var(name).String()]; return v, ok })
		if err != nil {
			return nil, diag.Internalf("extent %q of %s: %v", e.Dim, out.Name, err)
		}
		shape[i] = int(v)
	}
	return shape, nil
}

// newCall makes a call of a binding. If the program has no more calls, newCall closes unused ones first. There are
// fewer calls in use than slots, so that a call becomes available.
func (c *compiled) newCall(b *binding) (made *weir.Call, err error) {
	for range mostTries {
		if made, err = c.program.NewCall(b.dims); err == nil {
			c.opened(b)
		}
		if !errors.Is(err, diag.ErrTaken) {
			return made, err
		}
		c.mu.Lock()
		for _, b := range c.bindings {
			c.closeFree(b)
		}
		c.mu.Unlock()
		runtime.Gosched()
	}
	return nil, err
}

// mostTries is the number of attempts of newCall, since other goroutines may take a call first.
const mostTries = 1 << 16

// give returns a call, or closes it if its binding is no longer kept.
func (c *compiled) give(used *call) {
	c.mu.Lock()
	if used.of.bytes < 0 {
		c.held.Store(max(c.held.Load(), c.program.Stats().Bytes))
	}
	if !c.gone && slices.Contains(c.bindings, used.of) {
		used.of.free = append(used.of.free, used)
	} else {
		used.call.Close()
		c.open--
	}
	c.mu.Unlock()
	<-c.slots
}

// closeFree closes a binding's unused calls. The caller holds the lock.
func (c *compiled) closeFree(b *binding) {
	for _, k := range b.free {
		k.call.Close()
	}
	c.open -= len(b.free)
	b.free = nil
}

// opened counts a new call. The program keeps the memory of closed calls for later ones.
func (c *compiled) opened(b *binding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	c.most, c.largest = max(c.most, c.open), max(c.largest, b.bytes)
	c.held.Store(max(c.held.Load(), c.fixed()+int64(c.most)*c.largest))
}

// heldBy updates held for a program whose sizes data decide, after its largest run so far, measured by the bytes that
// it read and returned.
func (c *compiled) heldBy(given int64, r *weir.Results) {
	bytes := given + 1
	for _, o := range c.outputs {
		bytes += int64(len(r.Get(o.name).Bytes()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes > c.largest {
		c.largest = bytes
		c.held.Store(max(c.held.Load(), c.program.Stats().Bytes))
	}
}

// fixed returns the program's bytes without calls.
func (c *compiled) fixed() (bytes int64) {
	m := c.program.Memory()
	for _, part := range []weir.Size{m.Weights, m.Code} {
		if v, err := part.At(nil); err == nil {
			bytes += v
		}
	}
	return bytes
}

// size sets a call's bytes, if the inputs' extents determine them.
func (b *binding) size(m *weir.Memory) {
	arena, err := m.Arena.At(b.dims)
	scratch, other := m.Scratch.At(b.dims)
	if b.bytes = arena + int64(m.Workers)*scratch; err != nil || other != nil {
		b.bytes = -1
	}
}

// close closes the unused calls and the program.
func (c *compiled) close() error {
	c.mu.Lock()
	for _, b := range c.bindings {
		c.closeFree(b)
	}
	c.bindings = nil
	c.mu.Unlock()
	err := c.program.Close()
	c.model.Close()
	return err
}

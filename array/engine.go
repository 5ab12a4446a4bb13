package array

import (
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/traced"
)

// operation is an operation on arrays: its name, all that determines its code besides its operands, and the function
// that builds it. Operations with equal name, ints, text and settings build the same code for operands of equal types.
type operation struct {
	name string
	ints []int
	text string
	// absent: operands may be nil.
	absent bool
	// located: its errors contain their position already, so the operands are not added.
	located bool
	build   func(b *ir.Builder, in []*ir.Value) []*ir.Value
	settings
}

// one applies an operation with one result.
func (s *Scope) one(o operation, in ...*Array) *Array { return s.apply(&o, 1, in)[0] }

// many applies an operation with any number of results.
func (s *Scope) many(o operation, results int, in ...*Array) []*Array {
	return s.apply(&o, results, in)
}

// apply runs an operation, or adds it to the trace. A nil operand is absent. After an error the results are arrays
// without elements.
func (s *Scope) apply(o *operation, results int, in []*Array) []*Array {
	if s.stopped() {
		return s.none(results)
	}
	for _, a := range in {
		if (a != nil || !o.absent) && a.dead(s, o.name) {
			return s.none(results)
		}
	}
	in = s.typed(in)
	out, err := s.run(o, in)
	for _, a := range in {
		if a != nil && a.temp && s.trace == nil {
			a.Close()
		}
	}
	if err != nil {
		if !o.located {
			err = withOperands(err, in)
		}
		s.failAt(o.name, err)
		return s.none(results)
	}
	return out
}

// withOperands adds the operands' types to an error of the input.
func withOperands(err error, in []*Array) error {
	e := diag.As(err, weir.ErrInput)
	if !errors.Is(e, weir.ErrInput) || len(in) == 0 {
		return err
	}
	var list []string
	for _, a := range in {
		list = append(list, a.String())
	}
	c := *e
	c.Node = ""
	c.Detail += "; the operands are " + strings.Join(list, ", ")
	return &c
}

// run runs an operation, or adds it to the trace; a panic becomes an error.
func (s *Scope) run(o *operation, in []*Array) (out []*Array, err error) {
	defer diag.Recover(&err, "computing "+o.name)
	if s.trace != nil {
		return s.trace.apply(s, o, in)
	}
	return s.eager(o, in)
}

// none returns results without elements, for an operation that failed.
func (s *Scope) none(results int) []*Array {
	var why error
	if s.mu.Lock(); s.capped {
		why = s.latest
	}
	s.mu.Unlock()
	out := make([]*Array, results)
	for i := range out {
		out[i] = &Array{why: why}
		out[i].owner.Store(s)
	}
	return out
}

// eager runs an operation immediately.
func (s *Scope) eager(o *operation, in []*Array) ([]*Array, error) {
	var buffer [256]byte
	key := o.key(buffer[:0], in)
	tensors := make([]*weir.Tensor, 0, 4)
	for _, a := range in {
		if a != nil {
			tensors = append(tensors, a.tensor)
		}
	}
	p := programs.find(key)
	if p == nil {
		if v := o.formFor(in); v != nil {
			if out, done, err := s.eagerNamed(o, in, v, tensors); done {
				return out, err
			}
		}
		var err error
		if p, err = programs.get(key, func() (*ir.Module, error) { return o.module(in) }); err != nil {
			return nil, err
		}
	}
	defer programs.done(p)
	return s.launch(p, tensors, nil)
}

// again runs an operation with one result if a compiled program for these operand types is in the cache; it returns nil
// if there is none or the operands need more care. It is the fast path of repeated operations: it needs no description
// of how to build the operation. Numbers among the operands are written into the call's memory.
func (s *Scope) again(name string, ints []int, in ...*Array) *Array {
	var run rerun
	if s.trace != nil || s.stopped() || !run.read(in) {
		return nil
	}
	var buffer [256]byte
	p := programs.find(run.key(buffer[:0], name, ints, in))
	if p == nil {
		return nil
	}
	defer programs.done(p)
	if p.dataDependent || len(p.outputs) != 1 {
		return nil
	}
	var frames [4]uintptr // often the last of them is the user's
	at := among(frames[:runtime.Callers(2, frames[:])])
	var out [1]*Array
	if err := s.launchAt(at, p, run.tensors[:len(in)], run.numbers[:len(in)], out[:]); err != nil {
		s.failAt(name, withOperands(err, in))
		return s.Dead()
	}
	return out[0]
}

// rerun is the operands of an operation that was compiled before.
type rerun struct {
	tensors [4]*weir.Tensor // nil: a number
	numbers [4]float64
	types   [4]weir.DType
}

// read records the operands. It returns false if they need the general path.
func (r *rerun) read(in []*Array) bool {
	if len(in) > len(r.tensors) {
		return false
	}
	like := weir.InvalidDType
	for i, a := range in {
		switch {
		case a == nil || a.closed.Load() || a.temp || a.tensor == nil && !a.weak || a.of != nil:
			return false
		case a.weak:
			continue
		case like == weir.InvalidDType || like == weir.Bool:
			like = a.dtype
		case a.dtype != like && a.dtype != weir.Bool:
			dt, err := Promote(like, a.dtype)
			if err != nil {
				return false
			}
			like = dt
		}
		a.touch()
		r.tensors[i], r.types[i] = a.tensor, a.dtype
	}
	if like == weir.Bool {
		like = weir.InvalidDType
	}
	for i, a := range in {
		if a.weak {
			r.types[i], r.numbers[i] = numberType(like, a.number), a.number
		}
	}
	return true
}

// key appends the operation's cache key for the operands.
func (r *rerun) key(b []byte, name string, ints []int, in []*Array) []byte {
	o := operation{name: name, ints: ints}
	b = o.begin(b)
	for i, a := range in {
		b = keyOf(b, r.types[i], a.shape)
	}
	return b
}

// launch runs a program; nil inputs are numbers. The scope owns the results.
func (s *Scope) launch(p *compiled, in []*weir.Tensor, numbers []float64) ([]*Array, error) {
	if p.dataDependent {
		return launchDataDependent(p, func(int) *Scope { return s }, func(i int) weir.Arg { return p.argument(i, in[i]) })
	}
	out := make([]*Array, len(p.outputs))
	return out, s.launchAt(here(), p, in, numbers, out)
}

// launchAt runs a program whose output sizes are known, on behalf of a user's line, and sets out to the results. An
// input that is nil is a number.
func (s *Scope) launchAt(at site, p *compiled, in []*weir.Tensor, numbers []float64, out []*Array) error {
	if err := s.enter(at); err != nil {
		return err
	}
	defer s.leave()
	c, err := p.take(in)
	if err != nil {
		return err
	}
	defer p.give(c)
	if err = s.results(at, p, c, out); err == nil {
		err = p.run(c, in, numbers, out)
	}
	if err != nil {
		for _, a := range out {
			a.Close()
		}
	}
	return err
}

// results makes the arrays that a run writes.
func (s *Scope) results(at site, p *compiled, c *call, out []*Array) (err error) {
	for i, o := range p.outputs {
		if out[i], err = s.emptyAt(at, o.dtype, c.of.shapes[i], false); err != nil {
			return err
		}
	}
	return nil
}

// launchDataDependent runs a program whose output sizes depend on data.
func launchDataDependent(p *compiled, owner func(i int) *Scope, arg func(i int) weir.Arg) (out []*Array, err error) {
	args, given := weir.Inputs{}, int64(0)
	for i, name := range p.inputs {
		a := arg(i)
		if t, ok := a.(*weir.Tensor); ok {
			given += int64(len(t.Bytes()))
		}
		args[name] = a
	}
	r, err := p.program.Run(context.Background(), args)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p.heldBy(given, r)
	for i, o := range p.outputs {
		t := r.Get(o.name)
		a, err := owner(i).empty(t.DType(), t.Shape(), false)
		if err != nil {
			return out, err
		}
		copy(a.tensor.Bytes(), t.Bytes())
		out = append(out, a)
	}
	return out, nil
}

// empty returns a new array of the scope: zeros, or elements that the caller must write.
func (s *Scope) empty(dt weir.DType, shape []int, zeroed bool) (*Array, error) {
	at := here()
	if err := s.enter(at); err != nil {
		return nil, err
	}
	defer s.leave()
	return s.emptyAt(at, dt, shape, zeroed)
}

// emptyAt is empty on behalf of a user's line.
func (s *Scope) emptyAt(at site, dt weir.DType, shape []int, zeroed bool) (*Array, error) {
	a := &Array{dtype: dt, shape: shape, made: at}
	count, err := countOf(shape)
	if err != nil {
		return nil, err
	}
	if a.bytes, err = dt.Bytes(count); err != nil {
		return nil, err
	}
	if err := s.room(a.bytes); err != nil {
		return nil, err
	}
	t, err := traced.New(dt, shape, a.made[0], zeroed)
	if err == nil {
		a.tensor = t.(*weir.Tensor)
		if err = s.own(a); err != nil {
			a.tensor.Close()
		}
	}
	if err != nil {
		s.grow(-a.bytes)
		return nil, err
	}
	return a, nil
}

// countOf returns the number of elements of a shape.
func countOf(shape []int) (int64, error) {
	sizes := make([]int64, len(shape))
	for i, e := range shape {
		sizes[i] = int64(e)
	}
	return tensor.Count(sizes)
}

// key appends the cache key: all that determines the operation's code, with the types of its operands.
func (o *operation) key(b []byte, in []*Array) []byte {
	b = o.settings.key(o.begin(b))
	for _, a := range in {
		if a == nil {
			b = append(b, 0xff)
			continue
		}
		b = keyOf(b, a.dtype, a.shape)
	}
	return b
}

// begin appends the key's beginning, which depends on the operation alone.
func (o *operation) begin(b []byte) []byte {
	b = append(append(append(b, o.name...), 0), o.text...)
	b = append(b, 0)
	for _, i := range o.ints {
		b = binary.AppendVarint(b, int64(i))
	}
	return b
}

// keyOf appends an operand's type and shape to a key.
func keyOf(b []byte, dt weir.DType, shape []int) []byte {
	b = append(b, 0xfe, byte(dt), byte(len(shape)))
	for _, e := range shape {
		b = binary.AppendUvarint(b, uint64(e))
	}
	return b
}

// module builds a module with only the operation, for the operands' shapes.
func (o *operation) module(in []*Array) (*ir.Module, error) {
	return o.moduleOf(in, func(_ *trace, a *Array) ([]sym.Expr, error) {
		shape := make([]int64, len(a.shape))
		for k, e := range a.shape {
			shape[k] = int64(e)
		}
		return ir.Constants(shape), nil
	}, o.settings.fixed)
}

// moduleOf builds a module with only the operation. shapeOf returns the operands' shapes, settled the settings.
func (o *operation) moduleOf(in []*Array, shapeOf func(t *trace, a *Array) ([]sym.Expr, error),
	settled func(t *trace) ([]sym.Expr, []number, error)) (m *ir.Module, err error) {
	defer ir.Catch(&err)
	t := newTrace(o.name)
	values := make([]*ir.Value, len(in))
	for i, a := range in {
		if a == nil {
			continue
		}
		shape, err := shapeOf(t, a)
		if err != nil {
			return nil, err
		}
		v := &ir.Value{Name: t.b.Name(fmt.Sprintf("x%d", i)), Type: ir.Type{DType: a.dtype, Shape: shape}}
		t.body.Params = append(t.body.Params, v)
		values[i] = v
	}
	sizes, numbers, err := settled(t)
	if err != nil {
		return nil, err
	}
	t.b.Source = o.name
	for i, v := range o.made(t.b, values, sizes, numbers) {
		v = same(t.b, v)
		v.Name = t.b.Name(fmt.Sprintf("y%d", i))
		t.body.Results = append(t.body.Results, v)
	}
	return t.b.Module, nil
}

// cache holds compiled operations within a limit of bytes; it drops the least recently used.
type cache struct {
	mu     sync.Mutex
	of     map[string]*compiled
	order  list.List // the program used last in front
	bytes  int64
	most   int64
	hits   int64
	misses int64
}

var programs = &cache{of: map[string]*compiled{}, most: 64 << 20}

// leastProgram is the least number of bytes that the cache counts for a program, because each takes some of Go's heap.
const leastProgram = 4 << 10

// CacheLimit sets the maximum number of bytes that compiled operations of all scopes, with the memory of their runs,
// keep between uses. It returns the previous limit; the initial limit is 64 MiB. With 0, a program is freed as soon as
// it is not in use.
func CacheLimit(bytes int64) (before int64) {
	c := programs
	c.mu.Lock()
	before, c.most = c.most, bytes
	out := c.trim()
	c.mu.Unlock()
	for _, p := range out {
		p.close()
	}
	return before
}

// find returns a program from the cache, which the caller releases by done; nil if there is none.
func (c *cache) find(key []byte) *compiled {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.of[string(key)]
	if p != nil {
		p.users++
		c.hits++
		c.order.MoveToFront(p.element)
	}
	return p
}

// get returns a program from the cache, or compiles the module that build returns. The caller releases it by done.
func (c *cache) get(key []byte, build func() (*ir.Module, error)) (*compiled, error) {
	if p := c.find(key); p != nil {
		return p, nil
	}
	m, err := build()
	if err != nil {
		return nil, err
	}
	p, err := compile(m, "", weir.Options{Calls: max(4, runtime.GOMAXPROCS(0))}, true)
	if err != nil {
		return nil, err
	}
	p.key, p.users = string(key), 1
	return c.put(p), nil
}

// put adds a program, and drops the least recently used.
func (c *cache) put(p *compiled) *compiled {
	c.mu.Lock()
	var out []*compiled
	defer func() {
		c.mu.Unlock()
		for _, p := range out {
			p.close()
		}
	}()
	c.misses++
	if other := c.of[p.key]; other != nil { // another goroutine was first
		other.users++
		out = append(out, p)
		return other
	}
	c.of[p.key] = p
	p.element = c.order.PushFront(p)
	c.count(p)
	out = c.trim()
	return p
}

// CacheState is the state of the cache of compiled operations: see CacheStats.
type CacheState struct {
	Programs     int
	Bytes, Limit int64
	Hits, Misses int64 // since the process began
}

// CacheStats returns the number and bytes of the compiled operations in the cache, of all scopes together. An
// operation's bytes are its memory outside Go's heap, which is also part of weir.Usage, or 4 KiB if that is more, for
// the part of it in Go's heap.
func CacheStats() CacheState {
	c := programs
	c.mu.Lock()
	defer c.mu.Unlock()
	return CacheState{Programs: len(c.of), Bytes: c.bytes, Limit: c.most, Hits: c.hits, Misses: c.misses}
}

// trim drops programs until the cache is within its limit. It returns the programs to close; programs in use are closed
// by their last user.
func (c *cache) trim() (out []*compiled) {
	for c.bytes > c.most && c.order.Len() > 0 {
		p := c.order.Remove(c.order.Back()).(*compiled)
		delete(c.of, p.key)
		c.bytes -= p.bytes
		if p.gone = true; p.users == 0 {
			out = append(out, p)
		}
	}
	return out
}

// count updates the bytes that the cache counts for a program. The caller holds the lock.
func (c *cache) count(p *compiled) {
	now := max(leastProgram, p.held.Load())
	c.bytes += now - p.bytes
	p.bytes = now
}

// done ends a use of a program.
func (c *cache) done(p *compiled) {
	c.mu.Lock()
	var out []*compiled
	if p.users--; p.gone {
		if p.users == 0 {
			out = append(out, p)
		}
	} else if c.count(p); c.bytes > c.most {
		out = c.trim()
	}
	c.mu.Unlock()
	for _, p := range out {
		p.close()
	}
}

package loop

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// RaceError says that the roles of a kernel's block are not ordered as they must be.
type RaceError struct{ Kernel, Detail string }

// Error is one line.
func (e *RaceError) Error() string { return "kernel @" + e.Kernel + ": " + e.Detail }

// RandomOrder is an order for InterpretOrder, the same for the same seed.
func RandomOrder(seed uint64) func(choices int) int {
	state := seed*0x9E3779B97F4A7C15 + 0x2545F4914F6CDD1D
	return func(choices int) int {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		return int(state >> 33 % uint64(choices))
	}
}

// team is the roles of one block while they run, and the copies and contractions that they began. Roles are goroutines of
// which one at a time goes on; where they meet, the scheduler chooses. Whether two accesses are ordered is decided by vector
// clocks: each agent has a component, which grows when others may learn of what it did.
type team struct {
	kernel  *Kernel
	order   func(choices int) int
	agents  []*agent
	back    chan struct{} // a role hands control back
	failure any           // a role's panic
}

// agent is a role, or a copy or contraction under way, which has no goroutine but does its work when it is chosen.
type agent struct {
	team   *team
	name   string
	slot   int
	clock  []int64
	resume chan bool   // of a role: go on, or (false) end at once
	ready  func() bool // not nil: what a role waits for
	waits  string
	work   func() // of a copy or contraction
	after  *agent // must be done before work
	done   bool
	issued []*agent // a role's asynchronous contractions, in order
}

// ended is how a role's goroutine leaves when the team has failed.
type ended struct{}

func (t *team) add(name string, clock []int64) *agent {
	a := &agent{team: t, name: name, slot: len(t.agents), clock: slices.Clone(clock)}
	a.component(a.slot)
	a.clock[a.slot] = 1
	t.agents = append(t.agents, a)
	return a
}

// component makes room for a clock's component.
func (a *agent) component(slot int) {
	for len(a.clock) <= slot {
		a.clock = append(a.clock, 0)
	}
}

// join adds what another clock knows.
func (a *agent) join(clock []int64) { a.clock = joined(a.clock, clock) }

func joined(to, from []int64) []int64 {
	for len(to) < len(from) {
		to = append(to, 0)
	}
	for i, v := range from {
		to[i] = max(to[i], v)
	}
	return to
}

// knows reports whether what agent slot did up to its time is before what a does now.
func (a *agent) knows(slot int, time int64) bool {
	return slot == a.slot || slot < len(a.clock) && a.clock[slot] >= time
}

// yield lets another agent go on; a nil agent goes on.
func (a *agent) yield() {
	if a == nil || a.resume == nil {
		return
	}
	a.team.back <- struct{}{}
	if !<-a.resume {
		panic(ended{})
	}
}

// wait lets others go on until ready.
func (a *agent) wait(what string, ready func() bool) {
	a.waits, a.ready = what, ready
	a.yield()
	a.ready = nil
}

func (t *team) fail(format string, args ...any) {
	panic(failure{&RaceError{t.kernel.Name, fmt.Sprintf(format, args...)}})
}

// begin starts a role's goroutine, which waits to be chosen.
func (t *team) begin(a *agent, body func()) {
	a.resume = make(chan bool)
	diag.Go("a role", func() error {
		defer func() {
			r := recover()
			a.done = true
			if _, ok := r.(ended); ok {
				r = nil
			}
			if t.failure == nil {
				t.failure = r
			}
		}()
		if !<-a.resume {
			panic(ended{})
		}
		body()
		return nil
	}, func(error) { t.back <- struct{}{} })
}

// run chooses agents until all roles have ended.
func (t *team) run() {
	defer t.stop()
	for {
		var choices []*agent
		var waiting, under []string
		alive := false
		for _, a := range t.agents {
			switch {
			case a.done:
			case a.resume == nil:
				under = append(under, a.name)
				if a.after == nil || a.after.done {
					choices = append(choices, a)
				}
			case a.ready == nil || a.ready():
				alive = true
				choices = slices.Insert(choices, t.ready(choices), a)
			default:
				alive = true
				waiting = append(waiting, a.name+" waits for "+a.waits)
			}
		}
		if !alive {
			if under != nil {
				t.fail("the roles have ended while %v is under way", under)
			}
			return
		}
		if choices == nil {
			t.fail("nobody can go on: %v", waiting)
		}
		chosen := 0
		if t.order != nil {
			chosen = t.order(len(choices))
		}
		t.step(choices[chosen])
	}
}

// ready is the number of roles among the choices; they come first.
func (t *team) ready(choices []*agent) int {
	i := slices.IndexFunc(choices, func(a *agent) bool { return a.resume == nil })
	if i < 0 {
		return len(choices)
	}
	return i
}

func (t *team) step(a *agent) {
	if a.resume == nil {
		if a.after != nil {
			a.join(a.after.clock)
		}
		a.work()
		a.done = true
		return
	}
	a.resume <- true
	<-t.back
	if t.failure != nil {
		panic(t.failure)
	}
}

// stop ends the goroutines of roles that are still waiting.
func (t *team) stop() {
	for _, a := range t.agents {
		if a.resume != nil && !a.done {
			a.resume <- false
			<-t.back
		}
	}
}

// shadow remembers who touched the elements of a memory since its last write.
type shadow struct{ cells map[int64]*cell }

type cell struct {
	writer  stamp
	readers []stamp
}

// stamp is an agent at a time of its own clock; time 0 is nobody.
type stamp struct {
	slot int
	time int64
}

func newShadow() *shadow { return &shadow{cells: map[int64]*cell{}} }

func (s *shadow) clear() {
	if s != nil {
		clear(s.cells)
	}
}

// touch records an access of the running role and reports it where a conflicting one is not ordered before it.
func (m *memory) touch(f *frame, at int64, writing bool) {
	a := f.agent
	if a == nil {
		return
	}
	c := m.shadow.cells[at]
	if c == nil {
		c = &cell{}
		m.shadow.cells[at] = c
	}
	now := stamp{a.slot, a.clock[a.slot]}
	conflict := func(s stamp, did, does string) {
		if s.time != 0 && !a.knows(s.slot, s.time) {
			a.team.fail("race on element %d of %%%s: %s %s it and %s %s it, and nothing orders them", at, m.name, a.team.agents[s.slot].name, did, a.name, does)
		}
	}
	if !writing {
		conflict(c.writer, "writes", "reads")
		i := slices.IndexFunc(c.readers, func(s stamp) bool { return s.slot == a.slot })
		if i < 0 {
			c.readers = append(c.readers, now)
		} else {
			c.readers[i] = now
		}
		return
	}
	conflict(c.writer, "writes", "writes")
	for _, s := range c.readers {
		conflict(s, "reads", "writes")
	}
	c.writer, c.readers = now, c.readers[:0]
}

// barrier is one barrier of a token.
type barrier struct {
	name     string
	arrivals int64 // a phase takes
	phase    int64 // under way
	pending  int64 // arrivals still to come
	bytes    int64 // expected and not delivered
	sum      []int64
	last     []int64 // the clock at which the last phase completed
}

func (b *barrier) arrive(clock []int64, arrivals, bytes int64) {
	b.sum = joined(b.sum, clock)
	b.pending -= arrivals
	b.bytes += bytes
	if b.pending == 0 && b.bytes == 0 {
		b.phase++
		b.pending = b.arrivals
		b.last = slices.Clone(b.sum)
	}
}

func (c *resolver) token(s *Token) action {
	slot, count, arrivals := len(c.tokens), c.symbol(s.Count), c.symbol(s.Arrivals)
	c.tokens[s.Name] = slot
	return func(f *frame) {
		n := count(f)
		if n < 0 || n > maxBarriers {
			c.bug("token %%%s of %d barriers", s.Name, n)
		}
		f.tokens[slot] = make([]barrier, n)
		for i := range f.tokens[slot] {
			expected := arrivals(f)
			f.tokens[slot][i] = barrier{name: fmt.Sprintf("%%%s[%d]", s.Name, i), arrivals: expected, pending: expected}
		}
	}
}

// maxBarriers is more than any machine has.
const maxBarriers = 1 << 16

// barrier finds a barrier of a token for the running role.
func (c *resolver) barrier(name string, index sym.Expr) func(f *frame) *barrier {
	slot, ok := c.tokens[name]
	if !ok {
		c.bug("token %%%s is not declared", name)
	}
	at := c.symbol(index)
	return func(f *frame) *barrier {
		i := at(f)
		if uint64(i) >= uint64(len(f.tokens[slot])) {
			c.bug("barrier %d of token %%%s, which has %d", i, name, len(f.tokens[slot]))
		}
		c.role(f)
		return &f.tokens[slot][i]
	}
}

func (c *resolver) role(f *frame) *agent {
	if f.agent == nil {
		c.bug("a statement that belongs in a role stands outside roles")
	}
	return f.agent
}

func (c *resolver) roles(s *Roles) action {
	c.interpreter.roles = true
	type role struct {
		*Role
		slot   int
		count  integer
		locals []localPlace
		body   []action
	}
	var list []role
	for _, r := range s.List {
		one := role{Role: r, slot: c.integer(r.Var), count: c.symbol(r.Count)}
		Walk(r.Body, func(s Stmt) bool {
			if l, ok := s.(*Local); ok {
				one.locals = append(one.locals, c.local(l, nil))
			}
			return true
		})
		one.body = c.body(r.Body)
		list = append(list, one)
	}
	return func(f *frame) {
		if f.agent != nil {
			c.bug("roles inside a role")
		}
		t := &team{kernel: c.kernel, order: f.order, back: make(chan struct{})}
		for i := range f.memories {
			f.memories[i].shadow.clear()
		}
		for _, r := range list {
			for i := range r.count(f) {
				own := &frame{integers: slices.Clone(f.integers), scalars: slices.Clone(f.scalars), memories: slices.Clone(f.memories), tokens: slices.Clone(f.tokens), order: f.order, reversed: f.reversed}
				own.integers[r.slot] = i
				for _, l := range r.locals {
					own.memories[l.slot] = c.interpreter.own(l, f.integers[:len(c.kernel.Dims)])
				}
				own.agent = t.add(fmt.Sprintf("%s %d", r.Name, i), nil)
				t.begin(own.agent, func() { run(r.body, own) })
			}
		}
		t.run()
	}
}

// own is a role's local, in memory of its own.
func (x *Interpreter) own(l localPlace, dims []int64) memory {
	shape := make([]int64, len(l.shape))
	for i, extent := range l.shape {
		shape[i] = x.mustEval(extent, dims)
	}
	bytes, err := l.dt.Bytes(elements(shape))
	if err != nil {
		panic(failure{err})
	}
	m := x.memory(l.layout, l.name, make([]byte, bytes), dims)
	m.shadow = newShadow()
	return m
}

func (c *resolver) arrive(s *Arrive) action {
	at, bytes := c.barrier(s.Token, s.Index), c.symbol(s.Bytes)
	return func(f *frame) {
		b, a := at(f), f.agent
		a.yield()
		if b.pending < 1 {
			a.team.fail("%s arrives at %s, whose phase %d expects no more arrivals", a.name, b.name, b.phase)
		}
		clock := slices.Clone(a.clock)
		a.clock[a.slot]++
		b.arrive(clock, 1, bytes(f))
	}
}

func (c *resolver) wait(s *Wait) action {
	at, phase := c.barrier(s.Token, s.Index), c.symbol(s.Phase)
	return func(f *frame) {
		b, a, p := at(f), f.agent, phase(f)
		check := func() {
			if p < b.phase-1 || p > b.phase {
				a.team.fail("%s waits for phase %d of %s while phase %d is under way, which one bit of the number does not tell apart", a.name, p, b.name, b.phase)
			}
		}
		check()
		a.wait(fmt.Sprintf("phase %d of %s", p, b.name), func() bool { return b.phase > p })
		check()
		a.join(b.last)
	}
}

func (c *resolver) bulkCopy(s *BulkCopy) action {
	to, from := c.memory(s.To), c.memory(s.From)
	toIndex, fromIndex, box := c.symbols(s.ToIndex), c.symbols(s.FromIndex), c.symbols(s.Box)
	at := c.barrier(s.Token, s.At)
	return func(f *frame) {
		b, a := at(f), f.agent
		a.yield()
		here := f.during(a.team.add(fmt.Sprintf("the bulk copy %d to %%%s by %s", len(a.team.agents), s.To, a.name), a.clock))
		a.clock[a.slot]++
		evaluate := func(list []integer) []int64 {
			values := make([]int64, len(list))
			for i, get := range list {
				values[i] = get(f)
			}
			return values
		}
		target, source, extents := evaluate(toIndex), evaluate(fromIndex), evaluate(box)
		here.agent.work = func() {
			m := &here.memories[to]
			c.copyBox(here, m, &here.memories[from], target, source, extents)
			b.arrive(here.agent.clock, 0, -elements(extents)*int64(m.width)/8)
		}
	}
}

// during is the frame as it is now, for an agent that works later.
func (f *frame) during(a *agent) *frame {
	return &frame{integers: slices.Clone(f.integers), scalars: slices.Clone(f.scalars), memories: f.memories, tokens: f.tokens, agent: a}
}

func (c *resolver) copyBox(f *frame, to, from *memory, target, source, box []int64) {
	count := elements(box)
	for n := range count {
		write, read, rest := slices.Clone(target), slices.Clone(source), n
		for d := len(box) - 1; d >= 0; d-- {
			i := rest % box[d]
			rest /= box[d]
			write[len(write)-len(box)+d] += i
			read[len(read)-len(box)+d] += i
		}
		x := uint64(0)
		if from.holds(read) {
			x = loadBits(from.width, from.data, from.at(c.kernel, constants(read), f, false))
		}
		storeBits(to.width, to.data, to.at(c.kernel, constants(write), f, true), x)
	}
}

func (m *memory) holds(index []int64) bool {
	for d, i := range index {
		if i < 0 || i >= m.shape[d] {
			return false
		}
	}
	return true
}

func constants(index []int64) []integer {
	list := make([]integer, len(index))
	for i, v := range index {
		list[i] = func(*frame) int64 { return v }
	}
	return list
}

// async makes a contraction go on by itself, after the role's earlier ones.
func (c *resolver) async(contract action) action {
	return func(f *frame) {
		a := c.role(f)
		a.yield()
		here := f.during(a.team.add(fmt.Sprintf("contraction %d of %s", len(a.issued), a.name), a.clock))
		a.clock[a.slot]++
		here.agent.work = func() { contract(here) }
		if n := len(a.issued); n > 0 {
			here.agent.after = a.issued[n-1]
		}
		a.issued = append(a.issued, here.agent)
	}
}

func (c *resolver) drain(s *Drain) action {
	return func(f *frame) {
		a := c.role(f)
		n := len(a.issued) - int(min(s.Pending, int64(len(a.issued))))
		a.wait("its contractions", func() bool { return n <= 0 || a.issued[n-1].done })
		if n > 0 {
			a.join(a.issued[n-1].clock)
		}
	}
}

package executor

import (
	"slices"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/target"
)

// Watch records the operands that launches, copies and host operators really receive. It never reads the plan: it
// measures the memory of a call by the addresses and sizes of operands, and by the bytes found changed in storage that
// was filled with a pattern.
type Watch struct {
	call    *Call             // the watched call
	ranges  map[uintptr]int64 // by address of an operand: the most bytes it had
	scratch int64             // the most scratch bytes that a kernel requested
	written int64             // the end of the highest changed byte of a worker's scratch
	beyond  error             // the error of a kernel that wrote beyond its requested scratch
	workers int
	pattern byte
	past    map[int]int64 // by storage: the end of operands in memory that it had before it grew
	decided []int64       // by dimension: the largest value that it had, if has is true
	has     []bool        // by dimension: decided has a value
	joint   []joint
	bodies  map[program.Step]uint8
	step    program.Step // the present step
	list    []Access
	known   map[Access]bool
}

// Access is a range of bytes of a storage that a step received as an operand.
type Access struct {
	Step       program.Step
	Storage    int
	Begin, End int64 // bytes
}

// accesses limits the accesses that a watch keeps, since each iteration of a loop may have its own ranges.
const accesses = 1 << 20

// Watch begins recording this call's runs, over storage filled with a pattern.
func (c *Call) Watch(pattern byte) *Watch {
	c.watch = &Watch{call: c, ranges: map[uintptr]int64{}, workers: len(c.workers), pattern: pattern,
		past: map[int]int64{}, known: map[Access]bool{}, bodies: map[program.Step]uint8{},
		decided: make([]int64, len(c.x.program.Dims)), has: make([]bool, len(c.x.program.Dims)),
		joint: slices.Clone(c.x.layout.joint)}
	for _, b := range c.storages {
		if b != nil {
			mem.Fill(b, pattern)
		}
	}
	return c.watch
}

// begin records the step that runs.
func (w *Watch) begin(s program.Step) {
	if w != nil {
		w.step = s
	}
}

// entered records that a body ran: 1 for a loop's body or a branch's first, 2 for a branch's second body or a loop's
// condition.
func (w *Watch) entered(s program.Step, body uint8) {
	if w != nil {
		w.bodies[s] |= body
	}
}

// touch records a tensor as an operand of the current step.
func (w *Watch) touch(c *Call, t int) {
	if w == nil {
		return
	}
	if o, err := c.operand(t); err == nil {
		w.see(o)
	}
}

// touchRemote records a tensor in a device's memory.
func (w *Watch) touchRemote(c *Call, t int) {
	if w == nil {
		return
	}
	if s := c.remote.spots[t]; s.memory != nil && s.storage >= 0 {
		w.note(s.storage, s.at, c.operands[t].Bytes)
	}
}

// see records an operand's address and size.
func (w *Watch) see(o target.Operand) {
	at := uintptr(o.Base)
	w.ranges[at] = max(w.ranges[at], o.Bytes)
	if o.Bytes <= 0 {
		return
	}
	for i, b := range w.call.storages {
		if b == nil || b.Size() == 0 {
			continue
		}
		if base := uintptr(b.Pointer()); at >= base && at-base < uintptr(b.Size()) {
			w.note(i, int64(at-base), o.Bytes)
		}
	}
}

// note records that the current step received bytes of a storage, which may be a file.
func (w *Watch) note(storage int, begin, bytes int64) {
	if w == nil || bytes <= 0 || len(w.list) == accesses {
		return
	}
	if a := (Access{w.step, storage, begin, begin + bytes}); !w.known[a] {
		w.known[a] = true
		w.list = append(w.list, a)
	}
}

// operands records a launch's operands, and the weights that they are parts of: an empty part holds its weight too.
func (w *Watch) operands(c *Call, s *program.Launch, b *bound) {
	for i, o := range b.Args.Operands {
		w.see(o)
		if root := c.x.program.Root(s.Args[i]); c.x.program.Tensors[root].Class == program.Constant {
			w.touch(c, root)
		}
	}
}

// launch runs a kernel, records its operands, and gives it exactly the scratch that it needs.
func (w *Watch) launch(c *Call, s *program.Launch, b *bound) error {
	w.operands(c, s, b)
	need, err := b.Kernel.Scratch(b.Args.Dims)
	if err != nil {
		return err
	}
	w.scratch = max(w.scratch, need)
	exact := make([][]byte, len(c.workers))
	for i := range exact {
		exact[i] = c.workers[i][:need:need]
	}
	if idle(s, b) {
		return nil
	}
	for i := range c.scratch {
		mem.FillBytes(c.pages(i), w.pattern)
	}
	err = at(c.team.Launch(&b.Job, exact), s.Source)
	for i := range c.scratch {
		high := mem.Written(c.pages(i), w.pattern)
		if w.written = max(w.written, high); high > need && w.beyond == nil {
			w.beyond = diag.Internalf("kernel %s wrote byte %d of scratch, and asked for %d bytes", b.Kernel.Name(), high-1,
				need)
		}
	}
	return err
}

// pages returns a worker's scratch up to the end of its last page.
func (c *Call) pages(worker int) []byte {
	b := c.scratch[worker]
	if b.Size() == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(b.Pointer()), b.Mapped())
}

// Measured is the memory that a watched run used, in bytes.
type Measured struct {
	Arena, Outputs, Scratch, Weights int64
	ArenaWritten, OutputsWritten     int64 // the end of the highest byte found changed
	ScratchWritten                   int64 // of one worker
	// the error of a kernel that wrote beyond its requested scratch; nil if none did
	Beyond  error
	Decided []int64                // by dimension: the largest value that data decided
	Joint   []Joint                // the values of dimensions that data decided together
	Bodies  map[program.Step]uint8 // of branches and loops: the bits of all calls of entered
	Device  Held                   // device memory, as requested from its driver
	// the ranges of storage that steps received, in the order in which they first did
	Accesses []Access
}

// pass records the operands of loops that made no iteration, in steps that ran, although there is nothing to do: as for
// a launch without tiles, the call holds their memory. Of a branch that was not taken nothing is recorded.
func (w *Watch) pass(c *Call, steps []program.Step) {
	for _, step := range steps {
		l, loops := step.(*program.Loop)
		if loops && w.bodies[l]&1 == 0 {
			if c.takesLate(l.Body) { // nothing of it is held, so that its bytes would be predicted alone
				continue
			}
			w.step = l
			program.Operands(l, func(t int) { w.touch(c, t) })
			w.bodies[l] |= 3
			w.passed(c, l.Body)
			continue
		}
		for i, body := range program.Bodies(step) {
			if w.bodies[step]&(1<<i) != 0 {
				w.pass(c, body)
			}
		}
	}
}

// takesLate reports whether steps use storage whose size is known only when a run binds it.
func (c *Call) takesLate(steps []program.Step) (late bool) {
	for _, step := range steps {
		program.Operands(step, func(t int) {
			at := &c.x.program.Tensors[c.x.program.Root(t)]
			late = late || at.Class == program.Carved && c.x.program.Storages[at.Of].Late
		})
		for _, body := range program.Bodies(step) {
			late = late || c.takesLate(body)
		}
	}
	return late
}

// passed records the operands and the scratch of steps that did not run, as if each ran once with the dimensions that
// it decides at their limits.
func (w *Watch) passed(c *Call, steps []program.Step) {
	for _, step := range steps {
		w.step = step
		switch s := step.(type) {
		case *program.Launch:
			one := func(l *program.Launch) bool { return l == s }
			if need, err := c.x.scratchOf(c.values, false, one); err == nil {
				w.scratch = max(w.scratch, need)
			}
		case *program.Bind:
			w.limit(c, s.Dim)
		case *program.Loop:
			if s.Count >= 0 {
				w.limit(c, s.Count)
			}
		}
		program.Operands(step, func(t int) {
			t = c.x.program.Root(t)
			at := &c.x.program.Tensors[t]
			switch {
			case c.x.isRemote(t):
				w.touchRemote(c, t)
			case c.away(t), at.Class == program.Carved && c.x.program.Storages[at.Of].Late: // nothing is held
			default:
				w.touch(c, t)
			}
		})
		for _, body := range program.Bodies(step) {
			w.bodies[step] = 3
			w.passed(c, body)
		}
	}
}

// limit decides a dimension at its limit; one without a limit stays 0.
func (w *Watch) limit(c *Call, dim int) {
	d := &c.x.program.Dims[dim]
	if d.Late() {
		c.values[dim] = 0
		return
	}
	if most, err := c.x.layout.limits[dim].Eval(c.values); err == nil {
		c.values[dim] = max(d.Range.Min, min(most, d.Range.Max))
		w.decided[dim], w.has[dim] = max(w.decided[dim], c.values[dim]), true
	}
}

// Measured returns the memory used by the watched runs; pattern is the byte that storage was filled with.
func (c *Call) Measured(pattern byte) Measured {
	values := slices.Clone(c.values)
	c.watch.pass(c, c.x.program.Steps)
	copy(c.values, values)
	m := Measured{ScratchWritten: c.watch.written, Beyond: c.watch.beyond,
		Scratch: c.watch.scratch * int64(c.watch.workers), Decided: c.watch.decided, Bodies: c.watch.bodies,
		Accesses: c.watch.list}
	for _, j := range c.watch.joint {
		m.Joint = append(m.Joint, j.Joint)
	}
	for i, b := range c.storages {
		if b == nil {
			continue
		}
		high := max(c.watch.past[i], c.watch.reach(b))
		written := mem.Written(b.Bytes(), pattern)
		if c.x.program.Storages[i].Kind == program.Results {
			m.Outputs, m.OutputsWritten = m.Outputs+high, m.OutputsWritten+written
		} else {
			m.Arena, m.ArenaWritten = m.Arena+high, m.ArenaWritten+written
		}
	}
	m.Device = c.OnDevice()
	m.Device.Weights = c.x.OnDevice().Weights
	for _, w := range c.x.program.Weights {
		if w.Device != "" {
			continue
		}
		o := c.x.weights[w.Tensor]
		if c.watch.reached(uintptr(unsafe.Pointer(o.Base)), o.Bytes) {
			m.Weights += o.Bytes
		}
	}
	return m
}

// reach returns the largest offset in a block that an operand reached.
func (w *Watch) reach(b *mem.Block) int64 {
	base, high := uintptr(b.Pointer()), int64(0)
	for at, bytes := range w.ranges {
		if at >= base && at < base+uintptr(b.Size()) && bytes > 0 {
			high = max(high, int64(at-base)+bytes)
		}
	}
	return high
}

// leave forgets a storage's memory before it grows, since other memory may get its addresses.
func (w *Watch) leave(storage int, b *mem.Block) {
	w.past[storage] = max(w.past[storage], w.reach(b))
	base := uintptr(b.Pointer())
	for at := range w.ranges {
		if at >= base && at < base+uintptr(b.Size()) {
			delete(w.ranges, at)
		}
	}
}

// reached reports whether an operand lay in a weight. A weight counts in full even if a run reads part of it.
func (w *Watch) reached(base uintptr, bytes int64) bool {
	for at, n := range w.ranges {
		if n > 0 && at >= base && at < base+uintptr(bytes) {
			return true
		}
	}
	return false
}

// Blocks returns the call's mappings: storages, then the workers' scratch.
func (c *Call) Blocks() []*mem.Block {
	var list []*mem.Block
	for _, b := range slices.Concat(c.storages, c.scratch) {
		if b != nil {
			list = append(list, b)
		}
	}
	return list
}

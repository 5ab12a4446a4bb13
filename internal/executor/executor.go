// Package executor follows a program on a device: it binds dimensions, places tensors, launches kernels, and accounts
// for the memory that the launches really touched. It knows nothing of how a program was made.
package executor

import (
	"context"
	"math"
	"sync"
	"unsafe"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/pprof"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/target"
)

// Executable is a program with its code and its weights in place. It is safe for concurrent use.
type Executable struct {
	program *program.Program
	code    *target.Code
	layout  *layout
	weights []target.Operand // by tensor; zero if the tensor is not a weight
	paged   []bool           // by tensor: a weight that is left in its file, or a view of one
	blocks  []*mem.Block     // the blocks that the executable owns
	host    device.Host
	threads int
	reserve func(bytes int64) error
	guard   bool
	poison  bool
	own     bool
	folder  string
	account mem.Account // of the calls' memory; nil: none
	remote  *remote     // nil if the program runs on the host alone
	absent  error       // see Options.Absent

	labels []pprof.Labels // of goroutines in CPU profiles, by kernel; the last is for all other work

	sync.Mutex
}

// Options configure an executable.
type Options struct {
	// Host runs the kernels that no device runs.
	Host    device.Host
	Threads int // workers that one run may use; at least 1
	// Reserve, if not nil, is called before a run takes memory whose size depends on data, and with a negative number
	// when it gives such memory back. It refuses by an error of kind ErrBudget.
	Reserve func(bytes int64) error
	// Account, if not nil, is asked for the pages of calls before they are allocated, and gets them back when they are
	// freed. It is not asked for those of New.
	Account mem.Account
	// Name is the model's name, for CPU profiles.
	Name string
	// Guard puts every operand and every kernel's scratch into memory of its own that ends at a page which faults, to
	// find accesses beyond them. A call then takes other memory than planned.
	Guard bool
	// Own copies all weights, except paged ones, into memory of the executable's own.
	Own bool
	// Folder is the folder of calls' spill files; "" is the folder for temporary files.
	Folder string
	// Device runs the program's streams; nil if it has none. The executable borrows it.
	Device device.Device
	// Absent is the error of binding a call without the program's device; nil if the device is here, or none is needed.
	Absent error
	// Poison fills the bytes that a step releases with a pattern, to find reads after the release.
	Poison bool
}

// New places the weights and prepares a program to run. Weights whose bytes are aligned for their element type stay
// where they lie (they must outlive the executable); the others are copied into memory of the executable's own, or of
// its device, a piece at a time.
func New(p *program.Program, code *target.Code, o Options) (*Executable, error) {
	if o.Host == nil {
		return nil, diag.Internalf("an executable without a host")
	}
	x, err := newExecutable(p, code, o)
	if err != nil {
		if x != nil {
			x.Close()
		}
		return nil, err
	}
	return x, nil
}

// newExecutable is New, except that the caller must close the executable, if not nil, after an error.
func newExecutable(p *program.Program, code *target.Code, o Options) (*Executable, error) {
	l, err := newLayout(p)
	if err != nil {
		return nil, err
	}
	x := &Executable{program: p, code: code, layout: l, host: o.Host, threads: max(1, o.Threads), reserve: o.Reserve,
		guard: o.Guard, poison: o.Poison, own: o.Own, folder: o.Folder, absent: o.Absent, account: o.Account,
		weights: make([]target.Operand, len(p.Tensors)), paged: make([]bool, len(p.Tensors))}
	for _, w := range p.Weights {
		x.paged[w.Tensor] = w.Paged
	}
	for i := range p.Tensors {
		x.paged[i] = x.paged[p.Root(i)]
	}
	for _, kernel := range p.Kernels {
		x.labels = append(x.labels, pprof.NewLabels("model", o.Name, "kernel", kernel))
	}
	x.labels = append(x.labels, pprof.NewLabels("model", o.Name))
	if err := x.placeWeights(); err != nil {
		return x, err
	}
	if x.absent != nil {
		return x, nil
	}
	return x, x.openDevice(o.Device)
}

// weightAlign is the alignment of the weights that are copied.
const weightAlign = 64

// placeWeights sets every weight's address; it copies weights that are not aligned.
func (x *Executable) placeWeights() error {
	if x.guard {
		return x.guardWeights()
	}
	offsets, total := copied(x.program, x.own)
	var own []byte
	if total > 0 {
		block, err := mem.Map(mem.Weights, "weights", total)
		if err != nil {
			return err
		}
		x.blocks = append(x.blocks, block)
		own = block.Bytes()
	}
	var stay [][]byte
	for i, w := range x.program.Weights {
		data := w.Data
		if w.Device != "" {
			x.weights[w.Tensor].Bytes = int64(len(data))
			continue
		}
		if offsets[i] >= 0 {
			data = own[offsets[i] : offsets[i]+int64(len(w.Data))]
			mem.Move(data, w.Data)
		} else if !w.Paged {
			stay = append(stay, data)
		}
		x.weights[w.Tensor] = target.Operand{Base: unsafe.Pointer(unsafe.SliceData(data)), Bytes: int64(len(data))}
	}
	mem.Fetch(stay) // else the first run would fault at every few of their pages
	return nil
}

// copied returns the offsets of the weights that an executable copies, −1 for others, and the bytes of the copies. A
// weight without contents will be aligned.
func copied(p *program.Program, own bool) (offsets []int64, total int64) {
	for _, w := range p.Weights {
		t := &p.Tensors[w.Tensor]
		if w.Device != "" || w.Paged || !own && aligned(w.Data, t.DType.Bits()/8) { // see openDevice for the first
			offsets = append(offsets, -1)
			continue
		}
		bytes, _ := t.Bytes().Const()
		total = (total + weightAlign - 1) &^ (weightAlign - 1)
		offsets = append(offsets, total)
		total += bytes
	}
	return offsets, total
}

// CopiedPages returns the value of Held for an executable of a program, whose weights need not have contents yet.
func CopiedPages(p *program.Program, own bool) int64 {
	_, total := copied(p, own)
	return mem.WholePages(total)
}

// aligned reports whether data begin at a multiple of align bytes.
func aligned(data []byte, align int) bool {
	return align <= 1 || len(data) == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(data)))%uintptr(align) == 0
}

// Held returns the bytes of the pages that the executable owns: copied weights.
func (x *Executable) Held() (bytes int64) {
	for _, b := range x.blocks {
		bytes += b.Mapped()
	}
	return bytes
}

// Program returns the program.
func (x *Executable) Program() *program.Program { return x.program }

// Close frees what the executable owns. No call may be running or bound.
func (x *Executable) Close() error {
	first := x.remote.close()
	for _, b := range x.blocks {
		if err := b.Close(); err != nil && first == nil {
			first = err
		}
	}
	x.blocks = nil
	if x.code != nil && x.code.Release != nil {
		if err := x.code.Release(); err != nil && first == nil {
			first = err
		}
		x.code = nil
	}
	return first
}

// Call is a run's memory for one binding of the inputs' dimensions: arena, outputs and scratch. One goroutine uses it
// at a time. Running it again allocates nothing.
type Call struct {
	x        *Executable
	values   []int64 // of the dimensions, then the plan's lets
	operands []target.Operand
	storages []*mem.Block
	files    []*mem.SpillFile // by storage; nil except for a spill
	args     map[*program.Launch]*bound
	own      []*bound // the launches among the program's own steps, in order
	next     *bound   // the element of own for the present step
	host     map[*program.Host]*hostCall
	events   []int64 // by event: 0 before it is recorded; see record
	mover    mover
	picks    map[*program.Copy]*picker
	shapes   [][]int64
	endings  []ending           // the arguments that the next run consumes
	outside  []target.Operand   // by storage: the caller's memory that replaces it; nil if none is replaced
	unplaced bool               // storages of outputs are missing, or have moved
	handedOn bool               // a run's results were handed to the caller, and may be again
	kept     []int64            // by storage of outputs: bytes that pools keep for it; nil if no result was handed on
	reached  int                // the last of the program's own steps that was begun; −1 before the first
	guards   map[int]*mem.Block // by tensor; nil without Options.Guard
	poison   poison
	lent     []*target.Operand // the operands that have arguments' addresses

	team     device.Team
	scratch  []*mem.Block
	workers  [][]byte
	watch    *Watch
	timing   Timing
	ctx      context.Context
	labelled bool         // the run's goroutine has its caller's labels, which stay
	granted  int64        // bytes for arena and scratch that the account has granted and no block has yet
	promised []int64      // by storage of outputs: such bytes; nil without an account
	reserved int64        // bytes of late storage, and of the scratch that late sizes asked for
	grown    int64        // of reserved, the bytes of scratch
	heap     []*mem.Block // Go's heap that a host function uses now
	remote   *remoteCall  // nil if the program runs on the host alone
	remoteRun
}

// bound is a launch with its operands and dimensions in place.
type bound struct {
	device.Job
	step  *program.Launch
	ready bool    // its tiles and needs are computed for its present dimensions
	needs []int64 // bytes, by operand
}

// Check returns the error of Bind for dimensions that break the program's ranges or conditions.
func (x *Executable) Check(dims []int64) (err error) {
	defer func() { err = x.typed(err, dims) }()
	return x.layout.evaluate(make([]int64, len(x.layout.names)), dims)
}

// newCall returns a call without values and memory.
func (x *Executable) newCall() *Call {
	c := &Call{x: x, team: x.host.NewTeam(), poison: x.newPoison(), args: map[*program.Launch]*bound{},
		host: map[*program.Host]*hostCall{}, picks: map[*program.Copy]*picker{},
		operands: make([]target.Operand, len(x.program.Tensors)), shapes: make([][]int64, len(x.program.Tensors)),
		events: make([]int64, len(x.program.Events))}
	for i := range c.operands {
		if x.argument(i) {
			c.lent = append(c.lent, &c.operands[i])
		}
		if x.program.Tensors[i].Class == program.Constant {
			c.operands[i] = x.weights[i]
		}
	}
	return c
}

// Bind evaluates everything that the inputs' dimensions decide, and takes the memory. dims has a value for each of the
// program's dimensions; those that data decide are ignored. The account gets ctx.
func (x *Executable) Bind(ctx context.Context, dims []int64) (c *Call, err error) {
	defer func() { err = x.typed(err, dims) }()
	c = x.newCall()
	c.guards = x.newGuards()
	defer func() {
		if err != nil {
			c.Close()
			c = nil
		}
	}()
	if x.absent != nil {
		return c, x.absent
	}
	c.values = make([]int64, len(x.layout.names))
	if err = x.layout.evaluate(c.values, dims); err != nil {
		return c, err
	}
	if err = c.ask(ctx); err != nil {
		return c, err
	}
	if err = c.bindDevice(); err != nil {
		return c, err
	}
	for i := range x.program.Storages {
		s := &x.program.Storages[i]
		c.files = append(c.files, nil)
		if s.Late || s.Device != "" {
			c.storages = append(c.storages, nil)
			continue
		}
		size, err := x.layout.sizes[i].Eval(c.values)
		if err != nil {
			return c, err
		}
		if s.Kind == program.Results { // it may lie in other memory: see ready
			c.storages = append(c.storages, nil)
			continue
		}
		if s.Kind == program.Spill {
			c.storages = append(c.storages, nil)
			if c.files[i], err = mem.NewSpill(x.folder, s.Name, size); err != nil {
				return c, err
			}
			continue
		}
		block, err := x.takeStorage(s, size, mem.Map)
		if err != nil {
			return c, err
		}
		c.charge(block)
		c.storages = append(c.storages, block)
	}
	if err = c.locate(); err != nil {
		return c, err
	}
	if err = c.prepare(x.program.Steps); err != nil {
		return c, err
	}
	c.own = make([]*bound, len(x.program.Steps))
	for i, step := range x.program.Steps {
		if s, is := step.(*program.Launch); is {
			c.own[i] = c.args[s]
		}
	}
	return c, c.takeScratch(ctx)
}

// owned marks a block as this executable's, for mem.Holdings.
func (x *Executable) owned(b *mem.Block, err error) (*mem.Block, error) {
	if err == nil {
		b.Own(x)
	}
	return b, err
}

// locate sets the operands and shapes of the tensors that do not depend on data.
func (c *Call) locate() error {
	c.unplaced = true
	for i := range c.x.program.Tensors {
		if l := c.x.layout; !l.tensors[i].dynamic && !l.inResults[i] {
			if err := c.placeTensor(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// placeTensor evaluates one tensor's shape and address; it panics if the tensor leaves its storage.
func (c *Call) placeTensor(i int) error {
	t, l := &c.x.program.Tensors[i], &c.x.layout.tensors[i]
	if c.shapes[i] == nil {
		c.shapes[i] = make([]int64, len(l.shape))
	}
	for axis, code := range l.shape {
		size, err := code.Eval(c.values)
		if err != nil {
			return err
		}
		if size < 0 {
			return diag.Inputf("axis %d of %s has extent %d", axis, t.Name, size).AtTensor(t.Source)
		}
		c.shapes[i][axis] = size
	}
	bytes, err := l.bytes.Eval(c.values)
	if err != nil {
		return err
	}
	for _, code := range l.strides { // bytes counts the elements after the first only
		if stride, err := code.Eval(c.values); err != nil || stride < 0 && bytes != 0 {
			return diag.Inputf("a stride of %s is %d (%v)", t.Name, stride, err).AtTensor(t.Source)
		}
	}
	o := &c.operands[i]
	o.Bytes = bytes
	if c.x.isRemote(i) {
		return c.placeRemote(i, bytes)
	}
	if c.file(i) != nil {
		return nil
	}
	outside := t.Class == program.Carved && c.elsewhere(t.Of)
	if t.Class == program.Carved && c.guards != nil && bytes > 0 && !outside {
		return c.guardOperand(i, mem.Arena)
	}
	switch t.Class {
	case program.Argument:
	case program.Constant:
		*o = c.x.weights[i]
	case program.Carved:
		offset, err := l.offset.Eval(c.values)
		if err != nil {
			return err
		}
		block := c.storages[t.Of]
		if outside {
			if offset < 0 || bytes > c.outside[t.Of].Bytes-offset {
				panic(diag.Internalf("%s at %d with %d bytes leaves the %d given for it", t.Name, offset, bytes,
					c.outside[t.Of].Bytes))
			}
			o.Base = unsafe.Add(c.outside[t.Of].Base, offset)
			return nil
		}
		if block == nil {
			o.Base, o.Bytes = nil, 0
			return diag.Internalf("%s lies in %s, which is not taken", t.Name, c.x.program.Storages[t.Of].Name)
		}
		if bytes == 0 {
			o.Base = block.Pointer()
			return nil
		}
		if offset < 0 || bytes > block.Size()-offset {
			panic(diag.Internalf("%s at %d with %d bytes leaves storage %s of %d", t.Name, offset, bytes,
				c.x.program.Storages[t.Of].Name, block.Size()))
		}
		o.Base = unsafe.Add(block.Pointer(), offset)
	case program.View:
		offset, err := l.offset.Eval(c.values)
		if err != nil {
			return err
		}
		of := c.operands[t.Of]
		if bytes == 0 { // wherever it begins
			o.Base = of.Base
			return nil
		}
		if offset < 0 || bytes > of.Bytes-offset {
			panic(diag.Internalf("%s at %d with %d bytes leaves %s of %d", t.Name, offset, bytes, c.x.program.Tensors[t.Of].Name,
				of.Bytes))
		}
		o.Base = unsafe.Add(of.Base, offset)
	}
	return nil
}

// prepare makes the launches' argument blocks and the host calls.
func (c *Call) prepare(steps []program.Step) error {
	for _, step := range steps {
		switch s := step.(type) {
		case *program.Launch:
			b := &bound{step: s}
			b.Kernel = c.x.code.Kernels[s.Kernel]
			b.Args = target.Args{Operands: make([]target.Operand, len(s.Args)), Dims: make([]int64, len(s.Dims))}
			b.needs = make([]int64, len(s.Args))
			c.args[s] = b
			for i, t := range s.Args {
				if c.x.argument(t) {
					c.lent = append(c.lent, &b.Args.Operands[i])
				}
			}
		case *program.Host:
			call, err := newHostCall(c, s)
			if err != nil {
				return err
			}
			c.host[s] = call
		case *program.Copy:
			if s.Pick == nil && (!c.x.paged[s.From] || c.x.program.Tensors[s.From].Strides == nil) {
				continue
			}
			p, err := c.newPicker(s)
			if err != nil {
				return err
			}
			c.picks[s] = p
		}
		for _, body := range program.Bodies(step) {
			if err := c.prepare(body); err != nil {
				return err
			}
		}
	}
	return nil
}

// Input lends the call an argument at an address; an error if its size in bytes is not the expected one. The run copies
// a state of the device there and back, through memory of the call: see InputOnDevice.
func (c *Call) Input(i int, base unsafe.Pointer, bytes int64) error {
	port := c.x.program.Inputs[i]
	o := &c.operands[port.Tensor]
	if bytes != o.Bytes {
		return diag.Inputf("%d bytes given, %d expected", bytes, o.Bytes).AtTensor(port.Name)
	}
	if c.x.OnDeviceOf(i) != nil {
		return c.carry(i, base)
	}
	o.Base = base
	if c.guards != nil && bytes > 0 && port.Ownership != program.State {
		if err := c.guardOperand(port.Tensor, mem.Tensors); err != nil {
			return err
		}
		copy(bytesOf(*o), unsafe.Slice((*byte)(base), bytes))
	}
	return nil
}

// Unlend drops the arguments' addresses, which would keep lent memory from Go's collector. The next run needs Input for
// each.
func (c *Call) Unlend() {
	for _, o := range c.lent {
		o.Base = nil
	}
	c.unlendStates()
}

// argument reports whether a tensor is an argument, or lies in one.
func (x *Executable) argument(t int) bool {
	return x.program.Tensors[x.program.Root(t)].Class == program.Argument
}

// Output returns the shape and the bytes of output i after the call has run; no bytes if it replaces a state of a
// device.
func (c *Call) Output(i int) ([]int64, []byte, error) {
	at := c.x.program.Outputs[i].Tensor
	if err := c.ready(math.MaxInt); err != nil {
		return nil, nil, err
	}
	if err := c.placeTensor(at); err != nil {
		return nil, nil, err
	}
	o := c.operands[at]
	if c.x.isRemote(at) {
		return c.shapes[at], nil, nil
	}
	return c.shapes[at], unsafe.Slice((*byte)(o.Base), o.Bytes), nil
}

// Close frees the call's memory.
func (c *Call) Close() error {
	first := c.closeDevice()
	for _, blocks := range [][]*mem.Block{c.storages, c.scratch} {
		for _, b := range blocks {
			if b == nil {
				continue
			}
			if err := b.Close(); err != nil && first == nil {
				first = err
			}
		}
	}
	for _, f := range c.files {
		if f == nil {
			continue
		}
		if err := f.Close(); err != nil && first == nil {
			first = err
		}
	}
	c.storages, c.scratch, c.workers, c.files = nil, nil, nil, nil
	c.returnGranted()
	if err := c.forgo(); err != nil && first == nil {
		first = err
	}
	if err := c.closeGuards(); err != nil && first == nil {
		first = err
	}
	if c.x.reserve != nil && c.reserved > 0 {
		c.x.reserve(-c.reserved)
		c.reserved = 0
	}
	return first
}

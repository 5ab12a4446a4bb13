package lanes

import (
	"runtime"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Kernel is a compiled kernel. While it runs, a worker's scratch begins with the frame: words of eight bytes
// (dimensions, the number of a course's step, addresses of operands and locals, integers over the dimensions and the
// step, and what a failed check saw), then spilled values. Locals follow.
type Kernel struct {
	name      string
	source    string
	dims      int
	operands  int
	First     int       // the word with the first operand's address; dimensions come before it
	launch    []derived // integers that a launch computes once
	locals    []derived // offsets of locals from the end of the frame, in bytes
	checks    []check
	failed    int // the first of three words: value, least, most
	Header    int // bytes before the frame; 0 if the code does not pause
	Fixed     int // bytes of the frame
	Processor Processor
	longest   int64   // see Longest
	pause     *pauser // how the code pauses; nil if it does not
	Nests     []Nest
	steps     *steps // nil if the kernel is not a course
	scratch   *sym.Code
	formula   sym.Expr // of scratch
	width     *loop.Width
	Slower    []string // notes: what the code does in a slower way than the schedule intended
}

// steps is a course's serial loop: extent iterations of the nests first to end−1. The word after the dimensions has the
// number of the step.
type steps struct {
	extent     *sym.Code
	formula    sym.Expr
	first, end int
}

// derived is a word that is computed from the dimensions.
type derived struct {
	word int
	code *sym.Code
}

// check is the information for the error of a failed Check.
type check struct {
	what  string
	dtype dtype.DType
}

// Nest is a parallel nest of the kernel, or statements that are one tile. code is its machine code, until routines.load
// places it; entry is its address afterwards.
type Nest struct {
	tiles   []*sym.Code // the extents of the parallel loops; their product is the number of tiles
	Formula sym.Expr
	Code    []byte
	Entry   uintptr
	portion int64 // tiles that one call may do; 0: the code returns in time by itself
}

// Name returns the loop kernel's name.
func (k *Kernel) Name() string { return k.name }

// Longest returns the most instructions that the kernel's code does between two points at which it may return to Go,
// and the most that one call does.
func (k *Kernel) Longest() (gap, call int64) { return k.longest, callMost }

// Routines returns the machine code of the kernel's nests before it is placed; each is nil afterwards. It does not
// depend on addresses.
func (k *Kernel) Routines() [][]byte {
	var all [][]byte
	for i := range k.Nests {
		all = append(all, k.Nests[i].Code)
	}
	return all
}

// Tiles returns the number of iterations of the outermost parallel loops, or 1.
func (k *Kernel) Tiles(dims []int64) (int64, error) {
	total, err := k.tiles(dims)
	if err != nil || total == 0 {
		return 0, err
	}
	return total, k.width.Check(dims)
}

// Needs sets bytes to the sizes that the operands must have.
func (k *Kernel) Needs(dims, bytes []int64) error { return k.width.Needs(dims, bytes) }

// mostTiles is the largest number of tiles of a launch.
const mostTiles = 1 << 60

// tiles returns the number of tiles over all nests and steps; an error if there are more than mostTiles.
func (k *Kernel) tiles(dims []int64) (int64, error) {
	total, each := int64(0), int64(0)
	for i := range k.Nests {
		n, err := k.Nests[i].count(k, dims)
		if err != nil {
			return 0, err
		}
		if k.steps != nil && i >= k.steps.first && i < k.steps.end {
			each += n
		} else {
			total += n
		}
		if total > mostTiles || each > mostTiles {
			return 0, k.tooMany(dims)
		}
	}
	if each == 0 {
		return total, nil
	}
	steps, err := k.eval(k.steps.extent, dims)
	if err != nil {
		return 0, err
	}
	if steps > mostTiles/each {
		return 0, k.tooMany(dims)
	}
	return total + max(steps, 0)*each, nil
}

// Course returns the order of the tiles; see target.Stepped.
func (k *Kernel) Course(dims []int64) (*target.Course, error) {
	if k.steps == nil {
		return nil, nil
	}
	c := &target.Course{First: k.steps.first, End: k.steps.end}
	for i := range k.Nests {
		n, err := k.Nests[i].count(k, dims)
		if err != nil {
			return nil, err
		}
		c.Stages = append(c.Stages, n)
	}
	steps, err := k.eval(k.steps.extent, dims)
	c.Steps = max(steps, 0)
	return c, err
}

// tooMany returns the error of more than mostTiles tiles.
func (k *Kernel) tooMany(dims []int64) error {
	return diag.Inputf("kernel @%s: too many tiles for dimensions %v", k.name, dims)
}

// TilesFormula returns the number of tiles as a formula.
func (k *Kernel) TilesFormula() sym.Expr {
	var total, each sym.Expr
	for i := range k.Nests {
		if k.steps != nil && i >= k.steps.first && i < k.steps.end {
			each = each.Add(k.Nests[i].Formula)
		} else {
			total = total.Add(k.Nests[i].Formula)
		}
	}
	if k.steps != nil {
		total = total.Add(k.steps.formula.Mul(each))
	}
	return total
}

// count returns the number of a nest's tiles; an error if there are more than mostTiles.
func (n *Nest) count(k *Kernel, dims []int64) (int64, error) {
	count := int64(1)
	for _, code := range n.tiles {
		extent, err := k.eval(code, dims)
		if err != nil || extent <= 0 {
			return 0, err
		}
		if count > mostTiles/extent {
			return 0, k.tooMany(dims)
		}
		count *= extent
	}
	return count, nil
}

// eval computes a size; the error is of kind ErrInput.
func (k *Kernel) eval(code *sym.Code, dims []int64) (int64, error) {
	v, err := code.Eval(dims)
	if err != nil {
		return 0, diag.Inputf("kernel @%s: a size cannot be computed for dimensions %v: %v", k.name, dims, err)
	}
	return v, nil
}

// ScratchFormula returns the bytes of the frame and the locals.
func (k *Kernel) ScratchFormula() sym.Expr { return k.formula }

// Scratch returns the value of ScratchFormula.
func (k *Kernel) Scratch(dims []int64) (int64, error) { return k.eval(k.scratch, dims) }

// Run does tiles [begin, end).
func (k *Kernel) Run(a *target.Args, begin, end int64, scratch []byte) error {
	if len(a.Operands) != k.operands || len(a.Dims) != k.dims || len(scratch) < k.Header+k.Fixed {
		panic(diag.Internalf("kernel @%s takes %d operands, %d dimensions and at least %d bytes of scratch, got %d, %d and "+
			"%d", k.name, k.operands, k.dims, k.Header+k.Fixed, len(a.Operands), len(a.Dims), len(scratch)))
	}
	words := k.Frame(a, scratch)
	frame := unsafe.Pointer(unsafe.SliceData(words))
	err := k.RunBy(words, int64(uintptr(frame)), a, begin, end, frame, Enter)
	runtime.KeepAlive(a)
	runtime.KeepAlive(scratch)
	return err
}

// Frame returns the words in a worker's scratch, with the operands' addresses.
func (k *Kernel) Frame(a *target.Args, scratch []byte) (words []int64) {
	frame := unsafe.Pointer(unsafe.SliceData(scratch[k.Header:]))
	words = unsafe.Slice((*int64)(frame), k.Fixed/8)
	if k.pause != nil {
		*(*uintptr)(unsafe.Add(frame, PauseWord)) = k.pause.save
	}
	for i, o := range a.Operands {
		*(*uintptr)(unsafe.Pointer(&words[k.First+i])) = uintptr(o.Base)
	}
	return words
}

// Enter calls a nest's routine, or continues one that paused (resume), and returns its status.
func Enter(frame unsafe.Pointer, k *Kernel, n *Nest, begin, end int64, resume bool) (status int64) {
	if k.pause != nil {
		*(*int64)(unsafe.Add(frame, BudgetWord)) = Budget()
	}
	if resume {
		return k.Processor.Call(k.pause.resume, frame, 0, 0)
	}
	return k.Processor.Call(n.Entry, frame, begin, end)
}

// Budget returns the cost that code may run up before it returns.
func Budget() int64 {
	if PauseAlways {
		return 0
	}
	return callMost
}

// caller calls a nest's routine, or continues one that paused (resume), and returns its status.
type caller func(with unsafe.Pointer, k *Kernel, n *Nest, begin, end int64, resume bool) (status int64)

// RunBy writes the frame's words except the operands' addresses, and calls do for each nest with tiles in [begin, end).
// do gets with, runs the tiles, and returns the routine's status; if it captures no variables, a run allocates nothing.
// frame is the address at which the routines find the words.
func (k *Kernel) RunBy(words []int64, frame int64, a *target.Args, begin, end int64, with unsafe.Pointer,
	do caller) error {
	dims := a.Dims
	copy(words, dims)
	for _, l := range k.locals {
		offset, err := k.eval(l.code, dims)
		if err != nil {
			return err
		}
		words[l.word] = frame + int64(k.Fixed) + offset
	}
	r := running{k, words, dims, begin, end, a, with, do}
	if k.steps != nil {
		return r.course()
	}
	if err := r.derive(dims); err != nil {
		return err
	}
	_, err := r.several(0, len(k.Nests))
	return err
}

// running is the rest of a range of tiles, counted from the next nest.
type running struct {
	*Kernel
	words, dims []int64
	begin, end  int64
	args        *target.Args
	with        unsafe.Pointer
	do          caller
}

// derive computes the words that a launch, or a step of it, computes once.
func (r *running) derive(inputs []int64) error {
	for _, d := range r.launch {
		v, err := r.eval(d.code, inputs)
		if err != nil {
			return err
		}
		r.words[d.word] = v
	}
	return nil
}

// several runs the tiles of nests first to end−1, one nest after the other, and returns their number of tiles.
func (r *running) several(first, end int) (tiles int64, err error) {
	for i := first; i < end && r.end > 0; i++ {
		n := &r.Nests[i]
		count, err := n.count(r.Kernel, r.dims)
		if err != nil {
			return tiles, err
		}
		if r.begin < count {
			if err := r.tiles(n, max(r.begin, 0), min(r.end, count)); err != nil {
				return tiles, err
			}
		}
		r.begin, r.end, tiles = r.begin-count, r.end-count, tiles+count
	}
	return tiles, nil
}

// tiles runs tiles of a nest, in short calls. Between them the run may be stopped.
func (r *running) tiles(n *Nest, begin, end int64) error {
	portion := n.portion
	if portion == 0 {
		portion = end - begin
	}
	for begin < end {
		next := begin + min(portion, end-begin)
		status := r.do(r.with, r.Kernel, n, begin, next, false)
		for status == Paused {
			if r.args.Stop.Ended() {
				return target.ErrStopped
			}
			status = r.do(r.with, r.Kernel, n, 0, 0, true)
		}
		if status != 0 {
			return r.failure(int(status)-1, r.words[r.failed:r.failed+3])
		}
		if begin = next; begin < end && r.args.Stop.Ended() {
			return target.ErrStopped
		}
	}
	return nil
}

// course runs the tiles of a kernel with steps.
func (r *running) course() error {
	s, inputs := r.steps, r.words[:r.Kernel.dims+1]
	at := func(step int64) error {
		inputs[r.Kernel.dims] = step
		return r.derive(inputs)
	}
	count, err := r.eval(s.extent, r.dims)
	if err != nil {
		return err
	}
	if err := at(0); err != nil {
		return err
	}
	if _, err := r.several(0, s.first); err != nil {
		return err
	}
	each := int64(0)
	for i := s.first; i < s.end; i++ {
		n, err := r.Nests[i].count(r.Kernel, r.dims)
		if err != nil {
			return err
		}
		each += n
	}
	for step := int64(0); step < count && each > 0 && r.end > 0; step++ {
		if past := min(max(r.begin, 0)/each, count-step); past > 0 {
			r.begin, r.end, step = r.begin-past*each, r.end-past*each, step+past-1
			continue
		}
		if step > 0 {
			if err := at(step); err != nil {
				return err
			}
		}
		if _, err := r.several(s.first, s.end); err != nil {
			return err
		}
	}
	_, err = r.several(s.end, len(r.Nests))
	return err
}

// failure returns the error of a value that failed its check.
func (k *Kernel) failure(at int, seen []int64) error {
	c := k.checks[at]
	detail := loop.CheckDetail(c.what, c.dtype, loop.FromInt(c.dtype, seen[0]), seen[1], seen[2])
	return &diag.Error{Kind: diag.ErrInput, Node: k.source, Detail: detail}
}

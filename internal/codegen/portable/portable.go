// Package portable is the code generator for every processor: it compiles a kernel to Go closures over strips of lanes.
//
// A vector loop runs in strips of at most mostLanes lanes, so few that the strips of one loop stay in the first-level
// cache. An expression inside it is a loop over typed slices. A value that is the same for all lanes is computed once a
// strip. A load of contiguous elements is a view of the operand's memory. Code outside vector loops runs as scalar
// closures. A Contract is a hand-written micro-kernel over packed panels.
//
// A run keeps all its state in the scratch that it is given, and allocates nothing. Each and serial loops run in order;
// the outermost parallel loops of a kernel form its tiles. If a kernel's body is several parallel nests, they are
// assumed to be independent, and the tiles of each follow those of the one before.
package portable

import (
	"math"
	"runtime"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Compile compiles the kernels of a module, in their order. Kernels must be well formed (see loop.Verify); one that
// cannot be compiled is a bug, and Compile panics with the kernel's text. Kernels for blocks of threads are
// ErrUnsupported.
func Compile(m *loop.Module, machine target.Machine) (*target.Code, error) {
	code := &target.Code{Machine: machine}
	for _, k := range m.Kernels {
		if needsBlocks(k) {
			return nil, diag.Unsupportedf("kernel @%s is written for blocks of threads, which this machine does not have",
				k.Name)
		}
		code.Kernels = append(code.Kernels, compile(k, m))
	}
	return code, nil
}

// needsBlocks reports whether a kernel uses shared memory of blocks of threads.
func needsBlocks(k *loop.Kernel) bool {
	found := false
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		l, local := s.(*loop.Local)
		found = found || local && l.Space == loop.Shared
		return !found
	})
	return found
}

// kernel is a compiled kernel.
type kernel struct {
	name     string
	operands int
	first    int // the word with the first operand's address
	dims     int
	held     int // the first word of the leftPanels; 0 if there are no panels
	budget   int // the word with the work left before the run next checks whether it is stopped; Args' address follows
	launch   []derived
	locals   []derived // offsets from the end of the strips, in bytes; slot is the word for the address
	nests    []nest
	strips   int // bytes of words: the offset of panels and strips
	fixed    int // bytes of words, panels and strips
	scratch  *sym.Code
	formula  sym.Expr // of scratch
	width    *loop.Width
}

// nest is a parallel nest of a kernel, or consecutive statements that are one tile.
type nest struct {
	loops []parallel
	count sym.Expr // of tiles
	do    action
}

// parallel is a loop whose iterations are tiles.
type parallel struct {
	slot   int
	extent *sym.Code
}

// compiler compiles one kernel.
type compiler struct {
	kernel   *loop.Kernel
	names    []sym.Name       // of integers, by word: dimensions first
	integers map[sym.Name]int // the words of names
	words    int
	known    map[string]int // words that hold expressions over dimensions, by their keys
	launch   []derived
	memories map[string]*memory
	bound    map[string]binding
	vector   *vector
	checked  map[sym.Name]int // strips of checked values that differ by lane
	moving   bool             // the value is only copied from memory to memory, and is treated as bits
	panels   int              // bytes for panels
	held     int              // as in kernel
	budget   int              // as in kernel
	ranges   *sym.Dims        // of dimensions and loop variables
	divisors *loop.Divisors
	fixed    int // bytes for panels and strips
}

// bug panics with a message and the kernel's text.
func (c *compiler) bug(format string, args ...any) {
	panic(diag.Internalf("portable: kernel @%s: "+format+"\n%s",
		append(append([]any{c.kernel.Name}, args...), c.kernel)...))
}

// newWord returns the number of an unused word.
func (c *compiler) newWord() int {
	c.words++
	return c.words - 1
}

// name gives an integer's name a word, unless it has one.
func (c *compiler) name(name sym.Name) {
	if _, ok := c.integers[name]; !ok {
		c.integers[name] = c.newWord()
		c.names = append(c.names, name)
	}
}

// compile compiles one kernel of a module.
func compile(k *loop.Kernel, m *loop.Module) *kernel {
	c := &compiler{kernel: k, integers: map[sym.Name]int{}, known: map[string]int{}, memories: map[string]*memory{},
		bound: map[string]binding{}, checked: map[sym.Name]int{}, ranges: sym.NewDims(), divisors: loop.DivisorsOf(k, m)}
	natural := sym.Range{Min: 0, Max: math.MaxInt64}
	for _, name := range k.Dims {
		c.name(name)
		c.ranges.Set(name, m.RangeOf(name))
	}
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.For:
			c.name(s.Var)
			c.ranges.Set(s.Var, natural)
		case *loop.Check:
			c.name(s.Name)
		}
		return true
	})
	for _, p := range k.Params {
		c.memories[p.Name] = &memory{slot: c.newWord(), dt: p.DType, shape: p.Shape, strides: p.Strides}
	}
	out := &kernel{name: k.Name, operands: len(k.Params), first: len(c.names), dims: len(k.Dims)}
	for _, l := range loop.Locals(k) {
		slot := c.newWord()
		c.memories[l.Local.Name] = &memory{slot: slot, dt: l.Local.DType, shape: l.Local.Shape}
		out.locals = append(out.locals, derived{slot, c.code(l.Offset, k.Dims)})
	}
	c.budget = c.words
	c.words += 2
	c.holdPanels()
	out.budget = c.budget
	out.nests, out.held = c.nests(), c.held
	out.launch = c.launch
	out.strips = alignUp(c.words * 8)
	out.fixed = out.strips + alignUp(c.fixed)
	out.formula = loop.Scratch(k).Add(sym.Const(int64(out.fixed)))
	out.scratch = c.code(out.formula, k.Dims)
	out.width = loop.WidthOf(k)
	return out
}

// holdPanels reserves memory for the panels of the kernel's contractions, if it has any.
func (c *compiler) holdPanels() {
	loop.Walk(c.kernel.Body, func(s loop.Stmt) bool {
		if s, ok := s.(*loop.Contract); ok {
			room := c.room(s)
			c.panels = max(c.panels, alignUp(int(room.left+room.right)*max(c.memory(s.C.Buffer).dt.Bits()/8, 1)))
		}
		return true
	})
	c.fixed = c.panels
	if c.panels > 0 {
		c.held = c.words
		c.words += int((unsafe.Sizeof(leftPanels{}) + 7) / 8)
	}
}

// room returns the size of a contraction's panels, by the bounds of its extents.
func (c *compiler) room(s *loop.Contract) panelRoom {
	return roomFor(c.most(s.M), c.most(s.N), c.most(s.K))
}

// most returns an upper bound of an extent, for dimensions within their ranges and loop variables of at least 0.
func (c *compiler) most(e sym.Expr) int64 {
	if n, ok := e.Const(); ok {
		return n
	}
	_, high := c.ranges.Bounds(e)
	return high
}

func alignUp(n int) int { return (n + loop.ScratchAlign - 1) &^ (loop.ScratchAlign - 1) }

// nests compiles the kernel's nests; a kernel that packs is one tile.
func (c *compiler) nests() []nest {
	if c.packs() {
		return []nest{{do: c.body(c.kernel.Body), count: sym.Const(1)}}
	}
	var nests []nest
	for _, n := range loop.Nests(c.kernel) {
		ready := nest{count: n.Tiles()}
		for _, l := range n.Loops {
			ready.loops = append(ready.loops, parallel{c.integers[l.Var], c.code(l.Extent, c.kernel.Dims)})
		}
		ready.do = c.body(n.Body)
		nests = append(nests, ready)
	}
	return nests
}

// packs reports whether the kernel writes elements that share bytes, which concurrent tiles must not do.
func (c *compiler) packs() bool {
	for _, p := range c.kernel.Params {
		if p.Access != loop.Read && p.DType.Bits() < 8 {
			return true
		}
	}
	return false
}

// Name returns the loop kernel's name.
func (k *kernel) Name() string { return k.name }

// Backend returns the name of this generator: a program may have kernels of several.
func (k *kernel) Backend() string { return target.PortableName }

// Tiles returns the number of tiles: the iterations of the outermost parallel loops of all nests; a nest without them
// is one tile.
func (k *kernel) Tiles(dims []int64) (int64, error) {
	total := int64(0)
	for i := range k.nests {
		n, err := k.nests[i].tiles(k, dims)
		if err != nil {
			return 0, err
		}
		if total += n; total > mostTiles {
			return 0, diag.Inputf("kernel @%s: too many tiles for dimensions %v", k.name, dims)
		}
	}
	if total == 0 {
		return 0, nil
	}
	return total, k.width.Check(dims)
}

// mostTiles is the largest number of tiles of a launch.
const mostTiles = 1 << 60

// Needs sets bytes to the size that each operand must have.
func (k *kernel) Needs(dims, bytes []int64) error { return k.width.Needs(dims, bytes) }

// TilesFormula returns the number of tiles.
func (k *kernel) TilesFormula() sym.Expr {
	var total sym.Expr
	for i := range k.nests {
		total = total.Add(k.nests[i].count)
	}
	return total
}

// tiles returns the nest's number of tiles for some dimensions.
func (n *nest) tiles(k *kernel, dims []int64) (int64, error) {
	count := int64(1)
	for _, l := range n.loops {
		extent, err := k.eval(l.extent, dims)
		if err != nil || extent <= 0 {
			return 0, err
		}
		if count > mostTiles/extent {
			return 0, diag.Inputf("kernel @%s: too many tiles for dimensions %v", k.name, dims)
		}
		count *= extent
	}
	return count, nil
}

// eval returns a formula's value for some dimensions; the error of an overflow is ErrInput.
func (k *kernel) eval(code *sym.Code, dims []int64) (int64, error) {
	v, err := code.Eval(dims)
	if err != nil {
		return 0, diag.Inputf("kernel @%s: a size cannot be computed for dimensions %v: %v", k.name, dims, err)
	}
	return v, nil
}

// ScratchFormula returns the bytes of words, strips, panels and locals.
func (k *kernel) ScratchFormula() sym.Expr { return k.formula }

// Scratch returns ScratchFormula's value for some dimensions.
func (k *kernel) Scratch(dims []int64) (int64, error) { return k.eval(k.scratch, dims) }

// Run runs tiles [begin, end).
func (k *kernel) Run(a *target.Args, begin, end int64, scratch []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = failed.err
		}
	}()
	if len(a.Operands) != k.operands || len(a.Dims) != k.dims || len(scratch) < k.fixed {
		panic(diag.Internalf("kernel @%s takes %d operands, %d dimensions and at least %d bytes of scratch, got %d, %d and "+
			"%d", k.name, k.operands, k.dims, k.fixed, len(a.Operands), len(a.Dims), len(scratch)))
	}
	f := frame{words: unsafe.Pointer(unsafe.SliceData(scratch))}
	if k.fixed > k.strips {
		f.strips = unsafe.Pointer(&scratch[k.strips])
	}
	if err := k.begin(f, a); err != nil {
		return err
	}
	for i := range k.nests {
		n := &k.nests[i]
		count, err := n.tiles(k, a.Dims)
		if err != nil {
			return err
		}
		if begin < count && end > 0 {
			n.run(f, k.budget, a.Dims, max(begin, 0), min(end, count))
		}
		begin, end = begin-count, end-count
	}
	runtime.KeepAlive(a)
	runtime.KeepAlive(scratch)
	return nil
}

// begin sets the words that stay the same throughout a run.
func (k *kernel) begin(f frame, a *target.Args) error {
	for i, v := range a.Dims {
		*word[int64](f, i) = v
	}
	for i, o := range a.Operands {
		*word[uintptr](f, k.first+i) = uintptr(o.Base)
	}
	*word[int64](f, k.budget) = budget
	*word[uintptr](f, k.budget+1) = uintptr(unsafe.Pointer(a))
	if k.held > 0 {
		*word[leftPanels](f, k.held) = leftPanels{}
	}
	base := uintptr(f.words) + uintptr(k.fixed)
	for _, l := range k.locals {
		offset, err := k.eval(l.code, a.Dims)
		if err != nil {
			return err
		}
		*word[uintptr](f, l.slot) = base + uintptr(offset)
	}
	for _, d := range k.launch {
		v, err := k.eval(d.code, a.Dims)
		if err != nil {
			return err
		}
		*word[int64](f, d.slot) = v
	}
	return nil
}

// run runs the nest's tiles [first, end). The innermost loop's variable changes fastest.
func (n *nest) run(f frame, left int, dims []int64, first, end int64) {
	for tile := first; tile < end; tile++ {
		rest := tile
		for i := len(n.loops) - 1; i >= 0; i-- {
			l := n.loops[i]
			extent, _ := l.extent.Eval(dims)
			*word[int64](f, l.slot) = rest % extent
			rest /= extent
		}
		n.do(f, 0)
		spend(f, left, 1)
	}
}

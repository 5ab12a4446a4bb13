package amd64

import (
	"runtime"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// kernel is a compiled kernel. While it runs, a worker's scratch begins with the frame: words of eight bytes (dimensions, addresses of
// operands and locals, integers over the dimensions, and what a failed check saw), then spilled values. Locals follow.
type kernel struct {
	name     string
	source   string
	dims     int
	operands int
	first    int       // the word with the first operand's address; dimensions come before it
	launch   []derived // integers that a launch computes once
	locals   []derived // offsets of locals from the end of the frame, in bytes
	checks   []check
	failed   int // the first of three words: value, least, most
	fixed    int // bytes of the frame
	nests    []nest
	scratch  *sym.Code
	formula  sym.Expr // of scratch
}

// derived is a word that is computed from the dimensions.
type derived struct {
	word int
	code *sym.Code
}

// check is what a failed Check says.
type check struct {
	what  string
	dtype dtype.DType
}

// nest is a stretch of the kernel that is one tile, or a parallel nest of many. entry is its code's address; code is nil until the whole
// program's code has its place.
type nest struct {
	tiles   []*sym.Code // the extents of the parallel loops; their product is the number of tiles
	formula sym.Expr
	code    []byte
	entry   uintptr
}

// Name is the loop kernel's.
func (k *kernel) Name() string { return k.name }

// Tiles is the number of iterations of the outermost parallel loops, or 1.
func (k *kernel) Tiles(dims []int64) (int64, error) {
	total := int64(0)
	for i := range k.nests {
		n, err := k.nests[i].count(k, dims)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// TilesFormula is the number of tiles as a formula.
func (k *kernel) TilesFormula() sym.Expr {
	var total sym.Expr
	for i := range k.nests {
		total = total.Add(k.nests[i].formula)
	}
	return total
}

func (n *nest) count(k *kernel, dims []int64) (int64, error) {
	count := int64(1)
	for _, code := range n.tiles {
		extent, err := k.eval(code, dims)
		if err != nil || extent <= 0 {
			return 0, err
		}
		if count > (1<<62)/extent {
			return 0, diag.Inputf("kernel @%s: too many tiles for dimensions %v", k.name, dims)
		}
		count *= extent
	}
	return count, nil
}

func (k *kernel) eval(code *sym.Code, dims []int64) (int64, error) {
	v, err := code.Eval(dims)
	if err != nil {
		return 0, diag.Inputf("kernel @%s: a size cannot be computed for dimensions %v: %v", k.name, dims, err)
	}
	return v, nil
}

// ScratchFormula is the bytes of frame and locals.
func (k *kernel) ScratchFormula() sym.Expr { return k.formula }

// Scratch is ScratchFormula's value.
func (k *kernel) Scratch(dims []int64) (int64, error) { return k.eval(k.scratch, dims) }

// Run does tiles [begin, end).
func (k *kernel) Run(a *target.Args, begin, end int64, scratch []byte) error {
	if len(a.Operands) != k.operands || len(a.Dims) != k.dims || len(scratch) < k.fixed {
		panic(diag.Internalf("kernel @%s takes %d operands, %d dimensions and at least %d bytes of scratch, got %d, %d and %d", k.name, k.operands, k.dims, k.fixed, len(a.Operands), len(a.Dims), len(scratch)))
	}
	frame := unsafe.Pointer(unsafe.SliceData(scratch))
	words := unsafe.Slice((*int64)(frame), k.fixed/8)
	for i, o := range a.Operands {
		*(*uintptr)(unsafe.Pointer(&words[k.first+i])) = uintptr(o.Base)
	}
	err := k.run(words, int64(uintptr(frame)), a.Dims, begin, end, func(n *nest, begin, end int64) int64 { return call.Call(n.entry, frame, begin, end) })
	runtime.KeepAlive(a)
	runtime.KeepAlive(scratch)
	return err
}

// run writes the frame's words but for the operands' addresses, and calls do for tiles of each nest that has some of those asked for; its result is the routine's.
// frame is the address at which the routines find the words.
func (k *kernel) run(words []int64, frame int64, dims []int64, begin, end int64, do func(n *nest, begin, end int64) (status int64)) error {
	copy(words, dims)
	for _, l := range k.locals {
		offset, err := k.eval(l.code, dims)
		if err != nil {
			return err
		}
		words[l.word] = frame + int64(k.fixed) + offset
	}
	for _, d := range k.launch {
		v, err := k.eval(d.code, dims)
		if err != nil {
			return err
		}
		words[d.word] = v
	}
	for i := range k.nests {
		n := &k.nests[i]
		count, err := n.count(k, dims)
		if err != nil {
			return err
		}
		if begin < count && end > 0 {
			if status := do(n, max(begin, 0), min(end, count)); status != 0 {
				return k.failure(int(status)-1, words[k.failed:k.failed+3])
			}
		}
		begin, end = begin-count, end-count
		if end <= 0 {
			break
		}
	}
	return nil
}

// failure is the error of a value that failed its check.
func (k *kernel) failure(at int, seen []int64) error {
	c := k.checks[at]
	detail := loop.CheckDetail(c.what, c.dtype, loop.FromInt(c.dtype, seen[0]), seen[1], seen[2])
	return &diag.Error{Kind: diag.ErrInput, Node: k.source, Detail: detail}
}

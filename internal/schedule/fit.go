package schedule

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Need is the resources that a kernel takes of a machine. Dimensions count at their upper bounds, and dimensions
// without one at 1024.
type Need struct {
	Scratch   int64 // bytes of its locals that one worker holds at once
	Shared    int64 // bytes of the locals that the threads of a block share
	Threads   int64 // threads of a block, as far as locals of each thread limit them
	Private   int64 // bytes of the locals of each thread of a block, and of the operands that it multiplies at once
	Registers int64 // vector registers for one row of the sums of its widest product: see target.SumRegisters
	Operands  int64 // number of buffers passed to it
	Values    int64 // values that a vector loop keeps at once: named values, and those of the deepest expression
}

// NeedOf returns the resources that a kernel takes of a machine.
func NeedOf(k *loop.Kernel, machine target.Machine, dims *sym.Dims) Need {
	n := Need{Operands: int64(len(k.Params))}
	if machine.HasBlocks() {
		n.ofBlocks(k.Body, machine, dims)
	}
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Contract:
			n.Registers = max(n.Registers, sumRegisters(k, s, machine, dims))
		case *loop.For:
			if s.Kind == loop.Vector {
				n.Values = max(n.Values, valuesOf(s.Body))
			}
		}
		return true
	})
	n.Scratch = max(0, upper(loop.Scratch(k), dims)-n.Shared)
	return n
}

// Excess is a limit that a kernel exceeds.
type Excess struct {
	What       string
	Need, Most int64
	Hard       bool // the machine has no more; a soft limit only makes the kernel slow
}

func (e Excess) String() string { return fmt.Sprintf("%d of %s, at most %d", e.Need, e.What, e.Most) }

// Fit returns the limits that a kernel exceeds; empty if it fits. Every step of the schedule asks it before it commits,
// and Verify asks it at the end.
func Fit(k *loop.Kernel, machine target.Machine, dims *sym.Dims) (over []Excess) {
	need, most := NeedOf(k, machine, dims), &machine.Limits
	for _, row := range []Excess{
		{"scratch bytes", need.Scratch, most.Scratch, true},
		{"shared bytes", need.Shared, most.Shared, true},
		{"threads of a block", need.Threads, most.Invocations, true},
		{"a thread's bytes", need.Private, most.Private, true},
		{"vector registers", need.Registers, most.Registers, true},
		{"operands", need.Operands, most.Operands, false},
		{"values", need.Values, most.Values, false},
	} {
		if row.Most > 0 && row.Need > row.Most {
			over = append(over, row)
		}
	}
	return over
}

// Verify returns an error if a kernel of a scheduled module needs more than the machine has, which is a bug of this
// package. Kernels that run no iteration are not checked: they are not scheduled.
func Verify(m *loop.Module, machine target.Machine) error {
	for _, k := range m.Kernels {
		for _, e := range Fit(k, machine, m.Dims) {
			if e.Hard && !neverRuns(k) {
				return fmt.Errorf("kernel @%s takes %s", k.Name, e)
			}
		}
	}
	return nil
}

// fits reports whether a kernel keeps within all limits.
func (s *scheduler) fits(k *loop.Kernel) bool { return len(Fit(k, s.machine, s.dims)) == 0 }

// commits reports whether a kernel may replace another: it exceeds no limit by more than that one.
func (s *scheduler) commits(next, before *loop.Kernel) bool {
	over := Fit(next, s.machine, s.dims)
	if len(over) == 0 {
		return true
	}
	were := Fit(before, s.machine, s.dims)
	return !slices.ContainsFunc(over, func(e Excess) bool {
		return !slices.ContainsFunc(were, func(was Excess) bool { return was.What == e.What && was.Need >= e.Need })
	})
}

// mostHalvings is the number of times that a tile is halved at most.
const mostHalvings = 12

// smaller applies a step that cuts tiles, and again with tiles of half the size as long as the kernel exceeds a limit
// and gets smaller. It returns the last kernel; nil if the step did nothing.
func (s *scheduler) smaller(k *loop.Kernel, cut func(next *loop.Kernel) bool) *loop.Kernel {
	defer func() { s.halvings = 0 }()
	var best *loop.Kernel
	least := int64(math.MaxInt64)
	for s.halvings = 0; s.halvings <= mostHalvings; s.halvings++ {
		next := k.Clone()
		if !cut(next) {
			return best
		}
		next.Dims = dimsOf(next, k)
		need := NeedOf(next, s.machine, s.dims).Scratch
		if best == nil || need < least { // need is not less if 64 bits do not count it
			best, least = next, need
		}
		if s.fits(next) {
			return next
		}
	}
	return best
}

// halved returns the size of a tile after the present number of halvings.
func (s *scheduler) halved(size int64) int64 { return max(1, size>>s.halvings) }

// sumRegisters returns the vector registers for one row of a product's sums; 0 if the machine has none.
func sumRegisters(k *loop.Kernel, c *loop.Contract, machine target.Machine, dims *sym.Dims) int64 {
	sums := bufferOf(k, c.C.Buffer)
	if machine.Tile.Columns == 0 || machine.VectorBytes == 0 || sums == nil {
		return 0
	}
	lanes := int64(machine.VectorBytes) * 8 / int64(sums.DType.Bits())
	return target.SumRegisters(1, max(1, (upper(c.N, dims)+lanes-1)/lanes))
}

// upper returns the value of an expression with every dimension at its upper bound; dimensions without one are 1024 or
// their lower bound.
func upper(e sym.Expr, dims *sym.Dims) int64 {
	v, err := e.Eval(func(name sym.Name) (int64, bool) {
		r, ok := dims.Get(name)
		if !ok {
			return 1024, true
		}
		if r.Max > 1<<40 {
			return max(r.Min, 1024), true
		}
		return r.Max, true
	})
	if err != nil { // a part is more than 64 bits count, and the whole need not be: it may be a minimum
		_, v = dims.Bounds(e)
	}
	return v
}

// valuesOf counts the values that a vector loop's body may keep at once: the named ones that are still used, and those
// of an expression or of a statement's body in addition.
func valuesOf(body []loop.Stmt) int64 {
	last := map[string]int{} // the statement that mentions a name last
	for i, s := range body {
		loop.Walk([]loop.Stmt{s}, func(s loop.Stmt) bool {
			mentioned(s, func(name string) { last[name] = i })
			return true
		})
	}
	most, alive := int64(0), map[string]bool{}
	for i, s := range body {
		if name, declares := declaredBy(s); declares {
			alive[name] = true
		}
		inside := int64(0)
		for _, e := range loop.Values(s) {
			inside = max(inside, int64(depth(e)))
		}
		for _, inner := range loop.Bodies(s) {
			inside = max(inside, valuesOf(*inner))
		}
		most = max(most, int64(len(alive))+inside)
		for name := range alive {
			if at, is := last[name]; is && at <= i {
				delete(alive, name)
			}
		}
	}
	return most
}

// declaredBy returns the name of the value that a statement declares.
func declaredBy(s loop.Stmt) (name string, ok bool) {
	switch s := s.(type) {
	case *loop.Let:
		return s.Name, true
	case *loop.Var:
		return s.Name, true
	case *loop.Check:
		return s.Name.String(), true
	}
	return "", false
}

// mentioned calls do for the names of values that a statement reads or changes, except those in indices.
func mentioned(s loop.Stmt, do func(name string)) {
	switch s := s.(type) {
	case *loop.Set:
		do(s.Name)
	case *loop.Reduce:
		do(s.Name)
	}
	for _, e := range loop.Values(s) {
		loop.WalkExpr(e, func(x loop.Expr) {
			if r, is := x.(*loop.Ref); is {
				do(r.Name)
			}
		})
	}
}

// depth returns the number of values that the evaluation of an expression keeps at once.
func depth(e loop.Expr) int {
	d := 0
	for i, x := range loop.Operands(e) {
		d = max(d, depth(x)+min(i, 1))
	}
	return max(d, 1)
}

// ofBlocks sets the resources of blocks and of their threads to the most that one nest takes: nests do not run at the
// same time.
func (n *Need) ofBlocks(body []loop.Stmt, machine target.Machine, dims *sym.Dims) {
	for _, nest := range body {
		if f, is := nest.(*loop.For); is && f.Kind == loop.Serial {
			n.ofBlocks(f.Body, machine, dims)
			continue
		}
		var shared sym.Expr
		one := Need{}
		one.ofThreads([]loop.Stmt{nest}, dims)
		loop.Walk([]loop.Stmt{nest}, func(s loop.Stmt) bool {
			if l, is := s.(*loop.Local); is && l.Space == loop.Shared {
				bits := int64(machine.SharedBits(l.DType.Bits()))
				shared = shared.Add(sym.Product(l.Shape...).Mul(sym.Const(bits / 8)))
			}
			return true
		})
		n.Shared, n.Threads, n.Private = max(n.Shared, upper(shared, dims)), max(n.Threads, one.Threads),
			max(n.Private, one.Private)
	}
}

// ofThreads adds the resources of the threads of each block in a body. Outside of blocks, nothing belongs to a thread.
func (n *Need) ofThreads(body []loop.Stmt, dims *sym.Dims) {
	loop.Walk(body, func(s loop.Stmt) bool {
		f, ok := s.(*loop.For)
		if ok && f.Kind == loop.Block {
			n.inBlock(f.Body, dims)
			return false
		}
		return true
	})
}

// inBlock adds the resources of the threads of a block: each thread has a share of a local outside Thread loops, unless
// it is shared, and all of a local inside. A thread that multiplies keeps one element of each of its rows and columns.
func (n *Need) inBlock(body []loop.Stmt, dims *sym.Dims) {
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.For:
			if s.Kind == loop.Thread {
				n.inThread(s.Body, dims)
				return false
			}
		case *loop.Local:
			if s.Space != loop.Shared && len(s.Shape) > 0 {
				n.Threads = max(n.Threads, upper(s.Shape[0], dims))
				n.Private += upper(loop.Bytes(s.DType, s.Shape[1:]), dims)
			}
		}
		return true
	})
}

// inThread adds the resources of one thread.
func (n *Need) inThread(body []loop.Stmt, dims *sym.Dims) {
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Local:
			n.Private += upper(loop.Bytes(s.DType, s.Shape), dims)
		case *loop.Contract:
			n.Private += 4 * (upper(s.M, dims) + upper(s.N, dims))
		}
		return true
	})
}

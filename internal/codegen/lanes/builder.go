package lanes

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// Instructions is a machine's instructions, of type I, and its assembler's code, of type C. With them Builder is a part
// of the machine.
type Instructions[I any, C Assembler] interface {
	regalloc.Machine[I]
	Poller[I]
	Processor
	// Machine returns the machine that emits a nest by a builder, for an emitter.
	Machine(b *Builder[I, C], e *Emitter) Machine
	// Tiles returns the registers of the machine that have a routine's first tile and the one after the last.
	Tiles() (begin, end regalloc.Reg)
	// Assembler returns an assembler's code without instructions.
	Assembler() C
	// Fuse may join instructions before their registers are allocated, and Legal replaces what the assembler does not
	// take after it, in a list that may use room's memory. Encode makes machine code of the result.
	Fuse(r *regalloc.Routine[I])
	Legal(room, insts []I) []I
	Encode(code C, insts []I) []byte

	// Binding is the position of a label, and Spoiling a position that spoils; see regalloc.Flow. Copying copies a
	// register to another of its class. Testing is a provisional test of a loop's counter; see Budgets.Turn.
	Binding(l regalloc.Label) I
	Spoiling() I
	Copying(to, from regalloc.Reg) I
	Testing(counter regalloc.Reg) I
	// AppendNumber appends code that sets a general register.
	AppendNumber(list []I, r regalloc.Reg, v int64) []I
}

// Assembler is the labels and the constants of a routine's code.
type Assembler interface {
	NewLabel() regalloc.Label
	// Constant puts bytes into the pool, once, and returns their number there, which counts from 1.
	Constant(bytes []byte) int32
}

// Builder collects the instructions of a routine over virtual registers, and the constants that they read. Its methods
// are those of Machine that all machines with an assembler share.
type Builder[I any, C Assembler] struct {
	regalloc.Routine[I]
	Pool    C // labels and constants
	Budgets Budgets[I]

	set  Instructions[I, C]
	work *workspace[I]
}

// workspace is memory that a goroutine reuses from one compilation to the next. Its zero value is ready.
type workspace[I any] struct {
	regalloc.Workspace[I]
	paused, legal []I
	told          func(routine string) // if not nil, given the instructions of each routine as lines
}

// NewBuilder returns a builder with memory of its own.
func NewBuilder[I any, C Assembler](set Instructions[I, C]) *Builder[I, C] {
	return builderOf(new(workspace[I]), set)
}

// builderOf returns a builder that shares a workspace's memory.
func builderOf[I any, C Assembler](w *workspace[I], set Instructions[I, C]) *Builder[I, C] {
	return &Builder[I, C]{Routine: w.Routine(), Pool: set.Assembler(), set: set, work: w}
}

// Code, SetCode and AppendCode are Scalars'.
func (b *Builder[I, C]) Code() Code {
	if b.Insts == nil {
		return nil
	}
	return b.Insts
}
func (b *Builder[I, C]) SetCode(c Code) { b.Insts, _ = c.([]I) }
func (b *Builder[I, C]) AppendCode(c Code) {
	list, _ := c.([]I)
	b.Append(list)
}

// Registers, numbers and labels, as Scalars and Vectors describe them.

func (b *Builder[I, C]) General() regalloc.Reg   { return b.Register(regalloc.General) }
func (b *Builder[I, C]) NewVector() regalloc.Reg { return b.Register(regalloc.Vector) }
func (b *Builder[I, C]) Frame() regalloc.Reg     { return b.set.Frame() }
func (b *Builder[I, C]) Unique() int             { return b.Registers(regalloc.General) }
func (b *Builder[I, C]) Label() regalloc.Label   { return b.Pool.NewLabel() }
func (b *Builder[I, C]) Bind(l regalloc.Label)   { b.Emit(b.set.Binding(l)) }

func (b *Builder[I, C]) Number(v int64) regalloc.Reg {
	r := b.General()
	b.SetNumber(r, v)
	return r
}
func (b *Builder[I, C]) SetNumber(r regalloc.Reg, v int64) {
	if b.Insts == nil {
		b.Insts = b.List()
	}
	b.Insts = b.set.AppendNumber(b.Insts, r, v)
}
func (b *Builder[I, C]) CopyOf(x regalloc.Reg) regalloc.Reg {
	r := b.Register(x.Class())
	b.Assign(r, x)
	return r
}
func (b *Builder[I, C]) Assign(to, x regalloc.Reg) { b.Emit(b.set.Copying(to, x)) }
func (b *Builder[I, C]) LoadWord(at regalloc.Mem) regalloc.Reg {
	r := b.General()
	b.Emit(b.set.Load(r, at))
	return r
}
func (b *Builder[I, C]) StoreWord(at regalloc.Mem, x regalloc.Reg) { b.Emit(b.set.Store(at, x)) }

// Vector returns a register for a constant that fills a vector; the allocator decides whether it is kept in one or
// read from memory where it is used.
func (b *Builder[I, C]) Vector(bytes []byte) regalloc.Reg {
	return b.Constant(regalloc.Vector, bytes, b.Pool.Constant)
}
func (b *Builder[I, C]) Bytes(r regalloc.Reg) []byte { return b.Contents(r) }
func (b *Builder[I, C]) InPool(bytes []byte) regalloc.Mem {
	return regalloc.Mem{Pool: b.Pool.Constant(bytes)}
}
func (b *Builder[I, C]) Repeated(dt dtype.DType, bits uint64) regalloc.Reg {
	one := binary.LittleEndian.AppendUint64(nil, bits)[:dt.Bits()/8]
	return b.Vector(slices.Repeat(one, int(b.set.VectorBytes())/len(one)))
}

// Turns binds the label at which a loop begins again, and records its number of iterations; see Budgets.Turn.
func (b *Builder[I, C]) Turns(l regalloc.Label, most int64, exact bool, counter regalloc.Reg, by int64) {
	b.Bind(l)
	if b.Budgets.Turn(l, most, exact, by) {
		b.Emit(b.set.Testing(counter))
	}
}

// WholeTurns is Turns for a loop of exactly n iterations that does not pause.
func (b *Builder[I, C]) WholeTurns(l regalloc.Label, n int64) {
	b.Budgets.Whole(func() { b.Turns(l, n, true, regalloc.NoReg, 0) })
}

// Spoil marks the beginning of code that names vector registers of the machine; see regalloc.Spoils.
func (b *Builder[I, C]) Spoil() { b.Emit(b.set.Spoiling()) }

// Allocated returns the instructions with registers of the machine, and the bytes of the frame in use: those from spill
// on are free for spilled values.
func (b *Builder[I, C]) Allocated(spill int32) (insts []I, frame int32) {
	b.set.Fuse(&b.Routine)
	return b.Allocate(b.set, spill)
}

// Encoded turns instructions with registers of the machine into machine code.
func (b *Builder[I, C]) Encoded(insts []I) []byte {
	insts = b.set.Legal(b.work.legal, insts)
	b.work.legal = insts
	if b.work.told != nil {
		b.work.told(listingOf[I](b.set, insts))
	}
	b.Free(b.Insts)
	b.Insts = nil
	return b.set.Encode(b.Pool, insts)
}

// Assembled is a routine that a builder has collected, with the label of its loop over tiles.
type Assembled[I any, C Assembler] struct {
	*Builder[I, C]
	Tiles regalloc.Label
}

// Finish is Routine's.
func (r Assembled[I, C]) Finish(spill int32) (code []byte, frame int32, tile, longest int64) {
	insts, frame := r.Allocated(spill)
	insts, tile, longest = r.Budgets.Finish(r.set, insts, r.Tiles, r.Label, &r.work.paused)
	return r.Encoded(insts), frame, tile, longest
}

// compiler makes code of a machine's instructions, with memory that it reuses.
type compiler[I any, C Assembler] struct {
	work *workspace[I]
	set  Instructions[I, C]
}

// Processor returns the instructions.
func (c *compiler[I, C]) Processor() Processor { return c.set }

// Routine emits a nest: a loop over the tiles.
func (c *compiler[I, C]) Routine(k *KernelEmitter, n loop.Nest) Routine {
	b := builderOf(c.work, c.set)
	e := NewEmitter(nil, k, int(c.set.VectorBytes()/4), int64(len(c.set.Bank(regalloc.Vector).Free))/4)
	e.Machine = c.set.Machine(b, e)
	e.Open(nil)
	tile, end := b.General(), b.General()
	begin, last := c.set.Tiles()
	b.Assign(tile, begin)
	b.Assign(end, last)
	return Assembled[I, C]{b, e.Nest(n, tile, end)}
}

// CompilerOf returns a compiler with memory of its own.
func CompilerOf[I any, C Assembler](set Instructions[I, C]) Compiler {
	return &compiler[I, C]{new(workspace[I]), set}
}

// Workspaces is the unused memory of a machine's compilers.
type Workspaces[I any] struct{ pool sync.Pool }

// Opening returns the function by which Generate opens compilers of a machine.
func Opening[I any, C Assembler](w *Workspaces[I], set Instructions[I, C]) func() (c Compiler, close func()) {
	return func() (Compiler, func()) {
		work, ok := w.pool.Get().(*workspace[I])
		if !ok {
			work = new(workspace[I])
		}
		return &compiler[I, C]{work, set}, func() { w.pool.Put(work) }
	}
}

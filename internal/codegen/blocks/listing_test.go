package blocks

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected results in testdata")

// TestText runs the cases of testdata/*.txt (see kerneltest.Texts): the result is the kernel in a language of text, or
// the reason why the device cannot run it.
func TestText(t *testing.T) {
	kerneltest.Texts(t, *rewrite, kerneltest.LimitsOf, func(t *testing.T, h kerneltest.Harness, m *loop.Module) string {
		var l *listing
		if _, err := Compile(m, h.Machine, func(w *Writer) Language { l = newListing(w); return l }); err != nil {
			return err.Error()
		}
		return l.text.String()
	})
}

// TestBarriers: each kernel of blocks is written, with as many entries as it reports, and with a barrier, since all of
// them share memory.
func TestBarriers(t *testing.T) {
	for _, k := range kerneltest.BlockKernels(t) {
		for _, name := range target.Profiles() {
			machine, err := target.ParseLimits(name)
			if err != nil {
				t.Fatal(err)
			}
			m := &loop.Module{Kernels: []*loop.Kernel{k.Kernel}, Dims: sym.NewDims()}
			for _, name := range k.Kernel.Dims {
				m.Dims.Set(name, sym.Range{Max: 1 << 10})
			}
			var l *listing
			code, err := Compile(m, machine, func(w *Writer) Language { l = newListing(w); return l })
			if errors.Is(err, diag.ErrUnsupported) && name != "desktop" {
				continue
			}
			if err != nil {
				t.Errorf("@%s for %s: %v", k.Name, name, err)
				continue
			}
			if entries := len(code.Kernels[0].(target.Blocks).Binary().Entries); l.begun != entries || l.ended != entries {
				t.Errorf("@%s for %s: %d entries begin and %d end, of %d", k.Name, name, l.begun, l.ended, entries)
			}
			if !strings.Contains(l.text.String(), "barrier") {
				t.Errorf("@%s for %s has no barrier:\n%s", k.Name, name, l.text.String())
			}
		}
	}
}

// listing is a language of text: an instruction a line, whose result has a number. Constants and types stand in the
// operands.
type listing struct {
	kernel       *Writer
	text         strings.Builder
	depth        int
	last         ID
	known        map[string]ID // constants and types
	names        map[ID]string
	begun, ended int
}

// newListing returns an empty listing of a kernel.
func newListing(kernel *Writer) *listing {
	return &listing{kernel: kernel, known: map[string]ID{}, names: map[ID]string{}}
}

// name returns an operand as text.
func (l *listing) name(x ID) string {
	if s, ok := l.names[x]; ok {
		return s
	}
	return fmt.Sprintf("%%%d", x)
}

// say writes a line.
func (l *listing) say(format string, args ...any) {
	for i, x := range args {
		if x, is := x.(ID); is {
			args[i] = l.name(x)
		}
	}
	fmt.Fprintf(&l.text, strings.Repeat("  ", l.depth)+format+"\n", args...)
}

// make writes an instruction with a result.
func (l *listing) make(format string, args ...any) ID {
	l.last++
	l.say("%s = "+format, append([]any{l.last}, args...)...)
	return l.last
}

// fixed returns a constant or a type.
func (l *listing) fixed(text string) ID {
	x, ok := l.known[text]
	if !ok {
		l.last++
		x = l.last
		l.known[text], l.names[x] = x, text
	}
	return x
}

// inside writes lines that are indented further.
func (l *listing) inside(write func()) {
	l.depth++
	write()
	l.depth--
}

func (l *listing) Begin() { l.begun++; l.say("begin") }
func (l *listing) Finish(e *target.Entry) {
	l.ended++
	l.say("end %s: %d threads, %d bytes shared", e.Name, e.Threads, e.Shared)
}
func (l *listing) Words() []uint32 { return nil }

func (l *listing) When(condition ID, then, otherwise func()) {
	l.say("when %s", condition)
	l.inside(then)
	if otherwise != nil {
		l.say("otherwise")
		l.inside(otherwise)
	}
}

func (l *listing) Loop(condition func() ID, inside, next func()) {
	l.say("loop")
	l.inside(func() {
		l.say("while %s", condition())
		inside()
		next()
	})
}

func (l *listing) Barrier()             { l.say("barrier") }
func (l *listing) Thread() ID           { return l.fixed("thread") }
func (l *listing) Step() ID             { return l.fixed("step") }
func (l *listing) Block(axis uint32) ID { return l.fixed([]string{"column", "row"}[axis]) }
func (l *listing) Subgroup() ID         { return l.fixed("subgroup") }
func (l *listing) Lane() ID             { return l.fixed("lane") }
func (l *listing) Further(_ dtype.DType, x ID, lanes int64) ID {
	return l.make("further %s %d", x, lanes)
}
func (l *listing) Argument(i int) ID { return l.make("argument %d", i) }
func (l *listing) Word(argument ID, wide bool) ID {
	return l.make("word %s %s", l.IntegerType(wide), argument)
}
func (l *listing) Address(base ID, offset Integer) ID {
	return l.make("address %s %s", base, offset.ID)
}

func (l *listing) Held(dt dtype.DType) ID { return l.fixed(dt.String()) }
func (l *listing) IntegerType(wide bool) ID {
	return l.fixed(map[bool]string{true: "wide", false: "narrow"}[wide])
}
func (l *listing) Variable(typ ID) ID      { return l.make("variable %s", typ) }
func (l *listing) Get(variable, typ ID) ID { return l.make("get %s", variable) }
func (l *listing) Set(variable, x ID)      { l.say("set %s %s", variable, x) }
func (l *listing) Private(dt dtype.DType, count int64) ID {
	return l.make("private %s %d", dt, count)
}
func (l *listing) Shared(dt dtype.DType, count int64) ID { return l.make("shared %s %d", dt, count) }

// place returns a buffer as text.
func (l *listing) place(m *Memory) string { return l.name(max(m.Base, m.Variable)) }

func (l *listing) Load(m *Memory, offset sym.Expr) ID {
	at := l.kernel.Integer(offset)
	return l.make("load %s %s %s", m.DType, l.place(m), at.ID)
}
func (l *listing) LoadIf(m *Memory, offset sym.Expr, mask ID) ID {
	at := l.kernel.Integer(offset)
	return l.make("load %s %s %s if %s", m.DType, l.place(m), at.ID, mask)
}
func (l *listing) Store(m *Memory, offset sym.Expr, x ID) {
	at := l.kernel.Integer(offset)
	l.say("store %s %s %s %s", m.DType, l.place(m), at.ID, x)
}

func (l *listing) Number(v int64, wide bool) ID { return l.fixed(fmt.Sprint(v)) }
func (l *listing) Bool(b bool) ID               { return l.fixed(fmt.Sprint(b)) }
func (l *listing) Zero(dt dtype.DType) ID       { return l.fixed(dt.String() + "(0)") }
func (l *listing) Const(c *loop.Const) Value {
	text := fmt.Sprintf("%s(%d)", c.Type, loop.ToInt(c.Type, c.Bits))
	switch {
	case c.Type == dtype.Bool:
		return Value{ID: l.Bool(c.Bits != 0), DType: c.Type}
	case c.Type.IsFloat():
		text = fmt.Sprintf("%s(%v)", c.Type, loop.ToFloat(c.Type, c.Bits))
	}
	return Value{ID: l.fixed(text), DType: c.Type}
}

// operationNames has the operations' names.
var operationNames = [...]string{Add: "add", Subtract: "subtract", Multiply: "multiply", Quotient: "quotient",
	Remainder: "remainder", Divide: "divide", Less: "less", Greater: "greater", Unequal: "unequal"}

func (l *listing) Arithmetic(op Operation, wide bool, x, y ID) ID {
	return l.make(operationNames[op]+" %s %s %s", l.IntegerType(wide), x, y)
}
func (l *listing) Compare(op Operation, x, y ID) ID { return l.make(operationNames[op]+" %s %s", x, y) }
func (l *listing) Resize(x ID, wide bool) ID        { return l.make("resize %s %s", l.IntegerType(wide), x) }
func (l *listing) Choose(_, condition, x, y ID) ID {
	return l.make("choose %s %s %s", condition, x, y)
}
func (l *listing) Or(x, y ID) ID { return l.make("or %s %s", x, y) }

func (l *listing) Unary(op loop.UnaryOp, x Value) Value {
	dt := x.DType
	if op == loop.Not || op == loop.IsNaN || op == loop.IsInf {
		dt = dtype.Bool
	}
	return Value{ID: l.make("%s %s %s", op, x.DType, x.ID), DType: dt, Narrow: x.Narrow}
}
func (l *listing) Binary(op loop.BinaryOp, x, y Value) Value {
	dt := x.DType
	if op >= loop.Eq {
		dt = dtype.Bool
	}
	narrow := x.Narrow && y.Narrow && dt == x.DType
	return Value{ID: l.make("%s %s %s %s", op, x.DType, x.ID, y.ID), DType: dt, Narrow: narrow}
}
func (l *listing) Cast(to dtype.DType, x Value, clamped bool) ID {
	return l.make("cast %s %s %s", to, x.DType, x.ID)
}
func (l *listing) Quantise(q loop.Quantised, x ID) ID {
	return l.make("quantise %s by %g, from %g to %g, zero %g", x, q.Scale, q.Low, q.High, q.Zero)
}
func (l *listing) MultiplyAdd(dt dtype.DType, x, y, z ID) ID {
	return l.make("fma %s %s %s %s", dt, x, y, z)
}

// uses has the names of the places of matrices.
var uses = [...]string{MatrixLeft: "left", MatrixRight: "right", MatrixSums: "sums"}

func (l *listing) MatrixType(use MatrixUse, x target.Matrix) ID {
	return l.fixed(fmt.Sprintf("%s of %s", uses[use], x.Feature()))
}
func (l *listing) LoadMatrix(use MatrixUse, x target.Matrix, m *Memory, offset sym.Expr, lines Lines) ID {
	at := l.kernel.Integer(offset)
	return l.make("load %s %s %s %+v", l.MatrixType(use, x), l.place(m), at.ID, lines)
}
func (l *listing) StoreMatrix(m *Memory, offset sym.Expr, lines Lines, sums ID) {
	at := l.kernel.Integer(offset)
	l.say("store matrix %s %s %+v %s", l.place(m), at.ID, lines, sums)
}
func (l *listing) MultiplyMatrices(_ target.Matrix, left, right, sums ID) ID {
	return l.make("multiply matrices %s %s %s", left, right, sums)
}

func (l *listing) Signed(x Value) (v Integer, beyond ID) {
	return Integer{x.ID, x.DType.Bits() == 64 && !x.Narrow}, l.Bool(false)
}
func (l *listing) Report(at ID, check int, x Value, low, high Integer) {
	l.say("report %s: check %d, %s, from %s to %s", at, check, x.ID, low.ID, high.ID)
}

package loop

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// n returns a constant integer expression.
func n(v int64) sym.Expr { return sym.Const(v) }

// s returns a dimension as an integer expression.
func s(name string) sym.Expr { return sym.Dim(name) }

// floats returns an f32 operand.
func floats(x ...float32) Data {
	data := make([]byte, 4*len(x))
	for i, v := range x {
		binary.NativeEndian.PutUint32(data[4*i:], math.Float32bits(v))
	}
	return Data{dtype.F32, data}
}

// floats returns the elements of an f32 operand.
func (d Data) floats() []float32 {
	x := make([]float32, len(d.Bytes)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.NativeEndian.Uint32(d.Bytes[4*i:]))
	}
	return x
}

// softmax returns the kernel y[i, :] = softmax(x[i, :]), as lowering writes it.
func softmax(width sym.Expr) *Kernel {
	b := NewBuilder("softmax")
	shape := []sym.Expr{s("n"), width}
	x, y := b.Param("x", Read, dtype.F32, shape), b.Param("y", Write, dtype.F32, shape)
	b.Each("i", s("n"), func(i sym.Expr) {
		m := b.Var("m", Lowest(dtype.F32))
		b.Serial("k", width, func(k sym.Expr) { b.Reduce(m, Max, x.Load(i, k)) })
		sum := b.Var("s", Number(dtype.F32, 0))
		b.Serial("k", width, func(k sym.Expr) { b.Reduce(sum, Add, Apply(Exp, Apply2(Sub, x.Load(i, k), m))) })
		b.Each("k", width, func(k sym.Expr) {
			b.Store(y, []sym.Expr{i, k}, Apply2(Div, Apply(Exp, Apply2(Sub, x.Load(i, k), m)), sum))
		})
	})
	return b.Finish()
}

// TestInterpretSoftmax: the kernel is verified without unproved accesses, and its results equal Go's.
func TestInterpretSoftmax(t *testing.T) {
	k := softmax(n(3))
	x := floats(1, 2, 3, -1, float32(math.Inf(-1)), 4)
	y := floats(make([]float32, 6)...)
	if err := Interpret(k, []Data{x, y}, map[sym.Name]int64{sym.User("n"): 2}); err != nil {
		t.Fatal(err)
	}
	in, out := x.floats(), y.floats()
	for row := 0; row < 6; row += 3 {
		sum := 0.0
		for _, v := range in[row : row+3] {
			sum += math.Exp(float64(v))
		}
		for i, v := range in[row : row+3] {
			if want := math.Exp(float64(v)) / sum; math.Abs(float64(out[row+i])-want) > 1e-6 {
				t.Errorf("element %d is %v, want %v", row+i, out[row+i], want)
			}
		}
	}
	if unproved, err := Verify(k, nil); err != nil || unproved != nil {
		t.Errorf("Verify: %v, %v", unproved, err)
	}
	if err := Interpret(k, []Data{floats(), floats()}, map[sym.Name]int64{sym.User("n"): 0}); err != nil {
		t.Error(err)
	}
}

// panicText runs f and returns the text of its panic.
func panicText(t *testing.T, f func()) (text string) {
	t.Helper()
	defer func() {
		switch r := recover().(type) {
		case nil:
			t.Error("no panic")
		case error:
			text = r.Error()
		default:
			t.Errorf("panic of type %T: %v", r, r)
		}
	}()
	f()
	return ""
}

// TestInterpretCatchesBugs: accesses outside a buffer, reads before the write, and elements never written panic with
// the kernel's text.
func TestInterpretCatchesBugs(t *testing.T) {
	out := func(write func(b *Builder, y *Memory)) *Kernel {
		b := NewBuilder("bug")
		write(b, b.Param("y", Write, dtype.F32, []sym.Expr{n(4)}))
		return b.Finish()
	}
	one := Number(dtype.F32, 1)
	for name, c := range map[string]struct {
		kernel *Kernel
		want   string
	}{
		"above": {out(func(b *Builder, y *Memory) {
			b.Each("i", n(5), func(i sym.Expr) { b.Store(y, []sym.Expr{i}, one) })
		}), "access [4] of %y is outside its shape [4]"},
		"below": {out(func(b *Builder, y *Memory) {
			b.Each("i", n(4), func(i sym.Expr) { b.Store(y, []sym.Expr{i.Sub(n(1))}, one) })
		}), "access [-1] of %y"},
		"partly written": {out(func(b *Builder, y *Memory) {
			b.Each("i", n(3), func(i sym.Expr) { b.Store(y, []sym.Expr{i}, one) })
		}), "element 3 of %y (shape [4]) was never written"},
		"read first": {out(func(b *Builder, y *Memory) {
			b.Each("i", n(4), func(i sym.Expr) { b.Store(y, []sym.Expr{i}, Apply2(Add, one, y.Load(i))) })
		}), "read before it was written"},
		"tile": {out(func(b *Builder, y *Memory) {
			a := b.Local("a", dtype.F32, n(2), n(2))
			b.Contract(n(2), n(2), n(3), y.Tile([]sym.Expr{n(0)}, []sym.Expr{n(2)}, []sym.Expr{n(1)}),
				a.Tile([]sym.Expr{n(0), n(0)}, []sym.Expr{n(1), n(0)}, []sym.Expr{n(0), n(1)}),
				a.Tile([]sym.Expr{n(0), n(0)}, []sym.Expr{n(1), n(0)}, []sym.Expr{n(0), n(1)}))
		}), "a tile of %a spans [0, 2] of axis 1"},
	} {
		got := panicText(t, func() { Interpret(c.kernel, []Data{floats(0, 0, 0, 0)}, nil) })
		if !strings.Contains(got, c.want) || !strings.Contains(got, "kernel @bug") {
			t.Errorf("%s: the panic says %q, want %q and the kernel", name, got, c.want)
		}
	}
}

// TestInterpretCheck: a value inside a Check's range indexes a buffer; a value outside it is an input error.
func TestInterpretCheck(t *testing.T) {
	b := NewBuilder("gather")
	x := b.Param("x", Read, dtype.F32, []sym.Expr{s("n")})
	at := b.Param("at", Read, dtype.I64, []sym.Expr{s("m")})
	y := b.Param("y", Write, dtype.F32, []sym.Expr{s("m")})
	b.Each("i", s("m"), func(i sym.Expr) {
		j := b.Check("j", at.Load(i), n(0), s("n").Sub(n(1)), "an index of Gather")
		b.Store(y, []sym.Expr{i}, x.Load(j))
	})
	k := b.Finish()
	k.Source = "g1"
	if unproved, err := Verify(k, nil); err != nil || unproved != nil {
		t.Fatalf("Verify: %v, %v", unproved, err)
	}
	index := make([]byte, 16)
	binary.NativeEndian.PutUint64(index, 2)
	dims := map[sym.Name]int64{sym.User("n"): 3, sym.User("m"): 2}
	operands := []Data{floats(5, 6, 7), {dtype.I64, index}, floats(0, 0)}
	if err := Interpret(k, operands, dims); err != nil {
		t.Fatal(err)
	}
	if got := operands[2].floats(); got[0] != 7 || got[1] != 5 {
		t.Errorf("gathered %v", got)
	}
	for _, wrong := range []int64{3, -1, math.MinInt64} {
		binary.NativeEndian.PutUint64(index[8:], uint64(wrong))
		err := Interpret(k, operands, dims)
		var e *diag.Error
		if !errors.Is(err, diag.ErrInput) || !errors.As(err, &e) || e.Node != "g1" ||
			!strings.Contains(e.Detail, "an index of Gather is ") || !strings.Contains(e.Detail, "outside [0, 2]") {
			t.Errorf("index %d: %v", wrong, err)
		}
	}
}

// TestInterpretLocals: a local's elements are NaN until they are written, and a local lies in the given scratch.
func TestInterpretLocals(t *testing.T) {
	b := NewBuilder("locals")
	y := b.Param("y", Write, dtype.F32, []sym.Expr{n(2)})
	first := b.Local("first", dtype.F32, s("n"))
	b.Each("i", n(2), func(i sym.Expr) {
		second := b.Local("second", dtype.F16, n(40))
		b.Store(y, []sym.Expr{i}, Apply2(Add, first.Load(i), Convert(dtype.F32, second.Load(i))))
	})
	b.Each("i", n(2), func(i sym.Expr) { b.Local("third", dtype.U4, n(3)) })
	k := b.Finish()
	x := NewInterpreter(k)
	for dim, want := range map[int64]int64{1: 64 + 80, 16: 64 + 80, 17: 128 + 80} {
		if got, err := x.Scratch([]int64{dim}); err != nil || got != want {
			t.Errorf("scratch for n = %d is %d, %v, want %d", dim, got, err, want)
		}
	}
	out, scratch := floats(0, 0), make([]byte, 64+80)
	if err := x.Run([]Data{out}, []int64{16}, scratch); err != nil {
		t.Fatal(err)
	}
	if got := out.floats(); got[0] == got[0] || got[1] == got[1] {
		t.Errorf("undefined locals sum to %v", got)
	}
	for i, b := range scratch {
		if b != 0xFF {
			t.Errorf("byte %d of the scratch is %#x", i, b)
			break
		}
	}
}

// TestInterpretContract: contractions of every accepted pair of types equal a sum in Go, with transposed operands.
func TestInterpretContract(t *testing.T) {
	for _, dt := range []dtype.DType{dtype.F32, dtype.I32, dtype.F64} {
		source := map[dtype.DType]dtype.DType{dtype.F32: dtype.BF16, dtype.I32: dtype.I8, dtype.F64: dtype.F32}[dt]
		b := NewBuilder("product")
		rows, cols, depth := int64(3), int64(2), int64(4)
		a := b.Param("a", Read, source, []sym.Expr{n(depth), n(rows)}) // transposed
		x := b.Param("b", Read, source, []sym.Expr{n(depth), n(cols)})
		c := b.Param("c", Update, dt, []sym.Expr{n(rows), n(cols)})
		zero := []sym.Expr{n(0), n(0)}
		down, right := []sym.Expr{n(1), n(0)}, []sym.Expr{n(0), n(1)}
		b.Contract(n(rows), n(cols), n(depth), c.Tile(zero, down, right), a.Tile(zero, right, down),
			x.Tile(zero, down, right))
		k := b.Finish()
		if unproved, err := Verify(k, nil); err != nil || unproved != nil {
			t.Fatalf("Verify: %v, %v", unproved, err)
		}
		fill := func(dt dtype.DType, count int64, f func(i int64) int64) Data {
			d := Data{dt, make([]byte, count*int64(dt.Bits())/8)}
			for i := range count {
				if dt.IsInt() {
					dtype.StoreInt(dt, d.Bytes, i, f(i))
				} else {
					dtype.StoreFloat(dt, d.Bytes, i, float64(f(i)))
				}
			}
			return d
		}
		av := func(i int64) int64 { return i*7%11 - 5 }
		bv := func(i int64) int64 { return i*5%13 - 6 }
		operands := []Data{fill(source, depth*rows, av), fill(source, depth*cols, bv),
			fill(dt, rows*cols, func(i int64) int64 {
				return i
			})}
		if err := Interpret(k, operands, nil); err != nil {
			t.Fatal(err)
		}
		for r := range rows {
			for q := range cols {
				want := r*cols + q
				for d := range depth {
					want += av(d*rows+r) * bv(d*cols+q)
				}
				got := int64(0)
				if dt.IsInt() {
					got = dtype.LoadInt(dt, operands[2].Bytes, r*cols+q)
				} else {
					got = int64(dtype.LoadFloat(dt, operands[2].Bytes, r*cols+q))
				}
				if got != want {
					t.Errorf("%s element (%d, %d) is %d, want %d", dt, r, q, got, want)
				}
			}
		}
	}
}

// TestInterpretReversed: reversed iterations change the results of a loop that is not independent, and of no other.
func TestInterpretReversed(t *testing.T) {
	for source, same := range map[string]bool{
		`kernel @k(%x: f32[n] update) dims(n) { each i < n { store %x[i] = mul(load %x[i], 2) } }`:                      true,
		`kernel @k(%x: f32[n] update) dims(n) { for i < n - 1 { store %x[i + 1] = load %x[i] } }`:                       true,
		`kernel @k(%x: f32[n] update) dims(n) { each i < n - 1 { store %x[i + 1] = load %x[i] } }`:                      false,
		`kernel @k(%x: f32[n] update) dims(n) { parallel i < n { store %x[i//2] = cast(f32, index(i)) } }`:              false,
		`kernel @k(%x: f32[n] update) dims(n) { var %s: f32 = 0 vector i < n { %s add= load %x[i] } store %x[0] = %s }`: true,
	} {
		k, err := ParseKernel(source)
		if err != nil {
			t.Fatal(err)
		}
		forward, backward := floats(1, 2, 3, 4), floats(1, 2, 3, 4)
		dims := map[sym.Name]int64{sym.User("n"): 4}
		if err := errors.Join(Interpret(k, []Data{forward}, dims), InterpretReversed(k, []Data{backward}, dims)); err != nil {
			t.Fatal(err)
		}
		if got := bytes.Equal(forward.Bytes, backward.Bytes); got != same {
			t.Errorf("%s gives %v and reversed %v", source, forward.floats(), backward.floats())
		}
	}
}

// TestBuilderNames: dimensions with the names that a builder makes for loops, buffers and scalars stay distinct from
// them.
func TestBuilderNames(t *testing.T) {
	b := NewBuilder("names")
	y := b.Param("y", Write, dtype.F32, []sym.Expr{s("i"), s("y_1")})
	var names []string
	b.Nest(Each, "i", []sym.Expr{s("i"), s("y_1")}, func(index []sym.Expr) {
		b.Serial("k", s("k"), func(k sym.Expr) { names = append(names, k.String()) })
		names = append(names, b.Let("y", Number(dtype.F32, 0)).Name, b.Local("i", dtype.F32).Name)
		b.Store(y, index, Number(dtype.F32, 1))
	})
	k := b.Finish()
	if got := sym.Join(k.Dims, " "); got != "i k y_1" {
		t.Errorf("dimensions %s", got)
	}
	if _, err := Verify(k, nil); err != nil {
		t.Errorf("%v, names %v\n%s", err, names, k)
	}
}

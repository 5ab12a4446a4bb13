package portable

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// operand is the memory of one parameter.
func operand(t testing.TB, p *loop.Param, dims map[string]int64) *tensor.Tensor {
	t.Helper()
	shape := make([]int64, len(p.Shape))
	for i, e := range p.Shape {
		n, err := e.Eval(func(name string) (int64, bool) { v, ok := dims[name]; return v, ok })
		if err != nil {
			t.Fatal(err)
		}
		shape[i] = n
	}
	if p.Strides != nil {
		last := int64(1)
		for i, e := range p.Strides {
			n, err := e.Eval(func(name string) (int64, bool) { v, ok := dims[name]; return v, ok })
			if err != nil {
				t.Fatal(err)
			}
			last += max(shape[i]-1, 0) * n
		}
		shape = []int64{last}
	}
	x, err := tensor.New(p.DType, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// fill writes values of every kind, more small ones than others.
func fill(r *rand.Rand, x *tensor.Tensor) {
	odd := []float64{0, math.Copysign(0, -1), 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e-40, 3e38, 65504, 0.5, -2.5}
	for i := range x.Len() {
		switch dt := x.DType(); {
		case dt == dtype.Bool:
			x.SetInt(i, r.Int63n(2))
		case dt.IsInt() && r.Intn(4) > 0:
			x.SetInt(i, r.Int63n(9)-2)
		case dt.IsInt():
			x.SetInt(i, int64(r.Uint64()))
		case dt.IsComplex():
			x.SetComplex(i, complex(r.NormFloat64(), r.NormFloat64()))
		case r.Intn(12) == 0:
			x.SetFloat(i, odd[r.Intn(len(odd))])
		default:
			x.SetFloat(i, r.NormFloat64()*2)
		}
	}
}

// execute runs a compiled kernel, its tiles split between calls, in scratch of exactly the size that it asks for.
func execute(t testing.TB, k *loop.Kernel, operands []*tensor.Tensor, dims map[string]int64, split int64) error {
	t.Helper()
	code, err := Compile(&loop.Module{Kernels: []*loop.Kernel{k}}, target.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	return launch(t, code.Kernels[0], k, operands, dims, split)
}

func launch(t testing.TB, compiled target.Kernel, k *loop.Kernel, operands []*tensor.Tensor, dims map[string]int64, split int64) error {
	t.Helper()
	a := &target.Args{}
	for _, name := range k.Dims {
		a.Dims = append(a.Dims, dims[name])
	}
	for _, x := range operands {
		o := target.Operand{Bytes: int64(len(x.Bytes()))}
		if o.Bytes > 0 {
			o.Base = unsafe.Pointer(&x.Bytes()[0])
		}
		a.Operands = append(a.Operands, o)
	}
	bytes, err := compiled.Scratch(a.Dims)
	if err != nil {
		t.Fatal(err)
	}
	tiles, err := compiled.Tiles(a.Dims)
	if err != nil {
		t.Fatal(err)
	}
	scratch, guard := scratchOf(int(bytes))
	for i := range scratch {
		scratch[i] = 0xA5
	}
	if split < 1 {
		split = max(tiles, 1)
	}
	for begin := int64(0); begin < tiles; begin += split {
		if err := compiled.Run(a, begin, min(begin+split, tiles), scratch); err != nil {
			return err
		}
	}
	for _, b := range guard {
		if b != 0xC3 {
			t.Fatalf("kernel wrote beyond its scratch of %d bytes", bytes)
		}
	}
	return nil
}

// scratchOf is n aligned bytes, and the guard behind them.
func scratchOf(n int) (scratch, guard []byte) {
	block := make([]byte, n+64+256)
	at := int(-uintptr(unsafe.Pointer(&block[0])) & 63)
	guard = block[at+n:]
	for i := range guard {
		guard[i] = 0xC3
	}
	return block[at : at+n : at+n], guard
}

// agree runs a kernel here and in the interpreter, on the same operands, and compares every parameter.
func agree(t testing.TB, k *loop.Kernel, dims map[string]int64, operands []*tensor.Tensor, tolerance float64, split int64) {
	t.Helper()
	want := make([]*tensor.Tensor, len(operands))
	data := make([]loop.Data, len(operands))
	for i, x := range operands {
		want[i] = x.Clone()
		data[i] = loop.Data{DType: x.DType(), Bytes: want[i].Bytes()}
	}
	wantErr := loop.Interpret(k, data, dims)
	gotErr := execute(t, k, operands, dims, split)
	if (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
		t.Fatalf("error %v, want %v\n%s", gotErr, wantErr, k)
	}
	if wantErr != nil {
		return
	}
	for i, x := range operands {
		if err := tensor.Compare(x, want[i], tolerance, tolerance); err != nil {
			t.Fatalf("parameter %s, dims %v: %v\n%s", k.Params[i].Name, dims, err, k)
		}
	}
}

func finish(b *loop.Builder) *loop.Kernel {
	b.Kernel.Dims = loop.FreeDims(b.Kernel)
	return b.Kernel
}

var (
	n0 = sym.Const(0)
	n1 = sym.Const(1)
)

func dim(name string) sym.Expr { return sym.Var(name) }

// elementTypes are those that kernels compute with.
var elementTypes = []dtype.DType{dtype.Bool, dtype.U2, dtype.I2, dtype.U4, dtype.I4, dtype.U8, dtype.I8, dtype.U16, dtype.I16, dtype.U32, dtype.I32, dtype.U64, dtype.I64,
	dtype.F4E2M1, dtype.F8E4M3FN, dtype.F8E4M3FNUZ, dtype.F8E5M2, dtype.F8E5M2FNUZ, dtype.F8E8M0, dtype.F16, dtype.BF16, dtype.F32, dtype.F64}

// tolerance is for results of functions and sums that round differently here and there.
func tolerance(dt dtype.DType) float64 {
	switch {
	case dt == dtype.F64:
		return 1e-12
	case dt == dtype.F32:
		return 3e-6
	case dt == dtype.F16:
		return 2e-3
	case dt == dtype.BF16:
		return 2e-2
	}
	return 0
}

// TestFunctions runs every function on every type, in lanes and one by one.
func TestFunctions(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	run := func(name string, dt, result dtype.DType, apply func(x, y loop.Expr) loop.Expr) {
		for _, kind := range []loop.LoopKind{loop.Vector, loop.Serial} {
			for form := range 3 {
				b := loop.NewBuilder(name)
				n := dim("n")
				x := b.Param("x", loop.Read, dt, []sym.Expr{n})
				y := b.Param("y", loop.Read, dt, []sym.Expr{n})
				z := b.Param("z", loop.Write, result, []sym.Expr{n})
				b.For(kind, "i", n, func(i sym.Expr) {
					left, right := x.Load(i), y.Load(i)
					switch form {
					case 1:
						right = y.Load(n0)
					case 2:
						left = x.Load(n0)
					}
					b.Store(z, []sym.Expr{i}, apply(left, right))
				})
				k := finish(b)
				dims := map[string]int64{"n": 75}
				operands := []*tensor.Tensor{operand(t, k.Params[0], dims), operand(t, k.Params[1], dims), operand(t, k.Params[2], dims)}
				fill(r, operands[0])
				fill(r, operands[1])
				agree(t, k, dims, operands, tolerance(result), 0)
			}
		}
	}
	for _, dt := range elementTypes {
		for op := loop.Neg; op <= loop.IsInf; op++ {
			if op.Accepts(dt) {
				result := dt
				if op.Test() {
					result = dtype.Bool
				}
				run(fmt.Sprintf("%s_%s", op, dt), dt, result, func(x, y loop.Expr) loop.Expr { return loop.Apply(op, x) })
			}
		}
		for op := loop.Add; op <= loop.Ge; op++ {
			if op.Accepts(dt) {
				result := dt
				if op.Test() {
					result = dtype.Bool
				}
				run(fmt.Sprintf("%s_%s", op, dt), dt, result, func(x, y loop.Expr) loop.Expr { return loop.Apply2(op, x, y) })
			}
		}
		for _, to := range elementTypes {
			for _, wrap := range []bool{false, true} {
				run(fmt.Sprintf("cast_%s_%s", dt, to), dt, to, func(x, y loop.Expr) loop.Expr { return &loop.Cast{Type: to, X: x, Wrap: wrap} })
			}
		}
		run("select_"+dt.String(), dt, dt, func(x, y loop.Expr) loop.Expr {
			return loop.Choose(loop.Apply2(loop.Ne, x, y), y, x)
		})
	}
	run("move_c64", dtype.C64, dtype.C64, func(x, y loop.Expr) loop.Expr { return x })
	run("equal_c64", dtype.C64, dtype.Bool, func(x, y loop.Expr) loop.Expr { return loop.Apply2(loop.Eq, x, y) })
}

// TestPowers holds the exponents that have a way of their own.
func TestPowers(t *testing.T) {
	for _, dt := range []dtype.DType{dtype.F32, dtype.F64, dtype.F16} {
		for _, y := range []float64{0, 1, 2, 3, -1, 0.5} {
			b := loop.NewBuilder("power")
			n := dim("n")
			x, z := b.Param("x", loop.Read, dt, []sym.Expr{n}), b.Param("z", loop.Write, dt, []sym.Expr{n})
			b.For(loop.Vector, "i", n, func(i sym.Expr) {
				b.Store(z, []sym.Expr{i}, loop.Apply2(loop.Pow, x.Load(i), loop.Number(dt, y)))
			})
			k := finish(b)
			dims := map[string]int64{"n": 100}
			operands := []*tensor.Tensor{operand(t, k.Params[0], dims), operand(t, k.Params[1], dims)}
			fill(rand.New(rand.NewSource(3)), operands[0])
			agree(t, k, dims, operands, tolerance(dt), 0)
		}
	}
}

// TestNoAllocation runs a kernel with lanes, scalars, checks, conversions and a contraction again and again.
func TestNoAllocation(t *testing.T) {
	b := loop.NewBuilder("steady")
	n := sym.Const(70)
	at, x := b.Param("at", loop.Read, dtype.I64, []sym.Expr{n}), b.Param("x", loop.Read, dtype.F16, []sym.Expr{n, n})
	y, z := b.Param("y", loop.Update, dtype.I8, []sym.Expr{n, n}), b.Param("z", loop.Update, dtype.F32, []sym.Expr{n, n})
	row, col := []sym.Expr{n1, n0}, []sym.Expr{n0, n1}
	b.For(loop.Parallel, "i", n, func(i sym.Expr) {
		r := b.Check("r", at.Load(i), n0, n.Sub(n1), "a row")
		total := b.Var("total", loop.Number(dtype.F32, 0))
		b.For(loop.Vector, "j", n, func(j sym.Expr) {
			v := b.Let("v", loop.Convert(dtype.F32, x.LoadIf(loop.Inside(j, n1, n), loop.Number(dtype.F16, 1), r, j.Sub(n1))))
			b.Reduce(total, loop.Add, loop.Apply(loop.Exp, v))
			s := b.Check("s", at.Load(j), n0, n.Sub(n1), "a column")
			b.Store(y, []sym.Expr{i, j}, loop.Convert(dtype.I8, loop.Choose(loop.Apply2(loop.Lt, v, x32(x, i, s)), v, loop.Number(dtype.F32, 3))))
		})
		b.Store(z, []sym.Expr{i, n0}, loop.Apply2(loop.Div, total, loop.Convert(dtype.F32, at.Load(i))))
		b.Contract(sym.Const(8), n, n, z.Tile([]sym.Expr{n0, n0}, row, col), x.Tile([]sym.Expr{n0, n0}, row, col), z.Tile([]sym.Expr{n0, n0}, row, col))
	})
	k := finish(b)
	code, _ := Compile(&loop.Module{Kernels: []*loop.Kernel{k}}, target.Machine{})
	compiled := code.Kernels[0]
	a := &target.Args{}
	for _, p := range k.Params {
		o := operand(t, p, nil)
		a.Operands = append(a.Operands, target.Operand{Base: unsafe.Pointer(&o.Bytes()[0]), Bytes: int64(len(o.Bytes()))})
	}
	bytes, _ := compiled.Scratch(nil)
	scratch, _ := scratchOf(int(bytes))
	if n := testing.AllocsPerRun(20, func() {
		if err := compiled.Run(a, 0, 70, scratch); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations in a run, want none", n)
	}
}

func x32(x *loop.Memory, index ...sym.Expr) loop.Expr {
	return loop.Convert(dtype.F32, x.Load(index...))
}

// TestCheck shows the error of a value that fails its check, and that it is the interpreter's.
func TestCheck(t *testing.T) {
	for _, kind := range []loop.LoopKind{loop.Vector, loop.Serial} {
		b := loop.NewBuilder("gather")
		n, rows := dim("n"), dim("rows")
		at := b.Param("at", loop.Read, dtype.I64, []sym.Expr{n})
		x := b.Param("x", loop.Read, dtype.F32, []sym.Expr{rows})
		y := b.Param("y", loop.Write, dtype.F32, []sym.Expr{n})
		b.For(kind, "i", n, func(i sym.Expr) {
			j := b.Check("j", at.Load(i), rows.Neg(), rows.Sub(n1), "an index")
			b.Store(y, []sym.Expr{i}, x.Load(j.Mod(rows)))
		})
		k := finish(b)
		dims := map[string]int64{"n": 40, "rows": 7}
		operands := []*tensor.Tensor{operand(t, k.Params[0], dims), operand(t, k.Params[1], dims), operand(t, k.Params[2], dims)}
		for i := range int64(40) {
			operands[0].SetInt(i, i%14-7)
		}
		fill(rand.New(rand.NewSource(2)), operands[1])
		agree(t, k, dims, operands, 0, 0)
		operands[0].SetInt(33, 7)
		agree(t, k, dims, operands, 0, 0)
		err := execute(t, k, operands, dims, 0)
		if !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), "an index is 7, outside [-7, 6]") {
			t.Errorf("error %v", err)
		}
	}
}

// TestBlocks refuses what only blocks of threads have.
func TestBlocks(t *testing.T) {
	b := loop.NewBuilder("block")
	b.Kernel.Body = []loop.Stmt{&loop.Local{Name: "s", DType: dtype.F32, Shape: fixed(4), Space: loop.Shared}}
	_, err := Compile(&loop.Module{Kernels: []*loop.Kernel{b.Kernel}}, target.Machine{})
	if !errors.Is(err, diag.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
}

// TestTilesAtOnce runs a kernel's tiles on several goroutines, each with its own scratch.
func TestTilesAtOnce(t *testing.T) {
	b := loop.NewBuilder("tiles")
	n := sym.Const(64)
	x, w := b.Param("x", loop.Read, dtype.F32, []sym.Expr{n, n}), b.Param("w", loop.Read, dtype.F32, []sym.Expr{n, n})
	y := b.Param("y", loop.Write, dtype.F32, []sym.Expr{n, n})
	row, col := []sym.Expr{n1, n0}, []sym.Expr{n0, n1}
	b.For(loop.Parallel, "t", sym.Const(8), func(at sym.Expr) {
		acc := b.Local("acc", dtype.F32, sym.Const(8), n)
		b.Nest(loop.Serial, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, loop.Number(dtype.F32, 1)) })
		first := at.Mul(sym.Const(8))
		b.Contract(sym.Const(8), n, n, acc.Tile([]sym.Expr{n0, n0}, row, col), x.Tile([]sym.Expr{first, n0}, row, col), w.Tile([]sym.Expr{n0, n0}, row, col))
		b.Serial("i", sym.Const(8), func(i sym.Expr) {
			b.For(loop.Vector, "j", n, func(j sym.Expr) {
				b.Store(y, []sym.Expr{first.Add(i), j}, loop.Apply(loop.Tanh, acc.Load(i, j)))
			})
		})
	})
	k := finish(b)
	var alone, together []*tensor.Tensor
	for _, p := range k.Params {
		o := operand(t, p, nil)
		fill(rand.New(rand.NewSource(4)), o)
		alone, together = append(alone, o), append(together, o.Clone())
	}
	if err := execute(t, k, alone, nil, 0); err != nil {
		t.Fatal(err)
	}
	code, _ := Compile(&loop.Module{Kernels: []*loop.Kernel{k}}, target.Machine{})
	a := &target.Args{}
	for _, o := range together {
		a.Operands = append(a.Operands, target.Operand{Base: unsafe.Pointer(&o.Bytes()[0]), Bytes: int64(len(o.Bytes()))})
	}
	bytes, _ := code.Kernels[0].Scratch(nil)
	done := make(chan error)
	for worker := range int64(4) {
		go func() {
			scratch, _ := scratchOf(int(bytes))
			done <- code.Kernels[0].Run(a, 2*worker, 2*worker+2, scratch)
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if !together[2].Equal(alone[2]) {
		t.Error("tiles on four goroutines give other bits than on one")
	}
}

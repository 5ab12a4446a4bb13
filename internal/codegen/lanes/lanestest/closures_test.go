package lanestest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/portable"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// This file measures what package portable would cost as a machine of lanes whose instructions are closures. Such a
// machine is this package's model, with long vectors, without its checks, and with loops over slices in the place of
// its functions of one lane, for the operations of the kernels that are measured.

// quick is the model with loops over slices.
type quick struct{ *Model }

// floats and integers return a register's lanes.
func (s *state) floats(x regalloc.Reg) []float32 {
	v := s.vectors[x.Number()]
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}
func (s *state) integers(x regalloc.Reg) []int32 {
	v := s.vectors[x.Number()]
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}

// elementsAt returns elements of memory from an address on.
func elementsAt[T any](address int64, n int) []T {
	return unsafe.Slice(*(**T)(unsafe.Pointer(&address)), n)
}

// made emits an instruction that makes a new vector.
func (m quick) made(do func(s *state, to regalloc.Reg)) regalloc.Reg {
	r := m.NewVector()
	m.emit(func(s *state) { do(s, r) })
	return r
}

// loopOf returns the loop of an operation over two vectors; nil if it has none.
func loopOf[T float32 | int32](op loop.BinaryOp) func(to, x, y []T) {
	switch op {
	case loop.Add:
		return func(to, x, y []T) {
			x, y = x[:len(to)], y[:len(to)]
			for i := range to {
				to[i] = x[i] + y[i]
			}
		}
	case loop.Sub:
		return func(to, x, y []T) {
			x, y = x[:len(to)], y[:len(to)]
			for i := range to {
				to[i] = x[i] - y[i]
			}
		}
	case loop.Mul:
		return func(to, x, y []T) {
			x, y = x[:len(to)], y[:len(to)]
			for i := range to {
				to[i] = x[i] * y[i]
			}
		}
	case loop.Min:
		return func(to, x, y []T) {
			x, y = x[:len(to)], y[:len(to)]
			for i := range to {
				to[i] = min(x[i], y[i])
			}
		}
	case loop.Max:
		return func(to, x, y []T) {
			x, y = x[:len(to)], y[:len(to)]
			for i := range to {
				to[i] = max(x[i], y[i])
			}
		}
	}
	return nil
}

// of2 emits a loop over two vectors.
func of2[T any](m quick, lanes func(s *state, x regalloc.Reg) []T, x, y regalloc.Reg,
	do func(to, x, y []T)) regalloc.Reg {
	return m.made(func(s *state, r regalloc.Reg) {
		to := lanes(s, r)
		do(to, lanes(s, x), lanes(s, y))
	})
}

func (m quick) Binary(op loop.BinaryOp, dt dtype.DType, x, y regalloc.Reg) regalloc.Reg {
	floats, integers := loopOf[float32](op), loopOf[int32](op)
	switch {
	case op == loop.Div && dt == dtype.F32:
		return of2(m, (*state).floats, x, y, func(to, x, y []float32) {
			x, y = x[:len(to)], y[:len(to)]
			for i := range to {
				to[i] = x[i] / y[i]
			}
		})
	case op == loop.And && dt == dtype.I32:
		return of2(m, (*state).integers, x, y, func(to, x, y []int32) {
			x, y = x[:len(to)], y[:len(to)]
			for i := range to {
				to[i] = x[i] & y[i]
			}
		})
	case op == loop.Or && dt == dtype.I32:
		return of2(m, (*state).integers, x, y, func(to, x, y []int32) {
			x, y = x[:len(to)], y[:len(to)]
			for i := range to {
				to[i] = x[i] | y[i]
			}
		})
	case floats != nil && dt == dtype.F32:
		return of2(m, (*state).floats, x, y, floats)
	case integers != nil && dt == dtype.I32:
		return of2(m, (*state).integers, x, y, integers)
	}
	return m.Model.Binary(op, dt, x, y)
}

// Lesser and Greater differ from Go's min and max for NaN and zeros, which the kernels here do not have.
func (m quick) Lesser(dt dtype.DType, x, y regalloc.Reg) regalloc.Reg {
	return m.Binary(loop.Min, dt, x, y)
}
func (m quick) Greater(dt dtype.DType, x, y regalloc.Reg) regalloc.Reg {
	return m.Binary(loop.Max, dt, x, y)
}

func (m quick) ShiftBy(op loop.BinaryOp, dt dtype.DType, x regalloc.Reg, n int64) regalloc.Reg {
	if op != loop.Shl || dt != dtype.I32 {
		return m.Model.ShiftBy(op, dt, x, n)
	}
	return of2(m, (*state).integers, x, x, func(to, x, _ []int32) {
		for i, v := range x[:len(to)] {
			to[i] = v << n
		}
	})
}

func (m quick) Unary(op loop.UnaryOp, dt dtype.DType, x regalloc.Reg) regalloc.Reg {
	if dt != dtype.F32 || op != loop.Round {
		return m.Model.Unary(op, dt, x)
	}
	return of2(m, (*state).floats, x, x, func(to, x, _ []float32) {
		for i, v := range x[:len(to)] {
			to[i] = float32(math.RoundToEven(float64(v)))
		}
	})
}

// fusedLoop sets to to ±x·y ± z. It rounds twice, in f64 and in f32: a machine would have to round once.
func fusedLoop(form lanes.Form, to, x, y, z []float32) {
	x, y, z = x[:len(to)], y[:len(to)], z[:len(to)]
	switch form {
	case lanes.ProductPlus:
		for i := range to {
			to[i] = float32(float64(x[i])*float64(y[i]) + float64(z[i]))
		}
	case lanes.MinusProduct:
		for i := range to {
			to[i] = float32(float64(z[i]) - float64(x[i])*float64(y[i]))
		}
	default:
		for i := range to {
			to[i] = float32(float64(x[i])*float64(y[i]) - float64(z[i]))
		}
	}
}

func (m quick) Fused(form lanes.Form, dt dtype.DType, x, y, z regalloc.Reg) regalloc.Reg {
	if dt != dtype.F32 {
		return m.Model.Fused(form, dt, x, y, z)
	}
	return m.made(func(s *state, to regalloc.Reg) {
		fusedLoop(form, s.floats(to), s.floats(x), s.floats(y), s.floats(z))
	})
}

// AddProduct rounds twice, as package portable does.
func (m quick) AddProduct(dt dtype.DType, sum, x, y regalloc.Reg) {
	if dt != dtype.F32 {
		m.Model.AddProduct(dt, sum, x, y)
		return
	}
	m.emit(func(s *state) {
		to, x, y := s.floats(sum), s.floats(x), s.floats(y)
		x, y = x[:len(to)], y[:len(to)]
		for i := range to {
			to[i] += float32(x[i] * y[i])
		}
	})
}

func (m quick) MulWhere(dt dtype.DType, mask, x, y regalloc.Reg) regalloc.Reg {
	return m.Select(dt, mask, m.Binary(loop.Mul, dt, x, y), m.Repeated(dt, 0))
}
func (m quick) Select(dt dtype.DType, mask, x, y regalloc.Reg) regalloc.Reg {
	if dt.Bits() != 32 {
		return m.Model.Select(dt, mask, x, y)
	}
	return m.made(func(s *state, r regalloc.Reg) {
		to, in, x, y := s.integers(r), s.masks[mask.Number()], s.integers(x), s.integers(y)
		x, y = x[:len(to)], y[:len(to)]
		in = in[:len(to)]
		for i := range to {
			if to[i] = y[i]; in[i] {
				to[i] = x[i]
			}
		}
	})
}

func (m quick) ToInt(x regalloc.Reg) regalloc.Reg {
	return m.made(func(s *state, r regalloc.Reg) {
		to := s.integers(r)
		for i, v := range s.floats(x)[:len(to)] {
			to[i] = int32(math.RoundToEven(float64(v)))
		}
	})
}
func (m quick) Convert(from, to dtype.DType, x regalloc.Reg) regalloc.Reg {
	if from != dtype.I32 {
		return m.Model.Convert(from, to, x)
	}
	return m.made(func(s *state, r regalloc.Reg) {
		to := s.floats(r)
		for i, v := range s.integers(x)[:len(to)] {
			to[i] = float32(v)
		}
	})
}
func (m quick) Exchanged(x regalloc.Reg, n int) regalloc.Reg {
	return of2(m, (*state).integers, x, x, func(to, x, _ []int32) {
		for i := range to {
			to[i] = x[i^n]
		}
	})
}

func (m quick) Load(dt dtype.DType, at regalloc.Mem, mask regalloc.Reg) regalloc.Reg {
	if mask != regalloc.NoReg || at.Pool != 0 || dt != dtype.I32 && dt != dtype.I8 {
		return m.Model.Load(dt, at, mask)
	}
	return m.made(func(s *state, r regalloc.Reg) {
		to := s.integers(r)
		if dt == dtype.I32 {
			copy(to, elementsAt[int32](s.address(at), len(to)))
			return
		}
		for i, v := range elementsAt[int8](s.address(at), len(to)) {
			to[i] = int32(v)
		}
	})
}
func (m quick) Store(dt dtype.DType, at regalloc.Mem, x, mask regalloc.Reg) {
	if mask != regalloc.NoReg || dt != dtype.I32 && dt != dtype.I8 {
		m.Model.Store(dt, at, x, mask)
		return
	}
	m.emit(func(s *state) {
		from := s.integers(x)
		if dt == dtype.I32 {
			copy(elementsAt[int32](s.address(at), len(from)), from)
			return
		}
		for i, to := 0, elementsAt[int8](s.address(at), len(from)); i < len(from); i++ {
			to[i] = int8(from[i])
		}
	})
}
func (m quick) LoadOne(dt dtype.DType, at regalloc.Mem) regalloc.Reg {
	if dt != dtype.I32 {
		return m.Model.LoadOne(dt, at)
	}
	return m.made(func(s *state, r regalloc.Reg) {
		v := elementsAt[int32](s.address(at), 1)[0]
		for i, to := 0, s.integers(r); i < len(to); i++ {
			to[i] = v
		}
	})
}
func (m quick) Gather(at regalloc.Mem, index lanes.Value, scale uint8, mask regalloc.Reg) regalloc.Reg {
	if index.DType != dtype.I32 || mask != regalloc.NoReg || scale != 4 {
		return m.Model.Gather(at, index, scale, mask)
	}
	return m.made(func(s *state, r regalloc.Reg) {
		to, first := s.integers(r), s.address(at)
		for i, v := range s.integers(index.Lo)[:len(to)] {
			to[i] = elementsAt[int32](first+4*int64(v), 1)[0]
		}
	})
}

// quickKernel is a kernel of closures. Its registers are kept from one run to the next.
type quickKernel struct {
	*lanes.Kernel
	routines []*routine
	states   []*state
	jumps    [][]int // the instruction at each label
}

// newQuick makes a kernel of closures.
func newQuick(t testing.TB, m *loop.Module, count int) *quickKernel {
	c := &compiler{Machine: Machine{Lanes: count, Most: true, With: func(m *Model) lanes.Machine { return quick{m} }}}
	compiled, why := lanes.CompileOne(m.Kernels[0], m, c)
	if compiled == nil {
		t.Fatal(why.Reason)
	}
	k := &quickKernel{Kernel: compiled, routines: c.routines}
	for _, r := range c.routines {
		s := &state{lanes: r.lanes, general: make([]int64, r.registers[regalloc.General]),
			vectors: make([][]uint32, r.registers[regalloc.Vector]), masks: make([][]bool, r.registers[regalloc.Mask])}
		for i := range s.vectors {
			s.vectors[i] = make([]uint32, r.lanes)
		}
		for i := range s.masks {
			s.masks[i] = make([]bool, r.lanes)
		}
		for bytes, reg := range r.constants {
			copy(s.vectors[reg.Number()], unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.StringData(bytes))), r.lanes))
		}
		jumps := make([]int, len(r.positions)+1)
		for label, at := range r.positions {
			jumps = append(jumps, make([]int, max(0, int(label)+1-len(jumps)))...)
			jumps[label] = at
		}
		k.states, k.jumps = append(k.states, s), append(k.jumps, jumps)
	}
	return k
}

func (k *quickKernel) Run(a *target.Args, begin, end int64, scratch []byte) error {
	words := k.Frame(a, scratch)
	frame := int64(uintptr(unsafe.Pointer(unsafe.SliceData(words))))
	memory := []region{{frame - int64(k.Header), scratch, true}}
	for _, o := range a.Operands {
		memory = append(memory, region{int64(uintptr(o.Base)), unsafe.Slice((*byte)(o.Base), o.Bytes), true})
	}
	return k.RunBy(words, frame, a, begin, end, nil, func(_ unsafe.Pointer, _ *lanes.Kernel, n *lanes.Nest, begin,
		end int64, _ bool) (status int64) {
		at := binary.LittleEndian.Uint64(n.Code)
		r, s, jumps := k.routines[at], k.states[at], k.jumps[at]
		s.frame, s.memory, s.ended = frame, memory, false
		for i, bytes := range r.pool {
			s.memory = append(s.memory, region{poolAddress + int64(4*r.lanes*i), bytes, false})
		}
		s.general[r.first.Number()], s.general[r.end.Number()] = begin, end
		for at := 0; !s.ended; at++ {
			if in := &r.code[at]; in.do != nil {
				if to := in.do(s); to != 0 {
					at = jumps[to]
				}
			}
		}
		return s.status
	})
}

// closureKernels are the kernels that are measured, by their names.
func closureKernels() []struct {
	name  string
	write func(b *loop.Builder)
} {
	const n = 128 // so small that most runs are not interrupted
	matrix := kerneltest.Fixed(n, n)
	elementwise := func(of func(x, y loop.Expr) loop.Expr) func(b *loop.Builder) {
		return func(b *loop.Builder) {
			x, y := b.Param("x", loop.Read, dtype.F32, matrix), b.Param("y", loop.Read, dtype.F32, matrix)
			z := b.Param("z", loop.Write, dtype.F32, matrix)
			b.Nest(loop.Each, "i", matrix, func(i []sym.Expr) { b.Store(z, i, of(x.Load(i...), y.Load(i...))) })
		}
	}
	reduction := func(last bool) func(b *loop.Builder) {
		return func(b *loop.Builder) { kerneltest.SumsAlong(b, n, last) }
	}
	product := func(rows int64) func(b *loop.Builder) { // a sum for each element: lanes has no tiles of closures
		return func(b *loop.Builder) {
			x, y := b.Param("x", loop.Read, dtype.F32, kerneltest.Fixed(rows, n)), b.Param("y", loop.Read, dtype.F32, matrix)
			z := b.Param("z", loop.Write, dtype.F32, kerneltest.Fixed(rows, n))
			b.Nest(loop.Each, "i", z.Shape, func(i []sym.Expr) {
				s := b.Var("s", loop.Number(dtype.F32, 0))
				b.Serial("k", sym.Const(n), func(k sym.Expr) {
					b.Reduce(s, loop.Add, loop.Apply2(loop.Mul, x.Load(i[0], k), y.Load(k, i[1])))
				})
				b.Store(z, i, s)
			})
		}
	}
	return []struct {
		name  string
		write func(b *loop.Builder)
	}{
		{"sum", elementwise(func(x, y loop.Expr) loop.Expr { return loop.Apply2(loop.Add, x, y) })},
		{"six operations", elementwise(func(x, y loop.Expr) loop.Expr {
			v := loop.Apply2(loop.Mul, loop.Apply2(loop.Add, x, y), loop.Number(dtype.F32, 0.5))
			v = loop.Apply2(loop.Max, loop.Apply2(loop.Sub, v, y), loop.Number(dtype.F32, 0))
			return loop.Apply2(loop.Mul, loop.Apply2(loop.Add, v, x), v)
		})},
		{"exponential", elementwise(func(x, _ loop.Expr) loop.Expr { return loop.Apply(loop.Exp, x) })},
		{"sums of rows", reduction(true)},
		{"sums of columns", reduction(false)},
		{"product with a vector", product(1)},
		{"product of matrices", product(64)},
		{"conversion", func(b *loop.Builder) {
			x, z := b.Param("x", loop.Read, dtype.I8, matrix), b.Param("z", loop.Write, dtype.F32, matrix)
			b.Nest(loop.Each, "i", matrix, func(i []sym.Expr) {
				b.Store(z, i, loop.Apply2(loop.Mul, loop.Convert(dtype.F32, x.Load(i...)), loop.Number(dtype.F32, 0.1)))
			})
		}},
		{"gather", func(b *loop.Builder) { // every third element, from the last
			x := b.Param("x", loop.Read, dtype.F32, kerneltest.Fixed(n, 3*n))
			z := b.Param("z", loop.Write, dtype.F32, matrix)
			b.Nest(loop.Each, "i", matrix, func(i []sym.Expr) {
				column := sym.Const(5 * n).Sub(i[1].Mul(sym.Const(5))).Mod(sym.Const(3 * n))
				b.Store(z, i, x.Load(i[0], column))
			})
		}},
		{"softmax", func(b *loop.Builder) {
			x, z := b.Param("x", loop.Read, dtype.F32, matrix), b.Param("z", loop.Write, dtype.F32, matrix)
			b.Each("i", sym.Const(n), func(i sym.Expr) {
				top, s := b.Var("top", loop.Lowest(dtype.F32)), b.Var("s", loop.Number(dtype.F32, 0))
				b.Serial("a", sym.Const(n), func(a sym.Expr) { b.Reduce(top, loop.Max, x.Load(i, a)) })
				power := func(a sym.Expr) loop.Expr { return loop.Apply(loop.Exp, loop.Apply2(loop.Sub, x.Load(i, a), top)) }
				b.Serial("c", sym.Const(n), func(a sym.Expr) { b.Reduce(s, loop.Add, power(a)) })
				b.Each("d", sym.Const(n), func(a sym.Expr) {
					b.Store(z, []sym.Expr{i, a}, loop.Apply2(loop.Div, power(a), s))
				})
			})
		}},
	}
}

// BenchmarkClosures reports how much longer each kernel takes on a machine of lanes whose instructions are closures
// than by package portable: the quotient of the least times of alternating runs, with the vectors that are fastest.
// Each schedules for its own machine, and their results are compared.
func BenchmarkClosures(b *testing.B) {
	for _, k := range closureKernels() {
		b.Run(k.name, func(b *testing.B) {
			scheduled := func(machine target.Machine) *loop.Module {
				writer := loop.NewBuilder("k")
				k.write(writer)
				m := &loop.Module{Dims: sym.NewDims(), Kernels: []*loop.Kernel{writer.Kernel}}
				if err := schedule.RunWith(m, machine, schedule.Options{Without: schedule.Simplest}); err != nil {
					b.Fatal(err)
				}
				return m
			}
			m := scheduled(target.Portable(1))
			code, err := portable.Compile(m, target.Portable(1))
			if err != nil {
				b.Fatal(err)
			}
			kernels, names := []target.Kernel{code.Kernels[0]}, []string{"portable"}
			for _, count := range []int{16, 32, 64} {
				machine := target.Portable(1)
				machine.VectorBytes = 4 * count
				kernels = append(kernels, newQuick(b, scheduled(machine), count))
				names = append(names, fmt.Sprint(count, " lanes"))
			}
			var runs []func() time.Duration
			var results []*tensor.Tensor
			for _, compiled := range kernels {
				run, result := timed(b, m.Kernels[0], compiled)
				runs, results = append(runs, run), append(results, result)
			}
			best := slices.Repeat([]time.Duration{time.Hour}, len(runs))
			for b.Loop() {
				for i, run := range runs {
					best[i] = min(best[i], run())
				}
			}
			least := 1
			for i := range results {
				for n := range results[0].Len() {
					if want := results[0].Float(n); math.Abs(results[i].Float(n)-want) > 1e-3*(1+math.Abs(want)) {
						b.Fatalf("%s: element %d is %v, by portable %v", names[i], n, results[i].Float(n), want)
					}
				}
				if i > 0 && best[i] < best[least] {
					least = i
				}
			}
			b.ReportMetric(float64(best[least])/float64(best[0]), "times-portable")
			b.ReportMetric(float64(best[0].Microseconds()), "portable-µs")
			b.Logf("%s with %s", k.name, names[least])
		})
	}
}

// timed returns a function that runs a kernel once and returns its time, and the kernel's last operand.
func timed(b *testing.B, k *loop.Kernel, compiled target.Kernel) (run func() time.Duration, result *tensor.Tensor) {
	a := &target.Args{}
	r := rand.New(rand.NewPCG(1, 2))
	var all []*tensor.Tensor
	for _, p := range k.Params {
		x := kerneltest.Operand(b, p, nil)
		for i := range x.Len() {
			x.SetFloat(i, math.Round(64*r.Float64())/64)
		}
		all = append(all, x)
		a.Operands = append(a.Operands, target.Operand{Base: unsafe.Pointer(&x.Bytes()[0]), Bytes: int64(len(x.Bytes()))})
	}
	bytes, err := compiled.Scratch(nil)
	if err != nil {
		b.Fatal(err)
	}
	tiles, err := compiled.Tiles(nil)
	if err != nil {
		b.Fatal(err)
	}
	scratch, _ := kerneltest.ScratchOf(int(bytes))
	return func() time.Duration {
		begin := time.Now()
		if err := compiled.Run(a, 0, tiles, scratch); err != nil {
			b.Fatal(err)
		}
		_ = all
		return time.Since(begin)
	}, all[len(all)-1]
}

package portable

import (
	"github.com/weirml/weir/internal/codegen/kerneltest"
	"math/rand"
	"testing"
	"time"
	"unsafe"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// benchmark runs a scheduled kernel on one worker, and reports work per nanosecond in a unit, such as GFLOP/s or GB/s.
func benchmark(b *testing.B, unit string, work float64, build func(b *loop.Builder)) {
	writer := loop.NewBuilder("k")
	build(writer)
	k := writer.Kernel
	m := &loop.Module{Dims: sym.NewDims(), Kernels: []*loop.Kernel{k}}
	if err := schedule.RunWith(m, target.Machine{}, schedule.Options{Without: schedule.Simplest}); err != nil {
		b.Fatal(err)
	}
	code, err := Compile(m, target.Machine{})
	if err != nil {
		b.Fatal(err)
	}
	compiled := code.Kernels[0]
	a := &target.Args{}
	var keep []*tensor.Tensor
	r := rand.New(rand.NewSource(1))
	for _, p := range m.Kernels[0].Params {
		x := kerneltest.Operand(b, p, nil)
		for i := range x.Len() {
			x.SetFloat(i, r.NormFloat64())
		}
		keep = append(keep, x)
		a.Operands = append(a.Operands, target.Operand{Base: unsafe.Pointer(&x.Bytes()[0]), Bytes: int64(len(x.Bytes()))})
	}
	bytes, _ := compiled.Scratch(nil)
	tiles, _ := compiled.Tiles(nil)
	scratch, _ := kerneltest.ScratchOf(int(bytes))
	b.ReportAllocs()
	best := time.Hour
	for b.Loop() {
		// The first tile is no smaller than the others; its best time is that of an undisturbed machine.
		begin := time.Now()
		if err := compiled.Run(a, 0, 1, scratch); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(begin))
		if err := compiled.Run(a, 1, tiles, scratch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(work*float64(b.N)/float64(b.Elapsed().Nanoseconds()), unit)
	b.ReportMetric(work/float64(tiles)/float64(best.Nanoseconds()), "best-"+unit)
	b.ReportMetric(float64(tiles), "tiles")
	_ = keep
}

// square adds a product of an m × k and a k × n matrix.
func square(b *loop.Builder, m, n, k int64, dt dtype.DType) {
	x, y := b.Param("x", loop.Read, dt, kerneltest.Fixed(m, k)), b.Param("y", loop.Read, dt, kerneltest.Fixed(k, n))
	z := b.Param("z", loop.Write, dt, kerneltest.Fixed(m, n))
	acc := b.Local("acc", dt, kerneltest.Fixed(m, n)...)
	row, col := kerneltest.Fixed(1, 0), kerneltest.Fixed(0, 1)
	b.Nest(loop.Each, "a", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, loop.Number(dt, 0)) })
	b.Contract(sym.Const(m), sym.Const(n), sym.Const(k), acc.Tile(kerneltest.Fixed(0, 0), row, col),
		x.Tile(kerneltest.Fixed(0, 0), row, col), y.Tile(kerneltest.Fixed(0, 0), row, col))
	b.Nest(loop.Each, "o", acc.Shape, func(i []sym.Expr) { b.Store(z, i, acc.Load(i...)) })
}

func BenchmarkProduct512(b *testing.B) {
	benchmark(b, "GFLOP/s", 2*512*512*512, func(w *loop.Builder) { square(w, 512, 512, 512, dtype.F32) })
}

func BenchmarkProductVector(b *testing.B) {
	benchmark(b, "GFLOP/s", 2*1024*1024, func(w *loop.Builder) { square(w, 1, 1024, 1024, dtype.F32) })
}

func BenchmarkChain(b *testing.B) {
	const n = 1 << 20
	benchmark(b, "GB/s", 12*n, func(w *loop.Builder) {
		x, y := w.Param("x", loop.Read, dtype.F32, kerneltest.Fixed(1024, 1024)),
			w.Param("y", loop.Read, dtype.F32, kerneltest.Fixed(1024, 1024))
		z := w.Param("z", loop.Write, dtype.F32, kerneltest.Fixed(1024, 1024))
		w.Nest(loop.Each, "i", z.Shape, func(i []sym.Expr) {
			v := loop.Apply2(loop.Add, x.Load(i...), y.Load(i...))
			v = loop.Apply2(loop.Mul, v, loop.Number(dtype.F32, 0.5))
			v = loop.Apply2(loop.Sub, v, y.Load(i...))
			v = loop.Apply2(loop.Max, v, loop.Number(dtype.F32, 0))
			v = loop.Apply2(loop.Add, v, x.Load(i...))
			w.Store(z, i, loop.Apply2(loop.Mul, v, v))
		})
	})
}

func BenchmarkAdd(b *testing.B) {
	const n = 1 << 20
	benchmark(b, "GB/s", 12*n, func(w *loop.Builder) {
		x, y := w.Param("x", loop.Read, dtype.F32, kerneltest.Fixed(n)),
			w.Param("y", loop.Read, dtype.F32, kerneltest.Fixed(n))
		z := w.Param("z", loop.Write, dtype.F32, kerneltest.Fixed(n))
		w.Nest(loop.Each, "i", z.Shape, func(i []sym.Expr) {
			w.Store(z, i, loop.Apply2(loop.Add, x.Load(i...), y.Load(i...)))
		})
	})
}

func BenchmarkTanh(b *testing.B) {
	const n = 1 << 18
	benchmark(b, "Gelement/s", n, func(w *loop.Builder) {
		x, z := w.Param("x", loop.Read, dtype.F32, kerneltest.Fixed(n)),
			w.Param("z", loop.Write, dtype.F32, kerneltest.Fixed(n))
		w.Nest(loop.Each, "i", z.Shape, func(i []sym.Expr) { w.Store(z, i, loop.Apply(loop.Tanh, x.Load(i...))) })
	})
}

func BenchmarkSoftmax(b *testing.B) {
	const rows, n = 1024, 1024
	benchmark(b, "Gelement/s", rows*n, func(w *loop.Builder) {
		x, z := w.Param("x", loop.Read, dtype.F32, kerneltest.Fixed(rows, n)),
			w.Param("z", loop.Write, dtype.F32, kerneltest.Fixed(rows, n))
		w.Each("i", sym.Const(rows), func(i sym.Expr) {
			top := w.Var("top", loop.Lowest(dtype.F32))
			w.Serial("a", sym.Const(n), func(a sym.Expr) { w.Reduce(top, loop.Max, x.Load(i, a)) })
			s := w.Var("s", loop.Number(dtype.F32, 0))
			w.Serial("c", sym.Const(n), func(a sym.Expr) {
				w.Reduce(s, loop.Add, loop.Apply(loop.Exp, loop.Apply2(loop.Sub, x.Load(i, a), top)))
			})
			w.Each("d", sym.Const(n), func(a sym.Expr) {
				w.Store(z, []sym.Expr{i, a}, loop.Apply2(loop.Div, loop.Apply(loop.Exp, loop.Apply2(loop.Sub, x.Load(i, a), top)),
					s))
			})
		})
	})
}

// reduction runs a sum of a matrix along its last or its first axis.
func reduction(b *testing.B, last bool) {
	const n = 1024
	benchmark(b, "GB/s", 4*n*n, func(w *loop.Builder) { kerneltest.SumsAlong(w, n, last) })
}

func BenchmarkReduceLast(b *testing.B)  { reduction(b, true) }
func BenchmarkReduceFirst(b *testing.B) { reduction(b, false) }

// BenchmarkConvolution is a 3 × 3 convolution over 64 channels of 56 × 56, without padding.
func BenchmarkConvolution(b *testing.B) {
	const c, size = 64, 54
	benchmark(b, "GFLOP/s", 2*9*c*c*size*size, func(w *loop.Builder) {
		x, k := w.Param("x", loop.Read, dtype.F32, kerneltest.Fixed(c, size+2, size+2)),
			w.Param("k", loop.Read, dtype.F32, kerneltest.Fixed(3, 3, c, c))
		z := w.Param("z", loop.Write, dtype.F32, kerneltest.Fixed(c, size, size))
		w.Each("r", sym.Const(size), func(r sym.Expr) {
			acc := w.Local("acc", dtype.F32, kerneltest.Fixed(c, size)...)
			w.Nest(loop.Each, "a", acc.Shape, func(i []sym.Expr) { w.Store(acc, i, loop.Number(dtype.F32, 0)) })
			w.Serial("h", sym.Const(3), func(h sym.Expr) {
				w.Serial("v", sym.Const(3), func(v sym.Expr) {
					w.Contract(sym.Const(c), sym.Const(size), sym.Const(c),
						acc.Tile(kerneltest.Fixed(0, 0), kerneltest.Fixed(1, 0), kerneltest.Fixed(0, 1)),
						k.Tile([]sym.Expr{h, v, n0, n0}, kerneltest.Fixed(0, 0, 1, 0), kerneltest.Fixed(0, 0, 0, 1)),
						x.Tile([]sym.Expr{n0, r.Add(h), v}, kerneltest.Fixed(1, 0, 0), kerneltest.Fixed(0, 0, 1)))
				})
			})
			w.Nest(loop.Each, "o", acc.Shape, func(i []sym.Expr) { w.Store(z, []sym.Expr{i[0], r, i[1]}, acc.Load(i...)) })
		})
	})
}

func BenchmarkTranspose(b *testing.B) {
	const n = 2048
	benchmark(b, "GB/s", 8*n*n, func(w *loop.Builder) {
		x, z := w.Param("x", loop.Read, dtype.F32, kerneltest.Fixed(n, n)),
			w.Param("z", loop.Write, dtype.F32, kerneltest.Fixed(n, n))
		w.Nest(loop.Each, "i", z.Shape, func(i []sym.Expr) { w.Store(z, i, x.Load(i[1], i[0])) })
	})
}

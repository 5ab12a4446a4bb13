package kerneltest

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

// Functions runs every function on every type, in lanes and one by one, with elements and with one operand for all
// lanes.
func (h Harness) Functions(t *testing.T) {
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
				k := Finish(b)
				dims := map[sym.Name]int64{sym.User("n"): 75}
				operands := []*tensor.Tensor{Operand(t, k.Params[0], dims), Operand(t, k.Params[1], dims),
					Operand(t, k.Params[2], dims)}
				Fill(r, operands[0])
				Fill(r, operands[1])
				h.Agree(t, k, dims, operands, Tolerance(result), 0)
			}
		}
	}
	for _, dt := range ElementTypes {
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
		for _, to := range ElementTypes {
			for _, wrap := range []bool{false, true} {
				run(fmt.Sprintf("cast_%s_%s", dt, to), dt, to, func(x, y loop.Expr) loop.Expr {
					return &loop.Cast{Type: to, X: x, Wrap: wrap}
				})
			}
		}
		run("select_"+dt.String(), dt, dt, func(x, y loop.Expr) loop.Expr {
			return loop.Choose(loop.Apply2(loop.Ne, x, y), y, x)
		})
	}
	run("move_c64", dtype.C64, dtype.C64, func(x, y loop.Expr) loop.Expr { return x })
	run("equal_c64", dtype.C64, dtype.Bool, func(x, y loop.Expr) loop.Expr { return loop.Apply2(loop.Eq, x, y) })
}

// Conversions converts numbers of all sizes, those near the ends of a type's range, and those near the middle between
// two numbers of a type. Results must be the interpreter's to the bit.
func (h Harness) Conversions(t *testing.T) {
	r := rand.New(rand.NewSource(6))
	number := func(dt dtype.DType, x *tensor.Tensor, i int64) {
		power := r.Intn(67)
		integer := uint64(1)<<(power%64) | r.Uint64()&(1<<(power%64)-1)
		if r.Intn(2) == 0 { // few bits, and one far below them
			integer = uint64(1+r.Intn(512)) << (power % 55)
			if r.Intn(3) > 0 {
				integer += uint64(r.Intn(3) - 1)
			}
		}
		v := math.Ldexp(1+r.Float64(), power-1)
		switch r.Intn(8) {
		case 0:
			v = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0.5, 1e-40, 3e38, 65520, 1e-8}[r.Intn(8)]
		case 1, 2:
			v = math.Nextafter(math.Ldexp(1, power), []float64{0, math.Ldexp(1, power), math.Inf(1)}[r.Intn(3)])
		case 3, 4:
			v = float64(integer)
		}
		if sign := r.Intn(2); sign == 0 {
			integer, v = -integer, -v
		}
		if dt.IsFloat() {
			x.SetFloat(i, v)
		} else if dt == dtype.Bool {
			x.SetInt(i, int64(integer&1))
		} else {
			x.SetInt(i, int64(integer))
		}
	}
	for _, from := range ElementTypes {
		for _, to := range ElementTypes {
			for _, kind := range []loop.LoopKind{loop.Vector, loop.Serial} {
				b := loop.NewBuilder("convert")
				n := dim("n")
				x, y := b.Param("x", loop.Read, from, []sym.Expr{n}), b.Param("y", loop.Write, to, []sym.Expr{n})
				b.For(kind, "i", n, func(i sym.Expr) { b.Store(y, []sym.Expr{i}, loop.Convert(to, x.Load(i))) })
				k, dims := Finish(b), map[sym.Name]int64{sym.User("n"): 333}
				operands := []*tensor.Tensor{Operand(t, k.Params[0], dims), Operand(t, k.Params[1], dims)}
				for i := range operands[0].Len() {
					number(from, operands[0], i)
				}
				h.Agree(t, k, dims, operands, 0, 0)
			}
		}
	}
}

// Powers runs Pow with the constant exponents that generators compute specially.
func (h Harness) Powers(t *testing.T) {
	for _, dt := range []dtype.DType{dtype.F32, dtype.F64, dtype.F16} {
		for _, y := range []float64{0, 1, 2, 3, -1, 0.5} {
			b := loop.NewBuilder("power")
			n := dim("n")
			x, z := b.Param("x", loop.Read, dt, []sym.Expr{n}), b.Param("z", loop.Write, dt, []sym.Expr{n})
			b.For(loop.Vector, "i", n, func(i sym.Expr) {
				b.Store(z, []sym.Expr{i}, loop.Apply2(loop.Pow, x.Load(i), loop.Number(dt, y)))
			})
			k := Finish(b)
			dims := map[sym.Name]int64{sym.User("n"): 100}
			operands := []*tensor.Tensor{Operand(t, k.Params[0], dims), Operand(t, k.Params[1], dims)}
			Fill(rand.New(rand.NewSource(3)), operands[0])
			h.Agree(t, k, dims, operands, Tolerance(dt), 0)
		}
	}
}

// Checks checks that the error of a value that fails its check is the interpreter's, and names the value and its
// limits, which are over a dimension.
func (h Harness) Checks(t *testing.T) {
	for _, kind := range []loop.LoopKind{loop.Vector, loop.Serial} {
		for _, negative := range []bool{false, true} {
			b := loop.NewBuilder("gather")
			n, rows := dim("n"), dim("rows")
			at := b.Param("at", loop.Read, dtype.I64, []sym.Expr{n})
			x := b.Param("x", loop.Read, dtype.F32, []sym.Expr{rows})
			y := b.Param("y", loop.Write, dtype.F32, []sym.Expr{n})
			least, want := n0, "an index is 7, outside [0, 6]"
			if negative {
				least, want = rows.Neg(), "an index is 7, outside [-7, 6]"
			}
			b.For(kind, "i", n, func(i sym.Expr) {
				j := b.Check("j", at.Load(i), least, rows.Sub(n1), "an index")
				if negative {
					j = j.Mod(rows)
				}
				b.Store(y, []sym.Expr{i}, x.Load(j))
			})
			k := Finish(b)
			dims := map[sym.Name]int64{sym.User("n"): 40, sym.User("rows"): 7}
			operands := []*tensor.Tensor{Operand(t, k.Params[0], dims), Operand(t, k.Params[1], dims),
				Operand(t, k.Params[2], dims)}
			for i := range int64(40) {
				operands[0].SetInt(i, i%7)
				if negative {
					operands[0].SetInt(i, i%14-7)
				}
			}
			Fill(rand.New(rand.NewSource(2)), operands[1])
			h.Agree(t, k, dims, operands, 0, 0)
			operands[0].SetInt(33, 7)
			h.Agree(t, k, dims, operands, 0, 0)
			err := h.Execute(t, k, operands, dims, 0)
			if !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v", err)
			}
		}
	}
}

// TilesAtOnce runs a kernel's tiles on several goroutines, each with its own scratch: results must be those of one
// call.
func (h Harness) TilesAtOnce(t *testing.T) {
	b := loop.NewBuilder("tiles")
	n := sym.Const(64)
	x, w := b.Param("x", loop.Read, dtype.F32, []sym.Expr{n, n}), b.Param("w", loop.Read, dtype.F32, []sym.Expr{n, n})
	y := b.Param("y", loop.Write, dtype.F32, []sym.Expr{n, n})
	row, col := []sym.Expr{n1, n0}, []sym.Expr{n0, n1}
	b.For(loop.Parallel, "t", sym.Const(8), func(at sym.Expr) {
		acc := b.Local("acc", dtype.F32, sym.Const(8), n)
		b.Nest(loop.Serial, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, loop.Number(dtype.F32, 1)) })
		first := at.Mul(sym.Const(8))
		b.Contract(sym.Const(8), n, n, acc.Tile([]sym.Expr{n0, n0}, row, col), x.Tile([]sym.Expr{first, n0}, row, col),
			w.Tile([]sym.Expr{n0, n0}, row, col))
		b.Serial("i", sym.Const(8), func(i sym.Expr) {
			b.For(loop.Vector, "j", n, func(j sym.Expr) {
				b.Store(y, []sym.Expr{first.Add(i), j}, loop.Apply(loop.Tanh, acc.Load(i, j)))
			})
		})
	})
	k := Finish(b)
	var alone, together []*tensor.Tensor
	for _, p := range k.Params {
		o := Operand(t, p, nil)
		Fill(rand.New(rand.NewSource(4)), o)
		alone, together = append(alone, o), append(together, o.Clone())
	}
	if err := h.Execute(t, k, alone, nil, 0); err != nil {
		t.Fatal(err)
	}
	code, _ := h.Compile(&loop.Module{Kernels: []*loop.Kernel{k}}, h.Machine)
	a := &target.Args{}
	for _, o := range together {
		a.Operands = append(a.Operands, target.Operand{Base: unsafe.Pointer(&o.Bytes()[0]), Bytes: int64(len(o.Bytes()))})
	}
	bytes, _ := code.Kernels[0].Scratch(nil)
	done := make(chan error)
	for worker := range int64(4) {
		go func() {
			scratch, _ := ScratchOf(int(bytes))
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

// Contractions multiplies tiles with extents around those of generators' tiles, with operands that are row-major,
// transposed and strided. Values are small integers, so that sums are exact in any order.
func (h Harness) Contractions(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	types := []struct{ c, a, b dtype.DType }{
		{dtype.F32, dtype.F32, dtype.F32}, {dtype.F64, dtype.F64, dtype.F64}, {dtype.I32, dtype.I8, dtype.U8},
		{dtype.I32, dtype.U8, dtype.I4}, {dtype.U32, dtype.U8, dtype.U8},
		{dtype.I64, dtype.I64, dtype.I64}, {dtype.U64, dtype.U32, dtype.U64}, {dtype.F32, dtype.F16, dtype.BF16},
		{dtype.F32, dtype.F8E4M3FN, dtype.F32}, {dtype.F32, dtype.I8, dtype.F32}, {dtype.F32, dtype.F32, dtype.U8},
		{dtype.I32, dtype.I32, dtype.I32},
	}
	sizes := []int64{0, 1, 2, 3, 4, 5, 7, 16, 33, 127, 128, 130}
	for round := range 250 {
		dt := types[round%len(types)]
		m, n, k := sizes[r.Intn(len(sizes))], sizes[r.Intn(len(sizes))], sizes[r.Intn(len(sizes))]
		if r.Intn(12) == 0 {
			m, n, k = 3+r.Int63n(8), 5+r.Int63n(8), 250+r.Int63n(300)
		}
		b := loop.NewBuilder("contract")
		// operand makes a tile of rows × cols inside a larger parameter, in one of its layouts.
		operand := func(name string, access loop.Access, dt dtype.DType, rows, cols int64) loop.Tile {
			step := 1 + r.Int63n(2)
			if r.Intn(2) == 0 {
				p := b.Param(name, access, dt, Fixed(2, rows+1, cols*step+2))
				return p.Tile(Fixed(1, 1, 2), Fixed(0, 1, 0), Fixed(0, 0, step))
			}
			p := b.Param(name, access, dt, Fixed(cols*step+1, rows+2))
			return p.Tile(Fixed(1, 0), Fixed(0, 1), Fixed(step, 0))
		}
		to, x, y := operand("c", loop.Update, dt.c, m, n), operand("a", loop.Read, dt.a, m, k),
			operand("b", loop.Read, dt.b, k, n)
		b.Contract(sym.Const(m), sym.Const(n), sym.Const(k), to, x, y)
		b.Contract(sym.Const(m), sym.Const(n), sym.Const(k), to, x, y) // reuses packed operands
		kernel := Finish(b)
		operands := []*tensor.Tensor{}
		for _, p := range kernel.Params {
			o := Operand(t, p, nil)
			for i := range o.Len() {
				o.SetFloat(i, float64(r.Intn(4)))
				if p.DType.IsInt() {
					o.SetInt(i, r.Int63n(4))
				}
			}
			operands = append(operands, o)
		}
		h.Agree(t, kernel, nil, operands, 0, 0)
	}
}

// EmptyContractions multiplies tiles whose dynamic extents are 0 or negative.
func (h Harness) EmptyContractions(t *testing.T) {
	row, col := []sym.Expr{n1, n0}, []sym.Expr{n0, n1}
	for _, n := range []int64{0, 3, 40} {
		for _, m := range []int64{0, 5} {
			for depth := range int64(8) {
				b := loop.NewBuilder("contract")
				rows, cols, k := dim("m"), dim("n"), dim("k")
				c, x, y := b.Param("c", loop.Update, dtype.F32, []sym.Expr{rows, cols}),
					b.Param("x", loop.Read, dtype.F32, []sym.Expr{rows, k}), b.Param("y", loop.Read, dtype.F32, []sym.Expr{k, cols})
				origin := []sym.Expr{n0, n0}
				b.Contract(rows, cols.Min(sym.Const(16)), k.Sub(sym.Const(3)), c.Tile(origin, row, col), x.Tile(origin, row, col),
					y.Tile(origin, row, col))
				kernel, dims := Finish(b), map[sym.Name]int64{sym.User("m"): m, sym.User("n"): n, sym.User("k"): depth}
				operands := []*tensor.Tensor{}
				for _, p := range kernel.Params {
					o := Operand(t, p, dims)
					for i := range o.Len() {
						o.SetFloat(i, float64(i%5))
					}
					operands = append(operands, o)
				}
				h.Agree(t, kernel, dims, operands, 0, 0)
			}
		}
	}
}

// courses are kernels that run through steps: see loop.Course.
var courses = []string{`kernel @running(%x: i64[s, 3, n] read, %h: i64[3, n] work, %p: i64[3, n] work, %y: i64[s, 3, n] write, %z: i64[n] write) dims(n, s) {
  parallel a < 3 {
    parallel b < n {
      store %h[a, b] = 1
    }
  }
  for t < s {
    parallel c < 3 {
      local %q: i64[n]
      each d < n {
        store %q[d] = add(load %h[2 - c, d], load %x[t, c, n - 1 - d])
      }
      each e < n {
        store %p[c, e] = load %q[e]
      }
    }
    parallel f < n {
      each g < 3 {
        store %h[g, f] = add(load %p[g, n - 1 - f], index(t))
        store %y[s - 1 - t, g, f] = load %p[g, f]
      }
    }
  }
  parallel i < n {
    store %z[i] = sub(load %h[0, i], load %h[2, i])
  }
}`, `kernel @products(%x: f32[4, 8] read, %w: f32[2, 16, 8] read, %h: f32[4, 16] update, %g: f32[4, 16] work, %y: f32[s, 4, 16] write) dims(s) {
  for t < s {
    parallel u < 2 {
      local %sums: f32[4, 8]
      each z0 < 4 {
        vector z1 < 8 {
          store %sums[z0, z1] = load %x[z0, z1]
        }
      }
      contract %sums[r, c] += %h[r, k] * %w[u, k, c] for r < 4, c < 8, k < 16
      each o0 < 4 {
        vector o1 < 8 {
          store %g[o0, 8*u + o1] = load %sums[o0, o1]
        }
      }
    }
    parallel v < 4 {
      vector j < 16 {
        store %h[v, j] = min(max(load %g[v, j], -3), 3)
        store %y[t, v, j] = load %g[v, j]
      }
    }
  }
}`}

// Courses compares kernels of steps with the interpreter, with their tiles in one call and in several.
func (h Harness) Courses(t *testing.T) {
	for _, text := range courses {
		k, err := loop.ParseKernel(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := loop.Verify(k, nil); err != nil {
			t.Fatal(err)
		}
		if _, ok := loop.CourseOf(k); !ok {
			t.Fatalf("no course:\n%s", k)
		}
		for _, n := range []int64{0, 1, 5} {
			for _, s := range []int64{0, 1, 4} {
				for _, split := range []int64{0, 1, 2, 5, 7} {
					dims := map[sym.Name]int64{sym.User("n"): n, sym.User("s"): s}
					r := rand.New(rand.NewSource(s + n))
					var operands []*tensor.Tensor
					for _, p := range k.Params {
						o := Operand(t, p, dims)
						for i := range o.Len() {
							o.SetFloat(i, float64(r.Intn(7)-3))
						}
						operands = append(operands, o)
					}
					h.Agree(t, k, dims, operands, 0, split)
				}
			}
		}
	}
}

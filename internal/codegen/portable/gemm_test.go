package portable

import (
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestContractions multiplies tiles of every shape near the blocks' borders, with operands as they lie, transposed, and with
// steps, and compares with the interpreter. Values are small integers, so that sums are exact in any order.
func TestContractions(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	types := []struct{ c, a, b dtype.DType }{
		{dtype.F32, dtype.F32, dtype.F32}, {dtype.F64, dtype.F64, dtype.F64}, {dtype.I32, dtype.I8, dtype.U8}, {dtype.I32, dtype.U8, dtype.I4}, {dtype.U32, dtype.U8, dtype.U8},
		{dtype.I64, dtype.I64, dtype.I64}, {dtype.U64, dtype.U32, dtype.U64}, {dtype.F32, dtype.F16, dtype.BF16}, {dtype.F32, dtype.F8E4M3FN, dtype.F32}, {dtype.I32, dtype.I32, dtype.I32},
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
				p := b.Param(name, access, dt, fixed(2, rows+1, cols*step+2))
				return p.Tile(fixed(1, 1, 2), fixed(0, 1, 0), fixed(0, 0, step))
			}
			p := b.Param(name, access, dt, fixed(cols*step+1, rows+2))
			return p.Tile(fixed(1, 0), fixed(0, 1), fixed(step, 0))
		}
		to, x, y := operand("c", loop.Update, dt.c, m, n), operand("a", loop.Read, dt.a, m, k), operand("b", loop.Read, dt.b, k, n)
		b.Contract(sym.Const(m), sym.Const(n), sym.Const(k), to, x, y)
		b.Contract(sym.Const(m), sym.Const(n), sym.Const(k), to, x, y) // what was packed is used again
		kernel := finish(b)
		operands := []*tensor.Tensor{}
		for _, p := range kernel.Params {
			o := operandOf(t, p)
			for i := range o.Len() {
				o.SetFloat(i, float64(r.Intn(4)))
				if p.DType.IsInt() {
					o.SetInt(i, r.Int63n(4))
				}
			}
			operands = append(operands, o)
		}
		agree(t, kernel, nil, operands, 0, 0)
	}
}

func operandOf(t testing.TB, p *loop.Param) *tensor.Tensor { return operand(t, p, nil) }

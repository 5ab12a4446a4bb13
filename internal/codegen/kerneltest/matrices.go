package kerneltest

import (
	"math"
	"math/rand"
	"strconv"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// matrixForms are products of an operand [n, k] and another [k, m] in blocks, whose Contracts stand outside Thread
// loops. R, C and S are a tile's rows, columns and steps, P is padding, T and U are the types of elements and sums.
// ZERO, FILL and END stand for matrixParts.
var matrixForms = map[string]string{
	"rows": `shared %left: T[S, R + P] shared %right: T[S, C + P] shared %sums: U[R, C + P]
	  ZERO for s < ceildiv(k, S) { FILL contract %sums[r, c] += %left[d, r] * %right[d, c] for r < R, c < C, d < S } END`,
	"columns": `shared %left: T[R, S + P] shared %right: T[C, S + P] shared %sums: U[C, R + P]
	  ZERO for s < ceildiv(k, S) { FILL contract %sums[c, r] += %left[r, d] * %right[c, d] for r < R, c < C, d < S } END`,
	"twice": `shared %left: T[S, R + P] shared %right: T[S, C + P] shared %sums: U[R, C + P]
	  ZERO for s < ceildiv(k, S) { FILL contract %sums[r, c] += %left[d, r] * %right[d, c] for r < R, c < C, d < S
	    contract %sums[r, c] += %left[d, r] * %right[d, c] for r < R, c < C, d < S } END`,
	"touched": `shared %left: T[S, R + P] shared %right: T[S, C + P] shared %sums: U[R, C + P]
	  ZERO for s < ceildiv(k, S) { FILL contract %sums[r, c] += %left[d, r] * %right[d, c] for r < R, c < C, d < S
	    thread i < R { store %sums[i, 0] = mul(load %sums[i, 0], 2) } } END`,
}

// matrixParts are the statements that forms share. SUM, LEFT and RIGHT are i, j in the order of the local's axes.
var matrixParts = map[string]string{
	"ZERO": `thread i < R { thread j < C { store %sums[SUM] = 0 } }`,
	"FILL": `thread j < R { thread i < S { store %left[LEFT] = select(lt(index(S*s + i), index(k)), load %x[min(R*a + j, n - 1), min(S*s + i, k - 1)], T(0)) } }
	  thread i < S { thread j < C { store %right[RIGHT] = select(lt(index(S*s + i), index(k)), load %y[min(S*s + i, k - 1), min(C*b + j, m - 1)], T(0)) } }`,
	"END": `thread i < R { thread j < C { when and(lt(index(R*a + i), index(n)), lt(index(C*b + j), index(m))) {
	  store %z[min(R*a + i, n - 1), min(C*b + j, m - 1)] = load %sums[SUM] } } }`,
}

// MatrixKernels returns products in blocks that subgroups compute together on a machine with some cooperative matrices,
// and a thread on others; tiles have high × wide matrices of sums.
func MatrixKernels(t testing.TB, x target.Matrix, high, wide int64) (list []BlockKernel) {
	t.Helper()
	sums, rows, columns, steps := "f32", high*x.Rows, wide*x.Columns, 2*x.Steps
	if x.DType.IsInt() {
		sums = "i32"
	}
	for name, form := range matrixForms {
		byRows := strings.NewReplacer("SUM", "i, j", "LEFT", "i, j", "RIGHT", "i, j")
		if name == "columns" {
			byRows = strings.NewReplacer("SUM", "j, i", "LEFT", "j, i", "RIGHT", "j, i")
		}
		parts := strings.NewReplacer("ZERO", byRows.Replace(matrixParts["ZERO"]), "FILL", byRows.Replace(matrixParts["FILL"]),
			"END", byRows.Replace(matrixParts["END"]))
		number := func(n int64) string { return strconv.FormatInt(n, 10) }
		padding := 128 / int64(x.DType.Bits()) // of 16 bytes at least
		source := "kernel @" + name + `(%x: T[n, k] read, %y: T[k, m] read, %z: U[n, m] write) dims(n, k, m) {
		  block a < ceildiv(n, R) { block b < ceildiv(m, C) { ` + parts.Replace(form) + ` } } }`
		words := strings.NewReplacer("R + P", number(rows+padding), "C + P", number(columns+padding), "S + P",
			number(steps+padding), "R", number(rows), "C", number(columns), "S", number(steps), "T", x.DType.String(), "U", sums)
		k, err := loop.ParseKernel(words.Replace(source))
		if err != nil {
			t.Fatalf("%v\n%s", err, words.Replace(source))
		}
		list = append(list, BlockKernel{k, map[string][]int64{"n": {rows, 2*rows + 1, 1, 0, rows - 1, 3},
			"k": {2 * steps, steps + 1, 3, 5, 0, 3 * steps}, "m": {2 * columns, 1, columns + 1, 7, 3, columns}}})
	}
	return list
}

// FillMatrices sets a tensor's elements to small numbers of few bits, so that sums of products are exact in any order;
// with odd, some are NaN, infinities or zeros, and integers are of the type's entire range.
func FillMatrices(r *rand.Rand, x *tensor.Tensor, odd bool) {
	values := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 256}
	for i := range x.Len() {
		switch {
		case x.DType().IsInt() && odd:
			x.SetInt(i, r.Int63())
		case x.DType().IsInt():
			x.SetInt(i, r.Int63n(17)-8)
		case odd && r.Intn(40) == 0:
			x.SetFloat(i, values[r.Intn(len(values))])
		default:
			x.SetFloat(i, float64(r.Intn(33)-16)/8)
		}
	}
}

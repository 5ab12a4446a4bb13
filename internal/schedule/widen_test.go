package schedule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestWiden multiplies by narrow operands: few rows, many, and as many as the run decides. Panels are widened for many
// rows alone, and no bit changes.
func TestWiden(t *testing.T) {
	machine := registers
	machine.Limits.L2 = 64 << 10
	for _, dt := range []dtype.DType{dtype.F16, dtype.BF16, dtype.I8, dtype.U8, dtype.F32} {
		for _, rows := range []int64{1, widerRows - 1, widerRows, 3 * widerRows} {
			for _, static := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%v", dt, rows, static), func(t *testing.T) {
					ranges, dims := sym.NewDims(), map[sym.Name]int64{sym.User("n"): rows}
					n := number(rows)
					if !static {
						ranges.Set(sym.User("n"), sym.Range{Min: 0, Max: 1 << 20})
						n = dim("n")
					}
					b := loop.NewBuilder("product")
					depth, columns := number(20), number(37)
					x := b.Param("x", loop.Read, dtype.F32, shape(n, depth))
					w := b.Param("w", loop.Read, dt, shape(depth, columns))
					y := b.Param("y", loop.Write, dtype.F32, shape(n, columns))
					acc := b.Local("acc", dtype.F32, n, columns)
					b.Nest(loop.Each, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, f32(0)) })
					b.Contract(n, columns, depth, acc.Tile(zeros(2), unit(2, 0), unit(2, 1)),
						x.Tile(zeros(2), unit(2, 0), unit(2, 1)), w.Tile(zeros(2), unit(2, 0), unit(2, 1)))
					b.Nest(loop.Each, "o", acc.Shape, func(i []sym.Expr) { b.Store(y, i, acc.Load(i...)) })
					k := b.Finish()
					k.Dims = loop.FreeDims(k)

					results := func(without ...string) ([]*tensor.Tensor, string) {
						scheduled := k.Clone()
						s := &scheduler{module: &loop.Module{Kernels: []*loop.Kernel{scheduled}}, machine: machine, dims: ranges,
							options: Options{Without: without}}
						if err := s.contractions(); err != nil {
							t.Fatal(err)
						}
						scheduled = s.kernel(scheduled)
						if _, err := loop.Verify(scheduled, ranges); err != nil {
							t.Fatalf("%v\n%s", err, scheduled)
						}
						list := operands(t, k, dims, 1)
						if err := interpret(scheduled, list, dims); err != nil {
							t.Fatalf("%v\n%s", err, scheduled)
						}
						return list, scheduled.String()
					}
					narrow, _ := results("widen")
					wide, text := results()
					if err := tensor.Compare(wide[2], narrow[2], 0, 0); err != nil {
						t.Fatalf("%v\n%s", err, text)
					}
					copies, chooses := strings.Contains(text, "local %wide"), strings.Contains(text, "when ge(")
					if may := dt != dtype.F32 && (!static || rows >= widerRows); copies != may || chooses != (may && !static) {
						t.Errorf("a copy: %v, a choice: %v\n%s", copies, chooses, text)
					}
				})
			}
		}
	}
}

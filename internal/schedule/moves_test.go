package schedule

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestMoves: a product reads the source of a copy instead of the copy, if the columns are contiguous there too.
func TestMoves(t *testing.T) {
	moved := func(w *writer, x *loop.Buffer, extents []sym.Expr, from func(i []sym.Expr) []sym.Expr) *loop.Buffer {
		return w.launch("move", loop.Temp, x.DType, extents, []*loop.Buffer{x},
			func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
				b.Nest(loop.Each, "i", out.Shape, func(i []sym.Expr) { b.Store(out, i, in[0].Load(from(i)...)) })
			})
	}
	for _, c := range []struct {
		title    string
		launches int
		copies   string
		build    func(w *writer)
	}{
		{"slices of rows, and of columns", 1, "0 copies, 0 bytes", func(w *writer) {
			x, y := w.buffer(loop.Input, dtype.F32, shape(number(20), number(3), number(9))),
				w.buffer(loop.Input, dtype.F32, shape(number(9), number(50)))
			a := moved(w, x, shape(number(20), number(9)), func(i []sym.Expr) []sym.Expr { return []sym.Expr{i[0], one, i[1]} })
			b := moved(w, y, shape(number(9), number(40)), func(i []sym.Expr) []sym.Expr {
				return []sym.Expr{i[0], i[1].Add(number(7))}
			})
			w.product(loop.Output, a, b, 0, 1)
		}},
		{"every second row", 1, "0 copies, 0 bytes", func(w *writer) {
			x, y := w.buffer(loop.Input, dtype.F32, shape(number(20), number(9))),
				w.buffer(loop.Input, dtype.F32, shape(number(18), number(40)))
			b := moved(w, y, shape(number(9), number(40)), func(i []sym.Expr) []sym.Expr {
				return []sym.Expr{i[0].Mul(number(2)), i[1]}
			})
			w.product(loop.Output, x, b, 0, 1)
		}},
		{"not: strided columns", 2,
			"1440 bytes  %b2 to %b3  @move_3 (move_3): a product needs contiguous elements, which are strided in the source\n" +
				"1 copies, 1440 bytes\n", func(w *writer) {
				x, y := w.buffer(loop.Input, dtype.F32, shape(number(20), number(9))),
					w.buffer(loop.Input, dtype.F32, shape(number(40), number(9)))
				b := moved(w, y, shape(number(9), number(40)), func(i []sym.Expr) []sym.Expr { return []sym.Expr{i[1], i[0]} })
				w.product(loop.Output, x, b, 0, 1)
			}},
		{"not: an index that is not linear", 2, "its reader needs the repeated elements",
			func(w *writer) {
				x, y := w.buffer(loop.Input, dtype.F32, shape(number(20), number(9))),
					w.buffer(loop.Input, dtype.F32, shape(number(3), number(40)))
				b := moved(w, y, shape(number(9), number(40)), func(i []sym.Expr) []sym.Expr {
					return []sym.Expr{i[0].FloorDiv(number(3)), i[1]}
				})
				w.product(loop.Output, x, b, 0, 1)
			}},
	} {
		t.Run(c.title, func(t *testing.T) {
			r := rand.New(rand.NewSource(5))
			w := newWriter()
			c.build(w)
			in := inputs(r, w.module, 20)
			want, err := (&loop.Runner{}).Run(w.module, in)
			if err != nil {
				t.Fatal(err)
			}
			scheduled := detach(w.module)
			if err := RunWith(scheduled, registers, Options{}); err != nil {
				t.Fatal(err)
			}
			if _, err := loop.VerifyModule(scheduled); err != nil {
				t.Fatalf("%v\n%s", err, scheduled)
			}
			if len(scheduled.Body) != c.launches {
				t.Errorf("%d launches, want %d\n%s", len(scheduled.Body), c.launches, scheduled)
			}
			if copies := Copies(scheduled, nil); !strings.Contains(copies, c.copies) {
				t.Errorf("the copies are\n%swant %q", copies, c.copies)
			}
			got, err := (&loop.Runner{}).Run(scheduled, in)
			if err != nil {
				t.Fatal(err)
			}
			for name, x := range want {
				if err := tensor.Compare(got[name], x, 1e-4, 1e-4); err != nil {
					t.Fatalf("%s: %v\n%s", name, err, scheduled)
				}
			}
		})
	}
}

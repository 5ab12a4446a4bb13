package recipes

import (
	"slices"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// TestOtherLoops: a recipe takes no kernel whose parameters or loops are not those of the operator that its meaning
// names, as a text may have it.
func TestOtherLoops(t *testing.T) {
	four := []sym.Expr{sym.Const(2), sym.Const(2), sym.Const(200), sym.Const(4)}
	for _, c := range []struct {
		name, op string
		operands []int64
		reads    int
		shape    []sym.Expr
		local    []sym.Expr
		taken    bool
	}{
		{"attention", "attention", nil, 3, four, nil, true},
		{"attention with a mask and without more keys", "attention", []int64{0, 1, 2, 2}, 3, four, nil, true},
		{"attention without values", "attention", nil, 2, four, nil, false},
		{"attention whose values are absent", "attention", []int64{0, 1, -1}, 2, four, nil, false},
		{"attention with a parameter that is not there", "attention", []int64{0, 1, 7}, 3, four, nil, false},
		{"attention with more keys that have no values", "attention", []int64{0, 1, 2, -1, 1}, 3, four, nil, false},
		{"attention of matrices", "attention", nil, 3, four[:2], nil, false},
		{"a recurrence", "recurrent", nil, 2, four, []sym.Expr{one, sym.Const(4)}, true},
		{"a recurrence with a local of two rows", "recurrent", nil, 2, four, []sym.Expr{sym.Const(2)}, false},
		{"a recurrence with a local without axes", "recurrent", nil, 2, four, []sym.Expr{}, false},
		{"a recurrence without loops", "recurrent", nil, 2, four, nil, false},
	} {
		b := loop.NewBuilder("other")
		for range c.reads {
			b.Param("x", loop.Read, dtype.F32, c.shape)
		}
		y := b.Param("y", loop.Write, dtype.F32, c.shape)
		if c.local != nil {
			b.Each("b", sym.Const(100), func(sym.Expr) { b.Local("h", dtype.F32, c.local...) })
		} else {
			b.Store(y, make([]sym.Expr, len(c.shape)), loop.Number(dtype.F32, 0))
		}
		k := b.Finish()
		k.Meaning = &loop.Meaning{Op: c.op, Attrs: map[string]any{}}
		if c.operands != nil {
			k.Meaning.Attrs[loop.MeantOperands] = c.operands
		}
		if got := For(k, sym.NewDims(), target.Portable(1)); (got != nil) != c.taken {
			t.Errorf("%s: taken is %v", c.name, got != nil)
		}
	}
}

// TestBusiest: the time is that of blocks given one by one, the long ones first, to the worker that is free first, or
// less by no more than a block.
func TestBusiest(t *testing.T) {
	for workers := int64(1); workers < 5; workers++ {
		for count := int64(1); count < 5; count++ {
			for full := int64(0); full < 6; full++ {
				for last := int64(0); last <= 7; last++ {
					const each = 7
					times := make([]int64, workers)
					give := func(blocks, time int64) {
						for range blocks {
							free := 0
							for w := range times {
								if times[w] < times[free] {
									free = w
								}
							}
							times[free] += time
						}
					}
					give(full*count, each)
					give(count, last)
					want := slices.Max(times)
					if got := busiest(workers, count, full, each, last); got > want+last || got < want-last {
						t.Errorf("%d workers, %d × (%d × %d + %d): %d, not %d", workers, count, full, each, last, got, want)
					}
				}
			}
		}
	}
}

// TestSequencesOfABlock: the sequences of one direction are shared evenly by the workers, in blocks of eight to 32, if
// a worker's cache holds the weights; otherwise blocks have 32.
func TestSequencesOfABlock(t *testing.T) {
	for _, c := range []struct {
		batch, units             int64
		workers                  int
		want, directions, blocks int64
	}{
		{32, 64, 1, 32, 1, 1}, {32, 64, 2, 16, 1, 2}, {33, 64, 2, 17, 1, 2}, {31, 64, 2, 16, 1, 2}, {96, 64, 2, 24, 1, 4},
		{16, 64, 2, 8, 1, 2}, {15, 64, 2, 8, 1, 2}, {14, 64, 2, 14, 1, 1}, {32, 64, 8, 32, 1, 1}, {64, 64, 8, 8, 1, 8},
		{32, 1024, 2, 32, 1, 1}, {32, 64, 2, 32, 2, 1},
	} {
		b := loop.NewBuilder("layer")
		units, batch := sym.Const(c.units), sym.Const(c.batch)
		w := b.Param("w", loop.Read, dtype.F32, []sym.Expr{units, units})
		y := b.Param("y", loop.Write, dtype.F32, []sym.Expr{batch, units})
		zero := sym.Const(0)
		for range c.directions {
			b.Each("b", batch, func(at sym.Expr) {
				h, next := b.Local("h", dtype.F32, one, units), b.Local("next", dtype.F32, one, units)
				b.Contract(one, units, units, next.Tile([]sym.Expr{zero, zero}, []sym.Expr{one, zero}, []sym.Expr{zero, one}),
					h.Tile([]sym.Expr{zero, zero}, []sym.Expr{one, zero}, []sym.Expr{zero, one}),
					w.Tile([]sym.Expr{zero, zero}, []sym.Expr{one, zero}, []sym.Expr{zero, one}))
				b.Nest(loop.Each, "o", []sym.Expr{one, units}, func(i []sym.Expr) {
					b.Store(y, []sym.Expr{at, i[1]}, next.Load(i...))
				})
			})
		}
		k := b.Finish()
		k.Meaning = &loop.Meaning{Op: "recurrent", Attrs: map[string]any{}}
		m, err := target.Assumed("avx2", c.workers)
		if err != nil {
			t.Fatal(err)
		}
		made := For(k, sym.NewDims(), m)
		rows := int64(0)
		loop.Walk(made.Body, func(s loop.Stmt) bool {
			if l, ok := s.(*loop.Local); ok {
				rows, _ = l.Shape[0].Const()
			}
			return true
		})
		blocks, _ := made.Body[0].(*loop.For).Extent.Const()
		if rows != c.want || blocks != c.blocks {
			t.Errorf("%d sequences of %d units, %d directions, %d workers: %d blocks of %d rows, want %d of %d",
				c.batch, c.units, c.directions, c.workers, blocks, rows, c.blocks, c.want)
		}
	}
}

package pass

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ir/irtest"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// stepBuilder builds a random module like a training step: values with a batch, sums over the batch, values computed
// from the sums, and values with a batch again. It notes the operators.
type stepBuilder struct {
	windows
	batch   sym.Expr
	batched []*ir.Value // values of rank 2 and more; the batch is their first axis
	others  []*ir.Value // values of rank 1, with the extent of the last axis of a batched value
}

// note adds a name to the operators that were built.
func (s *stepBuilder) note(name string) { s.names = append(s.names, name) }

// any returns a random value with a batch, of the given rank unless that is 0; nil if there is none.
func (s *stepBuilder) any(rank int) *ir.Value {
	list := slices.Collect(func(yield func(*ir.Value) bool) {
		for _, v := range s.batched {
			if (rank == 0 || len(v.Type.Shape) == rank) && !yield(v) {
				return
			}
		}
	})
	if len(list) == 0 {
		return nil
	}
	return list[s.IntN(len(list))]
}

// lastExtent returns the extent of the last axis, which must be a number.
func lastExtent(v *ir.Value) int64 {
	n, _ := v.Type.Shape[len(v.Type.Shape)-1].Const()
	return n
}

// next adds a random operator; nil if it does not fit the operand drawn for it.
func (s *stepBuilder) next() *ir.Value {
	b, x := s.b, s.any(0)
	rank := len(x.Type.Shape)
	switch kind := s.IntN(17); kind {
	case 0:
		s.note("unary")
		return b.Op([]string{"tanh", "relu", "exp", "neg"}[s.IntN(4)], nil, x)
	case 1:
		s.note("binary")
		for _, y := range s.batched {
			if y != x && slices.EqualFunc(x.Type.Shape, y.Type.Shape, sym.Expr.Equal) {
				return ops.Binary(b, []loop.BinaryOp{loop.Add, loop.Mul, loop.Sub}[s.IntN(3)], x, y)
			}
		}
		return nil
	case 2:
		s.note("dense")
		return ops.MatMul(b, x, s.constant(lastExtent(x), 1+s.Int64N(5)), false, false)
	case 3: // the derivative of a weight
		y := s.any(rank)
		if rank > 3 || !slices.EqualFunc(x.Type.Shape[:rank-1], y.Type.Shape[:rank-1], sym.Expr.Equal) {
			return nil
		}
		s.note("weight")
		flat := func(v *ir.Value) *ir.Value {
			return ops.Reshape(b, v, sym.Product(v.Type.Shape[:rank-1]...), v.Type.Shape[rank-1])
		}
		sum := ops.MatMul(b, flat(x), flat(y), true, false)
		s.others = append(s.others, ops.ReduceSum(b, sum, false, 0))
		return ops.MatMul(b, x, sum, false, false)
	case 4:
		s.note("statistic")
		name := []string{"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_sum_square", "reduce_l1"}[s.IntN(6)]
		axes := []int64{0}
		for i := 1; i < rank-1; i++ {
			axes = append(axes, int64(i))
		}
		sum := ops.Reduce(b, name, x, s.IntN(2) == 0, axes...)
		s.others = append(s.others, ops.Reshape(b, sum, x.Type.Shape[rank-1]))
		return ops.Binary(b, loop.Sub, x, sum)
	case 5:
		s.note("with a sum")
		for _, v := range s.others {
			if lastExtent(v) == lastExtent(x) {
				return ops.Binary(b, loop.Mul, x, b.Op("tanh", nil, v))
			}
		}
		return nil
	case 6:
		s.note("softmax")
		if s.IntN(2) == 0 {
			return ops.LogSoftmax(b, x, -1)
		}
		return ops.Softmax(b, x, int64(rank-1))
	case 7:
		s.note("inner reduction")
		return ops.ReduceMean(b, x, true, int64(rank-1))
	default:
		return s.nextShaped(kind, x)
	}
}

// nextShaped adds a window or a change of shape, by its kind from 8 on; it returns nil if x does not fit.
func (s *stepBuilder) nextShaped(kind int, x *ir.Value) *ir.Value {
	b, rank := s.b, len(x.Type.Shape)
	switch kind {
	case 8:
		if rank != 4 {
			return nil
		}
		s.note("convolution")
		w, ok := s.window(x, 3)
		if !ok {
			return nil
		}
		attrs := w.Attrs()
		attrs["groups"], attrs["last"] = int64(1), true
		filters := 1 + s.Int64N(3)
		return b.Op("convolution", attrs, x, s.constant(append(slices.Clone(w.Kernel), lastExtent(x), filters)...),
			s.constant(filters))
	case 9:
		if rank != 4 {
			return nil
		}
		s.note("pool")
		w, ok := s.window(x, 3)
		if !ok {
			return nil
		}
		attrs := w.Attrs()
		attrs["last"], attrs["ceil"] = true, false
		return b.Op("max_pool", attrs, x)
	case 10:
		s.note("flattened")
		return ops.Reshape(b, x, x.Type.Shape[0], sym.Product(x.Type.Shape[1:]...))
	case 11: // the batch in the middle, and back
		if rank < 3 {
			return nil
		}
		s.note("turned")
		perm := []int64{1, 0}
		for i := 2; i < rank; i++ {
			perm = append(perm, int64(i))
		}
		return ops.Transpose(b, b.Op("tanh", nil, ops.Transpose(b, x, perm...)), perm...)
	case 12:
		s.note("concat")
		return ops.Concat(b, int64(rank-1), x, b.Op("neg", nil, x))
	case 13:
		if rank < 3 {
			return nil
		}
		s.note("slice")
		extent, _ := x.Type.Shape[1].Const()
		return ops.SliceAxis(b, x, 1, sym.Const(s.Int64N(extent)/2), sym.Const(max(1, extent/2)))
	case 14:
		s.note("filled")
		full := ops.Expand(b, ops.Scalar(b, dtype.F32, 0.5), x.Type.Shape...)
		return ops.Binary(b, loop.Add, x, b.Op("tanh", nil, full))
	case 15: // all examples at once
		if rank != 2 {
			return nil
		}
		s.note("between examples")
		return ops.MatMul(b, ops.Softmax(b, ops.MatMul(b, x, x, false, true), 1), x, false, false)
	}
	s.note("rows of a table")
	ids := b.Param("ids", ir.Type{DType: dtype.I64, Shape: []sym.Expr{s.batch, sym.Const(3)}})
	return ops.Gather(b, s.constant(3, 2), ids, 0)
}

// TestBatch divides random modules into pieces of the batch, of any number of examples and with any results kept: their
// results equal the results in one piece, up to the order of sums.
func TestBatch(t *testing.T) {
	built, cut := map[string]int{}, map[string]int{}
	loops, pieces := map[int]int{}, map[int64]int{}
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 9))
		m := &ir.Module{Name: "m", Dims: sym.NewDims(), Limits: map[sym.Name]sym.Expr{},
			Main: &ir.Func{Name: "f", Body: &ir.Block{}}}
		m.Funcs = []*ir.Func{m.Main}
		s := &stepBuilder{windows: windows{Rand: r, b: ir.NewBuilder(ir.NewInference(m), m.Main.Body), axes: 2},
			batch: sym.Const(2 + r.Int64N(9))}
		if r.IntN(3) > 0 {
			m.Dims.Set(sym.User("n"), sym.Range{Min: r.Int64N(2), Max: 4 + r.Int64N(7)})
			s.batch = sym.Dim("n")
		}
		for _, shape := range [][]sym.Expr{{s.batch, sym.Const(5), sym.Const(6), sym.Const(2)}, {s.batch, sym.Const(4)},
			{s.batch, sym.Const(3), sym.Const(4)}} {
			s.batched = append(s.batched, s.b.Param("x", ir.Type{DType: dtype.F32, Shape: shape}))
		}
		for range 4 + r.IntN(20) {
			before := len(s.names)
			nodes := len(m.Main.Body.Nodes)
			y, err := try(s.next)
			if y == nil || err != nil {
				m.Main.Body.Nodes, s.names = m.Main.Body.Nodes[:nodes], s.names[:before]
				continue
			}
			s.batched = append(s.batched, y)
		}
		m.Main.Body.Results = append([]*ir.Value{s.batched[len(s.batched)-1]}, s.others...)
		if v := s.batched[len(s.batched)/2]; v.Node != nil {
			m.Main.Body.Results = append(m.Main.Body.Results, v)
		}
		if m.Main.Body.Results[0].Node == nil {
			continue
		}
		if err := Dead(m); err != nil {
			t.Fatal(err)
		}
		before := m.String()
		args := irtest.Arguments(m, r)
		want, err := ir.Evaluate(m, args, nil)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, before)
		}
		for _, name := range s.names {
			built[name]++
		}
		allowed := []float64{0, 100, 1000, 10_000, 1e9}[r.IntN(5)]
		done, undo := Batch(m, allowed)
		if done == nil {
			continue
		}
		for _, name := range s.names {
			cut[name]++
		}
		loops[int(done.Loops)]++
		pieces[done.Pieces]++
		if err := ir.Verify(m); err != nil {
			t.Fatalf("seed %d: %v\n%s\nis\n%s", seed, err, before, m)
		}
		got, err := ir.Evaluate(m, args, nil)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s\nis\n%s", seed, err, before, m)
		}
		for i := range want {
			if err := tensor.CompareAmong(got[i], want[i], 1e-3, 1e-4); err != nil {
				t.Fatalf("seed %d: result %d: %v\n%s\nis\n%s", seed, i, err, before, m)
			}
		}
		undo()
		if after, err := ir.Evaluate(m, args, nil); err != nil || !slices.EqualFunc(after, want, (*tensor.Tensor).Equal) {
			t.Fatalf("seed %d: undo leaves other results: %v", seed, err)
		}
	}
	t.Log(built, cut, loops, pieces)
	for name, count := range built {
		if cut[name]*3 < count {
			t.Errorf("of %d modules with %s, %d were cut", count, name, cut[name])
		}
	}
	if len(loops) < 4 || len(pieces) < 4 {
		t.Errorf("only %v loops, %v pieces", loops, pieces)
	}
}

package pass

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ir/irtest"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// windows builds a random chain of operators with windows, such as convolutions, and of operators between them.
// Channels are last: [batch, rows, 5, channels], or [batch, rows, channels] with one spatial axis. names lists the
// operators.
type windows struct {
	*rand.Rand
	b     *ir.Builder
	axes  int
	names []string
}

// window draws a window over x with a kernel of at most the given extent; false if x is too small for it.
func (w *windows) window(x *ir.Value, kernel int64) (ops.Window, bool) {
	win := ops.Window{}
	for i := range w.axes {
		k, d, s := 1+w.Int64N(kernel), 1+w.Int64N(2), 1+w.Int64N(3)
		reach := (k-1)*d + 1
		begin, end := w.Int64N(reach), w.Int64N(reach)
		if w.IntN(3) == 0 {
			begin, end = 0, 0
		}
		extent, _ := x.Type.Shape[1+i].Const()
		if i > 0 {
			s = 1
		}
		if extent+begin+end < reach {
			return win, false
		}
		win.Kernel, win.Dilations, win.Strides = append(win.Kernel, k), append(win.Dilations, d), append(win.Strides, s)
		win.Begin, win.End = append(win.Begin, sym.Const(begin)), append(win.End, sym.Const(end))
	}
	return win, true
}

// constant returns a constant of random f32 elements.
func (w *windows) constant(shape ...int64) *ir.Value {
	t := tensor.Must(tensor.New(dtype.F32, shape...))
	for i := range t.Len() {
		t.SetFloat(i, w.NormFloat64())
	}
	return w.b.Constant("c", t)
}

// winograd returns a convolution in tiles, of images or of planes.
func (w *windows) winograd(x *ir.Value, rows, channels int64) *ir.Value {
	tile, planes := 2+2*w.Int64N(2), int64(1)
	begin, end, kernel := []int64{w.Int64N(3), w.Int64N(3)}, []int64{w.Int64N(3), w.Int64N(3)}, []int64{3, 3, channels, 2}
	if w.axes == 3 {
		planes = 1 + w.Int64N(3)
		begin, end, kernel = append(begin, 1), append(end, 1), append([]int64{planes}, kernel...)
	} else if w.IntN(4) > 0 { // ragged heights are not cut
		end[0] = tile - (rows+begin[0]-2)%tile
	}
	u, direct := w.constant(planes*(tile+2)*(tile+2), channels, 2), w.constant(kernel...)
	return ops.Winograd(w.b, x, u, direct, nil, tile, ir.Constants(begin), ir.Constants(end))
}

// next adds a random operator to x; nil if the operator cannot be applied to x.
func (w *windows) next(x *ir.Value) *ir.Value {
	b, rank := w.b, len(x.Type.Shape)
	channels, _ := x.Type.Shape[rank-1].Const()
	rows, _ := x.Type.Shape[1].Const()
	kind := w.IntN(12)
	w.names = append(w.names, [...]string{"convolution", "depthwise", "winograd", "max_pool", "average_pool", "lp_pool",
		"resample", "repeat", "pad", "concat", "space", "slice"}[kind])
	switch kind {
	case 0, 1:
		win, ok := w.window(x, 4)
		if !ok {
			return nil
		}
		groups, filters := int64(1), 1+w.Int64N(3)
		if kind == 1 {
			groups, filters = channels, channels
		}
		attrs := win.Attrs()
		attrs["groups"], attrs["last"] = groups, true
		return b.Op("convolution", attrs, x, w.constant(append(slices.Clone(win.Kernel), channels/groups, filters)...),
			w.constant(filters))
	case 2:
		if w.axes < 2 || rows < 3 {
			return nil
		}
		return w.winograd(x, rows, channels)
	case 3, 4, 5:
		win, ok := w.window(x, 3)
		if !ok {
			return nil
		}
		attrs := win.Attrs()
		attrs["last"], attrs["ceil"] = true, w.IntN(2) == 0
		switch kind {
		case 4:
			attrs["padded"] = w.IntN(2) == 0
		case 5:
			attrs["p"] = int64(2)
		}
		return b.Op([]string{"max_pool", "average_pool", "lp_pool"}[kind-3], attrs, x)
	case 6:
		to := rows*2 - 1 + w.Int64N(3)
		at, by := tensor.Must(tensor.New(dtype.I64, to, 2)), tensor.Must(tensor.New(dtype.F32, to, 2))
		for i := range to {
			at.SetInt(2*i, i*rows/to)
			at.SetInt(2*i+1, min(i*rows/to+1, rows-1))
			by.SetFloat(2*i, 0.25)
			by.SetFloat(2*i+1, 0.75)
		}
		return ops.Resample(b, x, b.Constant("at", at), b.Constant("by", by), 1)
	case 7:
		times := slices.Repeat([]int64{1}, rank)
		times[1] = 2
		return ops.Repeat(b, x, times)
	case 8:
		begin, end := make([]sym.Expr, rank), make([]sym.Expr, rank)
		begin[1], end[1] = sym.Const(w.Int64N(4)-1), sym.Const(w.Int64N(4)-1)
		if rows < 3 {
			return nil
		}
		return ops.Pad(b, x, nil, "constant", begin, end)
	case 9:
		return ops.Concat(b, int64(rank-1), x, b.Op("tanh", nil, x))
	case 10: // rows and channels exchange a factor
		shape := slices.Clone(x.Type.Shape)
		if rows%2 == 0 && w.axes == 1 {
			shape[1], shape[rank-1] = sym.Const(rows/2), sym.Const(channels*2)
		} else if channels%2 == 0 && w.axes == 1 {
			shape[1], shape[rank-1] = sym.Const(rows*2), sym.Const(channels/2)
		} else {
			return nil
		}
		return ops.Reshape(b, x, shape...)
	}
	if rows < 4 {
		return nil
	}
	return ops.SliceAxis(b, x, 1, sym.Const(w.Int64N(2)), sym.Const(rows-1-w.Int64N(2)))
}

// randomWindows returns a module of a random chain of operators with windows, and the chain; nil if
// hardly any operator could be applied.
func randomWindows(r *rand.Rand) (m *ir.Module, w *windows) {
	m = &ir.Module{Name: "m", Dims: sym.NewDims(), Limits: map[sym.Name]sym.Expr{},
		Main: &ir.Func{Name: "f", Body: &ir.Block{}}}
	m.Funcs = []*ir.Func{m.Main}
	batch := sym.Const(1)
	switch r.IntN(3) {
	case 0:
		m.Dims.Set(sym.User("n"), sym.Range{Min: 0, Max: 4})
		batch = sym.Dim("n")
	case 1:
		batch = sym.Const(2)
	}
	w = &windows{Rand: r, b: ir.NewBuilder(ir.NewInference(m), m.Main.Body), axes: 1 + r.IntN(3)}
	shape := []sym.Expr{batch, sym.Const(5 + r.Int64N(30)), sym.Const(5), sym.Const(2)}
	switch w.axes {
	case 1:
		shape = slices.Delete(shape, 2, 3)
	case 3:
		shape = slices.Insert(shape, 2, sym.Const(4))
	}
	x := w.b.Param("x", ir.Type{DType: dtype.F32, Shape: shape})
	values := []*ir.Value{x}
	for range 3 + r.IntN(5) {
		y, err := try(func() *ir.Value { return w.next(values[len(values)-1]) })
		if y == nil || err != nil {
			w.names = w.names[:len(w.names)-1]
			m.Main.Body.Nodes = slices.DeleteFunc(m.Main.Body.Nodes, func(n *ir.Node) bool {
				return len(n.Outputs) == 0 || n.Outputs[0] == nil
			})
			continue
		}
		values = append(values, y)
	}
	if len(values) < 3 {
		return nil, nil
	}
	m.Main.Body.Results = []*ir.Value{values[len(values)-1]}
	if r.IntN(2) == 0 && len(values) > 4 { // a value inside the segment is a result, too
		m.Main.Body.Results = append(m.Main.Body.Results, values[len(values)/2])
	}
	return m, w
}

// TestChunkChoices: a search that leaves out segments which cannot be chosen chooses the same segments as one that
// examines all of them, whatever number of bytes is allowed.
func TestChunkChoices(t *testing.T) {
	chosen, spared := 0, 0
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 6))
		m, _ := randomWindows(r)
		if m == nil {
			continue
		}
		if err := Dead(m); err != nil {
			t.Fatal(err)
		}
		most := 0.0
		for _, n := range m.Main.Body.Nodes {
			most = max(most, newChunking(m, onCPU, 0).bytesOf(n.Outputs[0]))
		}
		for _, share := range []float64{0, 0.3, 0.8, 1.5, 3} {
			want, all := newChunking(m, onCPU, share*most), map[*ir.Node]bool{}
			want.exhaustive = true
			got := newChunking(m, onCPU, share*most)
			for _, n := range m.Main.Body.Nodes {
				all[n] = r.IntN(4) > 0
			}
			wanted := func(n *ir.Node) bool { return all[n] }
			lines := func(list []*segment) (text []string) {
				for _, s := range list {
					text = append(text, fmt.Sprint(s.first, s.last, len(s.nodes), s.pieces, s.cost, s.gain, s.work, s.more))
				}
				return text
			}
			expected, found := lines(want.best(wanted)), lines(got.best(wanted))
			if !slices.Equal(found, expected) {
				t.Fatalf("seed %d, %v of %v bytes: %q, want %q\n%s", seed, share, most, found, expected, m)
			}
			chosen += len(found)
			if got.weighed < want.weighed {
				spared++
			}
		}
	}
	if chosen < 100 || spared < 100 {
		t.Errorf("%d segments were chosen, and %d searches examined fewer", chosen, spared)
	}
}

// TestChunkWindows divides random chains of windows into pieces of any number of rows: the results equal the results in
// one piece to the bit.
func TestChunkWindows(t *testing.T) {
	built, cut := map[string]int{}, map[string]int{}
	pieces := map[int64]int{}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 5))
		m, w := randomWindows(r)
		if m == nil {
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
		for _, name := range w.names {
			built[name]++
		}
		c := newChunking(m, onCPU, 0)
		last := len(m.Main.Body.Nodes) - 1
		first := r.IntN(max(1, last/2))
		s := &segment{chunking: c, first: first, last: last}
		if !s.spread(m.Main.Body.Nodes[last], 1) || !s.lay(2+r.Int64N(8)) || !s.build(m, m.Main.Body) {
			continue
		}
		for _, name := range w.names {
			cut[name]++
		}
		pieces[s.pieces]++
		if err := ir.Verify(m); err != nil {
			t.Fatalf("seed %d: %v\n%s\nis\n%s", seed, err, before, m)
		}
		got, err := ir.Evaluate(m, args, nil)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s\nis\n%s", seed, err, before, m)
		}
		for i := range want {
			if err := tensor.Compare(got[i], want[i], 0, 0); err != nil {
				t.Fatalf("seed %d: result %d: %v\n%s\nis\n%s", seed, i, err, before, m)
			}
		}
	}
	for name, count := range built {
		if cut[name]*4 < count && name != "average_pool" {
			t.Errorf("of %d chains with %s, %d were cut", count, name, cut[name])
		}
	}
	if len(pieces) < 5 {
		t.Errorf("only %v pieces", pieces)
	}
	t.Log(fmt.Sprint(built, cut, pieces))
}

// try returns the value that build builds, or the error with which it fails.
func try(build func() *ir.Value) (v *ir.Value, err error) {
	defer ir.Catch(&err)
	return build(), nil
}

// TestSteps shows that ops.Steps returns formulas of lists of pieces' first rows, for random and for fixed lists.
func TestSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		values := make([]int64, 1+r.IntN(17))
		slope, at := r.Int64N(5)-2, r.Int64N(9)-4
		for i := range values {
			values[i] = at + slope*int64(i)
		}
		low, high := r.Int64N(30)-10, r.Int64N(30)
		for i, v := range values {
			switch r.IntN(12) {
			case 0:
				values[i] = v + r.Int64N(3)
			default:
				if low < high && len(values) > 8 {
					values[i] = min(max(v, low), high)
				}
			}
		}
		e, ok := ops.Steps(values, sym.Dim("i"))
		for i, v := range values {
			got, err := e.Eval(func(sym.Name) (int64, bool) { return int64(i), true })
			if ok && (err != nil || got != v) {
				t.Fatalf("%v: %s is %d at %d", values, e, got, i)
			}
		}
		if clean := slices.Repeat([]int64{7}, 3); !ok && slices.Equal(values, clean) {
			t.Errorf("%v has no formula", values)
		}
	}
	for _, c := range []struct {
		values []int64
		want   string
	}{{[]int64{3}, "3"}, {[]int64{0, 4, 8, 12}, "4*i"}, {[]int64{0, 3, 7, 11, 15, 18}, "min(max(4*i - 1, 0), 18)"},
		{[]int64{1, 0, 0, 0, -1}, ""}} {
		e, ok := ops.Steps(c.values, sym.Dim("i"))
		if !ok || c.want != "" && e.String() != c.want {
			t.Errorf("%v is %s, want %s", c.values, e, c.want)
		}
	}
	if e, ok := ops.Steps([]int64{0, 5, 1, 7, 2, 9, 0, 4, 8}, sym.Dim("i")); ok && strings.Count(e.String(), "max") > 4 {
		t.Errorf("a long formula: %s", e)
	}
}

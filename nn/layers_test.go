package nn_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
)

// ramp returns an array of a shape with the elements sin(1.7·i + 0.3).
func ramp(s *array.Scope, shape ...int) *array.Array {
	n := 1
	for _, e := range shape {
		n *= e
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(math.Sin(float64(i)*1.7 + 0.3))
	}
	return array.From(s, data, shape...)
}

// TestCache: CachedAttention, compiled with keys and values as states, gives the results of causal attention to all
// positions at once, if the positions arrive one by one, in several calls of different sizes, or in one call.
func TestCache(t *testing.T) {
	for _, heads := range []int{2, 4} {
		full := nn.MultiHeadAttention(8, 4, nn.Causal, nn.KeyHeads(heads))
		step := nn.CachedAttention(8, 4, nn.KeyHeads(heads))
		s, p := open(t, full)
		const batch, most = 2, 6
		x := ramp(s, batch, most, 8)
		want, err := nn.Predict(s, full, p, x)
		if err != nil {
			t.Fatal(err)
		}
		for _, sizes := range [][]int{{1, 1, 1, 1, 1, 1}, {3, 1, 2}, {6}} {
			t.Run(fmt.Sprint(heads, sizes), func(t *testing.T) {
				inner := array.NewScope("steps", array.In(s))
				defer inner.Close()
				keys, values := inner.Zeros(weir.F32, batch, heads, most, 2), inner.Zeros(weir.F32, batch, heads, most, 2)
				c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
					return nn.Apply(nn.Inference(s, p), step, in...)
				}, array.Options{Name: "step", States: map[int]int{1: 1, 2: 2},
					Inputs: []array.Spec{array.SpecOf("x", weir.F32, batch, "new", 8),
						array.SpecOf("keys", weir.F32, batch, heads, most, 2), array.SpecOf("values", weir.F32, batch, heads, most, 2),
						array.SpecOf("count", weir.I64, 1)}})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				at := 0
				for i, part := range inner.Split(x, 1, sizes...) {
					y := c.Call(inner, part, keys, values, array.From(inner, []int64{int64(at)}))
					if err := inner.Err(); err != nil {
						t.Fatal(err)
					}
					expected := inner.Split(want, 1, at, sizes[i], most-at-sizes[i])[1]
					wide := make([]float64, 0)
					for _, v := range elements(t, expected) {
						wide = append(wide, float64(v))
					}
					near(t, fmt.Sprint("positions from ", at), elements(t, y[0]), wide)
					at += sizes[i]
				}
			})
		}
	}
}

// TestSharedHeads: attention with 2 key heads for 4 query heads equals attention with 4 key heads that have the same
// weights in pairs.
func TestSharedHeads(t *testing.T) {
	shared := nn.MultiHeadAttention(8, 4, nn.KeyHeads(2))
	all := nn.MultiHeadAttention(8, 4)
	s, p := open(t, shared)
	q := nn.Init(all, 1)
	defer q.Close()
	// The columns of the [in, out] weight: the queries', each key head's twice, and each value head's twice.
	w := elements(t, p.Get("in_proj_weight"))
	var columns []int
	for i := range 8 {
		columns = append(columns, i)
	}
	for part := range 2 {
		for head := range 4 {
			for i := range 2 {
				columns = append(columns, 8+part*4+head/2*2+i)
			}
		}
	}
	var wide []float32
	for row := range 8 {
		for _, c := range columns {
			wide = append(wide, w[row*16+c])
		}
	}
	if err := errors.Join(q.Set("in_proj_weight", array.From(s, wide, 8, 24)),
		q.Set("out_proj.weight", p.Get("out_proj.weight"))); err != nil {
		t.Fatal(err)
	}
	x := ramp(s, 2, 5, 8)
	got, err := nn.Predict(s, shared, p, x)
	if err != nil {
		t.Fatal(err)
	}
	want, err := nn.Predict(s, all, q, x)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range elements(t, want) {
		if math.Abs(float64(v-elements(t, got)[i])) > 1e-5 {
			t.Fatalf("element %d is %v, not %v", i, elements(t, got)[i], v)
		}
	}
}

// TestDroppedAttention: in training, attention with a dropout rate of 1e-7, which hardly drops a weight, gives the
// results of attention without dropout: also causal, and with a shared key head.
func TestDroppedAttention(t *testing.T) {
	for _, options := range [][]nn.Option{nil, {nn.Causal}, {nn.KeyHeads(1)}} {
		plain, dropping := nn.MultiHeadAttention(8, 4, options...),
			nn.MultiHeadAttention(8, 4, append(options, nn.Rate(1e-7))...)
		s, p := open(t, plain)
		x := ramp(s, 2, 5, 8)
		want := nn.One(nn.Inference(s, p), plain, x)
		got := nn.One(nn.Training(s, p, array.Key(1)), dropping, x)
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
		g := elements(t, got)
		for i, v := range elements(t, want) {
			if math.Abs(float64(v-g[i])) > 1e-5 {
				t.Fatalf("element %d is %v, not %v", i, g[i], v)
			}
		}
	}
}

// TestDropout: two layers of rate 0.25 drop elements independently of each other and scale the rest. The key determines
// the dropped elements, inference drops none, and training without a key is an error that names the layer.
func TestDropout(t *testing.T) {
	net := nn.Sequential(nn.Dropout(0.25), nn.Identity, nn.Dropout(0.25))
	s, p := open(t, net)
	x := s.Ones(weir.F32, 10000)
	draw := func(key array.Random) []float32 { return elements(t, nn.One(nn.Training(s, p, key), net, x)) }
	a := draw(array.Key(1))
	zeros, sum := 0, 0.0
	for _, v := range a {
		sum += float64(v)
		if v == 0 {
			zeros++
		} else if math.Abs(float64(v)-1/.5625) > 1e-6 {
			t.Fatalf("an element is %v", v)
		}
	}
	// The two layers draw independently: 1 − 0.75² of the elements are 0.
	if math.Abs(float64(zeros)-4375) > 200 || math.Abs(sum-10000) > 400 {
		t.Errorf("%d of 10000 elements are 0, the sum is %v", zeros, sum)
	}
	if !slices.Equal(a, draw(s.Key(1))) || slices.Equal(a, draw(array.Key(2))) {
		t.Error("a key does not decide what is drawn")
	}
	if y := elements(t, nn.One(nn.Inference(s, p), net, x)); slices.Contains(y, 0) {
		t.Error("elements are dropped in inference")
	}
	nn.One(nn.Training(s, p, nil), net, x)
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "0 (Dropout(0.25))") ||
		!strings.Contains(err.Error(), "key") {
		t.Error(err)
	}
}

// TestEmbeddingIDs: ids of ranks 0 to 4, some without elements, and of every integer type select the table's rows; the
// result belongs to the scope in which the layer runs (DJL's #3251). Ids of f32 are an error.
func TestEmbeddingIDs(t *testing.T) {
	net := nn.Embedding(6, 3)
	s, p := open(t, net)
	table, bytes := elements(t, p.Get("weight")), p.Scope().Stats().Bytes
	for _, dt := range []weir.DType{weir.I8, weir.U8, weir.I16, weir.U16, weir.I32, weir.U32, weir.I64, weir.U64} {
		for _, shape := range [][]int{{}, {4}, {2, 2}, {1, 2, 1, 2}, {0}, {2, 0, 3}} {
			batch := array.NewScope("batch", array.In(s))
			n := 1
			for _, e := range shape {
				n *= e
			}
			ids := make([]int64, n)
			for i := range ids {
				ids[i] = int64((i*5 + 3) % 6)
			}
			y := nn.One(nn.Inference(batch, p), net, batch.Cast(array.From(batch, ids, shape...), dt))
			if err := batch.Err(); err != nil {
				t.Fatalf("%v%v: %v", dt, shape, err)
			}
			if y.Scope() != batch || !slices.Equal(y.Shape(), append(slices.Clone(shape), 3)) {
				t.Errorf("%v%v: %v in %v", dt, shape, y, y.Scope())
			}
			for i, v := range elements(t, y) {
				if v != table[int(ids[i/3])*3+i%3] {
					t.Fatalf("%v%v: element %d is %v", dt, shape, i, v)
				}
			}
			if err := batch.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if got := p.Scope().Stats().Bytes; got != bytes {
		t.Errorf("the store held %d bytes, and holds %d", bytes, got)
	}
	_, err := nn.Predict(s, net, p, s.Zeros(weir.F32, 2))
	if err == nil || !strings.Contains(err.Error(), "integers") {
		t.Error(err)
	}
}

// TestPaths: the error of an input that does not fit a layer names the layer's path and settings, the numbers that
// differ, and the file that called.
func TestPaths(t *testing.T) {
	cases := []struct {
		net   nn.Layer
		shape []int
		says  []string
	}{
		{nn.Sequential(nn.Relu, nn.Conv2d(3, 4, 3)), []int{1, 2, 5, 5},
			[]string{"1 (Conv2d(3, 4, 3))", "f32[1,2,5,5]", "3 channels"}},
		{nn.Sequential(nn.Conv2d(3, 4, 7)), []int{1, 3, 5, 5}, []string{"0 (Conv2d(3, 4, 7))"}},
		{nn.Residual(nn.Linear(4, 3)), []int{2, 4}, []string{"Residual", "4", "3"}},
		{nn.Sequential(nn.Residual(nn.Sequential(nn.BatchNorm(3)))), []int{2, 4},
			[]string{"0.inner.0 (BatchNorm(3))", "3 channels"}},
		{nn.LSTM(3, 4), []int{2, 5}, []string{"LSTM(3, 4)", "f32[2,5]"}},
		{nn.TransformerEncoderLayer(6, 2, 8), []int{2, 4, 5}, []string{"self_attn (MultiHeadAttention(6, 2))", "f32[2,4,5]"}},
		{nn.Sequential(nn.Lambda(func(c *nn.Context, x *array.Array) *array.Array {
			return c.MatMul(x, x)
		})), []int{2, 3}, []string{"0 (Lambda)"}},
		{nn.Sequential(nn.MaxPool2d(2)), []int{2, 3}, []string{"0 (MaxPool2d(2))", "f32[2,3]"}},
		{nn.GroupNorm(2, 4), []int{2, 3, 2}, []string{"GroupNorm(2, 4)", "4 channels"}},
		{nn.LayerNorm(4), []int{2, 3}, []string{"LayerNorm(4)", "f32[2,3]"}},
		{nn.Positions(4, 3), []int{1, 5, 3}, []string{"Positions(4, 3)", "at most 4"}},
		{nn.Reshape(2, 2), []int{2, 3}, []string{"Reshape"}},
		{nn.AdaptiveAvgPool(2), []int{2, 3}, []string{"AdaptiveAvgPool(2)"}},
	}
	for _, c := range cases {
		t.Run(fmt.Sprint(c.net), func(t *testing.T) {
			s, p := open(t, c.net)
			_, err := nn.Predict(s, c.net, p, s.Zeros(weir.F32, c.shape...))
			var e *weir.Error
			if !errors.As(err, &e) {
				t.Fatalf("%v", err)
			}
			for _, part := range append(c.says, "layers_test.go") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
		})
	}
}

// TestInvalidSettings: New refuses networks with invalid or contradictory settings with a typed error, and keeps no
// memory.
func TestInvalidSettings(t *testing.T) {
	array.AssertNoLeaks(t)
	for _, net := range []nn.Layer{nn.Conv2d(3, 4, 3, nn.Groups(2)), nn.Conv2d(3, 4, 0),
		nn.Conv1d(1, 1, 3, nn.Window(1, 2)), nn.MultiHeadAttention(7, 2),
		nn.MultiHeadAttention(8, 4, nn.KeyHeads(3)), nn.GroupNorm(2, 3), nn.Linear(-1, 2), nn.Sequential(nn.Relu, nil), nil,
		nn.LSTM(0, 4), nn.LSTM(2, 2, nn.Layers(0)),
		nn.Linear(2, 2, nn.Weights(nn.TruncatedNormal(0, -1, 0, 1))), nn.GRU(2, 2, nn.Activation(nn.Relu)), nn.MaxPool2d(0),
		twice{}} {
		p, err := nn.New(net, 7)
		var e *weir.Error
		if !errors.As(err, &e) || p != nil {
			t.Errorf("%v: %v", net, err)
		}
	}
}

// twice declares a name twice.
type twice struct{}

// Declare declares one name as a parameter and as a buffer.
func (twice) Declare(d *nn.Declaration) {
	d.Param("weight", weir.F32, nn.Zeros(), 2)
	d.Buffer("weight", weir.F32, nn.Zeros(), 2)
}

func (twice) Apply(c *nn.Context, x ...*array.Array) []*array.Array { return x }

// TestPositions: an input of 1, 3 or 5 positions gets as many of the table's first rows added, in each example.
func TestPositions(t *testing.T) {
	net := nn.Positions(5, 2)
	s, p := open(t, net)
	w := elements(t, p.Get("weight"))
	for _, n := range []int{1, 3, 5} {
		y, err := nn.Predict(s, net, p, s.Zeros(weir.F32, 2, n, 2))
		if err != nil {
			t.Fatal(err)
		}
		if got := elements(t, y); !slices.Equal(got[:2*n], w[:2*n]) || !slices.Equal(got[2*n:], w[:2*n]) {
			t.Errorf("%d positions: %v of %v", n, got, w)
		}
	}
}

// TestLayersWithoutParameters compares the results of layers without parameters, such as Residual, Parallel, Concat,
// Permute and Upsample, on a 2 × 2 array.
func TestLayersWithoutParameters(t *testing.T) {
	double := nn.Lambda(func(c *nn.Context, x *array.Array) *array.Array { return c.Add(x, x) })
	cases := []struct {
		net  nn.Layer
		want []float32
	}{
		{nn.Residual(double), []float32{3, 6, 9, 12}},
		{nn.Sequential(nn.Parallel(nn.Identity, double), nn.Concat(1)), []float32{1, 2, 2, 4, 3, 4, 6, 8}},
		{nn.Sequential(nn.Parallel(nn.Identity, double, double), nn.Sum()), []float32{5, 10, 15, 20}},
		{nn.Sequential(nn.Flatten(0), double), []float32{2, 4, 6, 8}},
		{nn.Permute(1, 0), []float32{1, 3, 2, 4}},
		{nn.Sequential(nn.Reshape(1, 2), nn.GlobalAvgPool), []float32{1.5, 3.5}},
		{nn.Sequential(nn.Reshape(1, 2), nn.GlobalMaxPool), []float32{2, 4}},
		{nn.Sequential(nn.Reshape(1, 2), nn.Upsample(2)), []float32{1, 1, 2, 2, 3, 3, 4, 4}},
		{nn.Sequential(), []float32{1, 2, 3, 4}},
	}
	for i, c := range cases {
		s, p := open(t, c.net)
		y, err := nn.Predict(s, c.net, p, array.From(s, []float32{1, 2, 3, 4}, 2, 2))
		if err != nil {
			t.Errorf("%d: %v", i, err)
			continue
		}
		if got := elements(t, y); !slices.Equal(got, c.want) {
			t.Errorf("%d: %v, not %v", i, got, c.want)
		}
	}
}

// TestConcurrentApply: 8 goroutines apply one network with one store at the same time, each in a scope of its own,
// without an error.
func TestConcurrentApply(t *testing.T) {
	net := nn.Sequential(nn.Linear(4, 8), nn.Relu, nn.BatchNorm(8), nn.Linear(8, 2))
	_, p := open(t, net)
	done := make(chan error)
	for g := range 8 {
		go func() {
			var err error
			for range 50 {
				s := array.NewScope("reader")
				_, failed := nn.Predict(s, net, p, s.Ones(weir.F32, g+1, 4))
				err = errors.Join(err, failed, s.Close())
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

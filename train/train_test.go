package train_test

import (
	"errors"
	"flag"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

var long = flag.Bool("long", false,
	"the growth test's 100,000 steps, the kill test's 100 kills and each taking that the sweeps refuse, rather than some")

// small is a network, its parameters and learnable data: whether a point lies inside a circle.
type small struct {
	net    nn.Layer
	params *nn.Params
	data   *train.Data
	points []float32
	inside []int32
}

// learnable returns the network with random parameters and data.
func learnable(t testing.TB, options train.DataOptions) *small {
	t.Helper()
	s := &small{net: nn.Sequential(nn.Linear(2, 16), nn.Tanh, nn.Linear(16, 2))}
	seed := uint32(7)
	next := func() float32 {
		seed = seed*1664525 + 1013904223
		return float32(seed>>8)/(1<<23) - 1
	}
	for range 100 {
		x, y := next(), next()
		s.points = append(s.points, x, y)
		in := int32(0)
		if x*x+y*y < 0.5 {
			in = 1
		}
		s.inside = append(s.inside, in)
	}
	s.params = nn.Init(s.net, 3)
	t.Cleanup(func() {
		if err := s.params.Close(); err != nil {
			t.Error(err)
		}
	})
	var err error
	if s.data, err = train.NewData(train.Column(s.points, 2), train.Column(s.inside), options); err != nil {
		t.Fatal(err)
	}
	return s
}

// trainer returns a trainer that is closed when the test ends.
func (s *small) trainer(t testing.TB, o train.Options) *train.Trainer {
	t.Helper()
	tr, err := train.New(s.net, s.params, train.CrossEntropy, train.AdamW(0.01), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// steps makes n steps, over as many epochs as they take, and returns the last metrics.
func steps(t testing.TB, tr *train.Trainer, d *train.Data, n, size int) (last train.Metrics) {
	t.Helper()
	for n > 0 {
		for b := range d.Batches(size) {
			m, err := tr.Step(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			if last = m; n == 1 {
				return last
			}
			n--
		}
		if err := d.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

// bits returns the elements of all parameters.
func bits(t testing.TB, p *nn.Params) (list []byte) {
	t.Helper()
	for _, name := range append(p.Names(), p.Buffers()...) {
		list = append(list, p.Get(name).Tensor().Bytes()...)
	}
	return list
}

// TestLearns trains the network: its loss falls to a quarter, and its accuracy is at least 0.95.
func TestLearns(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{Shuffle: true, Key: 1})
	tr := s.trainer(t, train.Options{})
	first := steps(t, tr, s.data, 1, 32)
	last := steps(t, tr, s.data, 2000, 32)
	if last.Loss > first.Loss/4 || last.Step != 2001 {
		t.Errorf("the first step is %+v, the last %+v", first, last)
	}
	var right train.Accuracy
	var confused train.Confusion
	loss, err := tr.Evaluate(t.Context(), s.data.Batches(32), &right, &confused)
	if err != nil || right.Value() < 0.95 || confused.Value() != right.Value() {
		t.Errorf("evaluated: loss %v, %v, %v, error %v", loss, &right, &confused, err)
	}
	// The certificate is a formula over the batch.
	for _, batch := range []int64{1, 7, 32, 1000} {
		if _, err := tr.Memory().Peak(1, weir.Dims{"batch": batch}); err != nil {
			t.Error(err)
		}
	}
	if !strings.Contains(tr.Certificate(), "batch") {
		t.Errorf("the certificate is %s", tr.Certificate())
	}
}

// TestOptions: with each option, 400 steps reduce the loss to at most half of the first step's.
func TestOptions(t *testing.T) {
	array.AssertNoLeaks(t)
	for name, o := range map[string]train.Options{
		"clipped": {ClipNorm: 0.1, ClipValue: 0.05}, "finite": {Finite: true}, "scaled": {LossScale: 1024},
		"bf16":        {Precision: weir.BF16},
		"bf16 scaled": {Precision: weir.BF16, LossScale: 128}, "threads": {Threads: 1},
		"schedule": {Schedule: train.Warmup(10, train.Cosine(400, 0.1))},
		"decays": {Decays: func(name string) bool {
			return strings.HasSuffix(name, "weight")
		}}, "accumulate": {Accumulate: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := learnable(t, train.DataOptions{Shuffle: true, Key: 1})
			tr := s.trainer(t, o)
			first, last := steps(t, tr, s.data, 1, 50), steps(t, tr, s.data, 400, 50)
			if last.Loss > first.Loss/2 {
				t.Errorf("the first step is %+v, the last %+v", first, last)
			}
		})
	}
}

// TestAccumulated: the accumulated gradients of four batches make the update of one batch that is four times as large.
func TestAccumulated(t *testing.T) {
	array.AssertNoLeaks(t)
	run := func(accumulate, size int) []byte {
		s := learnable(t, train.DataOptions{})
		tr := s.trainer(t, train.Options{Accumulate: accumulate})
		m := steps(t, tr, s.data, 5*100/size, size)
		if m.Step != int64(5*100/size/max(accumulate, 1)) || !m.Updated {
			t.Errorf("accumulating %d: %+v", accumulate, m)
		}
		return bits(t, s.params)
	}
	want, got := floats(run(1, 100)), floats(run(4, 25))
	near(t, "parameters", got, want, 1e-5)
}

// floats decodes little-endian f32 numbers.
func floats(data []byte) []float32 {
	list := make([]float32, len(data)/4)
	for i := range list {
		list[i] = math.Float32frombits(uint32(data[4*i]) | uint32(data[4*i+1])<<8 | uint32(data[4*i+2])<<16 |
			uint32(data[4*i+3])<<24)
	}
	return list
}

// TestLossScale: a scale with which gradients overflow is halved, without an update, until they do not.
func TestLossScale(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	steep := func(s *array.Scope, out, y *array.Array) *array.Array {
		return s.Mul(train.CrossEntropy(s, out, y), s.Number(1e4))
	}
	tr, err := train.New(s.net, s.params, steep, train.AdamW(0.01), train.Options{LossScale: 1e38})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	before := bits(t, s.params)
	skipped := 0
	for range 200 {
		m := steps(t, tr, s.data, 1, 100)
		if m.Updated {
			break
		}
		skipped++
		if !slices.Equal(before, bits(t, s.params)) || m.Step != 0 {
			t.Fatalf("a step that is skipped changed parameters: %+v", m)
		}
	}
	if tr.Steps() != 1 || skipped == 0 {
		t.Errorf("%d steps were skipped, %d made", skipped, tr.Steps())
	}
}

// TestNotFinite: a step with a loss that is NaN returns NotFinite and changes nothing, and the next steps work.
func TestNotFinite(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	for _, o := range []train.Options{{}, {Finite: true}, {Accumulate: 2}} {
		tr := s.trainer(t, o)
		steps(t, tr, s.data, 4, 50)
		before, step := bits(t, s.params), tr.Steps()
		scope := array.NewScope("bad")
		bad := train.Batch{X: array.From(scope, []float32{float32(math.NaN()), 1}, 1, 2), Y: array.From(scope, []int32{1})}
		_, err := tr.Step(t.Context(), bad)
		var stop *train.NotFinite
		if !errors.As(err, &stop) || !errors.Is(err, weir.ErrInput) || stop.Step != step+1 || stop.Loss == stop.Loss {
			t.Errorf("%+v: the error is %v", o, err)
		}
		if !slices.Equal(before, bits(t, s.params)) || tr.Steps() != step {
			t.Errorf("%+v: something changed", o)
		}
		if m := steps(t, tr, s.data, 2, 50); m.Step == step || m.Loss != m.Loss {
			t.Errorf("%+v: after it a step is %+v", o, m)
		}
		if err := errors.Join(scope.Close(), tr.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestSteadyState: from the second step on, steps allocate nothing, with batches of one shape.
func TestSteadyState(t *testing.T) {
	array.AssertNoLeaks(t)
	for _, o := range []train.Options{{}, {ClipNorm: 1}, {Accumulate: 2}} {
		s := learnable(t, train.DataOptions{})
		tr := s.trainer(t, o)
		scope := array.NewScope("batch")
		t.Cleanup(func() { scope.Close() })
		var list []train.Batch
		for range 2 {
			list = append(list, train.Batch{X: array.From(scope, s.points, 100, 2), Y: array.From(scope, s.inside)})
		}
		one := func(b train.Batch) {
			if _, err := tr.Step(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		one(list[0])
		one(list[0])
		ctx := t.Context()
		for _, batches := range [][]train.Batch{list[:1], list} {
			n := 0
			if allocs := testing.AllocsPerRun(100, func() {
				tr.Step(ctx, batches[n%len(batches)])
				n++
			}); allocs != 0 {
				t.Errorf("%+v, %d batches in turn: %v allocations a step", o, len(batches), allocs)
			}
		}
	}
}

// TestGrowth: 2,000 steps, or 100,000 with -long, leave no byte outside Go's heap and at most 300 objects in it.
func TestGrowth(t *testing.T) {
	array.AssertNoLeaks(t)
	n := 2000
	if *long {
		n = 100_000
	}
	s := learnable(t, train.DataOptions{Shuffle: true, Key: 1, Prefetch: 1})
	tr := s.trainer(t, train.Options{Threads: 1})
	steps(t, tr, s.data, 1000, 30) // ragged: the last batch of an epoch has ten
	before, objects := mem.Usage(), objects()
	begin := time.Now()
	steps(t, tr, s.data, n, 30)
	each := time.Since(begin) / time.Duration(n)
	if now := mem.Usage(); now.All != before.All || now.Blocks != before.Blocks {
		t.Errorf("%d bytes in %d blocks became %d in %d", before.All, before.Blocks, now.All, now.Blocks)
	}
	grown := heap() - objects
	if grown > 300 {
		t.Errorf("%d steps left %d objects", n, grown)
	}
	t.Logf("%d steps of %v: %d objects more", n, each, grown)
}

func objects() int64 { return heap() }

// heap returns the number of objects in Go's heap after a garbage collection.
func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapObjects)
}

// TestMisuse: batches that do not fit are errors that name the problem and change nothing, and the next step works.
// Methods of a closed trainer return ErrClosed.
func TestMisuse(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	tr := s.trainer(t, train.Options{})
	scope := array.NewScope("batch")
	x, y := array.From(scope, s.points, 100, 2), array.From(scope, s.inside)
	good := train.Batch{X: x, Y: y}
	if _, err := tr.Step(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	closed := array.From(scope, s.points, 100, 2)
	closed.Close()
	before := bits(t, s.params)
	for name, test := range map[string]struct {
		batch train.Batch
		says  string
	}{
		"features":   {train.Batch{X: array.From(scope, s.points, 50, 4), Y: y}, "f32[50,4]"},
		"type":       {train.Batch{X: scope.Cast(x, weir.F64), Y: y}, "f64[100,2]"},
		"ids":        {train.Batch{X: x, Y: scope.Cast(y, weir.F32)}, "f32[100]"},
		"rank":       {train.Batch{X: array.From(scope, s.points), Y: y}, "f32[200]"},
		"examples":   {train.Batch{X: x, Y: array.From(scope, s.inside[:99])}, "batch is 100 in x and 99 in y"},
		"no target":  {train.Batch{X: x}, "a batch of 1 arrays is given"},
		"nothing":    {train.Batch{}, "a batch of 1 arrays is given"},
		"one more":   {train.Batch{X: x, Y: y, More: []*array.Array{x}}, "a batch of 3 arrays"},
		"closed":     {train.Batch{X: closed, Y: y}, "closed"},
		"nil inside": {train.Batch{X: nil, Y: y}, "nil"},
	} {
		_, err := tr.Step(t.Context(), test.batch)
		var e *weir.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if !slices.Equal(before, bits(t, s.params)) || tr.Steps() != 1 {
		t.Error("a batch that does not fit changed something")
	}
	if err := s.params.Close(); err == nil {
		t.Error("parameters that are being trained were closed")
	}
	if _, err := tr.Step(t.Context(), good); err != nil {
		t.Error(err)
	}
	if err := errors.Join(tr.Close(), tr.Close(), scope.Close()); err != nil {
		t.Error(err)
	}
	if _, err := tr.Step(t.Context(), good); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("a step of a closed trainer: %v", err)
	}
	if err := tr.Save(t.TempDir()); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("saving a closed trainer: %v", err)
	}
}

// TestSettings: invalid settings, and networks that cannot be trained, are errors of New.
func TestSettings(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	for says, f := range map[string]func() (*train.Trainer, error){
		"Lion has no momentum": func() (*train.Trainer, error) {
			return train.New(s.net, s.params, train.CrossEntropy, train.Lion(1, train.Momentum(1)), train.Options{})
		},
		"a setting of SGD is -1": func() (*train.Trainer, error) {
			return train.New(s.net, s.params, train.CrossEntropy, train.SGD(-1), train.Options{})
		},
		"the precision": func() (*train.Trainer, error) {
			return train.New(s.net, s.params, train.CrossEntropy, train.SGD(1), train.Options{Precision: weir.I8})
		},
		"are needed": func() (*train.Trainer, error) {
			return train.New(s.net, s.params, nil, train.SGD(1), train.Options{})
		},
		"less than 0": func() (*train.Trainer, error) {
			return train.New(s.net, s.params, train.CrossEntropy, train.SGD(1), train.Options{ClipNorm: math.NaN()})
		},
		"1000 bytes are allowed": func() (*train.Trainer, error) {
			return train.New(s.net, s.params, train.CrossEntropy, train.SGD(1), train.Options{Budget: 1000,
				Inputs: []array.Spec{array.SpecOf("x", weir.F32, 100, 2), array.SpecOf("y", weir.I32, 100)}})
		},
		"class ids are integers": func() (*train.Trainer, error) {
			return train.New(s.net, s.params, train.CrossEntropy, train.SGD(1), train.Options{
				Inputs: []array.Spec{array.SpecOf("x", weir.F32, 100, 2), array.SpecOf("y", weir.I32, 100, 3)}})
		},
	} {
		tr, err := f()
		var e *weir.Error
		if !errors.As(err, &e) || tr != nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if err := s.params.Freeze("*"); err != nil {
		t.Fatal(err)
	}
	if _, err := train.New(s.net, s.params, train.CrossEntropy, train.SGD(1), train.Options{}); err == nil {
		t.Error("a network whose parameters are all frozen is trained")
	}
}

// TestFrozen: frozen parameters keep their elements.
func TestFrozen(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	if err := s.params.Freeze("0.*"); err != nil {
		t.Fatal(err)
	}
	before, _ := array.Copy[float32](s.params.Get("0.weight"))
	last, _ := array.Copy[float32](s.params.Get("2.weight"))
	steps(t, s.trainer(t, train.Options{}), s.data, 3, 50)
	after, _ := array.Copy[float32](s.params.Get("0.weight"))
	now, _ := array.Copy[float32](s.params.Get("2.weight"))
	if !slices.Equal(before, after) || slices.Equal(last, now) {
		t.Error("the frozen layer changed, or the other did not")
	}
}

// TestConcurrentSteps: steps of two goroutines at once are refused, not mixed.
func TestConcurrentSteps(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	tr := s.trainer(t, train.Options{})
	scope := array.NewScope("batch")
	defer scope.Close()
	b := train.Batch{X: array.From(scope, s.points, 100, 2), Y: array.From(scope, s.inside)}
	var wait sync.WaitGroup
	var lock sync.Mutex
	made, refused := int64(0), 0
	for range 4 {
		wait.Go(func() {
			for range 200 {
				_, err := tr.Step(t.Context(), b)
				lock.Lock()
				if err == nil {
					made++
				} else if refused++; !strings.Contains(err.Error(), "another goroutine") {
					t.Error(err)
				}
				lock.Unlock()
			}
		})
	}
	wait.Wait()
	if tr.Steps() != made || made == 0 {
		t.Errorf("%d steps were made, the trainer counts %d; %d were refused", made, tr.Steps(), refused)
	}
}

// TestCancelled: a step whose context has ended leaves the parameters intact, or names those that are torn.
func TestCancelled(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	tr := s.trainer(t, train.Options{})
	steps(t, tr, s.data, 1, 50)
	before := bits(t, s.params)
	ctx, cancel := contextWithCancel(t)
	cancel()
	for b := range s.data.Batches(50) {
		_, err := tr.Step(ctx, b)
		var torn *train.Torn
		if err == nil || !errors.As(err, &torn) && !slices.Equal(before, bits(t, s.params)) {
			t.Errorf("cancelled: %v", err)
		}
		break
	}
}

// TestMain runs the tests, or trainUntilKilled in the process that TestKilled starts.
func TestMain(m *testing.M) {
	if dir := os.Getenv("WEIR_TEST_KILLED"); dir != "" {
		trainUntilKilled(dir)
		return
	}
	os.Exit(m.Run())
}

package train_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// waves returns n numbers between −1 and 1.
func waves(n int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(math.Sin(float64(i)*1.7 + 1))
	}
	return list
}

// trainerOf makes a trainer of a network by SGD; the trainer and its parameters are closed when the test ends.
func trainerOf(t *testing.T, net nn.Layer, loss train.Loss, o train.Options) (*train.Trainer, *nn.Params) {
	t.Helper()
	p := nn.Init(net, 1)
	tr, err := train.New(net, p, loss, train.SGD(0.1), o)
	if err != nil {
		p.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(tr.Close(), p.Close()); err != nil {
			t.Error(err)
		}
	})
	return tr, p
}

// only returns an iterator over one batch.
func only(b train.Batch) func(func(train.Batch) bool) {
	return func(yield func(train.Batch) bool) { yield(b) }
}

// TestLabels: a class id out of range is an error that names it, in training and in evaluation, and changes nothing;
// the ignored id is allowed in every type.
func TestLabels(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("batch")
	defer s.Close()
	x := array.From(s, waves(8), 2, 4)
	plain := train.CrossEntropyOptions{}
	full := train.CrossEntropyOptions{Smoothing: 0.1, Weights: []float32{1, 2, 3}, HasIgnore: true, Ignore: -1}
	for _, test := range []struct {
		name string
		o    train.CrossEntropyOptions
		y    *array.Array
		says string // "": fine
	}{
		{"i64", plain, array.From(s, []int64{0, 2}), ""},
		{"below", plain, array.From(s, []int64{0, -1}), "an index is -1, outside [0, 2]"},
		{"far below", plain, array.From(s, []int64{0, -3}), "an index is -3, outside [0, 2]"},
		{"above", plain, array.From(s, []int32{3, 0}), "an index is 3, outside [0, 2]"},
		{"u8", plain, array.From(s, []uint8{255, 0}), "an index is 255, outside [0, 2]"},
		{"u64", plain, array.From(s, []uint64{1 << 63, 0}), "an index is"},
		{"ignored", full, array.From(s, []int64{-1, 2}), ""},
		{"beside the ignored", full, array.From(s, []int64{-1, -2}), "an index is -2, outside [0, 2]"},
		{"above with settings", full, array.From(s, []int16{-1, 3}), "an index is 3, outside [0, 2]"},
		{"an ignored id that u8 does not have", full, array.From(s, []uint8{255, 0}), "an index is 255, outside [0, 2]"},
		{"none", plain, nil, "no array"},
		{"bools", plain, array.From(s, []bool{true, false}), "integers"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr, p := trainerOf(t, nn.Linear(4, 3), train.CrossEntropyOf(test.o), train.Options{})
			before, b := bits(t, p), train.Batch{X: x, Y: test.y}
			_, evaluated := tr.Evaluate(t.Context(), only(b))
			_, stepped := tr.Step(t.Context(), b)
			if test.says == "" {
				if err := errors.Join(evaluated, stepped); err != nil {
					t.Fatal(err)
				}
				return
			}
			refuses(t, "step", stepped, test.says)
			refuses(t, "evaluate", evaluated, test.says)
			if tr.Steps() != 0 || !slices.Equal(before, bits(t, p)) {
				t.Error("the step changed something")
			}
		})
	}
}

// TestNamedClasses: losses are the same for a fixed and a named number of classes.
func TestNamedClasses(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("batch")
	defer s.Close()
	x := array.From(s, waves(8), 2, 4)
	shares := array.From(s, []float32{0.25, 0.25, 0.25, 0.25, 0, 1, 0, 0}, 2, 4)
	ids := array.From(s, []int64{3, 1})
	smooth := train.CrossEntropyOf(train.CrossEntropyOptions{Smoothing: 0.2})
	for name, test := range map[string]struct {
		net  nn.Layer
		loss train.Loss
		y    *array.Array
	}{
		"KL":                     {nn.Sequential(nn.PRelu(1), nn.LogSoftmax(-1)), train.KL, shares},
		"ids":                    {nn.PRelu(1), train.CrossEntropy, ids},
		"smoothed ids":           {nn.PRelu(1), smooth, ids},
		"NLL":                    {nn.Sequential(nn.PRelu(1), nn.LogSoftmax(-1)), train.NLL, ids},
		"smoothed distributions": {nn.PRelu(1), smooth, shares},
	} {
		t.Run(name, func(t *testing.T) {
			fixed, _ := trainerOf(t, test.net, test.loss, train.Options{})
			specs := []array.Spec{array.SpecOf("x", weir.F32, "batch", "classes"),
				array.SpecOf("y", test.y.DType(), "batch", "classes")}
			specs[1].Shape = specs[1].Shape[:test.y.Rank()]
			named, _ := trainerOf(t, test.net, test.loss, train.Options{Inputs: specs})
			b := train.Batch{X: x, Y: test.y}
			want, err := fixed.Step(t.Context(), b)
			got, other := named.Step(t.Context(), b)
			if err := errors.Join(err, other); err != nil {
				t.Fatal(err)
			}
			if !(math.Abs(got.Loss-want.Loss) < 1e-6) {
				t.Errorf("the loss is %v, with a number for the classes %v", got.Loss, want.Loss)
			}
		})
	}
}

// TestEdgeLosses: the derivatives of losses, at outputs where the formula has a kink or is infinite, equal PyTorch's.
func TestEdgeLosses(t *testing.T) {
	array.AssertNoLeaks(t)
	for _, test := range []struct {
		name    string
		loss    train.Loss
		x, y, d []float32
	}{
		{"BCE", train.BCE, []float32{0, 1, 0, 1, 0.5, 1e-30}, []float32{0, 1, 1, 0, 1, 0},
			[]float32{0, 0, -1e12 / 6, 1e12 / 6, -2. / 6, 1e-18 / 6}},
		{"BCE with logits", train.BCEWithLogits, []float32{0, 0, 1e4, -1e4}, []float32{0, 1, 1, 0.5},
			[]float32{0.125, -0.125, 0, -0.125}},
		{"hinge", train.Hinge(1), []float32{1, 0, 2}, []float32{1, 1, 1}, []float32{0, -1. / 3, 0}},
		{"huber", train.Huber(1), []float32{0, 1, 2, -3}, []float32{0, 0, 0, 0}, []float32{0, 0.25, 0.25, -0.25}},
		{"L1", train.L1, []float32{1, 2}, []float32{1, 1}, []float32{0, 0.5}},
	} {
		s := array.NewScope(test.name)
		c, err := array.Jit(array.Grad(func(s *array.Scope, in ...*array.Array) []*array.Array {
			return []*array.Array{test.loss(s, in[0], in[1])}
		}), array.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := array.Copy[float32](c.Call(s, array.From(s, test.x), array.From(s, test.y))[0])
		if err := errors.Join(err, s.Close(), c.Close()); err != nil {
			t.Fatal(err)
		}
		for i, want := range test.d {
			if !(math.Abs(float64(got[i]-want)) <= 1e-5*math.Max(1, math.Abs(float64(want)))) {
				t.Errorf("%s at %v by %v: the derivative is %v, not %v", test.name, test.x[i], test.y[i], got[i], want)
			}
		}
	}
}

// TestWideTargets: targets of f64 give the same losses as targets of f32. A loss of integers is an error.
func TestWideTargets(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("batch")
	defer s.Close()
	x := array.From(s, waves(8), 2, 4)
	y := array.From(s, []float32{0.5, 0.25, 0.25, 0, 0, 1}, 2, 3)
	sum := func(s *array.Scope, out, y *array.Array) *array.Array { return s.Sum(s.Mul(out, y)) }
	for name, loss := range map[string]train.Loss{"cross entropy": train.CrossEntropy, "cosine": train.CosineDistance,
		"MSE": train.MSE, "one's own": sum} {
		var losses []float64
		for _, target := range []*array.Array{y, s.Cast(y, weir.F64)} {
			tr, _ := trainerOf(t, nn.Linear(4, 3), loss, train.Options{})
			b := train.Batch{X: x, Y: target}
			value, err := tr.Evaluate(t.Context(), only(b))
			m, other := tr.Step(t.Context(), b)
			if err := errors.Join(err, other); err != nil {
				t.Fatalf("%s by %v: %v", name, target, err)
			}
			losses = append(losses, value, m.Loss)
		}
		if slices.Max(losses)-slices.Min(losses) > 1e-6 {
			t.Errorf("%s: %v", name, losses)
		}
	}
	integer := func(s *array.Scope, out, y *array.Array) *array.Array { return s.Sum(s.Cast(out, weir.I64)) }
	tr, _ := trainerOf(t, nn.Linear(4, 3), integer, train.Options{})
	_, err := tr.Step(t.Context(), train.Batch{X: x})
	refuses(t, "a loss of integers", err, "it is a float")
}

// TestSingleExample: with every option, a step on one example, of which BatchNorm has no variance, returns NotFinite
// with Buffers, and the other steps give the same bits as without it.
func TestSingleExample(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("batch")
	defer s.Close()
	one := train.Batch{X: array.From(s, waves(4), 1, 4), Y: array.From(s, waves(3), 1, 3)}
	two := train.Batch{X: array.From(s, waves(8), 2, 4), Y: array.From(s, waves(6), 2, 3)}
	for name, o := range map[string]train.Options{"plain": {}, "scaled": {LossScale: 16}, "clipped": {ClipNorm: 1},
		"accumulated":            {Accumulate: 2},
		"accumulated and scaled": {Accumulate: 2, LossScale: 16}} {
		t.Run(name, func(t *testing.T) {
			net := nn.Sequential(nn.Linear(4, 3), nn.BatchNorm(3))
			tr, p := trainerOf(t, net, train.MSE, o)
			other, q := trainerOf(t, net, train.MSE, o)
			for i := range 6 {
				_, err := tr.Step(t.Context(), one)
				var e *train.NotFinite
				if refuse := errors.As(err, &e); !refuse || !e.Buffers || e.Gradients || !errors.Is(err, weir.ErrInput) {
					t.Fatalf("step %d: %v", i, err)
				}
				_, err = tr.Step(t.Context(), two)
				_, beside := other.Step(t.Context(), two)
				if err := errors.Join(err, beside); err != nil {
					t.Fatal(err)
				}
			}
			if tr.Steps() == 0 || !slices.Equal(bits(t, p), bits(t, q)) {
				t.Error("what was refused left something behind")
			}
		})
	}
}

// TestRefusedBetween: a batch whose loss or gradients are not finite, among batches whose gradients are accumulated, is
// refused by itself, and the others give the same as without it. With LossScale, gradients that are not finite skip the
// update.
func TestRefusedBetween(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("batch")
	defer s.Close()
	y := array.From(s, waves(6), 2, 3)
	good := train.Batch{X: array.From(s, waves(8), 2, 4), Y: y}
	// The root has no derivative at 0, where the loss is 0 itself.
	root := func(s *array.Scope, out, y *array.Array) *array.Array { return s.Mean(s.Sqrt(s.Abs(s.Mul(out, y)))) }
	bad := map[string]train.Batch{
		"loss":      {X: s.Full(math.NaN(), weir.F32, 2, 4), Y: y},
		"gradients": {X: s.Zeros(weir.F32, 2, 4), Y: y},
	}
	for name, o := range map[string]train.Options{"plain": {}, "finite": {Finite: true}, "clipped": {ClipNorm: 0.2},
		"scaled": {LossScale: 16}} {
		for what, b := range bad {
			if what == "gradients" && (name == "plain" || name == "scaled") {
				continue // without options, gradients are not checked; with LossScale they skip the update, see below
			}
			for at := range 3 {
				t.Run(fmt.Sprintf("%s, %s of batch %d", name, what, at), func(t *testing.T) {
					o.Accumulate = 3
					tr, p := trainerOf(t, nn.Linear(4, 3, nn.NoBias), root, o)
					other, q := trainerOf(t, nn.Linear(4, 3, nn.NoBias), root, o)
					for i := range 3 {
						if i == at {
							_, err := tr.Step(t.Context(), b)
							var e *train.NotFinite
							if !errors.As(err, &e) || e.Gradients != (what == "gradients") {
								t.Fatal(err)
							}
						}
						m, err := tr.Step(t.Context(), good)
						want, beside := other.Step(t.Context(), good)
						if err := errors.Join(err, beside); err != nil || m != want {
							t.Fatalf("%v, without the bad batch %v: %v", m, want, err)
						}
					}
					if tr.Steps() != 1 || !slices.Equal(bits(t, p), bits(t, q)) {
						t.Error("the bad batch left something behind")
					}
				})
			}
		}
	}
	// With LossScale the accumulated gradients are dropped, and the following batches make an update of their own.
	tr, p := trainerOf(t, nn.Linear(4, 3, nn.NoBias), root, train.Options{Accumulate: 2, LossScale: 16})
	other, q := trainerOf(t, nn.Linear(4, 3, nn.NoBias), root, train.Options{Accumulate: 2, LossScale: 16})
	for i, b := range []train.Batch{bad["gradients"], good, bad["gradients"], good, good} {
		m, err := tr.Step(t.Context(), b)
		if err != nil || m.Updated != (i == 4) {
			t.Fatalf("batch %d: %v, %v", i, m, err)
		}
	}
	steps := 0
	for range 2 {
		m, err := other.Step(t.Context(), good)
		if err != nil {
			t.Fatal(err)
		}
		steps += int(m.Step)
	}
	if steps != 1 || tr.Steps() != 1 || !slices.Equal(bits(t, p), bits(t, q)) {
		t.Error("what was skipped left something behind")
	}
}

// TestRestoredSettings: a checkpoint can be restored with another LossScale. With another Accumulate it can be restored
// only if it contains no accumulated gradients.
func TestRestoredSettings(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("batch")
	defer s.Close()
	b := train.Batch{X: array.From(s, waves(8), 2, 4), Y: array.From(s, waves(6), 2, 3)}
	for _, test := range []struct {
		name          string
		before, after train.Options
		steps         int
		says          string
	}{
		{"a scale that was none", train.Options{}, train.Options{LossScale: 16}, 1, ""},
		{"a scale that is none", train.Options{LossScale: 16}, train.Options{}, 1, ""},
		{"gradients for a mean of others", train.Options{Accumulate: 4}, train.Options{Accumulate: 8}, 2, "for a mean of 4"},
		{"no gradients for a mean of others", train.Options{Accumulate: 2}, train.Options{Accumulate: 4}, 2, ""},
		{"gradients for the same mean", train.Options{Accumulate: 4}, train.Options{Accumulate: 4}, 2, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			tr, _ := trainerOf(t, nn.Linear(4, 3), train.MSE, test.before)
			for range test.steps {
				if _, err := tr.Step(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			if err := tr.Save(dir); err != nil {
				t.Fatal(err)
			}
			other, _ := trainerOf(t, nn.Linear(4, 3), train.MSE, test.after)
			err := other.Restore(dir)
			if test.says != "" {
				refuses(t, "restore", err, test.says)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 8 {
				if _, err := other.Step(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			if other.Steps() < 2 {
				t.Errorf("%d updates", other.Steps())
			}
		})
	}
}

// TestDroppedLast: with DropLast, loops over data end: a batch size beyond the number of examples is an error of Fit
// and Evaluate, and the rest of an epoch that is smaller than a batch yields no batch.
func TestDroppedLast(t *testing.T) {
	array.AssertNoLeaks(t)
	data, err := train.NewData(train.Column(waves(40), 4), train.Field{}, train.DataOptions{DropLast: true})
	if err != nil {
		t.Fatal(err)
	}
	square := func(s *array.Scope, out, y *array.Array) *array.Array { return s.Mean(s.Square(out)) }
	tr, _ := trainerOf(t, nn.Linear(4, 3), square, train.Options{})
	done := make(chan error, 1)
	go func() {
		_, err := tr.Fit(t.Context(), data, train.FitOptions{Epochs: 2, BatchSize: 20})
		done <- err
	}()
	select {
	case err = <-done:
		refuses(t, "fit", err, "batches of 20 of 10 examples")
	case <-time.After(time.Minute):
		t.Fatal("Fit does not end")
	}
	_, err = tr.Evaluate(t.Context(), data.Batches(20))
	refuses(t, "evaluate", err, "no example")
	for range data.Batches(4) {
		break
	}
	var counts []int
	for range 3 {
		n := 0
		for range data.Batches(8) {
			n++
		}
		counts = append(counts, n)
	}
	if !slices.Equal(counts, []int{0, 1, 1}) || data.Epoch() != 3 || data.Err() != nil {
		t.Errorf("batches %v, %d epochs are over, %v", counts, data.Epoch(), data.Err())
	}
}

// TestHostileFields: impossible shapes of examples, and files that do not contain the declared examples, are errors.
func TestHostileFields(t *testing.T) {
	array.AssertNoLeaks(t)
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	for _, shape := range [][]int{{-1}, {0}, {-1, -1}, {-2, -2}, {1 << 20, 1 << 20, 1 << 20, 1 << 20},
		{3, 6148914691236517206 & math.MaxInt}} {
		_, err := train.NewData(train.Column(waves(40), shape...), train.Field{}, train.DataOptions{})
		refuses(t, fmt.Sprint("a column of ", shape), err)
		_, err = train.Records(f, 0, 0, weir.F32, shape...)
		refuses(t, fmt.Sprint("records of ", shape), err)
	}
	for _, place := range [][2]int{{-8, 0}, {0, -4}, {0, math.MinInt}} {
		_, err := train.Records(f, int64(place[0]), place[1], weir.F32, 4)
		refuses(t, fmt.Sprint("records at ", place), err)
	}
	_, err = train.Records(nil, 0, 0, weir.F32, 4)
	refuses(t, "records of no file", err)
	// Three elements of four bits do not fill their bytes: the second example begins within a byte.
	s := array.NewScope("rows")
	defer s.Close()
	for extent, says := range map[int]string{3: "no whole bytes", 4: ""} {
		rows, err := train.Rows(s.Zeros(weir.I4, 3, extent))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = train.NewData(rows, train.Field{}, train.DataOptions{}); says != "" {
			refuses(t, "rows of i4", err, says)
		} else if err != nil {
			t.Error(err)
		}
	}
}

// TestMeasureNaN: a measure that is NaN is not the best of EarlyStopping and Plateau, and does not hide a better one. A
// NaN of weight 0 has no effect on a Mean.
func TestMeasureNaN(t *testing.T) {
	array.AssertNoLeaks(t)
	e := &train.EarlyStopping{Patience: 1}
	tr, _ := trainerOf(t, nn.Linear(4, 3), train.MSE, train.Options{})
	p := &train.Plateau{Factor: 0.5, Patience: 1}
	for i, x := range []float64{math.NaN(), 3, 2, 1} {
		if e.Observe(x) || p.Observe(tr, x) {
			t.Errorf("measure %d ends training, or lowers the rate", i)
		}
	}
	if e.Best() != 1 || tr.Factor() != 1 {
		t.Errorf("the best is %v, the factor %v", e.Best(), tr.Factor())
	}
	if nan := math.NaN(); e.Observe(nan) || !e.Observe(nan) || p.Observe(tr, nan) || !p.Observe(tr, nan) {
		t.Error("a measure that is no number counts as one that falls")
	}
	var m train.Mean
	m.Add(math.NaN(), 0)
	m.Add(2, 1)
	if m.Value() != 2 {
		t.Errorf("a value of no weight makes the mean %v", m.Value())
	}
	_, err := tr.Evaluate(t.Context(), nil)
	refuses(t, "no batches", err, "no batches")
}

// TestPredictNamed: predictions use the named extents of Options.Inputs, also if the loss reads no target.
func TestPredictNamed(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("batch")
	defer s.Close()
	square := func(s *array.Scope, out, y *array.Array) *array.Array { return s.Mean(s.Square(out)) }
	x := array.SpecOf("x", weir.F32, "batch", "steps", 4)
	tr, _ := trainerOf(t, nn.Linear(4, 3), square, train.Options{Inputs: []array.Spec{x}})
	for _, steps := range []int{3, 2, 5} {
		y, err := tr.Predict(t.Context(), array.From(s, waves(8*steps), 2, steps, 4))
		if err != nil || y.Shape()[1] != steps {
			t.Errorf("%d steps: %v, %v", steps, y, err)
		}
	}
	p := nn.Init(nn.Linear(4, 3), 1)
	defer p.Close()
	_, err := train.New(nn.Linear(4, 3), p, train.MSE, train.SGD(0.1),
		train.Options{Inputs: []array.Spec{x, array.SpecOf("target", weir.F32, "batch", "steps", 3)}})
	refuses(t, "a target of another name", err, "its name is y")
}

// TestIDsOutOfRange: an id without a row in a table is an error of the step that names it, also a negative one, and
// changes nothing.
func TestIDsOutOfRange(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("batch")
	defer s.Close()
	y := array.From(s, waves(6), 2, 3)
	for name, o := range map[string]train.Options{"plain": {}, "lazy": {Lazy: []string{"weight"}}} {
		tr, p := trainerOf(t, nn.Embedding(5, 3), train.MSE, o)
		for _, test := range []struct {
			ids  *array.Array
			says string
		}{
			{array.From(s, []int64{4, 0}), ""}, {array.From(s, []uint8{4, 4}), ""}, {array.From(s, []int64{5, 0}), "5"},
			{array.From(s, []int64{0, -1}), "-1"},
			{array.From(s, []int32{-5, 0}), "-5"}, {array.From(s, []int16{-6, 0}), "-6"},
			{array.From(s, []int64{1 << 40, 0}), "1099511627776"},
		} {
			each, store := tr, p
			if test.ids.DType() != weir.I64 {
				each, store = trainerOf(t, nn.Embedding(5, 3), train.MSE, o)
			}
			before, steps := bits(t, store), each.Steps()
			_, err := each.Step(t.Context(), train.Batch{X: test.ids, Y: y})
			if test.says == "" {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if refuses(t, name, err, "an index is "+test.says+", outside [0, 4]"); each.Steps() != steps ||
				!slices.Equal(before, bits(t, store)) {
				t.Errorf("%s, %s: something changed", name, test.says)
			}
		}
	}
}

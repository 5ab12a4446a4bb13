package train_test

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir/array"
	"github.com/weirml/weir/train"
)

// TestFit: epochs, evaluation, logs and checkpoints; a resumed Fit makes the remaining epochs, with the same bits.
func TestFit(t *testing.T) {
	array.AssertNoLeaks(t)
	shuffled := train.DataOptions{Shuffle: true, Key: 4, Prefetch: 2}
	s, dir := learnable(t, shuffled), t.TempDir()
	tr := s.trainer(t, train.Options{})
	var lines strings.Builder
	events, err := train.NewTensorBoard(filepath.Join(dir, "events"))
	if err != nil {
		t.Fatal(err)
	}
	check, err := train.NewData(train.Column(s.points, 2), train.Column(s.inside), train.DataOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := train.FitOptions{Epochs: 30, BatchSize: 32, Validation: check, Metrics: func() []train.Metric {
		return []train.Metric{&train.Accuracy{}}
	},
		Folder: filepath.Join(dir, "last"), Best: filepath.Join(dir, "best"), Logs: []train.Log{train.NewCSV(&lines), events},
		Progress: &lines}
	h, err := tr.Fit(t.Context(), s.data, o)
	if err = errors.Join(err, events.Close()); err != nil {
		t.Fatal(err)
	}
	if len(h.Epochs) != 30 || h.Stopped || h.Epochs[29].Validation >= h.Epochs[0].Validation ||
		h.Epochs[29].Metrics[0].Value() < 0.6 || tr.Steps() != 120 {
		t.Errorf("fitted: %+v", h)
	}
	if rows := strings.Split(strings.TrimSpace(lines.String()), "\n"); len(rows) != 1+2*120+30 ||
		rows[0] != "step,name,value" || !strings.HasPrefix(rows[1], "1,loss,0.") {
		t.Errorf("%d rows of %.80s", len(rows), lines.String())
	}
	if n := records(t, filepath.Join(dir, "events")); n != 1+120+30 {
		t.Errorf("%d events", n)
	}
	again := learnable(t, shuffled)
	half := again.trainer(t, train.Options{})
	o.Epochs, o.Logs, o.Folder, o.Best = 11, nil, filepath.Join(dir, "half"), ""
	if _, err := half.Fit(t.Context(), again.data, o); err != nil {
		t.Fatal(err)
	}
	half.Close()
	third := learnable(t, shuffled)
	rest, err := train.Resume(o.Folder, third.net, third.params, train.CrossEntropy, train.AdamW(0.01), train.Options{},
		third.data)
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close()
	o.Epochs = 30
	if h, err := rest.Fit(t.Context(), third.data, o); err != nil || len(h.Epochs) != 19 {
		t.Errorf("resumed: %+v, %v", h, err)
	}
	if string(bits(t, third.params)) != string(bits(t, s.params)) {
		t.Error("resumed, parameters differ")
	}
}

// records returns the number of records in the folder's event file, whose checksums must be right.
func records(t *testing.T, dir string) (n int) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	data, err := os.ReadFile(list[0])
	if err != nil {
		t.Fatal(err)
	}
	masked := func(b []byte) uint32 {
		sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
		return (sum>>15 | sum<<17) + 0xa282ead8
	}
	for ; len(data) > 0; n++ {
		size := binary.LittleEndian.Uint64(data)
		if binary.LittleEndian.Uint32(data[8:]) != masked(data[:8]) ||
			binary.LittleEndian.Uint32(data[12+size:]) != masked(data[12:12+size]) {
			t.Fatalf("record %d: a checksum is wrong", n)
		}
		if n == 0 && !strings.Contains(string(data[12:12+size]), "brain.Event:2") {
			t.Error("the first record is not the version's")
		}
		data = data[16+size:]
	}
	return n
}

// TestStopsEarly: with a rate of 0, so that the loss stays, Fit ends after 8 epochs by EarlyStopping, and Plateau
// lowers the rate to its bound. A cancelled context and options without epochs are errors.
func TestStopsEarly(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	tr, err := train.New(s.net, s.params, train.CrossEntropy, train.SGD(0), train.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	plateau := &train.Plateau{Factor: 0.5, Patience: 1, Least: 0.2}
	h, err := tr.Fit(t.Context(), s.data, train.FitOptions{Epochs: 100, BatchSize: 100,
		Stop: &train.EarlyStopping{Patience: 6}, Plateau: plateau})
	if err != nil || !h.Stopped || len(h.Epochs) != 8 || tr.Factor() != 0.2 {
		t.Errorf("%d epochs, stopped %v, factor %v, error %v", len(h.Epochs), h.Stopped, tr.Factor(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.Fit(ctx, s.data, train.FitOptions{Epochs: 200, BatchSize: 10}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := tr.Fit(ctx, s.data, train.FitOptions{}); err == nil {
		t.Error("no epochs are no error")
	}
}

// TestFitResumes: a Fit that is resumed from a checkpoint stops and lowers the rate at the same epoch as an
// uninterrupted one, and keeps the best loss. Data that begin again are watched from the beginning.
func TestFitResumes(t *testing.T) {
	array.AssertNoLeaks(t)
	dir := t.TempDir()
	o := func(epochs int) train.FitOptions {
		return train.FitOptions{Epochs: epochs, BatchSize: 100, Folder: filepath.Join(dir, "last"),
			Best: filepath.Join(dir, "best"),
			Stop: &train.EarlyStopping{Patience: 6}, Plateau: &train.Plateau{Factor: 0.5, Patience: 1, Least: 0.2}}
	}
	best := func() string {
		data, err := os.ReadFile(filepath.Join(dir, "best", "checkpoint.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	s := learnable(t, train.DataOptions{})
	tr, err := train.New(s.net, s.params, train.CrossEntropy, train.SGD(0), train.Options{}) // the loss stays
	if err != nil {
		t.Fatal(err)
	}
	if h, err := tr.Fit(t.Context(), s.data, o(4)); err != nil || h.Stopped || len(h.Epochs) != 4 {
		t.Fatalf("%+v, %v", h, err)
	}
	tr.Close()
	first := best()
	again := learnable(t, train.DataOptions{})
	rest, err := train.Resume(filepath.Join(dir, "last"), again.net, again.params, train.CrossEntropy, train.SGD(0),
		train.Options{}, again.data)
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close()
	if h, err := rest.Fit(t.Context(), again.data, o(100)); err != nil || !h.Stopped || len(h.Epochs) != 4 ||
		rest.Factor() != 0.2 {
		t.Errorf("resumed: %d epochs, stopped %v, factor %v, %v", len(h.Epochs), h.Stopped, rest.Factor(), err)
	}
	if best() != first {
		t.Error("a loss that is not less was saved as the best")
	}
	fresh, err := train.NewData(train.Column(again.points, 2), train.Column(again.inside), train.DataOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := rest.Fit(t.Context(), fresh, o(2)); err != nil || h.Stopped || best() == first {
		t.Errorf("other data: %+v, %v, and the best is as before: %v", h, err, best() == first)
	}
}

// TestCheckpointsNotFinite: checkpoints keep measures that are infinite or NaN.
func TestCheckpointsNotFinite(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	tr := s.trainer(t, train.Options{})
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		dir := t.TempDir()
		stop := &train.EarlyStopping{Patience: 3}
		stop.Observe(x)
		if _, err := tr.Fit(t.Context(), s.data, train.FitOptions{Epochs: int(s.data.Epoch()) + 1, BatchSize: 50, Folder: dir,
			Stop: stop}); err != nil {
			t.Fatal(err)
		}
		if err := tr.Restore(dir, s.data); err != nil {
			t.Errorf("after %v: %v", x, err)
		}
	}
}

// TestBreak: a loop over batches that breaks leaves neither memory nor a goroutine, and the next loop continues at that
// position.
func TestBreak(t *testing.T) {
	array.AssertNoLeaks(t)
	for _, prefetch := range []int{0, 1, 3} {
		s := learnable(t, train.DataOptions{Prefetch: prefetch})
		seen := 0
		for epoch := s.data.Epoch(); s.data.Epoch() == epoch; {
			for b := range s.data.Batches(7) {
				got, err := array.Copy[float32](b.X)
				if err != nil || got[0] != s.points[2*seen] || b.Y.Dim(0) != b.X.Dim(0) {
					t.Fatalf("prefetch %d, example %d: %v, %v", prefetch, seen, got, err)
				}
				seen += b.X.Dim(0)
				if seen%3 == 0 {
					break
				}
			}
		}
		if seen != 100 {
			t.Errorf("prefetch %d: %d examples", prefetch, seen)
		}
	}
}

// TestNestedLoops: a loop inside another over the same data yields no batch and is an error, which stays; the outer
// loop yields each example once.
func TestNestedLoops(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{Prefetch: 1})
	seen := 0
	for b := range s.data.Batches(30) {
		seen += b.X.Dim(0)
		for range s.data.Batches(10) {
			t.Error("a batch of the inner loop")
		}
	}
	if err := s.data.Err(); seen != 100 || err == nil || !strings.Contains(err.Error(), "another loop") {
		t.Errorf("%d examples, %v", seen, err)
	}
	func() {
		defer func() { recover() }()
		for range s.data.Batches(30) {
			panic("a loop's body")
		}
	}()
	for range s.data.Batches(30) {
	}
	if err := s.data.Err(); err != nil {
		t.Errorf("after a loop that panicked: %v", err)
	}
}

// TestOrder: each shuffled epoch has each example once, in an order of its own, and the same key gives the same orders.
func TestOrder(t *testing.T) {
	array.AssertNoLeaks(t)
	x := make([]float32, 50)
	for i := range x {
		x[i] = float32(i)
	}
	epochs := func(o train.DataOptions) (list [2]string) {
		d, err := train.NewData(train.Column(x), train.Field{}, o)
		if err != nil {
			t.Fatal(err)
		}
		for e := range list {
			sum := float32(0)
			for b := range d.Batches(8) {
				v, _ := array.Copy[float32](b.X)
				for _, each := range v {
					sum += each
					list[e] += string(rune(each) + 32)
				}
				if b.Y != nil {
					t.Error("there is a target")
				}
			}
			if want := float32(49 * 50 / 2); !o.DropLast && sum != want || o.DropLast && len(list[e]) != 48 {
				t.Errorf("%+v: the sum is %v", o, sum)
			}
		}
		return list
	}
	a, b, c := epochs(train.DataOptions{Shuffle: true, Key: 1}),
		epochs(train.DataOptions{Shuffle: true, Key: 1, Prefetch: 4}),
		epochs(train.DataOptions{Shuffle: true, Key: 2, DropLast: true})
	if a != b || a[0] == a[1] || a == c {
		t.Errorf("orders: %q, %q, %q", a, b, c)
	}
}

// TestFields: batches have the right elements of overlapping windows of a slice, rows of an array and records of a
// file. A field that cannot be read ends the epoch with its error, and fields of different lengths are an error.
func TestFields(t *testing.T) {
	array.AssertNoLeaks(t)
	text := []int32{0, 1, 2, 3, 4, 5, 6}
	s := array.NewScope("test")
	defer s.Close()
	rows, err := train.Rows(array.From(s, []float32{0, 1, 2, 3, 4, 5, 6, 7}, 4, 2))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "records")
	write(t, name, []byte{9, 9, 1, 2, 3, 0, 4, 5, 6, 0, 7, 8, 9, 0, 10, 11, 12})
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	records, err := train.Records(file, 2, 1, array.Scalar(s, uint8(0)).DType(), 3)
	if err != nil {
		t.Fatal(err)
	}
	d, err := train.NewData(train.Windows(text, 1, 4), records, train.DataOptions{}, rows)
	if err != nil {
		t.Fatal(err)
	}
	for b := range d.Batches(3) {
		x, _ := array.Copy[int32](b.X)
		y, _ := array.Copy[uint8](b.Y)
		m, _ := array.Copy[float32](b.More[0])
		n := b.X.Dim(0)
		if n == 3 && (x[4] != 1 || x[11] != 5 || y[3] != 4 || m[5] != 5) || n == 1 && (x[0] != 3 || y[2] != 12 || m[1] != 7) {
			t.Errorf("a batch of %d: %v %v %v", n, x, y, m)
		}
	}
	if d.Err() != nil {
		t.Error(d.Err())
	}
	file.Close()
	for _, prefetch := range []int{0, 2} {
		d, err := train.NewData(train.Windows(text, 1, 4), records, train.DataOptions{Prefetch: prefetch})
		if err != nil {
			t.Fatal(err)
		}
		for range d.Batches(3) {
			t.Error("a batch of a closed file")
		}
		if !errors.Is(d.Err(), fs.ErrClosed) {
			t.Errorf("a closed file: %v", d.Err())
		}
	}
	if _, err := train.NewData(train.Column(text), train.Column(text[1:]), train.DataOptions{}); err == nil {
		t.Error("fields of different lengths are no error")
	}
	if _, err := train.NewData(train.Column([]float32{}), train.Field{}, train.DataOptions{}); err == nil {
		t.Error("no examples are no error")
	}
}

// TestSchedules compares the rates of schedules with their formulas.
func TestSchedules(t *testing.T) {
	for name, test := range map[string]struct {
		s    train.Schedule
		want map[int64]float64
	}{
		"constant":    {train.Constant(), map[int64]float64{1: 1, 1000: 1}},
		"step":        {train.StepDecay(10, 0.5), map[int64]float64{1: 1, 10: 1, 11: 0.5, 21: 0.25}},
		"exponential": {train.Exponential(0.9), map[int64]float64{1: 1, 3: 0.81}},
		"cosine":      {train.Cosine(100, 0.2), map[int64]float64{1: 1, 51: 0.6, 101: 0.2, 5000: 0.2}},
		"linear":      {train.Linear(100, 0), map[int64]float64{1: 1, 51: 0.5, 101: 0, 200: 0}},
		"warm-up":     {train.Warmup(4, train.Cosine(100, 0.2)), map[int64]float64{1: 0.25, 4: 1, 5: 1, 55: 0.6}},
		// The values of torch.optim.lr_scheduler.OneCycleLR, divided by its greatest rate.
		"one cycle": {train.OneCycle(100), map[int64]float64{1: 0.04, 11: 0.29516395, 30: 1, 65: 0.50000200, 100: 4e-6}},
	} {
		for step, want := range test.want {
			if got := test.s(step); math.Abs(got-want) > 1e-6 {
				t.Errorf("%s, step %d: %v, not %v", name, step, got, want)
			}
		}
	}
}

// TestMetrics compares metrics with results computed here.
func TestMetrics(t *testing.T) {
	rows, targets := [][]float32{{1, 3, 2}, {5, 1, 4}, {0, 0, 1}}, []float64{1, 2, 0}
	var one train.Accuracy
	two := train.Accuracy{K: 2}
	var confused train.Confusion
	for _, m := range []train.Metric{&one, &two, &confused} {
		if err := m.Observe(rows, targets); err != nil {
			t.Error(err)
		}
		if m.Observe(rows, []float64{3, 0, 0}) == nil {
			t.Errorf("%T: class 3 of 3 is no error", m)
		}
	}
	if confused.Count[2][0] != 1 || confused.Count[0][2] != 1 || confused.Count[1][1] != 1 {
		t.Errorf("%v", confused.Count)
	}
	if one := (&train.Accuracy{}); one.Observe(rows, targets) != nil || one.Value() != 1.0/3 {
		t.Error(one)
	}
	if two := (&train.Accuracy{K: 2}); two.Observe(rows, targets) != nil || two.Value() != 1 {
		t.Error(two)
	}
	var mean train.Mean
	if mean.Value() != 0 {
		t.Error("a mean of nothing")
	}
	mean.Add(1, 1)
	mean.Add(4, 2)
	if mean.Value() != 3 {
		t.Error(mean.Value())
	}
}

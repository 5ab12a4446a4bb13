package train_test

import (
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// certified is a network whose step's certificate is compared with the ledger.
type certified struct {
	net    nn.Layer
	o      train.Options
	x      array.Spec
	ids    int // the number of ids, if x has ids
	counts []weir.Dims
}

// certifiedNets returns five kinds of networks. The extent batch is named in all, and sequence in networks of
// sequences.
func certifiedNets() map[string]certified {
	mean := nn.Lambda(func(c *nn.Context, x *array.Array) *array.Array { return c.Mean(x, 1) })
	batches := []weir.Dims{{"batch": 1}, {"batch": 7}, {"batch": 16}, {"batch": 3}, {"batch": 64}}
	sequences := []weir.Dims{{"batch": 1, "sequence": 1}, {"batch": 3, "sequence": 10}, {"batch": 8, "sequence": 5},
		{"batch": 2, "sequence": 24}, {"batch": 8, "sequence": 24}}
	bounds := weir.Options{Dims: map[string]weir.Range{"batch": {Min: 1, Max: 8}, "sequence": {Min: 1, Max: 24}}}
	wide := weir.Options{Dims: map[string]weir.Range{"batch": {Min: 1, Max: 64}}}
	return map[string]certified{
		"mlp": {nn.Sequential(nn.Linear(20, 32), nn.Relu, nn.Linear(32, 16), nn.Relu, nn.Linear(16, 4)),
			train.Options{Compile: wide},
			array.SpecOf("x", weir.F32, "batch", 20), 0, batches},
		"accumulated": {nn.Sequential(nn.Linear(20, 32), nn.Tanh, nn.Linear(32, 4)),
			train.Options{Compile: wide, Accumulate: 3, Threads: 2},
			array.SpecOf("x", weir.F32, "batch", 20), 0, batches},
		"cnn": {nn.Sequential(nn.Conv2d(1, 4, 3, nn.Padding(1)), nn.BatchNorm(4), nn.Relu, nn.MaxPool2d(2),
			nn.Conv2d(4, 8, 3), nn.BatchNorm(8), nn.Relu, nn.Flatten(1), nn.Linear(32, 4)),
			train.Options{Compile: wide}, array.SpecOf("x", weir.F32, "batch", 1, 8, 8), 0, batches},
		"transformer": {nn.Sequential(nn.Embedding(11, 16), nn.TransformerEncoderLayer(16, 2, 32, nn.NormFirst, nn.Causal),
			nn.TransformerEncoderLayer(16, 2, 32, nn.NormFirst, nn.Causal), mean, nn.Linear(16, 4)),
			train.Options{Compile: bounds, ClipNorm: 1}, array.SpecOf("x", weir.I64, "batch", "sequence"), 11, sequences},
		"within a budget": {nn.Sequential(nn.Embedding(11, 16), nn.TransformerEncoderLayer(16, 2, 32, nn.NormFirst,
			nn.Causal), nn.TransformerEncoderLayer(16, 2, 32, nn.NormFirst, nn.Causal), mean, nn.Linear(16, 4)),
			train.Options{Compile: bounds, ClipNorm: 1, Budget: 800_000}, array.SpecOf("x", weir.I64, "batch", "sequence"), 11,
			sequences},
		"lstm": {nn.Sequential(nn.LSTM(3, 16), mean, nn.Linear(16, 4)), train.Options{Compile: bounds},
			array.SpecOf("x", weir.F32, "batch", "sequence", 3), 0, sequences},
		"embedding": {nn.Sequential(nn.Embedding(1000, 8), mean, nn.Linear(8, 4)),
			train.Options{Compile: bounds, Lazy: []string{"0.*"}},
			array.SpecOf("x", weir.I64, "batch", "sequence"), 1000, sequences},
	}
}

// batch makes a batch of these extents.
func (c certified) batch(s *array.Scope, d weir.Dims) train.Batch {
	var shape []int
	n := 1
	for _, e := range c.x.Shape {
		size := int(e.Size)
		if e.Dim != "" {
			size = int(d[e.Dim])
		}
		shape, n = append(shape, size), n*size
	}
	classes := make([]int32, d["batch"])
	for i := range classes {
		classes[i] = int32(i*i%7) % 4
	}
	b := train.Batch{Y: array.From(s, classes)}
	if c.ids > 0 {
		ids := make([]int64, n)
		for i := range ids {
			ids[i] = int64(i*7919) % int64(c.ids)
		}
		b.X = array.From(s, ids, shape...)
		return b
	}
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(i*i%29)/29 - 0.5
	}
	b.X = array.From(s, list, shape...)
	return b
}

// TestCertificates: training takes the bytes that the certificate says before the first step, to the byte: for several
// batches and sequences and for the largest that are allowed, and at no moment of a step more. Each kind of the ledger
// is as in the certificate, and measured runs take the same.
func TestCertificates(t *testing.T) {
	array.AssertNoLeaks(t)
	for name, test := range certifiedNets() {
		t.Run(name, func(t *testing.T) {
			weir.Trim()
			before := mem.Usage()
			p := nn.Init(test.net, 5)
			defer p.Close()
			o := test.o
			o.Inputs = []array.Spec{test.x, array.SpecOf("y", weir.I32, "batch")}
			tr, err := train.New(test.net, p, train.CrossEntropy, train.AdamW(0.01), o)
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			if most, err := tr.Memory().Max(1); err != nil {
				t.Error(err)
			} else if last, _ := tr.Memory().Peak(1, test.counts[len(test.counts)-1]); last != most {
				t.Errorf("the bound is %d, at the largest extents it is %d", most, last)
			}
			for range 2 { // sizes grow and shrink
				for _, d := range test.counts {
					test.step(t, tr, d, before)
				}
			}
		})
	}
}

// step compares a step's certificate with the bytes that the step takes.
func (c certified) step(t *testing.T, tr *train.Trainer, d weir.Dims, before mem.Totals) {
	t.Helper()
	want, err := tr.Peak(d)
	if err != nil {
		t.Fatal(err)
	}
	s := array.NewScope("batch")
	defer s.Close()
	b := c.batch(s, d)
	given := s.Stats().Bytes
	for range max(1, c.o.Accumulate) {
		began := mem.Usage()
		mem.ResetPeaks()
		if _, err := tr.Step(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if u := mem.Usage(); u.AllPeak != max(began.All, u.All) {
			t.Errorf("at %v: a step took %d bytes, before it were %d and after it %d", d, u.AllPeak, began.All, u.All)
		}
	}
	seen, err := train.Measure(t.Context(), tr, b)
	if err != nil {
		t.Fatal(err)
	}
	m := tr.Memory()
	for kind, part := range map[string]struct {
		says weir.Size
		took int64
	}{"weights": {m.Weights, seen.Weights}, "code": {m.Code, seen.Code}, "arena": {m.Arena, seen.Arena},
		"outputs": {m.Outputs, seen.Outputs}} {
		if v, err := part.says.At(d); err != nil || v != part.took {
			t.Errorf("at %v: the %s are to take %d, measured %d: %v", d, kind, v, part.took, err)
		}
	}
	// Constants of a traced function are in the module, which the ledger does not count.
	u := mem.Usage()
	if held := u.All - before.All - given; held != want-tr.Constants() {
		t.Errorf("at %v: %d bytes are to be held, %d are", d, want-tr.Constants(), held)
	}
	if states := u.Current[mem.Tensors] - before.Current[mem.Tensors] - given; states != tr.StateBytes() {
		t.Errorf("at %v: the states are to take %d, and take %d", d, tr.StateBytes(), states)
	}
}

package train_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// TestNetworks trains one network of each kind, in batches of 6 and 4 examples: after 300 steps the loss is at most
// half of the first, a restored training continues to the same bits, and the step has a certificate.
func TestNetworks(t *testing.T) {
	array.AssertNoLeaks(t)
	floats := func(n int) []float32 {
		list := make([]float32, n)
		for i := range list {
			list[i] = float32(i*i%29)/29 - 0.5
		}
		return list
	}
	classes := func(n int) []int32 {
		list := make([]int32, n)
		for i := range list {
			list[i] = int32(i*i%7) % 4
		}
		return list
	}
	words := make([]int64, 16*6)
	for i := range words {
		words[i] = int64((i*7919+i*i*31)%1009) % 11
	}
	last := func(c *nn.Context, x *array.Array) *array.Array { return c.Mean(x, 1) }
	images := train.Column(floats(16*64), 1, 8, 8)
	series := train.Column(floats(16*5*3), 5, 3)
	text := train.Column(words, 6)
	for name, test := range map[string]struct {
		net nn.Layer
		x   train.Field
	}{
		"convolution": {nn.Sequential(nn.Conv2d(1, 4, 3, nn.Padding(1)), nn.BatchNorm(4), nn.Relu, nn.MaxPool2d(2),
			nn.Flatten(1), nn.Linear(64, 4)), images},
		"dropout": {nn.Sequential(nn.Flatten(1), nn.Linear(64, 32), nn.Relu, nn.Dropout(0.2), nn.Linear(32, 4)), images},
		"norms": {nn.Sequential(nn.Flatten(1), nn.Linear(64, 32), nn.LayerNorm(32), nn.Tanh, nn.RMSNorm(32),
			nn.Linear(32, 4)), images},
		"lstm":      {nn.Sequential(nn.LSTM(3, 16), nn.Lambda(last), nn.Linear(16, 4)), series},
		"gru":       {nn.Sequential(nn.GRU(3, 16), nn.Lambda(last), nn.Linear(16, 4)), series},
		"embedding": {nn.Sequential(nn.Embedding(11, 8), nn.Lambda(last), nn.Linear(8, 4)), text},
		"transformer": {nn.Sequential(nn.Embedding(11, 16), nn.TransformerEncoderLayer(16, 2, 32, nn.NormFirst, nn.Causal),
			nn.Lambda(last), nn.Linear(16, 4)), text},
	} {
		t.Run(name, func(t *testing.T) {
			make := func() (*train.Trainer, *nn.Params, *train.Data) {
				p, err := nn.New(test.net, 5)
				if err != nil {
					t.Fatal(err)
				}
				data, err := train.NewData(test.x, train.Column(classes(16)), train.DataOptions{Shuffle: true, Key: 2})
				if err != nil {
					t.Fatal(err)
				}
				tr, err := train.New(test.net, p, train.CrossEntropy, train.AdamW(0.01), train.Options{Seed: 3})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := errors.Join(tr.Close(), p.Close()); err != nil {
						t.Error(err)
					}
				})
				return tr, p, data
			}
			tr, p, data := make()
			first := steps(t, tr, data, 1, 6)
			steps(t, tr, data, 299, 6)
			dir := t.TempDir()
			if err := tr.Save(dir); err != nil {
				t.Fatal(err)
			}
			loss, err := tr.Evaluate(t.Context(), data.Batches(16))
			if err != nil || loss > first.Loss/2 {
				t.Errorf("the first loss is %v, that after 300 steps %v, error %v", first.Loss, loss, err)
			}
			if err := tr.Restore(dir, data); err != nil { // the position before the evaluation
				t.Fatal(err)
			}
			steps(t, tr, data, 7, 6)
			other, q, again := make()
			if err := other.Restore(dir, again); err != nil {
				t.Fatal(err)
			}
			steps(t, other, again, 7, 6)
			if !slices.Equal(bits(t, p), bits(t, q)) {
				t.Error("resumed, parameters differ")
			}
			if peak, err := tr.Memory().Peak(1, weir.Dims{"batch": 6}); err != nil || peak <= 0 {
				t.Errorf("the certificate: %d, %v", peak, err)
			}
		})
	}
}

// Command train-digits trains a network to read handwritten digits of 8 × 8 pixels, from nothing, and says how many of the
// images that it never saw it reads.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// digits are 1,797 images, each 64 pixels of 0 to 16 and the digit that its writer meant.
//
//go:embed data/digits.gz
var digits []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	epochs := flag.Int("epochs", 60, "how often to see each image")
	flag.Parse()
	if _, err := run(ctx, os.Stdout, *epochs); err != nil {
		fmt.Fprintln(os.Stderr, "train-digits:", err)
		os.Exit(1)
	}
}

// run trains, and returns the share of the test images that are read.
func run(ctx context.Context, w io.Writer, epochs int) (accuracy float64, err error) {
	seen, unseen, err := load()
	if err != nil {
		return 0, err
	}
	data, err := seen.data(train.DataOptions{Shuffle: true, Key: 1, Prefetch: 2})
	if err != nil {
		return 0, err
	}
	test, err := unseen.data(train.DataOptions{})
	if err != nil {
		return 0, err
	}
	net := nn.Sequential(nn.Linear(64, 128), nn.Relu, nn.Linear(128, 64), nn.Relu, nn.Linear(64, 10))
	params := nn.Init(net, 7)
	defer params.Close()
	steps := int64(epochs * (data.Len() + 63) / 64)
	loss := train.CrossEntropyOf(train.CrossEntropyOptions{Smoothing: 0.1})
	t, err := train.New(net, params, loss, train.AdamW(3e-3, train.WeightDecay(0.1)), train.Options{Schedule: train.Cosine(steps, 0.01)})
	if err != nil {
		return 0, err
	}
	defer t.Close()
	for epoch := range epochs {
		mean := train.Mean{}
		for batch := range data.Batches(64) {
			m, err := t.Step(ctx, batch)
			if err != nil {
				return 0, err
			}
			mean.Add(m.Loss, 1)
		}
		if epoch == 0 {
			fmt.Fprintln(w, t.Certificate())
		}
		if epoch%10 == 9 {
			fmt.Fprintf(w, "epoch %d: loss %.4f\n", epoch+1, mean.Value())
		}
	}
	right := &train.Accuracy{}
	mean, err := t.Evaluate(ctx, test.Batches(64), right)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(w, "%d images that it never saw: loss %.4f, %.2f %% read\n", test.Len(), mean, 100*right.Value())
	return right.Value(), nil
}

// set are images, as shares of ink, and what they mean.
type set struct {
	images []float32
	labels []int32
}

func (s *set) data(o train.DataOptions) (*train.Data, error) {
	return train.NewData(train.Column(s.images, 64), train.Column(s.labels), o)
}

// load unpacks the images: every fourth is for the test.
func load() (seen, unseen set, err error) {
	z, err := gzip.NewReader(bytes.NewReader(digits))
	if err != nil {
		return seen, unseen, err
	}
	raw, err := io.ReadAll(z)
	for i := 0; len(raw) >= 65; i, raw = i+1, raw[65:] {
		s := &seen
		if i%4 == 3 {
			s = &unseen
		}
		for _, x := range raw[:64] {
			s.images = append(s.images, float32(x)/16)
		}
		s.labels = append(s.labels, int32(raw[64]))
	}
	return seen, unseen, err
}

// Command train-digits trains a network to read handwritten digits of 8 × 8 pixels, and prints its accuracy on images
// that it was not trained on.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/weirml/weir"
	"github.com/weirml/weir/examples/train-digits/data"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

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

// run trains, and returns the accuracy on the test images.
func run(ctx context.Context, w io.Writer, epochs int) (accuracy float64, err error) {
	seen, unseen, err := data.Load()
	if err != nil {
		return 0, err
	}
	o := train.DataOptions{Shuffle: true, Key: 1, Prefetch: 2}
	digits, err := train.NewData(train.Column(seen.Images, 64), train.Column(seen.Labels), o)
	if err != nil {
		return 0, err
	}
	test, err := train.NewData(train.Column(unseen.Images, 64), train.Column(unseen.Labels), train.DataOptions{})
	if err != nil {
		return 0, err
	}
	net := nn.Sequential(nn.Linear(64, 128), nn.Relu, nn.Linear(128, 64), nn.Relu, nn.Linear(64, 10))
	params := nn.Init(net, 7)
	defer params.Close()
	steps := int64(epochs * (digits.Len() + 63) / 64)
	loss := train.CrossEntropyOf(train.CrossEntropyOptions{Smoothing: 0.1})
	t, err := train.New(net, params, loss, train.AdamW(3e-3, train.WeightDecay(0.1)),
		train.Options{Schedule: train.Cosine(steps, 0.01)})
	if err != nil {
		return 0, err
	}
	defer t.Close()
	for epoch := range epochs {
		mean := train.Mean{}
		for batch := range digits.Batches(64) {
			m, err := t.Step(ctx, batch)
			if err != nil {
				return 0, err
			}
			mean.Add(m.Loss, 1)
		}
		if err := digits.Err(); err != nil {
			return 0, err
		}
		if epoch == 0 {
			bytes, err := t.Memory().Peak(1, weir.Dims{"batch": 64})
			if err != nil {
				return 0, err
			}
			fmt.Fprintf(w, "a step of 64 images takes %d bytes, and %d of parameters and moments\n", bytes, t.StateBytes())
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

// Command finetune trains a network that reads the digits 0 to 4, an ONNX file, to read 5 to 9: only a new last layer
// is trained. The command makes the file first, so that nothing must be downloaded.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/examples/train-digits/data"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	epochs := flag.Int("epochs", 20, "how often to see each image, with the one digits and with the others")
	folder := flag.String("o", ".", "where to write low.onnx and high.onnx")
	flag.Parse()
	if _, err := run(ctx, os.Stdout, *folder, *epochs); err != nil {
		fmt.Fprintln(os.Stderr, "finetune:", err)
		os.Exit(1)
	}
}

// digits are images for training and for tests.
type digits struct{ seen, unseen *train.Data }

// of returns the images of some digits.
func of(list ...int32) (d digits, err error) {
	seen, unseen, err := data.Load()
	if err != nil {
		return d, err
	}
	if d.seen, err = dataOf(seen.Only(list...), train.DataOptions{Shuffle: true, Key: 1}); err == nil {
		d.unseen, err = dataOf(unseen.Only(list...), train.DataOptions{})
	}
	return d, err
}

func dataOf(s data.Set, o train.DataOptions) (*train.Data, error) {
	return train.NewData(train.Column(s.Images, 1, 8, 8), train.Column(s.Labels), o)
}

// run makes a model that reads 0 to 4, trains it to read 5 to 9, and returns the accuracy of the file that it wrote on
// the test images of 5 to 9.
func run(ctx context.Context, w io.Writer, folder string, epochs int) (accuracy float64, err error) {
	low, err := of(0, 1, 2, 3, 4)
	if err != nil {
		return 0, err
	}
	high, err := of(5, 6, 7, 8, 9)
	if err != nil {
		return 0, err
	}
	first, last := filepath.Join(folder, "low.onnx"), filepath.Join(folder, "high.onnx")
	if err := pretrain(ctx, w, first, low, epochs); err != nil {
		return 0, err
	}
	if err := finetune(ctx, w, first, last, high, epochs); err != nil {
		return 0, err
	}
	if accuracy, err = test(ctx, last, high.unseen); err == nil {
		fmt.Fprintf(w, "%s reads %.2f %% of the test images\n", filepath.Base(last), 100*accuracy)
	}
	return accuracy, err
}

// pretrain trains a small convolutional network from random parameters, and writes it as ONNX.
func pretrain(ctx context.Context, w io.Writer, path string, d digits, epochs int) error {
	net := nn.Sequential(
		nn.Conv2d(1, 16, 3, nn.Padding(1)), nn.BatchNorm(16), nn.Relu, nn.MaxPool2d(2),
		nn.Conv2d(16, 32, 3, nn.Padding(1)), nn.BatchNorm(32), nn.Relu, nn.MaxPool2d(2),
		nn.Flatten(1), nn.Linear(128, 5))
	params := nn.Init(net, 7)
	defer params.Close()
	if err := learn(ctx, w, "0 to 4, all layers", net, params, d, epochs); err != nil {
		return err
	}
	return write(path, net, params)
}

// features is the name of the convolutions' result. base.Model().Values() lists all names; weir dump and Netron show
// them too.
const features = "flatten"

// finetune reads a model, replaces its last layer by a new one, trains only the new layer, and writes the entire
// network.
func finetune(ctx context.Context, w io.Writer, from, to string, d digits, epochs int) error {
	base, err := train.FromONNX(from, array.ModelOptions{Outputs: []string{features}})
	if err != nil {
		return err
	}
	net := nn.Sequential(base, nn.Linear(128, 5))
	params, err := nn.New(net, 8)
	if err != nil {
		return err
	}
	defer params.Close()
	if err := params.Freeze("0.*"); err != nil {
		return err
	}
	if err := learn(ctx, w, "5 to 9, the last layer", net, params, d, epochs); err != nil {
		return err
	}
	return write(to, net, params)
}

// learn trains the parameters that are not frozen, and prints the accuracy on the test images before and after.
func learn(ctx context.Context, w io.Writer, what string, net nn.Layer, params *nn.Params, d digits, epochs int) error {
	t, err := train.New(net, params, train.CrossEntropy, train.AdamW(1e-2), train.Options{})
	if err != nil {
		return err
	}
	defer t.Close()
	var before, after train.Accuracy
	if _, err := t.Evaluate(ctx, d.unseen.Batches(64), &before); err != nil {
		return err
	}
	for range epochs {
		for batch := range d.seen.Batches(64) {
			if _, err := t.Step(ctx, batch); err != nil {
				return err
			}
		}
	}
	if _, err := t.Evaluate(ctx, d.unseen.Batches(64), &after); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %d of %d parameters trained, %.2f %% of the test images read before, %.2f %% after\n",
		what, len(params.Trainable()), len(params.Names()), 100*before.Value(), 100*after.Value())
	peak, err := t.Memory().Peak(1, weir.Dims{"batch": 64})
	fmt.Fprintf(w, "a step of 64 images takes %d bytes, and %d of parameters and moments\n", peak, t.StateBytes())
	return err
}

// write writes a network as an ONNX file.
func write(path string, net nn.Layer, params *nn.Params) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	return nn.WriteONNX(f, net, params, array.SpecOf("image", weir.F32, "batch", 1, 8, 8))
}

// test returns an ONNX file's accuracy.
func test(ctx context.Context, path string, images *train.Data) (float64, error) {
	m, err := weir.Load(path)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	p, err := weir.Compile(ctx, m, weir.Options{})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	var right train.Accuracy
	for batch := range images.Batches(64) {
		r, err := p.Run(ctx, weir.Inputs{"image": batch.X.Tensor()})
		if err != nil {
			return 0, err
		}
		err = observe(&right, r.At(0), batch.Y)
		if closed := r.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return 0, err
		}
	}
	return right.Value(), images.Err()
}

// observe counts the rows of scores whose greatest score is the label's.
func observe(right *train.Accuracy, scores *weir.Tensor, labels *array.Array) error {
	list, err := weir.View[float32](scores)
	if err != nil {
		return err
	}
	want, err := array.View[int32](labels)
	if err != nil {
		return err
	}
	var rows [][]float32
	var targets []float64
	for i, label := range want {
		rows, targets = append(rows, list[i*5:][:5]), append(targets, float64(label))
	}
	return right.Observe(rows, targets)
}

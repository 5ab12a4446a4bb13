// Command gpt trains a small transformer on the letters of a poem, and generates letters with it.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand"
	"os"
	"os/signal"
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// poem is Lewis Carroll's Jabberwocky, of 1871.
//
//go:embed poem.txt
var poem []byte

// window is the number of letters that the network reads.
const window = 48

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	steps := flag.Int("steps", 600, "how many steps to train")
	temperature := flag.Float64("temperature", 0.5, "0 writes the likeliest letter, 1 draws as the network says")
	flag.Parse()
	if _, _, err := run(ctx, os.Stdout, *steps, *temperature); err != nil {
		fmt.Fprintln(os.Stderr, "gpt:", err)
		os.Exit(1)
	}
}

// network is a transformer of two layers over letters: its result at a position predicts the next letter.
func network(letters int) nn.Layer {
	const width, heads = 64, 4
	block := func() nn.Layer {
		return nn.TransformerEncoderLayer(width, heads, 4*width, nn.NormFirst, nn.Causal, nn.Activation(nn.Gelu))
	}
	return nn.Sequential(nn.Embedding(letters, width, nn.Weights(nn.Normal(0, 0.1))), nn.Positions(window, width),
		nn.Stack(nn.LayerNorm(width), block(), block()), nn.Linear(width, letters))
}

// run trains and generates; it returns the last loss and the generated letters.
func run(ctx context.Context, w io.Writer, steps int, temperature float64) (loss float64, written string, err error) {
	letters := slices.Compact(slices.Sorted(slices.Values(poem)))
	text := make([]int32, len(poem))
	for i, c := range poem {
		text[i] = int32(bytes.IndexByte(letters, c))
	}
	data, err := train.NewData(train.Windows(text[:len(text)-1], 1, window), train.Windows(text[1:], 1, window),
		train.DataOptions{Shuffle: true, Key: 1, DropLast: true})
	if err != nil {
		return 0, "", err
	}
	net := network(len(letters))
	params := nn.Init(net, 1)
	defer params.Close()
	t, err := train.New(net, params, train.CrossEntropy, train.AdamW(3e-3, train.WeightDecay(0.1)),
		train.Options{Schedule: train.Warmup(20, train.Cosine(int64(steps), 0.1)), ClipNorm: 1})
	if err != nil {
		return 0, "", err
	}
	defer t.Close()
	for t.Steps() < int64(steps) {
		for batch := range data.Batches(16) {
			m, err := t.Step(ctx, batch)
			if err != nil {
				return 0, "", err
			}
			if loss = m.Loss; m.Step == 1 || m.Step%100 == 0 {
				fmt.Fprintf(w, "step %d: loss %.3f\n", m.Step, m.Loss)
			}
			if m.Step == int64(steps) {
				break
			}
		}
		if err := data.Err(); err != nil {
			return 0, "", err
		}
	}
	peak, err := t.Memory().Peak(1, weir.Dims{"batch": 16})
	if err != nil {
		return 0, "", err
	}
	fmt.Fprintf(w, "a step of 16 pieces of the poem takes %d bytes, and %d of %d parameters and their moments\n\n", peak,
		t.StateBytes(), params.Count())
	g := &writer{t: t, letters: letters, random: rand.New(rand.NewSource(1)), temperature: temperature}
	written, err = g.write(ctx, "'Twas brillig", 200)
	fmt.Fprintln(w, written)
	return loss, written, err
}

// writer generates letters with a network.
type writer struct {
	t           *train.Trainer
	letters     []byte
	random      *rand.Rand
	temperature float64
}

// write continues a string by n letters.
func (g *writer) write(ctx context.Context, text string, n int) (string, error) {
	s := array.NewScope("writing")
	defer s.Close()
	x := s.Zeros(weir.I32, 1, window)
	seen, err := array.View[int32](x)
	if err != nil {
		return "", err
	}
	for range n {
		// The letters after the string do not matter: attention is causal.
		tail := text[max(0, len(text)-window):]
		clear(seen)
		for i := range tail {
			seen[i] = int32(bytes.IndexByte(g.letters, tail[i]))
		}
		y, err := g.t.Predict(ctx, x)
		if err != nil {
			return text, err
		}
		scores, err := weir.View[float32](y)
		if err != nil {
			return text, err
		}
		at := (len(tail) - 1) * len(g.letters)
		text += string(g.letters[g.choose(scores[at:at+len(g.letters)])])
	}
	return text, nil
}

// choose draws a letter.
func (g *writer) choose(scores []float32) int {
	best := slices.Index(scores, slices.Max(scores))
	if g.temperature <= 0 {
		return best
	}
	total, weights := 0.0, make([]float64, len(scores))
	for i, x := range scores {
		weights[i] = math.Exp(float64(x-scores[best]) / g.temperature)
		total += weights[i]
	}
	for at, i := g.random.Float64()*total, 0; i < len(weights); i++ {
		if at -= weights[i]; at < 0 {
			return i
		}
	}
	return best
}

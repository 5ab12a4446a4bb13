// Command digits reads handwritten digits.
//
//	go run ./examples/digits              # the twenty embedded pictures
//	go run ./examples/digits FILE.png...  # pictures of 8 by 8 pixels, ink white on black
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/weirml/weir"
	"github.com/weirml/weir/examples/digits/data"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "digits:", err)
		os.Exit(1)
	}
}

// run classifies the files, or the embedded pictures if there are none, and prints a line for each.
func run(ctx context.Context, out io.Writer, files []string) error {
	pictures, err := load(files)
	if err != nil {
		return err
	}
	model, err := weir.LoadBytes(data.Model)
	if err != nil {
		return err
	}
	defer model.Close()
	program, err := weir.Compile(ctx, model, weir.Options{})
	if err != nil {
		return err
	}
	defer program.Close()
	scores, err := classify(ctx, program, pictures)
	if err != nil {
		return err
	}
	right := 0
	for i, p := range pictures {
		digit, verdict := best(scores[i]), ""
		if files == nil {
			verdict = "right"
			if digit != p.Label {
				verdict = fmt.Sprintf("wrong, it is a %d", p.Label)
			} else {
				right++
			}
		}
		fmt.Fprintf(out, "%s  %d  %5.1f%%  %s\n", p.Name, digit, 100*scores[i][digit], verdict)
	}
	if files == nil {
		fmt.Fprintf(out, "%d of %d right\n", right, len(pictures))
	}
	peak, err := program.Memory().Peak(1, weir.Dims{"batch": int64(len(pictures))})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "memory for %d pictures at once: %d bytes\n", len(pictures), peak)
	return nil
}

// load reads the files, or the embedded pictures if there are none.
func load(files []string) ([]data.Picture, error) {
	if len(files) == 0 {
		return data.Pictures(), nil
	}
	pictures := make([]data.Picture, len(files))
	for i, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		pixels, err := data.Decode(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		pictures[i] = data.Picture{Name: name, PNG: content, Pixels: pixels}
	}
	return pictures, nil
}

// classify runs the model once over all pictures, and returns ten scores for each.
func classify(ctx context.Context, program *weir.Program, pictures []data.Picture) ([][]float32, error) {
	var pixels []float32
	for _, p := range pictures {
		pixels = append(pixels, p.Pixels...)
	}
	image, err := weir.FromSlice(pixels, len(pictures), 1, data.Side, data.Side)
	if err != nil {
		return nil, err
	}
	results, err := program.Run(ctx, weir.Inputs{"image": image})
	if err != nil {
		return nil, err
	}
	defer results.Close()
	flat, err := weir.Copy[float32](results.Get("scores"))
	if err != nil {
		return nil, err
	}
	scores := make([][]float32, len(pictures))
	for i := range scores {
		scores[i] = flat[i*data.Digits : (i+1)*data.Digits]
	}
	return scores, nil
}

// best returns the index of the highest score.
func best(scores []float32) int {
	top := 0
	for i, s := range scores {
		if s > scores[top] {
			top = i
		}
	}
	return top
}

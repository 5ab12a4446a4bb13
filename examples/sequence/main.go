// Command sequence recognises the language of a sentence: German, English, Spanish, French, Italian or Dutch.
//
//	go run ./examples/sequence                      # a few sentences inside
//	go run ./examples/sequence "Wo ist die Brücke?" # your own
//
// Both dimensions of the model's input are free: the number of sentences and the length of the longest. Compile
// receives their ranges, and the certificate gives the memory for any pair of values.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"

	"github.com/weirml/weir"
)

// languages are the model's classes, in its order.
var languages = []string{"German", "English", "Spanish", "French", "Italian", "Dutch"}

// longest is the maximum number of bytes of a sentence that are read; further bytes add little information about its
// language.
const longest = 400

//go:embed data/language.onnx
var model []byte

var examples = []string{
	"The ferry leaves at noon.",
	"Das Wehr staut den Fluss, damit die Mühle Wasser hat.",
	"Cette rivière est trop large pour un pont de bois.",
	"¿Quién ha cerrado la puerta?",
	"Il mulino è vecchio, ma lavora ancora.",
	"Het water stroomt langzaam naar de zee.",
}

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sequence:", err)
		os.Exit(1)
	}
}

// run prints a line for each sentence.
func run(ctx context.Context, out io.Writer, sentences []string) error {
	if len(sentences) == 0 {
		sentences = examples
	}
	program, err := compile(ctx, len(sentences))
	if err != nil {
		return err
	}
	defer program.Close()
	scores, err := identify(ctx, program, sentences)
	if err != nil {
		return err
	}
	for i, row := range scores {
		top := 0
		for j, s := range row {
			if s > row[top] {
				top = j
			}
		}
		fmt.Fprintf(out, "%-8s %5.1f%%  %s\n", languages[top], 100*row[top], sentences[i])
	}
	_, err = fmt.Fprintf(out, "\nmemory, in bytes:\n%v", program.Memory())
	return err
}

// compile compiles the model for batches of at most a number of sentences.
func compile(ctx context.Context, batch int) (*weir.Program, error) {
	m, err := weir.LoadBytes(model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return weir.Compile(ctx, m, weir.Options{Dims: map[string]weir.Range{
		"batch": {Min: 1, Max: int64(batch)}, "length": {Min: 1, Max: longest},
	}})
}

// identify runs the model once over all sentences, and returns each sentence's score for each language.
func identify(ctx context.Context, program *weir.Program, sentences []string) ([][]float32, error) {
	bytes, lengths, width := pad(sentences)
	text, err := weir.FromSlice(bytes, len(sentences), width)
	if err != nil {
		return nil, err
	}
	count, err := weir.FromSlice(lengths, len(sentences))
	if err != nil {
		return nil, err
	}
	results, err := program.Run(ctx, weir.Inputs{"text": text, "lengths": count})
	if err != nil {
		return nil, err
	}
	defer results.Close()
	flat, err := weir.Copy[float32](results.Get("scores"))
	if err != nil {
		return nil, err
	}
	scores := make([][]float32, len(sentences))
	for i := range scores {
		scores[i] = flat[i*len(languages) : (i+1)*len(languages)]
	}
	return scores, nil
}

// pad writes the sentences' UTF-8 into rows as long as the longest sentence. An empty sentence becomes one blank.
func pad(sentences []string) (rows []uint8, lengths []int32, width int) {
	lengths = make([]int32, len(sentences))
	for i, s := range sentences {
		n := min(max(len(s), 1), longest)
		lengths[i] = int32(n)
		width = max(width, n)
	}
	rows = make([]uint8, len(sentences)*width)
	for i, s := range sentences {
		row := rows[i*width : (i+1)*width]
		if copy(row, s) == 0 {
			row[0] = ' '
		}
	}
	return rows, lengths, width
}

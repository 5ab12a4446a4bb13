package command

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/embed"
	"github.com/weirml/weir/files"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/values"
)

// embedFlags are the flags of embed.
type embedFlags struct {
	textFlags
	embed.Options
	output string
}

// embedCommand makes the command embed.
func (c *cli) embedCommand() *cobra.Command {
	f := &embedFlags{}
	cmd := &cobra.Command{
		Use: "embed MODEL [TEXT...]", Short: "Turn texts into vectors",
		Long: `embed loads a folder of sentence-transformers, transformers or model2vec, or an ONNX file beside a tokenizer, and
prints the vector of each text: what sentence-transformers computes.`,
		Example: `  weir embed all-MiniLM-L6-v2 "a text" "another one"
  weir embed model/onnx/model.onnx --input texts.txt --output vectors.npy`,
		Args: func(_ *cobra.Command, args []string) error { return f.arguments(args) },
		RunE: func(cmd *cobra.Command, args []string) error { return c.embed(cmd.Context(), f, args[0], args[1:]) },
	}
	f.register(cmd, c, &f.MaxTokens)
	flags := cmd.Flags()
	flags.StringVar(&f.output, "output", "", "write the vectors to this .npy file, f32[texts, size]")
	flags.StringVar(&f.Prompt, "prompt", "", "put this before each text")
	flags.StringVar(&f.PromptName, "prompt-name", "", "put the model's own prompt of this name before each text")
	flags.BoolVar(&f.NoPrompt, "no-prompt", false, "not even the model's default prompt")
	flags.Var(from(&f.Dimensions, 0, 0), "dimensions", "keep so many elements of each vector (Matryoshka)")
	flags.BoolVar(&f.Normalize, "normalize", false, "scale vectors to length 1")
	return cmd
}

// embed prints or writes the vectors of texts.
func (c *cli) embed(ctx context.Context, f *embedFlags, model string, texts []string) error {
	texts, options, err := f.read(model, texts)
	if err != nil {
		return err
	}
	f.Compile = options
	bar := f.progress(&f.Compile)
	m, err := embed.Load(ctx, model, f.Options)
	bar.finish()
	if err != nil {
		return err
	}
	defer m.Close()
	vectors, err := m.Embed(ctx, texts)
	if err != nil {
		return err
	}
	if f.output != "" {
		return writeVectors(f.output, vectors, m.Dimensions())
	}
	if c.json {
		return c.printJSON(map[string]any{"vectors": vectors, "memory": m.Memory()})
	}
	for i, v := range vectors {
		stdout.Printf("%s  %s\n", padded(texts[i], 40), vectorText(v))
	}
	if n := len(vectors); n > 1 && n <= 12 {
		stdout.Printf("\ncosines of the angles between them\n")
		for _, x := range vectors {
			for _, y := range vectors {
				stdout.Printf(" %6.3f", cosine(x, y))
			}
			stdout.Printf("\n")
		}
	}
	stdout.Printf("\nmemory  %s\n", m.Memory())
	return nil
}

// writeVectors writes vectors as a .npy file, [texts, size].
func writeVectors(file string, vectors [][]float32, size int) error {
	all := make([]float32, 0, len(vectors)*size)
	for _, v := range vectors {
		all = append(all, v...)
	}
	t, err := weir.FromSlice(all, len(vectors), size)
	if err != nil {
		return err
	}
	err = values.WriteAtomic(file, func(w io.Writer) error { return files.WriteNPY(w, t) })
	if err != nil {
		return diag.Inputf("%v", err).AtFile(file).WithCause(err)
	}
	return nil
}

// vectorText returns a vector's first elements, their number and its length.
func vectorText(v []float32) string {
	var b strings.Builder
	for _, x := range v[:min(4, len(v))] {
		fmt.Fprintf(&b, "%8.4f ", x)
	}
	fmt.Fprintf(&b, "…  %d elements, length %.4f", len(v), math.Sqrt(dot(v, v)))
	return b.String()
}

// padded returns a text of exactly n characters: its beginning, or the text and spaces.
func padded(text string, n int) string {
	text = shortened(strings.Join(strings.Fields(text), " "), n)
	return text + strings.Repeat(" ", n-utf8.RuneCountInString(text))
}

// dot returns the sum of the products of two vectors' elements.
func dot(x, y []float32) (sum float64) {
	for i := range x {
		sum += float64(x[i]) * float64(y[i])
	}
	return sum
}

// cosine returns the cosine of the angle between vectors; 0 if one has no length.
func cosine(x, y []float32) float64 {
	if length := math.Sqrt(dot(x, x) * dot(y, y)); length > 0 {
		return dot(x, y) / length
	}
	return 0
}

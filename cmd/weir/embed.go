package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"
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
	modelFlags
	embed.Options
	input, output string
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
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && f.input == "" || len(args) > 1 && f.input != "" {
				return usageError{fmt.Errorf("%d arguments; a MODEL and texts, or --input, are needed", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.embed(cmd.Context(), f, args[0], args[1:]) },
	}
	f.registerTexts(cmd, c)
	flags := cmd.Flags()
	flags.StringVar(&f.input, "input", "", "a file with a text on each line, or - for standard input")
	flags.StringVar(&f.output, "output", "", "write the vectors to this .npy file, f32[texts, size]")
	flags.StringVar(&f.Prompt, "prompt", "", "put this before each text")
	flags.StringVar(&f.PromptName, "prompt-name", "", "put the model's own prompt of this name before each text")
	flags.BoolVar(&f.NoPrompt, "no-prompt", false, "not even the model's default prompt")
	flags.Var(from(&f.Dimensions, 0, 0), "dimensions", "keep so many elements of each vector (Matryoshka)")
	flags.BoolVar(&f.Normalize, "normalize", false, "scale vectors to length 1")
	flags.Var(from(&f.MaxTokens, 0, 0), "max-tokens",
		"the most tokens of a text; longer ones are cut (default what the model says)")
	return cmd
}

// registerTexts adds the flags for models that read texts.
func (f *modelFlags) registerTexts(cmd *cobra.Command, c *cli) {
	f.c = c
	flags := cmd.Flags()
	flags.Var(from(&f.threads, 0, 0), "threads", "workers that one run may use (default WEIR_THREADS, else GOMAXPROCS)")
	flags.Var(from(&f.calls, 1, 1), "calls", "runs that may be active at once")
	flags.StringVar(&f.cpu, "cpu", "",
		"native, avx512amx, avx512bf16, avx512vnni, avx512, avxvnni, avx2 or portable (default WEIR_CPU, else native)")
	flags.StringVar(&f.precision, "precision", "f32",
		"f32, or bf16 or int8: the type of products with weights, which take half or a quarter of the bytes in bf16 or int8")
	flags.Var(&size{to: &f.budget}, "budget", "the most memory that the loaded model may take, such as 512MiB")
}

// embed prints or writes the vectors of texts.
func (c *cli) embed(ctx context.Context, f *embedFlags, model string, texts []string) error {
	if f.input != "" {
		var err error
		if texts, err = lines(f.input); err != nil {
			return err
		}
	}
	if _, err := os.Stat(model); err != nil {
		return named(err)
	}
	options, _, err := f.options()
	if err != nil {
		return err
	}
	options.Dims = nil
	f.Compile = options
	bar := c.progress(0, "compiling")
	f.Compile.Logger = bar.logger()
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

// lines returns the lines of a file; - is standard input.
func lines(name string) (list []string, err error) {
	var from io.Reader = os.Stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, named(err)
		}
		defer file.Close()
		from = file
	}
	s := bufio.NewScanner(from)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		list = append(list, s.Text())
	}
	return list, s.Err()
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

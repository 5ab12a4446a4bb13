// Command filetype recognises the types of files by their contents, with the model of the package magika.
//
//	python3 examples/filetype/fetch.py      # once: puts the model into .cache/magika
//	go run ./examples/filetype FILE...
//
// The model reads the first and the last 1,024 bytes of a file. It runs over all files of a command in batches: its
// batch dimension is free, and the memory of a batch is known before the first run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"text/tabwriter"

	"github.com/weirml/weir"
)

// largestBatch limits the memory of a run for any number of files.
const largestBatch = 64

func main() {
	folder := flag.String("model", filepath.Join(".cache", "magika"), "the folder that fetch.py filled")
	confidence := flag.String("mode", string(highConfidence), "how sure to be: high, medium or guess")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: filetype [flags] FILE...\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	m := mode(*confidence)
	if flag.NArg() == 0 || m != highConfidence && m != mediumConfidence && m != bestGuess {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := identifyAll(ctx, *folder, flag.Args(), m); err != nil {
		fmt.Fprintln(os.Stderr, "filetype:", err)
		os.Exit(1)
	}
}

// identifyAll prints a line for each path. A file that cannot be read is reported at the end, after the others'
// answers.
func identifyAll(ctx context.Context, folder string, paths []string, m mode) error {
	d, err := open(ctx, folder, m)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w\nthe model is not there: run  python3 examples/filetype/fetch.py", err)
	}
	if err != nil {
		return err
	}
	defer d.Close()
	answers, unread, err := d.identify(ctx, paths)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, path := range paths {
		if a, ok := answers[path]; ok {
			fmt.Fprintf(table, "%s\t%s\t%5.1f%%\t%s\n", path, a.Label, 100*a.Score, d.labels.describe(a.Label))
		}
	}
	return errors.Join(table.Flush(), unread)
}

// detector is the compiled model with its tables.
type detector struct {
	labels  *labels
	program *weir.Program
	mode    mode
}

// open compiles the model in a folder, and reads its tables.
func open(ctx context.Context, folder string, m mode) (*detector, error) {
	l, err := loadLabels(folder)
	if err != nil {
		return nil, err
	}
	model, err := weir.Load(filepath.Join(folder, "model.onnx"))
	if err != nil {
		return nil, err
	}
	defer model.Close()
	batch := model.Inputs()[0].Shape[0].Dim
	program, err := weir.Compile(ctx, model, weir.Options{Dims: map[string]weir.Range{batch: {Min: 1, Max: largestBatch}}})
	if err != nil {
		return nil, err
	}
	return &detector{labels: l, program: program, mode: m}, nil
}

// Close frees the program's memory.
func (d *detector) Close() error { return d.program.Close() }

// identify returns an answer for each path. Files that cannot be read have none; their errors are joined in unread.
func (d *detector) identify(ctx context.Context, paths []string) (answers map[string]answer, unread, err error) {
	answers = make(map[string]answer, len(paths))
	var waiting []string
	var tokens []int32
	flush := func() error {
		batch, err := d.run(ctx, tokens, len(waiting))
		for i, a := range batch {
			answers[waiting[i]] = a
		}
		waiting, tokens = waiting[:0], tokens[:0]
		return err
	}
	for _, path := range paths {
		f, known, err := d.read(path)
		switch {
		case err != nil:
			unread = errors.Join(unread, err)
		case known != nil:
			answers[path] = *known
		default:
			waiting, tokens = append(waiting, path), append(tokens, f.tokens...)
		}
		if len(waiting) == largestBatch {
			if err := flush(); err != nil {
				return nil, nil, err
			}
		}
	}
	if len(waiting) > 0 {
		if err := flush(); err != nil {
			return nil, nil, err
		}
	}
	return answers, unread, nil
}

// read returns the model's input for a path, or the answer if the model is not needed.
func (d *detector) read(path string) (f features, known *answer, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return features{}, nil, err
	}
	if info.IsDir() {
		return features{}, &answer{Label: "directory", Score: 1}, nil
	}
	if !info.Mode().IsRegular() {
		return features{}, &answer{Label: "unknown", Score: 1}, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return features{}, nil, err
	}
	defer file.Close()
	if f, err = d.labels.extract(file, info.Size()); err != nil {
		return features{}, nil, fmt.Errorf("%s: %w", path, err)
	}
	if f.tokens == nil {
		a := d.labels.few(f.head)
		known = &a
	}
	return f, known, nil
}

// run runs the model over n files.
func (d *detector) run(ctx context.Context, tokens []int32, n int) ([]answer, error) {
	input, err := weir.FromSlice(tokens, n, len(tokens)/n)
	if err != nil {
		return nil, err
	}
	results, err := d.program.Run(ctx, weir.Inputs{d.program.Inputs()[0].Name: input})
	if err != nil {
		return nil, err
	}
	defer results.Close()
	scores, err := weir.Copy[float32](results.At(0))
	if err != nil {
		return nil, err
	}
	width := len(d.labels.Labels)
	if len(scores) != n*width {
		return nil, fmt.Errorf("the model gave %d scores for %d files and %d labels", len(scores), n, width)
	}
	answers := make([]answer, n)
	for i := range answers {
		answers[i] = d.labels.decide(scores[i*width:(i+1)*width], d.mode)
	}
	return answers, nil
}

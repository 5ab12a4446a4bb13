package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
	"github.com/weirml/weir/classify"
	"github.com/weirml/weir/embed"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/offline"
	"github.com/weirml/weir/internal/values"
)

// resultsOfPart is the number of elements whose results are in one file by default.
const resultsOfPart = 1024

// eachFlags are the flags of run with --each.
type eachFlags struct {
	inputs string
	rows   int
	part   int
	format string
	shard  string
}

// register adds the flags to a command.
func (f *eachFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.inputs, "each", "",
		"run the model on each of these, and write the results into the folder --output in parts, which a further try does "+
			"not compute again: the files of a folder or a 'pattern', the lines of a .jsonl or .txt file, or the rows of a "+
			".npy or .npz file, or of .parquet files in weir-parquet")
	flags.Var(from(&f.rows, 0, 0), "rows",
		"with --each: the most rows that a run joins (default 32, or as many as --budget allows)")
	flags.Var(from(&f.part, 1, resultsOfPart), "part", "with --each: the elements whose results are in one file")
	flags.StringVar(&f.format, "format", "", "with --each: jsonl or npz (default jsonl for lines, else npz)")
	flags.StringVar(&f.shard, "shard", "0/1",
		"with --each: INDEX/COUNT, such as 3/16: compute the parts of one of so many jobs, counted from 0")
}

// check checks the flags beside those of run.
func (f *eachFlags) check(r *runFlags) error {
	switch {
	case r.output == "":
		return usageError{errors.New("--each writes its results into a folder: add --output")}
	case len(r.inputFlags.inputs) > 0 || r.top > 0 || r.expect != nil || r.compare != "" || r.values:
		return usageError{errors.New("--each has no --input, --top, --expect, --compare and --values")}
	case f.format != "" && f.format != "jsonl" && f.format != "npz":
		return usageError{fmt.Errorf("--format %s: it is jsonl or npz", f.format)}
	}
	_, _, err := f.shards()
	return err
}

// shards returns the numbers of --shard.
func (f *eachFlags) shards() (index, count int64, err error) {
	a, b, _ := strings.Cut(f.shard, "/")
	index, err1 := strconv.ParseInt(a, 10, 64)
	count, err2 := strconv.ParseInt(b, 10, 64)
	if err1 != nil || err2 != nil || index < 0 || count <= index {
		return 0, 0, usageError{fmt.Errorf("--shard %s: write INDEX/COUNT, such as 0/4 for the first of 4", f.shard)}
	}
	return index, count, nil
}

// run runs the model at path on every element.
func (f *eachFlags) run(ctx context.Context, r *runFlags, path string) error {
	if err := f.check(r); err != nil {
		return err
	}
	source, err := offline.Open(f.inputs, r.c.readers)
	if err != nil {
		return err
	}
	digest, err := offline.Digest(path)
	if err != nil {
		return named(err)
	}
	index, count, err := f.shards()
	if err != nil {
		return err
	}
	job := &offline.Job{Source: source, Model: digest, Output: r.output, Format: f.format, Part: int64(f.part),
		Shard: index, Shards: count, Options: strings.Join(append([]string{r.precision}, r.dims...), " ")}
	if job.Format == "" {
		job.Format = "npz"
		if source.Len() < 0 {
			job.Format = "jsonl"
		}
	}
	work, err := f.worker(ctx, r, path)
	if err != nil {
		return err
	}
	defer work.close()
	job.Work = work
	bar := r.c.progress(int(max(0, source.Len()/count)), "running "+shortened(filepath.Base(path), nameColumns))
	job.Ended = func() { bar.add(1) }
	begin := time.Now()
	report, err := job.Run(ctx)
	took := time.Since(begin)
	bar.finish()
	if err != nil {
		return err
	}
	return work.tell(r.c, report, took, job)
}

// eachWorker is a loaded model with what it holds, for the report.
type eachWorker struct {
	offline.Worker
	close       func()
	certificate int64  // bytes of the model and its runs; −1 if it has no bound
	joins       string // why elements are not joined; "" if they are
	rows        int
}

// worker loads and compiles the model: a folder of a model that reads texts, or any other model.
func (f *eachFlags) worker(ctx context.Context, r *runFlags, path string) (*eachWorker, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() || strings.EqualFold(filepath.Ext(f.inputs), ".txt") {
		return f.texts(ctx, r, path)
	}
	return f.tensors(ctx, r, path)
}

// texts loads a model that reads texts.
func (f *eachFlags) texts(ctx context.Context, r *runFlags, path string) (*eachWorker, error) {
	o, _, err := r.options()
	if err != nil {
		return nil, err
	}
	if len(o.Dims) > 0 || r.keep != nil || f.rows > 0 {
		return nil, usageError{errors.New("a model that reads texts has no --dim, --keep and --rows")}
	}
	o.Dims = nil
	bar := r.c.progress(0, "compiling "+shortened(filepath.Base(path), nameColumns))
	defer bar.finish()
	if o.Logger == nil {
		o.Logger = bar.logger()
	}
	vectors, err := embed.Load(ctx, path, embed.Options{Compile: o})
	if err == nil {
		return &eachWorker{Worker: &offline.Texts{Embed: vectors}, close: func() { vectors.Close() },
			certificate: vectors.Memory().Held()}, nil
	}
	if !errors.Is(err, weir.ErrUnsupported) {
		return nil, err
	}
	labels, other := classify.Load(ctx, path, classify.Options{Compile: o})
	switch {
	case errors.Is(other, weir.ErrUnsupported):
		return nil, err
	case other != nil:
		return nil, other
	}
	return &eachWorker{Worker: &offline.Texts{Classify: labels}, close: func() { labels.Close() },
		certificate: labels.Memory().Held()}, nil
}

// rowsTogether is the number of rows that are joined by default: more are hardly faster.
const rowsTogether = 32

// tensors compiles a model, and joins elements if it is proved that its rows do not depend on each other.
func (f *eachFlags) tensors(ctx context.Context, r *runFlags, path string) (*eachWorker, error) {
	budget := r.budget
	r.budget = 0 // it decides how many rows are joined, if any are
	l, dims, err := r.compile(ctx, path, r.kept)
	if err != nil {
		return nil, err
	}
	w := &eachWorker{certificate: -1, close: l.Close}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	b, err := f.batcher(l.program, dims, budget)
	switch {
	case err == nil:
		w.Worker = &offline.Tensors{Program: l.program, Batcher: b, Calls: r.calls}
		w.close = func() {
			b.Close()
			l.Close()
		}
		w.rows = b.MostRows()
	case f.rows > 1 || errors.Is(err, weir.ErrBudget):
		return nil, err
	default:
		w.joins, err = err.Error(), nil
		w.Worker = &offline.Tensors{Program: l.program, Calls: r.calls}
	}
	at := maps.Clone(dims)
	if rows, ok := rowDim(l.program); ok && b != nil {
		at[rows] = int64(w.rows)
	}
	if peak, err := l.program.Memory().Peak(r.calls, at); err == nil {
		w.certificate = peak
	} else if peak, err := l.program.Memory().Max(r.calls); err == nil {
		w.certificate = peak
	}
	if budget > 0 && w.certificate > budget {
		err = diag.New(weir.ErrBudget, "%d bytes, of a budget of %d", w.certificate, budget)
		return nil, err // which closes the program
	}
	return w, nil
}

// rowDim returns the name of the first axis of a program's first input.
func rowDim(p *weir.Program) (name string, ok bool) {
	in := p.Inputs()
	if len(in) == 0 || len(in[0].Shape) == 0 {
		return "", false
	}
	name = in[0].Shape[0].Dim
	return name, name != ""
}

// batcher returns a batcher whose runs have as many rows as are asked for, or as fit in the budget.
func (f *eachFlags) batcher(p *weir.Program, dims weir.Dims, budget int64) (*batch.Batcher, error) {
	name, ok := rowDim(p)
	if !ok {
		return nil, diag.Unsupportedf("a model without rows that a run may choose")
	}
	if f.rows == 0 {
		if err := p.Rows(name); err != nil {
			return nil, err
		}
	}
	rows := f.rows
	if rows == 0 {
		rows = rowsTogether
		for _, d := range p.Dims() {
			if d.Name == name {
				rows = int(min(int64(rows), d.Max))
			}
		}
	}
	at := maps.Clone(dims)
	if size, bound := dims[name]; bound {
		rows = int(size)
	}
	for ; budget > 0; rows /= 2 {
		at[name] = int64(rows)
		peak, err := p.Memory().Peak(p.Stats().Calls, at)
		if err != nil {
			return nil, diag.New(weir.ErrBudget, "the memory of a run depends on more than its rows: %w", err).
				WithFix("bind all dimensions with --dim")
		}
		if peak <= budget {
			break
		}
		if rows == 1 || f.rows > 0 {
			return nil, diag.New(weir.ErrBudget, "the peak is %d bytes with %d rows, %d are allowed", peak, rows, budget).
				WithFix("a budget of %d bytes works", peak)
		}
	}
	return batch.New(p, batch.Options{Rows: rows, Account: &unlimited{}})
}

// unlimited is an account that grants everything: the dimensions of the elements need no bounds.
type unlimited struct{}

func (unlimited) Take(context.Context, int64) error { return nil }
func (unlimited) Give(int64)                        {}

// tell prints the report of a job. Elements that failed make the command fail.
func (w *eachWorker) tell(c *cli, report offline.Report, took time.Duration, job *offline.Job) error {
	computed := report.Elements - report.Failed
	perSecond := float64(computed) / max(took.Seconds(), 1e-9)
	if c.json {
		all := map[string]any{"elements": report.Elements, "failed": report.Failed, "parts_kept": report.Kept,
			"parts_kept_with_errors": report.Faulty,
			"parts_written":          report.Written, "seconds": took.Seconds(), "per_second": perSecond, "rows": w.rows,
			"certificate_bytes": nil, "joined": w.joins == ""}
		if w.certificate >= 0 {
			all["certificate_bytes"] = w.certificate
		}
		if err := c.printJSON(all); err != nil {
			return err
		}
	} else {
		stdout.Printf("%d elements in %.1f s, %.1f elements/s, into %d parts", computed, took.Seconds(), perSecond,
			report.Written)
		if report.Kept > 0 {
			stdout.Printf(" beside the %d that were there", report.Kept)
		}
		stdout.Printf("\n")
		if w.joins != "" {
			stdout.Printf("elements are run one by one: %s\n", w.joins)
		}
		if w.certificate >= 0 {
			stdout.Printf("memory  %s of the model and its runs\n", values.FormatBytes(w.certificate))
		}
	}
	if report.Failed+report.Faulty == 0 {
		return nil
	}
	if report.Faulty > 0 {
		fmt.Fprintf(os.Stderr, "weir: %d parts that were there have elements that failed\n", report.Faulty)
	}
	if report.Failed > 0 {
		fmt.Fprintf(os.Stderr, "weir: %d elements failed, the first: %v\n", report.Failed, report.First)
	}
	fmt.Fprintf(os.Stderr, "weir: they are in %s\n", filepath.Join(job.Output, "part-*.errors.jsonl"))
	return errFailed
}

package command

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/manifest"
)

// jobHeap is Go's heap of weir run --each, without the results of a part: that of every program, and pictures that are
// being decoded, which may have 4 million pixels for each processor.
const jobHeap = 64 << 20

// job prints the manifest of a Job that runs the model at path on every element.
func (f *planFlags) job(ctx context.Context, path string) error {
	l, bound, err := f.compile(ctx, path, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := served(l.program); err != nil {
		return err
	}
	asked, err := l.program.Memory().Asked(f.calls, bound)
	if err != nil {
		return unbounded(l.program, bound, err)
	}
	outputs, err := outputBytes(l.program, bound)
	if err != nil {
		return err
	}
	rows, flags := f.together(l.program, bound)
	if asked.Arguments > 1<<50/int64(f.calls) || outputs > 1<<50/resultsOfPart {
		return diag.Inputf("%d calls take more than 2⁵⁰ bytes", f.calls).WithFix("bind smaller dimensions")
	}
	heap := jobHeap + 3*resultsOfPart*(outputs/int64(rows)+1)
	j := manifest.Job{Name: servedName(path), Model: filepath.Base(path), Inputs: first(f.each, "inputs"), Flags: flags,
		Heap: heap, Threads: l.program.Memory().Workers, Shards: f.shards,
		Notes: []string{fmt.Sprintf("weir run --each with %s, in %s.", filepath.Base(path), counted(f.shards, "pod"))},
		Terms: []manifest.Term{
			{Bytes: asked.Total(), What: "the certificate's limit for " + counted(f.calls, "call") +
				": weights, code, runs, arguments"},
			{Bytes: 2 * int64(f.calls) * asked.Arguments, What: "elements in progress, twice those of the runs"},
			{Bytes: heap, What: "Go's heap: 64MiB, and the results of a part"},
			{Bytes: serverProgram, What: "the program's file, whose pages the system may take back"}}}
	file, err := manifest.WriteJob(j, manifest.Options{Image: first(f.image, "weir"), Storage: f.storage})
	if err != nil {
		return usageError{err}
	}
	if !f.c.json {
		stdout.Print(string(file.Text))
		return nil
	}
	out := plannedManifest{Form: f.form, Terms: j.Terms, Manifest: string(file.Text)}
	for _, t := range j.Terms {
		out.Memory += t.Bytes
	}
	return f.c.printJSON(out)
}

// together returns the rows that a run joins at the bound dimensions, and the flags with which weir run does the same.
func (f *planFlags) together(p *weir.Program, bound weir.Dims) (rows int, flags []string) {
	for _, d := range f.dims {
		flags = append(flags, "--dim="+d)
	}
	if f.calls > 1 {
		flags = append(flags, fmt.Sprintf("--calls=%d", f.calls))
	}
	for _, flag := range []struct{ name, value, otherwise string }{{"precision", f.precision, "f32"}, {"cpu", f.cpu, ""}} {
		if flag.value != flag.otherwise {
			flags = append(flags, "--"+flag.name+"="+flag.value)
		}
	}
	if f.budget > 0 {
		flags = append(flags, fmt.Sprintf("--budget=%d", f.budget))
	}
	rows = 1
	name, ok := rowDim(p)
	if !ok || p.Rows(name) != nil {
		return rows, flags
	}
	for _, d := range p.Dims() {
		if d.Name == name {
			rows = int(min(d.Max, 1<<20))
		}
	}
	if size, given := bound[name]; given {
		rows = int(size)
	}
	return rows, append(flags, fmt.Sprintf("--rows=%d", rows))
}

// Package offline runs a model on every element of files, folders and lines, and writes the results in parts that a run
// which was ended, by a signal or with its machine, does not compute again.
package offline

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"

	"github.com/weirml/weir/batch"
	"github.com/weirml/weir/internal/diag"
)

// Job is the work on a source's elements.
type Job struct {
	Source Source
	Work   Worker
	Model  string // the digest of the model
	// Options are those that change results, as text.
	Options string
	Output  string // the folder of the results
	Format  string // npz or jsonl
	Part    int64  // the elements of a part
	// Parts are dealt to Shards jobs, which may run at the same time; this one has those whose number leaves the
	// remainder Shard.
	Shard, Shards int64
	Ended         func() // is called after each element that is computed; may be nil
}

// Report is what a job has done.
type Report struct {
	Elements int64 // that were computed, those that failed included
	Failed   int64
	Kept     int64 // parts that were there
	Faulty   int64 // of them with elements that failed
	Written  int64 // parts
	First    error // of the first element that failed
}

// Run computes the parts that are not there yet. An element that fails is written to the errors of its part, and the
// others go on; an error that is not the element's ends the job, as does a first part all of whose elements fail.
func (j *Job) Run(ctx context.Context) (report Report, err error) {
	m := manifest{Model: j.Model, Inputs: j.Source.Digest(), Outputs: j.Work.Outputs(), Format: j.Format, Part: j.Part,
		Options: j.Options}
	if err := m.agree(j.Output); err != nil {
		return report, err
	}
	last, there := int64(-1), false // the part of the index before, and whether it is there
	wanted := func(index int64) bool {
		number := index / j.Part
		if number%j.Shards != j.Shard {
			return false
		}
		if number != last {
			_, err := os.Stat(j.name(number))
			last, there = number, err == nil || !errors.Is(err, fs.ErrNotExist)
			if there {
				report.Kept++
				if _, err := os.Stat(j.errors(number)); err == nil {
					report.Faulty++
				}
			}
		}
		return !there
	}
	var reading error
	elements := func(yield func(Element) bool) {
		for e, err := range j.Source.Elements(j.Work.Inputs(), wanted) {
			if err != nil {
				reading = err
				return
			}
			if !yield(e) {
				return
			}
		}
	}
	run := func(ctx context.Context, e Element) (result, error) {
		if e.Err != nil {
			return result{index: e.Index, name: e.Name, err: e.Err}, nil
		}
		v, err := j.Work.Run(ctx, e)
		return result{e.Index, e.Name, v, err}, nil
	}
	var p *part
	flush := func() error {
		if p == nil {
			return nil
		}
		if report.Written == 0 && report.Kept == 0 && len(p.results) == 0 {
			e := diag.As(p.failed[0].err, diag.ErrInternal)
			return e.WithFix("all %d elements of the first part failed: check the inputs", len(p.failed))
		}
		if err := j.write(p); err != nil {
			return err
		}
		report.Written++
		return nil
	}
	for r, err := range batch.Each(ctx, iter.Seq[Element](elements), j.Work.Width(), run) {
		if err != nil { // a bug, caught
			return report, err
		}
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
		number := r.index / j.Part
		if p == nil || p.number != number {
			if err := flush(); err != nil {
				return report, err
			}
			p = &part{number: number}
		}
		report.Elements++
		switch {
		case r.err == nil:
			p.results = append(p.results, r)
		case fatal(r.err):
			return report, r.err
		default:
			if report.Failed++; report.First == nil {
				report.First = r.err
			}
			p.failed = append(p.failed, r)
		}
		if j.Ended != nil {
			j.Ended()
		}
	}
	switch {
	case ctx.Err() != nil:
		return report, context.Cause(ctx)
	case reading != nil:
		return report, reading
	}
	return report, flush()
}

// fatal reports whether an error is not the element's own, so that another try may have none.
func fatal(err error) bool {
	return errors.Is(err, diag.ErrMemory) || errors.Is(err, diag.ErrClosed) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/values"
)

// tableWork is the work that the exact search may put into a table: some ten seconds.
const tableWork = 3 << 30

// plannedTable is what plan prints of a table as JSON: the keys of a model's plan, and where each buffer lies.
type plannedTable struct {
	planned
	Offsets []offsetRow `json:"offsets"`
}

type offsetRow struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset"`
}

// isTable reports whether a file is a table of buffers rather than a model.
func isTable(path string) bool { return strings.EqualFold(filepath.Ext(path), ".csv") }

// planTable plans the buffers of a table: id, lower, upper, size.
func (f *planFlags) planTable(ctx context.Context, path string) error {
	o, _, err := f.options()
	if err != nil {
		return err
	}
	if len(f.dims) > 0 {
		return usageError{fmt.Errorf("--dim: a table of buffers has no dimensions")}
	}
	if f.html != "" || f.diff != "" || f.actual {
		return usageError{fmt.Errorf("--html, --diff and --actual are of models; %s is a table of buffers", path)}
	}
	file, err := os.Open(path)
	if err != nil {
		return &weir.Error{Kind: weir.ErrInput, File: path, Detail: "it cannot be opened", Err: err}
	}
	defer file.Close()
	problem, err := memplan.ReadCSV(file)
	if err != nil {
		return diag.As(err, diag.ErrInput).AtFile(path)
	}
	p, err := solveTable(ctx, problem, int64(f.calls))
	if err != nil {
		return diag.As(err, diag.ErrInput).AtFile(path)
	}
	over := p.overBudget(nil, nil, o.Budget, nil)
	if f.c.json {
		if over != nil {
			return over
		}
		return f.c.printJSON(p)
	}
	p.print(len(problem.Buffers))
	return over
}

// solveTable plans and certifies a problem of numbers. An interrupt ends it; the planning that is under way is left behind.
func solveTable(ctx context.Context, problem memplan.Problem, calls int64) (*plannedTable, error) {
	type result struct {
		solution *memplan.Solution
		err      error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() { done <- r }()
		defer diag.Recover(&r.err, "memplan")
		r.solution, r.err = memplan.Plan(problem, memplan.Options{Work: tableWork})
	}()
	var r result
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r = <-done:
	}
	if r.err != nil {
		return nil, r.err
	}
	s := r.solution
	c, err := s.Certify(func(string) (int64, bool) { return 0, false })
	if err != nil {
		return nil, err
	}
	peak, overflows := c.Arena*calls, c.Arena > 0 && calls > (1<<62)/c.Arena
	if overflows {
		return nil, diag.Inputf("%d calls of %d bytes overflow 64 bits", calls, c.Arena)
	}
	least, _ := s.Least.Const()
	zero := int64(0)
	p := &plannedTable{planned: planned{Weights: &zero, Arena: &c.Arena, Outputs: &zero, Scratch: &zero, Code: &zero, Calls: int(calls),
		LowerBound: &c.Bound, Least: &least, Proven: s.Proven, Peak: &peak, PeakFormula: fmt.Sprint(peak), Alive: []aliveRow{}, Dims: []dimRow{}}, Offsets: []offsetRow{}}
	if len(c.Alive) > 0 {
		p.PeakAt = fmt.Sprintf("step %d", c.Step)
	}
	for _, a := range c.Alive {
		p.Alive = append(p.Alive, aliveRow{a.Name, a.Bytes})
	}
	for i, b := range problem.Buffers {
		at, _ := s.Offsets[i].Const()
		p.Offsets = append(p.Offsets, offsetRow{b.Name, at})
	}
	return p, nil
}

func (p *plannedTable) print(buffers int) {
	fmt.Printf("%-14s %d\n", "buffers", buffers)
	fmt.Printf("%-14s %d (%s)\n", "arena", *p.Arena, values.FormatBytes(*p.Arena))
	if p.Calls > 1 {
		fmt.Printf("%-14s %d (%s) = %d calls × arena\n", "peak", *p.Peak, values.FormatBytes(*p.Peak), p.Calls)
	}
	fmt.Printf("%-14s %d (%s)\n", "lower bound", *p.LowerBound, values.FormatBytes(*p.LowerBound))
	p.printGap()
	if p.PeakAt != "" {
		fmt.Printf("%-14s %s, with alive:\n", "peak at", p.PeakAt)
		for _, a := range p.Alive {
			fmt.Printf("%-14s   %s  %s\n", "", a.Tensor, values.FormatBytes(a.Bytes))
		}
	}
}

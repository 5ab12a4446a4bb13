package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/planpage"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/values"
)

// tableWork is the work limit of the optimal search for a table, about ten seconds.
const tableWork = 3 << 30

// plannedTable is the JSON output of plan for a table: the keys of a model's plan, and the offset of each buffer.
type plannedTable struct {
	planned
	Offsets []offsetRow `json:"offsets"`

	peakStep int
}

type offsetRow struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset"`
}

// isTable reports whether a file is a table of buffers and not a model.
func isTable(path string) bool { return strings.EqualFold(filepath.Ext(path), ".csv") }

// planTable plans the buffers of a table with the columns id, lower, upper, size.
func (f *planFlags) planTable(ctx context.Context, path string) error {
	o, _, err := f.options()
	if err != nil {
		return err
	}
	if len(f.dims) > 0 {
		return usageError{fmt.Errorf("--dim: a table of buffers has no dimensions")}
	}
	if f.diff != "" || f.actual {
		return usageError{fmt.Errorf("--diff and --actual are of models; %s is a table of buffers", path)}
	}
	file, err := os.Open(path)
	if err != nil {
		e := &weir.Error{Kind: weir.ErrInput, File: path, Detail: "it cannot be opened", Err: err}
		if errors.Is(err, fs.ErrNotExist) {
			return missingError{e}
		}
		return e
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
	if f.html != "" {
		page := p.page(shortName(path), problem)
		if err := writePageTo(f.html, page.Name, planpage.Data{Plans: []planpage.Plan{page}}); err != nil {
			return err
		}
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

// solveTable plans and certifies a problem. If ctx ends, it returns, and the planner's goroutine continues.
func solveTable(ctx context.Context, problem memplan.Problem, calls int64) (*plannedTable, error) {
	type result struct {
		solution *memplan.Solution
		err      error
	}
	done := make(chan result, 1)
	var solution *memplan.Solution
	diag.Go("memplan", func() (err error) {
		solution, err = memplan.Plan(problem, memplan.Options{Work: tableWork})
		return err
	}, func(err error) { done <- result{solution, err} })
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
	c, err := s.Certify(func(sym.Name) (int64, bool) { return 0, false })
	if err != nil {
		return nil, err
	}
	peak, overflows := c.Arena*calls, c.Arena > 0 && calls > (1<<62)/c.Arena
	if overflows {
		return nil, diag.Inputf("%d calls of %d bytes overflow 64 bits", calls, c.Arena)
	}
	least, _ := s.Least.Const()
	zero := int64(0)
	p := &plannedTable{planned: planned{Weights: &zero, Arena: &c.Arena, Outputs: &zero, Scratch: &zero, Code: &zero,
		Calls:      int(calls),
		LowerBound: &c.Bound, Least: &least, Proven: s.Proven, Peak: &peak, PeakFormula: fmt.Sprint(peak),
		Alive: []aliveRow{}, Dims: []dimRow{}}, Offsets: []offsetRow{}}
	p.peakStep = c.Step
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

// mostSteps is the number of steps up to which the page shows each of the table's. Above it, a step at which no buffer
// begins or ends is drawn together with the step before.
const mostSteps = 10_000

// page returns the table's plan for the page of plans.
func (p *plannedTable) page(name string, problem memplan.Problem) planpage.Plan {
	begins := map[int]bool{0: true}
	last := -1
	for _, b := range problem.Buffers {
		begins[b.First], begins[b.Last+1] = true, true
		last = max(last, b.Last)
	}
	delete(begins, last+1)
	if last < mostSteps {
		for step := range last + 1 {
			begins[step] = true
		}
	}
	if last < 0 {
		clear(begins)
	}
	times := slices.Sorted(maps.Keys(begins))
	index := func(step int) int {
		at, found := slices.BinarySearch(times, step)
		return at - map[bool]int{false: 1}[found]
	}
	plan := &weir.Plan{Dims: weir.Dims{}, Calls: p.Calls, Workers: 1, Arena: *p.Arena, Peak: *p.Peak,
		LowerBound: *p.LowerBound, Least: *p.Least, Proven: p.Proven, PeakStep: -1,
		Steps:    make([]weir.PlanStep, len(times)),
		Storages: []weir.PlanStorage{{Name: "arena", Kind: "arena", Bytes: *p.Arena}},
		Buffers:  make([]weir.PlanBuffer, len(problem.Buffers))}
	if len(times) > 0 {
		plan.PeakStep = index(p.peakStep)
	}
	for i, first := range times {
		end := last
		if i+1 < len(times) {
			end = times[i+1] - 1
		}
		plan.Steps[i] = weir.PlanStep{Kind: "time", Name: fmt.Sprintf("step %d", first)}
		if end > first {
			plan.Steps[i].Name = fmt.Sprintf("steps %d to %d", first, end)
		}
	}
	for i, b := range problem.Buffers {
		size, _ := b.Size.Const()
		plan.Buffers[i] = weir.PlanBuffer{Name: b.Name, Shape: []int64{}, Offset: p.Offsets[i].Offset, Bytes: size,
			First: index(b.First), Last: index(b.Last), Reached: -1}
		for step := plan.Buffers[i].First; step <= plan.Buffers[i].Last; step++ {
			plan.Steps[step].Live += size
		}
	}
	page := planpage.Plan{Name: name, Plan: plan, Table: true, Formulas: map[string]string{},
		Notes: []string{fmt.Sprintf("A table of %d buffers in %d steps.", len(problem.Buffers), last+1)}}
	if len(times) <= last {
		page.Notes = append(page.Notes,
			fmt.Sprintf("Steps between which nothing begins or ends are drawn as one: %d are left.", len(times)))
	}
	return page
}

// print prints the table's plan for a person.
func (p *plannedTable) print(buffers int) {
	stdout.Printf("%-14s %d\n", "buffers", buffers)
	stdout.Printf("%-14s %d (%s)\n", "arena", *p.Arena, values.FormatBytes(*p.Arena))
	if p.Calls > 1 {
		stdout.Printf("%-14s %d (%s) = %d calls × arena\n", "peak", *p.Peak, values.FormatBytes(*p.Peak), p.Calls)
	}
	stdout.Printf("%-14s %d (%s)\n", "lower bound", *p.LowerBound, values.FormatBytes(*p.LowerBound))
	p.printGap()
	if p.PeakAt != "" {
		stdout.Printf("%-14s %s, with alive:\n", "peak at", p.PeakAt)
		for _, a := range p.Alive {
			stdout.Printf("%-14s   %s  %s\n", "", a.Tensor, values.FormatBytes(a.Bytes))
		}
	}
}

package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/planpage"
	"github.com/weirml/weir/internal/values"
)

// planDiff is the difference of two plans.
type planDiff struct {
	Terms   []termDiff   `json:"terms"`
	Tensors []tensorDiff `json:"tensors"` // by the difference in bytes × steps, largest first
	Same    int          `json:"same"`    // the number of tensors with equal offset, size and number of steps
}

// termDiff is a term of the certificate in both plans, in bytes.
type termDiff struct {
	Term   string `json:"term"`
	First  int64  `json:"first"`
	Second int64  `json:"second"`
}

// tensorDiff is a tensor that differs between the plans.
type tensorDiff struct {
	Tensor string `json:"tensor"`
	// "only in first", "only in second", "grown", "shrunk", "moved", "longer alive", "shorter alive"
	What   []string     `json:"what"`
	First  *tensorRange `json:"first"`
	Second *tensorRange `json:"second"`
}

// tensorRange is the offset and live range of a tensor in one plan.
type tensorRange struct {
	Buffer  int    `json:"buffer"` // index in the plan's buffers
	Storage string `json:"storage"`
	Offset  int64  `json:"offset"`
	Bytes   int64  `json:"bytes"`
	First   int    `json:"first"`
	Last    int    `json:"last"`
}

// diffPlans compares two plans. Tensors are matched by the model's names, or else by the compiler's; a name with
// several live ranges is matched by their order.
func diffPlans(a, b *weir.Plan) *planDiff {
	d := &planDiff{Tensors: []tensorDiff{}}
	for _, t := range []struct {
		name string
		of   func(p *weir.Plan) int64
	}{
		{"weights", func(p *weir.Plan) int64 { return p.Weights }},
		{"code", func(p *weir.Plan) int64 { return p.Code }},
		{"arena", func(p *weir.Plan) int64 { return p.Arena }},
		{"outputs", func(p *weir.Plan) int64 { return p.Outputs }},
		{"scratch", func(p *weir.Plan) int64 { return int64(p.Workers) * p.Scratch }},
		{"peak", func(p *weir.Plan) int64 { return p.Peak }},
		{"lower bound", func(p *weir.Plan) int64 { return p.LowerBound }},
	} {
		d.Terms = append(d.Terms, termDiff{t.name, t.of(a), t.of(b)})
	}
	first, names := rangesOf(a)
	second, others := rangesOf(b)
	for _, n := range others {
		if first[n] == nil {
			names = append(names, n)
		}
	}
	for _, n := range names {
		t := tensorDiff{Tensor: n, First: first[n], Second: second[n]}
		if t.What = t.changes(); len(t.What) > 0 {
			d.Tensors = append(d.Tensors, t)
		} else {
			d.Same++
		}
	}
	weight := func(s *tensorRange) int64 {
		if s == nil {
			return 0
		}
		return s.Bytes * int64(s.Last-s.First+1)
	}
	slices.SortStableFunc(d.Tensors, func(x, y tensorDiff) int {
		dx, dy := weight(x.Second)-weight(x.First), weight(y.Second)-weight(y.First)
		return int(max(-1, min(1, max(dy, -dy)-max(dx, -dx))))
	})
	return d
}

// rangesOf returns a plan's tensors by name, and the names in the order of their first steps.
func rangesOf(p *weir.Plan) (map[string]*tensorRange, []string) {
	spans, names := map[string]*tensorRange{}, []string{}
	for i, b := range p.Buffers {
		base := b.Tensor
		if base == "" {
			base = b.Name
		}
		name := base
		for again := 2; spans[name] != nil; again++ {
			name = fmt.Sprintf("%s (%d)", base, again)
		}
		spans[name] = &tensorRange{i, p.Storages[b.Storage].Name, b.Offset, b.Bytes, b.First, b.Last}
		names = append(names, name)
	}
	return spans, names
}

// changes describes the differences.
func (t *tensorDiff) changes() (what []string) {
	a, b := t.First, t.Second
	switch {
	case b == nil:
		return []string{"only in first"}
	case a == nil:
		return []string{"only in second"}
	case b.Bytes > a.Bytes:
		what = append(what, "grown")
	case b.Bytes < a.Bytes:
		what = append(what, "shrunk")
	}
	if a.Offset != b.Offset || a.Storage != b.Storage {
		what = append(what, "moved")
	}
	if x, y := a.Last-a.First, b.Last-b.First; y > x {
		what = append(what, "longer alive")
	} else if y < x {
		what = append(what, "shorter alive")
	}
	return what
}

// compare implements plan --diff: the model at path is the first, the other model the second.
func (f *planFlags) compare(ctx context.Context, path string, budget int64) error {
	if isTable(f.diff) {
		return usageError{fmt.Errorf("--diff compares models; %s is a table of buffers", f.diff)}
	}
	pages := make([]planpage.Plan, 2)
	for i, file := range []string{path, f.diff} {
		g := *f
		var err error
		if g.dims, err = f.dimsOf(file, []string{f.diff, path}[i]); err != nil {
			return err
		}
		l, bound, refused, err := g.within(ctx, file, budget)
		if err == nil && refused != nil {
			l.Close()
			err = refused
		}
		if err != nil {
			return err
		}
		pages[i], err = g.draw(ctx, file, l, bound)
		l.Close()
		if err != nil {
			return err
		}
	}
	if pages[0].Name == pages[1].Name {
		pages[0].Name, pages[1].Name = path, f.diff
	}
	d := diffPlans(pages[0].Plan, pages[1].Plan)
	if f.html != "" {
		if err := writePageTo(f.html, pages[0].Name+" and "+pages[1].Name, planpage.Data{Plans: pages, Diff: d}); err != nil {
			return err
		}
	}
	if f.c.json {
		return f.c.printJSON(struct {
			Files [2]string           `json:"files"`
			Dims  [2]weir.Dims        `json:"dims"`
			Equal [2]*weir.PlanActual `json:"actual,omitzero"`
			*planDiff
		}{[2]string{path, f.diff}, [2]weir.Dims{pages[0].Plan.Dims, pages[1].Plan.Dims},
			[2]*weir.PlanActual{pages[0].Plan.Actual, pages[1].Plan.Actual}, d})
	}
	d.print(path, f.diff, pages)
	return nil
}

// dimsOf returns the dimensions of --dim that a model has, and those that neither model has: compiling refuses these by
// name.
func (f *planFlags) dimsOf(path, other string) ([]string, error) {
	var has [2]map[string]bool
	for i, file := range []string{path, other} {
		m, err := load(file)
		if err != nil {
			return nil, err
		}
		has[i] = map[string]bool{}
		for _, info := range m.Inputs() {
			for _, e := range info.Shape {
				has[i][e.Dim] = true
			}
		}
		m.Close()
	}
	return slices.DeleteFunc(slices.Clone(f.dims), func(d string) bool {
		name, _, _ := strings.Cut(d, "=")
		return has[1][name] && !has[0][name]
	}), nil
}

// mostPrinted is the number of tensors that the printed output lists; JSON and the page have all.
const mostPrinted = 40

// print prints the differences for a person.
func (d *planDiff) print(first, second string, pages []planpage.Plan) {
	stdout.Printf("first   %s\nsecond  %s\n\n", first, second)
	for _, p := range pages {
		for _, n := range p.Notes {
			stdout.Printf("%s: %s\n", p.Name, n)
		}
	}
	stdout.Printf("%-14s %20s %20s %20s\n", "", "first", "second", "difference")
	for _, t := range d.Terms {
		stdout.Printf("%-14s %20s %20s %20s\n", t.Term, values.FormatBytes(t.First), values.FormatBytes(t.Second),
			signed(t.Second-t.First))
	}
	if len(d.Tensors) > 0 {
		stdout.Println()
	}
	where := func(s *tensorRange) string {
		if s == nil {
			return "–"
		}
		return fmt.Sprintf("%s at %s+%d, steps %d–%d", values.FormatBytes(s.Bytes), s.Storage, s.Offset, s.First, s.Last)
	}
	for i, t := range d.Tensors {
		if i == mostPrinted {
			stdout.Printf("… and %d more: --json and --html have them\n", len(d.Tensors)-i)
			break
		}
		stdout.Printf("%s: %s\n  %s → %s\n", t.Tensor, strings.Join(t.What, ", "), where(t.First), where(t.Second))
	}
	stdout.Printf("\n%d tensors differ, %d are the same\n", len(d.Tensors), d.Same)
	for _, p := range pages {
		if p.Plan.Actual != nil {
			stdout.Printf("%s: actual: %s\n", p.Name, actualText(p.Plan.Actual))
		}
	}
}

// signed formats a size with its sign.
func signed(n int64) string {
	switch {
	case n == 0:
		return "0"
	case n < 0:
		return "−" + values.FormatBytes(-n)
	}
	return "+" + values.FormatBytes(n)
}

// actualText returns a line that says whether a run kept to the plan.
func actualText(a *weir.PlanActual) string {
	if a.Equal {
		text := fmt.Sprintf("equal to the plan: %d operand ranges lie in the buffers alive at their steps, and each was "+
			"reached to its last byte", a.Ranges)
		if a.Unused > 0 {
			text += fmt.Sprintf("; %d buffers are of branches or loops that were not entered", a.Unused)
		}
		return text
	}
	if len(a.Outside) == 0 && len(a.Short) == 0 {
		return fmt.Sprintf("within the plan: %d operand ranges lie in the buffers alive at their steps, and each was "+
			"reached to its last byte; data decided fewer bytes than planned for %d buffers", a.Ranges, a.Bounded)
	}
	return fmt.Sprintf("not the plan: of %d operand ranges %d lie outside the buffers alive at their steps; %d buffers "+
		"were not reached to their last byte", a.Ranges, len(a.Outside), len(a.Short))
}

// draw returns a program's plan for the page; with --actual, with the offsets that a run observed.
func (f *planFlags) draw(ctx context.Context, path string, l *loaded, bound weir.Dims) (page planpage.Plan, err error) {
	var plan *weir.Plan
	d, notes := planpage.FreeDims(l.program, bound, "--dim ")
	if f.actual {
		notes = nil
		in, err := f.inputFlags.read(l.program, maps.Clone(bound), true, func(p *weir.Program, learned weir.Dims) {
			chosen, said := planpage.FreeDims(p, learned, "--dim ")
			maps.Copy(learned, chosen)
			notes = said
		})
		if err != nil {
			return page, err
		}
		if plan, err = l.program.Observe(ctx, in); err != nil {
			return page, err
		}
	} else if plan, err = l.program.Plan(d); err != nil {
		return page, err
	}
	return planpage.NewPlan(shortName(path), l.program, plan, notes), nil
}

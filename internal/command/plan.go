package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/manifest"
	"github.com/weirml/weir/internal/planpage"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/text"
	"github.com/weirml/weir/internal/values"
)

// planFlags are the flags of plan.
type planFlags struct {
	modelFlags
	inputFlags
	manifestFlags
	form   manifest.Form // empty: no manifest
	html   string
	diff   string
	actual bool
	shards int
	each   string
}

// planCommand makes the command plan.
func (c *cli) planCommand() *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use: "plan MODEL", Short: "Print exactly how much memory a model will take", Args: exactly(1, "one MODEL"),
		Long: `Print exactly how much memory a model will take.

In place of a model, plan takes a .csv file with a table of buffers to place: a line id,lower,upper,size, then a line for each buffer, which is live
in the steps from lower to upper-1. A column alignment may follow. The plan is the smallest possible, or its output says how far it may be from that.

--html writes one page for any browser, which needs no other file: every buffer as a rectangle of addresses by steps, the lower bound, and the tensors that are live at
the peak or at any other step. Free dimensions are drawn at their upper bounds, or at 1. --diff compares two models, as text or on the page; if only one of them has
a dimension, --dim binds it in that one. --actual runs the model once, on --input or on random values, and compares the memory that its kernels receive with the plan.

--kubernetes prints a manifest instead, whose requests and limits of memory are those of weir-serve with this model and --calls requests at a time. Of
--kubernetes=job they are those of weir run --each, in each of --shards pods.`,
		Example: `  weir plan digits.onnx
  weir plan digits.onnx --dim batch=64 --calls 4
  weir plan digits.onnx --json
  weir plan digits.onnx --dim batch=64 --html plan.html --actual
  weir plan new.onnx --diff old.onnx
  weir plan buffers.csv
  weir plan resnet50.onnx --dim batch=1..8 --calls 2 --kubernetes | kubectl apply -f -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.form != "" {
				return f.kubernetes(cmd.Context(), args[0])
			}
			if isTable(args[0]) {
				return f.planTable(cmd.Context(), args[0])
			}
			return f.plan(cmd.Context(), args[0])
		},
	}
	f.modelFlags.register(cmd, c)
	f.inputFlags.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.html, "html", "", "also draw the plan, addresses by steps, as a page in this file")
	flags.StringVar(&f.diff, "diff", "", "compare with the plan of this model")
	flags.BoolVar(&f.actual, "actual", false, "run once, and compare the memory that kernels receive with the plan")
	flags.Var(formFlag{&f.form, true}, "kubernetes",
		"print a manifest for weir-serve: deployment, kserve or seldon; or an indexed job of weir run --each")
	flags.Lookup("kubernetes").NoOptDefVal = string(manifest.Deployment)
	f.manifestFlags.register(cmd, "for --kubernetes")
	flags.Var(from(&f.shards, 1, 1), "shards", "for --kubernetes=job, the number of pods that divide the work")
	flags.StringVar(&f.each, "each", "",
		"for --kubernetes=job, the inputs of weir run --each below the root of the claim data (default inputs)")
	return cmd
}

// planned is the JSON output of plan. Sizes are null if they depend on a dimension without a value.
type planned struct {
	Weights     *int64     `json:"weights_bytes"`
	Arena       *int64     `json:"arena_bytes"`
	Outputs     *int64     `json:"outputs_bytes"`
	Scratch     *int64     `json:"scratch_bytes"`
	Code        *int64     `json:"code_bytes"`
	Calls       int        `json:"calls"`
	Workers     int        `json:"workers"`
	LowerBound  *int64     `json:"lower_bound_bytes"`
	Least       *int64     `json:"least_bytes"` // the highest proved bound: at least lower_bound_bytes
	Proven      bool       `json:"proven"`
	Bounded     bool       `json:"bounded"`
	Exhausted   bool       `json:"proofs_exhausted,omitempty"` // see weir.Memory
	Peak        *int64     `json:"peak_bytes"`
	PeakFormula string     `json:"peak_formula"`
	Limit       *int64     `json:"limit_bytes"` // the least limit of SetLimit
	Asked       *askedRow  `json:"asked"`       // the terms of limit_bytes
	Folder      string     `json:"page_folder"` // of the program's own files: paged weights and spilled buffers
	InMemory    bool       `json:"page_folder_in_memory"`
	PeakAt      string     `json:"peak_at"`
	Alive       []aliveRow `json:"alive"`
	Dims        []dimRow   `json:"dims"`
	Largest     *int64     `json:"largest_step_bytes"`
	Fits        *int64     `json:"fits,omitempty"` // with --budget and one free dimension: the largest size that fits
	// with --budget and two: the largest sizes of the first for sizes of the second
	Region []fitRow `json:"region,omitempty"`
	// With --budget, if the plan was changed for it: the changes, and the bytes of the file that a run spills to.
	Savings []weir.Saving `json:"savings,omitempty"`
	Spill   *int64        `json:"spill_bytes,omitempty"`
	// Copies is the bytes that a run takes additionally if no argument has its input's declared layout.
	Copies  *int64    `json:"copies_bytes"`
	Layouts []laidRow `json:"layouts,omitempty"` // inputs with --layout
	// inputs that a run updates in place: memory of the caller, in none of the terms
	States []stateRow `json:"states,omitempty"`
	// For a device: each memory, the device's limits and kernels, and what the host computes.
	Spaces  []spaceRow          `json:"spaces,omitempty"`
	Limits  *weir.DeviceInfo    `json:"limits,omitempty"`
	Kernels []weir.DeviceKernel `json:"kernels,omitempty"`
	OnHost  []weir.OnHost       `json:"on_host,omitempty"`
	// With --actual.
	Actual *weir.PlanActual `json:"actual,omitempty"`
}

// stateRow is an input that a run updates in place or, if InPlace is false, by a copy at the end.
type stateRow struct {
	Input   string `json:"input"`
	Output  string `json:"output"`
	Bytes   *int64 `json:"bytes"`
	InPlace bool   `json:"in_place"`
	Initial bool   `json:"initial,omitempty"` // the program has an initial value, in weights
	formula weir.Size
}

// askedRow is weir.Asked as JSON.
type askedRow struct {
	Compiling   int64 `json:"compiling_bytes"`
	Weights     int64 `json:"weights_bytes"`
	Files       int64 `json:"files_bytes"`
	Paged       int64 `json:"paged_bytes"`
	Reclaimable int64 `json:"reclaimable_bytes"`
	Reading     int64 `json:"reading_bytes"`
	Code        int64 `json:"code_bytes"`
	Call        int64 `json:"call_bytes"`
	Heap        int64 `json:"heap_bytes"`
	Arguments   int64 `json:"arguments_bytes"`
	Calls       int   `json:"calls"`
}

// ask fills in the limit, if the sizes are known.
func (p *planned) ask(m *weir.Memory, bound weir.Dims) {
	if a, err := m.Asked(p.Calls, bound); err == nil {
		limit, row := a.Total(), askedRow(a)
		p.Limit, p.Asked = &limit, &row
	}
	if p.Folder, p.InMemory = m.PageFolder(); p.Folder == "" {
		p.Folder = "."
	}
}

// printLimit prints the limit and its terms.
func (p *planned) printLimit() {
	a := p.Asked
	if a != nil && a.Paged > 0 || p.Spill != nil {
		p.printFiles()
	}
	if a == nil {
		stdout.Printf("%-14s %s\n", "limit", "not known: bind the dimensions with --dim")
		return
	}
	f := values.FormatBytes
	stdout.Printf("%-14s %d (%s), in whole pages: the most that is asked of the system\n", "limit", *p.Limit, f(*p.Limit))
	stdout.Printf("%-14s   %s while compiling, then %s of weights, %s of files, %s of code, and %d × (%s of a call and "+
		"%s "+
		"of arguments)\n", "",
		f(a.Compiling), f(a.Weights), f(a.Files-a.Reclaimable+a.Reading), f(a.Code), a.Calls, f(a.Call+a.Heap),
		f(a.Arguments))
	if a.Reclaimable > 0 {
		stdout.Printf("%-14s   besides, %s of files that no limit counts: the system may take them back\n", "",
			f(a.Reclaimable-a.Reading))
	}
}

// printFiles prints the files that the program makes.
func (p *planned) printFiles() {
	warning := ""
	if p.InMemory {
		warning = ", WHICH IS MEMORY: name a folder on a disk with --page-folder"
	}
	bytes := int64(0)
	if p.Asked != nil {
		bytes = p.Asked.Paged
	}
	if p.Spill != nil {
		bytes += int64(p.Calls) * *p.Spill
	}
	stdout.Printf("%-14s %d (%s) in files of the program's own in %s%s\n", "files", bytes, values.FormatBytes(bytes),
		p.Folder, warning)
}

type aliveRow struct {
	Tensor string `json:"tensor"`
	Bytes  int64  `json:"bytes"`
}

type dimRow struct {
	Name   string `json:"name"`
	Python string `json:"python"` // its name in peak_formula
	Min    int64  `json:"min"`
	Max    *int64 `json:"max"`
	// Decided says that the run's data decide it. --dim binds it to an observed value.
	Decided bool `json:"decided,omitempty"`
	// From is the origin of the condition of the model that leaves it one value.
	From string `json:"from,omitempty"`
}

// within compiles a model for its plan. If the dimensions have bounds and the plan exceeds the budget, the compiler
// changes the plan until it fits; refused is the error if that is impossible.
func (f *modelFlags) within(ctx context.Context, path string, budget int64) (l *loaded, bound weir.Dims, refused,
	err error) {
	f.plans = true
	asItIs := func(o *weir.Options, _ *weir.Model) { o.Budget = 0 }
	free := budget <= 0
	l, bound, err = f.compile(ctx, path, func(o *weir.Options, m *weir.Model) {
		if free = free || !bounded(m, o.Dims); free {
			asItIs(o, m)
		}
	})
	switch {
	case !free && errors.Is(err, weir.ErrBudget):
		l, bound, whole := f.compile(ctx, path, asItIs)
		return l, bound, err, whole
	case err != nil || !free || budget <= 0:
		return l, bound, nil, err
	}
	if peak, err := peakOf(l.program.Memory(), f.calls, bound); err != nil || peak <= budget {
		return l, bound, nil, nil
	}
	// The dimensions have bounds in the model.
	tight, _, err := f.compile(ctx, path, nil)
	switch {
	case err == nil:
		l.Close()
		return tight, bound, nil, nil
	case !errors.Is(err, weir.ErrBudget):
		l.Close()
		return nil, nil, nil, err
	}
	return l, bound, err, nil
}

// bounded reports whether the dimensions of all inputs are known to have bounds.
func bounded(m *weir.Model, dims map[string]weir.Range) bool {
	for _, in := range m.Inputs() {
		for _, e := range in.Shape {
			if r, given := dims[e.Dim]; e.Dim != "" && (!given || r.Max == weir.Unbounded) {
				return false
			}
		}
	}
	return true
}

// plan compiles the model at path, and prints its plan.
func (f *planFlags) plan(ctx context.Context, path string) error {
	o, _, err := f.options()
	if err != nil {
		return err
	}
	if f.diff != "" {
		return f.compare(ctx, path, o.Budget)
	}
	l, bound, refused, err := f.within(ctx, path, o.Budget)
	if err != nil {
		return err
	}
	defer l.Close()
	m := l.program.Memory()
	if err := overflows(m.Formula(f.calls), bound); err != nil {
		return err
	}
	at := func(s weir.Size) *int64 {
		v, err := s.At(bound)
		if err != nil {
			if v, err = s.Max(); err != nil {
				return nil
			}
		}
		return &v
	}
	p := planned{Weights: at(m.Weights), Arena: at(m.Arena), Outputs: at(m.Outputs), Scratch: at(m.Scratch),
		Code: at(m.Code), Calls: f.calls, Workers: m.Workers,
		LowerBound: at(m.LowerBound), Least: at(m.Least), Proven: m.Proven, Bounded: m.Bounded, Exhausted: m.Exhausted,
		Peak: at(m.Formula(f.calls)), Alive: []aliveRow{}, Dims: []dimRow{}}
	shaped := l.program.Dims()
	dims := slices.Concat(shaped, l.program.Decided())
	names := pythonNames(dims)
	if p.PeakFormula, err = inPython(m.Formula(f.calls).String(), names); err != nil {
		return err
	}
	p.ask(m, bound)
	var free []weir.Dimension
	for i, d := range dims {
		if _, given := bound[d.Name]; !given {
			free = append(free, d)
		}
		row := dimRow{Name: d.Name, Python: names[d.Name], Min: d.Min, From: d.From, Decided: i >= len(shaped)}
		if d.Max != weir.Unbounded {
			row.Max = &d.Max
		}
		p.Dims = append(p.Dims, row)
	}
	if node, alive, err := m.PeakAt(bound); err == nil {
		p.PeakAt = node
		for _, a := range alive {
			p.Alive = append(p.Alive, aliveRow{a.Tensor, a.Bytes})
		}
	}
	if _, bytes, err := m.LargestStep(bound); err == nil {
		p.Largest = &bytes
	}
	fit := newFitting(m, f.calls, bound, o.Budget)
	free = fit.matter(free)
	if o.Budget > 0 && len(free) == 1 {
		p.Fits = fit.largest(free[0], free[0].Min)
	}
	if o.Budget > 0 && len(free) == 2 {
		p.Region = fit.region(free[0], free[1])
	}
	p.lay(l.program, at)
	for _, s := range l.program.States() {
		p.States = append(p.States, stateRow{s.Input, s.Output, at(s.Bytes), s.InPlace, s.Initial, s.Bytes})
	}
	p.Savings = l.program.Savings()
	if p.Spill = at(m.Spill); p.Spill != nil && *p.Spill == 0 {
		p.Spill = nil
	}
	p.onDevice(l.program, at)
	over := p.overBudget(fit, free, o.Budget, refused)
	if f.html != "" || f.actual {
		page, err := f.draw(ctx, path, l, bound)
		if err != nil {
			return err
		}
		if f.html != "" {
			if err := writePageTo(f.html, page.Name, planpage.Data{Plans: []planpage.Plan{page}}); err != nil {
				return err
			}
		}
		p.Actual = page.Plan.Actual
	}
	if f.c.json {
		if over != nil {
			return over
		}
		return f.c.printJSON(p)
	}
	p.print(m)
	if over == nil && o.Budget > 0 && p.Peak != nil {
		stdout.Printf("fits the budget of %s with %s to spare\n", values.FormatBytes(o.Budget),
			values.FormatBytes(o.Budget-*p.Peak))
	}
	return over
}

// peakOf returns the peak at the given sizes if it depends on no others, else at the dimensions' bounds.
func peakOf(m *weir.Memory, calls int, bound weir.Dims) (int64, error) {
	if peak, err := m.Peak(calls, bound); err == nil {
		return peak, nil
	}
	return m.Max(calls)
}

// overflows returns the error of a formula without a value although all its dimensions are bound: a size beyond 64
// bits.
func overflows(s weir.Size, bound weir.Dims) error {
	for _, name := range s.Dims() {
		if _, given := bound[name]; !given {
			return nil
		}
	}
	if _, err := s.At(bound); err != nil {
		var values []string
		for _, name := range s.Dims() {
			values = append(values, fmt.Sprintf("%s = %d", name, bound[name]))
		}
		return diag.Inputf("the memory of a run with %s has no value: %s", strings.Join(values, ", "),
			diag.As(err, weir.ErrInput).Detail).
			WithFix("bind smaller dimensions")
	}
	return nil
}

// pythonNames gives each dimension a unique name that is valid in Python.
func pythonNames(dims []weir.Dimension) map[string]string {
	names, taken := map[string]string{}, map[string]bool{"max": true, "min": true, "ceildiv": true}
	for _, d := range dims {
		name := strings.Map(func(r rune) rune {
			if r < 0x80 && (r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)) {
				return r
			}
			return '_'
		}, d.Name)
		if name == "" || unicode.IsDigit(rune(name[0])) || pythonWords[name] {
			name = "_" + name
		}
		for taken[name] {
			name += "_"
		}
		taken[name], names[d.Name] = true, name
	}
	return names
}

// pythonWords cannot be names in Python.
var pythonWords = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.Fields(
		"False None True and as assert async await break class continue def del elif else except finally for from global " +
			"if import in is lambda nonlocal not or pass raise return try while with yield") {
		words[w] = true
	}
	return words
}()

// inPython replaces the names in a formula.
func inPython(formula string, names map[string]string) (string, error) {
	s := text.NewScanner(formula)
	x := s.Expr()
	s.Done()
	if err := s.Err(); err != nil {
		return "", diag.Internalf("the formula %s: %v", formula, err)
	}
	return x.Subst(func(name sym.Name) (sym.Expr, bool) {
		other, ok := names[name.Text()]
		return sym.Dim(other), ok
	}).String(), nil
}

// overBudget returns the error of a peak above the budget, with sizes that fit.
func (p *planned) overBudget(fit *fitting, free []weir.Dimension, budget int64, refused error) error {
	peak := p.Peak
	switch {
	case budget <= 0:
		return nil
	case peak != nil && *peak <= budget:
		return nil
	case refused != nil && (len(free) == 0 || p.Fits == nil && len(p.Region) == 0):
		return refused
	}
	e := &weir.Error{Kind: weir.ErrBudget, Detail: "the peak has no bound", Fix: "bind the dimensions with --dim"}
	if peak != nil {
		e.Detail = fmt.Sprintf("the peak is %s, the budget %s", values.FormatBytes(*peak), values.FormatBytes(budget))
		e.Fix = fmt.Sprintf("--budget %d is the smallest that works", *peak)
	}
	if fit != nil {
		fit.explain(e, p, free)
	}
	var least *weir.Error
	if errors.As(refused, &least) && least.Budget > 0 {
		e.Fix += fmt.Sprintf("; --budget %d works for all", least.Budget)
	}
	return e
}

// print prints the plan for a person.
func (p *planned) print(m *weir.Memory) {
	row := func(name string, s weir.Size, v *int64) {
		formula := s.String()
		if onTerminal(os.Stdout) {
			formula = shortFormula(formula)
		}
		if v == nil {
			stdout.Printf("%-14s %s\n", name, formula)
		} else if formula == fmt.Sprint(*v) {
			stdout.Printf("%-14s %d (%s)\n", name, *v, values.FormatBytes(*v))
		} else {
			stdout.Printf("%-14s %d (%s) = %s\n", name, *v, values.FormatBytes(*v), formula)
		}
	}
	row("weights", m.Weights, p.Weights)
	row("code", m.Code, p.Code)
	row("arena", m.Arena, p.Arena)
	row("outputs", m.Outputs, p.Outputs)
	row("scratch", m.Scratch, p.Scratch)
	row("peak", m.Formula(p.Calls), p.Peak)
	stdout.Printf("%-14s weights + code + %d calls × (arena + outputs + %d workers × scratch)\n", "", p.Calls, p.Workers)
	p.printLimit()
	row("lower bound", m.LowerBound, p.LowerBound)
	p.printGap()
	if p.PeakAt != "" {
		stdout.Printf("%-14s %s, with alive:\n", "peak at", p.PeakAt)
		for _, a := range p.Alive {
			stdout.Printf("%-14s   %s  %s\n", "", a.Tensor, values.FormatBytes(a.Bytes))
		}
	}
	p.printDevice(m)
	p.printCopies(m)
	for _, s := range p.States {
		how := map[bool]string{true: "in place", false: "by a copy at the end"}[s.InPlace]
		bytes := s.formula.String()
		if s.Bytes != nil {
			bytes = values.FormatBytes(*s.Bytes)
		}
		whose := map[bool]string{true: "the program's, in weights, if a run is given none", false: "the caller's"}[s.Initial]
		stdout.Printf("%-14s %s becomes %s, %s: %s of %s\n", "state", s.Input, s.Output, how, bytes, whose)
	}
	for _, s := range p.Savings {
		stdout.Printf("%-14s %s\n", "saving", s)
	}
	if p.Spill != nil {
		row("spilled", m.Spill, p.Spill)
	}
	if p.Actual != nil {
		stdout.Printf("%-14s %s\n", "actual", actualText(p.Actual))
	}
	for _, d := range p.Dims {
		if d.From != "" {
			stdout.Printf("%-14s %s = %d: %s\n", "dimension", d.Name, d.Min, d.From)
			continue
		}
		limit := "no limit"
		if d.Max != nil {
			limit = fmt.Sprint(*d.Max)
		}
		by := ""
		if d.Decided {
			by = ", decided by the data"
		}
		stdout.Printf("%-14s %s from %d to %s%s\n", "dimension", d.Name, d.Min, limit, by)
	}
}

// printGap prints the distance of the arena from its proved lower bound.
func (p *planned) printGap() {
	if p.Exhausted {
		stdout.Printf("%-14s used up what they may cost: narrower dimensions may make it smaller and faster\n", "proofs")
	}
	if p.Least != nil && *p.Least > *p.LowerBound {
		stdout.Printf("%-14s %d (%s): a search refuted all that is smaller\n", "proven least", *p.Least,
			values.FormatBytes(*p.Least))
	}
	switch {
	case p.Proven:
		stdout.Printf("%-14s none: no plan of this arena is smaller\n", "gap")
	case p.Bounded:
		stdout.Printf("%-14s not known: data decide sizes that are planned for their bounds\n", "gap")
	case p.Arena != nil && p.Least != nil && *p.Least > 0:
		stdout.Printf("%-14s %.2f %%\n", "gap", 100*float64(*p.Arena-*p.Least)/float64(*p.Least))
	}
}

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/values"
)

func (c *cli) planCommand() *cobra.Command {
	f := &modelFlags{}
	cmd := &cobra.Command{
		Use: "plan MODEL", Short: "Say exactly how much memory a model will take", Args: exactly(1, "one MODEL"),
		Example: `  weir plan digits.onnx
  weir plan digits.onnx --dim batch=64 --calls 4
  weir plan digits.onnx --json`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.plan(cmd.Context(), args[0]) },
	}
	f.register(cmd, c)
	return cmd
}

// planned is what plan prints as JSON. Bytes are null where a dimension is neither bound nor given.
type planned struct {
	Weights     *int64     `json:"weights_bytes"`
	Arena       *int64     `json:"arena_bytes"`
	Outputs     *int64     `json:"outputs_bytes"`
	Scratch     *int64     `json:"scratch_bytes"`
	Code        *int64     `json:"code_bytes"`
	Calls       int        `json:"calls"`
	Workers     int        `json:"workers"`
	LowerBound  *int64     `json:"lower_bound_bytes"`
	Proven      bool       `json:"proven"`
	Peak        *int64     `json:"peak_bytes"`
	PeakFormula string     `json:"peak_formula"`
	PeakAt      string     `json:"peak_at"`
	Alive       []aliveRow `json:"alive"`
	Dims        []dimRow   `json:"dims"`
}

type aliveRow struct {
	Tensor string `json:"tensor"`
	Bytes  int64  `json:"bytes"`
}

type dimRow struct {
	Name string `json:"name"`
	Min  int64  `json:"min"`
	Max  *int64 `json:"max"`
}

func (f *modelFlags) plan(ctx context.Context, path string) error {
	l, bound, err := f.compile(ctx, path, func(o *weir.Options) { o.Budget = 0 })
	if err != nil {
		return err
	}
	defer l.Close()
	o, _, err := f.options()
	if err != nil {
		return err
	}
	m := l.program.Memory()
	at := func(s weir.Size) *int64 {
		v, err := s.At(bound)
		if err != nil {
			if v, err = s.Max(); err != nil {
				return nil
			}
		}
		return &v
	}
	p := planned{Weights: at(m.Weights), Arena: at(m.Arena), Outputs: at(m.Outputs), Scratch: at(m.Scratch), Code: at(m.Code), Calls: f.calls, Workers: m.Workers,
		LowerBound: at(m.LowerBound), Proven: m.Proven, Peak: at(m.Formula(f.calls)), PeakFormula: m.Formula(f.calls).String(), Alive: []aliveRow{}, Dims: []dimRow{}}
	for _, d := range l.program.Dims() {
		row := dimRow{Name: d.Name, Min: d.Min}
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
	if f.c.json {
		if err := f.c.printJSON(p); err != nil {
			return err
		}
	} else {
		p.print(m)
	}
	return overBudget(p.Peak, o.Budget, f.c.json)
}

func overBudget(peak *int64, budget int64, silent bool) error {
	switch {
	case budget <= 0:
		return nil
	case peak != nil && *peak <= budget:
		if !silent {
			fmt.Printf("fits the budget of %s with %s to spare\n", values.FormatBytes(budget), values.FormatBytes(budget-*peak))
		}
		return nil
	case peak == nil:
		return &weir.Error{Kind: weir.ErrBudget, Detail: "the peak has no bound", Fix: "bind the dimensions with --dim"}
	}
	return &weir.Error{Kind: weir.ErrBudget, Detail: fmt.Sprintf("the peak is %s, the budget %s", values.FormatBytes(*peak), values.FormatBytes(budget))}
}

func (p *planned) print(m *weir.Memory) {
	row := func(name string, s weir.Size, v *int64) {
		formula := s.String()
		if v == nil {
			fmt.Printf("%-14s %s\n", name, formula)
		} else if formula == fmt.Sprint(*v) {
			fmt.Printf("%-14s %d (%s)\n", name, *v, values.FormatBytes(*v))
		} else {
			fmt.Printf("%-14s %d (%s) = %s\n", name, *v, values.FormatBytes(*v), formula)
		}
	}
	row("weights", m.Weights, p.Weights)
	row("code", m.Code, p.Code)
	row("arena", m.Arena, p.Arena)
	row("outputs", m.Outputs, p.Outputs)
	row("scratch", m.Scratch, p.Scratch)
	row("peak", m.Formula(p.Calls), p.Peak)
	fmt.Printf("%-14s weights + code + %d calls × (arena + outputs + %d workers × scratch)\n", "", p.Calls, p.Workers)
	row("lower bound", m.LowerBound, p.LowerBound)
	switch {
	case p.Proven:
		fmt.Printf("%-14s none: no plan of this arena is smaller\n", "gap")
	case p.Arena != nil && p.LowerBound != nil && *p.LowerBound > 0:
		fmt.Printf("%-14s %.2f %%\n", "gap", 100*float64(*p.Arena-*p.LowerBound)/float64(*p.LowerBound))
	}
	if p.PeakAt != "" {
		fmt.Printf("%-14s %s, with alive:\n", "peak at", p.PeakAt)
		for _, a := range p.Alive {
			fmt.Printf("%-14s   %s  %s\n", "", a.Tensor, values.FormatBytes(a.Bytes))
		}
	}
	for _, d := range p.Dims {
		limit := "no limit"
		if d.Max != nil {
			limit = fmt.Sprint(*d.Max)
		}
		fmt.Printf("%-14s %s from %d to %s\n", "dimension", d.Name, d.Min, limit)
	}
}

func (c *cli) checkCommand() *cobra.Command {
	f := &modelFlags{}
	cmd := &cobra.Command{
		Use: "check MODEL", Short: "List every condition that a model needs of its inputs", Args: exactly(1, "one MODEL"),
		Example: `  weir check model.onnx --dim n=1..512`,
		RunE:    func(cmd *cobra.Command, args []string) error { return f.check(cmd.Context(), args[0]) },
	}
	f.register(cmd, c)
	return cmd
}

// conditionRow is a line of check.
type conditionRow struct {
	Class     string `json:"class"`
	Condition string `json:"condition"`
	From      string `json:"from"`
}

func (f *modelFlags) check(ctx context.Context, path string) error {
	l, _, err := f.compile(ctx, path, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	rows := []conditionRow{}
	for _, r := range l.program.Requires() {
		rows = append(rows, conditionRow{"checked", r.Condition, r.From})
	}
	for _, r := range l.program.Proved() {
		rows = append(rows, conditionRow{"proved", r.Condition, r.From})
	}
	if f.c.json {
		return f.c.printJSON(map[string]any{"conditions": rows})
	}
	for _, r := range rows {
		fmt.Printf("%-8s %s (from %s)\n", r.Class, r.Condition, r.From)
	}
	if len(rows) == 0 {
		fmt.Println("nothing needs to hold beyond the inputs' types")
	}
	return nil
}

func (c *cli) dumpCommand() *cobra.Command {
	f := &modelFlags{}
	var after, lang, kernel string
	cmd := &cobra.Command{
		Use: "dump MODEL", Short: "Print the model as the compiler sees it", Args: exactly(1, "one MODEL"),
		Example: `  weir dump model.onnx --lang loop
  weir dump model.onnx --after fold
  weir dump model.onnx --lang loop --kernel convolution`,
		RunE: func(cmd *cobra.Command, args []string) error {
			stages := map[string]string{}
			var order []string
			f.stage = func(name, text string) { stages[name] = text; order = append(order, name) }
			l, _, err := f.compile(cmd.Context(), args[0], func(o *weir.Options) { o.Stage = f.stage })
			if err != nil {
				return err
			}
			defer l.Close()
			name := after
			if name == "" {
				var ok bool
				if name, ok = map[string]string{"ir": "dead-expanded", "loop": "schedule", "program": "program"}[lang]; !ok {
					return &weir.Error{Kind: weir.ErrUnsupported, Detail: fmt.Sprintf("--lang %s; ir, loop and program are supported", lang)}
				}
			}
			text, ok := stages[name]
			if !ok && name == "schedule" {
				text, ok = stages["lower"]
			}
			if !ok {
				return usageError{fmt.Errorf("--after %s: there is no such stage; there are %s", name, strings.Join(order, ", "))}
			}
			if kernel != "" {
				if text = kernelText(text, kernel); text == "" {
					return usageError{fmt.Errorf("--kernel %s: there is no such kernel", kernel)}
				}
			}
			fmt.Print(text)
			return nil
		},
	}
	f.register(cmd, c)
	cmd.Flags().StringVar(&after, "after", "", "the text after this stage of the compiler")
	cmd.Flags().StringVar(&lang, "lang", "ir", "ir, loop or program")
	cmd.Flags().StringVar(&kernel, "kernel", "", "only this kernel")
	return cmd
}

// kernelText cuts one kernel out of a module's text.
func kernelText(text, name string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		head := strings.TrimLeft(line, " ")
		if !strings.HasPrefix(head, "kernel @"+name+"(") {
			continue
		}
		indent := line[:len(line)-len(head)]
		for j := i; j < len(lines); j++ {
			if lines[j] == indent+"}" {
				return strings.Join(lines[i:j+1], "\n") + "\n"
			}
		}
	}
	return ""
}

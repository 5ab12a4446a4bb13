package command

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/planpage"
)

// checkCommand makes the command check.
func (c *cli) checkCommand() *cobra.Command {
	f := &modelFlags{}
	cmd := &cobra.Command{
		Use: "check MODEL", Short: "List every condition that a model's inputs must meet", Args: exactly(1, "one MODEL"),
		Example: "  weir check model.onnx --dim n=1..512\n  weir check model.onnx -v   # also the checks in the code, " +
			"kernel by kernel",
		RunE: func(cmd *cobra.Command, args []string) error { return f.check(cmd.Context(), args[0]) },
	}
	f.register(cmd, c)
	return cmd
}

// conditionRow is a condition in the output of check.
type conditionRow struct {
	Class     string `json:"class"`
	Condition string `json:"condition"`
	From      string `json:"from"`
}

// check compiles the model at path, and prints its conditions and checks.
func (f *modelFlags) check(ctx context.Context, path string) error {
	rows := []conditionRow{}
	l, _, err := f.compile(ctx, path, nil)
	var e *weir.Error
	if errors.As(err, &e) && errors.Is(e, weir.ErrInput) && (e.Node != "" || e.Tensor != "") {
		rows = append(rows, conditionRow{"refused", e.Detail, first(e.Node, e.Tensor)})
		if f.c.json {
			f.c.printJSON(map[string]any{"conditions": rows})
		} else {
			stdout.Printf("%-8s %s (from %s)\n", rows[0].Class, rows[0].Condition, rows[0].From)
		}
		fmt.Fprintln(os.Stderr, "weir:", err)
		return errFailed
	}
	if err != nil {
		return err
	}
	defer l.Close()
	for _, r := range l.program.Requires() {
		rows = append(rows, conditionRow{"checked", r.Condition, r.From})
	}
	for _, r := range l.program.Proved() {
		rows = append(rows, conditionRow{"proved", r.Condition, r.From})
	}
	if f.c.json {
		return f.c.printJSON(map[string]any{"conditions": rows,
			"checks": append([]weir.KernelChecks{}, l.program.Checks()...)})
	}
	for _, r := range rows {
		stdout.Printf("%-8s %s (from %s)\n", r.Class, planpage.Relations.Replace(r.Condition), r.From)
	}
	if len(rows) == 0 {
		stdout.Println("nothing needs to hold beyond the inputs' types")
	}
	if f.c.verbose {
		printChecks(l.program)
	}
	return nil
}

// printChecks prints the number of checks in the generated code, by kernel.
func printChecks(p *weir.Program) {
	values, accesses := 0, 0
	for _, k := range p.Checks() {
		stdout.Printf("%-8s @%s: %d of values, %d of accesses that are not proved (%s)\n", "code", k.Kernel, k.Values,
			k.Accesses, k.Source)
		values, accesses = values+k.Values, accesses+k.Accesses
	}
	stdout.Printf("%-8s %d checks of values, %d of accesses that are not proved; all others are\n", "code", values,
		accesses)
	if p.Memory().Exhausted {
		stdout.Printf("%-8s proofs used up what they may cost: narrower dimensions may need fewer checks\n", "code")
	}
}

package command

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/values"
)

// infoCommand makes the command info.
func (c *cli) infoCommand() *cobra.Command {
	nodes := false
	cmd := &cobra.Command{
		Use: "info MODEL", Short: "Print the contents of a model file", Args: exactly(1, "one MODEL"),
		Example: `  weir info model.onnx
  weir info model.onnx --nodes`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.info(cmd.Context(), args[0], nodes) },
	}
	cmd.Flags().BoolVar(&nodes, "nodes", false, "list every node")
	return cmd
}

// described is the JSON output of info.
type described struct {
	weir.Description
	Metadata map[string]string `json:"metadata"`
}

// info prints the contents of the model's file at path; with nodes, also the nodes.
func (c *cli) info(ctx context.Context, path string, nodes bool) error {
	m, err := load(path)
	if err != nil {
		return err
	}
	defer m.Close()
	d, operations := m.Describe(), ""
	if len(d.Unsupported) == 0 {
		bar := c.progress(0, "counting operations")
		if p, err := weir.Compile(ctx, m, weir.Options{Logger: bar.logger()}); err == nil {
			d.Operations, operations = p.Operations().String(), operationsText(p)
			p.Close()
		}
		bar.finish()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	unsupported := &weir.Error{Kind: weir.ErrUnsupported, File: path,
		Detail: "operators " + strings.Join(d.Unsupported, ", ")}
	if len(d.Unsupported) > 0 {
		// Compiling reports OPERATOR (node "NAME").
		op, node, _ := strings.Cut(strings.TrimSuffix(d.Unsupported[0], ")"), " (node ")
		unsupported.Op = op
		unsupported.Node, _ = strconv.Unquote(node)
	}
	if c.json {
		if len(d.Unsupported) > 0 {
			return unsupported
		}
		if err := c.printJSON(described{d, m.Metadata()}); err != nil {
			return err
		}
	} else {
		printInfo(m, d, operations)
		if nodes {
			for _, n := range d.Nodes {
				stdout.Printf("  %s (%s): %s -> %s\n", n.Name, n.Op, strings.Join(n.Inputs, ", "), strings.Join(n.Outputs, ", "))
			}
		}
	}
	if len(d.Unsupported) > 0 {
		return unsupported
	}
	return nil
}

// printInfo prints a description for a person.
func printInfo(m *weir.Model, d weir.Description, operations string) {
	stdout.Printf("format       %s\n", d.Format)
	if d.Producer != "" {
		stdout.Printf("producer     %s\n", d.Producer)
	}
	for _, o := range d.Opsets {
		stdout.Printf("operators    %s\n", o)
	}
	for _, i := range m.Inputs() {
		stdout.Printf("input        %s\n", i)
	}
	for _, o := range m.Outputs() {
		stdout.Printf("output       %s\n", o)
	}
	for _, p := range d.Parameters {
		stdout.Printf("parameters   %d of %s, %s\n", p.Count, p.DType, values.FormatBytes(p.Bytes))
	}
	stdout.Printf("nodes        %d\n", len(d.Nodes))
	if operations != "" {
		stdout.Printf("operations   %s\n", operations)
	}
	if d.Tuned != nil {
		printTuned(d.Tuned)
	}
	type count struct {
		op string
		n  int
	}
	var ops []count
	for op, n := range d.Ops {
		ops = append(ops, count{op, n})
	}
	sort.Slice(ops, func(i, j int) bool { return ops[i].n > ops[j].n || ops[i].n == ops[j].n && ops[i].op < ops[j].op })
	for _, o := range ops {
		stdout.Printf("  %5d %s\n", o.n, o.op)
	}
	keys := make([]string, 0, len(m.Metadata()))
	for k := range m.Metadata() {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		stdout.Printf("metadata     %s = %s\n", k, m.Metadata()[k])
	}
}

// usualExtent is the size in examples of a dimension that is not along an input's first axis.
const usualExtent = 64

// operationsText formats a program's operations for a person: a number, or an example and the formula.
func operationsText(p *weir.Program) string {
	size, example := p.Operations(), weir.Dims{}
	if n, err := size.At(example); err == nil {
		return formatOperations(n)
	}
	first := map[string]bool{}
	for _, in := range p.Inputs() {
		if len(in.Shape) > 0 {
			first[in.Shape[0].Dim] = true
		}
	}
	var at []string
	for _, d := range p.Dims() {
		n := int64(usualExtent)
		if first[d.Name] {
			n = 1
		}
		example[d.Name] = min(max(n, d.Min), d.Max)
		at = append(at, fmt.Sprintf("%s = %d", d.Name, example[d.Name]))
	}
	n, err := size.At(example)
	if err != nil {
		return shortFormula(size.String())
	}
	return fmt.Sprintf("%s for %s; %s", formatOperations(n), strings.Join(at, ", "), shortFormula(size.String()))
}

// formatOperations formats a number of operations with separated thousands, and rounded.
func formatOperations(n int64) string {
	digits := fmt.Sprint(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}} {
		if f := float64(n); f >= unit.of {
			return fmt.Sprintf("%s (%.3g %sFLOP)", digits, f/unit.of, unit.name)
		}
	}
	return digits
}

// longFormula is the number of characters of a formula that are printed for a person.
const longFormula = 200

// shortFormula returns a formula, or its beginning and its length.
func shortFormula(formula string) string {
	if len(formula) <= longFormula {
		return formula
	}
	return fmt.Sprintf("%s (of %d characters; --json has all)", shortened(formula, longFormula), len(formula))
}

// printTuned lists the choices of tuning.
func printTuned(list []weir.Tuning) {
	if len(list) == 0 {
		stdout.Println("tuned        nothing is faster than what the tables choose")
	}
	for _, t := range list {
		stdout.Printf("tuned        %s: %s, %.4f instead of %.4f ms\n", shortened(t.Nodes, 60), t.Choice, ms(t.After),
			ms(t.Before))
	}
}

package main

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/values"
)

func (c *cli) infoCommand() *cobra.Command {
	nodes := false
	cmd := &cobra.Command{
		Use: "info MODEL", Short: "Say what a model file holds", Args: exactly(1, "one MODEL"),
		Example: `  weir info model.onnx
  weir info model.onnx --nodes`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.info(cmd.Context(), args[0], nodes) },
	}
	cmd.Flags().BoolVar(&nodes, "nodes", false, "list every node")
	return cmd
}

// described is what info prints as JSON.
type described struct {
	weir.Description
	Metadata map[string]string `json:"metadata"`
}

func (c *cli) info(ctx context.Context, path string, nodes bool) error {
	m, err := load(path)
	if err != nil {
		return err
	}
	defer m.Close()
	d := m.Describe()
	if len(d.Unsupported) == 0 {
		bar := c.progress(0, "counting operations")
		if p, err := weir.Compile(ctx, m, weir.Options{}); err == nil {
			d.Operations = p.Operations().String()
			p.Close()
		}
		bar.finish()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	unsupported := &weir.Error{Kind: weir.ErrUnsupported, File: path, Detail: "operators " + strings.Join(d.Unsupported, ", ")}
	if c.json {
		if len(d.Unsupported) > 0 {
			return unsupported
		}
		if err := c.printJSON(described{d, m.Metadata()}); err != nil {
			return err
		}
	} else {
		printInfo(m, d)
		if nodes {
			for _, n := range d.Nodes {
				fmt.Printf("  %s (%s): %s -> %s\n", n.Name, n.Op, strings.Join(n.Inputs, ", "), strings.Join(n.Outputs, ", "))
			}
		}
	}
	if len(d.Unsupported) > 0 {
		return unsupported
	}
	return nil
}

func printInfo(m *weir.Model, d weir.Description) {
	fmt.Printf("format       %s\n", d.Format)
	if d.Producer != "" {
		fmt.Printf("producer     %s\n", d.Producer)
	}
	for _, o := range d.Opsets {
		fmt.Printf("operators    %s\n", o)
	}
	for _, i := range m.Inputs() {
		fmt.Printf("input        %s\n", i)
	}
	for _, o := range m.Outputs() {
		fmt.Printf("output       %s\n", o)
	}
	for _, p := range d.Parameters {
		fmt.Printf("parameters   %d of %s, %s\n", p.Count, p.DType, values.FormatBytes(p.Bytes))
	}
	fmt.Printf("nodes        %d\n", len(d.Nodes))
	if d.Operations != "" {
		fmt.Printf("operations   %s\n", d.Operations)
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
		fmt.Printf("  %5d %s\n", o.n, o.op)
	}
	keys := make([]string, 0, len(m.Metadata()))
	for k := range m.Metadata() {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		fmt.Printf("metadata     %s = %s\n", k, m.Metadata()[k])
	}
}

// printTuned lists what tuning chose.
func printTuned(list []weir.Tuning) {
	if len(list) == 0 {
		fmt.Println("tuned        nothing is faster than what the tables choose")
	}
	for _, t := range list {
		fmt.Printf("tuned        %s: %s, %.4f instead of %.4f ms\n", shortened(t.Nodes, 60), t.Choice, ms(t.After), ms(t.Before))
	}
}

package main

import (
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
		RunE: func(cmd *cobra.Command, args []string) error { return c.info(args[0], nodes) },
	}
	cmd.Flags().BoolVar(&nodes, "nodes", false, "list every node")
	return cmd
}

func (c *cli) info(path string, nodes bool) error {
	m, err := load(path)
	if err != nil {
		return err
	}
	defer m.Close()
	d := m.Describe()
	if c.json {
		if err := c.printJSON(d); err != nil {
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
		return &weir.Error{Kind: weir.ErrUnsupported, File: path, Detail: "operators " + strings.Join(d.Unsupported, ", ")}
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

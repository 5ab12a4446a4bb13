package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/conformance"
)

func (c *cli) testCommand() *cobra.Command {
	strict := false
	cmd := &cobra.Command{
		Use: "test DIR...", Short: "Run cases in ONNX's test-data layout, from folders, wheels and zip files", Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("at least one DIR is needed, or a zip file such as a wheel")}
			}
			return nil
		},
		Example: `  weir test testdata/onnx/*
  weir test --strict onnx/backend/test/data/node
  weir test onnx-1.22.0-py3-none-any.whl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cases, err := conformance.Find(args)
			if err != nil {
				return err
			}
			bar := c.progress(len(cases), "testing")
			var results []conformance.Result
			for _, k := range cases {
				if err := cmd.Context().Err(); err != nil {
					return err
				}
				results = append(results, k.Run(cmd.Context(), weir.Options{Exact: true}))
				bar.add(1)
			}
			bar.finish()
			if err := cmd.Context().Err(); err != nil {
				return err // the last case's result is the interruption
			}
			return c.printResults(results, strict)
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "a refusal is a failure too")
	return cmd
}

func (c *cli) printResults(results []conformance.Result, strict bool) error {
	count := map[conformance.Verdict]int{}
	for _, r := range results {
		count[r.Verdict]++
	}
	if c.json {
		if err := c.printJSON(map[string]any{"pass": count[conformance.Pass], "fail": count[conformance.Fail], "refused": count[conformance.Refused], "cases": results}); err != nil {
			return err
		}
	} else {
		byOp := map[string]map[conformance.Verdict]int{}
		var ops []string
		for _, r := range results {
			fmt.Printf("%-8s %s  %s\n", r.Verdict, r.Name, r.Why)
			for _, op := range r.Ops {
				if byOp[op] == nil {
					byOp[op] = map[conformance.Verdict]int{}
					ops = append(ops, op)
				}
				byOp[op][r.Verdict]++
			}
		}
		for _, op := range conformance.Sorted(ops) {
			n := byOp[op]
			fmt.Printf("%-28s %4d pass %4d fail %4d refused\n", op, n[conformance.Pass], n[conformance.Fail], n[conformance.Refused])
		}
		fmt.Printf("%d passed, %d failed, %d refused\n", count[conformance.Pass], count[conformance.Fail], count[conformance.Refused])
	}
	if count[conformance.Fail] > 0 || strict && count[conformance.Refused] > 0 {
		return errFailed
	}
	return nil
}

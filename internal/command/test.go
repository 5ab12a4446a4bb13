package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/conformance"
)

// testCommand makes the command test.
func (c *cli) testCommand() *cobra.Command {
	var strict, pauses, kernels bool
	cmd := &cobra.Command{
		Use: "test DIR...", Short: "Run cases in ONNX's test-data layout, from folders, wheels and zip files",
		Args: func(_ *cobra.Command, args []string) error {
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
				return named(err)
			}
			bar := c.progress(len(cases), "testing")
			var results []conformance.Result
			var waits *waiting
			if pauses {
				waits = &waiting{}
			}
			for _, k := range cases {
				if err := cmd.Context().Err(); err != nil {
					return err
				}
				k.Slow = kernels
				err := waits.during(k.Name, func() error {
					results = append(results, k.Run(cmd.Context(), weir.Options{Exact: true}))
					return nil
				})
				if err != nil {
					return err
				}
				bar.add(1)
			}
			bar.finish()
			if err := cmd.Context().Err(); err != nil {
				return err // the last case's result is the interruption
			}
			return c.printResults(results, waits, strict)
		},
	}
	cmd.Flags().BoolVar(&pauses, "pauses", false,
		"collect garbage all the time, and print the collector's longest wait")
	cmd.Flags().BoolVar(&kernels, "kernels", false,
		"print how many kernels do not use the processor's best code, by reason")
	cmd.Flags().BoolVar(&strict, "strict", false, "count refused cases as failures")
	return cmd
}

// waiting is the output of test --pauses: the longest wait of Go's collector for a case. Nil measures nothing.
type waiting struct {
	Stop        float64 `json:"stop_ms"` // an upper bound
	Case        string  `json:"case"`    // the case in which the wait occurred
	Collections int     `json:"collections"`
}

// during runs a case while the collector works, and keeps the longest wait.
func (w *waiting) during(name string, run func() error) error {
	if w == nil {
		return run()
	}
	stop, collections, err := collecting(run)
	w.Collections += collections
	if stop > w.Stop {
		w.Stop, w.Case = stop, name
	}
	return err
}

// printResults prints the results, or their JSON, and returns errFailed if a case failed or, if strict, was refused.
func (c *cli) printResults(results []conformance.Result, waits *waiting, strict bool) error {
	count := map[conformance.Verdict]int{}
	for _, r := range results {
		count[r.Verdict]++
	}
	if c.json {
		printed := map[string]any{"pass": count[conformance.Pass], "fail": count[conformance.Fail],
			"refused": count[conformance.Refused], "cases": results}
		if waits != nil {
			printed["collector"] = waits
		}
		if err := c.printJSON(printed); err != nil {
			return err
		}
	} else {
		slow := causes{}
		byOp := map[string]map[conformance.Verdict]int{}
		var ops []string
		for _, r := range results {
			stdout.Printf("%-8s %s  %s\n", r.Verdict, r.Name, r.Why)
			slow.add(r.Kernels, r.Name)
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
			stdout.Printf("%-28s %4d pass %4d fail %4d refused\n", op, n[conformance.Pass], n[conformance.Fail],
				n[conformance.Refused])
		}
		stdout.Printf("%d passed, %d failed, %d refused\n", count[conformance.Pass], count[conformance.Fail],
			count[conformance.Refused])
		slow.print("cases")
		if waits != nil {
			stdout.Printf("the collector waited at most %.3f ms, in %s, over %d collections\n", waits.Stop, waits.Case,
				waits.Collections)
		}
	}
	if count[conformance.Fail] > 0 || strict && count[conformance.Refused] > 0 {
		return errFailed
	}
	return nil
}

package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
)

// kernelsFlags are the flags of kernels.
type kernelsFlags struct {
	modelFlags
	all bool
}

// kernelsCommand makes the command kernels.
func (c *cli) kernelsCommand() *cobra.Command {
	f := &kernelsFlags{}
	cmd := &cobra.Command{
		Use: "kernels MODEL...", Short: "List the kernels that do not use the processor's best code, and why",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("at least one MODEL is needed")}
			}
			return nil
		},
		Long: `List the kernels that do not use the processor's best code, and why.

A kernel is machine code, portable code in Go, or a host operator, which is not a loop nest. The list has the kernels that are not
machine code, and those whose machine code is in part slower than scheduled, each with the reason. bench --profile prints the
time that each kernel takes.`,
		Example: `  weir kernels model.onnx
  weir kernels model.onnx --all
  weir kernels model.onnx --cpu avx2 --dim batch=8
  weir kernels models/*.onnx`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.list(cmd.Context(), args) },
	}
	f.register(cmd, c)
	cmd.Flags().BoolVar(&f.all, "all", false, "list every kernel")
	return cmd
}

// kernelRow is a kernel in the output of kernels.
type kernelRow struct {
	Model   string   `json:"model"`
	Kernel  string   `json:"kernel"`
	Nodes   string   `json:"nodes"`
	Backend string   `json:"backend"`
	Why     []string `json:"why"`
}

// list prints the kernels of the models.
func (f *kernelsFlags) list(ctx context.Context, models []string) error {
	rows, launches, slow := []kernelRow{}, 0, causes{}
	for _, path := range models {
		l, _, err := f.compile(ctx, path, nil)
		if err != nil {
			return err
		}
		list := l.program.Kernels()
		l.Close()
		launches += len(list)
		slow.add(list, path)
		for _, k := range list {
			if f.all || len(k.Why) > 0 {
				rows = append(rows, kernelRow{path, k.Kernel, k.Nodes, k.Backend, append([]string{}, k.Why...)})
			}
		}
	}
	if f.c.json {
		return f.c.printJSON(rows)
	}
	for _, r := range rows {
		if len(models) > 1 {
			stdout.Printf("%s: ", r.Model)
		}
		stdout.Printf("%-9s %-24s %s\n", r.Backend, r.Kernel, shortened(r.Nodes, 80))
		for _, why := range r.Why {
			stdout.Printf("%-9s   %s\n", "", why)
		}
	}
	slow.print("models")
	stdout.Printf("%d of %d launches have a reason to be slow\n", slow.count(), launches)
	return nil
}

// expressions match the names and expressions in a cause; without them, equal causes have equal strings.
var expressions = regexp.MustCompile(`[^ ]*[$%*/][^ ]*( [-+*/] [^ ]+)*`)

// causes are the numbers of slow launches by cause, with the models or cases in which they occur.
type causes map[string]*cause

type cause struct {
	launches int
	in       map[string]bool
}

// add counts the slow launches of a model or case.
func (r causes) add(list []weir.KernelTime, in string) {
	for _, k := range list {
		if len(k.Why) == 0 {
			continue
		}
		key := k.Backend + ": " + expressions.ReplaceAllString(strings.Join(k.Why, "; "), "…")
		if k.Backend == "host" {
			key = fmt.Sprintf("host, %s: %s", k.Kernel, strings.Join(k.Why, "; "))
		}
		if r[key] == nil {
			r[key] = &cause{in: map[string]bool{}}
		}
		r[key].launches++
		r[key].in[in] = true
	}
}

// count returns the number of slow launches.
func (r causes) count() (total int) {
	for _, x := range r {
		total += x.launches
	}
	return total
}

// print prints the causes, the most frequent first.
func (r causes) print(what string) {
	for _, key := range slices.SortedFunc(maps.Keys(r), func(a, b string) int {
		return cmp.Or(cmp.Compare(r[b].launches, r[a].launches), cmp.Compare(a, b))
	}) {
		stdout.Printf("%5d launches in %d %s  %s\n", r[key].launches, len(r[key].in), what, shortened(key, 160))
	}
}

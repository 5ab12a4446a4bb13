// Command cyclestest estimates the speed of machine code for arm64 on paper. It compiles layers of networks, or models
// in files, finds the innermost loops of the kernels' code, and asks LLVM's llvm-mca how many cycles an iteration
// takes.
//
//	go run ./internal/cyclestest [-level PATTERN] [-case PATTERN] [-below PERCENT] [-code] [MODEL ...]
//
// A row is the loop of a kernel with most multiply-adds, or else with most other arithmetic. Its columns are the level,
// the multiply-adds of an iteration, instructions for each vector of multiply-adds, the same number of the same
// kernel's code for AVX2, and for each processor the cycles of an iteration, and in per cent of them the cycles that
// the busiest port allows.
//
// Code is generated and never run, so any machine with LLVM 19 makes the same table. llvm-mca sees neither caches nor
// the end of a loop: loads take as long as from the first cache, and no jump is mispredicted.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

func main() {
	if err := command(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cyclestest:", err)
		os.Exit(2)
	}
}

// rival is the level of amd64 whose instructions are counted beside.
const rival = "avx2"

// levels are the levels of arm64, each with the precision of products that it is for.
var levels = []struct {
	name      string
	precision dtype.DType
}{{"neon", dtype.F32}, {"dotprod", dtype.I8}, {"i8mm", dtype.I8}, {"bf16", dtype.BF16}}

// options are the command's.
type options struct {
	level, name *regexp.Regexp
	below       float64
	code        bool
}

// row is a line of the table.
type row struct {
	name, level string
	loop        aLoop
	work        work
	rival       float64 // instructions for each vector of multiply-adds with AVX2; 0: unknown
	estimates   map[string]estimate
}

// command does what the arguments say.
func command(ctx context.Context, out io.Writer, args []string) error {
	var o options
	flags := flag.NewFlagSet("cyclestest", flag.ContinueOnError)
	level := flags.String("level", "", "only the levels that this `pattern` matches, of neon, dotprod, i8mm and bf16")
	name := flags.String("case", "", "only the kernels in whose names this `pattern` is found")
	flags.Float64Var(&o.below, "below", 0, "only rows in which a processor reaches less than this `percent` of its limit")
	flags.BoolVar(&o.code, "code", false, "print the loops' instructions too")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if o.level, err = regexp.Compile(*level); err != nil {
		return diag.Inputf("-level: %v", err)
	}
	if o.name, err = regexp.Compile(*name); err != nil {
		return diag.Inputf("-case: %v", err)
	}
	p, err := found()
	if err != nil {
		return err
	}
	list, err := cases(ctx, flags.Args())
	if err != nil {
		return err
	}
	rows, err := table(ctx, p, list, &o)
	if err != nil {
		return err
	}
	for _, m := range models {
		if err := estimateAll(ctx, p, m, rows); err != nil {
			return err
		}
	}
	print(out, rows, &o)
	return nil
}

// table returns the rows of all cases, without estimates.
func table(ctx context.Context, p *programs, list []aCase, o *options) (rows []*row, err error) {
	for _, l := range levels {
		if !o.level.MatchString(l.name) {
			continue
		}
		seen := map[string]bool{} // kernels whose code is that of the level before, or of another case
		for i := range list {
			if list[i].quantised && l.precision != dtype.I8 {
				continue
			}
			mine, err := list[i].rows(ctx, p, l.name, "aarch64", l.precision, o)
			if err != nil {
				return nil, err
			}
			others, err := list[i].rows(ctx, p, rival, "x86_64", l.precision, o)
			if err != nil {
				return nil, err
			}
			for _, r := range mine {
				text := fmt.Sprint(r.loop)
				if (l.precision != dtype.F32 && r.work.vectors == 0) || seen[text] {
					continue
				}
				seen[text] = true
				for _, other := range others {
					if other.name == r.name && other.work.vectors > 0 {
						r.rival = float64(other.work.instructions) / float64(other.work.vectors)
					}
				}
				rows = append(rows, r)
			}
		}
	}
	return rows, nil
}

// rows returns the rows of a case's kernels at a level.
func (c *aCase) rows(ctx context.Context, p *programs, level, triple string, precision dtype.DType,
	o *options) (rows []*row, err error) {
	kernels, err := c.kernels(ctx, level, precision)
	if err != nil {
		return nil, err
	}
	for _, k := range kernels {
		name := c.name + ": " + k.name
		if !o.name.MatchString(name) {
			continue
		}
		var loops []aLoop
		for _, code := range k.code {
			list, err := disassembled(ctx, p, triple, code)
			if err != nil {
				return nil, err
			}
			loops = append(loops, innermost(list)...)
		}
		if best, w, ok := mainLoop(loops); ok {
			rows = append(rows, &row{name: name, level: level, loop: best, work: w, estimates: map[string]estimate{}})
		}
	}
	return rows, nil
}

// estimateAll estimates the loops that a processor runs.
func estimateAll(ctx context.Context, p *programs, m model, rows []*row) error {
	var mine []*row
	var loops []aLoop
	for _, r := range rows {
		if m.runs(r.level) {
			mine, loops = append(mine, r), append(loops, r.loop)
		}
	}
	if len(loops) == 0 {
		return nil
	}
	list, err := p.estimates(ctx, m.name, loops)
	for i, e := range list {
		mine[i].estimates[m.name] = e
	}
	return err
}

// print prints the table.
func print(out io.Writer, rows []*row, o *options) {
	fmt.Fprintf(out, "%-66s %-8s %8s %6s %6s", "kernel", "level", "products", "insts", "avx2")
	for _, m := range models {
		fmt.Fprintf(out, " %17s", m.name)
	}
	fmt.Fprintln(out)
	for _, r := range rows {
		if o.below > 0 && r.least() >= o.below/100 {
			continue
		}
		fmt.Fprintf(out, "%-66s %-8s %8d %6s %6s", r.name, r.level, r.work.products, r.each(), number(r.rival))
		for _, m := range models {
			if e, ok := r.estimates[m.name]; ok {
				fmt.Fprintf(out, " %11.2f %3.0f %%", e.cycles, 100*e.share())
			} else {
				fmt.Fprintf(out, " %17s", "")
			}
		}
		fmt.Fprintln(out)
		for _, in := range r.loop {
			if o.code {
				fmt.Fprintf(out, "\t%s\n", in.text)
			}
		}
	}
}

// least returns the least share that a processor reaches.
func (r *row) least() float64 {
	share := 1.0
	for _, e := range r.estimates {
		share = min(share, e.share())
	}
	return share
}

// each returns the instructions for each vector of multiply-adds.
func (r *row) each() string {
	if r.work.vectors == 0 {
		return "-"
	}
	return number(float64(r.work.instructions) / float64(r.work.vectors))
}

// number returns a number as the table has it, or - for 0.
func number(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}

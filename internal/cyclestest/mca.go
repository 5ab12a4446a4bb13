package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"

	"github.com/weirml/weir/internal/diag"
)

// programs are the paths of LLVM's programs: the disassembler, and the estimator of cycles.
type programs struct{ mc, mca string }

// found returns the programs, of the version whose name is found first.
func found() (*programs, error) {
	for _, suffix := range []string{"", "-21", "-20", "-19"} {
		mc, err := exec.LookPath("llvm-mc" + suffix)
		if err != nil {
			continue
		}
		if mca, err := exec.LookPath("llvm-mca" + suffix); err == nil && known(mca) {
			return &programs{mc, mca}, nil
		}
	}
	return nil, diag.Unsupportedf("there is no llvm-mca that knows %s", models[len(models)-1].name).
		WithFix("install LLVM 19 or later (Debian: llvm-19)")
}

// known reports whether an llvm-mca knows the last of the models.
func known(mca string) bool {
	out, _ := exec.Command(mca, "--mtriple=aarch64", "--mcpu=help").CombinedOutput() // fails: there is no loop
	return strings.Contains(string(out), models[len(models)-1].name+" ")
}

// model is a processor as llvm-mca knows it, and its features that levels need.
type model struct{ name, features string }

// models are the processors of the table. A Cortex-A76 is a Neoverse N1 with smaller caches; LLVM estimates it as a
// Cortex-A57, whose ports are others, so it has no column.
var models = []model{{"neoverse-n1", "dotprod"}, {"neoverse-v1", "dotprod i8mm bf16"},
	{"neoverse-v2", "dotprod i8mm bf16"}}

// runs reports whether a processor runs a level's code.
func (m model) runs(level string) bool { return level == "neon" || strings.Contains(m.features, level) }

// estimate is what llvm-mca says of a loop: the cycles of an iteration, and those that the busiest port, or the number
// of instructions that begin in a cycle, would allow if no result were waited for.
type estimate struct{ cycles, limit float64 }

// share is the limit's part of the cycles.
func (e estimate) share() float64 { return min(1, e.limit/max(e.cycles, 1e-9)) }

// iterations is the number of iterations that are estimated; the first ones fill the pipeline.
const iterations = 200

// estimates asks llvm-mca for the loops' cycles on a processor.
func (p *programs) estimates(ctx context.Context, processor string, loops []aLoop) ([]estimate, error) {
	var in strings.Builder
	for i, l := range loops {
		fmt.Fprintf(&in, "# LLVM-MCA-BEGIN loop%d\n", i)
		for _, x := range l {
			in.WriteString(x.text + "\n")
		}
		in.WriteString("# LLVM-MCA-END\n")
	}
	cmd := exec.CommandContext(ctx, p.mca, "--mtriple=aarch64", "--mcpu="+processor, "--mattr=+all", "--json",
		fmt.Sprintf("--iterations=%d", iterations))
	cmd.Stdin = strings.NewReader(in.String())
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		return nil, diag.Inputf("%s: %v: %.500s", p.mca, err, errors.String())
	}
	var report struct {
		CodeRegions []struct {
			SummaryView struct {
				BlockRThroughput float64
				TotalCycles      float64
			}
		}
	}
	if err := json.Unmarshal(out, &report); err != nil || len(report.CodeRegions) != len(loops) {
		return nil, diag.Inputf("%s describes %d loops instead of %d: %v", p.mca, len(report.CodeRegions), len(loops), err)
	}
	list := make([]estimate, len(loops))
	for i, r := range report.CodeRegions {
		list[i] = estimate{r.SummaryView.TotalCycles / iterations, r.SummaryView.BlockRThroughput}
	}
	return list, nil
}

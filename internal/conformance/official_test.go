package conformance

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/weirtest"
)

// official returns the folder onnx/backend/test/data of the Python package onnx, which is not in this repository.
func official(t *testing.T) string {
	data := os.Getenv("WEIR_ONNX_DATA")
	if data == "" {
		t.Skip("WEIR_ONNX_DATA is not set: it names the folder onnx/backend/test/data of the Python package onnx, which is " +
			"not part of this repository")
	}
	return data
}

// knownFaults are the official cases that fail or take other memory than predicted, by a prefix of their names, and the
// reason. If such a case passes, the test asks for its row to be removed.
var knownFaults = map[string]string{}

// knownFault returns the row of a case.
func knownFault(name string) (prefix string, ok bool) {
	for p := range knownFaults {
		if strings.HasPrefix(name, p) && len(p) > len(prefix) {
			prefix, ok = p, true
		}
	}
	return prefix, ok
}

// The number of cases in ONNX 1.22.0; a later version may have more.
const (
	leastCases = 1905
	leastNets  = 9
)

// TestOfficial runs all of ONNX's own cases: single operators, small graphs and complete networks. Cases that are not
// supported are refused, and counted by operator.
func TestOfficial(t *testing.T) {
	data := official(t)
	cases, err := Find([]string{data})
	if err != nil {
		t.Fatal(err)
	}
	var nets []Case // complete networks, which run on all threads
	for i := range cases {
		cases[i].Measure = true
	}
	cases = slices.DeleteFunc(cases, func(c Case) bool {
		net := filepath.Base(filepath.Dir(c.Dir)) == "real"
		if net {
			nets = append(nets, c)
		}
		return net
	})
	if len(cases) < leastCases || len(nets) < leastNets {
		t.Errorf("%d cases of operators and %d of whole networks, at least %d and %d are expected", len(cases), len(nets),
			leastCases, leastNets)
	}
	for i, cpu := range levels() {
		whole := i == len(levels())-1 || !testing.Short()
		t.Run(cpu, func(t *testing.T) {
			if whole {
				officialOn(t, cpu, cases, nets, true)
			} else {
				officialOn(t, cpu, weirtest.Part(cases, 8), nil, false)
			}
		})
	}
}

// levels returns the levels of this processor, each of which has code of its own.
func levels() []string {
	return slices.DeleteFunc(compiler.Levels(), func(level string) bool {
		_, err := target.Select(level, 1)
		return err != nil
	})
}

// officialOn runs the cases with code for one level. If they are all, their counts are compared with the recorded ones.
func officialOn(t *testing.T, cpu string, cases, nets []Case, all bool) {
	var faults schedulingFaults
	results := runAll(t, cases, weir.Options{CPU: cpu, Logger: faults.log()})
	for _, c := range nets {
		results = append(results, c.guarded(t, weir.Options{CPU: cpu}))
	}
	count, exact, bounded := map[Verdict]int{}, 0, 0
	met := map[string]bool{}
	byOp := map[string]map[Verdict]int{}
	for _, r := range results {
		count[r.Verdict]++
		for _, op := range r.Ops {
			if byOp[op] == nil {
				byOp[op] = map[Verdict]int{}
			}
			byOp[op][r.Verdict]++
		}
		fault := memoryFault(r)
		if r.Verdict == Fail {
			fault = r.Why
		}
		if prefix, ok := knownFault(r.Name); ok {
			met[prefix] = met[prefix] || fault != ""
			t.Logf("known: %s: %s", r.Name, fault)
			continue
		}
		switch {
		case fault != "":
			t.Errorf("%s: %s", r.Name, fault)
		case r.DataDecide:
			bounded++
		case r.Verdict == Pass:
			exact++
		}
	}
	for _, fault := range faults.list {
		t.Error(fault)
	}
	for prefix := range knownFaults {
		if all && !met[prefix] {
			t.Errorf("no case that begins with %s goes wrong: take it off the list of known faults", prefix)
		}
	}
	t.Logf("%d cases: %d pass, %d fail, %d refused; predicted = measured for %d, and with what was observed put in for "+
		"%d whose data decide", len(results), count[Pass], count[Fail], count[Refused], exact, bounded)
	if !all {
		return
	}
	t.Log("\n" + operatorTable(byOp))
	checkCases(t, byOp)
	compareChecks(t, cpu, results)
}

// casesFile counts the cases by operator, for docs/onnx.md: the operator, and the numbers that pass and are refused.
const casesFile = "../importer/onnx/testdata/cases.txt"

// checkCases compares the counts with the file's.
func checkCases(t *testing.T, byOp map[string]map[Verdict]int) {
	var b strings.Builder
	for _, op := range slices.Sorted(maps.Keys(byOp)) {
		fmt.Fprintf(&b, "%s %d %d\n", op, byOp[op][Pass], byOp[op][Refused])
	}
	if *rewrite {
		if err := os.WriteFile(casesFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if data, err := os.ReadFile(casesFile); err != nil || string(data) != b.String() {
		t.Errorf("%s is not what the cases say (%v): go test ./internal/conformance -run TestOfficial -rewrite, then "+
			"./internal/importer/onnx -run TestList -rewrite", casesFile, err)
	}
}

// operatorTable lists the operators with a refused or failed case.
func operatorTable(byOp map[string]map[Verdict]int) string {
	var ops []string
	clean := 0
	for op, n := range byOp {
		if n[Fail]+n[Refused] == 0 {
			clean++
		} else {
			ops = append(ops, op)
		}
	}
	sort.Strings(ops)
	var b strings.Builder
	fmt.Fprintf(&b, "%-28s %5s %5s %8s\n", "operator", "pass", "fail", "refused")
	for _, op := range ops {
		fmt.Fprintf(&b, "%-28s %5d %5d %8d\n", op, byOp[op][Pass], byOp[op][Fail], byOp[op][Refused])
	}
	fmt.Fprintf(&b, "%-28d operators pass all their cases\n", clean)
	return b.String()
}

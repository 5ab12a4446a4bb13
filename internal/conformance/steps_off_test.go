package conformance

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/weirtest"
)

var (
	everyStep = flag.Bool("every-step", false,
		"run every official case, networks too, without each pass and step of the schedule: it takes hours")
	stepMixes = flag.Int("step-mixes", 12, "how many random sets of passes and steps are left out together")
)

const (
	casesOfOneMix = 40
	leastPassing  = 0.9 // of the runs: a refused case tests nothing
)

// TestOfficialStepsOff runs ONNX's own cases, or those of testdata/onnx if the data is missing, without each pass and
// step of the schedule that can be left out, and without random sets of them: a case passes, or is refused, and its
// memory is the predicted one. The steps share the cases, so that every case runs once; with -every-step each step runs
// all.
func TestOfficialStepsOff(t *testing.T) {
	place := os.Getenv("WEIR_ONNX_DATA")
	if place == "" {
		place = filepath.Join("..", "..", "testdata", "onnx")
	}
	cases, err := Find([]string{place})
	if err != nil {
		t.Fatal(err)
	}
	if !*everyStep {
		cases = slices.DeleteFunc(cases, func(c Case) bool { return filepath.Base(filepath.Dir(c.Dir)) == "real" })
	}
	for i := range cases {
		cases[i].Measure = true
	}
	names := compiler.OptionalSteps()
	r := rand.New(rand.NewPCG(18, 5))
	r.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	cases = weirtest.Part(cases, 6)
	var all stepsOff
	for i, name := range names {
		part := cases
		if !*everyStep {
			part = partOf(cases, i, len(names))
		}
		all.run(t, part, name)
	}
	ran := all.ran
	for range *stepMixes {
		var some []string
		for _, name := range names {
			if r.IntN(3) == 0 {
				some = append(some, name)
			}
		}
		first := r.IntN(len(cases))
		all.run(t, partOf(append(slices.Clone(cases[first:]), cases[:first]...), 0, max(1, len(cases)/casesOfOneMix)),
			some...)
	}
	if ran < len(cases) {
		t.Errorf("%d runs without one step of %d cases", ran, len(cases))
	}
	if float64(all.passed) < leastPassing*float64(all.ran) {
		t.Errorf("%d of %d runs pass: the others show little", all.passed, all.ran)
	}
	t.Logf("%d cases, %d steps: %d runs, %d pass, %d refused", len(cases), len(names), all.ran, all.passed, all.refused)
}

// partOf returns every n-th of the cases, from the i-th on. If there are fewer cases than n, it returns one of them.
func partOf(cases []Case, i, n int) (part []Case) {
	for at := i % min(n, len(cases)); at < len(cases); at += n {
		part = append(part, cases[at])
	}
	return part
}

// stepsOff counts runs by outcome.
type stepsOff struct{ ran, passed, refused int }

// run runs cases without some steps.
func (s *stepsOff) run(t *testing.T, cases []Case, without ...string) {
	t.Helper()
	defer func(was []string) { compiler.Without = was }(compiler.Without)
	compiler.Without = without
	for _, r := range runAll(t, cases, weir.Options{}) {
		s.ran++
		fault := memoryFault(r)
		switch {
		case r.Verdict == Pass && fault == "":
			s.passed++
		case r.Verdict == Refused:
			s.refused++
		case r.Verdict == Fail:
			t.Errorf("%s without %s: %s", r.Name, strings.Join(without, ", "), r.Why)
		default:
			t.Errorf("%s without %s: %s", r.Name, strings.Join(without, ", "), fault)
		}
	}
}

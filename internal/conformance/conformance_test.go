package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// refused are the cases of testdata/onnx that are refused, with a part of the message.
var refused = map[string]string{
	"passthrough": "an initializer's value is part of the program",
}

// faulty are the cases that fail, and the reason.
var faulty = map[string]string{}

// runAll runs the cases on two workers, each run on one thread, and returns the results in the order of the cases.
func runAll(t *testing.T, cases []Case, o weir.Options) []Result {
	t.Helper()
	o.Threads = 1
	results := make([]Result, len(cases))
	next := make(chan int)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for i := range next {
				results[i] = cases[i].guarded(t, o)
			}
		})
	}
	for i := range cases {
		next <- i
	}
	close(next)
	wait.Wait()
	return results
}

// guarded calls Run, and turns a panic that crosses the API into a failure.
func (c Case) guarded(t *testing.T, o weir.Options) (r Result) {
	defer func() {
		if p := recover(); p != nil {
			r = Result{Name: c.Name, Verdict: Fail, Why: fmt.Sprintf("a panic: %v", p)}
		}
	}()
	return c.Run(t.Context(), o)
}

// memoryFault returns the fault in a case's memory, or "".
func memoryFault(r Result) string {
	for i, m := range r.Memory {
		if m.Measured > m.Predicted || m.Measured < m.Predicted && !r.DataDecide {
			return fmt.Sprintf("data set %d: predicted %d bytes, measured %d", i, m.Predicted, m.Measured)
		}
		if m.Measured != m.Observed {
			return fmt.Sprintf("data set %d: predicted %d bytes with what the data decided put in, measured %d", i, m.Observed,
				m.Measured)
		}
	}
	return ""
}

// TestRepositoryModels runs the cases of testdata/onnx on each target and compares their memory with the predicted
// bytes.
func TestRepositoryModels(t *testing.T) {
	cases, err := Find([]string{filepath.Join("..", "..", "testdata", "onnx")})
	if err != nil {
		t.Fatal(err)
	}
	for i := range cases {
		cases[i].Measure = true
	}
	wrong := map[string]bool{}
	for _, target := range []weir.Target{weir.Best, weir.Portable, weir.Reference} {
		t.Run(string(target), func(t *testing.T) {
			cases, whole := cases, target == weir.Best || !testing.Short()
			if !whole {
				cases = weirtest.Part(cases, 3)
			}
			seen := map[string]bool{}
			exact := 0
			for _, r := range runAll(t, cases, weir.Options{Target: target}) {
				why, listed := refused[r.Name]
				seen[r.Name] = true
				fault := memoryFault(r)
				if why := faulty[r.Name]; why != "" {
					wrong[r.Name] = wrong[r.Name] || r.Verdict == Fail || fault != ""
					continue
				}
				switch {
				case r.Verdict == Fail:
					t.Errorf("%s: %s", r.Name, r.Why)
				case listed && r.Verdict == Pass:
					t.Errorf("%s passes: take it off the list of refusals", r.Name)
				case listed && !strings.Contains(r.Why, why):
					t.Errorf("%s is refused for another reason than the list has: %s", r.Name, r.Why)
				case !listed && r.Verdict == Refused:
					t.Errorf("%s is refused: %s", r.Name, r.Why)
				case fault != "":
					t.Errorf("%s: %s", r.Name, fault)
				case r.Verdict == Pass && len(r.Memory) == 0:
					t.Errorf("%s was not measured", r.Name)
				case r.Verdict == Pass && !r.DataDecide:
					exact++
				}
			}
			for name := range refused {
				if whole && !seen[name] {
					t.Errorf("the list of refusals names %s, which is no case", name)
				}
			}
			t.Logf("%d cases, %d refused; of %d the shapes decide the memory, predicted = measured", len(cases), len(refused),
				exact)
		})
	}
	for name := range faulty {
		if !wrong[name] {
			t.Errorf("%s ends well: take it off the list of faulty cases", name)
		}
	}
}

// TestDebug runs the repository's models again, in a process of its own, with kernels for a machine of tiny limits, and
// with the pages of closed memory made inaccessible. Nothing fails, no limit is exceeded, and the measured bytes are
// the predicted ones.
func TestDebug(t *testing.T) {
	for _, word := range []string{"tight", "poison"} {
		t.Run(word, func(t *testing.T) {
			if os.Getenv("WEIR_DEBUG") != "" {
				t.Skip("this is the process within")
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRepositoryModels$/^#00$")
			cmd.Env = append(os.Environ(), "WEIR_DEBUG="+word)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

package conformance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/values"
)

// mutated are the models of testdata whose artefacts are changed: products, convolutions, indices from data, views, states of loops, and what is written where data say.
var mutated = []string{"gemm_matmul", "conv_kinds", "gather_family", "slice_steps", "attention_two_dims", "loop_growing_data", "scatter_family", "nonzero_use", "kv_cache", "reshape_computed"}

// WEIR_MUTANTS, a number, is how many times as many artefacts as in CI are tried, each from another seed: 1000 takes some hours.
const mutantsVariable = "WEIR_MUTANTS"

// mutantTime is when a run is stopped that may have no end.
const mutantTime = 50 * time.Millisecond

// TestMutatedArtefacts changes an integer of a valid artefact and sets its checksum right. Whatever the integer, compiling and running ends in results or an error: no access leaves its
// operand, which a page that faults follows, and the process lives. A process of its own runs them, so that one that dies is told by name.
func TestMutatedArtefacts(t *testing.T) {
	if runtime.GOOS == "js" || runtime.GOOS == "wasip1" {
		t.Skip("there are no processes to start")
	}
	rounds := 1
	if text := os.Getenv(mutantsVariable); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for first := 0; ; {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMutant$", "-test.v")
		cmd.Env = append(os.Environ(), "WEIR_DEBUG=guard,poison", "WEIR_MUTANT="+strconv.Itoa(first), mutantsVariable+"="+strconv.Itoa(rounds), "GOMEMLIMIT=1GiB")
		out, err := cmd.CombinedOutput()
		at, what, ended := first, "", ""
		lines := bufio.NewScanner(bytes.NewReader(out))
		for lines.Scan() {
			line := lines.Text()
			if n, found := strings.CutPrefix(line, "mutant "); found {
				number, rest, _ := strings.Cut(n, ": ")
				at, _ = strconv.Atoi(number)
				what = rest
			} else if strings.Contains(line, "mutants ended") {
				ended = line
			} else if strings.Contains(line, "wild: ") {
				t.Errorf("%s\n%s", what, line)
			}
		}
		if err == nil && ended != "" {
			t.Log(ended)
			return
		}
		if what == "" || t.Failed() && at-first > 200 || first > 1<<20 {
			t.Fatalf("%v\n%s", err, tail(out))
		}
		t.Errorf("mutant %d ends the process: %s\n%v\n%s", at, what, err, tail(out))
		first = at + 1
	}
}

func tail(out []byte) string {
	if i := bytes.Index(out, []byte("\nfatal error")); i >= 0 {
		out = out[i:]
	} else if i := bytes.Index(out, []byte("unexpected fault address")); i >= 0 {
		out = out[i:]
	}
	return string(out[:min(len(out), 2000)])
}

// TestMutant is the process that TestMutatedArtefacts starts.
func TestMutant(t *testing.T) {
	first, err := strconv.Atoi(os.Getenv("WEIR_MUTANT"))
	if err != nil {
		t.Skip("it is a part of TestMutatedArtefacts, which starts it")
	}
	rounds, err := strconv.Atoi(os.Getenv(mutantsVariable))
	if err != nil {
		t.Fatal(err)
	}
	defer weir.SetLimit(weir.SetLimit(1 << 30))
	const oneOf = 512
	number := 0
	var s mutantResults
	for round := range rounds {
		for _, name := range mutated {
			for _, cpu := range levels()[:min(2, len(levels()))] {
				m, in := mutableOf(t, name, cpu)
				m.Mutations(oneOf, round*7919+len(name), func(what string, file []byte) bool {
					if number++; number > first {
						fmt.Printf("mutant %d: %s, %s: %s\n", number-1, name, cpu, what)
						s.run(file, in)
					}
					return true
				})
			}
		}
	}
	if first == 0 && (s.compiled < 20 || s.refused < 50) {
		t.Errorf("%+v: the mutants show little", s)
	}
	fmt.Printf("%d mutants ended: %+v\n", number-first, s)
}

// mutableOf compiles a model, and gives its artefact and what it is run with.
func mutableOf(t *testing.T, name, cpu string) (*Mutable, weir.Inputs) {
	t.Helper()
	dir := filepath.Join("../../testdata/onnx", name)
	cases, err := Find([]string{dir})
	if err != nil || len(cases) != 1 {
		t.Fatal(err, len(cases))
	}
	model, err := weir.Load(filepath.Join(dir, "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	p, err := weir.Compile(t.Context(), model, weir.Options{Threads: 1, CPU: cpu})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var file bytes.Buffer
	if _, err := p.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	m, err := ParseMutable(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if again := m.With(LoopText, m.Text(LoopText)); !bytes.Equal(again, file.Bytes()) {
		t.Fatal("an artefact that nothing is changed in is another one")
	}
	sets, err := cases[0].sets(p)
	if err != nil {
		t.Fatal(err)
	}
	in := weir.Inputs{}
	for i, info := range p.Inputs() {
		v, err := sets[0].input(i, info)
		if err != nil {
			t.Fatal(err)
		}
		if in[info.Name], _, err = values.ToArg(v); err != nil {
			t.Fatal(err)
		}
	}
	return m, in
}

// mutantResults counts how mutants end.
type mutantResults struct{ refused, compiled, failed, internal, ran int }

// run loads, compiles and runs an artefact. A run that does not end is stopped: its loops may be of any length.
func (s *mutantResults) run(file []byte, in weir.Inputs) {
	m, err := weir.LoadBytes(file)
	if err != nil {
		s.refused++
		return
	}
	defer m.Close()
	p, err := weir.Compile(context.Background(), m, weir.Options{Threads: 1, Calls: 1})
	if err != nil {
		s.refused++
		return
	}
	defer p.Close()
	s.compiled++
	ctx, cancel := context.WithTimeout(context.Background(), mutantTime)
	defer cancel()
	r, err := p.Run(ctx, in)
	if err == nil {
		s.ran++
		r.Close()
		return
	}
	s.failed++
	if errors.Is(err, weir.ErrInternal) {
		s.internal++
		if strings.Contains(err.Error(), "fault") || strings.Contains(err.Error(), "touches") {
			fmt.Println("wild:", strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
}

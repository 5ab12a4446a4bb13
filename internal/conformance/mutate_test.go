package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/conformance/conformancetest"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// mutated are the models of testdata whose artefacts are changed: products, convolutions, indices from data, views,
// states of loops, and writes at indices from data.
var mutated = []string{"gemm_matmul", "conv_kinds", "gather_family", "slice_steps", "attention_two_dims",
	"loop_growing_data", "scatter_family", "nonzero_use", "kv_cache", "reshape_computed"}

// memoryTexts are the texts that are changed: texts that lay out memory, and texts with states.
var memoryTexts = []string{"../../testdata/memory/*/*.weir", "../../testdata/states/*.weir"}

// WEIR_MUTANTS is the number of mutants; WEIR_MUTANT is the seed of the first, 0 if it is not set.
const (
	mutantsVariable = "WEIR_MUTANTS"
	mutantVariable  = "WEIR_MUTANT"
	mutantFile      = "WEIR_MUTANT_FILE" // in the process of the mutants: where the seed of the one at hand is written
	someMutants     = 1200
)

// mutantTime is the time after which a run that may be endless is stopped.
const mutantTime = 10 * time.Millisecond

// TestMutatedArtefacts changes valid artefacts, with right checksums, and texts that lay out memory: integers, names,
// operators, statements, lines. For every mutant, compiling and running end in results or an error: no access leaves
// its operand, after which a page faults, and the process survives. A process of its own runs them, and writes the seed
// of each before it is tried, so that the seed of a mutant that ends the process is known.
func TestMutatedArtefacts(t *testing.T) {
	if runtime.GOOS == "js" || runtime.GOOS == "wasip1" {
		t.Skip("there are no processes to start")
	}
	first, count := number(t, mutantVariable, 0), number(t, mutantsVariable, someMutants)
	at := filepath.Join(t.TempDir(), "seed")
	for end := first + count; first < end; first++ {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMutant$", "-test.v", "-test.timeout=0")
		cmd.Env = append(os.Environ(), "WEIR_DEBUG=guard,poison", mutantFile+"="+at, "GOMEMLIMIT=1GiB", "GOGC=400",
			fmt.Sprintf("%s=%d", mutantVariable, first), fmt.Sprintf("%s=%d", mutantsVariable, end-first))
		out, err := cmd.CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "mutants") {
				t.Log(strings.TrimSpace(line))
			}
		}
		if err == nil {
			return
		}
		seed, readErr := os.ReadFile(at)
		last, numberErr := strconv.Atoi(strings.TrimSpace(string(seed)))
		if readErr != nil || numberErr != nil {
			t.Fatalf("%v\n%s", err, tail(out))
		}
		t.Errorf("%s=%d ends the process, or is at fault: %v\n%s", mutantVariable, last, err, tail(out))
		if bytes.Contains(out, []byte("--- FAIL: TestMutant")) {
			return // it reported the faults, and has tried all
		}
		first = last
	}
}

// number returns an integer of the environment, or otherwise.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// tail returns at most 3,000 bytes of a process's output, from its first fault on.
func tail(out []byte) string {
	for _, begin := range []string{"\nfatal error", "unexpected fault address", "panic: ", "mutate_test.go"} {
		if i := bytes.Index(out, []byte(begin)); i >= 0 {
			out = out[i:]
			break
		}
	}
	return string(out[:min(len(out), 3000)])
}

// origin is the source of mutants: an artefact with its inputs, or a text.
type origin struct {
	name string
	file *conformancetest.Mutable
	in   weir.Inputs
	text conformancetest.Words
}

// TestMutant is the process that TestMutatedArtefacts starts.
func TestMutant(t *testing.T) {
	if os.Getenv(mutantFile) == "" {
		t.Skip("it is a part of TestMutatedArtefacts, which starts it")
	}
	at, err := os.Create(os.Getenv(mutantFile))
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	var origins []origin
	for _, name := range mutated {
		for _, cpu := range levels()[:min(2, len(levels()))] {
			m, in := mutableOf(t, name, cpu)
			origins = append(origins, origin{name: name + ", " + cpu, file: m, in: in})
		}
	}
	for _, pattern := range memoryTexts {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			origins = append(origins, origin{name: filepath.Base(file), text: conformancetest.WordsOf(string(text))})
		}
	}
	defer weir.SetLimit(weir.SetLimit(1 << 30))
	var s mutantResults
	first, count := number(t, mutantVariable, 0), number(t, mutantsVariable, someMutants)
	began, told := time.Now(), time.Now()
	for seed := first; seed < first+count; seed++ {
		if _, err := at.WriteAt(fmt.Appendf(nil, "%-20d\n", seed), 0); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewSource(int64(seed)))
		o := origins[r.Intn(len(origins))]
		var what string
		var file []byte
		if o.file != nil {
			what, file = o.file.Mutant(r)
		} else {
			var text string
			text, what = o.text.Mutate(r)
			file = []byte(text)
		}
		before := weir.Usage()
		err := s.run(file, o.in, o.file == nil)
		if after := weir.Usage(); after.Current != before.Current {
			err = errors.Join(err, fmt.Errorf("%+v before it, %+v after it", before, after))
		}
		if err != nil {
			t.Errorf("%s=%d: %s: %s\n%v", mutantVariable, seed, o.name, what, err)
		}
		if time.Since(told) > time.Minute {
			told = time.Now()
			fmt.Fprintf(os.Stderr, "%d mutants after %v: %+v\n", seed+1-first, time.Since(began).Round(time.Second), s)
		}
	}
	if count >= someMutants && (s.compiled < count/20 || s.refused < count/5 || s.ran < count/40) {
		t.Errorf("%+v: the mutants show little", s)
	}
	fmt.Printf("%d mutants in %v: %+v\n", count, time.Since(began).Round(time.Second), s)
}

// mutableOf compiles a model, and returns its artefact and inputs.
func mutableOf(t *testing.T, name, cpu string) (*conformancetest.Mutable, weir.Inputs) {
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
	m, err := conformancetest.ParseMutable(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if again := m.With(conformancetest.LoopText, m.Text(conformancetest.LoopText)); !bytes.Equal(again, file.Bytes()) {
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

// mutantResults counts the outcomes of mutants.
type mutantResults struct{ refused, compiled, failed, ran int }

// run loads, compiles and runs a mutant. A run that does not end is stopped. It returns errors that are bugs of Weir:
// internal errors, accesses outside operands, and runs that ended but still hold their program.
func (s *mutantResults) run(file []byte, in weir.Inputs, text bool) (failed error) {
	m, err := weir.LoadBytes(file)
	if err != nil {
		s.refused++
		return ours(err)
	}
	defer m.Close()
	p, err := weir.Compile(context.Background(), m, weir.Options{Threads: 1, Calls: 1})
	if err != nil {
		s.refused++
		return ours(err)
	}
	defer func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		failed = errors.Join(failed, p.CloseContext(ended))
	}()
	s.compiled++
	if text {
		tensors := map[string]*weir.Tensor{}
		defer func() {
			for _, t := range tensors {
				t.Close()
			}
		}()
		if in = zeros(p, tensors); in == nil {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), mutantTime)
	defer cancel()
	r, err := p.Run(ctx, in)
	if err == nil {
		s.ran++
		r.Close()
		return nil
	}
	s.failed++
	return ours(err)
}

// ours returns err if it is a bug of Weir, and nil otherwise.
func ours(err error) error {
	if errors.Is(err, weir.ErrInternal) || !errors.As(err, new(*weir.Error)) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// zeros returns arguments with three elements in each named dimension; nil if some are large. The caller closes the
// tensors.
func zeros(p *weir.Program, tensors map[string]*weir.Tensor) weir.Inputs {
	in := weir.Inputs{}
	for _, info := range p.Inputs() {
		shape, count := []int64{}, int64(1)
		for _, extent := range info.Shape {
			n := extent.Size
			if extent.Dim != "" {
				n = 3
			}
			if n < 0 || n > 1<<16 || count*n > 1<<16 {
				return nil
			}
			shape, count = append(shape, n), count*n
		}
		x, err := tensor.New(info.DType, shape...)
		if err != nil {
			return nil
		}
		w, err := values.ToWeir(x)
		if err != nil {
			return nil
		}
		tensors[info.Name] = w
		if in[info.Name] = w; info.State != "" {
			in[info.Name] = weir.Update(w)
		}
	}
	return in
}

// TestZeroedArtefacts replaces each integer of an artefact's program by 0, divisors among them.
func TestZeroedArtefacts(t *testing.T) {
	for _, name := range []string{"slice_steps", "attention_two_dims"} {
		m, in := mutableOf(t, name, "portable")
		var s mutantResults
		for i, word := range m.Words(conformancetest.ProgramText) {
			if word[0] < '1' || word[0] > '9' {
				continue
			}
			words := slices.Clone(m.Words(conformancetest.ProgramText))
			words[i] = "0"
			if err := s.run(m.With(conformancetest.ProgramText, strings.Join(words, "")), in, false); err != nil {
				t.Errorf("%s: token %d, %s, becomes 0: %v", name, i, word, err)
			}
		}
		if s.refused == 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/weirtest"
)

// TestUnproved compiles models, for portable code and for this processor, and verifies their loops once more without
// the compiler's facts: no access may be unproved. It counts the kernels, the accesses and the checked accesses of the
// models of testdata, of ONNX's own cases and, if WEIR_MODELS is set, of each model.onnx in the folders of WEIR_MODELS.
func TestUnproved(t *testing.T) {
	folders := []string{"../../testdata/onnx"}
	if data := os.Getenv("WEIR_ONNX_DATA"); data != "" && os.Getenv("WEIR_MODELS") != "" {
		folders = append(folders, filepath.Join(data, "node"), filepath.Join(data, "simple"))
	}
	var files []string
	for _, folder := range append(folders, os.Getenv("WEIR_MODELS")) {
		found, err := filepath.Glob(filepath.Join(folder, "*", "model.onnx"))
		if err != nil {
			t.Fatal(err)
		}
		if folder != "" {
			files = append(files, weirtest.Part(found, 10)...)
		}
	}
	for _, cpu := range []string{"portable", weir.HostProcessor().CPU} {
		var c accessCount
		for _, file := range files {
			was := c
			c.model(t, file, cpu)
			if folder := os.Getenv("WEIR_MODELS"); folder != "" && strings.HasPrefix(file, folder) {
				t.Logf("%s, %s: %d accesses, %d checked, %d unproved", filepath.Base(filepath.Dir(file)), cpu,
					c.accesses-was.accesses, c.checks-was.checks, c.unproved-was.unproved)
			}
		}
		t.Logf("%s: %d models, %d refused; %d kernels, %d accesses, %d checked, %d unproved", cpu, c.models, c.refused,
			c.kernels, c.accesses, c.checks, c.unproved)
		if c.models < weirtest.Trials(90, 9) || c.accesses == 0 {
			t.Errorf("%+v: the models show little", c)
		}
	}
}

// accessCount counts the models, kernels and accesses of loops.
type accessCount struct{ models, refused, kernels, accesses, checks, unproved int }

// model adds the counts of a model for a processor.
func (c *accessCount) model(t *testing.T, file, cpu string) {
	t.Helper()
	m, err := weir.Load(file)
	if err != nil {
		c.refused++
		return
	}
	defer m.Close()
	text := ""
	o := weir.Options{CPU: cpu, Threads: 1, Stage: func(name, after string) {
		if name == "guards" {
			text = after
		}
	}}
	p, err := weir.Compile(t.Context(), m, o)
	if err != nil {
		if errors.Is(err, weir.ErrInternal) {
			t.Errorf("%s, %s: %v", file, cpu, err)
		}
		c.refused++
		return
	}
	defer p.Close()
	c.models++
	module, err := loop.Parse(text, loop.ParseOptions{})
	if err != nil {
		t.Errorf("%s, %s: %v", file, cpu, err)
		return
	}
	open, err := loop.VerifyModule(module)
	if err != nil {
		t.Errorf("%s, %s: %v", file, cpu, err)
		return
	}
	for _, line := range open {
		if strings.HasPrefix(line, "@") && strings.Contains(line, " axis ") {
			c.unproved++
			t.Errorf("%s, %s: %s", file, cpu, line)
		}
	}
	for _, k := range module.Kernels {
		c.kernels++
		_, guards := k.Checks()
		c.checks += guards
		count := func(s loop.Stmt) bool {
			switch s.(type) {
			case *loop.Store:
				c.accesses++
			case *loop.Contract:
				c.accesses += 3
			}
			return true
		}
		loop.Walk(k.Body, count)
		loop.WalkValues(k.Body, func(e loop.Expr) {
			if _, ok := e.(*loop.Load); ok {
				c.accesses++
			}
		})
	}
}

// guardsFile lists the kernels of the official cases with accesses that are checked because they are not proved: the
// case, the kernel, and the number. The number is the same for every code generator. No access is unproved without a
// check: the compiler panics if one is left, and TestUnproved verifies its output again.
const guardsFile = "testdata/guards.txt"

// compareChecks compares the number of checks with the file, so that none is added unnoticed.
func compareChecks(t *testing.T, cpu string, results []Result) {
	var lines []string
	for _, r := range results {
		for _, k := range r.Checks {
			if k.Accesses > 0 {
				lines = append(lines, fmt.Sprintf("%s %s %d\n", r.Name, k.Kernel, k.Accesses))
			}
		}
	}
	slices.Sort(lines)
	text := strings.Join(lines, "")
	if *rewrite && cpu == "portable" {
		if err := os.WriteFile(guardsFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if data, err := os.ReadFile(guardsFile); err != nil || string(data) != text {
		t.Errorf("%s is not what the kernels have (%v): go test ./internal/conformance -run TestOfficial -rewrite\n%s",
			guardsFile, err, text)
	}
}

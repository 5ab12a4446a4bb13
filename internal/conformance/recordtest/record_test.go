package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/conformance/conformancetest"
)

// TestCommand writes a record and compares the same code with it, then with one hash changed, and one line taken out.
func TestCommand(t *testing.T) {
	name := filepath.Join(t.TempDir(), "record")
	selected := []string{"-level", "avx2|avx512amx|spirv-.*", "-case", `^levels/sequences, 19|^weir/testdata/onnx/if_in`}
	run := func(args ...string) (same bool, out string) {
		t.Helper()
		var text bytes.Buffer
		same, err := command(t.Context(), &text, append(args, selected...))
		if err != nil {
			t.Fatal(err)
		}
		return same, text.String()
	}
	run("-write", name)
	if same, out := run("-compare", name); !same || !strings.Contains(out, "0 changed, 0 new, 0 gone, ") {
		t.Errorf("the same code differs:\n%s", out)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	hashed := regexp.MustCompile(`(?m)^levels/.*\t[0-9]+\t[0-9a-f]{16}\n`)
	for _, level := range []string{"avx2\tbf16", "avx512amx\ti8", "spirv-minimum\tf32", "spirv-desktop\tf32"} {
		at := regexp.MustCompile(`(?m)^levels/.*\t` + level + `\t.*\t[0-9a-f]{16}\n`)
		if !call.Supported && strings.HasPrefix(level, "avx") {
			continue
		}
		if !at.Match(data) {
			t.Errorf("no line of %q in\n%s", level, data)
		}
	}
	first := hashed.FindIndex(data)
	if first == nil {
		t.Fatalf("no hash in\n%s", data)
	}
	tests := []struct{ name, replaced, want string }{
		{"changed", "levels/sequences, 19\tavx2\tf32\tx\t1\t0123456789abcdef\n", "0 changed, 1 new, 1 gone, "},
		{"gone", "", "0 changed, 1 new, 0 gone, "},
		{"hash", string(data[first[0]:first[1]-17]) + "0123456789abcdef\n", "1 changed, 0 new, 0 gone, "},
	}
	for _, test := range tests {
		other := string(data[:first[0]]) + test.replaced + string(data[first[1]:])
		if err := os.WriteFile(name, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		if same, out := run("-compare", name); same || !strings.Contains(out, test.want) {
			t.Errorf("%s: want %q, got\n%s", test.name, test.want, out)
		}
	}
}

// TestChangedKernel: if one statement of a model changes, its kernel differs, and others do not.
func TestChangedKernel(t *testing.T) {
	levels := []string{"avx2", "avx512", "spirv-minimum"}
	if !call.Supported {
		levels = levels[2:]
	}
	text := conformancetest.LevelModels["sequences"]
	changed := strings.Replace(text, "tanh", "sigmoid", 1)
	if changed == text {
		t.Fatal("the model has no tanh")
	}
	of := func(text string) []line {
		c := aCase{name: "case", open: func(context.Context) (model, error) { return ofText(text, 19), nil }}
		lines, err := record(t.Context(), []aCase{c}, levels)
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	before := map[key]string{}
	for _, l := range of(text) {
		before[l.key] = l.value()
	}
	now := of(changed)
	for _, level := range levels {
		equal, other := 0, 0
		for _, l := range now {
			switch {
			case l.level != level || l.left:
			case before[l.key] == l.value():
				equal++
			default:
				other++
			}
		}
		if equal == 0 || other == 0 {
			t.Errorf("%s: %d kernels are equal and %d differ, after one of them changed", level, equal, other)
		}
	}
}

// TestRefused: a case that cannot be opened or compiled has a line that says why.
func TestRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "wrong.onnx")
	if err := os.WriteFile(file, []byte("not a model"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := record(t.Context(), []aCase{ofFile("wrong", file)}, []string{"avx2"})
	if err != nil || len(lines) != 1 || !strings.Contains(lines[0].code, "refused: ") {
		t.Errorf("a file that is no model gives %v, %v", lines, err)
	}
	for _, args := range [][]string{{}, {"-write", "a", "-compare", "b"}, {"-write", "a", "-level", "none"},
		{"-compare", file}, {"-compare", filepath.Join(filepath.Dir(file), "none")}} {
		if _, err := command(t.Context(), &bytes.Buffer{}, args); err == nil {
			t.Errorf("recordtest %q is accepted", args)
		}
	}
}

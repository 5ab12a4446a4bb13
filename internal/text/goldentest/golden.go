// Package goldentest runs the text cases of a package's testdata, for its tests.
package goldentest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Run runs the cases of testdata/*.txt. A case is a line "== head", a source, a line "--", and the result of run for
// the two; lines before the first case are kept. If rewrite is true, the results are written instead of compared.
func Run(t *testing.T, rewrite bool, run func(t *testing.T, head, source string) string) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { runFile(t, file, rewrite, run) })
	}
}

// runFile runs the cases of one file.
func runFile(t *testing.T, file string, rewrite bool, run func(t *testing.T, head, source string) string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	preamble, rest, _ := strings.Cut("\n"+string(data), "\n== ")
	var out bytes.Buffer
	if preamble = strings.TrimPrefix(preamble, "\n"); preamble != "" {
		out.WriteString(preamble + "\n")
	}
	for i, one := range strings.Split(rest, "\n== ") {
		head, body, _ := strings.Cut(one, "\n")
		source, want, ok := strings.Cut(strings.TrimRight(body, "\n")+"\n", "\n--\n")
		if !ok {
			t.Fatalf("case %d has no line --", i)
		}
		got := strings.TrimRight(run(t, head, source), "\n")
		if want = strings.TrimRight(want, "\n"); got != want && !rewrite {
			t.Errorf("%s\n%s\ngives\n%s\nwant\n%s", head, source, got, want)
		}
		fmt.Fprintf(&out, "== %s\n%s\n--\n%s\n\n", head, source, got)
	}
	if rewrite {
		if err := os.WriteFile(file, bytes.TrimSuffix(out.Bytes(), []byte("\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

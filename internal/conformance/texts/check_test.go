package texts

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

var rewrite = flag.Bool("rewrite", false, "write the verdicts again")

// people replaces operators of conditions by the signs that weir check prints.
var people = strings.NewReplacer(" <= ", " ≤ ", " == ", " = ", " != ", " ≠ ")

// classes returns the verdict of weir check on a text: its conditions with their classes, or the reason that it is
// refused.
func classes(p *weir.Program, err error) string {
	var b strings.Builder
	var e *weir.Error
	if errors.As(err, &e) {
		fmt.Fprintf(&b, "refused  %v\n", e)
		return b.String()
	}
	for _, r := range p.Requires() {
		fmt.Fprintf(&b, "checked  %s (from %s)\n", people.Replace(r.Condition), r.From)
	}
	for _, r := range p.Proved() {
		fmt.Fprintf(&b, "proved   %s (from %s)\n", people.Replace(r.Condition), r.From)
	}
	return b.String()
}

// judge compares the verdict on a text with the oracle's for every value of its dimensions up to 64.
func judge(source string, p *weir.Program, err error) error {
	o := newOracle(source)
	if err != nil && !errors.Is(err, weir.ErrInput) {
		return err
	}
	var wrong error
	o.each(func() {
		if wrong != nil {
			return
		}
		want, got := o.legal(), err == nil
		if got {
			for _, r := range p.Requires() {
				got = got && o.holds(r.Condition)
			}
		}
		if want != got {
			wrong = fmt.Errorf("at %v it is legal: %v, and taken to be: %v", o.dims, want, got)
		}
	})
	return wrong
}

// TestMemoryTexts: there are at least ten texts of each class, and all are judged correctly. With -rewrite it
// writes the verdicts.
func TestMemoryTexts(t *testing.T) {
	var said strings.Builder
	said.WriteString("What weir check says of the texts in this folder.\n")
	for _, class := range []string{"proved", "checked", "refused"} {
		files, _ := filepath.Glob("testdata/memory/" + class + "/*.weir")
		if len(files) < 10 {
			t.Errorf("%d texts that are %s, want 10 at least", len(files), class)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source := string(data)
			p, err := weirtest.CompileText(t, source, weir.Options{})
			if wrong := judge(source, p, err); wrong != nil {
				t.Errorf("%s: %v\n%s", file, wrong, classes(p, err))
				continue
			}
			fmt.Fprintf(&said, "\n%s/%s\n%s", class, filepath.Base(file), classes(p, err))
			is := "refused"
			if err == nil {
				is = "proved"
				own := len(newOracle(source).requires)
				if len(p.Requires()) > own {
					is = "checked"
				}
			}
			if is != class {
				t.Errorf("%s is %s\n%s", file, is, classes(p, err))
			}
		}
	}
	golden := "testdata/memory/check.txt"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(said.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != said.String() {
		t.Errorf("%v: it is not what %s has:\n%s", err, golden, said.String())
	}
}

// TestMemoryDocument: the text in docs/memory.md is judged as the document says.
func TestMemoryDocument(t *testing.T) {
	data, err := os.ReadFile("docs/memory.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(data), "```weir\nweir 1\nir @features")
	source, rest, ok2 := strings.Cut("weir 1\nir @features"+rest, "```\n")
	_, want, ok3 := strings.Cut(rest, "```console\n$ weir check features.weir\n")
	want, _, ok4 := strings.Cut(want, "```\n")
	if !ok || !ok2 || !ok3 || !ok4 {
		t.Fatal("there is no text in docs/memory.md, or not what check says of it")
	}
	p, err := weirtest.CompileText(t, source, weir.Options{})
	if got := classes(p, err); got != want {
		t.Errorf("%s\nthe document has\n%s", got, want)
	}
}

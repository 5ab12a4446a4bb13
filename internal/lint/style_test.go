package lint

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestStyle fails for lines that are too long, and for doc comments that do not begin with the name that they document.
func TestStyle(t *testing.T) {
	for _, p := range read(t) {
		for _, fault := range p.Style {
			t.Error(fault)
		}
	}
}

// TestStyleFaults: each rule finds the faults in a file, and nothing else.
func TestStyleFaults(t *testing.T) {
	long := strings.Repeat("x", maxColumns)
	source := "package p\n\n// f does nothing.\nfunc f() {}\n\n// Nothing is what g does.\nfunc g() {}\n\n" +
		"// the list\nvar list = `\n" + long + long + "\n`\n\nvar other = \"" + long + "\"\n\n// T: a type.\ntype T int\n\n" +
		"const (\n\t// a group's comment\n\tone = 1\n)\n"
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, "p.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	got := append(longLines(set, syntax, "p.go", []byte(source)), misnamedDocs(set, syntax, "p.go")...)
	want := []string{
		"p.go:14 has 134 columns; the limit is 120",
		`p.go:7: the comment of g begins with "Nothing", not with the name`,
		`p.go:10: the comment of list begins with "the", not with the name`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("faults:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

package onnx

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/schema"
)

var rewrite = flag.Bool("rewrite", false, "write the generated part of docs/onnx.md")

// The document that lists operators, and the lines between which the list stands.
const (
	listFile   = "../../../docs/onnx.md"
	listBegins = "<!-- generated from the rules: go test ./internal/importer/onnx -run TestList -rewrite -->\n"
	listEnds   = "<!-- end of the generated part -->"
)

// list is the table of ONNX's operators: each with its versions, and whether a rule converts it.
func list() string {
	var b strings.Builder
	names := schema.Names("")
	supported := 0
	for _, name := range names {
		if rules[name] != nil {
			supported++
		}
	}
	fmt.Fprintf(&b, "%d of the %d operators of ai.onnx.\n\n| operator | versions | |\n|---|---|---|\n", supported, len(names))
	for _, name := range names {
		verdict := "refused"
		if rules[name] != nil {
			verdict = "yes"
		}
		versions := strings.Trim(strings.ReplaceAll(fmt.Sprint(schema.Versions("", name)), " ", ", "), "[]")
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, versions, verdict)
	}
	var others []string
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if strings.Contains(name, ":") || !slices.Contains(names, name) {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		fmt.Fprintf(&b, "\nOf other domains: %s.\n", strings.Join(others, ", "))
	} else {
		b.WriteString("\nOf other domains: none.\n")
	}
	return b.String()
}

// TestList compares the list in docs/onnx.md with the rules.
func TestList(t *testing.T) {
	data, err := os.ReadFile(listFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), listBegins)
	_, after, ok2 := strings.Cut(rest, listEnds)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", listFile, listBegins, listEnds)
	}
	want := before + listBegins + list() + listEnds + after
	if want == string(data) {
		return
	}
	if !*rewrite {
		t.Fatalf("%s is not what the rules say: go test ./internal/importer/onnx -run TestList -rewrite", listFile)
	}
	if err := os.WriteFile(listFile, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

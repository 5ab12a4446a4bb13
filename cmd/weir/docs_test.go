package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// The document with every command's help, and the lines between which it stands.
const (
	helpFile   = "../../docs/commands.md"
	helpBegins = "<!-- generated from the commands' help: go test ./cmd/weir -run TestDocument -rewrite -->\n"
	helpEnds   = "<!-- end of the generated part -->"
)

// TestDocument compares docs/commands.md with what the commands' help prints.
func TestDocument(t *testing.T) {
	var help strings.Builder
	for _, command := range (&cli{}).command().Commands() {
		name := command.Name()
		if name == "completion" || name == "help" {
			continue // cobra's own
		}
		root := (&cli{}).command() // help sets flags, so each command has a fresh one
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs([]string{name, "--help"})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(out.String(), "\nGlobal Flags:")
		help.WriteString("\n## weir " + name + "\n\n```\n" + strings.TrimSpace(text) + "\n```\n")
	}
	data, err := os.ReadFile(helpFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), helpBegins)
	_, after, ok2 := strings.Cut(rest, helpEnds)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", helpFile, helpBegins, helpEnds)
	}
	want := before + helpBegins + help.String() + "\n" + helpEnds + after
	if want == string(data) {
		return
	}
	if !*rewrite {
		t.Fatalf("%s is not what the commands print: go test ./cmd/weir -run TestDocument -rewrite", helpFile)
	}
	if err := os.WriteFile(helpFile, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

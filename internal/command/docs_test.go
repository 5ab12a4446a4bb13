package command

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The document with every command's help, and the lines that enclose it.
const (
	helpFile   = "../../docs/commands.md"
	helpBegins = "<!-- generated from the commands' help: go test ./internal/command -run TestDocument -rewrite -->\n"
	helpEnds   = "<!-- end of the generated part -->"
)

// TestDocument compares docs/commands.md with the commands' help.
func TestDocument(t *testing.T) {
	var help strings.Builder
	for _, command := range (&cli{}).command().Commands() {
		name := command.Name()
		if name == "completion" || name == "help" {
			continue // cobra's own
		}
		root := (&cli{}).command() // help sets flags, so each command gets a new root
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
		t.Fatalf("%s is not what the commands print: go test ./internal/command -run TestDocument -rewrite", helpFile)
	}
	if err := os.WriteFile(helpFile, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// documentedKey is a key in the first column of a table of docs/json.md.
var documentedKey = regexp.MustCompile("`([^`]+)`")

// TestJSONDocument compares the keys in docs/json.md, command by command, with those of testdata/keys.txt, which
// TestKeys compares with the commands' output. pack prints refused models among its keys, and no error.
func TestJSONDocument(t *testing.T) {
	golden, err := os.ReadFile("testdata/keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	printed := map[string]map[string]bool{"Errors": {}}
	section := ""
	for line := range strings.Lines(string(golden)) {
		key, indented := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\t")
		if !indented {
			command, _, _ := strings.Cut(strings.Replace(line, ":", " ", 1), " ")
			if section = "weir " + command; !strings.HasSuffix(line, ": exit 0\n") && command != "pack" {
				section = "Errors"
			}
			if printed[section] == nil {
				printed[section] = map[string]bool{}
			}
			continue
		}
		if name, ok := strings.CutPrefix(key, "dims.[]."); ok &&
			!slices.Contains([]string{"name", "python", "min", "max", "decided"}, name) {
			key = "dims.[].*" // of plan --diff: the keys are the model's names
		}
		printed[section][key] = true
	}
	text, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
			documented[section] = map[string]bool{}
		}
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			for _, key := range documentedKey.FindAllStringSubmatch(cells[1], -1) {
				documented[section][key[1]] = true
			}
		}
	}
	for section, keys := range printed {
		for key := range keys {
			if !documented[section][key] {
				t.Errorf("docs/json.md, %s: %s is printed, and not there", section, key)
			}
		}
	}
	for section, keys := range documented {
		for key := range keys {
			if !printed[section][key] {
				t.Errorf("docs/json.md, %s: %s is there, and TestKeys does not see it printed", section, key)
			}
		}
	}
}

package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// variable matches the name of one of this project's environment variables in a string of Go.
	variable = regexp.MustCompile(`"(WEIR_[A-Z_]+)=?"`)
	// testFlag matches the definition of a flag.
	testFlag = regexp.MustCompile(`flag\.(?:Bool|Int|String|Duration)\("(\w+)"`)
	// documented matches a variable or a flag in the first column of a table.
	documented = regexp.MustCompile("`(-\\w+|WEIR_[A-Z_]+)`")
)

// TestVariables compares the variables and flags that tests read with the tables in CONTRIBUTING.md. Variables that a
// test sets for a process of its own begin with WEIR_TEST_; those of Weir itself are in docs/commands.md.
func TestVariables(t *testing.T) {
	read := map[string]string{} // where each is read
	err := walk(root, allModules, func(file string) error {
		support := strings.Contains(file, "test/") && strings.HasPrefix(file, "internal/")
		if !strings.HasSuffix(file, ".go") || !strings.HasSuffix(file, "_test.go") && !support ||
			strings.HasPrefix(file, "internal/lint/") {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		for _, m := range variable.FindAllStringSubmatch(string(data), -1) {
			if !strings.HasPrefix(m[1], "WEIR_TEST_") {
				read[m[1]] = file
			}
		}
		for _, m := range testFlag.FindAllStringSubmatch(string(data), -1) {
			read["-"+m[1]] = file
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	text := func(name string) string {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	commands := text("docs/commands.md")
	_, section, ok := strings.Cut(text("CONTRIBUTING.md"), "### Variables and flags of tests\n")
	section, _, end := strings.Cut(section, "\n## ")
	if !ok || !end {
		t.Fatal("CONTRIBUTING.md has no section of variables and flags")
	}
	listed := map[string]bool{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			for _, m := range documented.FindAllStringSubmatch(cells[1], -1) {
				listed[m[1]] = true
			}
		}
	}
	if len(read) < 20 {
		t.Errorf("only %d variables and flags were found", len(read))
	}
	for name, file := range read {
		if !listed[name] && !strings.Contains(commands, "`"+name+"`") {
			t.Errorf("%s reads %s, which CONTRIBUTING.md does not list", file, name)
		}
	}
	for name := range listed {
		if read[name] == "" && name != "-rewrite" {
			t.Errorf("CONTRIBUTING.md lists %s, which no test reads", name)
		}
	}
}

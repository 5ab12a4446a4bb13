package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// testName finds the names of tests in a file.
var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// TestRaces checks the Makefile's patterns of the tests that run under the race detector: each alternative matches a
// test in the packages that the pattern is for, so that a renamed test is not left out.
func TestRaces(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for variable, folders := range map[string][]string{"RACE_TESTS": {".", "internal/conformance/ownership"},
		"RACE_ARRAYS": {"array", "nn", "train"}} {
		line := regexp.MustCompile(`(?m)^` + variable + ` := (.+)$`).FindSubmatch(makefile)
		if line == nil {
			t.Fatalf("the Makefile does not set %s", variable)
		}
		names := testNames(t, folders)
		for _, pattern := range alternatives(strings.ReplaceAll(string(line[1]), "$$", "$")) {
			if match := regexp.MustCompile(pattern); !match.MatchString(names) {
				t.Errorf("%s: %s matches no test in %s", variable, pattern, strings.Join(folders, ", "))
			}
		}
	}
}

// testNames returns the names of the tests in folders, one a line.
func testNames(t *testing.T, folders []string) string {
	t.Helper()
	var names strings.Builder
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range testName.FindAllSubmatch(text, -1) {
				names.Write(m[1])
				names.WriteByte('\n')
			}
		}
	}
	return names.String()
}

// alternatives returns the alternatives of a pattern, multiplied out if they contain a group, so that each is matched
// against lines.
func alternatives(pattern string) (list []string) {
	depth, begin := 0, 0
	for i, c := range pattern + "|" {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '|' && depth == 0:
			list = append(list, expanded(pattern[begin:i])...)
			begin = i + 1
		}
	}
	return list
}

// expanded returns an alternative for each choice of its group, if it has one.
func expanded(pattern string) (list []string) {
	before, rest, grouped := strings.Cut(pattern, "(")
	group, after, _ := strings.Cut(rest, ")")
	if !grouped {
		return []string{"(?m)" + pattern}
	}
	for _, choice := range strings.Split(group, "|") {
		list = append(list, "(?m)"+before+choice+after)
	}
	return list
}

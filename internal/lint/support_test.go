package lint

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// noSupport are the packages below internal/ that nothing imports and that do not support tests, and the reason.
var noSupport = map[string]string{
	"internal/lint":         "it has the rules of its own tests",
	"internal/lint/leftout": "a command of the Makefile",
}

// forTests reports whether a package says by its name that it only supports tests.
func forTests(folder string) bool { return strings.HasSuffix(path.Base(folder), "test") }

// misnamed returns the faults of packages' names. Only tests and packages that support tests may import a package whose
// name ends in "test", and a package inside internal/ that no other code imports has such a name.
func misnamed(packages []*Package) (faults []string) {
	imported := map[string][]string{} // by code of packages that do not support tests
	for _, p := range packages {
		for name, files := range p.Imports {
			if folder, ours := folderOf(name); ours && !forTests(p.Folder) {
				imported[folder] = append(imported[folder], files...)
			}
		}
	}
	for _, p := range packages {
		files := imported[p.Folder]
		slices.Sort(files)
		code := slices.ContainsFunc(p.Files, func(s Size) bool { return !strings.HasSuffix(s.Name, "_test.go") })
		switch {
		case forTests(p.Folder) && len(files) > 0:
			faults = append(faults, fmt.Sprintf("%s supports tests, and is part of a build: %s", p.Folder,
				strings.Join(files, ", ")))
		case !forTests(p.Folder) && len(files) == 0 && code && strings.HasPrefix(p.Folder, "internal/") &&
			noSupport[p.Folder] == "":
			faults = append(faults, fmt.Sprintf("%s is imported by no build: its name must end in test", p.Folder))
		}
	}
	return faults
}

// TestSupport: packages that support tests are not in builds, and their names say so.
func TestSupport(t *testing.T) {
	packages := read(t)
	for _, fault := range misnamed(packages) {
		t.Error(fault)
	}
	for _, folder := range slices.Sorted(maps.Keys(noSupport)) {
		row := noSupport[folder]
		delete(noSupport, folder)
		if !slices.ContainsFunc(misnamed(packages), func(fault string) bool { return strings.HasPrefix(fault, folder+" ") }) {
			t.Errorf("%s needs no exception", folder)
		}
		noSupport[folder] = row
	}
}

// TestMisnamed checks misnamed on packages with and without faults.
func TestMisnamed(t *testing.T) {
	add := func(list []*Package, folder string, imports ...string) []*Package {
		p := &Package{Folder: folder, Imports: map[string][]string{}, Files: []Size{{Name: folder + "/x.go"}}}
		for _, name := range imports {
			p.Imports[Module+"/"+name] = []string{folder + "/x.go"}
		}
		return append(slices.Clip(list), p)
	}
	house := add(nil, "cmd/x", "internal/a")
	house = add(house, "internal/a", "internal/b")
	house = add(house, "internal/b")
	house = add(house, "internal/btest", "internal/b")
	house = add(house, "internal/ctest", "internal/btest")
	if faults := misnamed(house); faults != nil {
		t.Errorf("a sound house: %v", faults)
	}
	for what, wrong := range map[string][]*Package{
		"internal/btest supports tests":      add(house, "cmd/y", "internal/btest"),
		"internal/c is imported by no build": add(add(house, "internal/c"), "internal/dtest", "internal/c"),
	} {
		if faults := misnamed(wrong); len(faults) != 1 || !strings.HasPrefix(faults[0], what) {
			t.Errorf("%s: %v", what, faults)
		}
	}
}

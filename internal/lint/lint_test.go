package lint

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the generated part of ARCHITECTURE.md, and api.txt")

// root is the path of the module's root from this package's folder.
const root = "../.."

// house reads the repository once.
var house = sync.OnceValues(func() ([]*Package, error) { return Read(root) })

func read(t *testing.T) []*Package {
	t.Helper()
	packages, err := house()
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 3 {
		t.Fatalf("only %d packages were found: the test does not see the repository", len(packages))
	}
	return packages
}

// TestTable checks the table itself: names are unique, entries exist on the room's floor or below, and there is no
// cycle.
func TestTable(t *testing.T) {
	byName := map[string]*Room{}
	for i := range rooms {
		r := &rooms[i]
		if byName[r.Name] != nil {
			t.Errorf("%s has two rows", r.Name)
		}
		byName[r.Name] = r
		if r.Purpose == "" {
			t.Errorf("%s has no purpose", r.Name)
		}
		if i > 0 && r.Floor < rooms[i-1].Floor {
			t.Errorf("%s stands above a higher floor in the table", r.Name)
		}
	}
	for _, r := range rooms {
		for _, entry := range r.May {
			if entry == below {
				continue
			}
			to := byName[entry]
			if to == nil {
				t.Errorf("%s may import %s, which has no row", r.Name, entry)
			} else if to.Floor > r.Floor {
				t.Errorf("%s (floor %d) may import %s (floor %d)", r.Name, r.Floor, entry, to.Floor)
			}
		}
	}
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(name string, chain []string)
	visit = func(name string, chain []string) {
		chain = append(chain, name)
		if state[name] == visiting {
			t.Errorf("a cycle: %s", strings.Join(chain, " → "))
		}
		if state[name] != 0 {
			return
		}
		state[name] = visiting
		for _, entry := range byName[name].May {
			if entry != below && byName[entry] != nil {
				visit(entry, chain)
			}
		}
		state[name] = done
	}
	for _, r := range rooms {
		visit(r.Name, nil)
	}
	for _, rule := range never {
		for _, name := range append([]string{rule.Room}, rule.Reach...) {
			if byName[name] == nil {
				t.Errorf("a rule names %s, which has no row", name)
			}
		}
	}
	// The three languages never import each other.
	for _, a := range []string{"ir", "loop", "program"} {
		for _, b := range []string{"ir", "loop", "program"} {
			if a != b && slices.Contains(byName[a].May, b) {
				t.Errorf("the language %s may import the language %s", a, b)
			}
		}
	}
}

// TestEveryRoomExists finds rows without a folder.
func TestEveryRoomExists(t *testing.T) {
	used := map[*Room]bool{}
	for _, p := range read(t) {
		row, _ := roomOf(p.Folder)
		used[row] = true
	}
	for i := range rooms {
		if !used[&rooms[i]] {
			t.Errorf("%s has a row and no package", rooms[i].Name)
		}
	}
}

func TestImports(t *testing.T) {
	for _, p := range read(t) {
		from, fromName := roomOf(p.Folder)
		if from == nil {
			t.Errorf("%s has no row in floors.go", p.Folder)
			continue
		}
		for as, imports := range []map[string][]string{code: p.Imports, test: p.TestImports, user: p.UserImports} {
			for _, name := range slices.Sorted(maps.Keys(imports)) {
				if why := refuse(from, fromName, name, importer(as)); why != "" {
					t.Errorf("%s: %s", strings.Join(imports[name], ", "), why)
				}
			}
		}
	}
}

// importer is the kind of file that has an import.
type importer int

const (
	code importer = iota
	test          // a test inside its package
	user          // a test in a package of its own
)

// usersFloor is the floor of test packages that use the API.
const usersFloor = 10

// refuse returns the reason why a room must not import a package, or "". Tests may use all rooms on their floor or
// below, to compare a room with others. The root's tests in a package of their own are users of its API: they may take
// models and tensors from the rooms right above it, as commands and examples do.
func refuse(from *Room, fromName, name string, as importer) string {
	folder, ours := folderOf(name)
	if ours {
		to, toName := roomOf(folder)
		if to == nil {
			return fmt.Sprintf("imports %s, which has no row", name)
		}
		reach := from.Floor
		if as == user && fromName == "weir" {
			reach = usersFloor
		}
		if may(from, fromName, to, toName) || as != code && to.Floor <= reach {
			return ""
		}
		return fmt.Sprintf("%s (floor %d) must not import %s (floor %d)", fromName, from.Floor, toName, to.Floor)
	}
	standard := !strings.Contains(strings.SplitN(name, "/", 2)[0], ".")
	if standard && (as != code || !slices.Contains(outside, name)) && name != "C" {
		return ""
	}
	for _, allowed := range from.Modules {
		if name == allowed {
			return ""
		}
	}
	return fmt.Sprintf("%s must not import %q", fromName, name)
}

// TestRefuse checks refuse: each row is an import that must be refused, or must not.
func TestRefuse(t *testing.T) {
	const us = Module + "/internal/"
	tests := []struct {
		from, to string
		as       importer
		ok       bool
	}{
		{"internal/ir", us + "tensor", code, true},
		{"internal/ir", us + "dtype", code, true},
		{"internal/ir", us + "loop", code, false},
		{"internal/loop", us + "ir", code, false},
		{"internal/program", us + "loop", code, false},
		{"internal/tensor/npy", us + "tensor", code, true},
		{"internal/tensor", us + "tensor/npy", code, true},
		{"internal/tensor", us + "ir", code, false},
		{"internal/memplan/validator", us + "ir", code, false},
		{"internal/memplan", us + "loop", test, false},
		{"internal/executor", us + "memplan", code, false},
		{"internal/executor", us + "codegen/portable", code, false},
		{"internal/executor", us + "codegen/portable", test, true},
		{"internal/executor", us + "device", code, true},
		{"internal/executor", us + "device/cpu", code, false},
		{"internal/executor", us + "device/cpu", test, true},
		{"internal/device/cpu", us + "device/other", code, false},
		{"internal/codegen/portable", us + "codegen/reference", code, false},
		{"internal/conformance", Module, code, true},
		{"internal/conformance", us + "lower", code, true},
		{"internal/conformance", Module + "/cmd/weir", code, false},
		{".", us + "lower", code, false},
		{".", us + "compiler", code, true},
		{".", Module + "/cmd/weir", code, false},
		{"internal/command", Module, code, true},
		{"internal/command", us + "ir", code, false},
		{"internal/command", "github.com/spf13/cobra", code, true},
		{"cmd/weir", us + "command", code, true},
		{"cmd/weir", Module, code, false},
		{".", "github.com/spf13/cobra", code, false},
		{".", "github.com/spf13/cobra", test, false},
		{".", us + "values", code, false},
		{".", us + "values", test, false},
		{".", us + "values", user, true},
		{".", Module + "/cmd/weir", user, false},
		{"internal/executor", us + "compiler", user, false},
		{"examples/service", "net/http", code, true},
		{"examples/digits", "net/http", code, false},
		{".", "net/http", code, false},
		{".", "net/http", test, true},
		{".", "C", test, false},
		{"internal/dtype", us + "diag", code, false},
		{"internal/dtype", "math/bits", code, true},
		{"internal/text", us + "sym", code, true},
		{"internal/mem", "golang.org/x/sys/unix", code, true},
		{"internal/ops", "golang.org/x/sys/unix", code, false},
		{"internal/ops", "syscall", code, false},
		{"internal/ops", us + "nowhere", code, false},
		{"cmd/weirvet/leak", "golang.org/x/tools/go/ssa", code, true},
		{"cmd/weirvet", Module + "/cmd/weirvet/leak", code, true},
		{"cmd/weirvet", Module, code, false},
		{"cmd/weir", "golang.org/x/tools/go/ssa", code, false},
		{"cmd/weir", Module + "/cmd/weirvet/leak", code, false},
		{"beam", Module + "/batch", code, true},
		{"beam", us + "session", code, false},
		{"parquet/cmd/weir-parquet", us + "command", code, true},
		{"parquet", us + "session", code, false},
		{"metrics", Module, code, true},
		{"metrics", us + "mem", code, false},
		{"metrics", "github.com/prometheus/client_golang/prometheus", code, true},
		{".", "github.com/prometheus/client_golang/prometheus", code, false},
	}
	for _, row := range tests {
		from, name := roomOf(row.from)
		why := refuse(from, name, row.to, row.as)
		if (why == "") != row.ok {
			t.Errorf("%s imports %s (as %d): %q", row.from, row.to, row.as, why)
		}
	}
}

// TestReach follows chains of imports, except those of tests.
func TestReach(t *testing.T) {
	byFolder := map[string]*Package{}
	for _, p := range read(t) {
		byFolder[p.Folder] = p
	}
	for _, rule := range never {
		for _, p := range read(t) {
			if row, _ := roomOf(p.Folder); row == nil || row.Name != rule.Room {
				continue
			}
			for folder, chain := range reach(byFolder, p.Folder) {
				row, name := roomOf(folder)
				if row != nil && slices.ContainsFunc(rule.Reach, func(entry string) bool { return covers(entry, row, name) }) {
					t.Errorf("%s must never reach %s (%s): %s", rule.Room, name, rule.Reason, strings.Join(chain, " → "))
				}
			}
		}
	}
}

// reach returns every folder that a package imports, directly or not, with the chain of imports.
func reach(byFolder map[string]*Package, start string) map[string][]string {
	chains := map[string][]string{start: {start}}
	queue := []string{start}
	for len(queue) > 0 {
		folder := queue[0]
		queue = queue[1:]
		p := byFolder[folder]
		if p == nil {
			continue
		}
		for name := range p.Imports {
			next, ours := folderOf(name)
			if ours && chains[next] == nil {
				chains[next] = append(slices.Clone(chains[folder]), next)
				queue = append(queue, next)
			}
		}
	}
	delete(chains, start)
	return chains
}

func TestPackageComments(t *testing.T) {
	for _, p := range read(t) {
		onlyTests := !slices.ContainsFunc(p.Files, func(s Size) bool { return !strings.HasSuffix(s.Name, "_test.go") })
		if !p.Documented && !onlyTests {
			t.Errorf("%s has no package comment", p.Folder)
		}
	}
}

// TestSizes fails for files and functions beyond the limits, and reports the longest.
func TestSizes(t *testing.T) {
	var files, functions []Size
	for _, p := range read(t) {
		files = append(files, p.Files...)
		functions = append(functions, p.Functions...)
	}
	check := func(what string, list []Size, limit int) {
		slices.SortStableFunc(list, func(a, b Size) int { return b.Lines - a.Lines })
		var report strings.Builder
		for i, s := range list {
			if s.Lines > limit && !s.Table {
				t.Errorf("%s has %d lines, the limit of a %s is %d (a table says %s above it)", s.Name, s.Lines, what, limit,
					tableMark)
			}
			if i < 10 {
				fmt.Fprintf(&report, "\n%6d  %s", s.Lines, s.Name)
			}
		}
		t.Logf("the longest of %d %ss:%s", len(list), what, report.String())
	}
	check("file", files, maxFileLines)
	check("function", functions, maxFunctionLines)
}

// TestDrawing compares the generated part of ARCHITECTURE.md with the table.
func TestDrawing(t *testing.T) {
	name := filepath.Join(root, "ARCHITECTURE.md")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	document := string(data)
	before, rest, ok := strings.Cut(document, drawingBegins+"\n")
	_, after, ok2 := strings.Cut(rest, drawingEnds)
	if !ok || !ok2 {
		t.Fatalf("ARCHITECTURE.md lacks the lines %q and %q", drawingBegins, drawingEnds)
	}
	want := before + drawingBegins + "\n" + Draw() + drawingEnds + after
	if document == want {
		return
	}
	if !*rewrite {
		t.Fatal("the drawing in ARCHITECTURE.md is not what floors.go says: go test ./internal/lint -rewrite")
	}
	if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestNoMachinePaths finds absolute paths of a developer's machine, in sources and in exported models.
func TestNoMachinePaths(t *testing.T) {
	private := machinePaths
	scanned := 0
	err := walk(root, allModules, func(file string) error {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		scanned++
		if file == ".git" { // of a worktree, which git wrote
			return nil
		}
		if at := private.FindIndex(data); at != nil {
			t.Errorf("%s holds a machine's path: %q", file, data[at[0]:min(at[1]+40, len(data))])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if scanned < 20 {
		t.Errorf("only %d files were read", scanned)
	}
	for text, want := range map[string]bool{
		"see /wo" + "rk/main": true, "\"/ro" + "ot/x\"": true, "at /tmp/pe" + "ers/x": true, "file:///ro" + "ot/.x": true,
		"net/wo" + "rk/x": false, "a/ro" + "ot/b": false, "/tmp/x": false,
	} {
		if private.MatchString(text) != want {
			t.Errorf("%q: found is %v", text, !want)
		}
	}
}

// machinePaths matches the folders in which this project is developed, at the start of a path. The pattern does not
// match itself.
var machinePaths = regexp.MustCompile(`(^|[^A-Za-z0-9_.\-])/(wor[k]|roo[t]|tmp/peer[s])/`)

// TestNoReplace: go install accepts each go.mod from a proxy, and each requires only modules in the table.
func TestNoReplace(t *testing.T) {
	for _, folder := range append([]string{"."}, ownModules...) {
		t.Run(folder, func(t *testing.T) { noReplace(t, folder) })
	}
}

func noReplace(t *testing.T, folder string) {
	data, err := os.ReadFile(filepath.Join(root, folder, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	direct := 0
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if fields[0] == "replace" || slices.Contains(fields, "=>") {
			t.Errorf("go.mod replaces a module: %s", strings.TrimSpace(line))
		}
		module := fields[0]
		if module == "require" && len(fields) > 1 {
			module = fields[1]
		}
		if !strings.Contains(module, "/") || strings.Contains(line, "// indirect") || fields[0] == "module" {
			continue
		}
		direct++
		known := slices.ContainsFunc(rooms, func(r Room) bool {
			if slices.Contains(ownModules, r.Name) != (folder != ".") || folder != "." && r.Name != folder {
				return false
			}
			if folder != "." && module == Module {
				return slices.Contains(r.May, "weir")
			}
			if own, ok := strings.CutPrefix(module, Module+"/"); ok {
				return slices.Contains(ownModules, own) && slices.Contains(r.May, own)
			}
			return slices.ContainsFunc(r.Modules, func(m string) bool { return m == module || strings.HasPrefix(m, module+"/") })
		})
		if !known {
			t.Errorf("go.mod requires %s, which no room may import", module)
		}
	}
	if direct == 0 {
		t.Error("no requirement was found in go.mod: the test does not read it rightly")
	}
}

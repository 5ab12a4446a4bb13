package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayStart are the files that start goroutines without diag.Go and diag.Group, whose panics would end the process, and
// the reason.
var mayStart = map[string]string{
	"internal/diag/goroutine.go":                    "it is diag.Go",
	"internal/command/main.go":                      "it calls what signal.NotifyContext made",
	"examples/service/main.go":                      "a user's own, in net/http, which recovers what handlers panic with",
	"examples/embeddings/main.go":                   "a user's own: it serves, and ends at a signal",
	"examples/reload/main.go":                       "a user's own: it asks while models are replaced",
	"examples/throughput/main.go":                   "a user's own: it measures calls beside each other",
	"internal/browsertest/browser.go":               "it reads what a process of tests writes, and ends with it",
	"internal/codegen/amd64/emulatetest/emulate.go": "it ends a process of tests",
	"internal/session/results.go":                   "a cleanup that logs, and recovers",
	"internal/codegen/kerneltest/suites.go":         "a test's, which is to fail",
}

// starters are the functions that run their argument on a goroutine that does not recover.
var starters = map[string]bool{"time.AfterFunc": true, "context.AfterFunc": true, "runtime.AddCleanup": true,
	"runtime.SetFinalizer": true}

// TestGoroutines: every goroutine of the module starts by diag.Go, because a panic on another would end the user's
// process.
func TestGoroutines(t *testing.T) {
	used := map[string]bool{}
	err := walk(root, noModules, func(file string) error {
		if path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") ||
			slices.Contains(strings.Split(file, "/"), "testdata") {
			return nil
		}
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		for _, where := range startsGoroutines(t, file, string(source)) {
			if used[file] = true; mayStart[file] == "" {
				t.Errorf("%s starts a goroutine on which a panic ends the process: use diag.Go or a diag.Group", where)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for file := range mayStart {
		if !used[file] {
			t.Errorf("%s starts no goroutine, and may", file)
		}
	}
	for source, want := range map[string]int{
		"go f()":                               1,
		"for { go func() { }() }":              1,
		"var w sync.WaitGroup; w.Go(f)":        1,
		"x.group.Go(func() {})":                1,
		"time.AfterFunc(0, f)":                 1,
		"runtime.AddCleanup(p, f, 1)":          1,
		`diag.Go("x", f, g)`:                   0,
		`var g diag.Group; g.Go("x", f)`:       0,
		"defer f(); context.AfterFunc(ctx, f)": 1,
	} {
		if got := startsGoroutines(t, "x.go", "package x\nfunc y() {\n"+source+"\n}"); len(got) != want {
			t.Errorf("%s: found %v", source, got)
		}
	}
}

// startsGoroutines returns the lines of a file that start goroutines by the language or the standard library.
func startsGoroutines(t *testing.T, file, source string) (places []string) {
	t.Helper()
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		found := false
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok {
				of, _ := f.X.(*ast.Ident)
				found = f.Sel.Name == "Go" && len(n.Args) == 1 || of != nil && starters[of.Name+"."+f.Sel.Name]
			}
		}
		if found {
			places = append(places, set.Position(n.Pos()).String())
		}
		return true
	})
	return places
}

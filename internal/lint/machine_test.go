package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// machineWords are words of numbers that describe a machine, in the names of constants and in their comments.
var machineWords = regexp.MustCompile(`(?i)\b(lane|panel|register|cache|thread|vector|tile|worker|core)s?\b`)

// ofMachines are the constants of ops and pass that describe a machine although they should not, with the reason why
// they still do.
var ofMachines = map[string]string{
	"ops.attentionOnlineWidth": "whether an expansion runs instead is decided in ir, before a device's limits are known",
	"ops.attentionOnlineFew":   "as attentionOnlineWidth",
	"ops.fewChannels":          "derivatives are built before a machine is chosen",
}

// TestNoMachine: ops and pass know no machine. They do not import target, and none of their constants is a number of
// lanes, registers, tiles or the like: these are sizes of target, which recipes use and the costs of recipes tell.
func TestNoMachine(t *testing.T) {
	left := map[string]bool{}
	for _, room := range []string{"ops", "pass"} {
		files, err := filepath.Glob(filepath.Join("..", room, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", room, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, fault := range machineFaults(t, file, nil) {
				if _, known := ofMachines[room+"."+fault]; known {
					left[room+"."+fault] = true
					continue
				}
				t.Errorf("%s: %s describes a machine: it belongs to target.Sizes, or to a recipe", file, fault)
			}
		}
	}
	for name := range ofMachines {
		if !left[name] {
			t.Errorf("%s is listed, and describes no machine any more", name)
		}
	}
}

// machineFaults returns the imports and constants of a file that describe a machine; source is nil, or replaces the
// file's contents.
func machineFaults(t *testing.T, file string, source any) (faults []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, imported := range parsed.Imports {
		if strings.Trim(imported.Path.Value, `"`) == Module+"/internal/target" {
			faults = append(faults, "target")
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		decl, is := n.(*ast.GenDecl)
		if !is || decl.Tok != token.CONST {
			return true
		}
		for _, spec := range decl.Specs {
			value := spec.(*ast.ValueSpec)
			about := value.Doc.Text() + value.Comment.Text()
			if len(decl.Specs) == 1 {
				about += decl.Doc.Text()
			}
			for _, name := range value.Names {
				if isNumber(value) && machineWords.MatchString(words(name.Name)+" "+about) {
					faults = append(faults, name.Name)
				}
			}
		}
		return true
	})
	return faults
}

// isNumber reports whether a constant's value has a number in it.
func isNumber(value *ast.ValueSpec) (found bool) {
	for _, e := range value.Values {
		ast.Inspect(e, func(n ast.Node) bool {
			literal, is := n.(*ast.BasicLit)
			found = found || is && (literal.Kind == token.INT || literal.Kind == token.FLOAT)
			return true
		})
	}
	return found
}

// words returns a name with spaces between its words.
func words(name string) string {
	return regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "$1 $2")
}

// TestMachineFaults shows what TestNoMachine finds.
func TestMachineFaults(t *testing.T) {
	const source = `package ops

import "github.com/weirml/weir/internal/target"

const lanes = 16

const (
	rowsOnce    = 4 // rows that share weights in registers
	blocksPanel = 1 << 4
	deepest     = 8 // of a chain of nodes
)

func f() {
	// least is the fewest rows of a tile.
	const least = 6
}
`
	want := "target lanes rowsOnce blocksPanel least"
	if got := strings.Join(machineFaults(t, "x.go", source), " "); got != want {
		t.Errorf("found %q, not %q", got, want)
	}
}

package lint

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestAPI compares the exported names and signatures of the packages that users import with their api.txt, so that none
// changes unnoticed, and checks that each has a comment.
func TestAPI(t *testing.T) {
	t.Chdir(root)
	folders := []string{".", "array", "batch", "beam", "classify", "dlpack", "embed", "files", "metrics", "nn", "serve",
		"tokenizer", "train"}
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) { holdAPI(t, folder) })
	}
}

// holdAPI compares the package in a folder with its api.txt.
func holdAPI(t *testing.T, folder string) {
	set := token.NewFileSet()
	packages, err := parser.ParseDir(set, folder, func(f fs.FileInfo) bool {
		return !strings.HasSuffix(f.Name(), "_test.go")
	}, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	name := cmp.Or(map[string]string{".": "weir", "beam": "beamweir"}[folder], folder)
	all, err := doc.NewFromFiles(set, filesOf(packages[name]), path.Join("github.com/weirml/weir", folder))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	write := func(name, comment string, node ast.Node) {
		if strings.TrimSpace(comment) == "" {
			t.Errorf("%s has no comment", name)
		}
		ast.Inspect(node, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				n.Body, n.Doc = nil, nil
			case *ast.GenDecl:
				n.Doc = nil
			case *ast.Field:
				n.Doc, n.Comment = nil, nil
			case *ast.ValueSpec:
				n.Doc, n.Comment = nil, nil
			case *ast.TypeSpec:
				n.Doc, n.Comment = nil, nil
			}
			return true
		})
		if err := format.Node(&b, token.NewFileSet(), node); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n")
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			write(strings.Join(v.Names, ", "), v.Doc, v.Decl)
		}
	}
	functions := func(list []*doc.Func) {
		for _, f := range list {
			write(f.Name, f.Doc, f.Decl)
		}
	}
	values(all.Consts)
	values(all.Vars)
	functions(all.Funcs)
	for _, typ := range all.Types {
		write(typ.Name, typ.Doc, typ.Decl)
		values(typ.Consts)
		values(typ.Vars)
		functions(typ.Funcs)
		functions(typ.Methods)
	}
	file := filepath.Join(folder, "api.txt")
	if *rewrite {
		if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(want, b.Bytes()) {
		t.Errorf("the API is not what %s says (%v): go test ./internal/lint -run TestAPI -rewrite, and say so "+
			"in CHANGELOG.md\n%s", file,
			err, changes(string(want), b.String()))
	}
}

// changes returns the lines that only one of two strings has, after - or +.
func changes(before, after string) string {
	var b strings.Builder
	for _, side := range []struct{ sign, text, other string }{{"-", before, after}, {"+", after, before}} {
		for line := range strings.Lines(side.text) {
			if !strings.Contains("\n"+side.other, "\n"+line) {
				b.WriteString(side.sign + line)
			}
		}
	}
	return b.String()
}

// filesOf returns the files of a package.
func filesOf(p *ast.Package) []*ast.File {
	var files []*ast.File
	for _, f := range p.Files {
		files = append(files, f)
	}
	return files
}

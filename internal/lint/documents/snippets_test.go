package documents

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSnippets compiles the pieces of Go in the documents, each as the body of a function with parameters for the
// variables that the text around it mentions. Other tests run full programs, and weirvet's tests check those of
// docs/weirvet.md.
func TestSnippets(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command to compile them with")
	}
	given := map[string]string{
		"docs/gpu.md":      "ctx context.Context, m *weir.Model",
		"docs/arrays.md":   "s *array.Scope, f array.Func, specs []array.Spec, x, w *array.Array, seeds []*array.Array",
		"docs/training.md": "file io.Writer",
		"docs/text.md":     "ctx context.Context",
		"docs/memory.md": "ctx context.Context, model *weir.Model, program *weir.Program, calls int, container int64, " +
			"account weir.Account",
		"docs/plan.md": "ctx context.Context, program *weir.Program, inputs weir.Inputs",

		"docs/service.md": "ctx context.Context, model *weir.Model, ids *weir.Tensor, file *os.File, size int64",

		"docs/getting-started.md": "ctx context.Context, program *weir.Program, pixels []float32, picture image.Image, " +
			"height, width int, container int64",
		"docs/from-onnxruntime-go.md": "ctx context.Context, program *weir.Program, pixels []float32, pictures " +
			"iter.Seq[[]float32], use func([]float32)",
	}
	documents, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(".", "snippets-*.tmp")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	count := 0
	for _, document := range documents {
		for _, code := range snippets(t, document) {
			parameters, known := given[document]
			if !known {
				t.Errorf("%s has a piece of Go, and nothing says what it is given", document)
			}
			file := filepath.Join(dir, fmt.Sprintf("snippet%d.go", count))
			if err := os.WriteFile(file, []byte(function(t, count, parameters, code)), 0o666); err != nil {
				t.Fatal(err)
			}
			count++
		}
	}
	if count < 8 {
		t.Errorf("only %d pieces were found", count)
	}
	if out, err := exec.Command("go", "vet", "./"+dir).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// snippets returns the pieces of Go in a document, except full programs and lines that are only an ellipsis, which
// stands for left-out code.
func snippets(t *testing.T, document string) (list []string) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if document == "docs/weirvet.md" {
		return nil
	}
	for _, piece := range strings.Split(string(text), "```go\n")[1:] {
		code, _, _ := strings.Cut(piece, "```")
		if !strings.HasPrefix(code, "package ") {
			list = append(list, strings.ReplaceAll(code, "…\n", ""))
		}
	}
	return list
}

// function returns a file with a piece of code: its imports by the names that it uses, and a use for each variable that
// it declares.
func function(t *testing.T, number int, parameters, code string) string {
	body := "package main\nfunc _() {\n" + code + "}\n"
	file, err := parser.ParseFile(token.NewFileSet(), "", body, 0)
	if err != nil {
		t.Fatalf("%v in\n%s", err, code)
	}
	var names []string
	for _, statement := range file.Decls[0].(*ast.FuncDecl).Body.List {
		if a, ok := statement.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
			for _, x := range a.Lhs {
				names = append(names, x.(*ast.Ident).Name)
			}
		}
	}
	slices.Sort(names)
	uses := ""
	for _, name := range slices.Compact(names) {
		uses += "_ = " + name + "\n"
	}
	if !slices.Contains(names, "err") {
		parameters += ", err error"
	}
	head := "package main\n"
	for _, path := range []string{"context", "fmt", "image", "io", "iter", "os", "runtime/debug", "time",
		"github.com/weirml/weir/batch", "github.com/weirml/weir/classify", "github.com/weirml/weir/embed",
		"github.com/weirml/weir/files", "github.com/weirml/weir",
		"github.com/weirml/weir/array", "github.com/weirml/weir/nn", "github.com/weirml/weir/tokenizer",
		"github.com/weirml/weir/train"} {
		if strings.Contains(code+parameters, filepath.Base(path)+".") {
			head += fmt.Sprintf("import %q\n", path)
		}
	}
	if number == 0 {
		head += "func main() {}\n"
	}
	return fmt.Sprintf("%sfunc snippet%d(%s) error {\n{\n%s%s}\nreturn nil\n}\n", head, number, parameters, code, uses)
}

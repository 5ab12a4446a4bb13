package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"unicode/utf8"
)

// maxColumns is the limit of a line's length, in characters; a tab is one.
const maxColumns = 120

// longLines returns the lines of a file that are longer than the limit. Lines of raw strings and of generated files do
// not have a limit.
func longLines(set *token.FileSet, syntax *ast.File, file string, source []byte) (faults []string) {
	if ast.IsGenerated(syntax) {
		return nil
	}
	raw := map[int]bool{}
	ast.Inspect(syntax, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(literal.Value, "`") {
			for line := set.Position(literal.Pos()).Line; line <= set.Position(literal.End()).Line; line++ {
				raw[line] = true
			}
		}
		return true
	})
	line := 0
	for text := range strings.Lines(string(source)) {
		line++
		if n := utf8.RuneCountInString(strings.TrimSuffix(text, "\n")); n > maxColumns && !raw[line] {
			faults = append(faults, fmt.Sprintf("%s:%d has %d columns; the limit is %d", file, line, n, maxColumns))
		}
	}
	return faults
}

// misnamedDocs returns the doc comments of a file's functions, types and single variables and constants that do not
// begin with the name that they document. Examples are exempt: go doc shows their comments as prose above the code. So
// are generated files.
func misnamedDocs(set *token.FileSet, syntax *ast.File, file string) (faults []string) {
	if ast.IsGenerated(syntax) {
		return nil
	}
	check := func(doc *ast.CommentGroup, name *ast.Ident) {
		words := strings.Fields(doc.Text())
		if example := strings.HasPrefix(name.Name, "Example"); !example && len(words) > 0 &&
			strings.TrimRight(words[0], ":,.;") != name.Name {
			faults = append(faults, fmt.Sprintf("%s:%d: the comment of %s begins with %q, not with the name",
				file, set.Position(name.Pos()).Line, name.Name, words[0]))
		}
	}
	for _, declaration := range syntax.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			check(d.Doc, d.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					check(s.Doc, s.Name)
				case *ast.ValueSpec:
					if !d.Lparen.IsValid() && len(s.Names) == 1 {
						check(d.Doc, s.Names[0])
					}
				}
				if s, ok := spec.(*ast.TypeSpec); ok && !d.Lparen.IsValid() {
					check(d.Doc, s.Name)
				}
			}
		}
	}
	return faults
}

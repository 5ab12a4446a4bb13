package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestOperatorNames: package pass uses operators' names in patterns only. A name may stand in the roots of a rule; in a
// call, as its only name; and alone in a comparison or a case. A list or a map of names, a comparison or a case of
// several, two equal cases, a name in a variable, and a part of a name select operators by a property, which belongs in
// a field of ops.Def. The test does not detect two statements that each compare one name.
func TestOperatorNames(t *testing.T) {
	names := operatorNames(t)
	files, err := filepath.Glob(filepath.Join(root, "internal/pass/*.go"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files of package pass were found: %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, where := range decidesByName(t, filepath.Base(file), string(source), names) {
			t.Errorf("%s: make it a field of ops.Def", where)
		}
	}
}

// TestDecidesByName checks the rule on code that it refuses and code that it accepts.
func TestDecidesByName(t *testing.T) {
	names := operatorNames(t)
	for body, want := range map[string]int{
		`op("add", the("x"))`: 0,
		`b.Op(n.Op.Name(), with(n, ir.Attrs{"axes": axes}), x)`:           0,
		`_ = n.Op.Name() == "add" && other.Attrs.Bool("keep")`:            0,
		`_ = []rule{{"relu", []string{"max", "relu"}, f}}`:                0,
		`if producer(v, "add") == nil && producer(v, "sub") == nil { }`:   0,
		`switch n.Op.Name() { case "add": f(1); case "sub": f(2) }`:       0,
		`_ = "reduce the reshape"`:                                        0,
		`_ = slices.Contains([]string{"reshape", "slice"}, n.Op.Name())`:  2,
		`_ = map[string]bool{"reshape": true}[n.Op.Name()]`:               1,
		`_ = []other{{"relu", []string{"max"}}}`:                          2,
		`_ = name == "add" || name == "sub"`:                              1,
		`_ = name != "add" && x && name != "sub"`:                         1,
		`switch n.Op.Name() { case "add", "sub": f(1) }`:                  1,
		`switch { case name == "add": f(1); case name == "sub": f(1) }`:   1,
		`switch n.Op.Name() { case "add": f(1); case "sub": f( 1 ) }`:     1,
		`is(n, "add", "sub")`:                                             1,
		`name = "add"`:                                                    1,
		`const name = "add"`:                                              1,
		`_ = func() string { return "add" }`:                              1,
		`_ = strings.HasPrefix(n.Op.Name(), "reduce_")`:                   1,
		`_ = n.Op.Name()[:7] == "reduce_"`:                                1,
		`_ = map[bool]string{true: "div", false: "mul"}[x]`:               2,
		`for _, name := range [...]string{"add"} { f(name) }`:             1,
		`switch n.Op.Name() { case "add": f(1); case "x": f(1) }`:         0,
		`_ = n.Attrs.String("reduction", "none") == "add" && name == "y"`: 0,
	} {
		if got := decidesByName(t, "planted", "package p\nfunc _() {\n"+body+"\n}", names); len(got) != want {
			t.Errorf("%s is refused %d times, not %d: %q", body, len(got), want, got)
		}
	}
}

// operatorNames returns the names in docs/operators.md, which a test of package ops compares with the definitions.
func operatorNames(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/operators.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	_, table, _ := strings.Cut(string(page), "|---")
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, " | "); len(cells) > 1 {
			names[strings.TrimPrefix(cells[0], "| ")] = true
		}
	}
	if len(names) < 150 || !names["reshape"] {
		t.Fatalf("docs/operators.md lists %d operators", len(names))
	}
	return names
}

// decidesByName returns the lines of a file of package pass at which operators' names stand for a property.
func decidesByName(t *testing.T, file, source string, names map[string]bool) (list []string) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	allowed, seen := map[ast.Expr]bool{}, map[ast.Expr]bool{}
	refuse := func(n ast.Node, format string, args ...any) {
		list = append(list, fmt.Sprintf("%s: %s", set.Position(n.Pos()), fmt.Sprintf(format, args...)))
	}
	// named allows the operators' names in a list, and returns their number.
	named := func(exprs []ast.Expr) (count int) {
		for _, e := range exprs {
			if isOperator(e, names) {
				allowed[e] = true
				count++
			}
		}
		return count
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if of, ok := n.Type.(*ast.ArrayType); ok && isIdent(of.Elt, "rule") {
				for _, row := range n.Elts {
					allowRoots(row, named)
				}
			}
		case *ast.CallExpr:
			if count := named(n.Args); count > 1 {
				refuse(n, "a call with %d operators' names", count)
			}
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && isIdent(f.X, "strings") {
				for _, arg := range n.Args {
					if isName(arg) {
						refuse(n, "a part of an operator's name")
					}
				}
			}
		case *ast.SliceExpr:
			if isName(n.X) {
				refuse(n, "a part of an operator's name")
			}
		case *ast.BinaryExpr:
			if seen[n] {
				break
			}
			if compared := comparisons(n, named, seen); compared > 1 {
				refuse(n, "a comparison with %d operators' names", compared)
			}
		case *ast.SwitchStmt:
			before := map[string]bool{}
			for _, clause := range n.Body.List {
				clause := clause.(*ast.CaseClause)
				count := named(clause.List)
				if count > 1 {
					refuse(clause, "a case of %d operators", count)
				}
				for _, e := range clause.List {
					if b, ok := e.(*ast.BinaryExpr); ok {
						count += comparisons(b, named, map[ast.Expr]bool{})
					}
				}
				body := printed(set, clause.Body)
				if count > 0 && body != "" && before[body] {
					refuse(clause, "a case that does the same as another operator's")
				}
				before[body] = before[body] || count > 0
			}
		}
		return true
	})
	ast.Inspect(parsed, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok && isOperator(e, names) && !allowed[e] {
			refuse(n, "an operator's name in no pattern")
		}
		return true
	})
	return list
}

// allowRoots allows the title and the roots of a rule: of a row of a table, {title, []string{…}, apply}.
func allowRoots(row ast.Expr, named func([]ast.Expr) int) {
	r, ok := row.(*ast.CompositeLit)
	if !ok || len(r.Elts) != 3 {
		return
	}
	named(r.Elts[:1])
	if roots, ok := r.Elts[1].(*ast.CompositeLit); ok {
		named(roots.Elts)
	}
}

// comparisons counts the operators' names that are compared in an expression of && and ||, and marks its operands as
// seen.
func comparisons(e ast.Expr, named func([]ast.Expr) int, seen map[ast.Expr]bool) int {
	for {
		inner, ok := e.(*ast.ParenExpr)
		if !ok {
			break
		}
		e = inner.X
	}
	b, ok := e.(*ast.BinaryExpr)
	if !ok {
		return 0
	}
	seen[b] = true
	switch b.Op {
	case token.LAND, token.LOR:
		return comparisons(b.X, named, seen) + comparisons(b.Y, named, seen)
	case token.EQL, token.NEQ:
		return named([]ast.Expr{b.X, b.Y})
	}
	return 0
}

// isOperator reports whether an expression is a string that is an operator's name.
func isOperator(e ast.Expr, names map[string]bool) bool {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return false
	}
	text, err := strconv.Unquote(literal.Value)
	return err == nil && names[text]
}

// isName reports whether an expression is the call x.Op.Name().
func isName(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Name" {
		return false
	}
	of, ok := f.X.(*ast.SelectorExpr)
	return ok && of.Sel.Name == "Op"
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// printed returns statements as gofmt prints them.
func printed(set *token.FileSet, body []ast.Stmt) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, set, body); err != nil {
		return ""
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

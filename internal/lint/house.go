package lint

import (
	"bytes"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Package is a folder of Go files, for any system.
type Package struct {
	Folder      string              // below the module's root, with slashes; "." is the root
	Documented  bool                // a file that is not a test has a package comment
	Imports     map[string][]string // import path → the files that import it, except tests
	TestImports map[string][]string // imports of tests inside the package
	UserImports map[string][]string // imports of tests in a package of their own, with _test in its name
	Files       []Size
	Functions   []Size
	Style       []string // lines that are too long, and doc comments that do not begin with the name
}

// Size is the length of a file or function.
type Size struct {
	Name  string // file, or file:line function
	Lines int
	Table bool // it is marked as a table, or a tool wrote it
}

// Read parses every Go file below the module's root, and of the other modules that are rooms. It leaves out other
// modules, testdata, and files that a build ignores.
func Read(root string) ([]*Package, error) {
	packages := map[string]*Package{}
	err := walk(root, roomModules, func(file string) error {
		if path.Ext(file) != ".go" || slices.Contains(strings.Split(file, "/"), "testdata") {
			return nil
		}
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		folder := path.Dir(file)
		p := packages[folder]
		if p == nil {
			p = &Package{Folder: folder, Imports: map[string][]string{}, TestImports: map[string][]string{},
				UserImports: map[string][]string{}}
			packages[folder] = p
		}
		return p.add(file, source)
	})
	if err != nil {
		return nil, err
	}
	var list []*Package
	for _, p := range packages {
		if len(p.Files) > 0 {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *Package) int { return strings.Compare(a.Folder, b.Folder) })
	return list, nil
}

// modules says which other modules below root a walk enters.
type modules int

const (
	noModules modules = iota
	roomModules
	allModules
)

// Files calls visit for every file of the module in root, with its path from there.
func Files(root string, visit func(file string) error) error { return walk(root, noModules, visit) }

// walk calls visit for every file below root, with its path from there. It leaves out hidden folders except .ci, files
// that .gitignore names, links and, unless asked for, other modules.
func walk(root string, into modules, visit func(file string) error) error {
	ignored := ignorePatterns(root)
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, name)
		if err != nil || file == "." {
			return err
		}
		file = filepath.ToSlash(file)
		skip := ignored(file)
		if entry.IsDir() {
			hidden := strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".ci" || strings.HasPrefix(entry.Name(), "_")
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			enter := err != nil || into == allModules || into == roomModules && slices.Contains(ownModules, file)
			if !enter || hidden || skip {
				return filepath.SkipDir
			}
			return nil
		}
		if skip || !entry.Type().IsRegular() {
			return nil
		}
		return visit(file)
	})
}

// ignorePatterns returns a function that reports whether the root's .gitignore names a file. It supports names and
// patterns without negation.
func ignorePatterns(root string) func(file string) bool {
	text, _ := os.ReadFile(filepath.Join(root, ".gitignore"))
	lines := strings.Fields(string(text))
	return func(file string) bool {
		for _, line := range lines {
			pattern, name := strings.TrimSuffix(line, "/"), file
			if !strings.Contains(pattern, "/") {
				name = path.Base(file)
			}
			if ok, _ := path.Match(strings.TrimPrefix(pattern, "/"), name); ok {
				return true
			}
		}
		return false
	}
}

// add reads one file into the package.
func (p *Package) add(file string, source []byte) error {
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, file, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ignoredByBuild(syntax) {
		return nil
	}
	test := strings.HasSuffix(file, "_test.go")
	imports := p.Imports
	if test && strings.HasSuffix(syntax.Name.Name, "_test") {
		imports = p.UserImports
	} else if test {
		imports = p.TestImports
	} else if syntax.Doc.Text() != "" {
		p.Documented = true
	}
	for _, spec := range syntax.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		imports[name] = append(imports[name], file)
	}
	wholeTable := ast.IsGenerated(syntax)
	for _, group := range syntax.Comments {
		wholeTable = wholeTable || group.Pos() < syntax.Package && marked(group)
	}
	p.Style = append(p.Style, longLines(set, syntax, file, source)...)
	p.Style = append(p.Style, misnamedDocs(set, syntax, file)...)
	p.Files = append(p.Files, Size{Name: file, Lines: bytes.Count(source, []byte("\n")), Table: wholeTable})
	for _, declaration := range syntax.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		first, last := set.Position(function.Pos()).Line, set.Position(function.End()).Line
		p.Functions = append(p.Functions, Size{
			Name:  file + ":" + strconv.Itoa(first) + " " + function.Name.Name,
			Lines: last - first + 1,
			Table: wholeTable || marked(function.Doc),
		})
	}
	return nil
}

// marked reports whether a comment marks the following declaration as a table.
func marked(group *ast.CommentGroup) bool {
	if group == nil {
		return false
	}
	return slices.ContainsFunc(group.List, func(c *ast.Comment) bool {
		return c.Text == tableMark || strings.HasPrefix(c.Text, tableMark+" ")
	})
}

// ignoredByBuild reports whether a file carries the constraint "ignore", which no build satisfies.
func ignoredByBuild(syntax *ast.File) bool {
	for _, group := range syntax.Comments {
		for _, comment := range group.List {
			if comment.Pos() > syntax.Package || !constraint.IsGoBuild(comment.Text) {
				continue
			}
			expression, err := constraint.Parse(comment.Text)
			if err == nil && !expression.Eval(func(tag string) bool { return tag != "ignore" }) {
				if tag, ok := expression.(*constraint.TagExpr); ok && tag.Tag == "ignore" {
					return true
				}
			}
		}
	}
	return false
}

// roomName returns a folder's name in the table's spelling: without internal/, and "weir" for the root.
func roomName(folder string) string {
	if folder == "." {
		return "weir"
	}
	return strings.TrimPrefix(folder, "internal/")
}

// roomOf returns the row of the table for a folder, and the name of its room, in which the folder's own name replaces a
// *. The row with the longest name applies.
func roomOf(folder string) (row *Room, name string) {
	folder = roomName(folder)
	for i := range rooms {
		if n, ok := within(folder, rooms[i].Name); ok && (row == nil || len(rooms[i].Name) > len(row.Name)) {
			row, name = &rooms[i], n
		}
	}
	return row, name
}

// within reports whether a folder lies in a room of the given name, and the room's name with the * replaced.
func within(folder, name string) (string, bool) {
	parent, star := strings.CutSuffix(name, "/*")
	if !star {
		return name, folder == name || strings.HasPrefix(folder, name+"/")
	}
	rest, ok := strings.CutPrefix(folder, parent+"/")
	if !ok {
		return "", false
	}
	child, _, _ := strings.Cut(rest, "/")
	return parent + "/" + child, true
}

// covers reports whether an entry of May, such as tensor or importer/*, stands for a room.
func covers(entry string, row *Room, name string) bool {
	return entry == row.Name || entry == name
}

// may reports whether a package of room from may import one of room to.
func may(from *Room, fromName string, to *Room, toName string) bool {
	if fromName == toName {
		return true
	}
	if to.Floor == 0 && from.Floor > 0 {
		return true
	}
	for _, entry := range from.May {
		if covers(entry, to, toName) || entry == below && to.Floor < from.Floor {
			return true
		}
	}
	return false
}

// folderOf returns the folder of an import path of this module.
func folderOf(importPath string) (folder string, ours bool) {
	if importPath == Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, Module+"/")
}

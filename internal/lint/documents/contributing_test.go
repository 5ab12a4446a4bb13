package documents

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestContributing follows the steps of each document in docs/contributing: it lays the files and changes over the tree
// and runs the commands in a copy of the folders that they read. They must succeed.
//
// A fence of Go or text that begins with "// PATH" is a new file. A fence of diff, whose first line is "--- PATH", has
// the old lines (" " or "-") and the new lines (" " or "+"). A fence of weir is a file with its module's name. A fence
// of sh has commands: go test PACKAGE and go run PACKAGE, with variables in front.
func TestContributing(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command to take the steps with")
	}
	documents, err := filepath.Glob("docs/contributing/*.md")
	if err != nil || len(documents) < 4 {
		t.Fatalf("%d documents, %v", len(documents), err)
	}
	for _, document := range documents {
		t.Run(strings.TrimSuffix(filepath.Base(document), ".md"), func(t *testing.T) {
			text, err := os.ReadFile(document)
			if err != nil {
				t.Fatal(err)
			}
			s := &walkthrough{t: t, dir: t.TempDir(), overlay: map[string]string{}, built: map[string]string{}}
			commands := 0
			for i, part := range strings.Split("\n"+string(text), "\n```") {
				if i%2 == 0 {
					continue
				}
				language, body, _ := strings.Cut(part, "\n")
				switch language {
				case "go", "text":
					head, rest, _ := strings.Cut(body, "\n")
					path, ok := strings.CutPrefix(head, "// ")
					if !ok {
						t.Fatalf("a file without a path:\n%s", body)
					}
					if language == "go" {
						rest = body
					}
					s.write(path, rest+"\n")
				case "weir":
					_, name, _ := strings.Cut(body, "ir @")
					name, _, _ = strings.Cut(name, " ")
					s.write(name+".weir", body+"\n")
				case "diff":
					s.change(body)
				case "sh":
					for line := range strings.Lines(body) {
						commands++
						s.run(strings.TrimSpace(line))
					}
				default:
					t.Fatalf("a fence of the language %q", language)
				}
			}
			if commands < 4 {
				t.Errorf("only %d commands", commands)
			}
		})
	}
}

// walkthrough is the steps of one document so far.
type walkthrough struct {
	t       *testing.T
	dir     string            // where commands run; the paths that they read are below it
	overlay map[string]string // files in dir, by the paths in the tree that they replace
	built   map[string]string // the file that a package's command or test was built into, until a file changes
}

// write writes a new file of the document.
func (s *walkthrough) write(path, text string) {
	s.t.Helper()
	file := filepath.Join(s.dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		s.t.Fatal(err)
	}
	if strings.HasSuffix(path, ".go") {
		absolute, err := filepath.Abs(filepath.FromSlash(path))
		if err != nil {
			s.t.Fatal(err)
		}
		s.overlay[absolute] = file
		clear(s.built)
	}
}

// change changes a file of the tree or of an earlier step.
func (s *walkthrough) change(diff string) {
	s.t.Helper()
	head, body, _ := strings.Cut(diff, "\n")
	path, ok := strings.CutPrefix(head, "--- ")
	if !ok {
		s.t.Fatalf("a change without a path:\n%s", diff)
	}
	file := filepath.FromSlash(path)
	if changed := filepath.Join(s.dir, file); exists(changed) {
		file = changed
	}
	data, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	var before, after []string
	for line := range strings.SplitSeq(body, "\n") {
		if line == "" {
			line = " "
		}
		if line[0] != '+' {
			before = append(before, line[1:])
		}
		if line[0] != '-' {
			after = append(after, line[1:])
		}
	}
	old, text := strings.Join(before, "\n"), string(data)
	if n := strings.Count(text, old); n != 1 {
		s.t.Fatalf("%s has these lines %d times:\n%s", path, n, old)
	}
	s.write(path, strings.Replace(text, old, strings.Join(after, "\n"), 1))
}

// run runs a command of the document.
func (s *walkthrough) run(line string) {
	s.t.Helper()
	words := strings.Fields(strings.ReplaceAll(line, "'", ""))
	var env []string
	for strings.Contains(words[0], "=") {
		env, words = append(env, words[0]), words[1:]
	}
	if len(words) < 3 || words[0] != "go" || words[1] != "test" && words[1] != "run" {
		s.t.Fatalf("no step does %q", line)
	}
	where := s.dir
	args := words[3:]
	if words[1] == "test" {
		where = filepath.Join(s.dir, filepath.FromSlash(words[2]))
		s.copy(filepath.Join(words[2], "testdata"))
		s.copy("docs")
		for i, a := range args {
			args[i] = strings.Replace(a, "-run", "-test.run", 1)
		}
	} else {
		s.copy("examples/digits/data")
	}
	if err := os.MkdirAll(where, 0o777); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), s.build(words[1], words[2]), args...)
	cmd.Dir, cmd.Env = where, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "no tests to run") {
		s.t.Errorf("%s: %v\n%s", line, err, out)
	}
}

// copy copies a folder of the tree into dir, except files that are there already.
func (s *walkthrough) copy(folder string) {
	s.t.Helper()
	list, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range list {
		to := filepath.Join(s.dir, path)
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			continue
		}
		if exists(to) {
			continue
		}
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o777)
		}
		if err == nil {
			err = os.WriteFile(to, data, 0o666)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// build builds a package's command, or its tests, with the document's files, and returns the built file.
func (s *walkthrough) build(what, pkg string) string {
	s.t.Helper()
	if file := s.built[what+pkg]; file != "" {
		return file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": s.overlay})
	if err != nil {
		s.t.Fatal(err)
	}
	list, file := filepath.Join(s.dir, "overlay.json"), filepath.Join(s.dir, what+filepath.Base(pkg)+".exe")
	if err := os.WriteFile(list, overlay, 0o666); err != nil {
		s.t.Fatal(err)
	}
	args := []string{"build", "-overlay", list, "-o", file, pkg}
	if what == "test" {
		args = []string{"test", "-c", "-vet=off", "-overlay", list, "-o", file, pkg}
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		s.t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	s.built[what+pkg] = file
	return file
}

// exists reports whether there is a file at path.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository's folder, in which the documents' commands run.
const root = "../.."

// documents returns the files whose screens TestScreens runs. TestContributing of lint/documents runs the steps of
// docs/contributing.
func documents(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*/README.md", "python/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 20 {
		t.Fatalf("only %d documents were found", len(files))
	}
	return files
}

// fence is a fenced part of a document. first is the number of the first line inside it.
type fence struct {
	language string
	first    int
	lines    []string
	unrun    string // the reason in a comment above the fence: <!-- not run: REASON -->
}

// document is a document: its lines and its fences.
type document struct {
	file   string
	lines  []string
	fences []fence
}

func readDocument(t *testing.T, file string) *document {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := &document{file: file, lines: strings.Split(string(data), "\n")}
	var open *fence
	for i, line := range d.lines {
		mark, fenced := strings.CutPrefix(line, "```")
		switch {
		case fenced && open == nil:
			open = &fence{language: mark, first: i + 1}
			if i > 0 {
				reason, ok := strings.CutPrefix(d.lines[i-1], "<!-- not run: ")
				if reason, end := strings.CutSuffix(reason, " -->"); ok && end {
					open.unrun = reason
				}
			}
		case fenced:
			open.lines = d.lines[open.first:i]
			d.fences = append(d.fences, *open)
			open = nil
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the fence does not end", file, open.first)
	}
	return d
}

// name returns the document's path from the root.
func (d *document) name() string {
	name, err := filepath.Rel(root, d.file)
	if err != nil {
		return d.file
	}
	return filepath.ToSlash(name)
}

// heldElsewhere maps a document and a language to the test of its fences; "*" stands for every document.
var heldElsewhere = map[string]map[string]string{
	"go":   {"*": "TestReadme, TestSnippets, train's TestDocument, weirvet's TestDocument"},
	"yaml": {"docs/weirvet.md": "make weirvet builds a golangci-lint with them"},
	"": {
		"ARCHITECTURE.md":             "internal/lint draws it",
		"docs/commands.md":            "TestDocument",
		"docs/training.md":            "train's TestDocument",
		"examples/finetune/README.md": "the test of its program", "examples/recommender/README.md": "the test of its program",
		"examples/train-digits/README.md": "the test of its program",
	},
	"python": {
		"README.md": "python/tests/test_docs.py", "docs/python.md": "python/tests/test_docs.py",
		"python/README.md": "python/tests/test_docs.py",
		"docs/scale.md":    "python/tests_engines, python/tests_torch/test_collectives.py",
		"docs/torch.md":    "python/tests_torch",
		"docs/serving.md":  "serve/clients/run.py",
	},
	"json":     {"docs/serving.md": "serve's TestTooLarge"},
	"protobuf": {"docs/serving.md": "serve's TestSequenceRows"},
}

// TestScreens runs the commands of every screen in the documents, and compares their output with the screen.
//
// A screen is a fence of the language console: a command on a line after "$ ", then its output, in which a line "…"
// stands for omitted lines. A command may set variables in front. Times and rates are not compared. A text in a fence
// of the language weir is a file with the name of its module, which the commands of the same document may name; results
// is a folder that they may write.
// -rewrite writes the screens again.
//
// A screen under the line <!-- not run: REASON --> is skipped, with its reason; so is one for a level that this
// processor does not have. Fences of other languages need a test of their own, which heldElsewhere names.
func TestScreens(t *testing.T) {
	count := 0
	for _, file := range documents(t) {
		d := readDocument(t, file)
		dir := t.TempDir()
		for i, line := range d.lines {
			if strings.HasPrefix(line, "    $ ") {
				t.Errorf("%s:%d: a screen without a fence: make it one of the language console", d.name(), i+1)
			}
		}
		files := map[string]string{"results": filepath.Join(dir, "results")} // a folder that commands may write
		changed := false
		for i, f := range d.fences {
			place := fmt.Sprintf("%s:%d", d.name(), f.first)
			switch held := heldElsewhere[f.language]; {
			case f.language == "weir":
				module, _, _ := strings.Cut(strings.Join(f.lines, "\n"), " {")
				_, module, named := strings.Cut(module, "ir @")
				path := filepath.Join(dir, module+".weir")
				if err := os.WriteFile(path, []byte(strings.Join(f.lines, "\n")+"\n"), 0o666); err != nil || !named {
					t.Fatalf("%s: a text without a module's name: %v", place, err)
				}
				files[module+".weir"] = path
				if r := weirRun(t, "info", path); r.code != 0 {
					t.Errorf("%s: %s", place, r.err)
				}
			case f.language == "sh": // TestCommandLines
			case f.language == "console":
				count++
				t.Run(place, func(t *testing.T) {
					if f.unrun != "" {
						t.Skip(f.unrun)
					}
					if got := screen(t, f.lines, files); got != nil && !t.Failed() {
						if !*rewrite {
							t.Errorf("the commands print:\n%s\nwrite it with: go test ./internal/command -run TestScreens -rewrite",
								strings.Join(got, "\n"))
						}
						d.fences[i].lines, changed = got, true
					}
				})
			case held[d.name()] == "" && held["*"] == "":
				t.Errorf("%s: a fence of the language %q, which no test holds", place, f.language)
			}
		}
		if changed && *rewrite {
			d.write(t)
		}
	}
	if count < 6 {
		t.Errorf("only %d screens were found", count)
	}
}

// write writes the document with the present lines of its fences.
func (d *document) write(t *testing.T) {
	t.Helper()
	for _, f := range slices.Backward(d.fences) {
		end := f.first + slices.IndexFunc(d.lines[f.first:], func(line string) bool { return strings.HasPrefix(line, "```") })
		d.lines = slices.Replace(d.lines, f.first, end, f.lines...)
	}
	if err := os.WriteFile(d.file, []byte(strings.Join(d.lines, "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
}

// screen runs a screen's commands. It returns nil if they print the screen's lines, and otherwise the lines that the
// screen should have.
func screen(t *testing.T, lines []string, files map[string]string) []string {
	t.Helper()
	var now []string
	same := true
	for i := 0; i < len(lines); {
		command, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			t.Fatalf("%q is under no command", lines[i])
		}
		end := i + 1
		for end < len(lines) && !strings.HasPrefix(lines[end], "$ ") {
			end++
		}
		shown := lines[i+1 : end]
		for len(shown) > 0 && shown[len(shown)-1] == "" {
			shown = shown[:len(shown)-1]
		}
		printed := elide(t, shown, printed(t, command, files))
		same = same && slices.Equal(masked(shown), masked(printed))
		now = append(append(now, lines[i]), printed...)
		now = append(now, lines[i+1+len(shown):end]...)
		i = end
	}
	if same {
		return nil
	}
	return now
}

// printed returns the output of a document's command, on both streams.
func printed(t *testing.T, line string, files map[string]string) []string {
	t.Helper()
	words := words(t, line)
	at := slices.Index(words, "weir")
	if at < 0 {
		t.Fatalf("%s: not a command of weir", line)
	}
	env, args := words[:at], words[at+1:]
	lacks(t, env, args)
	for i, a := range args {
		if path, ok := files[a]; ok {
			args[i] = path
		}
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "TMPDIR=/tmp")
	for _, name := range []string{"WEIR_CPU", "WEIR_THREADS", "WEIR_TARGET", "WEIR_DEBUG", "WEIR_MAP"} {
		cmd.Env = append(cmd.Env, name+"=")
	}
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	text := string(out)
	for name, path := range files {
		text = strings.ReplaceAll(text, path, name)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return lines
}

// lacks skips a screen for a level that this processor does not have.
func lacks(t *testing.T, env, args []string) {
	t.Helper()
	level := ""
	for _, e := range env {
		if l, ok := strings.CutPrefix(e, "WEIR_CPU="); ok {
			level = l
		}
	}
	if i := slices.Index(args, "--cpu"); i >= 0 && i+1 < len(args) {
		level = args[i+1]
	}
	if level == "" || level == "portable" {
		return
	}
	if r := weirRun(t, "plan", digits, "--cpu", level); r.code != 0 {
		t.Skipf("a screen for %s: %s", level, r.err)
	}
}

// words splits a command line as a shell does, as far as documents need it: quotes, and a comment at the end.
func words(t *testing.T, line string) (list []string) {
	t.Helper()
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] == '#' {
			return list
		}
		word := ""
		for line != "" && line[0] != ' ' {
			if quote := line[0]; quote == '"' || quote == '\'' {
				inside, rest, ok := strings.Cut(line[1:], string(quote))
				if !ok {
					t.Fatalf("a quote does not end: %s", line)
				}
				word, line = word+inside, rest
				continue
			}
			word, line = word+line[:1], line[1:]
		}
		list = append(list, word)
	}
	return list
}

// elide removes from an output the lines that the screen omits: for each "…", the lines up to the next one that begins
// with the first word of the screen's next line.
func elide(t *testing.T, shown, printed []string) (lines []string) {
	t.Helper()
	for i := 0; i < len(shown); {
		if strings.TrimSpace(shown[i]) == "…" {
			lines = append(lines, shown[i])
			i++
			if i == len(shown) {
				return lines
			}
			label := firstWord(shown[i])
			skip := slices.IndexFunc(printed, func(line string) bool { return firstWord(line) == label })
			if skip < 0 {
				t.Errorf("no line begins with %q in\n%s", label, strings.Join(printed, "\n"))
				return append(lines, printed...)
			}
			printed = printed[skip:]
			continue
		}
		end := i
		for end < len(shown) && strings.TrimSpace(shown[end]) != "…" {
			end++
		}
		n := len(printed)
		if end < len(shown) {
			n = min(n, end-i)
		}
		lines, printed = append(lines, printed[:n]...), printed[n:]
		i = end
	}
	if len(shown) == 0 {
		return nil
	}
	return lines
}

func firstWord(line string) string {
	word, _, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
	return word
}

// varying matches the parts of an output that differ from run to run: times and rates.
var varying = regexp.MustCompile(`[0-9.]+ ?(ns|µs|ms|s|GFLOP/s|GB/s|MB/s|runs/s|elements/s)\b`)

func masked(lines []string) (list []string) {
	for _, line := range lines {
		list = append(list, varying.ReplaceAllString(strings.TrimRight(line, " "), "# $1"))
	}
	return list
}

// TestCommandLines parses every weir command in the documents: the command and its flags exist.
func TestCommandLines(t *testing.T) {
	count := 0
	for _, file := range documents(t) {
		d := readDocument(t, file)
		for i, line := range d.lines {
			line, shown := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			line, _, _ = strings.Cut(line, "  ") // the rest is a description
			if !strings.Contains(line, "weir ") || !(shown || strings.HasPrefix(d.lines[i], "    ") ||
				slices.ContainsFunc(d.fences, func(f fence) bool {
					return (f.language == "sh" || f.language == "console") && f.first <= i && i < f.first+len(f.lines)
				})) {
				continue
			}
			words := words(t, strings.NewReplacer("[", "", "]", "", "...", "", "…", "").Replace(line))
			at := slices.IndexFunc(words, func(w string) bool { return w == "weir" || w == "./weir" })
			if at < 0 || slices.ContainsFunc(words[:at], func(w string) bool {
				return !strings.HasPrefix(w, "WEIR_") && w != "&&"
			}) {
				continue
			}
			count++
			command, args, err := (&cli{}).command().Find(words[at+1:])
			if err == nil && !command.Runnable() {
				err = fmt.Errorf("there is no such command")
			}
			if err == nil {
				err = command.ParseFlags(args)
			}
			if err != nil {
				t.Errorf("%s:%d: %s: %v", d.name(), i+1, line, err)
			}
		}
	}
	if count < 30 {
		t.Errorf("only %d commands were found", count)
	}
}

package memplan_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/memplan/validator"
	"github.com/weirml/weir/internal/sym"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected results in testdata")

// TestText plans the problems of testdata/*.txt and compares the drawings. A line of a problem is one of
//
//	dim NAME MIN MAX
//	buffer NAME SIZE align=A steps=FIRST-LAST [in=NAME+OFFSET]
//	at NAME=VALUE …
//
// Expressions have no spaces. After a line "---" comes the result, one drawing for each "at".
func TestText(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no problems: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source, want, _ := strings.Cut(string(data), "---\n")
			p, bindings := readProblem(t, source)
			s, err := memplan.Plan(p, memplan.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := validator.Verify(claim(p, s), 20); err != nil {
				t.Error(err)
			}
			var got strings.Builder
			for _, at := range bindings {
				text, err := s.Text(bind(at))
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintln(&got, strings.Repeat("=", 20), at)
				got.WriteString(text)
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(source+"---\n"+got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got.String() != want {
				t.Errorf("got\n%s\nwant\n%s", got.String(), want)
			}
		})
	}
}

func readProblem(t *testing.T, source string) (memplan.Problem, []map[string]int64) {
	t.Helper()
	p := memplan.Problem{Dims: sym.NewDims()}
	names := map[string]int{}
	var bindings []map[string]int64
	number := func(text string) int64 {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	lines := bufio.NewScanner(strings.NewReader(source))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) == 0 || f[0] == "#":
		case f[0] == "dim":
			p.Dims.Set(sym.User(f[1]), sym.Range{Min: number(f[2]), Max: number(f[3])})
		case f[0] == "at":
			at := map[string]int64{}
			for _, pair := range f[1:] {
				name, value, _ := strings.Cut(pair, "=")
				at[name] = number(value)
			}
			bindings = append(bindings, at)
		case f[0] == "buffer":
			b := memplan.Buffer{Name: f[1], Size: expr(t, f[2])}
			for _, field := range f[3:] {
				key, value, _ := strings.Cut(field, "=")
				left, right, _ := strings.Cut(value, map[string]string{"steps": "-", "in": "+"}[key])
				switch key {
				case "align":
					b.Align = number(value)
				case "steps":
					b.First, b.Last = int(number(left)), int(number(right))
				case "in":
					b.Alias = &memplan.Alias{Of: names[left], Offset: expr(t, right)}
				}
			}
			names[b.Name] = len(p.Buffers)
			p.Buffers = append(p.Buffers, b)
			p.Steps = max(p.Steps, b.Last+1)
		default:
			t.Fatalf("what is %q?", lines.Text())
		}
	}
	return p, bindings
}

package pattern

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
	"testing"
	"unicode/utf8"
)

var reference = flag.String("reference", "testdata/reference.jsonl", "a file that testdata/reference.py wrote")

// TestReference compares the pieces of texts with the reference's.
func TestReference(t *testing.T) {
	file, err := os.Open(*reference)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<30)
	patterns, refused, accepted, texts, wrong, linear := 0, 0, 0, 0, 0, 0
	for lines.Scan() {
		var line struct {
			P     string
			Error string
			Cases []json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		patterns++
		p, err := Compile(line.P)
		if err != nil {
			if refused++; line.Error == "" {
				if testing.Verbose() {
					t.Logf("%q: %v", line.P, err)
				}
			}
			continue
		}
		if line.Error != "" {
			if accepted++; testing.Verbose() {
				t.Logf("%q: the reference says %s", line.P, line.Error)
			}
			continue
		}
		if p.Linear() {
			linear++
		}
		for _, raw := range line.Cases {
			var text string
			var want []int
			if err := json.Unmarshal(raw, &[]any{&text, &want}); err != nil {
				t.Fatal(err)
			}
			texts++
			if got := pieces(p, text); !equal(got, want) {
				if wrong++; wrong < 40 {
					t.Errorf("%q in %q: %v, the reference has %v (linear %v)", line.P, text, got, want, p.Linear())
				}
				break
			}
		}
	}
	t.Logf("%d patterns, %d refused, %d accepted though the reference fails, %d linear, %d texts, %d differ", patterns,
		refused, accepted, linear, texts, wrong)
	if texts < 1000 {
		t.Errorf("only %d texts", texts)
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// pieces returns the lengths of the pieces of text in characters, negative for those that are not matches.
func pieces(p *Pattern, text string) (out []int) {
	last := 0
	m := p.Matches(text)
	for m.Next() {
		if m.Begin > last {
			out = append(out, -utf8.RuneCountInString(text[last:m.Begin]))
		}
		if m.End > m.Begin {
			out = append(out, utf8.RuneCountInString(text[m.Begin:m.End]))
		}
		last = m.End
	}
	if last < len(text) {
		out = append(out, -utf8.RuneCountInString(text[last:]))
	}
	return out
}

package sentencepiece

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var reference = flag.String("reference", "testdata/reference.jsonl", "a file that testdata/reference.py wrote")
var models = flag.String("models", "testdata", "the folder of its models")

// TestReference compares ids, pieces, places and decoded texts with SentencePiece's.
func TestReference(t *testing.T) {
	file, err := os.Open(*reference)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<30)
	encoders := map[string]*Encoder{}
	texts, wrong := map[string]int{}, map[string]int{}
	var s Scratch
	for lines.Scan() {
		var name, text, decoded, other string
		var pieces [][4]any
		var ids, some []int32
		if err := json.Unmarshal(lines.Bytes(), &[]any{&name, &text, &pieces, &decoded, &some, &other}); err != nil {
			t.Fatal(err)
		}
		e := encoders[name]
		if e == nil {
			data, err := os.ReadFile(filepath.Join(*models, name))
			if err != nil {
				t.Fatal(err)
			}
			f, err := Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			if e, err = NewEncoder(f); err != nil {
				t.Fatal(err)
			}
			encoders[name] = e
		}
		texts[name]++
		tokens, err := e.Encode(nil, text, &s)
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, k := range tokens {
			ids = append(ids, k.ID)
			piece := string(s.Normalized[k.From:k.To])
			if e.file.Pieces[k.ID].Type == Byte {
				piece = e.file.Pieces[k.ID].Text
			}
			got = append(got, fmt.Sprintf("%d %q %d %d", k.ID, piece, k.Begin, k.End))
		}
		for _, p := range pieces {
			want = append(want, fmt.Sprintf("%.0f %q %.0f %.0f", p[0], p[1], p[2], p[3]))
		}
		if !slices.Equal(got, want) {
			if wrong[name]++; wrong[name] < 4 {
				t.Errorf("%s: %q:\n%v\nnot\n%v", name, text, got, want)
			}
			continue
		}
		for _, c := range []struct {
			ids  []int32
			want string
		}{{ids, decoded}, {some, other}} {
			if back, err := e.Decode(c.ids); err != nil || back != c.want {
				if wrong[name]++; wrong[name] < 4 {
					t.Errorf("%s: %v decodes to %q, not %q (%v)", name, c.ids, back, c.want, err)
				}
				break
			}
		}
	}
	t.Logf("texts %v, different %v", texts, wrong)
	if len(texts) < 2 {
		t.Error("there are too few models")
	}
}

package tokenizer

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSentencePiece compares ids, offsets and decoded texts with SentencePiece's, which the room text/sentencepiece has
// recorded.
func TestSentencePiece(t *testing.T) {
	const folder = "../internal/text/sentencepiece/testdata"
	file, err := os.Open(filepath.Join(folder, "reference.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<28)
	read := map[string]*Tokenizer{}
	count := 0
	for lines.Scan() {
		var name, text, decoded, other string
		var pieces [][4]any
		var some []int32
		if err := json.Unmarshal(lines.Bytes(), &[]any{&name, &text, &pieces, &decoded, &some, &other}); err != nil {
			t.Fatal(err)
		}
		k := read[name]
		if k == nil {
			if k, err = Load(filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
			read[name] = k
		}
		e, err := k.Encode(text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var ids []int32
		var at []Span
		for _, p := range pieces {
			ids = append(ids, int32(p[0].(float64)))
			at = append(at, Span{int(p[2].(float64)), int(p[3].(float64))})
		}
		if !slices.Equal(e.IDs, ids) || !slices.Equal(e.Offsets, at) {
			t.Fatalf("%s: %q: %v %v, not %v %v", name, text, e.IDs, e.Offsets, ids, at)
		}
		if got := k.Decode(e.IDs); got != decoded {
			t.Fatalf("%s: %v decodes to %q, not %q", name, e.IDs, got, decoded)
		}
		if got := k.Decode(some); got != other {
			t.Fatalf("%s: %v decodes to %q, not %q", name, some, got, other)
		}
		for _, id := range e.IDs[:min(len(e.IDs), 1)] {
			if token, ok := k.Token(id); !ok || token == "" {
				t.Errorf("%s: no token has the id %d", name, id)
			}
		}
		count++
	}
	if count < 300 {
		t.Errorf("only %d texts", count)
	}
}

// TestSentencePieceFiles finds models in folders, truncates and pads, and refuses damaged files.
func TestSentencePieceFiles(t *testing.T) {
	data, err := os.ReadFile("../internal/text/sentencepiece/testdata/uni_id.model")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "spiece.model"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, load := range []func() (*Tokenizer, error){
		func() (*Tokenizer, error) { return Load(folder) },
		func() (*Tokenizer, error) { return LoadFS(os.DirFS(folder), ".") },
		func() (*Tokenizer, error) { return LoadBytes(data) },
	} {
		k, err := load()
		if err != nil {
			t.Fatal(err)
		}
		e, err := k.EncodePair("a b c d e f", "g", Options{Truncation: &Truncation{Max: 4}, Padding: &Padding{Length: 6}})
		if err != nil || len(e.IDs) != 6 || e.Mask[3] != 1 || e.Mask[4] != 0 {
			t.Errorf("%v %v", e, err)
		}
		text := strings.Repeat("the text ", 50)
		var ids []int32
		if ids, err = k.AppendIDs(ids, text, Options{}); err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(20, func() { ids, _ = k.AppendIDs(ids[:0], text, Options{}) }); n >= 1 {
			t.Errorf("AppendIDs allocates %v times a call", n)
		}
	}
	if _, err := LoadBytes(data[:len(data)/2]); err == nil {
		t.Error("half a file is read")
	}
}

// TestLiveSentencePiece compares with PyPI's sentencepiece 0.2.3 itself, as TestLive does; WEIR_FAMILY may name models.
func TestLiveSentencePiece(t *testing.T) {
	python := reference(t)
	files, err := filepath.Glob("../internal/text/sentencepiece/testdata/*.model")
	if err != nil || len(files) == 0 {
		t.Fatal("no models", err)
	}
	if only := os.Getenv("WEIR_FAMILY"); only != "" {
		files = slices.DeleteFunc(strings.Split(only, ","), func(name string) bool { return filepath.Ext(name) != ".model" })
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			k, err := Load(file)
			if err != nil {
				t.Fatal(err)
			}
			count, bad := 0, 0
			for q, line := range asked(t, k, texts(), python, "testdata/reference_sentencepiece.py", file) {
				var want answer
				if err := json.Unmarshal(line, &want); err != nil {
					t.Fatal(err)
				}
				e, err := k.Encode(q.A, Options{})
				if err != nil {
					t.Fatal(err)
				}
				got := answerOf(e)
				got.Text = k.Decode(e.IDs)
				if !slices.Equal(got.IDs, want.IDs) || !slices.Equal(got.At, want.At) || got.Text != want.Text {
					if bad++; bad <= 3 {
						t.Errorf("%q:\n%v %v %q, not\n%v %v %q", q.A, got.IDs, got.At, got.Text, want.IDs, want.At, want.Text)
					}
				}
				count++
			}
			t.Logf("%d texts, %d differences", count, bad)
		})
	}
}

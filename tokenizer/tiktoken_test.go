package tokenizer

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

// ranks is the name of the tests' ranks of tiktoken among the families.
const ranks = "ranks"

// oursOfTiktoken answers a question with a tokenizer of ranks.
func oursOfTiktoken(t testing.TB, k *Tokenizer, q *question) *answer {
	ids, err := k.AppendIDs(nil, q.text(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &answer{IDs: ids, Whole: k.DecodeSpecial(ids)}
}

// TestTiktoken compares ids and decoded texts with those of PyPI's tiktoken 0.14.0, of which testdata/golden has
// hashes.
func TestTiktoken(t *testing.T) {
	for _, encoding := range slices.Sorted(maps.Keys(tiktokenEncodings)) {
		t.Run(encoding, func(t *testing.T) {
			k, err := LoadTiktoken(family(t, ranks), encoding)
			if err != nil {
				t.Fatal(err)
			}
			compareRecorded(t, "testdata/golden/tiktoken_"+encoding, k,
				func(q *question) *answer { return oursOfTiktoken(t, k, q) })
		})
	}
}

// TestLiveTiktoken compares with tiktoken itself, as TestLive does; WEIR_FAMILY may name files whose names are
// encodings'.
func TestLiveTiktoken(t *testing.T) {
	python := reference(t)
	if only := os.Getenv("WEIR_FAMILY"); only != "" {
		for _, file := range strings.Split(only, ",") {
			if encoding, ok := strings.CutSuffix(filepath.Base(file), ".tiktoken"); ok {
				t.Run(file, func(t *testing.T) {
					k, err := Load(file)
					if err != nil {
						t.Fatal(err)
					}
					liveTiktoken(t, k, python, file, encoding, "")
				})
			}
		}
		return
	}
	file := filepath.Join(t.TempDir(), "ranks")
	if err := os.WriteFile(file, family(t, ranks), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, encoding := range []string{"cl100k_base", "o200k_base", "o200k_harmony", "gpt2", "p50k_base", "p50k_edit",
		"r50k_base"} {
		if testing.Short() && !*rewrite && encoding[0] != 'c' && encoding != "o200k_base" {
			continue // the others have their patterns, or gpt2's
		}
		t.Run(encoding, func(t *testing.T) {
			k, err := LoadTiktoken(family(t, ranks), encoding)
			if err != nil {
				t.Fatal(err)
			}
			liveTiktoken(t, k, python, file, encoding, "testdata/golden/tiktoken_"+encoding)
		})
	}
}

// liveTiktoken asks tiktoken, and may record its answers.
func liveTiktoken(t *testing.T, k *Tokenizer, python, file, encoding, golden string) {
	var hashes []byte
	count, bad := 0, 0
	for q, line := range asked(t, k, texts(), python, "testdata/reference_tiktoken.py", file, encoding) {
		var want answer
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		got := oursOfTiktoken(t, k, q)
		if !slices.Equal(got.IDs, want.IDs) || got.Whole != want.Whole {
			if bad++; bad <= 3 {
				t.Errorf("%q:\n%v %q, not\n%v %q", q.text(), got.IDs, got.Whole, want.IDs, want.Whole)
			}
		}
		hashes = appendDigest(hashes, got)
		count++
	}
	t.Logf("%d texts, %d differences", count, bad)
	if *rewrite && bad == 0 && golden != "" {
		if err := os.WriteFile(golden, hashes, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTiktokenFiles loads ranks by the names of files, and refuses those whose encoding is not known, or that do not
// fit it.
func TestTiktokenFiles(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	data := string(family(t, ranks))
	k, err := Load(write("cl100k_base.tiktoken", data))
	if err != nil {
		t.Fatal(err)
	}
	want, err := LoadTiktoken([]byte(data), "cl100k_base")
	if err != nil {
		t.Fatal(err)
	}
	const text = "don't <|endofprompt|>   \n\n 12345 x"
	e, err := k.Encode(text, Options{})
	ids, failed := want.AppendIDs(nil, text, Options{})
	if err != nil || failed != nil || !slices.Equal(e.IDs, ids) || !slices.Contains(ids, 100276) {
		t.Errorf("%v %v, %v %v", e, err, ids, failed)
	}
	plain := strings.Replace(text, "<|endofprompt|>", "", 1)
	if id, ok := k.ID("<|endofprompt|>"); !ok || id != 100276 || k.Decode(ids) != plain {
		t.Errorf("id %d, %v; %q", id, ok, k.Decode(ids))
	}
	harmony, err := LoadTiktoken([]byte(data), "o200k_harmony")
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := harmony.AppendIDs(nil, "<|reserved_200018|><|endofprompt|><|message|>", Options{}); err != nil ||
		!slices.Equal(ids, []int32{200018, 200018, 200008}) {
		t.Errorf("%v %v", ids, err)
	}
	for _, c := range []struct {
		name, data, says string
		kind             error
	}{
		{"other.tiktoken", data, "use LoadTiktoken", diag.ErrUnsupported},
		{"gpt2.tiktoken", data + "dGhlbg== 50256\n", "special token", diag.ErrInput},
		{"p50k_base.tiktoken", "IQ== 0\n", "of the 256 bytes", diag.ErrInput},
		{"o200k_base.tiktoken", data + strings.Repeat("YWFh", 400) + " 4000\n", "longer than 1024", diag.ErrUnsupported},
	} {
		name := write(c.name, c.data)
		_, err := Load(name)
		var d *diag.Error
		if !errors.As(err, &d) || !errors.Is(err, c.kind) || d.File != name || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: the error is %v", c.name, err)
		}
	}
	if _, err := LoadTiktoken([]byte(data), "cl50"); !errors.Is(err, diag.ErrUnsupported) ||
		!strings.Contains(err.Error(), "known are cl100k_base, gpt2") {
		t.Errorf("an encoding that does not exist: %v", err)
	}
}

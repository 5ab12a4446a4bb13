package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/text/gguftest"
	"github.com/weirml/weir/internal/text/sentencepiece"
)

// ggufFamily is a family, and what a GGUF file says of it.
type ggufFamily struct {
	name, model, pre string
	change           func(data string) string // of the tokenizer.json: what a GGUF file cannot say
	more             map[string]any
}

func untrimmed(data string) string {
	return strings.ReplaceAll(data, `"trim_offsets":true`, `"trim_offsets":false`)
}

// ggufFamilies are the families that are compared with GGUF files of the same vocabulary.
var ggufFamilies = []ggufFamily{
	{name: "smollm", model: "gpt2", pre: "smollm"},
	{name: "llama3", model: "gpt2", pre: "llama-bpe", change: untrimmed,
		more: map[string]any{"tokenizer.ggml.bos_token_id": 0}},
	{name: "qwen", model: "gpt2", pre: "qwen2",
		change: func(s string) string {
			return strings.Replace(s, `"normalizer":{"type":"NFC"}`, `"normalizer":null`, 1)
		}},
	{name: "roberta", model: "gpt2", pre: "roberta-bpe", more: map[string]any{"tokenizer.ggml.bos_token_id": 0,
		"tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.add_bos_token": true, "tokenizer.ggml.add_eos_token": true},
		change: func(s string) string {
			s = strings.Replace(s, `"content":"<mask>","single_word":false,"lstrip":true`,
				`"content":"<mask>","single_word":false,"lstrip":false`, 1)
			return untrimmed(s)
		}},
	{name: "bert_uncased", model: "bert"},
	{name: "bert_cased", model: "bert", more: map[string]any{"tokenizer.ggml.normalizer.lowercase": false},
		change: func(s string) string { return strings.Replace(s, `"cleanup":false`, `"cleanup":true`, 1) }},
}

// file returns the GGUF file of a tokenizer.json.
func (f ggufFamily) file(t testing.TB, data []byte) []byte {
	var file struct {
		Added []struct {
			ID      int32
			Content string
			Special bool
		} `json:"added_tokens"`
		Model struct {
			Vocab  map[string]int32
			Merges [][2]string
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	size := len(file.Model.Vocab)
	for _, a := range file.Added {
		size = max(size, int(a.ID)+1)
	}
	tokens, types, merges := make([]string, size), make([]int32, size), []string{}
	for token, id := range file.Model.Vocab {
		types[id] = int32(sentencepiece.Normal)
		if tokens[id] = token; f.model == "bert" && !strings.HasPrefix(token, "[") {
			rest, inside := strings.CutPrefix(token, "##")
			if tokens[id] = rest; !inside {
				tokens[id] = "▁" + token
			}
		}
	}
	for _, a := range file.Added {
		if tokens[a.ID], types[a.ID] = a.Content, int32(sentencepiece.UserDefined); a.Special {
			types[a.ID] = int32(sentencepiece.Control)
		}
	}
	for _, m := range file.Model.Merges {
		merges = append(merges, m[0]+" "+m[1])
	}
	var w gguftest.Writer
	w.Add("general.architecture", "test")
	w.Add("tokenizer.ggml.model", f.model)
	w.Add("tokenizer.ggml.pre", f.pre)
	w.Add("tokenizer.ggml.tokens", tokens)
	w.Add("tokenizer.ggml.token_type", types)
	w.Add("tokenizer.ggml.merges", merges)
	for key, value := range f.more {
		w.Add(key, value)
	}
	return w.File()
}

// TestGGUF compares files of GGUF with tokenizer.json of the same vocabulary: all parts of encodings, and decoded
// texts.
func TestGGUF(t *testing.T) {
	for _, f := range ggufFamilies {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			data := family(t, f.name)
			if f.change != nil {
				changed := f.change(string(data))
				if changed == string(data) {
					t.Fatal("nothing changes")
				}
				data = []byte(changed)
			}
			want, err := LoadBytes(data)
			if err != nil {
				t.Fatal(err)
			}
			got, err := LoadFS(fstest.MapFS{"m/model.gguf": {Data: f.file(t, data)}}, "m")
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range questions(want, 1000) {
				a, b := ours(got, &q), ours(want, &q)
				if b.Known = true; differ(a, b) != "" {
					t.Fatalf("%q %v: %s differ:\n%+v\n%+v", q.text(), q.B, differ(a, b), a, b)
				}
			}
		})
	}
}

// sentenceFile returns the GGUF file of a model of SentencePiece.
func sentenceFile(t testing.TB, name string, more map[string]any) []byte {
	data, err := os.ReadFile(filepath.Join("../internal/text/sentencepiece/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	f, err := sentencepiece.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	var scores []float32
	var types []int32
	for _, p := range f.Pieces {
		tokens, scores, types = append(tokens, p.Text), append(scores, p.Score), append(types, int32(p.Type))
	}
	var w gguftest.Writer
	model := "t5"
	if f.Algorithm == sentencepiece.BPE { // the unknown token is told by its id alone, as in files of Gemma
		model = "llama"
		types[f.UnknownID()] = int32(sentencepiece.Control)
		w.Add("tokenizer.ggml.unknown_token_id", f.UnknownID())
	}
	w.Add("tokenizer.ggml.model", model)
	w.Add("tokenizer.ggml.tokens", tokens)
	w.Add("tokenizer.ggml.scores", scores)
	w.Add("tokenizer.ggml.token_type", types)
	w.Add("tokenizer.ggml.add_space_prefix", f.Normalizer.AddDummyPrefix)
	w.Add("tokenizer.ggml.remove_extra_whitespaces", f.Normalizer.RemoveExtraWhitespaces)
	w.Add("tokenizer.ggml.precompiled_charsmap", f.Normalizer.Charsmap)
	for key, value := range more {
		w.Add(key, value)
	}
	return w.File()
}

// TestGGUFSentences compares files of GGUF with models of SentencePiece, on texts without the tokens that GGUF finds
// first, and looks for those.
func TestGGUFSentences(t *testing.T) {
	for _, name := range []string{"uni_tsv.model", "uni_id.model", "bpe_tsv.model", "bpe_id.model"} {
		want, err := Load(filepath.Join("../internal/text/sentencepiece/testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		k, err := LoadBytes(sentenceFile(t, name, map[string]any{"tokenizer.ggml.bos_token_id": 1,
			"tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.add_bos_token": true, "tokenizer.ggml.add_eos_token": true}))
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, q := range questions(want, 3000) {
			found := func(a addedToken) bool { return strings.Contains(q.A, a.content) }
			if q.raw != "" || slices.ContainsFunc(k.added, found) {
				continue
			}
			count++
			a, err := k.Encode(q.A, Options{NoSpecial: true})
			if err != nil {
				t.Fatal(err)
			}
			b, err := want.Encode(q.A, Options{})
			if err != nil || !slices.Equal(a.IDs, b.IDs) {
				t.Fatalf("%s: %q: %v, not %v; %v", name, q.A, a.IDs, b.IDs, err)
			}
			for i, at := range a.Offsets {
				if at.Begin > at.End || at.End > len(q.A) || i > 0 && at.Begin < a.Offsets[i-1].Begin {
					t.Fatalf("%s: %q: the offsets are %v", name, q.A, a.Offsets)
				}
			}
		}
		if count < 500 {
			t.Errorf("%s: %d texts", name, count)
		}
		e, err := k.EncodePair("the<s>the</s>", "a", Options{})
		if err != nil {
			t.Fatal(err)
		}
		alone, err := k.Encode("the", Options{NoSpecial: true})
		if err != nil {
			t.Fatal(err)
		}
		ids := slices.Concat([]int32{1}, alone.IDs, []int32{1}, alone.IDs, []int32{2, 2, 1})
		if !slices.Equal(e.IDs[:len(ids)], ids) || e.IDs[len(e.IDs)-1] != 2 {
			t.Errorf("%s: %v does not begin with %v", name, e.IDs, ids)
		}
		n := len(alone.IDs)
		if at := e.Offsets[1+n]; at != (Span{3, 6}) || e.Offsets[1+n+n].End != 9 {
			t.Errorf("%s: the offsets are %v", name, e.Offsets)
		}
		text := strings.TrimSpace(want.Decode(alone.IDs)) + "<s>"
		if got := k.DecodeSpecial(e.IDs[1 : 2+n]); strings.TrimSpace(got) != text {
			t.Errorf("%s: %v decodes to %q, not %q", name, e.IDs[1:2+n], got, text)
		}
	}
}

// TestGGUFRefused loads files with one thing wrong.
func TestGGUFRefused(t *testing.T) {
	const prefix = "tokenizer.ggml."
	bytes := make([]string, 0, 300)
	for b := range 256 {
		bytes = append(bytes, string(byteCharacters[b]))
	}
	for _, c := range []struct {
		keys map[string]any
		says string
		kind error
	}{
		{map[string]any{"model": "rwkv", "tokens": bytes}, `"rwkv" is not supported; supported are bert, gpt2`,
			diag.ErrUnsupported},
		{map[string]any{"model": "gpt2", "tokens": bytes, "pre": "odd"}, `"odd" is not supported`, diag.ErrUnsupported},
		{map[string]any{"model": "gpt2", "tokens": append(bytes, "a")}, "twice", diag.ErrInput},
		{map[string]any{"model": "gpt2", "tokens": bytes, "merges": []string{"ab"}}, "not two tokens", diag.ErrInput},
		{map[string]any{"model": "gpt2", "tokens": bytes, "merges": []string{"a b"}}, "not tokens", diag.ErrInput},
		{map[string]any{"model": "llama", "tokens": bytes}, "unknown", diag.ErrInput},
		{map[string]any{"model": "bert", "tokens": bytes}, "unknown", diag.ErrInput},
		{map[string]any{"model": "gpt2"}, "no vocabulary", diag.ErrInput},
	} {
		var w gguftest.Writer
		for key, value := range c.keys {
			w.Add(prefix+key, value)
		}
		name := filepath.Join(t.TempDir(), "x.gguf")
		if err := os.WriteFile(name, w.File(), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(name)
		var d *diag.Error
		if !errors.As(err, &d) || !errors.Is(err, c.kind) || d.File != name || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: the error is %v", fmt.Sprint(c.keys)[:40], err)
		}
	}
	for name, pre := range ggufPreTokenizers {
		for _, source := range pre.patterns {
			if f, err := compile(source, name); err != nil || !f.pattern.Linear() {
				t.Errorf("%s: the pattern %s: %v", name, source, err)
			}
		}
	}
}

package classify

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/encoder"
	"github.com/weirml/weir/tokenizer"
)

// must loads a model of testdata, with files laid over it.
func must(t *testing.T, name string, files map[string]string, o Options) *Model {
	t.Helper()
	laid := map[string]*string{}
	for name, text := range files {
		laid[name] = &text
	}
	m, err := LoadFS(t.Context(), over(t, name, laid), ".", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// changed returns the contents of a file of testdata with a part replaced.
func changed(t *testing.T, file, from, to string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/models/" + file)
	if err != nil || strings.Count(string(data), from) != 1 {
		t.Fatalf("%s has not one %q (%v)", file, from, err)
	}
	return strings.Replace(string(data), from, to, 1)
}

// randomTexts returns texts of random numbers of words.
func randomTexts(r *rand.Rand, n, words int) []string {
	list := make([]string, n)
	some := []string{"river", "the", "bread", "Москва", "東京", "naïve", "😀", "station", "of", "\u0301", "x", "12,5", "\xff"}
	for i := range list {
		var b strings.Builder
		for range 1 + r.IntN(words) {
			b.WriteString(some[r.IntN(len(some))])
			b.WriteByte(' ')
		}
		list[i] = b.String()
	}
	return list
}

// same reports whether two answers are the same but for rounding.
func same[T any](x, y []T, score func(T) (float32, any)) bool {
	return slices.EqualFunc(x, y, func(a, b T) bool {
		s, restA := score(a)
		u, restB := score(b)
		return example{}.near(s, u) && reflect.DeepEqual(restA, restB)
	})
}

// TestTogether: goroutines that share a model get what each text gets alone.
func TestTogether(t *testing.T) {
	labels, ranks, tags := must(t, "nli_bert", nil, Options{}), must(t, "cross_encoder", nil, Options{}),
		must(t, "token_bert", nil, Options{Compile: weir.Options{Calls: 2}})
	var wait sync.WaitGroup
	for g := range 6 {
		r := rand.New(rand.NewPCG(1, uint64(g)))
		wait.Go(func() {
			for range 4 {
				texts := randomTexts(r, 1+r.IntN(12), 40)
				k := r.IntN(len(texts))
				one := texts[k : k+1]
				all, err1 := labels.Classify(t.Context(), texts, Scoring{})
				alone, err2 := labels.Classify(t.Context(), one, Scoring{})
				zero, err3 := labels.ZeroShot(t.Context(), texts, []string{"a", "river"}, Candidates{})
				zeroAlone, err4 := labels.ZeroShot(t.Context(), one, []string{"a", "river"}, Candidates{})
				found, err5 := tags.Tag(t.Context(), texts, Tagging{Aggregation: Average, Whole: true, Stride: 7})
				foundAlone, err6 := tags.Tag(t.Context(), one, Tagging{Aggregation: Average, Whole: true, Stride: 7})
				ranked, err7 := ranks.Rank(t.Context(), "bread", texts, Scoring{Top: 3})
				pairs, err8 := ranks.Predict(t.Context(), []Pair{{"bread", texts[ranked[0].Index]}}, Default)
				if err := errors.Join(err1, err2, err3, err4, err5, err6, err7, err8); err != nil {
					t.Error(err)
					return
				}
				label := func(l Label) (float32, any) { return l.Score, l.Name }
				entity := func(e Entity) (float32, any) { s := e.Score; e.Score = 0; return s, e }
				if !same(all[k], alone[0], label) || !same(zero[k], zeroAlone[0], label) ||
					!same(found[k], foundAlone[0], entity) || !(example{}).near(ranked[0].Score, pairs[0][0]) {
					t.Errorf("%q has other answers alone", texts[k])
				}
				for _, e := range found[k] {
					if e.Begin > e.End || e.End > len(texts[k]) {
						t.Errorf("%q: %v", texts[k], e)
					}
				}
			}
		})
	}
	wait.Wait()
}

// counting is an account that grants everything, and counts.
type counting struct{ held, most *atomic.Int64 }

func (c counting) Take(_ context.Context, bytes int64) error {
	if now := c.held.Add(bytes); now > c.most.Load() { // one goroutine runs
		c.most.Store(now)
	}
	return nil
}

func (c counting) Give(bytes int64) { c.held.Add(-bytes) }

// TestMemory: a model of texts and one of tokens hold what the certificate says once the largest runs were made.
func TestMemory(t *testing.T) {
	for _, name := range []string{"cross_encoder", "token_bert"} {
		var held, most atomic.Int64
		m := must(t, name, nil, Options{Compile: weir.Options{Account: counting{&held, &most}, Threads: 1}})
		c := m.Memory()
		base := held.Load()
		if want := c.Weights + c.Files; base != want {
			t.Errorf("%s: the loaded model holds %d bytes, not %d", name, base, want)
		}
		most.Store(base)
		for tokens := 1; tokens <= m.MaxTokens(); tokens++ {
			texts := slices.Repeat([]encoder.Text{{IDs: make([]int32, tokens)}}, 1200/tokens)
			if _, err := m.encoder.Run(t.Context(), 0, texts); err != nil {
				t.Fatal(err)
			}
		}
		if got := most.Load() - base; got != c.Call {
			t.Errorf("%s: runs took %d bytes at most; %d are certified", name, got, c.Call)
		}
		if err := m.Close(); err != nil || held.Load() != 0 {
			t.Errorf("%s: %d bytes are left (%v)", name, held.Load(), err)
		}
	}
}

// TestFolders: folders that contradict themselves, or that are not of a classifier, are refused with typed errors.
func TestFolders(t *testing.T) {
	change := func(file, from, to string) map[string]string {
		_, name, _ := strings.Cut(file, "/")
		return map[string]string{name: changed(t, file, from, to)}
	}
	nli := "nli_bert/config.json"
	for _, c := range []struct {
		model string
		files map[string]string
		kind  error
		says  string
	}{
		{"nli_bert", change(nli, `"2": "entailment"`, `"3": "entailment"`), weir.ErrInput, `"3"`},
		{"nli_bert", change(nli, `"2": "entailment"`, `"two": "entailment"`), weir.ErrInput, `"two"`},
		{"nli_bert", change(nli, `"2": "entailment"`, `"2": "entailment", "3": "x"`), weir.ErrInput, ""},
		{"nli_bert", change(nli, `"id2label"`, `"problem_type": "regresion", "id2label"`), weir.ErrInput, "regresion"},
		{"nli_bert", change(nli, `"id2label"`, `"num_labels": 5, "id2label"`), weir.ErrInput, "5"},
		{"nli_bert", change(nli, `"id2label"`, `"label2id": [1], "id2label_"`), weir.ErrInput, "label2id"},
		{"nli_bert", change(nli, "BertForSequenceClassification", "BertForCausalLM"), weir.ErrUnsupported, "ForCausalLM"},
		{"nli_bert", change(nli, "BertForSequenceClassification", "BertModel"), weir.ErrUnsupported, "logits"},
		{"nli_bert", map[string]string{"config.json": "{"}, weir.ErrInput, "config.json"},
		{"nli_bert", map[string]string{"tokenizer.json": "{}"}, weir.ErrInput, "tokenizer.json"},
		{"nli_bert", map[string]string{"tokenizer_config.json": `{"unk_token": 1, "model_max_length": "x"}`}, weir.ErrInput,
			"tokenizer_config.json"},
		{"cross_encoder", map[string]string{"config_sentence_transformers.json": "[]"}, weir.ErrInput, "config_sentence"},
		{"cross_encoder", map[string]string{"modules.json": `[{"path": "", "type": "a.Transformer"},
			{"path": "1", "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}]`},
			weir.ErrUnsupported, "LogitScore"},
	} {
		laid := map[string]*string{}
		for name, text := range c.files {
			laid[name] = &text
		}
		m, err := LoadFS(t.Context(), over(t, c.model, laid), ".", Options{})
		if err == nil {
			m.Close()
		}
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %q: %v", c.model, c.says, err)
		}
	}
	for name, kind := range map[string]error{"": weir.ErrInput, "sentencepiece.bpe.model": weir.ErrUnsupported} {
		content := "x"
		_, err := LoadFS(t.Context(), over(t, "nli_bert", map[string]*string{"tokenizer.json": nil, name: &content}), ".",
			Options{})
		if !errors.Is(err, kind) {
			t.Errorf("a folder with the tokenizer %q: %v", name, err)
		}
	}
	if _, err := Load(t.Context(), "testdata/nothing", Options{}); err == nil {
		t.Error("a folder that is not there is loaded")
	}
	m := must(t, "nli_bert", map[string]string{"config.json": `{"model_type": "bert", "num_labels": 3, "hidden_size": 32,
		"num_hidden_layers": 2, "num_attention_heads": 4, "architectures": ["BertForSequenceClassification"],
		"max_position_embeddings": 64, "type_vocab_size": 2, "label2id": null}`}, Options{})
	if got := m.Labels(); !slices.Equal(got, []string{"LABEL_0", "LABEL_1", "LABEL_2"}) {
		t.Errorf("labels without names are %q", got)
	}
	_, err := m.ZeroShot(t.Context(), []string{"a"}, []string{"b"}, Candidates{})
	if !errors.Is(err, weir.ErrUnsupported) {
		t.Errorf("zero-shot classification without an entailment: %v", err)
	}
}

// TestCalls: calls that a model cannot answer have typed errors; empty lists have empty answers.
func TestCalls(t *testing.T) {
	nli, rank, tag := must(t, "nli_bert", nil, Options{}), must(t, "cross_encoder", nil, Options{}),
		must(t, "token_bert", nil, Options{})
	odd := must(t, "cross_encoder", map[string]string{"config_sentence_transformers.json": `{
		"activation_fn": "torch.nn.Odd", "default_prompt_name": "query", "prompts": {"query": "find: "}}`}, Options{})
	ctx, text := t.Context(), []string{"a"}
	long := []string{strings.Repeat("the river ", 60)}
	for i, c := range []struct {
		call func() error
		kind error
	}{
		{func() error { _, err := tag.Classify(ctx, text, Scoring{}); return err }, weir.ErrUnsupported},
		{func() error { _, err := nli.Tag(ctx, text, Tagging{}); return err }, weir.ErrUnsupported},
		{func() error { _, err := nli.Rank(ctx, "a", text, Scoring{}); return err }, weir.ErrUnsupported},
		{func() error { _, err := rank.Rank(ctx, "a", text, Scoring{Top: -1}); return err }, weir.ErrInput},
		{func() error { _, err := nli.Classify(ctx, text, Scoring{Top: -1}); return err }, weir.ErrInput},
		{func() error { _, err := nli.Classify(ctx, text, Scoring{Function: 9}); return err }, weir.ErrInput},
		{func() error { _, err := nli.Classify(ctx, text, Scoring{Function: -1}); return err }, weir.ErrInput},
		{func() error { _, err := tag.Tag(ctx, text, Tagging{Aggregation: 5}); return err }, weir.ErrInput},
		{func() error { _, err := tag.Tag(ctx, text, Tagging{Whole: true}); return err }, weir.ErrInput},
		{func() error { _, err := tag.Tag(ctx, text, Tagging{Aggregation: First, Stride: 1}); return err }, weir.ErrInput},
		{func() error {
			_, err := tag.Tag(ctx, long, Tagging{Aggregation: First, Whole: true, Stride: 58})
			return err
		}, weir.ErrInput},
		{func() error {
			_, err := tag.Tag(ctx, long, Tagging{Aggregation: First, Whole: true, Stride: -1})
			return err
		}, weir.ErrInput},
		{func() error { _, err := nli.ZeroShot(ctx, text, nil, Candidates{}); return err }, weir.ErrInput},
		{func() error { _, err := nli.ZeroShot(ctx, []string{""}, text, Candidates{}); return err }, weir.ErrInput},
		{func() error { _, err := nli.ZeroShot(ctx, text, text, Candidates{Template: "x"}); return err }, weir.ErrInput},
		{func() error { _, err := nli.ZeroShot(ctx, text, long, Candidates{}); return err }, weir.ErrInput},
		{func() error { _, err := odd.Rank(ctx, "a", text, Scoring{}); return err }, weir.ErrUnsupported},
		{func() error { _, err := odd.Rank(ctx, "a", text, Scoring{Function: Sigmoid}); return err }, nil},
		{func() error { _, err := nli.Classify(ctx, nil, Scoring{}); return err }, nil},
		{func() error {
			_, err := tag.Tag(ctx, []string{"", long[0], "\xff\xfe"}, Tagging{Aggregation: Max})
			return err
		}, nil},
	} {
		if err := c.call(); !errors.Is(err, c.kind) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	with, err := odd.Predict(ctx, []Pair{{"bread", "the baker"}}, Identity)
	without, err2 := rank.Predict(ctx, []Pair{{"find: bread", "the baker"}}, Identity)
	if err != nil || err2 != nil || with[0][0] != without[0][0] {
		t.Errorf("the default prompt gives %v (%v); want %v (%v)", with, err, without, err2)
	}
	rank.Close()
	if _, err := rank.Rank(ctx, "a", text, Scoring{}); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("a closed model: %v", err)
	}
}

// TestTypes: a model is told which of two texts a token is of, if its tokenizer's settings or its class say so; and the
// side that is truncated is the tokenizer's.
func TestTypes(t *testing.T) {
	for settings, typed := range map[string]bool{"{}": true, `{"model_input_names": ["input_ids"]}`: false,
		`{"tokenizer_class": "BertTokenizerFast"}`: true, `{"tokenizer_class": "PreTrainedTokenizerFast"}`: false,
		`{"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": ["token_type_ids"]}`: true,
		`{"truncation_side": "left"}`: true} {
		m := must(t, "nli_bert", map[string]string{"tokenizer_config.json": settings}, Options{MaxTokens: 12})
		pair, err := m.encoder.EncodePair("a river", "bread and the sea, and more", tokenizer.Truncation{})
		if err != nil || (slices.Max(append(pair.Types, 0)) == 1) != typed {
			t.Errorf("%s: the types %v (%v)", settings, pair.Types, err)
		}
		text, err := m.encoder.Encode("a river carries the rain to the sea and more")
		left := strings.Contains(settings, "left")
		if first, ok := m.Tokenizer().ID("a"); err != nil || !ok || (text.IDs[1] == first) == left {
			t.Errorf("%s: the ids %v (%v)", settings, text.IDs, err)
		}
	}
}

// TestTemplate: a template has one place for the label, and braces are written twice.
func TestTemplate(t *testing.T) {
	for template, want := range map[string]string{"{}": "x", "a {} b": "a x b", "{{{}}}": "{x}", "{0}!": "x!", "": "",
		"{} {}": "", "{{}}": "", "{": "", "}": "", "{1}": "", "{x}": "", "{:>5}": "", "a}b{}": ""} {
		got, err := filled(template, []string{"x", "{}"})
		if want == "" && !errors.Is(err, weir.ErrInput) || want != "" && (err != nil || got[0] != want) {
			t.Errorf("%q gives %q (%v)", template, got, err)
		}
	}
}

// TestCharacters: offsets count characters, in any order, and those beyond the text do not panic.
func TestCharacters(t *testing.T) {
	got := Characters("aé😀b", []Entity{{Begin: 3, End: 7}, {Begin: 1, End: 3}, {Begin: 7, End: 8}, {Begin: -1, End: 99}})
	want := []Entity{{Begin: 2, End: 3}, {Begin: 1, End: 2}, {Begin: 3, End: 4}, {Begin: 0, End: 4}}
	if !slices.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
}

// TestMutants: damaged settings are refused with typed errors, or give a model that answers. WEIR_CLASSIFIER_MUTANTS is
// the number of mutants.
func TestMutants(t *testing.T) {
	count := 60
	if n := os.Getenv("WEIR_CLASSIFIER_MUTANTS"); n != "" {
		var err error
		if count, err = strconv.Atoi(n); err != nil {
			t.Fatal(err)
		}
	}
	refused := 0
	files := []string{"config.json", "tokenizer_config.json", "config_sentence_transformers.json", "modules.json",
		"sentence_bert_config.json"}
	parts := []string{"null", "[]", "{}", "-1", "0", "1e99", `"x"`, "true", `{"0": 1}`, "", ",", "9999999999", `"torch."`}
	for i := range count {
		r := rand.New(rand.NewPCG(7, uint64(i)))
		model := []string{"cross_encoder", "nli_bert", "token_bert"}[r.IntN(3)]
		folder := over(t, model, nil).(fstest.MapFS)
		name := files[r.IntN(len(files))]
		if folder[name] == nil {
			name = "config.json"
		}
		data := slices.Clone(folder[name].Data)
		for range 1 + r.IntN(3) {
			if at := r.IntN(len(data) + 1); r.IntN(3) == 0 && at < len(data) {
				data[at] ^= byte(1 << r.IntN(8))
			} else if colon := strings.IndexByte(string(data[at:]), ':'); colon >= 0 { // another value
				begin := at + colon + 1
				end := begin + strings.IndexAny(string(data[begin:])+",", ",}\n")
				data = slices.Concat(data[:begin], []byte(parts[r.IntN(len(parts))]), data[min(end, len(data)):])
			}
		}
		folder[name] = &fstest.MapFile{Data: data}
		m, err := LoadFS(t.Context(), folder, ".", Options{})
		if err == nil {
			if m.PerToken() {
				_, err = m.Tag(t.Context(), []string{"a river"}, Tagging{Aggregation: First})
			} else {
				_, err = m.Predict(t.Context(), []Pair{{"a", "river"}}, Default)
				if _, e := m.ZeroShot(t.Context(), []string{"a"}, []string{"b"}, Candidates{}); err == nil {
					err = e
				}
			}
			m.Close()
		}
		if e := (*weir.Error)(nil); err != nil {
			if refused++; !errors.As(err, &e) || errors.Is(err, weir.ErrInternal) {
				t.Errorf("mutant %d, of %s of %s: %v\n%s", i, name, model, err, data)
			}
		}
	}
	if refused == 0 || refused == count {
		t.Errorf("%d of %d mutants are refused", refused, count)
	}
}

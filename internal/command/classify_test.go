package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// classifiers is the folder of the tiny models that classify's tests compare with transformers.
const classifiers = "../../classify/testdata/models/"

// TestClassify labels texts and tokens, ranks texts, and refuses what a model cannot do.
func TestClassify(t *testing.T) {
	texts := filepath.Join(t.TempDir(), "texts")
	if err := os.WriteFile(texts, []byte("the baker\na river\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string // parts of the printed text
		keys string   // of the JSON value's first answer
	}{
		{[]string{"text_distilbert", "a\tfine film", "b", "--top", "1"}, []string{"a fine film  ", "TIVE 0.", "\nb "},
			`{"labels":[[{"label":"`},
		{[]string{"nli_bert", "a river", "--labels", " travel, ,", "--several", "--top", "1"},
			[]string{"a river", "  travel 0."}, `{"labels":[[{"label":"travel","score":0.`},
		{[]string{"nli_bert", "a river", "--function", "none"}, []string{"neutral ", "entailment "}, `{"labels":[[{"label":`},
		{[]string{"cross_encoder", "--input", texts, "--rerank", "bread"}, []string{"a river", "the baker"},
			`{"memory":{"weights_bytes":`},
		{[]string{"token_bert", "Anna lives", "--aggregation", "none"}, []string{"Anna lives", "0..1"},
			`{"entities":[[{"label":"`},
		{[]string{"token_bert", "Anna lives", "--tokens", "--whole", "--stride", "2"}, []string{"Anna lives", "0..1"},
			`{"entities":[[{"label":"`},
	} {
		args := append([]string{"classify", classifiers + c.args[0]}, c.args[1:]...)
		r := weirRun(t, args...)
		for _, part := range append(c.want, "\nmemory  ") {
			if r.code != 0 || !strings.Contains(r.out, part) {
				t.Errorf("%q: %d, without %q: %s%s", c.args, r.code, part, r.out, r.err)
			}
		}
		r = weirRun(t, append(args, "--json")...)
		if r.code != 0 || !json.Valid([]byte(r.out)) || !strings.HasPrefix(r.out, c.keys) {
			t.Errorf("%q: %d, not %s: %s%s", c.args, r.code, c.keys, r.out, r.err)
		}
	}
	for _, c := range []struct {
		code int
		args []string
	}{
		{2, []string{}}, {2, []string{classifiers + "nli_bert"}},
		{2, []string{classifiers + "nli_bert", "a", "--input", texts}},
		{2, []string{"nothing", "a"}}, {2, []string{classifiers + "nli_bert", "a", "--labels", "b", "--tokens"}},
		{2, []string{classifiers + "nli_bert", "a", "--function", "x"}},
		{2, []string{classifiers + "nli_bert", "a", "--aggregation", "x"}},
		{2, []string{classifiers + "nli_bert", "a", "--top", "-1"}},
		{1, []string{classifiers + "nli_bert", "a", "--labels", "b", "--template", "c"}},
		{1, []string{classifiers + "nli_bert", "a", "--labels", ","}},
		{1, []string{classifiers + "nli_bert", "a", "--budget", "1KiB"}},
		{1, []string{classifiers + "token_bert", "a", "--whole", "--aggregation", "none"}},
		{3, []string{classifiers + "nli_bert", "a", "--rerank", "b"}},
		{3, []string{classifiers + "nli_bert", "a", "--tokens"}},
		{3, []string{classifiers + "text_distilbert", "a", "--labels", "b"}},
		{3, []string{"../../embed/testdata/models/bert", "a"}},
	} {
		if r := weirRun(t, append([]string{"classify"}, c.args...)...); r.code != c.code {
			t.Errorf("%q: %d, not %d: %s", c.args, r.code, c.code, r.err)
		}
	}
}

package classify

import (
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// example is a case of a reference: what transformers or sentence-transformers answers to inputs; testdata/reference.py
// writes it.
type example struct {
	Name    string             `json:"name"`
	Files   map[string]*string `json:"files"` // laid over the folder; null: removed
	Task    string             `json:"task"`
	Options json.RawMessage    `json:"options"`
	Inputs  []json.RawMessage  `json:"inputs"`
	Answers []json.RawMessage  `json:"answers"`
	IDs     [][]int32          `json:"ids"`
}

// references returns the cases of testdata by the names of their models.
func references(t *testing.T) map[string][]example {
	t.Helper()
	names, err := filepath.Glob("testdata/models/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no references: %v", err)
	}
	all := map[string][]example{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r := struct{ Cases []example }{}
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[strings.TrimSuffix(filepath.Base(name), ".json")] = r.Cases
	}
	return all
}

// over returns a folder of testdata with files laid over it.
func over(t testing.TB, model string, files map[string]*string) fs.FS {
	t.Helper()
	all := fstest.MapFS{}
	root := filepath.Join("testdata/models", model)
	list, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		data, err := os.ReadFile(filepath.Join(root, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = &fstest.MapFile{Data: data}
	}
	for name, text := range files {
		if delete(all, name); text != nil {
			all[name] = &fstest.MapFile{Data: []byte(*text)}
		}
	}
	return all
}

// coming are the references of families that the importer does not build yet.
var coming = []string{"nli_deberta_v2", "rerank_modernbert", "token_deberta_v2", "token_modernbert"}

// decoded returns JSON as a value.
func decoded[T any](t *testing.T, text json.RawMessage) (v T) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// texts returns the inputs as texts; those that are pairs, as pairs.
func texts(t *testing.T, inputs []json.RawMessage) (list []string, pairs []Pair) {
	t.Helper()
	for _, in := range inputs {
		if in[0] == '"' {
			list = append(list, decoded[string](t, in))
		} else {
			p := decoded[[2]string](t, in)
			pairs = append(pairs, Pair{p[0], p[1]})
		}
	}
	return list, pairs
}

// near reports whether two scores are the same to 1e-5.
func near(x, y float32) bool {
	return math.Abs(float64(x)-float64(y)) <= 1e-5*max(1, math.Abs(float64(y)))
}

// checks compare a model's answers with a case's, by the case's task.
var checks = map[string]func(t *testing.T, m *Model, c example){
	"text-classification": checkText, "predict": checkPredict, "rank": checkRank,
}

// TestReference: labels, scores and offsets are those of transformers and sentence-transformers, whether texts are
// computed together or alone.
func TestReference(t *testing.T) {
	for name, cases := range references(t) {
		t.Run(name, func(t *testing.T) {
			models := map[string]*Model{} // by the files that are laid over the folder
			for _, c := range cases {
				files, err := json.Marshal(c.Files)
				if err != nil {
					t.Fatal(err)
				}
				m := models[string(files)]
				if m == nil {
					if m, err = LoadFS(t.Context(), over(t, name, c.Files), ".", Options{}); err != nil {
						if slices.Contains(coming, name) {
							t.Skipf("the importer does not build this family: %v", err)
						}
						t.Fatal(err)
					}
					defer m.Close()
					models[string(files)] = m
				}
				t.Run(c.Task+"/"+c.Name, func(t *testing.T) {
					check := checks[c.Task]
					if check == nil {
						t.Skipf("there is no task %s", c.Task)
					}
					check(t, m, c)
					for i := range c.Inputs {
						alone := c
						alone.Inputs, alone.Answers, alone.IDs = c.Inputs[i:i+1], c.Answers[i:i+1], nil
						check(t, m, alone)
					}
				})
			}
		})
	}
}

// checkText checks the pipeline text-classification.
func checkText(t *testing.T, m *Model, c example) {
	t.Helper()
	options := decoded[struct {
		Top      *int   `json:"top_k"`
		Function string `json:"function_to_apply"`
	}](t, c.Options)
	o := Scoring{Function: map[string]Function{"sigmoid": Sigmoid, "softmax": Softmax, "none": Identity}[options.Function]}
	if options.Top != nil {
		o.Top = *options.Top
	} else if !strings.Contains(string(c.Options), "top_k") {
		o.Top = 1
	}
	list, pairs := texts(t, c.Inputs)
	got, err := m.Classify(t.Context(), list, o)
	if err == nil && pairs != nil {
		got, err = m.ClassifyPairs(t.Context(), pairs, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, answer := range c.Answers {
		var want []Label
		if answer[0] == '{' {
			want = []Label{decoded[Label](t, answer)}
		} else {
			want = decoded[[]Label](t, answer)
		}
		if !slices.EqualFunc(got[i], want, func(x, y Label) bool { return x.Name == y.Name && near(x.Score, y.Score) }) {
			t.Errorf("%s has the labels %v; want %v", c.Inputs[i], got[i], want)
		}
	}
	for i, want := range c.IDs {
		p := Pair{}
		if pairs != nil {
			p = pairs[i]
		} else {
			p.Text = list[i]
		}
		text, err := m.encode(p)
		if err != nil || !slices.Equal(text.IDs, want) {
			t.Errorf("%s has the ids %v (%v); want %v", c.Inputs[i], text.IDs, err, want)
		}
	}
}

// function returns the function that the options of a case of CrossEncoder name.
func function(t *testing.T, c example) Function {
	t.Helper()
	o := decoded[struct {
		Function string `json:"activation_fn"`
	}](t, c.Options)
	return map[string]Function{"": Default, "identity": Identity, "sigmoid": Sigmoid}[o.Function]
}

// checkPredict checks CrossEncoder.predict.
func checkPredict(t *testing.T, m *Model, c example) {
	t.Helper()
	_, pairs := texts(t, c.Inputs)
	got, err := m.Predict(t.Context(), pairs, function(t, c))
	if err != nil {
		t.Fatal(err)
	}
	for i, answer := range c.Answers {
		if want := decoded[float32](t, answer); len(got[i]) != 1 || !near(got[i][0], want) {
			t.Errorf("%v has the scores %v; want %v", pairs[i], got[i], want)
		}
	}
}

// checkRank checks CrossEncoder.rank.
func checkRank(t *testing.T, m *Model, c example) {
	t.Helper()
	top := decoded[struct {
		Top int `json:"top_k"`
	}](t, c.Options).Top
	for i, in := range c.Inputs {
		asked := decoded[[2]json.RawMessage](t, in)
		query, documents := decoded[string](t, asked[0]), decoded[[]string](t, asked[1])
		got, err := m.Rank(t.Context(), query, documents, Scoring{Top: top, Function: function(t, c)})
		if err != nil {
			t.Fatal(err)
		}
		want := decoded[[]struct {
			Index int     `json:"corpus_id"`
			Score float32 `json:"score"`
			Text  *string `json:"text"`
		}](t, c.Answers[i])
		if len(got) != len(want) {
			t.Fatalf("%d documents; want %d", len(got), len(want))
		}
		for k, w := range want {
			if got[k].Index != w.Index || !near(got[k].Score, w.Score) || w.Text != nil && documents[got[k].Index] != *w.Text {
				t.Errorf("document %d is %v; want %v", k, got[k], w)
			}
		}
	}
}

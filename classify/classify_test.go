package classify

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weirml/weir"
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

	Tolerance float64 `json:"tolerance"` // 0: 1e-5
}

// folder returns the folder of the models and their references: testdata/models, or one that testdata/draw.py wrote.
func folder() string { return cmp.Or(os.Getenv("WEIR_CLASSIFIERS"), "testdata/models") }

// references returns the cases of the folder by the names of their models.
func references(t *testing.T) map[string][]example {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder(), "*.json"))
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
	root := filepath.Join(folder(), model)
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

// near reports whether two scores are the same to the case's tolerance.
func (c example) near(x, y float32) bool {
	return math.Abs(float64(x)-float64(y)) <= cmp.Or(c.Tolerance, 1e-5)*max(1, math.Abs(float64(y)))
}

// checks compare a model's answers with a case's, by the case's task. They return the model's error.
var checks = map[string]func(t *testing.T, m *Model, c example) error{
	"text-classification": checkText, "predict": checkPredict, "rank": checkRank, "zero-shot-classification": checkZero,
	"token-classification": checkTag,
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
					m, err = LoadFS(t.Context(), over(t, name, c.Files), ".", Options{})
					if errors.Is(err, weir.ErrInput) && bytes.HasPrefix(c.Answers[0], []byte(`{"error"`)) {
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					defer m.Close()
					models[string(files)] = m
				}
				t.Run(c.Task+"/"+c.Name, func(t *testing.T) {
					check := checks[c.Task]
					if check == nil {
						t.Fatalf("there is no task %s", c.Task)
					}
					if bytes.HasPrefix(c.Answers[0], []byte(`{"error"`)) {
						if err := check(t, m, c); !errors.Is(err, weir.ErrInput) && !errors.Is(err, weir.ErrUnsupported) {
							t.Errorf("%s is answered (%v); the reference says %s", c.Inputs[0], err, c.Answers[0])
						}
						return
					}
					if err := check(t, m, c); err != nil {
						t.Fatal(err)
					}
					for i := range c.Inputs {
						alone := c
						alone.Inputs, alone.Answers, alone.IDs = c.Inputs[i:i+1], c.Answers[i:i+1], nil
						if err := check(t, m, alone); err != nil {
							t.Fatal(err)
						}
					}
				})
			}
		})
	}
}

// checkText checks the pipeline text-classification.
func checkText(t *testing.T, m *Model, c example) error {
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
		return err
	}
	for i, answer := range c.Answers {
		var want []Label
		if answer[0] == '{' {
			want = []Label{decoded[Label](t, answer)}
		} else {
			want = decoded[[]Label](t, answer)
		}
		if !slices.EqualFunc(got[i], want, func(x, y Label) bool { return x.Name == y.Name && c.near(x.Score, y.Score) }) {
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
	return nil
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
func checkPredict(t *testing.T, m *Model, c example) error {
	t.Helper()
	_, pairs := texts(t, c.Inputs)
	got, err := m.Predict(t.Context(), pairs, function(t, c))
	if err != nil {
		return err
	}
	for i, answer := range c.Answers {
		var want []float32
		if answer[0] == '[' {
			want = decoded[[]float32](t, answer)
		} else {
			want = []float32{decoded[float32](t, answer)}
		}
		if !slices.EqualFunc(got[i], want, c.near) {
			t.Errorf("%v has the scores %v; want %v", pairs[i], got[i], want)
		}
	}
	return nil
}

// checkRank checks CrossEncoder.rank.
func checkRank(t *testing.T, m *Model, c example) error {
	t.Helper()
	top := decoded[struct {
		Top int `json:"top_k"`
	}](t, c.Options).Top
	for i, in := range c.Inputs {
		asked := decoded[[2]json.RawMessage](t, in)
		query, documents := decoded[string](t, asked[0]), decoded[[]string](t, asked[1])
		got, err := m.Rank(t.Context(), query, documents, Scoring{Top: top, Function: function(t, c)})
		if err != nil {
			return err
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
			if got[k].Index != w.Index || !c.near(got[k].Score, w.Score) || w.Text != nil && documents[got[k].Index] != *w.Text {
				t.Errorf("document %d is %v; want %v", k, got[k], w)
			}
		}
	}
	return nil
}

// checkZero checks the pipeline zero-shot-classification.
func checkZero(t *testing.T, m *Model, c example) error {
	t.Helper()
	options := decoded[struct {
		Labels   json.RawMessage `json:"candidate_labels"`
		Template string          `json:"hypothesis_template"`
		Several  bool            `json:"multi_label"`
	}](t, c.Options)
	var labels []string
	if options.Labels[0] == '"' {
		for _, label := range strings.Split(decoded[string](t, options.Labels), ",") {
			labels = append(labels, strings.TrimSpace(label))
		}
	} else {
		labels = decoded[[]string](t, options.Labels)
	}
	list, _ := texts(t, c.Inputs)
	got, err := m.ZeroShot(t.Context(), list, labels, Candidates{options.Template, options.Several})
	if err != nil {
		return err
	}
	for i, answer := range c.Answers {
		want := decoded[struct {
			Labels []string
			Scores []float32
		}](t, answer)
		if len(got[i]) != len(want.Labels) {
			t.Fatalf("%q has the labels %v; want %v", list[i], got[i], want)
		}
		for k, label := range got[i] {
			if label.Name != want.Labels[k] || !c.near(label.Score, want.Scores[k]) {
				t.Errorf("%q has the labels %v; want %v", list[i], got[i], want)
				break
			}
		}
	}
	return nil
}

// checkTag checks the pipeline token-classification.
func checkTag(t *testing.T, m *Model, c example) error {
	t.Helper()
	options := decoded[struct {
		Aggregation string   `json:"aggregation_strategy"`
		Ignore      []string `json:"ignore_labels"`
		Stride      *int     `json:"stride"`
	}](t, c.Options)
	o := Tagging{Ignore: options.Ignore, Whole: options.Stride != nil}
	if o.Whole {
		o.Stride = *options.Stride
	}
	o.Aggregation = map[string]Aggregation{"": None, "simple": Simple, "first": First, "average": Average,
		"max": Max}[options.Aggregation]
	list, _ := texts(t, c.Inputs)
	got, err := m.Tag(t.Context(), list, o)
	if err != nil {
		return err
	}
	for i, answer := range c.Answers {
		want := decoded[[]struct {
			Entity, Entity_group, Word string
			Score                      float32
			Start, End, Index          int
		}](t, answer)
		entities := Characters(list[i], got[i])
		same := len(entities) == len(want)
		for k := 0; same && k < len(want); k++ {
			w := Entity{want[k].Entity + want[k].Entity_group, want[k].Score, want[k].Word, want[k].Start, want[k].End,
				want[k].Index}
			if same = c.near(entities[k].Score, w.Score); same {
				entities[k].Score = w.Score
				same = entities[k] == w
			}
		}
		if !same {
			t.Errorf("%q has the entities %v; want %v", list[i], entities, want)
		}
	}
	return nil
}

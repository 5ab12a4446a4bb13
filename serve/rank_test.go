package serve_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/serve"
)

// labelled is what transformers and CrossEncoder answer for a tiny model that labels texts.
type labelled struct {
	Cases []struct {
		Name, Task string
		Options    map[string]any
		Files      map[string]any
		Inputs     []json.RawMessage
		Answers    json.RawMessage
	}
}

// labelling makes a folder of models that label texts, and reads their references.
func labelling(t *testing.T, names ...string) (dir string, all map[string]labelled) {
	t.Helper()
	const from = "../classify/testdata/models/"
	dir, all = t.TempDir(), map[string]labelled{}
	for _, name := range names {
		if err := os.CopyFS(filepath.Join(dir, name, "1"), os.DirFS(from+name)); err != nil {
			t.Fatal(err)
		}
		var l labelled
		if err := json.Unmarshal(must(os.ReadFile(from+name+".json")), &l); err != nil {
			t.Fatal(err)
		}
		all[name] = l
	}
	return dir, all
}

// TestRank: documents are ranked as sentence-transformers' CrossEncoder ranks them, as strings and as objects.
func TestRank(t *testing.T) {
	dir, all := labelling(t, "cross_encoder", "rerank_xlm_roberta", "text_distilbert", "token_bert")
	if err := os.CopyFS(filepath.Join(dir, "bert"), os.DirFS(textModels+"bert")); err != nil {
		t.Fatal(err)
	}
	_, h := start(t, serve.Options{Folder: dir})
	ranked := 0
	for name, l := range all {
		for _, c := range l.Cases {
			if c.Task != "rank" || len(c.Files) > 0 || c.Options["activation_fn"] != nil {
				continue
			}
			var answers [][]struct {
				Corpus int `json:"corpus_id"`
				Score  float64
			}
			if err := json.Unmarshal(c.Answers, &answers); err != nil {
				t.Fatal(err)
			}
			for i, in := range c.Inputs {
				var query string
				var documents []string
				if err := json.Unmarshal(in, &[]any{&query, &documents}); err != nil {
					t.Fatal(err)
				}
				objects := []any{}
				for _, d := range documents {
					objects = append(objects, map[string]any{"id": []int{1}, "text": d, "more": map[string]any{"text": 1}})
				}
				for _, list := range []any{documents, objects} {
					request := map[string]any{"model": name, "query": query, "documents": list, "return_documents": true}
					if top := c.Options["top_k"]; top != nil {
						request["top_n"] = top
					}
					status, _, body := post(t, h.URL+"/v1/rerank", nil, must(json.Marshal(request)))
					var a struct {
						Results []struct {
							Index    int
							Score    float64 `json:"relevance_score"`
							Document struct{ Text string }
						}
					}
					if err := json.Unmarshal(body, &a); err != nil || status != 200 || len(a.Results) != len(answers[i]) {
						t.Fatalf("%s, %s: status %d, %v: %.300s", name, c.Name, status, err, body)
					}
					for k, r := range a.Results {
						want := answers[i][k]
						if r.Index != want.Corpus || math.Abs(r.Score-want.Score) > 1e-5 || r.Document.Text != documents[r.Index] {
							t.Errorf("%s, %s: place %d is %+v, want %+v", name, c.Name, k, r, want)
						}
					}
					ranked++
				}
			}
		}
	}
	if ranked < 4 {
		t.Errorf("%d requests only", ranked)
	}
	for body, says := range map[string]string{
		`{"model":"cross_encoder","documents":["a"]}`:                                      "query",
		`{"model":"cross_encoder","query":"q"}`:                                            "documents",
		`{"model":"cross_encoder","query":"q","documents":[]}`:                             "documents",
		`{"model":"cross_encoder","query":"q","documents":"a"}`:                            "documents",
		`{"model":"cross_encoder","query":"q","documents":["a",1]}`:                        "documents[1]",
		`{"model":"cross_encoder","query":"q","documents":[{"x":"a"}]}`:                    "documents[0]",
		`{"model":"cross_encoder","query":"q","documents":[{"text":{"text":"a"}}]}`:        "documents[0]",
		`{"model":"cross_encoder","query":"q","documents":["a"],"top_n":0}`:                "top_n",
		`{"model":"bert","query":"q","documents":["a"]}`:                                   "vectors",
		`{"model":"text_distilbert","query":"q","documents":["a"]}`:                        "labels",
		`{"model":"cross_encoder","query":"` + strings.Repeat("[", 9999) + `","documents"`: "JSON",
	} {
		status, _, text := post(t, h.URL+"/v2/rerank", nil, []byte(body))
		if status != 400 || !strings.Contains(string(text), says) ||
			!strings.Contains(string(text), "invalid_request_error") {
			t.Errorf("%.80s: status %d, %s", body, status, text)
		}
	}
	status, e := embedded(t, h, map[string]any{"model": "cross_encoder", "input": "a"})
	if status != 400 || !strings.Contains(e.Error.Message, "not vectors") {
		t.Errorf("vectors of a model that ranks: status %d, %+v", status, e.Error)
	}
	if status, e := embedded(t, h, map[string]any{"model": "token_bert", "input": "a"}); status != 503 ||
		!strings.Contains(e.Error.Message, "labels tokens") {
		t.Errorf("a model that labels tokens: status %d, %+v", status, e.Error)
	}
}

// TestLabels: a model that labels texts gives the scores of all labels over the Open Inference Protocol, of texts and
// of pairs, as transformers' pipeline does.
func TestLabels(t *testing.T) {
	dir, all := labelling(t, "text_distilbert", "cross_encoder")
	_, h := start(t, serve.Options{Folder: dir})
	var model struct{ Labels []string }
	text := page(t, h.URL+"/v1/models/text_distilbert")
	if err := json.Unmarshal([]byte(text), &model); err != nil || len(model.Labels) < 2 {
		t.Fatalf("%v, %+v", err, model)
	}
	compared := 0
	for _, c := range all["text_distilbert"].Cases {
		if (c.Name != "all" && c.Name != "pairs") || len(c.Files) > 0 {
			continue
		}
		var texts []any
		shape := fmt.Sprint(len(c.Inputs))
		for _, in := range c.Inputs {
			var pair []any
			var one string
			if json.Unmarshal(in, &one) == nil {
				texts = append(texts, one)
			} else if err := json.Unmarshal(in, &pair); err == nil {
				texts, shape = append(texts, pair...), fmt.Sprint(len(c.Inputs), ",2")
			}
		}
		var answers [][]struct {
			Label string
			Score float64
		}
		if err := json.Unmarshal(c.Answers, &answers); err != nil {
			t.Fatal(err)
		}
		status, _, body := post(t, h.URL+"/v2/models/text_distilbert/infer", nil,
			fmt.Appendf(nil, `{"inputs":[{"name":"text","datatype":"BYTES","shape":[%s],"data":%s}]}`, shape,
				must(json.Marshal(texts))))
		var a answer
		if err := json.Unmarshal(body, &a); err != nil || status != 200 || a.Outputs[0].Name != "score" {
			t.Fatalf("status %d, %v: %.300s", status, err, body)
		}
		for i, labels := range answers {
			for _, l := range labels {
				at := i*len(model.Labels) + slices.Index(model.Labels, l.Label)
				if got := float64(a.Outputs[0].Data[at]); math.Abs(got-l.Score) > 1e-5 {
					t.Errorf("%s: %q has %v for %s, want %v", c.Name, c.Inputs[i], got, l.Label, l.Score)
				}
				compared++
			}
		}
	}
	if compared < 20 {
		t.Errorf("%d scores only", compared)
	}
}

package serve_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/serve"
	"github.com/weirml/weir/tokenizer"
)

// native sends a request to an endpoint of text-embeddings-inference, and reads the answer.
func native[T any](t *testing.T, h *httptest.Server, path, body string) (answer T) {
	t.Helper()
	status, header, text := post(t, h.URL+path, nil, []byte(body))
	if err := json.Unmarshal(text, &answer); err != nil || status != 200 ||
		header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s, %.100s: status %d, %v: %.300s", path, body, status, err, text)
	}
	return answer
}

// text returns JSON.
func text(v any) string { return string(must(json.Marshal(v))) }

// TestNativeVectors: /embed, / and /similarity give the reference's vectors, scaled to length 1 unless normalize is
// false, of texts and of ids.
func TestNativeVectors(t *testing.T) {
	_, h := start(t, serve.Options{Folder: textFolder(t, map[string]string{"mpnet": "mpnet"})})
	r := referenceOf(t, "mpnet")
	c := r.Cases[0]
	units := make([][]float32, len(c.Vectors))
	cosines := make([]float64, len(c.Vectors)-1)
	for i, v := range c.Vectors {
		norm, dot, first := 0.0, 0.0, 0.0
		for k, x := range v {
			norm += float64(x) * float64(x)
			first += float64(c.Vectors[0][k]) * float64(c.Vectors[0][k])
			dot += float64(x) * float64(c.Vectors[0][k])
		}
		for _, x := range v {
			units[i] = append(units[i], float32(float64(x)/max(math.Sqrt(norm), 1e-12)))
		}
		if i > 0 {
			cosines[i-1] = dot / max(math.Sqrt(norm)*math.Sqrt(first), 1e-12)
		}
	}
	all := text(r.Texts)
	for _, path := range []string{"/embed", "/"} {
		for body, want := range map[string][][]float32{
			`{"inputs":` + all + `}`:                                           units,
			`{"inputs":` + all + `,"normalize":true,"truncate":true}`:          units,
			`{"inputs":` + all + `,"normalize":false}`:                         c.Vectors,
			`{"inputs":` + text(r.Texts[1]) + `}`:                              units[1:2],
			`{"inputs":[` + text(r.Texts[1]) + `],"model":"mpnet"}`:            units[1:2],
			`{"inputs":` + text(c.IDs[:3]) + `,"prompt_name":null}`:            units[:3],
			`{"inputs":` + text(c.IDs[2]) + `,"truncation_direction":"Right"}`: units[2:3],
			`{"inputs":"a","truncate":false,"dimensions":null}`:                nil,
		} {
			got := native[[][]float32](t, h, path, body)
			if d := apart(got, want); want != nil && !(d <= 1e-5) || len(got) == 0 {
				t.Errorf("%s, %.60s: %d vectors, which are %v apart", path, body, len(got), d)
			}
		}
	}
	if v := native[[][]float32](t, h, "/embed", `{"inputs":"some text","dimensions":5}`); len(v[0]) != 5 ||
		math.Abs(float64(v[0][0]*v[0][0]+v[0][1]*v[0][1]+v[0][2]*v[0][2]+v[0][3]*v[0][3]+v[0][4]*v[0][4]-1)) > 1e-5 {
		t.Errorf("five dimensions are %v", v)
	}
	near := native[[]float64](t, h, "/similarity", `{"inputs":{"source_sentence":`+text(r.Texts[0])+`,"sentences":`+
		text(r.Texts[1:])+`}}`)
	if len(near) != len(cosines) {
		t.Fatalf("%d similarities", len(near))
	}
	for i, x := range near {
		if math.Abs(x-cosines[i]) > 1e-5 {
			t.Errorf("the similarity %d is %v, want %v", i, x, cosines[i])
		}
	}
}

// sigmoid is the function of the score of a single label.
func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// TestNativeLabels: /rerank and / rank as /v1/rerank does, with the sigmoid or with logits, and /predict has the scores
// of all labels, the best first, of texts and of pairs.
func TestNativeLabels(t *testing.T) {
	dir, all := labelling(t, "cross_encoder", "nli_bert")
	_, h := start(t, serve.Options{Folder: dir})
	type rank struct {
		Index int
		Text  *string
		Score float64
	}
	documents := []string{"a river", "bread", "the sea and the rain", ""}
	var want struct {
		Results []struct {
			Index int
			Score float64 `json:"relevance_score"`
		}
	}
	if err := json.Unmarshal([]byte(text(native[any](t, h, "/v1/rerank", `{"model":"cross_encoder","query":"rain?",
		"documents":`+text(documents)+`}`))), &want); err != nil || len(want.Results) != 4 {
		t.Fatalf("%v, %+v", err, want)
	}
	for _, path := range []string{"/rerank", "/"} {
		body := `{"query":"rain?","texts":` + text(documents)
		raw := native[[]rank](t, h, path, body+`,"raw_scores":true,"return_text":true}`)
		some := native[[]rank](t, h, path, body+`}`)
		for i, w := range want.Results {
			x, y := raw[i], some[i]
			if x.Index != w.Index || y.Index != w.Index || x.Text == nil || *x.Text != documents[x.Index] || y.Text != nil ||
				math.Abs(sigmoid(x.Score)-y.Score) > 1e-6 || min(math.Abs(y.Score-w.Score), math.Abs(x.Score-w.Score)) > 1e-6 {
				t.Errorf("%s: place %d is %+v and, raw, %+v; want %+v", path, i, y, x, w)
			}
		}
	}
	compared := 0
	for _, c := range all["nli_bert"].Cases {
		if c.Name != "all" && c.Name != "pairs" || len(c.Files) > 0 {
			continue
		}
		var answers [][]scored
		if err := json.Unmarshal(c.Answers, &answers); err != nil {
			t.Fatal(err)
		}
		var list []any
		for i, in := range c.Inputs {
			var one any
			if err := json.Unmarshal(in, &one); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				got := native[[]scored](t, h, "/predict", `{"model":"nli_bert","inputs":`+text(one)+`}`)
				if !nearLabels(got, answers[0]) {
					t.Errorf("%s: a text alone has %v, want %v", c.Name, got, answers[0])
				}
			}
			if _, single := one.(string); single {
				one = []any{one}
			}
			list = append(list, one)
		}
		got := native[[][]scored](t, h, "/predict", `{"model":"nli_bert","inputs":`+text(list)+`}`)
		raw := native[[][]scored](t, h, "/predict", `{"model":"nli_bert","raw_scores":true,"inputs":`+text(list)+`}`)
		for i, want := range answers {
			sum, softmax := 0.0, slices.Clone(raw[i])
			for _, l := range raw[i] {
				sum += math.Exp(l.Score)
			}
			for k, l := range raw[i] {
				softmax[k].Score = math.Exp(l.Score) / sum
			}
			if compared++; !nearLabels(got[i], want) || !nearLabels(softmax, want) {
				t.Errorf("%s: text %d has %v and, raw, %v; want %v", c.Name, i, got[i], raw[i], want)
			}
		}
	}
	if compared < 4 {
		t.Errorf("%d texts only", compared)
	}
	mixed := native[[][]scored](t, h, "/predict", `{"model":"cross_encoder","inputs":[["a"],["rain?","bread"]]}`)
	single := native[[]scored](t, h, "/predict", `{"model":"cross_encoder","inputs":["a"]}`)
	pair := native[[]scored](t, h, "/predict", `{"model":"cross_encoder","inputs":["rain?","bread"]}`)
	if !nearLabels(mixed[0], single) || !nearLabels(mixed[1], pair) || len(single) != 1 || nearLabels(single, pair) {
		t.Errorf("a text and a pair have %v together, and %v and %v alone", mixed, single, pair)
	}
}

// scored is a label of an answer.
type scored struct {
	Label string
	Score float64
}

// nearLabels reports whether lists of labels are equal, with scores to 1e-5.
func nearLabels(x, y []scored) bool {
	return slices.EqualFunc(x, y, func(x, y scored) bool {
		return x.Label == y.Label && math.Abs(x.Score-y.Score) <= 1e-5
	})
}

// TestNativeTokens: /tokenize has the tokenizer's tokens, and /decode their texts.
func TestNativeTokens(t *testing.T) {
	_, h := start(t, serve.Options{Folder: textFolder(t, map[string]string{"roberta": "roberta"})})
	own, err := tokenizer.Load(textModels + "roberta")
	if err != nil {
		t.Fatal(err)
	}
	type token struct {
		ID          int32
		Text        string
		Special     *bool
		Start, Stop *int
	}
	list := append(referenceOf(t, "roberta").Texts, "naïve 東京 😀\t\"x\"", strings.Repeat("many words ", 2000), "")
	for _, special := range []bool{true, false} {
		o := tokenizer.Options{NoSpecial: !special, Truncation: &tokenizer.Truncation{Off: true},
			Padding: &tokenizer.Padding{Off: true}}
		got := native[[][]token](t, h, "/tokenize", fmt.Sprintf(`{"inputs":%s,"add_special_tokens":%v}`, text(list), special))
		ids := make([][]int32, len(list))
		for i, one := range list {
			e, err := own.Encode(one, o)
			if err != nil || len(got) != len(list) || len(got[i]) != len(e.IDs) {
				t.Fatalf("%q: %v, %d texts", one, err, len(got))
			}
			for k, x := range got[i] {
				at := e.Offsets[k]
				ids[i] = append(ids[i], x.ID)
				token, _ := own.Token(x.ID)
				if x.ID != e.IDs[k] || *x.Special != e.Special[k] || e.Special[k] != (x.Start == nil) ||
					e.Special[k] && x.Text != token || !e.Special[k] && (*x.Start != at.Begin || *x.Stop != at.End ||
					x.Text != strings.ToValidUTF8(one[at.Begin:at.End], "\uFFFD")) {
					t.Errorf("%.40q: token %d is %+v, want %d at %v", one, k, x, e.IDs[k], at)
				}
			}
		}
		ids = slices.DeleteFunc(ids, func(list []int32) bool { return len(list) == 0 })
		for _, skip := range []bool{true, false} {
			texts := native[[]string](t, h, "/decode", fmt.Sprintf(`{"ids":%s,"skip_special_tokens":%v}`, text(ids), skip))
			for i := range ids {
				want := own.Decode(ids[i])
				if !skip {
					want = own.DecodeSpecial(ids[i])
				}
				if len(texts) != len(ids) || texts[i] != want {
					t.Errorf("%v are decoded as %q, want %q", ids[i], texts, want)
				}
			}
		}
	}
	one := native[[]string](t, h, "/decode", `{"ids":[5,6]}`)
	if len(one) != 1 || one[0] != own.Decode([]int32{5, 6}) {
		t.Errorf("two ids are decoded as %q", one)
	}
}

// TestNativeModels: a request is for the one model that can answer it; otherwise the error says how to name one, or
// that there is none.
func TestNativeModels(t *testing.T) {
	dir := textFolder(t, map[string]string{"bert": "bert", "static": "static",
		"rank": "../../../classify/testdata/models/cross_encoder"})
	_, h := start(t, serve.Options{Folder: dir, MostTexts: 3})
	_, one := start(t, serve.Options{Folder: textFolder(t, map[string]string{"bert": "bert"})})
	_, closed := start(t, serve.Options{Folder: textFolder(t, map[string]string{"bert": "bert"}), Tokens: []string{"t"}})
	_, none := start(t, serve.Options{Folder: folder(t, map[string]string{"digits.onnx": digits})})
	long := strings.Repeat("many words ", 300)
	for _, c := range []struct {
		h                *httptest.Server
		path, body, says string
		status           int
		kind             string
	}{
		{h, "/embed", `{"inputs":"a"}`, `[\"bert\" \"static\"]; name one in the field model`, 422, "Validation"},
		{h, "/", `{"inputs":"a"}`, "name one", 422, "Validation"},
		{h, "/similarity", `{"inputs":{"source_sentence":"a","sentences":["b"]}}`, "name one", 422, "Validation"},
		{h, "/tokenize", `{"inputs":"a"}`, "name one", 422, "Validation"},
		{h, "/decode", `{"ids":[1]}`, "name one", 422, "Validation"},
		{h, "/embed", `{"inputs":"a","model":"rank"}`, "not vectors", 422, "Validation"},
		{h, "/embed", `{"inputs":"a","model":"nope"}`, "nope", 404, "Validation"},
		{h, "/rerank", `{"query":"q","texts":["a"],"model":"bert"}`, "makes vectors", 422, "Validation"},
		{h, "/predict", `{"inputs":"a","model":"bert"}`, "does not label", 422, "Validation"},
		{one, "/rerank", `{"query":"q","texts":["a"]}`, "none of the server's 1 models", 424, "Backend"},
		{one, "/predict", `{"inputs":"a"}`, "none of the server's 1 models", 424, "Backend"},
		{none, "/embed", `{"inputs":"a"}`, "none of the server's 0 models", 424, "Backend"},
		{none, "/", `{"inputs":"a"}`, "none of the server's 0 models", 424, "Backend"},
		{none, "/tokenize", `{"inputs":"a"}`, "none of the server's 0 models", 424, "Backend"},
		{none, "/tokenize", `{"inputs":"a","model":"digits"}`, "does not read texts", 422, "Validation"},
		{closed, "/embed", `{"inputs":"a"}`, "token", 401, "Validation"},
		{one, "/embed_sparse", `{"inputs":"a"}`, "SPLADE", 424, "Backend"},
		{one, "/embed_all", `{"inputs":"a"}`, "single tokens", 424, "Backend"},
		{one, "/embed", `{"inputs":[]}`, "no texts", 400, "Empty"},
		{h, "/rerank", `{"query":"q","texts":[]}`, "no texts", 400, "Empty"},
		{h, "/predict", `{"inputs":[]}`, "no texts", 400, "Empty"},
		{one, "/tokenize", `{"inputs":[]}`, "no texts", 400, "Empty"},
		{one, "/similarity", `{"inputs":{"source_sentence":"a","sentences":[]}}`, "no texts", 400, "Empty"},
		{h, "/embed", `{"model":"bert","inputs":["a","b","c","d"]}`, "more than 3", 422, "Validation"},
		{h, "/predict", `{"inputs":[["a"],["b"],["c"],["d"]]}`, "more than 3", 422, "Validation"},
		{one, "/embed", `{"inputs":["a","` + long + `"],"truncate":false}`, "inputs[1]: 210", 422, "Validation"},
		{h, "/rerank", `{"query":"q","texts":["a","` + long + `"],"truncate":false}`, "texts[1]: 210", 422, "Validation"},
		{h, "/predict", `{"inputs":[["a"],["a","` + long + `"]],"truncate":false}`, "inputs[1]: 210", 422, "Validation"},
		{one, "/embed", `{"inputs":"a","truncation_direction":"Left"}`, "truncation_direction", 422, "Validation"},
		{one, "/embed", `{"inputs":"a","dimensions":0}`, "dimensions", 422, "Validation"},
		{one, "/embed", `{"inputs":"a","dimensions":1000}`, "1000", 422, "Validation"},
		{one, "/embed", `{"inputs":"a","prompt_name":"nope"}`, "nope", 422, "Validation"},
		{one, "/tokenize", `{"inputs":"a","prompt_name":"nope"}`, "nope", 422, "Validation"},
		{one, "/tokenize", `{"inputs":[1]}`, "tokens already", 422, "Validation"},
		{one, "/tokenize", `{"inputs":["a",1]}`, "inputs[1]", 422, "Validation"},
		{one, "/decode", `{"ids":["a"]}`, "strings", 422, "Validation"},
		{one, "/decode", `{"ids":[[1],[2,999]]}`, "ids[1][1] is 999", 422, "Validation"},
		{one, "/decode", `{"ids":[7,999]}`, "ids[1] is 999", 422, "Validation"},
		{one, "/embed", `{"inputs":"a"`, "JSON", 422, "Validation"},
		{one, "/embed", `{"inputs":{"a":1}}`, "not a string", 422, "Validation"},
		{one, "/embed", `{}`, "missing", 422, "Validation"},
		{h, "/rerank", `{"texts":["a"]}`, "query", 422, "Validation"},
		{h, "/rerank", `{"query":"q","texts":[{"text":"a"}]}`, "texts[0]", 422, "Validation"},
		{h, "/predict", `{"inputs":[["a","b","c"]]}`, "inputs[0] has more than two", 422, "Validation"},
		{h, "/predict", `{"inputs":["a","b","c"]}`, "inputs has more than two", 422, "Validation"},
		{h, "/predict", `{"inputs":[["a"],[]]}`, "inputs[1]", 422, "Validation"},
		{h, "/predict", `{"inputs":[["a"],"b"]}`, "inputs[1]", 422, "Validation"},
		{h, "/predict", `{"inputs":["a",["b"]]}`, "inputs is no", 422, "Validation"},
		{h, "/predict", `{"inputs":{"a":1}}`, "inputs is no", 422, "Validation"},
		{one, "/similarity", `{"inputs":{"sentences":["a"]}}`, "source_sentence", 422, "Validation"},
	} {
		status, _, body := post(t, c.h.URL+c.path, nil, []byte(c.body))
		var e struct {
			Error string
			Type  string `json:"error_type"`
		}
		if err := json.Unmarshal(body, &e); err != nil || status != c.status || e.Type != c.kind ||
			!strings.Contains(string(body), c.says) || e.Error == "" {
			t.Errorf("%s, %.60s: status %d, %.300s; it should be %d, %s: %s", c.path, c.body, status, body, c.status, c.kind,
				c.says)
		}
	}
	if v := native[[][]float32](t, h, "/embed", `{"inputs":"a","model":"bert:1"}`); len(v) != 1 {
		t.Errorf("%d vectors", len(v))
	}
	if status, body := get(t, one.URL+"/info"); status != 200 || !strings.Contains(string(body), `"model_id":"bert"`) ||
		!strings.Contains(string(body), `"model_type":{"embedding":`) {
		t.Errorf("/info: status %d, %s", status, body)
	}
	if status, body := get(t, h.URL+"/info"); status != 422 || !strings.Contains(string(body), "name one") {
		t.Errorf("/info of several models: status %d, %s", status, body)
	}
	if status, body := get(t, one.URL+"/health"); status != 200 {
		t.Errorf("/health: status %d, %s", status, body)
	}
}

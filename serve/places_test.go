package serve_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/serve"
)

// oddity is a token for which the models of oddFolder have no embedding.
const oddity = "oddity"

// oddFolder makes a folder with the models bert, of vectors, and rank and nli, of labels, whose tokenizers have the
// token oddity.
func oddFolder(t *testing.T) string {
	t.Helper()
	dir := textFolder(t, map[string]string{"bert": "bert", "rank": "../../../classify/testdata/models/cross_encoder",
		"nli": "../../../classify/testdata/models/nli_bert"})
	for _, name := range []string{"bert", "rank", "nli"} {
		path := dir + "/" + name + "/tokenizer.json"
		before, after, ok := strings.Cut(string(must(os.ReadFile(path))), `"added_tokens": [`)
		if !ok {
			t.Fatal("the tokenizer has no added tokens")
		}
		write(t, path, []byte(before+`"added_tokens": [{"id": 320, "content": "`+oddity+`", "single_word": false,
			"lstrip": false, "rstrip": false, "normalized": false, "special": false},`+after))
	}
	return dir
}

// TestPlaces: the error of a text has its place in the client's request, in whatever wave it is computed.
func TestPlaces(t *testing.T) {
	_, h := start(t, serve.Options{Folder: oddFolder(t)})
	list := func(n, at int, text string) string { // of texts, all shorter than text or all longer
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf("%q", strings.Repeat("some words ", 1+i%7))
		}
		all[at] = fmt.Sprintf("%q", text)
		return "[" + strings.Join(all, ",") + "]"
	}
	ids := strings.Repeat("[5,6,7],", 300) + "[8,320],[5]"
	tensor := func(shape, data string) string {
		return `{"inputs":[{"name":"text","datatype":"BYTES","shape":[` + shape + `],"data":` + data + `}]}`
	}
	for _, c := range []struct{ path, body, says string }{
		{"/v1/embeddings", `{"model":"bert","input":` + list(700, 0, oddity) + `}`, "input[0]: input_ids has 320"},
		{"/v1/embeddings", `{"model":"bert","input":` + list(700, 699, oddity) + `}`, "input[699]: input_ids has 320"},
		{"/v1/embeddings", `{"model":"bert","input":` + list(700, 431, "a "+oddity+strings.Repeat(" long", 99)) + `}`,
			"input[431]: input_ids has 320"},
		{"/v1/embeddings", `{"model":"bert","input":"an oddity"}`, "input: input_ids has 320"},
		{"/v1/embeddings", `{"model":"bert","input":["an oddity"]}`, "input[0]: input_ids has 320"},
		{"/v1/embeddings", `{"model":"bert","input":[` + ids + `]}`, "input[300]: input_ids has 320"},
		{"/v1/embeddings", `{"model":"bert","input":[320]}`, "input: input_ids has 320"},
		{"/v1/embeddings", `{"model":"bert","input":[[1],[` + strings.Repeat("1,", 5000) + `1]]}`, "input[1]: 5001 tokens"},
		{"/v1/embeddings", `{"model":"bert","input":[[1],[2,"a"]]}`, "input[1][1] is"},
		{"/v1/embeddings", `{"model":"bert","input":[3,4,-1]}`, "input[2] is"},
		{"/v1/embeddings", `{"model":"bert","input":["a","b",3]}`, "input[2] is"},
		{"/v1/rerank", `{"model":"rank","query":"q","documents":` + list(700, 555, oddity) + `}`, "documents[555]: input_ids"},
		{"/v1/rerank", `{"model":"rank","query":"q","documents":[{"text":"a"},{"text":"oddity"}]}`, "documents[1]: input_ids"},
		{"/v1/rerank", `{"model":"rank","query":"oddity","documents":["a","b"]}`, "query: input_ids"},
		{"/v1/rerank", `{"model":"rank","query":"q","documents":["a",1]}`, "documents[1] is"},
		{"/embed", `{"inputs":` + list(700, 431, oddity) + `}`, "inputs[431]: input_ids"},
		{"/embed", `{"inputs":"an oddity"}`, "inputs: input_ids"},
		{"/similarity", `{"inputs":{"source_sentence":"oddity","sentences":["a"]}}`, "inputs.source_sentence: input_ids"},
		{"/similarity", `{"inputs":{"source_sentence":"a","sentences":` + list(300, 299, oddity) + `}}`,
			"inputs.sentences[299]: input_ids"},
		{"/rerank", `{"query":"q","texts":` + list(700, 12, oddity) + `}`, "texts[12]: input_ids"},
		{"/rerank", `{"query":"oddity","texts":["a"]}`, "query: input_ids"},
		{"/predict", `{"model":"nli","inputs":[["a"],["b","oddity"],["c"]]}`, "inputs[1][1]: input_ids"},
		{"/predict", `{"model":"nli","inputs":["oddity","b"]}`, "inputs[0]: input_ids"},
		{"/predict", `{"model":"nli","inputs":[["a"],["oddity"],["c"]]}`, "inputs[1]: input_ids"},
		{"/v2/models/bert/infer", tensor("700", list(700, 99, oddity)), "text[99]: input_ids"},
		{"/v2/models/bert/infer", tensor("1", list(1, 0, oddity)), "text[0]: input_ids"},
		{"/v2/models/nli/infer", tensor("700", list(700, 98, oddity)), "text[98]: input_ids"},
		{"/v2/models/nli/infer", tensor("350,2", list(700, 401, oddity)), "text[200][1]: input_ids"},
		{"/v2/models/nli/infer", tensor("350,2", list(700, 400, oddity)), "text[200][0]: input_ids"},
		{"/v2/models/rank/infer", tensor("350,2", list(700, 699, oddity)), "text[349][1]: input_ids"},
	} {
		status, _, body := post(t, h.URL+c.path, nil, []byte(c.body))
		if status != 400 && status != 422 || !slices.ContainsFunc([]string{`"`, "message\":\""}, func(begin string) bool {
			return strings.Contains(string(body), begin+c.says)
		}) {
			t.Errorf("%s, %.60s: status %d, %.300s; it should say %s", c.path, c.body, status, body, c.says)
		}
	}
}

package serve_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirml/weir/serve"
	"github.com/weirml/weir/serve/internal/oip"
)

// textModels is where tiny models of texts are, with sentence-transformers' answers.
const textModels = "../embed/testdata/models/"

// textReference is what sentence-transformers answers.
type textReference struct {
	Texts []string
	Cases []struct {
		Name    string
		Files   map[string]*string
		Prompt  *string
		Text    *string
		IDs     [][]int32
		Vectors [][]float32
	}
}

// referenceOf reads the answers for a tiny model.
func referenceOf(t testing.TB, name string) (r textReference) {
	t.Helper()
	data, err := os.ReadFile(textModels + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &r); err != nil || len(r.Texts) == 0 || len(r.Cases) == 0 {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// textFolder makes a folder of models of texts: to is the path of each in the folder, by name.
func textFolder(t testing.TB, to map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for path, name := range to {
		if err := os.CopyFS(filepath.Join(dir, path), os.DirFS(textModels+name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// embeddings is an answer of OpenAI's API.
type embeddings struct {
	Object string
	Data   []struct {
		Object    string
		Index     int
		Embedding json.RawMessage
	}
	Model string
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
	Error *struct {
		Message, Type, Code, Fix string
		Need, Limit              int64
	}
}

// vectors returns an answer's vectors, in either format.
func (e *embeddings) vectors(t testing.TB) (list [][]float32) {
	t.Helper()
	for i, d := range e.Data {
		var v []float32
		var err error
		if len(d.Embedding) > 0 && d.Embedding[0] == '"' {
			var text string
			var data []byte
			if err = json.Unmarshal(d.Embedding, &text); err == nil {
				data, err = base64.StdEncoding.DecodeString(text)
			}
			v = make([]float32, len(data)/4)
			if err == nil {
				_, err = binary.Decode(data, binary.LittleEndian, v)
			}
		} else {
			err = json.Unmarshal(d.Embedding, &v)
		}
		if err != nil || d.Index != i || d.Object != "embedding" {
			t.Fatalf("vector %d: %v, %+v", i, err, d)
		}
		list = append(list, v)
	}
	return list
}

// embedded asks for vectors.
func embedded(t testing.TB, h *httptest.Server, request map[string]any) (int, *embeddings) {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	status, _, text := post(t, h.URL+"/v1/embeddings", nil, body)
	e := &embeddings{}
	if err := json.Unmarshal(text, e); err != nil {
		t.Fatalf("status %d, %v: %.300s", status, err, text)
	}
	return status, e
}

// apart returns the greatest distance of two lists of vectors, as a share of the second's length.
func apart(x, y [][]float32) (most float64) {
	if len(x) != len(y) {
		return math.Inf(1)
	}
	for i := range x {
		if len(x[i]) != len(y[i]) {
			return math.Inf(1)
		}
		sum, whole := 0.0, 1e-18
		for k := range x[i] {
			d := float64(x[i][k] - y[i][k])
			sum, whole = sum+d*d, whole+float64(y[i][k])*float64(y[i][k])
		}
		most = max(most, math.Sqrt(sum/whole))
	}
	return most
}

// TestEmbeddings: vectors over OpenAI's API are sentence-transformers', in both formats, of texts and of ids, in every
// layout of folders, whole and shortened, with and without prompts.
func TestEmbeddings(t *testing.T) {
	names := []string{"bert", "static", "model2vec", "mpnet", "roberta", "distilbert"}
	to := map[string]string{"versions/1": "bert", "versions/3": "bert"}
	for i, name := range names {
		to[[]string{name, name + "/2"}[i%2]] = name
	}
	_, h := start(t, serve.Options{Folder: textFolder(t, to)})
	for _, name := range append(names, "versions", "versions:3") {
		r := referenceOf(t, strings.Replace(strings.Split(name, ":")[0], "versions", "bert", 1))
		for _, c := range r.Cases {
			if len(c.Files) > 0 || c.Text != nil || c.Name == "model2vec's own" {
				continue // another folder, or a prompt that the model does not have
			}
			ids := c.IDs
			if ids == nil {
				ids = r.Cases[0].IDs
			}
			tokens := 0
			for _, list := range ids {
				tokens += len(list)
			}
			request := map[string]any{"model": name, "input": r.Texts}
			if c.Prompt != nil {
				request["prompt_name"] = *c.Prompt
			}
			for _, format := range []string{"float", "base64", ""} {
				if request["encoding_format"] = format; format == "" {
					delete(request, "encoding_format")
				}
				status, e := embedded(t, h, request)
				d := apart(e.vectors(t), c.Vectors)
				if status != 200 || e.Object != "list" || e.Model != name || !(d <= 1e-5) {
					t.Errorf("%s, %s, %q: status %d, model %q, distance %v, %+v", name, c.Name, format, status, e.Model, d, e.Error)
				}
				if e.Usage.Prompt != tokens || e.Usage.Total != tokens {
					t.Errorf("%s, %s: usage %+v of %d tokens", name, c.Name, e.Usage, tokens)
				}
			}
			for i := range min(3, len(r.Texts)) {
				request["input"] = r.Texts[i]
				if status, e := embedded(t, h, request); status != 200 || !(apart(e.vectors(t), c.Vectors[i:i+1]) <= 1e-5) {
					t.Errorf("%s, %s: %q alone: status %d, %+v", name, c.Name, r.Texts[i], status, e.Error)
				}
			}
			if c.Prompt != nil {
				continue
			}
			ids = slices.DeleteFunc(slices.Clone(ids), func(list []int32) bool { return len(list) == 0 })
			if len(ids) != len(r.Texts) {
				continue // a text without tokens has no ids to send
			}
			for _, in := range []any{ids, ids[0]} {
				request["input"] = in
				want := c.Vectors
				if _, one := in.([]int32); one {
					want = want[:1]
				}
				if status, e := embedded(t, h, request); status != 200 || !(apart(e.vectors(t), want) <= 1e-5) {
					t.Errorf("%s, %s: ids: status %d, %+v", name, c.Name, status, e.Error)
				}
			}
		}
	}
}

// TestShortened: dimensions keeps the first elements, scaled to length 1 again if the model's vectors have length 1.
func TestShortened(t *testing.T) {
	_, h := start(t, serve.Options{Folder: textFolder(t, map[string]string{"static": "static", "bert": "bert"})})
	for _, name := range []string{"static", "bert"} {
		_, whole := embedded(t, h, map[string]any{"model": name, "input": "some text"})
		v := whole.vectors(t)[0]
		norm := func(v []float32) (sum float64) {
			for _, x := range v {
				sum += float64(x) * float64(x)
			}
			return math.Sqrt(sum)
		}
		scale := 1.0
		if math.Abs(norm(v)-1) < 1e-4 {
			scale = 1 / norm(v[:5])
		}
		want := make([]float32, 5)
		for i := range want {
			want[i] = float32(float64(v[i]) * scale)
		}
		status, short := embedded(t, h, map[string]any{"model": name, "input": []string{"some text", "some text"},
			"dimensions": 5})
		if got := short.vectors(t); status != 200 || !(apart(got, [][]float32{want, want}) < 1e-6) {
			t.Errorf("%s: status %d, %v, want twice %v", name, status, got, want)
		}
	}
}

// TestTextsRefused: requests that are not the API's are refused by name, in OpenAI's shape.
func TestTextsRefused(t *testing.T) {
	dir := textFolder(t, map[string]string{"bert": "bert"})
	write(t, dir+"/digits.onnx", must(os.ReadFile(digits)))
	_, h := start(t, serve.Options{Folder: dir, MostTexts: 3})
	for _, c := range []struct {
		body, says string
		status     int
	}{
		{`{"model":"nope","input":"x"}`, "unknown", 404},
		{`{"input":"x"}`, "unknown", 404},
		{`{"model":"bert:7","input":"x"}`, "version 7", 404},
		{`{"model":"digits","input":"x"}`, "does not read texts", 400},
		{`{"model":"bert"}`, "missing", 400},
		{`{"model":"bert","input":null}`, "null", 400},
		{`{"model":"bert","input":{}}`, "not a string", 400},
		{`{"model":"bert","input":[]}`, "no texts", 400},
		{`{"model":"bert","input":[[]]}`, "no ids", 400},
		{`{"model":"bert","input":["a",1]}`, "input[1]", 400},
		{`{"model":"bert","input":[1,"a"]}`, "whole numbers", 400},
		{`{"model":"bert","input":[[1],2]}`, "input[1]", 400},
		{`{"model":"bert","input":[[[1]]]}`, "whole numbers", 400},
		{`{"model":"bert","input":[1.5]}`, "whole numbers", 400},
		{`{"model":"bert","input":[-1]}`, "not a string", 400},
		{`{"model":"bert","input":[1e2]}`, "whole numbers", 400},
		{`{"model":"bert","input":[99999999999999999999]}`, "whole numbers", 400},
		{`{"model":"bert","input":[1000000]}`, "the model takes 0 to 319", 400},
		{`{"model":"bert","input":[` + strings.Repeat("1,", 5000) + `1]}`, "5001 tokens", 400},
		{`{"model":"bert","input":["a","b","c","d"]}`, "more than 3 texts", 400},
		{`{"model":"bert","input":[[1],[1],[1],[1]]}`, "more than 3 texts", 400},
		{`{"model":"bert","input":"x","encoding_format":"hex"}`, "hex", 400},
		{`{"model":"bert","input":"x","dimensions":0}`, "dimensions is 0", 400},
		{`{"model":"bert","input":"x","dimensions":33}`, "33", 400},
		{`{"model":"bert","input":"x","dimensions":"a"}`, "JSON", 400},
		{`{"model":"bert","input":"x","prompt_name":"nope"}`, "nope", 400},
		{`{"model":"bert","input":[5],"prompt_name":"query"}`, "before ids", 400},
		{"{\"model\":\"bert\",\"input\":\"\xff\"}", "UTF-8", 400},
		{`{"model":"bert","input":"x"`, "JSON", 400},
		{strings.Repeat(`{"a":`, 20000), "JSON", 400},
		{``, "JSON", 400},
	} {
		status, header, body := post(t, h.URL+"/v1/embeddings", nil, []byte(c.body))
		var e embeddings
		if err := json.Unmarshal(body, &e); err != nil || status != c.status || e.Error == nil ||
			!strings.Contains(e.Error.Message, c.says) || e.Error.Type != "invalid_request_error" || e.Error.Code == "" {
			t.Errorf("%.60s: status %d, %.300s (%v)", c.body, status, body, header)
		}
	}
	for _, body := range []string{`{"model":"bert","input":"\ud83d\ude00 \ud800 \u00e9\n\"\\"}`, `{"model":"bert","input":""}`,
		`{"input":["",""],"model":"bert","user":"u","x":[{"a":"]}"}]}`} {
		if status, _, text := post(t, h.URL+"/v1/embeddings", nil, []byte(body)); status != 200 {
			t.Errorf("%s: status %d, %.300s", body, status, text)
		}
	}
	escaped := `{"model":"bert","input":"\u0061 \u00e9\ud83d\ude00\/\t\"b\""}`
	plain := "{\"model\":\"bert\",\"input\":\"a é😀/\\t\\\"b\\\"\"}"
	_, _, x := post(t, h.URL+"/v1/embeddings", nil, []byte(escaped))
	if _, _, y := post(t, h.URL+"/v1/embeddings", nil, []byte(plain)); !bytes.Equal(x, y) || len(x) < 100 {
		t.Errorf("escapes change the text: %s\n%s", x, y)
	}
}

// must returns a value without an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestTextsProtocol: a model of texts answers the Open Inference Protocol: strings in, vectors out, over REST and gRPC.
func TestTextsProtocol(t *testing.T) {
	dir := textFolder(t, map[string]string{"bert/1": "bert"})
	write(t, dir+"/bert/config.pbtxt", []byte(`input { name: "text" data_type: TYPE_STRING dims: [-1] }
output { name: "embedding" data_type: TYPE_FP32 dims: [-1, 32] } model_warmup { name: "w" batch_size: 3 inputs {
key: "text" value { data_type: TYPE_STRING dims: [1] zero_data: true } } } instance_group { count: 1 }`))
	_, h := start(t, serve.Options{Folder: dir})
	r := referenceOf(t, "bert")
	want := r.Cases[0].Vectors
	list := must(json.Marshal(r.Texts))
	var flat []float32
	for _, v := range want {
		flat = append(flat, v...)
	}
	for _, shape := range []string{fmt.Sprint(len(want)), fmt.Sprint(len(want), ",1")} {
		_, _, body := post(t, h.URL+"/v2/models/bert/infer", nil,
			fmt.Appendf(nil, `{"inputs":[{"name":"text","datatype":"BYTES","shape":[%s],"data":%s}]}`, shape, list))
		var a answer
		if err := json.Unmarshal(body, &a); err != nil || len(a.Outputs) != 1 || a.Outputs[0].Name != "embedding" ||
			fmt.Sprint(a.Outputs[0].Shape) != fmt.Sprint([]int{len(want), 32}) || !(apart([][]float32{a.Outputs[0].Data},
			[][]float32{flat}) <= 1e-5) {
			t.Errorf("shape %s: %v, %.300s", shape, err, body)
		}
	}
	c, err := grpc.NewClient(h.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client := oip.NewGRPCInferenceServiceClient(c)
	out, err := client.ModelInfer(t.Context(), &oip.ModelInferRequest{ModelName: "bert",
		Parameters:       map[string]*oip.InferParameter{"dimensions": oip.ParameterOf(int64(7))},
		Inputs:           []*oip.ModelInferRequest_InferInputTensor{{Name: "text", Datatype: "BYTES", Shape: []int64{2}}},
		RawInputContents: [][]byte{oip.AppendTexts(nil, r.Texts[:2])}})
	if err != nil || fmt.Sprint(out.Outputs[0].Shape) != "[2 7]" || len(out.RawOutputContents[0]) != 56 {
		t.Errorf("gRPC: %v, %v", out, err)
	}
	body := page(t, h.URL+"/v2/models/bert")
	for _, says := range []string{`"platform":"text_weir"`, `"name":"text","datatype":"BYTES","shape":[-1]`,
		`"name":"embedding","datatype":"FP32","shape":[-1,32]`} {
		if !strings.Contains(body, says) {
			t.Errorf("the metadata lack %s: %s", says, body)
		}
	}
	for body, says := range map[string]string{
		`{"inputs":[]}`: "needs the input",
		`{"inputs":[{"name":"text","datatype":"FP32","shape":[1],"data":[1]}]}`:                                                                       "FP32",
		`{"inputs":[{"name":"text","datatype":"BYTES","shape":[0],"data":[]}]}`:                                                                       "0 texts",
		`{"inputs":[{"name":"text","datatype":"BYTES","shape":[1,1,1],"data":["a"]}]}`:                                                                "shape",
		`{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["a"]}],"outputs":[{"name":"x"}]}`:                                           "no output",
		`{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["a"]}],"parameters":{"dimensions":-1}}`:                                     "dimensions",
		`{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["a"]}],"parameters":{"prompt_name":"x"}}`:                                   "prompt",
		`{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["a"]}],"outputs":[{"name":"embedding","parameters":{"classification":1}}]}`: "classes",
	} {
		if status, _, text := post(t, h.URL+"/v2/models/bert/infer", nil, []byte(body)); status != 400 ||
			!strings.Contains(string(text), says) {
			t.Errorf("%s: status %d, %s", body, status, text)
		}
	}
	if text := page(t, h.URL+"/metrics"); !strings.Contains(text, `nv_inference_count{model="bert",version="1"} `+
		fmt.Sprint(2*len(want)+2)) || !strings.Contains(text, `weir_model_certificate{formula="`) {
		t.Errorf("the metrics lack the texts: %.3000s", text)
	}
	if text := page(t, h.URL+"/v2/weir/status"); !strings.Contains(text, `"joined":true`) {
		t.Errorf("the status page has %s", text)
	}
	if text := page(t, h.URL+"/v1/models/bert:1"); !strings.Contains(text, `"id":"bert"`) {
		t.Errorf("the model is %s", text)
	}
}

// page returns the text of a page.
func page(t testing.TB, url string) string {
	t.Helper()
	_, body := get(t, url)
	return string(body)
}

// TestTextsLoad: a model of texts that does not fit is refused with the numbers and with what would fit; tensors are
// served if the configuration says so; a changed file makes a new version, and an unloaded model leaves nothing.
func TestTextsLoad(t *testing.T) {
	dir := textFolder(t, map[string]string{"large": "bert", "small": "bert", "tensors": "bert", "wrong": "bert",
		"sequence": "bert", "long": "static", "short": "static"})
	config := func(name, text string) { write(t, dir+"/"+name+"/config.pbtxt", []byte(text)) }
	token := func(n string) string { return `parameters { key: "weir.tokens" value { string_value: "` + n + `" } }` }
	config("small", token("16"))
	config("short", token("64"))
	config("wrong", token("0"))
	config("sequence", `sequence_batching { }`)
	config("tensors", `parameters { key: "weir.texts" value { string_value: "off" } }`)
	write(t, dir+"/tensors/model.onnx", must(os.ReadFile(digits)))
	_, h := start(t, serve.Options{Folder: dir, Limit: 3 << 20})
	_, _, body := post(t, h.URL+"/v2/repository/index", nil, nil)
	var list []struct{ Name, State, Reason string }
	if err := json.Unmarshal(body, &list); err != nil || len(list) != 7 {
		t.Fatalf("%v: %s", err, body)
	}
	for _, m := range list {
		t.Logf("%s: %s %s", m.Name, m.State, m.Reason)
		says := map[string]string{"large": "", "small": "", "tensors": "", "wrong": "weir.tokens", "short": "",
			"long": "tokens fit", "sequence": "sequence_batching"}[m.Name]
		if (m.State == "READY") != (says == "") || !strings.Contains(m.Reason, says) {
			t.Errorf("%s is %s: %s", m.Name, m.State, m.Reason)
		}
	}
	held := func() (bytes float64) {
		for name, value := range scrape(t, h.URL) {
			if strings.HasPrefix(name, "weir_ledger_bytes{") && strings.Contains(name, "small") {
				bytes += value
			}
		}
		return bytes
	}
	loaded := held()
	request := map[string]any{"model": "small", "input": strings.Repeat("many words ", 30)}
	status, before := embedded(t, h, request)
	if status != 200 || before.Usage.Total != 16 || loaded == 0 {
		t.Errorf("status %d, %+v; %v bytes are held", status, before, loaded)
	}
	config("small", token("8"))
	if status, _, text := post(t, h.URL+"/v2/repository/models/small/load", nil, nil); status != 200 {
		t.Errorf("loaded again: status %d, %s", status, text)
	}
	if status, e := embedded(t, h, request); status != 200 || e.Usage.Total != 8 || held() < loaded/2 {
		t.Errorf("after it was loaded again: status %d, %+v; %v bytes are held", status, e, held())
	}
	if status, _, text := post(t, h.URL+"/v2/repository/models/small/unload", nil, nil); status != 200 || held() != 0 {
		t.Errorf("unloaded: status %d, %s; %v bytes are held", status, text, held())
	}
	if status, e := embedded(t, h, request); status != 503 || e.Error == nil || e.Error.Type != "server_error" {
		t.Errorf("after it was unloaded: status %d, %+v", status, e.Error)
	}
}

// TestTextsMany: many clients, of all sizes, get the vectors of their own texts, also when the memory is short.
func TestTextsMany(t *testing.T) {
	_, h := start(t, serve.Options{Folder: textFolder(t, map[string]string{"bert": "bert"}), Limit: 8 << 20})
	r := referenceOf(t, "bert")
	var clients sync.WaitGroup
	statuses := make([]map[int]int, 8)
	for client := range statuses {
		statuses[client] = map[int]int{}
		clients.Go(func() {
			for i := range 25 {
				var in []string
				var want [][]float32
				for k := range 1 + (client*37+i*61)%150 {
					at := (client + i + k) % len(r.Texts)
					in, want = append(in, r.Texts[at]), append(want, r.Cases[0].Vectors[at])
				}
				status, e := embedded(t, h, map[string]any{"model": "bert", "input": in})
				if statuses[client][status]++; status == 200 && !(apart(e.vectors(t), want) <= 1e-5) {
					t.Errorf("client %d, request %d: other vectors", client, i)
				} else if status != 200 && status != 429 {
					t.Errorf("client %d, request %d: status %d, %+v", client, i, status, e.Error)
				}
			}
		})
	}
	clients.Wait()
	t.Logf("statuses: %v", statuses)
	big := slices.Repeat([]string{"a b c"}, 16384)
	status, e := embedded(t, h, map[string]any{"model": "bert", "input": big})
	fits := 0
	if e.Error != nil {
		fmt.Sscanf(e.Error.Fix, "send at most %d texts", &fits)
	}
	if status != 413 || fits < 100 || e.Error.Need <= e.Error.Limit {
		t.Fatalf("16,384 texts: status %d, %+v", status, e.Error)
	}
	if status, e := embedded(t, h, map[string]any{"model": "bert", "input": big[:fits]}); status != 200 {
		t.Errorf("%d texts: status %d, %+v", fits, status, e.Error)
	}
	long := strings.Repeat("many words ", 12000)
	status, e = embedded(t, h, map[string]any{"model": "bert", "input": long})
	if status != 413 ||
		!strings.Contains(e.Error.Fix, "bytes") {
		t.Fatalf("a long text: status %d, %+v", status, e.Error)
	}
	fmt.Sscanf(e.Error.Fix, "send texts of at most %d bytes", &fits)
	if status, e := embedded(t, h, map[string]any{"model": "bert", "input": long[:fits]}); status != 200 {
		t.Errorf("%d bytes: status %d, %+v", fits, status, e.Error)
	}
}

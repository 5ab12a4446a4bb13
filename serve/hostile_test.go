package serve_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve"
	"github.com/weirml/weir/serve/internal/oip"
)

var hostile = flag.Int("hostile", 6000, "malformed requests that TestHostile sends")

// canary is a number that only one client sends: it must be in no other client's answers.
const canary = 1.2345678e-9

// TestHostile sends requests that differ from good ones in a few bytes, fields or sizes, between good ones of another
// client. No answer has the other client's numbers, the server's memory does not grow, and good requests are answered.
func TestHostile(t *testing.T) {
	dir := folder(t, map[string]string{"digits.onnx": digits, "echo.weir": "testdata/echo.weir"})
	s, h := start(t, serve.Options{Folder: dir, Limit: 64 << 20, Stall: 2 * time.Second})
	random := rand.New(rand.NewPCG(38, 1))
	good := goodREST(canary, 1000)
	goodRPC := goodGRPC(t, canary, 1000)
	secret := floats([]float32{canary})
	secretText := []byte(strings.TrimSuffix(fmt.Sprint(float32(canary)), "e-09"))
	statuses := map[int]int{}
	held := int64(0)
	for i := range *hostile {
		if i%50 == 0 {
			if status, body := call(s, good); status != 200 || bytes.Count(body, secretText) < 900 {
				t.Fatalf("request %d: a good request got status %d, %.300s", i, status, body)
			}
			if status, body := call(s, goodRPC); status != 200 || bytes.Count(body, secret) < 900 {
				t.Fatalf("request %d: a good gRPC request got status %d, %q", i, status, body)
			}
		}
		bad := goodREST(7, 1+random.IntN(40))
		if i%2 == 1 {
			bad = goodGRPC(t, 7, 1+random.IntN(40))
		}
		bad.mutate(random)
		status, body := call(s, bad)
		statuses[status]++
		if status == 500 {
			t.Errorf("request %d: status 500, %.300q\n%q", i, body, bad.body)
		}
		if bytes.Contains(body, secret) || bytes.Contains(body, secretText) {
			t.Fatalf("request %d: the answer has another client's numbers: %q", i, body)
		}
		if now := weir.Usage().Held; i == *hostile/2 {
			held = now
		} else if i > *hostile/2 && now > held+8<<20 {
			t.Fatalf("request %d: %d bytes are held, %d were before", i, now, held)
		}
	}
	t.Logf("statuses: %v", statuses)
	if statuses[200] == 0 || statuses[400] == 0 || statuses[404] == 0 {
		t.Errorf("the requests are not of all kinds: %v", statuses)
	}
	if status, text := inferRows(t, h.URL, "digits", "", 2); status != 200 {
		t.Errorf("at the end: status %d, %s", status, text)
	}
}

// TestHostileTexts is TestHostile for a model of texts: no answer has another client's vector, none has status 500, and
// the memory does not grow.
func TestHostileTexts(t *testing.T) {
	s, h := start(t, serve.Options{Folder: textFolder(t, map[string]string{"bert": "bert",
		"rank": "../../../classify/testdata/models/cross_encoder"}), Limit: 64 << 20,
		Stall: 2 * time.Second, MostTexts: 2000})
	random := rand.New(rand.NewPCG(39, 1))
	_, e := embedded(t, h, map[string]any{"model": "bert", "input": "a secret text of another client"})
	secret := []byte(strings.Trim(string(e.Data[0].Embedding), "[]"))
	good := &message{path: "/v1/embeddings", header: http.Header{},
		body: []byte(`{"model":"bert","input":"a secret text of another client"}`)}
	bodies := []string{`{"model":"bert","input":["some texts","\u00e9\ud83d\ude00 \n","x"],"encoding_format":"base64"}`,
		`{"model":"bert","input":[[1,2,3],[4,5],[300]],"dimensions":7}`, `{"model":"bert:1","input":[5,6,7,8],"user":"u"}`,
		`{"inputs":[{"name":"text","datatype":"BYTES","shape":[3],"data":["a","b","c"]}],"parameters":{"dimensions":3}}`,
		`{"model":"rank","query":"q","documents":["a",{"text":"b","x":[{}]},"c"],"top_n":2,"return_documents":true}`,
		`{"model":"bert","input":[` + strings.Repeat(`"",`, 1500) + `"a"]}`,
		`{"model":"bert","input":"` + strings.Repeat(`\u0041 `, 4000) + `"}`,
		`{"input":[` + strings.Repeat("[7],", 1500) + `[8]],"model":"bert"}`}
	natives := []*message{{path: "/embed", body: []byte(`{"inputs":["a","\u00e9\ud83d\ude00"],"truncate":true,"normalize":false}`)},
		{path: "/embed", body: []byte(`{"inputs":[[5,6],[7]],"dimensions":3,"model":"bert:1"}`)},
		{path: "/", body: []byte(`{"inputs":"a text","truncate":false,"prompt_name":null}`)},
		{path: "/similarity", body: []byte(`{"inputs":{"source_sentence":"a","sentences":["b","\u0041c"]},"parameters":{}}`)},
		{path: "/rerank", body: []byte(`{"query":"q","texts":["a","b"],"raw_scores":true,"return_text":true}`)},
		{path: "/predict", body: []byte(`{"inputs":[["a"],["b","\n"],["c"]],"raw_scores":true}`)},
		{path: "/predict", body: []byte(`{"inputs":["b","c"],"truncate":false}`)},
		{path: "/tokenize", body: []byte(`{"model":"bert","inputs":["a b","\u00e9"],"add_special_tokens":false}`)},
		{path: "/decode", body: []byte(`{"model":"bert","ids":[[1,2],[3]],"skip_special_tokens":false}`)},
		{path: "/info", method: "GET"}, {path: "/embed_all", body: []byte(`{"inputs":"a"}`)}}
	statuses, ofNatives := map[int]int{}, map[int]int{}
	held := int64(0)
	for i := range *hostile {
		if i%50 == 0 {
			if status, body := call(s, good); status != 200 || !bytes.Contains(body, secret) {
				t.Fatalf("request %d: a good request got status %d, %.300s", i, status, body)
			}
		}
		body := bodies[random.IntN(len(bodies))]
		if random.IntN(8) > 0 {
			body = bodies[random.IntN(5)] // the small ones
		}
		bad := &message{path: "/v1/embeddings", header: http.Header{}, body: []byte(body)}
		if strings.HasPrefix(body, `{"inputs"`) {
			bad.path = "/v2/models/bert/infer"
		} else if strings.Contains(body, "documents") {
			bad.path = "/v1/rerank"
		}
		if i%5 > 0 {
			bad.mutate(random)
		}
		native := i%3 == 2
		if native { // of text-embeddings-inference
			one := *natives[random.IntN(len(natives))]
			one.body, one.header = bytes.Clone(one.body), http.Header{}
			if bad = &one; i%5 > 0 {
				bad.mutate(random)
			}
		}
		status, answer := call(s, bad)
		if native {
			ofNatives[status]++
			if status >= 400 && status != 405 && !bytes.Contains(answer, []byte(`"error":`)) ||
				status == 422 && !bytes.Contains(answer, []byte(`"error_type":"Validation"`)) {
				t.Errorf("request %d, %s: status %d, %.300q\n%.300q", i, bad.path, status, answer, bad.body)
			}
			if status == 422 || status == 424 {
				status = 400
			}
		}
		statuses[status]++
		if status == 500 || i%5 == 0 && status != 200 && bad.path != "/info" && bad.path != "/embed_all" {
			t.Errorf("request %d: status %d, %.300q\n%.300q", i, status, answer, bad.body)
		}
		if bytes.Contains(answer, secret) {
			t.Fatalf("request %d: the answer has another client's vector: %.300q", i, bad.body)
		}
		if now := weir.Usage().Held; i == *hostile/2 {
			held = now
		} else if i > *hostile/2 && now > held+8<<20 {
			t.Fatalf("request %d: %d bytes are held, %d were before", i, now, held)
		}
	}
	t.Logf("statuses: %v; of text-embeddings-inference %v", statuses, ofNatives)
	if statuses[200] == 0 || statuses[400] == 0 || statuses[404] == 0 || ofNatives[200] == 0 || ofNatives[400] == 0 ||
		ofNatives[422] == 0 || ofNatives[424] == 0 {
		t.Errorf("the requests are not of all kinds: %v, %v", statuses, ofNatives)
	}
}

// message is a request of either protocol.
type message struct {
	grpc   bool
	method string // empty: POST
	path   string
	header http.Header
	body   []byte
}

// call calls the server's handler directly, so that a panic fails the test.
func call(s *serve.Server, m *message) (status int, body []byte) {
	r := httptest.NewRequest(cmp.Or(m.method, "POST"), "http://weir/", bytes.NewReader(m.body))
	r.URL.Path = m.path
	r.Header = m.header.Clone()
	if m.grpc {
		r.ProtoMajor, r.Proto = 2, "HTTP/2.0"
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	status = w.Code
	if code := w.Header().Get(http.TrailerPrefix + "Grpc-Status"); m.grpc && code != "0" {
		status = map[string]int{"3": 400, "5": 404, "13": 500}[code]
		if status == 0 {
			status = 499
		}
	}
	return status, append(w.Body.Bytes(), fmt.Sprint(w.Header())...)
}

// goodREST returns a request for the echo of n numbers.
func goodREST(x float32, n int) *message {
	list := make([]float32, n)
	for i := range list {
		list[i] = x
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	m := &message{path: "/v2/models/echo/infer", header: http.Header{}}
	if n%2 == 0 && n < 1000 {
		head := fmt.Sprintf(`{"inputs":[{"name":"x","shape":[%d],"datatype":"FP32","parameters":{"binary_data_size":%d}}],`+
			`"outputs":[{"name":"y","parameters":{"binary_data":true}}]}`, n, 4*n)
		m.body = append([]byte(head), floats(list)...)
		m.header.Set("Inference-Header-Content-Length", fmt.Sprint(len(head)))
		return m
	}
	m.body = fmt.Appendf(nil, `{"id":"1","inputs":[{"name":"x","shape":[%d],"datatype":"FP32","data":%s}]}`, n, text)
	return m
}

// goodGRPC returns the same request in gRPC's framing.
func goodGRPC(t testing.TB, x float32, n int) *message {
	list := make([]float32, n)
	for i := range list {
		list[i] = x
	}
	r := &oip.ModelInferRequest{ModelName: "echo", Id: "1",
		Parameters: map[string]*oip.InferParameter{"p": oip.ParameterOf("q")},
		Inputs:     []*oip.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{int64(n)}}}}
	if n%2 == 0 {
		r.RawInputContents = [][]byte{floats(list)}
	} else {
		r.Inputs[0].Contents = &oip.InferTensorContents{Fp32Contents: list}
	}
	encoded, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	m := &message{grpc: true, path: "/inference.GRPCInferenceService/ModelInfer",
		header: http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}}
	m.body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(encoded))), encoded...)
	return m
}

// words are texts that a mutation puts into a request.
var words = []string{"0", "-1", "1e999", "null", "true", `"`, "[", "]", "{", "}", ",", ":", "9223372036854775807",
	"2147483648",
	"FP64", "BYTES", "BF16", "UINT8", `"shared_memory_region":"r"`, `"binary_data_size":99`, `"classification":3`,
	"\x00", "\xff", "data",
	"shape", "[[[[[[[[", "1.5", "-0", "../../etc/passwd", "<script>"}

// mutate changes a request in some places.
func (m *message) mutate(random *rand.Rand) {
	for range 1 + random.IntN(3) {
		at := random.IntN(len(m.body) + 1)
		if text := min(len(m.body), 200); random.IntN(3) > 0 {
			at = random.IntN(text + 1) // where names, shapes and sizes are
		}
		switch random.IntN(9) {
		case 0:
			m.body = m.body[:at]
		case 1:
			m.body = append(m.body[:at:at], append([]byte(words[random.IntN(len(words))]), m.body[at:]...)...)
		case 2:
			if at < len(m.body) {
				m.body[at] = byte(random.Uint32())
			}
		case 3:
			if at < len(m.body) {
				m.body[at] ^= 1 << random.IntN(8)
			}
		case 4:
			end := min(len(m.body), at+random.IntN(20))
			m.body = append(m.body[:at:at], m.body[end:]...)
		case 5:
			m.header.Set("Inference-Header-Content-Length", words[random.IntN(8)%len(words)])
		case 6:
			m.header.Set([]string{"Content-Encoding", "Grpc-Encoding", "Accept-Encoding", "Grpc-Timeout"}[random.IntN(4)],
				[]string{"gzip", "deflate", "zstd", "1n", "99999999H", "", "x"}[random.IntN(7)])
		case 7:
			if m.grpc && len(m.body) > 5 {
				m.body[random.IntN(5)] = byte(random.Uint32())
			} else if random.IntN(4) == 0 {
				m.path = []string{"/v2/models/digits/infer", "/v2/models/x/infer",
					"/v2/models/echo/versions/7/infer"}[random.IntN(3)]
			}
		case 8:
			m.body = append(m.body[:at:at], append(bytes.Clone(m.body[:at]), m.body[at:]...)...)
		}
		if len(m.body) == 0 {
			return
		}
	}
}

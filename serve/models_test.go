package serve_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve"
	"github.com/weirml/weir/serve/internal/oip"
)

// TestEveryModel serves all test models of the repository, and asks each in three forms: elements in JSON text, after
// it, and in gRPC. The answers have the same bytes, whatever inputs the model has; refusals have the same status.
func TestEveryModel(t *testing.T) {
	dir := t.TempDir()
	models, err := filepath.Glob("../testdata/onnx/*/model.onnx")
	if err != nil || len(models) < 50 {
		t.Fatalf("%d models, %v", len(models), err)
	}
	for i, path := range models {
		if testing.Short() && i%3 != 0 {
			continue
		}
		from, err := filepath.Abs(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, filepath.Join(dir, filepath.Base(from))); err != nil {
			t.Skipf("there are no links: %v", err)
		}
	}
	s, _ := start(t, serve.Options{Folder: dir, Limit: 1 << 30})
	random := rand.New(rand.NewPCG(38, 4))
	answered, refused := 0, 0
	for _, m := range index(t, s) {
		for _, size := range []int{1, 2, 17, 0} {
			inputs := inputsOf(t, s, m, size, random)
			if inputs == nil {
				break // of other types than numbers
			}
			text, after, rpc := requests(t, m, inputs)
			status, want := call(s, text)
			for form, other := range map[string]*message{"after the text": after, "gRPC": rpc} {
				got, body := call(s, other)
				if got != status && !(got == 499 && status != 200) {
					t.Errorf("%s of size %d, %s: status %d, in the text %d: %.300s", m, size, form, got, status, body)
				} else if status == 200 && !bytes.Equal(elements(t, other, body), elements(t, text, want)) {
					t.Errorf("%s of size %d, %s: other elements than in the text", m, size, form)
				}
			}
			if status == 200 {
				answered++
			} else if refused++; status != 400 {
				t.Errorf("%s of size %d: status %d, %.300s", m, size, status, want)
			}
		}
	}
	if t.Logf("%d requests answered, %d refused", answered, refused); answered < 2*refused || answered < 50 {
		t.Errorf("only %d of %d requests are answered", answered, answered+refused)
	}
}

// index returns the names of the models that are ready.
func index(t *testing.T, s *serve.Server) (names []string) {
	_, text := call(s, &message{path: "/v2/repository/index", header: http.Header{}, body: []byte(`{"ready":true}`)})
	var list []struct{ Name string }
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&list); err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		names = append(names, m.Name)
	}
	return names
}

// inputsOf returns random inputs of a model, whose free dimensions have a size; nil if one has no numbers.
func inputsOf(t *testing.T, s *serve.Server, model string, size int, random *rand.Rand) (inputs []oip.Tensor) {
	_, text := call(s, &message{method: "GET", path: "/v2/models/" + model, header: http.Header{}})
	var meta struct {
		Inputs []struct {
			Name, Datatype string
			Shape          []int
		}
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&meta); err != nil {
		t.Fatal(err)
	}
	for _, in := range meta.Inputs {
		dt, _ := oip.Parse(in.Datatype)
		if dt == weir.StringType || dt.IsSubByte() || dt.IsComplex() {
			return nil
		}
		x := oip.Tensor{Name: in.Name, DType: dt, Shape: in.Shape}
		for i := range x.Shape {
			if x.Shape[i] < 0 {
				x.Shape[i] = size
			}
		}
		count, err := oip.Count(x.Shape)
		if err != nil {
			t.Fatal(err)
		}
		small, err := weir.New(dt, int(count))
		if err != nil {
			t.Fatal(err)
		}
		numbers := make([]float32, count)
		for i := range numbers {
			numbers[i] = float32(random.IntN(3))
		}
		if dt.IsFloat() {
			if err := small.SetFloats(numbers); err != nil {
				t.Fatal(err)
			}
		} else {
			for i, v := range numbers { // the lowest byte of each
				small.Bytes()[i*dt.Size()] = byte(v)
				if dt == weir.Bool {
					small.Bytes()[i] = min(1, byte(v))
				}
			}
		}
		x.Data = bytes.Clone(small.Bytes())
		small.Close()
		inputs = append(inputs, x)
	}
	return inputs
}

// requests returns a request in three forms, each of which asks for binary answers.
func requests(t *testing.T, model string, inputs []oip.Tensor) (text, after, rpc *message) {
	path := "/v2/models/" + model + "/infer"
	in, tail := bytes.Buffer{}, bytes.Buffer{}
	head := bytes.NewBufferString(`{"parameters":{"binary_data_output":true},"inputs":[`)
	m := &oip.ModelInferRequest{ModelName: model}
	in.Write(head.Bytes())
	for i := range inputs {
		x := &inputs[i]
		comma := map[bool]string{true: ",", false: ""}[i > 0]
		shape, err := json.Marshal(append([]int{}, x.Shape...))
		if err != nil {
			t.Fatal(err)
		}
		declared := fmt.Sprintf(`%s{"name":%q,"datatype":"%s","shape":%s,`, comma, x.Name, oip.Name(x.DType), shape)
		in.WriteString(declared + `"data":`)
		if err := x.WriteElements(&in); err != nil {
			t.Fatal(err)
		}
		in.WriteString("}")
		fmt.Fprintf(head, `%s"parameters":{"binary_data_size":%d}}`, declared, len(x.Data))
		tail.Write(x.Data)
		wide := make([]int64, len(x.Shape))
		for k, e := range x.Shape {
			wide[k] = int64(e)
		}
		m.Inputs = append(m.Inputs, &oip.ModelInferRequest_InferInputTensor{Name: x.Name, Datatype: oip.Name(x.DType),
			Shape: wide})
		m.RawInputContents = append(m.RawInputContents, x.Data)
	}
	in.WriteString("]}")
	head.WriteString("]}")
	encoded, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return &message{path: path, header: http.Header{}, body: in.Bytes()},
		&message{path: path, header: http.Header{headerLength: {fmt.Sprint(head.Len())}},
			body: append(bytes.Clone(head.Bytes()), tail.Bytes()...)},
		&message{grpc: true, path: "/inference.GRPCInferenceService/ModelInfer",
			header: http.Header{"Content-Type": {"application/grpc"}},
			body:   append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(encoded))), encoded...)}
}

// elements returns the elements of all outputs of an answer, one after the other.
func elements(t *testing.T, of *message, body []byte) (data []byte) {
	if !of.grpc {
		d := json.NewDecoder(bytes.NewReader(body))
		var a struct {
			Outputs []struct {
				Parameters struct {
					Size int `json:"binary_data_size"`
				}
			}
		}
		if err := d.Decode(&a); err != nil {
			t.Fatal(err)
		}
		all := 0
		for _, o := range a.Outputs {
			all += o.Parameters.Size
		}
		return body[d.InputOffset():][:all]
	}
	for message := body[5:][:binary.BigEndian.Uint32(body[1:])]; len(message) > 0; {
		number, kind, n := protowire.ConsumeTag(message)
		if number == 6 {
			raw, _ := protowire.ConsumeBytes(message[n:])
			data = append(data, raw...)
		}
		skip := protowire.ConsumeFieldValue(number, kind, message[n:])
		if skip < 0 {
			t.Fatal("the answer is not protobuf's")
		}
		message = message[n+skip:]
	}
	return data
}

package serve_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/weirml/weir/serve"
	"github.com/weirml/weir/serve/internal/oip"
)

// stateful makes a folder of models with states: sums (updated in place), lists that grow (copied), and a model that
// answers with its controls.
func stateful(t testing.TB, idle time.Duration) string {
	t.Helper()
	dir := t.TempDir()
	for _, dt := range []string{"i32", "f32"} {
		statefulModel(t, dir, "sum_"+dt, idle, `(%x: T[1], %sum: T[1]) {
    %y: T[1] = add(%sum, %x)
    %next: T[1] = add(%sum, %x)
    return %y, %next`, dt, `state [ { input_name: "sum" output_name: "next" data_type: TYPE dims: [ 1 ]
      initial_state: { data_type: TYPE dims: [ 1 ] zero_data: true name: "zero" } } ]`)
	}
	statefulModel(t, dir, "list", idle, `(%x: T[n], %past: T[p]) {
    %all: T[p + n] = concat(%past, %x) {axis = int 0}
    %y: T[] = reduce_sum(%all) {axes = ints [0], keep = bool false}
    return %y, %all`, "f32", `state [ { input_name: "past" output_name: "all" data_type: TYPE dims: [ -1 ]
      initial_state: { data_type: TYPE dims: [ 0 ] zero_data: true name: "none" } } ]`)
	statefulModel(t, dir, "controls", idle, `(%x: T[1], %start: T[1], %ready: f32[1], %end: T[1], %id: i64[1]) {
    %y: T[1] = abs(%x)
    %s: T[1] = abs(%start)
    %r: f32[1] = abs(%ready)
    %e: T[1] = abs(%end)
    %i: i64[1] = abs(%id)
    return %y, %s, %r, %e, %i`, "i32", `oldest { max_candidate_sequences: 4 }
    control_input [ { name: "start" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 3, 7 ] } ] },
      { name: "ready" control [ { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 0.5 ] } ] },
      { name: "end" control [ { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } ] },
      { name: "id" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT64 } ] } ]`)
	return dir
}

// statefulModel writes a model with sequences; T in its text, and TYPE in its configuration, stand for a type.
func statefulModel(t testing.TB, dir, name string, idle time.Duration, text, dt, config string) {
	text = fmt.Sprintf("weir 1\nir @m {\n  dim n in [0, inf]\n  dim p in [0, inf]\n  main @main%s\n  }\n}\n", text)
	if !strings.Contains(text, "[n") {
		text = strings.ReplaceAll(text, "  dim n in [0, inf]\n  dim p in [0, inf]\n", "")
	}
	write(t, filepath.Join(dir, name, "1", "model.weir"), []byte(strings.ReplaceAll(text, "T[", dt+"[")))
	kind := map[string]string{"i32": "TYPE_INT32", "f32": "TYPE_FP32"}[dt]
	write(t, filepath.Join(dir, name, "config.pbtxt"), []byte(fmt.Sprintf("sequence_batching {\n"+
		"    max_sequence_idle_microseconds: %d\n    %s\n  }\n", idle.Microseconds(),
		strings.ReplaceAll(config, "TYPE ", kind+" "))))
}

// stepREST sends a step of a sequence as JSON text, and returns the outputs by name.
func stepREST(t testing.TB, url, model, id string, start, end bool, more string, x ...float64) (status int,
	outputs map[string][]float64, text string) {
	t.Helper()
	kind := "FP32"
	if strings.HasSuffix(model, "i32") || model == "controls" {
		kind = "INT32"
	}
	data, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"parameters":{"sequence_id":%s,"sequence_start":%v,"sequence_end":%v},`+
		`"inputs":[{"name":"x","shape":[%d],"datatype":%q,"data":%s}]%s}`, id, start, end, len(x), kind, data, more)
	status, _, answer := post(t, url+"/v2/models/"+model+"/infer", http.Header{}, []byte(body))
	var a struct {
		Outputs []struct {
			Name string
			Data []float64
		}
	}
	json.Unmarshal(answer, &a)
	outputs = map[string][]float64{}
	for _, o := range a.Outputs {
		outputs[o.Name] = o.Data
	}
	return status, outputs, string(answer)
}

// stepper sends a step of a sequence, whose input and output have one element, and returns the output.
type stepper func(model string, id any, start, end bool, x float64) (float64, error)

// steppers returns a stepper for each way into the server; each call makes a stream of its own, until the context ends.
func steppers(t testing.TB, url string) map[string]func(context.Context) stepper {
	c, err := grpc.NewClient(strings.TrimPrefix(url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	client := oip.NewGRPCInferenceServiceClient(c)
	return map[string]func(context.Context) stepper{
		"REST": func(context.Context) stepper {
			return func(model string, id any, start, end bool, x float64) (float64, error) {
				text, _ := json.Marshal(id)
				status, outputs, answer := stepREST(t, url, model, string(text), start, end, "", x)
				if status != 200 {
					return 0, fmt.Errorf("status %d: %s", status, answer)
				}
				return outputs["y"][0], nil
			}
		},
		"gRPC": func(ctx context.Context) stepper {
			return overGRPC(func(r *oip.ModelInferRequest) (*oip.ModelInferResponse, error) { return client.ModelInfer(ctx, r) })
		},
		"stream": func(ctx context.Context) stepper {
			stream, err := client.ModelStreamInfer(ctx)
			if err != nil {
				t.Error(err)
			}
			return overGRPC(func(r *oip.ModelInferRequest) (*oip.ModelInferResponse, error) {
				if err := stream.Send(r); err != nil {
					return nil, err
				}
				answer, err := stream.Recv()
				if err == nil && answer.ErrorMessage != "" {
					err = status.Error(codes.InvalidArgument, answer.ErrorMessage)
				}
				return answer.GetInferResponse(), err
			})
		},
	}
}

// overGRPC returns a stepper of a call.
func overGRPC(call func(*oip.ModelInferRequest) (*oip.ModelInferResponse, error)) stepper {
	return func(model string, id any, start, end bool, x float64) (float64, error) {
		if n, ok := id.(int); ok {
			id = int64(n)
		}
		r := &oip.ModelInferRequest{ModelName: model, Parameters: map[string]*oip.InferParameter{
			"sequence_id": oip.ParameterOf(id), "sequence_start": oip.ParameterOf(start), "sequence_end": oip.ParameterOf(end)},
			Inputs: []*oip.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{1}}}}
		if r.RawInputContents = [][]byte{floats([]float32{float32(x)})}; model == "sum_i32" {
			r.Inputs[0].Datatype = "INT32"
			r.RawInputContents[0] = binary.LittleEndian.AppendUint32(nil, uint32(int32(x)))
		}
		a, err := call(r)
		if err != nil {
			return 0, err
		}
		bits := binary.LittleEndian.Uint32(a.RawOutputContents[0])
		if model == "sum_i32" {
			return float64(int32(bits)), nil
		}
		y := float32(0)
		_, err = binary.Decode(a.RawOutputContents[0], binary.LittleEndian, &y)
		return float64(y), err
	}
}

// TestSequences: a hundred sequences at once, over each way into the server, of which each is the sum of its own steps.
func TestSequences(t *testing.T) {
	_, h := start(t, serve.Options{Folder: stateful(t, time.Minute)})
	for way, open := range steppers(t, h.URL) {
		for _, model := range []string{"sum_f32", "sum_i32", "list"} {
			var all sync.WaitGroup
			for n := range 100 {
				all.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					step, sum, id := open(ctx), 0.0, any(n+1)
					if n%2 == 1 {
						id = fmt.Sprint("sequence ", n)
					}
					for i := range 6 {
						x := float64(n*100 + i)
						y, err := step(model, id, i == 0, i == 5, x)
						if sum += x; err != nil || y != sum {
							t.Errorf("%s, %s, sequence %v, step %d: %v, %v, want %v", way, model, id, i, y, err, sum)
							return
						}
					}
					if _, err := step(model, id, false, false, 1); err == nil ||
						!strings.Contains(err.Error(), fmt.Sprintf("sequence %v to model '%s' must specify the START flag", id, model)) {
						t.Errorf("%s, %s, after the end: %v", way, model, err)
					}
				})
			}
			all.Wait()
		}
	}
	if n, ok := scrape(t, h.URL)[`weir_sequences{model=list,version=1}`]; n != 0 || !ok {
		t.Errorf("%v sequences are alive", n)
	}
}

// TestSequenceOrder: requests of one sequence that are sent at once run one after the other.
func TestSequenceOrder(t *testing.T) {
	_, h := start(t, serve.Options{Folder: stateful(t, time.Minute)})
	for way, open := range steppers(t, h.URL) {
		if _, err := open(t.Context())("sum_f32", 1, true, false, 0); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var got []float64
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				y, err := open(t.Context())("sum_f32", 1, false, false, 1)
				if err != nil {
					t.Errorf("%s: %v", way, err)
				}
				mu.Lock()
				got = append(got, y)
				mu.Unlock()
			})
		}
		all.Wait()
		slices.Sort(got)
		for i, y := range got {
			if y != float64(i+1) {
				t.Fatalf("%s: the steps give %v", way, got)
			}
		}
	}
}

// TestSequenceRefusals: what is no step of a sequence is refused by name, and changes no sequence.
func TestSequenceRefusals(t *testing.T) {
	_, h := start(t, serve.Options{Folder: stateful(t, time.Minute)})
	if status, _, text := stepREST(t, h.URL, "sum_f32", "5", true, false, "", 1); status != 200 {
		t.Fatalf("status %d, %s", status, text)
	}
	sum := 1.0
	for _, c := range []struct {
		name, parameters, input string
		says                    string
	}{
		{"no ID", `"sequence_start":true`, `"shape":[1],"data":[1]`, "must specify a non-zero or non-empty correlation ID"},
		{"ID 0", `"sequence_id":0,"sequence_start":true`, `"shape":[1],"data":[1]`, "non-zero"},
		{"ID empty", `"sequence_id":"","sequence_start":true`, `"shape":[1],"data":[1]`, "non-empty"},
		{"unknown", `"sequence_id":6`, `"shape":[1],"data":[1]`, "sequence 6 to model 'sum_f32' must specify the START flag"},
		{"a text that looks alike", `"sequence_id":"5"`, `"shape":[1],"data":[1]`, "START"},
		{"end without start", `"sequence_id":6,"sequence_end":true`, `"shape":[1],"data":[1]`, "START"},
		{"huge number", `"sequence_id":9223372036854775808`, `"shape":[1],"data":[1]`, "64 bits"},
		{"no whole number", `"sequence_id":5.5`, `"shape":[1],"data":[1]`, "64 bits"},
		{"a boolean", `"sequence_id":true`, `"shape":[1],"data":[1]`, "64 bits"},
		{"huge text", `"sequence_start":true,"sequence_id":"` + strings.Repeat("a", 129) + `"`, `"shape":[1],"data":[1]`,
			"129 bytes"},
		{"no flag", `"sequence_id":5,"sequence_end":1`, `"shape":[1],"data":[1]`, "boolean"},
		{"other shape", `"sequence_id":5`, `"shape":[2],"data":[1,2]`, "x"},
		{"other shape at the end", `"sequence_id":5,"sequence_end":true`, `"shape":[2],"data":[1,2]`, "x"},
		{"a bad start", `"sequence_id":7,"sequence_start":true`, `"shape":[2],"data":[1,2]`, "x"},
		{"which started nothing", `"sequence_id":7`, `"shape":[1],"data":[1]`, "START"},
		{"a state of its own", `"sequence_id":5`, `"shape":[1],"data":[1]},{"name":"sum","shape":[1],"datatype":"FP32",` +
			`"data":[100]`, "no input"},
	} {
		body := fmt.Sprintf(`{"parameters":{%s},"inputs":[{"name":"x","datatype":"FP32",%s}]}`, c.parameters, c.input)
		status, _, text := post(t, h.URL+"/v2/models/sum_f32/infer", nil, []byte(body))
		if status != 400 || !strings.Contains(string(text), c.says) {
			t.Errorf("%s: status %d, %s", c.name, status, text)
		}
		sum++
		if _, y, text := stepREST(t, h.URL, "sum_f32", "5", false, false, "", 1); y["y"] == nil || y["y"][0] != sum {
			t.Fatalf("after %s the sum is %s, not %v", c.name, text, sum)
		}
	}
	if _, y, text := stepREST(t, h.URL, "sum_f32", "5", true, false, "", 3); y["y"] == nil || y["y"][0] != 3 {
		t.Errorf("a second start does not begin again: %s", text)
	}
	if _, y, text := stepREST(t, h.URL, "sum_f32", "-5", true, true, "", 4); y["y"] == nil || y["y"][0] != 4 {
		t.Errorf("a negative ID: %s", text)
	}
}

// TestControls: the model gets the controls of each step as the configuration has them.
func TestControls(t *testing.T) {
	_, h := start(t, serve.Options{Folder: stateful(t, time.Minute)})
	for i, c := range []struct {
		start, end bool
		s, e       float64
	}{{true, false, 7, 0}, {false, false, 3, 0}, {false, true, 3, 1}, {true, true, 7, 1}} {
		_, y, text := stepREST(t, h.URL, "controls", "-77", c.start, c.end, "", 6)
		if fmt.Sprint(y) != fmt.Sprintf("map[e:[%v] i:[77] r:[0.5] s:[%v] y:[6]]", c.e, c.s) {
			t.Errorf("step %d: %v, %s", i, y, text)
		}
	}
	if status, _, text := stepREST(t, h.URL, "controls", `"a"`, true, false, "", 6); status != 400 ||
		!strings.Contains(text, `\"a\" is no INT64`) {
		t.Errorf("a text as a number: status %d, %s", status, text)
	}
}

// TestStatesAsOutputs: metadata list what clients send and get; a state is answered to those who ask for it by name.
func TestStatesAsOutputs(t *testing.T) {
	_, h := start(t, serve.Options{Folder: stateful(t, time.Minute)})
	_, text := get(t, h.URL+"/v2/models/list")
	if want := `"inputs":[{"name":"x","datatype":"FP32","shape":[-1]}],"outputs":[{"name":"y","datatype":"FP32",` +
		`"shape":[]}]}`; !bytes.HasSuffix(bytes.TrimSpace(text), []byte(want)) {
		t.Errorf("metadata: %s", text)
	}
	for model, state := range map[string]string{"list": "all", "sum_f32": "next"} {
		_, y, text := stepREST(t, h.URL, model, "1", true, false, "", 2)
		if len(y) != 1 || y["y"] == nil {
			t.Errorf("%s: %s", model, text)
		}
		_, y, text = stepREST(t, h.URL, model, "1", false, false, `,"outputs":[{"name":"`+state+`"},{"name":"y"}]`, 3)
		if want := map[string]string{"list": "[2 3]", "sum_f32": "[5]"}[model]; fmt.Sprint(y[state]) != want ||
			y["y"] == nil || y["y"][0] != 5 {
			t.Errorf("%s: %s, want %s", model, text, want)
		}
	}
	_, text = get(t, h.URL+"/v2/weir/status")
	for _, want := range []string{`"sequences":1,"sequence_bytes":8`, `"sequences":0,"sequence_bytes":0`,
		`"sequences":1,"sequence_bytes":4`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the status lacks %s: %s", want, text)
		}
	}
}

// TestSequenceTokens: correlation IDs of clients with different tokens are different sequences.
func TestSequenceTokens(t *testing.T) {
	_, h := start(t, serve.Options{Folder: stateful(t, time.Minute), Tokens: []string{"one", "two"}})
	ask := func(token string, begin bool, x float64) string {
		body := fmt.Sprintf(`{"parameters":{"sequence_id":1,"sequence_start":%v},"inputs":[{"name":"x","shape":[1],`+
			`"datatype":"FP32","data":[%v]}]}`, begin, x)
		status, _, text := post(t, h.URL+"/v2/models/sum_f32/infer", http.Header{"Authorization": {"bearer  " + token}},
			[]byte(body))
		var a answer
		if json.Unmarshal(text, &a); status != 200 {
			return fmt.Sprint(status)
		}
		return fmt.Sprint(a.Outputs[0].Data)
	}
	got := []string{ask("one", true, 1), ask("two", false, 10), ask("two", true, 20), ask("one", false, 2),
		ask("two", false, 30), ask("three", false, 1)}
	if want := "[[1] 400 [20] [3] [50] 401]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestIdle: a sequence that rests ends, and its memory is given back; one that steps does not.
func TestIdle(t *testing.T) {
	_, h := start(t, serve.Options{Folder: stateful(t, 300*time.Millisecond)})
	begun := time.Now()
	stepREST(t, h.URL, "sum_f32", "1", true, false, "", 1)
	stepREST(t, h.URL, "list", "2", true, false, "", 1)
	answered := time.Now()
	for n := 2.0; time.Since(begun) < 700*time.Millisecond; n++ {
		status, y, text := stepREST(t, h.URL, "list", "2", false, false, "", 1)
		if status != 200 && time.Since(answered) < 250*time.Millisecond || status == 200 && y["y"][0] != n {
			t.Fatalf("step %v: status %d, %s", n, status, text)
		}
		if status == 200 { // otherwise the test itself has rested
			answered = time.Now()
		}
		time.Sleep(30 * time.Millisecond)
	}
	if status, _, text := stepREST(t, h.URL, "sum_f32", "1", false, false, "", 1); status != 400 ||
		!strings.Contains(text, "sequence 1 ") {
		t.Errorf("after a rest: status %d, %s", status, text)
	}
	now := map[string]float64{}
	for give := time.Now().Add(10 * time.Second); time.Now().Before(give); time.Sleep(20 * time.Millisecond) {
		if now = scrape(t, h.URL); now[`weir_ledger_bytes{account=sequences,kind=sequence}`] == 0 {
			break
		}
	}
	for name, want := range map[string]float64{`weir_ledger_bytes{account=sequences,kind=sequence}`: 0,
		`weir_sequences{model=list,version=1}`: 0, `weir_sequence_bytes{model=list,version=1}`: 0,
		`weir_sequences_started_total{model=list,version=1}`:    1,
		`weir_sequences_idle_total{model=list,version=1}`:       1,
		`weir_sequences_idle_total{model=sum_f32,version=1}`:    1,
		`weir_sequences_started_total{model=sum_f32,version=1}`: 1} {
		if got, ok := now[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// TestSequenceMemory: a step whose state does not fit is refused with the numbers, and its sequence stays as it was.
func TestSequenceMemory(t *testing.T) {
	_, h := start(t, serve.Options{Folder: stateful(t, time.Minute), Limit: 16 << 20})
	if _, _, text := stepREST(t, h.URL, "sum_f32", "1", true, false, "", 1); !strings.Contains(text, "[1]") {
		t.Fatal(text)
	}
	full, ids, x := 0, 0, slices.Repeat([]float64{1}, 40<<10)
	lengths := map[int]int{}
	for i := range 200 {
		id := i%10 + 1
		status, y, text := stepREST(t, h.URL, "list", fmt.Sprint(id), lengths[id] == 0, false, "", x...)
		var r refusal
		json.Unmarshal([]byte(text), &r)
		switch {
		case status == 200:
			if lengths[id] += len(x); y["y"][0] != float64(lengths[id]) {
				t.Fatalf("sequence %d: %s, want %d", id, text, lengths[id])
			}
			ids = max(ids, id)
		case status == 429 && r.Need > 0 && r.Held > 0 && r.Limit > 0 && r.Need+r.Held > r.Limit:
			full++
		default:
			t.Fatalf("status %d, %s", status, text)
		}
	}
	if t.Logf("%d steps refused of 200", full); full < 50 || ids < 10 {
		t.Errorf("only %d steps were refused, of %d sequences", full, ids)
	}
	if _, y, text := stepREST(t, h.URL, "sum_f32", "1", false, true, "", 1); y["y"] == nil || y["y"][0] != 2 {
		t.Errorf("another model's sequence: %s", text)
	}
}

// TestSequenceLeave: a client that leaves while its request waits or runs leaves the sequence as it was.
func TestSequenceLeave(t *testing.T) {
	_, h := start(t, serve.Options{Folder: stateful(t, time.Minute)})
	step := steppers(t, h.URL)["REST"](t.Context())
	if _, err := step("sum_f32", 1, true, false, 0); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*50)*time.Microsecond)
			defer cancel()
			body := `{"parameters":{"sequence_id":1},"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1024]}]}`
			r, err := http.NewRequestWithContext(ctx, "POST", h.URL+"/v2/models/sum_f32/infer", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			if a, err := http.DefaultClient.Do(r); err == nil {
				a.Body.Close()
			}
		})
	}
	all.Wait()
	for i := range 5 {
		y, err := step("sum_f32", 1, false, false, 1)
		if err != nil || int(y)%1024 != i+1 {
			t.Fatalf("after clients left: %v, %v", y, err)
		}
	}
}

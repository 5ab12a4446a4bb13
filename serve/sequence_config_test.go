package serve_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir/serve"
)

// TestSequenceConfigs: what a configuration says about sequences is done, or refused by name at the load.
func TestSequenceConfigs(t *testing.T) {
	const state = `input_name: "sum" output_name: "next" data_type: TYPE_FP32 dims: [ 1 ] `
	first := func(text string) string {
		return `state [ { ` + state + `initial_state: { data_type: TYPE_FP32 name: "n" ` + text + ` } } ]`
	}
	control := func(text string) string { return `control_input [ { name: "x" control [ { ` + text + ` } ] } ]` }
	dir := t.TempDir()
	cases := []struct{ config, says string }{
		{`state [ { ` + state + ` } ] direct { max_queue_delay_microseconds: 5 minimum_slot_utilization: 0.5 }`, ""},
		{`state [ { ` + state + `use_same_buffer_for_input_output: true use_growable_memory: true } ]
			oldest { max_candidate_sequences: 4 preferred_batch_size: [ 2 ] preserve_ordering: true }`, ""},
		{first(`dims: [ 1 ] data_file: "seven"`), ""},
		{``, ""},
		{`iterative_sequence: true`, "iterative_sequence"},
		{`state [ { ` + state + ` }, { ` + state + ` } ]`, `twice: "sum"`},
		{`state [ { input_name: "nobody" output_name: "next" data_type: TYPE_FP32 dims: [ 1 ] } ]`, "nobody"},
		{`state [ { input_name: "sum" output_name: "nobody" data_type: TYPE_FP32 dims: [ 1 ] } ]`, "nobody"},
		{`state [ { input_name: "sum" output_name: "next" data_type: TYPE_INT32 dims: [ 1 ] } ]`, "TYPE_INT32"},
		{`state [ { input_name: "sum" output_name: "next" data_type: TYPE_FP32 dims: [ 2 ] } ]`, "dims [2]"},
		{`state [ { input_name: "sum" output_name: "next" data_type: TYPE_FP32 } ]`, "dims []"},
		{first(`dims: [ 2 ] zero_data: true`), "at the start [2]"},
		{first(`dims: [ 1, 1 ] zero_data: true`), "at the start [1 1]"},
		{first(`dims: [ -1 ] zero_data: true`), "at the start [-1]"},
		{first(`dims: [ 1 ] data_file: "eight"`), "eight"},
		{first(`dims: [ 1 ] data_file: "five bytes"`), "5 bytes"},
		{first(`dims: [ 1 ] data_file: "../config.pbtxt"`), "../config.pbtxt"},
		{first(`dims: [ 1 ] data_file: "/etc/hostname"`), "hostname"},
		{first(`dims: [ 1 ] data_file: "link"`), "link"},
		{first(`dims: [ 1 ] data_file: "."`), "data_file"},
		{`state [ { ` + state + `initial_state: [ { dims: [ 1 ] }, { dims: [ 1 ] } ] } ]`, "2 initial_state"},
		{`control_input [ { name: "x" } ]`, "0 controls"},
		{control(`kind: CONTROL_SEQUENCE_START`), "false and true"},
		{control(`kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0 ]`), "false and true"},
		{control(`kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] int32_false_true: [ 0, 1 ]`), "false and true"},
		{control(`kind: CONTROL_SEQUENCE_START bool_false_true: [ false, true ]`), "BOOL"},
		{control(`kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64`), "ID"},
		{strings.Replace(control(`kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ]`), `"x"`, `"y"`, 1), "no input"},
	}
	for i, c := range cases {
		name := fmt.Sprintf("m%d", i)
		statefulModel(t, dir, name, time.Minute, `(%x: T[1], %sum: T[1]) {
    %y: T[1] = add(%sum, %x)
    %next: T[1] = add(%sum, %x)
    return %y, %next`, "f32", c.config)
		write(t, filepath.Join(dir, name, "initial_state", "seven"), floats([]float32{7}))
		write(t, filepath.Join(dir, name, "initial_state", "five bytes"), []byte("12345"))
		write(t, filepath.Join(dir, name, "outside"), floats([]float32{7}))
		os.Symlink("../outside", filepath.Join(dir, name, "initial_state", "link"))
	}
	cache := t.TempDir()
	for range 2 { // the second time from the cache
		_, h := start(t, serve.Options{Folder: dir, Cache: cache})
		_, _, text := post(t, h.URL+"/v2/repository/index", nil, nil)
		var index []struct{ Name, State, Reason string }
		if err := json.Unmarshal(text, &index); err != nil || len(index) != len(cases) {
			t.Fatalf("%v: %s", err, text)
		}
		for _, m := range index {
			i := 0
			fmt.Sscanf(m.Name, "m%d", &i)
			if c := cases[i]; (c.says == "") != (m.State == "READY") || !strings.Contains(m.Reason, c.says) {
				t.Errorf("%s: %s %s, want %q", c.config, m.State, m.Reason, c.says)
			}
		}
		for name, want := range map[string]string{"m0": "[2]", "m1": "[2]", "m2": "[9]"} {
			if _, y, text := stepREST(t, h.URL, name, "1", true, true, "", 2); fmt.Sprint(y["y"]) != want {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
}

// TestSequenceRows: with max_batch_size, shapes of the configuration leave out the first axis, which is 1 in requests.
// The example of docs/serving.md is served, too.
func TestSequenceRows(t *testing.T) {
	dir := t.TempDir()
	statefulModel(t, dir, "rows", time.Minute, `(%x: T[n, 2], %sum: T[n, 2], %start: T[n, 1]) {
    %y: T[n, 2] = add(%sum, %x)
    %next: T[n, 2] = add(%y, %start)
    return %y, %next`, "f32", "")
	write(t, filepath.Join(dir, "rows", "config.pbtxt"), []byte(`max_batch_size: 4
sequence_batching {
  state [ { input_name: "sum" output_name: "next" data_type: TYPE_FP32 dims: [ 2 ] } ]
  control_input [ { name: "start" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 100 ] } ] } ]
}
input [ { name: "x" data_type: TYPE_FP32 dims: [ 2 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "next" data_type: TYPE_FP32 dims: [ 2 ] } ]
model_warmup [ { name: "w" batch_size: 1
  inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 2 ] zero_data: true } } } ]
`))
	document, err := os.ReadFile("../docs/serving.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(document), "```protobuf\n")
	example, _, _ := strings.Cut(after, "```")
	statefulModel(t, dir, "documented", time.Minute, `(%x: T[n, 64], %past: T[p, 64], %start: T[1]) {
    %present: T[p + n, 64] = concat(%past, %x) {axis = int 0}
    %y: T[1] = abs(%start)
    return %y, %present`, "f32", "")
	write(t, filepath.Join(dir, "documented", "config.pbtxt"), []byte(example))
	_, h := start(t, serve.Options{Folder: dir})
	if status, text := get(t, h.URL+"/v2/models/documented"); status != 200 ||
		!strings.HasSuffix(strings.TrimSpace(string(text)), `"outputs":[{"name":"y","datatype":"FP32","shape":[1]}]}`) {
		t.Errorf("the example of docs/serving.md: status %d, %s", status, text)
	}
	ask := func(rows int, begin bool) (int, string) {
		x := strings.TrimSuffix(strings.Repeat("1,2,", rows), ",")
		status, _, text := post(t, h.URL+"/v2/models/rows/infer", nil, fmt.Appendf(nil, `{"parameters":{"sequence_id":1,`+
			`"sequence_start":%v},"inputs":[{"name":"x","shape":[%d,2],"datatype":"FP32","data":[%s]}]}`, begin, rows, x))
		var a answer
		json.Unmarshal(text, &a)
		if status != 200 {
			return status, string(text)
		}
		return status, fmt.Sprint(a.Outputs)
	}
	if status, text := ask(1, true); !strings.Contains(text, "[1 2]} {next FP32 [1 2] map[] [101 102]") {
		t.Errorf("status %d, %s", status, text)
	}
	if status, text := ask(2, false); status != 400 || !strings.Contains(text, "must specify batch-size 1") {
		t.Errorf("status %d, %s", status, text)
	}
	if status, text := ask(1, false); !strings.Contains(text, "[102 104]} {next FP32 [1 2] map[] [102 104]") {
		t.Errorf("status %d, %s", status, text)
	}
}

// TestSequencesOfBuffers: the buffers of a module of PyTorch are states of each sequence, which begin as in the file.
// The steps of two sequences that interleave are those that PyTorch recorded.
func TestSequencesOfBuffers(t *testing.T) {
	type tensor struct {
		Shape  []int
		Values []float64
	}
	var recorded struct {
		Inputs []tensor
		Steps  []struct{ Outputs []tensor }
	}
	text, err := os.ReadFile("../testdata/torch/states.json")
	if err = errors.Join(err, json.Unmarshal(text, &recorded)); err != nil || len(recorded.Steps) < 3 {
		t.Fatal(err)
	}
	dir, states := t.TempDir(), ""
	data, err := os.ReadFile("../testdata/torch/states.pt2")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct{ name, kind, dims string }{{"count", "INT64", ""}, {"mean", "FP32", "4"},
		{"cache", "FP32", "1, 8, 4"}, {"last", "FP32", "5, 4"}, {"norm.running_mean", "FP32", "4"},
		{"norm.running_var", "FP32", "4"}, {"norm.num_batches_tracked", "INT64", ""}} {
		states += fmt.Sprintf(`state { input_name: "%[1]s" output_name: "%[1]s.new" data_type: TYPE_%[2]s dims: [ %[3]s ] }`,
			s.name, s.kind, s.dims)
	}
	few, _, _ := strings.Cut(states, `state { input_name: "mean"`)
	for name, config := range map[string]string{"buffers": states, "few": few} {
		write(t, filepath.Join(dir, name, "1", "model.pt2"), data)
		write(t, filepath.Join(dir, name, "config.pbtxt"), []byte("sequence_batching {"+config+"}"))
	}
	_, h := start(t, serve.Options{Folder: dir})
	if status, text := get(t, h.URL+"/v2/models/few"); !strings.Contains(string(text), `\"mean\", which all sequences`) {
		t.Errorf("without a state: status %d, %s", status, text)
	}
	var inputs []string
	for i, in := range recorded.Inputs {
		values, _ := json.Marshal(in.Values)
		shape, _ := json.Marshal(in.Shape)
		inputs = append(inputs, fmt.Sprintf(`{"name":%q,"shape":%s,"datatype":%q,"data":%s}`, []string{"x", "at"}[i], shape,
			[]string{"FP32", "INT64"}[i], values))
	}
	for i := range 2 * len(recorded.Steps) {
		step := i / 2
		status, _, text := post(t, h.URL+"/v2/models/buffers/infer", nil, fmt.Appendf(nil, `{"parameters":{"sequence_id":%d,`+
			`"sequence_start":%v},"inputs":[%s]}`, 1+i%2, step == 0, strings.Join(inputs, ",")))
		var a struct{ Outputs []struct{ Data []float64 } }
		wanted := recorded.Steps[step].Outputs
		if err := json.Unmarshal(text, &a); err != nil || status != 200 || len(a.Outputs) != len(wanted) {
			t.Fatalf("step %d: status %d, %s", step, status, text)
		}
		for k, want := range wanted {
			if !slices.EqualFunc(a.Outputs[k].Data, want.Values, func(x, y float64) bool {
				return math.Abs(x-y) <= 1e-5+1e-4*math.Abs(y)
			}) {
				t.Errorf("step %d, output %d: %v, want %v", step, k, a.Outputs[k].Data, want.Values)
			}
		}
	}
}

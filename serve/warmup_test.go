package serve_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirml/weir/serve"
)

// TestWarmup: a model is warmed up with zeros, random numbers, or a file of its folder warmup; another file, or one of
// another size, is the reason why it is not loaded.
func TestWarmup(t *testing.T) {
	files := map[string]string{}
	cases := map[string]struct{ data, says string }{
		"zeros": {"zero_data: true", ""}, "random": {"random_data: true", ""},
		"file":    {`input_data_file: "row"`, ""},
		"missing": {`input_data_file: "nothing"`, "nothing"},
		"above":   {`input_data_file: "../1/model.onnx"`, "escapes"},
		"linked":  {`input_data_file: "link"`, "escapes"},
		"short":   {`input_data_file: "short"`, "has 5 bytes"},
		"whole":   {`input_data_file: "/etc/passwd"`, "escapes"},
		"folder":  {`input_data_file: "."`, "bytes"},
	}
	for name := range cases {
		files[name+"/1/model.onnx"] = digits
	}
	dir := folder(t, files)
	for name, c := range cases {
		write(t, dir+"/"+name+"/config.pbtxt", fmt.Appendf(nil, `max_batch_size: 4 model_warmup { name: "w" batch_size: 2 `+
			`inputs { key: "image" value { data_type: TYPE_FP32 dims: [1, 8, 8] %s } } }`, c.data))
		write(t, dir+"/"+name+"/warmup/row", make([]byte, 256))
		write(t, dir+"/"+name+"/warmup/short", make([]byte, 5))
		if err := os.Symlink("../1/model.onnx", dir+"/"+name+"/warmup/link"); err != nil {
			t.Skip(err)
		}
	}
	_, h := start(t, serve.Options{Folder: dir})
	_, _, body := post(t, h.URL+"/v2/repository/index", nil, nil)
	var list []struct{ Name, State, Reason string }
	if err := json.Unmarshal(body, &list); err != nil || len(list) != len(cases) {
		t.Fatalf("%v: %s", err, body)
	}
	for _, m := range list {
		c := cases[m.Name]
		if (m.State == "READY") != (c.says == "") || !strings.Contains(m.Reason, c.says) {
			t.Errorf("%s is %s: %s", m.Name, m.State, m.Reason)
		}
	}
}

package conformance

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/npy"
)

// doubling returns a model y = x + x over f32[3], an input and its output.
func doubling() (model []byte, x, y *tensor.Tensor) {
	g := &wire.GraphProto{Name: "g", Node: []*wire.NodeProto{{OpType: "Add", Name: "n", Input: []string{"x", "x"},
		Output: []string{"y"}}},
		Input:  []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(3))},
		Output: []*wire.ValueInfoProto{wire.TensorValue("y", 1, wire.Size(3))}}
	m := &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}
	return m.Marshal(), tensor.Of[float32](1, 2, 3), tensor.Of[float32](2, 4, 6)
}

func pb(t *tensor.Tensor) []byte { return wire.FromTensor("", t).Marshal() }

// npyOf returns x as a .npy file.
func npyOf(t *testing.T, x *tensor.Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := npy.Write(&b, x); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// zipOf returns an archive of entries, in pairs of name and contents.
func zipOf(t *testing.T, entries ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(entries); i += 2 {
		f, err := w.Create(entries[i].(string))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(entries[i+1].([]byte)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// verdicts runs the cases at a place, and returns their verdicts.
func verdicts(t *testing.T, place string) string {
	t.Helper()
	cases, err := Find([]string{place})
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, c := range cases {
		r := c.Run(t.Context(), weir.Options{Threads: 1})
		fmt.Fprintf(&b, "%s %s %s\n", r.Name, r.Verdict, r.Why)
	}
	return b.String()
}

// TestPlaces runs cases of every layout, and damaged ones, from an archive and from a folder.
func TestPlaces(t *testing.T) {
	model, x, y := doubling()
	wrong := tensor.Of[float32](2, 4, 6.01)
	bomb := make([]byte, mem.ClaimFloor+(64<<20))
	const set = "/test_data_set_0/"
	for _, tc := range []struct {
		name    string
		entries []any
		want    string
	}{
		{"deep inside", []any{"a/b/test_double/model.onnx", model, "a/b/test_double" + set + "input_0.pb", pb(x),
			"a/b/test_double" + set + "output_0.pb", pb(y), "a/README", []byte("x")}, "test_double pass \n"},
		{"npy", []any{"t/model.onnx", model, "t" + set + "input_0.npy", npyOf(t, x), "t" + set + "output_0.npy", npyOf(t, y)},
			"t pass \n"},
		{"npz, an array a file", []any{"t/model.onnx", model, "t" + set + "input_0.npz", zipOf(t, "a.npy", npyOf(t, x)),
			"t" + set + "output_0.pb", pb(y)}, "t pass \n"},
		{"npz, all in one", []any{"t/model.onnx", model, "t/test_data_0.npz",
			zipOf(t, "input_0.npy", npyOf(t, x), "y.npy", npyOf(t, y))}, "t pass \n"},
		{"two sets, one wrong", []any{"t/model.onnx", model, "t" + set + "input_0.pb", pb(x), "t" + set + "output_0.pb",
			pb(y), "t/test_data_set_1/input_0.pb", pb(x), "t/test_data_set_1/output_0.pb", pb(wrong)},
			"t fail output y: element [2] is 6, not 6.01"},
		{"its own tolerance", []any{"t/model.onnx", model, "t/data.json", []byte(`{"rtol": 0.002, "atol": 1e-7}`),
			"t" + set + "input_0.pb", pb(x), "t" + set + "output_0.pb", pb(wrong)}, "t pass \n"},
		{"no data", []any{"t/model.onnx", model}, "t fail it has no test data"},
		{"an input is missing", []any{"t/model.onnx", model, "t" + set + "output_0.pb", pb(y)},
			"t fail the data have no input_0.pb"},
		{"a network beside", []any{"data/real/test_n/data.json",
			[]byte(`{"url": "onnx/backend/test/data/light/n.onnx", "rtol": 0.01}`), "data/light/n.onnx", model,
			"data/light/n_output_0.pb", pb(tensor.Of[float32](0, 2.0/3, 4.0/3))}, "test_n pass \n"},
		{"a network far away", []any{"data/real/test_n/data.json", []byte(`{"url": "https://example.org/n.onnx"}`)},
			"test_n refused"},
		{"a network out of the tree", []any{"data/real/test_n/data.json",
			[]byte(`{"url": "onnx/backend/test/data/../../../../n.onnx"}`)}, "test_n refused"},
		{"a network that is not there", []any{"data/real/test_n/data.json",
			[]byte(`{"url": "onnx/backend/test/data/light/n.onnx"}`)}, "test_n fail"},
		{"settings that are none", []any{"t/model.onnx", model, "t/data.json", []byte(`{`)},
			"t fail data.json: unexpected end"},
		{"a path that leaves", []any{"../../t/model.onnx", model, "../../t" + set + "input_0.pb", pb(x),
			"../../t" + set + "output_0.pb", pb(y)}, "t pass \n"},
		{"an absolute path", []any{"/t/model.onnx", []byte("no model")}, "t fail"},
		{"a bomb", []any{"t/model.onnx", bomb}, "t fail"},
		{"nothing", []any{"README", []byte("x")}, "nothing at or below"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			data := zipOf(t, tc.entries...)
			place := filepath.Join(dir, "cases.whl")
			if err := os.WriteFile(place, data, 0o666); err != nil {
				t.Fatal(err)
			}
			got := verdicts(t, place)
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("in an archive: %q, %q is expected", got, tc.want)
			}
			if left, err := fs.Glob(os.DirFS(filepath.Dir(dir)), "*/*"); err != nil || len(left) != 1 {
				t.Errorf("files were written: %v, %v", left, err)
			}
			if strings.HasPrefix(tc.name, "a path") || strings.HasPrefix(tc.name, "an absolute") || tc.name == "a bomb" {
				return
			}
			unpacked := filepath.Join(dir, "unpacked")
			for i := 0; i < len(tc.entries); i += 2 {
				file := filepath.Join(unpacked, filepath.FromSlash(tc.entries[i].(string)))
				if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, tc.entries[i+1].([]byte), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if got := verdicts(t, unpacked); !strings.HasPrefix(got, tc.want) {
				t.Errorf("in a folder: %q, %q is expected", got, tc.want)
			}
		})
	}
}

// TestNoPlace: a file that is not an archive, and a path without a file, are errors that name the place.
func TestNoPlace(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("this is no archive"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{text, filepath.Join(dir, "nothing")} {
		if got := verdicts(t, place); !strings.Contains(got, place) {
			t.Errorf("%s: %s", place, got)
		}
	}
}

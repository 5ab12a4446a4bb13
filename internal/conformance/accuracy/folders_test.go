package accuracy

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// TestFolders compiles the tiny models of the room that reads folders of transformers. Texts of several lengths, padded
// after them in one batch, have transformers' answers of each text alone, and the run takes what was predicted.
func TestFolders(t *testing.T) {
	list, err := filepath.Glob("internal/importer/transformers/testdata/models/*.json")
	if err != nil || len(list) < 30 {
		t.Fatalf("%d models, %v", len(list), err)
	}
	for _, name := range list {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".json"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var a struct {
				Cases []struct {
					IDs    [][]int64         `json:"ids"`
					States []json.RawMessage `json:"states"`
					Logits []json.RawMessage `json:"logits"`
				} `json:"cases"`
			}
			if err := json.Unmarshal(text, &a); err != nil {
				t.Fatal(err)
			}
			folder := strings.TrimSuffix(name, ".json")
			got, shape := folderResult(t, folder, a.Cases[0].IDs)
			for i, answer := range append(a.Cases[0].States, a.Cases[0].Logits...) {
				size := len(got) / len(a.Cases[0].IDs)
				if d := apart(got[i*size:(i+1)*size], flat(t, answer)); !(d < 1e-5) {
					t.Errorf("text %d of the result %v differs by %.3g", i, shape, d)
				}
			}
		})
	}
}

// folderResult runs the model of a folder on texts, given as ids, and returns its first result. The run's memory must
// be what was predicted.
func folderResult(t *testing.T, folder string, texts [][]int64) ([]float32, []int) {
	m := weirtest.Must[*weir.Model](t)(weir.Load(folder))
	defer m.Close()
	p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{}))
	defer p.Close()
	var c struct {
		Padding int64 `json:"pad_token_id"`
	}
	if err := json.Unmarshal(weirtest.Must[[]byte](t)(os.ReadFile(folder+"/config.json")), &c); err != nil {
		t.Fatal(err)
	}
	most := 0
	for _, ids := range texts {
		most = max(most, len(ids))
	}
	ids, mask := make([]int64, len(texts)*most), make([]int64, len(texts)*most)
	for i := range ids {
		ids[i] = c.Padding
	}
	for i, text := range texts {
		for j, id := range text {
			ids[i*most+j], mask[i*most+j] = id, 1
		}
	}
	data := map[string][]int64{"input_ids": ids, "attention_mask": mask, "token_type_ids": make([]int64, len(ids))}
	in := weir.Inputs{}
	for _, info := range p.Inputs() {
		x := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(data[info.Name], len(texts), most))
		defer x.Close()
		in[info.Name] = x
	}
	seen := weirtest.Must[weir.Measurement](t)(p.Measure(t.Context(), in))
	peak, err := p.Memory().Peak(1, weir.Dims{"batch": int64(len(texts)), "tokens": int64(most)})
	if err != nil || seen.Peak(1) != peak {
		t.Errorf("%d bytes were predicted, %d measured: %v", peak, seen.Peak(1), err)
	}
	r := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), in))
	defer r.Close()
	return weirtest.Must[[]float32](t)(weir.Copy[float32](r.At(0))), r.At(0).Shape()
}

// flat returns the numbers of a JSON list, or of a list of lists.
func flat(t *testing.T, text json.RawMessage) (list []float64) {
	if json.Unmarshal(text, &list) == nil {
		return list
	}
	var rows [][]float64
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	list = nil
	for _, row := range rows {
		list = append(list, row...)
	}
	return list
}

// apart returns the length of the difference of want and as many numbers of got, as a part of want's.
func apart(got []float32, want []float64) float64 {
	if len(got) < len(want) {
		return math.Inf(1)
	}
	d, n := 0.0, 0.0
	for i, x := range want {
		d, n = d+(float64(got[i])-x)*(float64(got[i])-x), n+x*x
	}
	return math.Sqrt(d / max(n, 1))
}

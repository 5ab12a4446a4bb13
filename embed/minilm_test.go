package embed

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/weirml/weir"
)

// minilm returns the folder of MiniLM, a real model of 91 MB.
func minilm(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("WEIR_MODELS")
	if folder == "" {
		t.Skip("WEIR_MODELS is not set: it names the folder that testdata/models/fetch.py fills with models of pinned " +
			"packages")
	}
	names, err := filepath.Glob(filepath.Join(folder, "all-minilm-l6-v2-*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%s has %q (%v); testdata/models/fetch.py fetches the model", folder, names, err)
	}
	return names[0]
}

// TestMiniLM: the vectors of the real model are those that sentence-transformers gave, with all threads and one; its
// memory is the certificate's.
func TestMiniLM(t *testing.T) {
	var recorded struct {
		Texts   []string `json:"texts"`
		Vectors []string `json:"vectors"`
	}
	data, err := os.ReadFile("testdata/minilm.json")
	if err == nil {
		err = json.Unmarshal(data, &recorded)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, threads := range []int{0, 1} {
		var held, most atomic.Int64
		m := must(t, minilm(t), Options{Compile: weir.Options{Threads: threads, Account: counting{&held, &most}}})
		if got, want := held.Load(), m.Memory().Weights+m.Memory().Files; got != want {
			t.Errorf("the loaded model holds %d bytes; %d are certified", got, want)
		}
		got, err := m.Embed(t.Context(), recorded.Texts)
		if err != nil {
			t.Fatal(err)
		}
		if c := m.Memory(); most.Load() > c.Weights+c.Files+c.Call {
			t.Errorf("the model took %d bytes; %v", most.Load(), c)
		}
		for i, text := range recorded.Texts {
			bytes, err := base64.StdEncoding.DecodeString(recorded.Vectors[i])
			if err != nil {
				t.Fatal(err)
			}
			want := make([]float32, len(bytes)/4)
			for k := range want {
				want[k] = math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*k:]))
			}
			if d := distance(got[i], want); d > 1e-5 {
				t.Errorf("%.40q: the vector differs by %.2g of its length", text, d)
			}
		}
	}
}

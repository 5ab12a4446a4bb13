package classify

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/weirml/weir"
)

// TestArtefact: the answers of a model that is loaded from its artefact are equal to the bit, and it holds what its
// certificate says. Other files in the artefact's place are refused.
func TestArtefact(t *testing.T) {
	r := rand.New(rand.NewPCG(39, 10))
	path := filepath.Join(t.TempDir(), "model.weir")
	for _, name := range []string{"text_distilbert", "cross_encoder"} {
		compiled := must(t, name, nil, Options{})
		var file bytes.Buffer
		if _, err := compiled.Program().WriteTo(&file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		texts := randomTexts(r, 20, 30)
		want, err := compiled.Classify(t.Context(), texts, Scoring{})
		if err != nil {
			t.Fatal(err)
		}
		var held, most atomic.Int64
		m, err := Load(t.Context(), "testdata/models/"+name,
			Options{Artefact: path, Compile: weir.Options{Account: counting{&held, &most}}})
		if err != nil {
			t.Fatal(err)
		}
		if c := m.Memory(); held.Load() != c.Weights+c.Files {
			t.Errorf("%s: the model holds %d bytes, not those of %s", name, held.Load(), c)
		}
		got, err := m.Classify(t.Context(), texts, Scoring{})
		if err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(m.Labels(), compiled.Labels()) {
			t.Errorf("%s: other answers than those of the compiled model (%v)", name, err)
		}
		if err := m.Close(); err != nil || held.Load() != 0 {
			t.Errorf("%s: %d bytes are left (%v)", name, held.Load(), err)
		}
		if err := os.WriteFile(path, file.Bytes()[:file.Len()/3], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(t.Context(), "testdata/models/"+name, Options{Artefact: path}); !errors.Is(err, weir.ErrInput) {
			t.Errorf("%s: an artefact that is cut: %v", name, err)
		}
	}
	_, err := Load(t.Context(), "testdata/models/cross_encoder", Options{Artefact: "../examples/digits/data/digits.onnx"})
	if !errors.Is(err, weir.ErrUnsupported) {
		t.Errorf("the file of another model: %v", err)
	}
}

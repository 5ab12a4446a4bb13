package embed

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/weirml/weir"
)

// written returns the file of a model's artefact.
func written(t *testing.T, m *Model) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.weir")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Program().WriteTo(file); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestArtefact: the vectors of a model that is loaded from its artefact are equal to the bit, it has the same limits,
// and it holds what its certificate says. Other files in the artefact's place are refused.
func TestArtefact(t *testing.T) {
	r := rand.New(rand.NewPCG(39, 9))
	for _, name := range []string{"bert", "t5", "static"} {
		name = "testdata/models/" + name
		compiled := must(t, name, Options{})
		path := written(t, compiled)
		texts := randomTexts(r, 30, 40)
		want, err := compiled.Embed(t.Context(), texts)
		if err != nil {
			t.Fatal(err)
		}
		var held, most atomic.Int64
		m := must(t, name, Options{Artefact: path, Compile: weir.Options{Account: counting{&held, &most}}})
		if c := m.Memory(); held.Load() != c.Weights+c.Files {
			t.Errorf("%s: the model holds %d bytes, not those of %s", name, held.Load(), c)
		}
		if c, from := compiled.Memory(), m.Memory(); c.Call != from.Call || m.MaxTokens() != compiled.MaxTokens() ||
			m.Dimensions() != compiled.Dimensions() {
			t.Errorf("%s: %d tokens, %d dimensions and %s; compiled it has %d, %d and %s", name, m.MaxTokens(), m.Dimensions(),
				from, compiled.MaxTokens(), compiled.Dimensions(), c)
		}
		dir := filepath.Dir(path)
		if err := os.CopyFS(dir+"/copy", os.DirFS(name)); err != nil {
			t.Fatal(err)
		}
		inFS, err := LoadFS(t.Context(), os.DirFS(dir), "copy", Options{Artefact: "model.weir"})
		if err != nil {
			t.Fatal(err)
		}
		defer inFS.Close()
		for _, m := range []*Model{m, inFS} {
			if got, err := m.Embed(t.Context(), texts); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: other vectors than those of the compiled model (%v)", name, err)
			}
		}
		ids, out := [][]int32{{1 << 20}}, [][]float32{make([]float32, m.Dimensions())}
		failed := m.EmbedTokens(t.Context(), 0, ids, out)
		err = compiled.EmbedTokens(t.Context(), 0, ids, out)
		if err == nil || failed == nil || err.Error() != failed.Error() {
			t.Errorf("%s: an id that the model does not have: %v; compiled: %v", name, failed, err)
		}
		if err := m.Close(); err != nil || held.Load() != 0 {
			t.Errorf("%s: %d bytes are left (%v)", name, held.Load(), err)
		}
	}
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	data := read(written(t, must(t, bert, Options{})))
	for name, c := range map[string]struct {
		data []byte
		is   error
	}{
		"cut":     {data[:len(data)/2], weir.ErrInput},
		"empty":   {nil, weir.ErrInput},
		"another": {read("../examples/digits/data/digits.onnx"), weir.ErrUnsupported},
	} {
		path := filepath.Join(t.TempDir(), "model.weir")
		if err := os.WriteFile(path, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(t.Context(), bert, Options{Artefact: path}); !errors.Is(err, c.is) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Load(t.Context(), bert, Options{Artefact: "none.weir"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

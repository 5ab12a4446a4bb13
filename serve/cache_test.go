//go:build unix

package serve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weirml/weir/serve"
)

// cached is a model whose artefacts are tested.
type cached struct {
	name string
	dir  string
	ask  func(h *httptest.Server) error // an error unless the answer is the model's
}

// cachedDigits returns a model of tensors.
func cachedDigits(t *testing.T) cached {
	dir := folder(t, map[string]string{"digits.onnx": digits})
	return cached{"digits", dir, func(h *httptest.Server) error {
		image, scores := picture(t, 1)
		text, err := json.Marshal(image)
		if err != nil {
			return err
		}
		_, _, got := post(t, h.URL+"/v2/models/digits/infer", nil, fmt.Appendf(nil,
			`{"inputs":[{"name":"image","shape":[1,1,8,8],"datatype":"FP32","data":%s}]}`, text))
		var a answer
		if err := json.Unmarshal(got, &a); err != nil || len(a.Outputs) != 1 || !slices.Equal(a.Outputs[0].Data, scores) {
			return fmt.Errorf("the answer is %s, not %v", got, scores)
		}
		return nil
	}}
}

// cachedVectors returns a model that makes vectors of texts.
func cachedVectors(t *testing.T) cached {
	r := referenceOf(t, "bert")
	return cached{"bert", textFolder(t, map[string]string{"bert": "bert"}), func(h *httptest.Server) error {
		status, e := embedded(t, h, map[string]any{"model": "bert", "input": r.Texts})
		if d := apart(e.vectors(t), r.Cases[0].Vectors); status != 200 || !(d <= 1e-5) {
			return fmt.Errorf("status %d, %+v, and vectors that are %v apart", status, e.Error, d)
		}
		return nil
	}}
}

// cachedLabels returns a model that labels texts.
func cachedLabels(t *testing.T) cached {
	dir := textFolder(t, map[string]string{"rank/1": "../../../classify/testdata/models/cross_encoder"})
	body := []byte(`{"model":"rank","query":"a query","documents":["a text","another","a third one"]}`)
	_, h := start(t, serve.Options{Folder: dir})
	_, _, want := post(t, h.URL+"/v1/rerank", nil, body) // TestRank compares it with the reference
	return cached{"rank", dir, func(h *httptest.Server) error {
		if _, _, got := post(t, h.URL+"/v1/rerank", nil, body); !bytes.Contains(got, []byte("relevance_score")) ||
			!bytes.Equal(got, want) {
			return fmt.Errorf("the answer is %s, not %s", got, want)
		}
		return nil
	}}
}

// once serves the model with a cache, and reports whether it came from the cache. Its answer is compared.
func (c cached) once(t *testing.T, cache string) (used bool) {
	t.Helper()
	t.Run("", func(t *testing.T) {
		_, h := start(t, serve.Options{Folder: c.dir, Cache: cache})
		if err := c.ask(h); err != nil {
			t.Error(err)
		}
		_, body := get(t, h.URL+"/v2/weir/status")
		var s struct {
			Models []struct {
				Name  string
				Cache bool `json:"from_cache"`
			}
		}
		if err := json.Unmarshal(body, &s); err != nil || len(s.Models) == 0 {
			t.Fatalf("%v: %s", err, body)
		}
		for _, m := range s.Models {
			used = used || m.Name == c.name && m.Cache
		}
	})
	return used
}

// artefacts returns the files of a cache, the latest first.
func artefacts(t *testing.T, cache string) (paths []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(cache, "*.weir"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(paths, func(a, b string) int {
		x, _ := os.Stat(a)
		y, _ := os.Stat(b)
		if x == nil || y == nil {
			return 0
		}
		return y.ModTime().Compare(x.ModTime())
	})
	return paths
}

// TestCacheIsBounded: a model that changes again and again leaves one artefact beside its own; those of folders that
// nobody serves any more are removed after a month, and those whose writers were killed after an hour.
func TestCacheIsBounded(t *testing.T) {
	model, cache := cachedDigits(t), t.TempDir()
	file := func(name string, age time.Duration) string {
		path := filepath.Join(cache, name)
		write(t, path, []byte("x"))
		if at := time.Now().Add(-age); os.Chtimes(path, at, at) != nil {
			t.Fatal("the time of a file cannot be set")
		}
		return path
	}
	day := 24 * time.Hour
	gone := []string{file("0123456789abcdef-old.weir", 31*day), file("0123456789abcdef-used", 31*day),
		file(".artefact-1", 2*time.Hour), file("old.weir", 31*day)}
	stay := []string{file("1123456789abcdef-new.weir", 29*day), file("2123456789abcdef-inuse.weir", 99*day),
		file("2123456789abcdef-used", 29*day), file(".artefact-2", time.Minute), file("notes.txt", 99*day)}
	for i := range 5 {
		at := time.Now().Add(time.Duration(-i) * time.Minute)
		if err := os.Chtimes(filepath.Join(model.dir, "digits.onnx"), at, at); err != nil {
			t.Fatal(err)
		}
		if model.once(t, cache) {
			t.Error("the artefact of another state of the model was used")
		}
		if !model.once(t, cache) {
			t.Error("a restart compiled the model")
		}
		if n := len(artefacts(t, cache)); n != min(2, i+1)+2 {
			t.Errorf("after %d states of the model the cache has %d artefacts", i+1, n)
		}
	}
	for _, path := range gone {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", filepath.Base(path), err)
		}
	}
	for _, path := range stay {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestHostileCache: whatever lies in the place of an artefact, the model is served with its own answers, and what
// others may have written is not read.
func TestHostileCache(t *testing.T) {
	t.Run("digits", func(t *testing.T) { hostileCache(t, cachedDigits(t), 12) })
	t.Run("vectors", func(t *testing.T) { hostileCache(t, cachedVectors(t), 2) })
	t.Run("labels", func(t *testing.T) { hostileCache(t, cachedLabels(t), 2) })
}

// hostileCache is TestHostileCache for a model, with so many files that are cut, and as many with a wrong bit.
func hostileCache(t *testing.T, model cached, damaged int) {
	cache := t.TempDir()
	model.once(t, cache)
	path := artefacts(t, cache)[0]
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(38, 5))
	put := func(data []byte) error { return os.WriteFile(path, data, 0o600) }
	elsewhere := filepath.Join(t.TempDir(), "good.weir")
	write(t, elsewhere, good)
	strange := t.TempDir()
	other := model
	other.dir = t.TempDir()
	if err := os.CopyFS(other.dir, os.DirFS(model.dir)); err != nil {
		t.Fatal(err)
	}
	other.once(t, strange)
	cases := map[string]func() error{
		"empty":         func() error { return put(nil) },
		"zeros":         func() error { return put(make([]byte, len(good))) },
		"a link":        func() error { return os.Symlink(elsewhere, path) },
		"a device":      func() error { return os.Symlink("/dev/zero", path) },
		"a loop":        func() error { return os.Symlink(path, path) },
		"a pipe":        func() error { return syscall.Mkfifo(path, 0o600) },
		"a folder":      func() error { return os.Mkdir(path, 0o700) },
		"for all":       func() error { return firstError(put(good), os.Chmod(path, 0o666)) },
		"an open cache": func() error { return firstError(put(good), os.Chmod(cache, 0o777)) },
		"not readable":  func() error { return firstError(put(good[:0]), os.Chmod(path, 0)) },
		"another's": func() error {
			data, err := os.ReadFile(artefacts(t, strange)[0])
			name := filepath.Base(path)[:len("0123456789abcdef-0123456789abcdef0123456789abcdef")] +
				filepath.Base(artefacts(t, strange)[0])[len("0123456789abcdef-0123456789abcdef0123456789abcdef"):]
			return firstError(err, os.WriteFile(filepath.Join(cache, name), data, 0o600))
		},
		"a model": func() error {
			data, err := os.ReadFile(digits)
			return firstError(err, put(data[:len(data)-1]))
		},
	}
	if os.Getuid() == 0 {
		cases["a stranger's"] = func() error { return firstError(put(good), os.Chown(path, 4711, -1)) }
	}
	for i := range damaged {
		cases[fmt.Sprint("cut ", i)] = func() error { return put(good[:random.IntN(len(good))]) }
		cases[fmt.Sprint("bit ", i)] = func() error {
			data := slices.Clone(good)
			at := random.IntN(len(data))
			if i%2 == 0 {
				at = random.IntN(min(len(data), 200)) // the header
			}
			data[at] ^= 1 << random.IntN(8)
			return put(data)
		}
	}
	for name, place := range cases {
		if err := firstError(os.Chmod(cache, 0o700), removeAll(artefacts(t, cache)), place()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if model.once(t, cache) {
			t.Errorf("%s: it was read as the model's artefact", name)
		}
	}
	err = firstError(os.Chmod(cache, 0o700), removeAll(artefacts(t, cache)), put(good))
	if err != nil || !model.once(t, cache) {
		t.Errorf("the artefact itself is not used: %v", err)
	}
}

// removeAll removes files and folders.
func removeAll(paths []string) error {
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// firstError returns the first error of a list.
func firstError(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestCachePrecision: the artefact of a model in another precision is used.
func TestCachePrecision(t *testing.T) {
	dir, cache := folder(t, map[string]string{"digits/1/model.onnx": digits}), t.TempDir()
	write(t, filepath.Join(dir, "digits", "config.pbtxt"),
		[]byte(`parameters { key: "weir.precision" value { string_value: "bf16" } }`))
	model := cached{"digits", dir, func(*httptest.Server) error { return nil }}
	if model.once(t, cache) || !model.once(t, cache) {
		t.Error("a restart compiled the model")
	}
}

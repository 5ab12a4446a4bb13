package transformers

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
)

// All allocations of reading a folder, in which what is freed again counts too, take at most so many bytes for each
// byte of its files, and in addition.
const (
	folderFactor   = 64
	folderConstant = 48 << 20
)

// TestMutants reads damaged folders: settings of other types, huge, negative, or missing; damaged tables of tensors;
// lists of parts, and modules, that lead elsewhere. An error is the user's or names what is not supported, nothing
// panics, and no folder takes more memory than its files allow.
func TestMutants(t *testing.T) {
	n := 4000
	if testing.Short() {
		n = 800
	}
	if v := os.Getenv("WEIR_FOLDER_MUTANTS"); v != "" {
		fmt.Sscan(v, &n)
	}
	var folders []fstest.MapFS
	for _, pattern := range []string{"testdata/models/*.json", "../../../embed/testdata/models/*.json",
		"../../../classify/testdata/models/*.json"} {
		list, err := filepath.Glob(pattern)
		if err != nil || len(list) < 10 {
			t.Fatalf("%d models, %v", len(list), err)
		}
		for _, name := range list {
			files := overlaid(t, strings.TrimSuffix(name, ".json"), nil)
			delete(files, "tokenizer.json") // which is not read here
			folders = append(folders, files)
		}
	}
	sound, worst := 0, 0.0
	r := rand.New(rand.NewPCG(7, 39))
	for i := range n {
		m := mutant{r, maps.Clone(folders[r.IntN(len(folders))])}
		for range 1 + r.IntN(2) {
			m.damage()
		}
		bytes := 0
		for _, file := range m.files {
			bytes += len(file.Data)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := m.read(t)
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		if worst = max(worst, float64(used)/float64(bytes+1)); used > uint64(bytes)*folderFactor+folderConstant {
			t.Errorf("mutant %d: %d bytes of files take %d", i, bytes, used)
		}
		if err == nil {
			sound++
		} else if errors.Is(err, diag.ErrInternal) || !errors.Is(err, diag.ErrInput) && !errors.Is(err, diag.ErrUnsupported) {
			t.Errorf("mutant %d: the error is not typed: %v", i, err)
		}
	}
	t.Logf("%d of %d mutants are read; %.0f times their size at most", sound, n, worst)
	if sound == 0 || sound == n {
		t.Errorf("%d of %d mutants are read", sound, n)
	}
}

// mutant is a folder to be damaged.
type mutant struct {
	*rand.Rand
	files fstest.MapFS
}

// read reads the folder.
func (m mutant) read(t *testing.T) error {
	f := OpenFS(t.Context(), m.files, ".")
	defer f.Close()
	module, err := Parse(f)
	if err == nil {
		err = ir.Verify(module)
	}
	return err
}

// damage damages one file.
func (m mutant) damage() {
	names := slices.Sorted(maps.Keys(m.files))
	name := names[m.IntN(len(names))]
	if _, ok := m.files["config.json"]; ok && m.IntN(2) == 0 {
		name = "config.json"
	}
	data := slices.Clone(m.files[name].Data)
	switch kind := m.IntN(10); {
	case kind == 0:
		delete(m.files, name)
		return
	case kind == 1:
		data = m.bytes(data)
	case kind == 2: // a list of parts that leads elsewhere, in place of the whole
		delete(m.files, "model.safetensors")
		to := []string{"../x", "/etc/passwd", "a/../../x", "", ".", "config.json", "model.safetensors", "x\x00y", `..\x`,
			strings.Repeat("d/", 3000) + "x"}[m.IntN(10)]
		name, data = "model.safetensors.index.json", marshalled(map[string]any{"weight_map": map[string]any{"a": to,
			"b": m.value(0)}})
	case path.Ext(name) == ".safetensors":
		data = m.table(data)
	case path.Ext(name) == ".json":
		data = m.json(name, data)
	}
	m.files[name] = &fstest.MapFile{Data: data}
}

// bytes changes, removes or repeats some bytes.
func (m mutant) bytes(data []byte) []byte {
	if len(data) == 0 {
		return []byte{1, 2, 3}
	}
	switch at := m.IntN(len(data)); m.IntN(4) {
	case 0:
		return data[:at]
	case 1:
		data[at] ^= 1 << m.IntN(8)
	case 2:
		data = slices.Insert(data, at, data[:min(at, 64)]...)
	case 3:
		data = slices.Delete(data, at, min(at+1+m.IntN(8), len(data)))
	}
	return data
}

// value returns a value that a setting hardly means.
func (m mutant) value(depth int) any {
	switch m.IntN(14) {
	case 0:
		return nil
	case 1:
		return []int64{-1, 0, 1, 2, 3, 1 << 31, -1 << 31, 1 << 62, -1 << 62, -1 << 63}[m.IntN(10)]
	case 2:
		return []any{1e308, -1e308, 1e-308, 0.5, -0.0, 1.5e19, 7.5}[m.IntN(7)]
	case 3:
		return m.IntN(2) == 0
	case 4:
		return []any{"", "gelu", "relu", "yarn", "linear", "llama3", "dynamic", "c2p|p2c", "gated-gelu", "../..",
			"\x00"}[m.IntN(11)]
	case 5:
		return strings.Repeat("x", 1<<m.IntN(17))
	case 6:
		return slices.Repeat([]any{m.IntN(5)}, m.IntN(5000))
	case 7:
		return slices.Repeat([]any{"sliding_attention"}, m.IntN(100))
	case 8:
		return map[string]any{"rope_type": []any{"yarn", "llama3", "linear", 5}[m.IntN(4)], "factor": m.value(5),
			"rope_theta": m.value(5), "original_max_position_embeddings": m.value(5), "low_freq_factor": m.value(5),
			"beta_fast": m.value(5), "attention_factor": m.value(5), "partial_rotary_factor": m.value(5)}
	case 9:
		if depth > 3 {
			return "deep"
		}
		return map[string]any{"full_attention": m.value(depth + 1), "sliding_attention": m.value(depth + 1)}
	}
	return m.IntN(200) - 20
}

// json changes values of a file of settings, and adds some that the readers know.
func (m mutant) json(name string, data []byte) []byte {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return m.bytes(data)
	}
	if list, ok := v.([]any); ok && len(list) > 0 {
		at := m.IntN(len(list))
		switch m.IntN(5) {
		case 0:
			list = slices.Repeat(list[at:], 1+m.IntN(3000))
		case 1:
			list[at] = m.value(0)
		default:
			if module, ok := list[at].(map[string]any); ok {
				module["type"] = "a." + []string{"Transformer", "Pooling", "Dense", "LayerNorm", "Normalize", "Router", "",
					"StaticEmbedding"}[m.IntN(8)]
				if m.IntN(2) == 0 {
					module["path"] = []any{"../..", "/", "1_Pooling", "", "a/b", "\\", 5, nil}[m.IntN(8)]
				}
			}
		}
		return marshalled(list)
	}
	settings, ok := v.(map[string]any)
	if !ok || len(settings) == 0 {
		return marshalled(m.value(0))
	}
	keys := slices.Sorted(maps.Keys(settings))
	if path.Base(name) == "config.json" {
		keys = append(keys, settingNames...)
	}
	for range 1 + m.IntN(3) {
		key := keys[m.IntN(len(keys))]
		switch {
		case key == "model_type" && m.IntN(4) > 0:
			types := slices.Sorted(maps.Keys(encoders))
			settings[key] = types[m.IntN(len(types))]
		case m.IntN(6) == 0:
			delete(settings, key)
		default:
			settings[key] = m.value(0)
		}
	}
	return marshalled(settings)
}

// table changes the table of a file of tensors.
func (m mutant) table(data []byte) []byte {
	if len(data) < 8 {
		return m.bytes(data)
	}
	n := binary.LittleEndian.Uint64(data)
	var table map[string]map[string]any
	if n > uint64(len(data)-8) || json.Unmarshal(data[8:8+n], &table) != nil || table == nil {
		return m.bytes(data)
	}
	if len(table) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(table))
	name := names[m.IntN(len(names))]
	e := table[name]
	switch m.IntN(7) {
	case 0:
		delete(table, name)
	case 1:
		table[names[m.IntN(len(names))]] = e
	case 2:
		e["dtype"] = []any{"F32", "F16", "BF16", "F64", "I64", "U8", "BOOL", "F8_E4M3", "I4", 3}[m.IntN(10)]
	case 3:
		e["shape"] = []any{[]any{}, []any{1}, []any{0, 5}, []int64{1 << 40, 1 << 40}, []any{-1}, []any{2, 3, 4}, 5}[m.IntN(7)]
	case 4:
		if shape, ok := e["shape"].([]any); ok { // as many elements in another shape
			slices.Reverse(shape)
			e["shape"] = append(shape, 1)[:len(shape)+m.IntN(2)]
		}
	case 5:
		e["data_offsets"] = []any{m.value(4), m.value(4)}
	case 6:
		table["x"+strings.Repeat(".y", m.IntN(50))] = map[string]any{"dtype": "F32", "shape": []any{0},
			"data_offsets": []any{0, 0}}
	}
	text := marshalled(table)
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, data[8+n:])
}

func marshalled(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// settingNames are the names of all settings of config.json that are read.
var settingNames = namesOf(reflect.TypeFor[config]())

// namesOf returns the JSON names of a struct's fields.
func namesOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			names = append(names, namesOf(f.Type)...)
		} else {
			names = append(names, f.Tag.Get("json"))
		}
	}
	return names
}

// TestOutside reads folders of which a part lies elsewhere. Only a Hugging Face cache's links are followed, from a
// revision to the blobs beside.
func TestOutside(t *testing.T) {
	source := "testdata/models/gte"
	for _, c := range []struct {
		name string
		link func(root, kind string) string // what a file of the model is a link to
		fine bool
	}{
		{"a cache's blob", func(root, kind string) string { return "../../blobs/" + kind }, true},
		{"a file beside", func(root, kind string) string { return kind + ".real" }, true},
		{"outside the cache", func(root, kind string) string { return "../../../outside/" + kind }, false},
		{"an absolute path", func(root, kind string) string { return filepath.Join(root, "cache/blobs", kind) }, false},
		{"outside and back", func(root, kind string) string { return "../../../cache/blobs/" + kind }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			model := filepath.Join(root, "cache", "snapshots", "0123abcd")
			for _, kind := range []string{"config.json", "model.safetensors"} {
				data, err := os.ReadFile(filepath.Join(source, kind))
				if err != nil {
					t.Fatal(err)
				}
				for _, at := range []string{filepath.Join(root, "cache/blobs", kind), filepath.Join(root, "outside", kind),
					filepath.Join(model, kind+".real")} {
					if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, data, 0o600)); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Symlink(filepath.FromSlash(c.link(root, kind)), filepath.Join(model, kind)); err != nil {
					t.Skip("links: ", err)
				}
			}
			if err := opened(t, model); (err == nil) != c.fine || err != nil && !errors.Is(err, diag.ErrInput) {
				t.Errorf("the error is %v", err)
			}
			// The same folder is not a cache's under another name.
			plain := filepath.Join(root, "cache", "models", "0123abcd")
			if err := errors.Join(os.MkdirAll(filepath.Dir(plain), 0o755), os.Rename(model, plain)); err != nil {
				t.Fatal(err)
			}
			if err := opened(t, plain); (err == nil) != (c.name == "a file beside") {
				t.Errorf("out of a cache, the error is %v", err)
			}
		})
	}
}

// opened reads the folder of a path.
func opened(t *testing.T, name string) error {
	f, err := Open(t.Context(), name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = Parse(f)
	return err
}

// TestPaths asks for files by paths that are none of the folder.
func TestPaths(t *testing.T) {
	files := overlaid(t, "testdata/models/gte", nil)
	sub := fstest.MapFS{}
	for name, file := range files {
		sub["a/model/"+name] = file
		sub["a/"+name] = file
	}
	f := OpenFS(t.Context(), sub, "a/model")
	defer f.Close()
	for _, name := range []string{"../config.json", "/config.json", "x/../../config.json", "..", "config.json/..",
		"./config.json", "config.json\x00", "", "a//b"} {
		if _, err := f.Read(name); !errors.Is(err, diag.ErrInput) {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := f.Map(name); !errors.Is(err, diag.ErrInput) {
			t.Errorf("%q is mapped: %v", name, err)
		}
		if f.Has(name) {
			t.Errorf("%q is there", name)
		}
	}
	if _, err := f.Read("config.json"); err != nil || !f.Has("model.safetensors") {
		t.Error(err)
	}
	if _, err := fs.Stat(sub, "a/config.json"); err != nil {
		t.Error(err)
	}
}

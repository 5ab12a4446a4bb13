package transformers

import (
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// answers are a reference's results for a folder of test data.
type answers struct {
	Left  bool     `json:"left"` // padding before a text must not change its answer
	Cases []answer `json:"cases"`
}

// answer is what a model makes of texts, with some files of the folder replaced; null removes one.
type answer struct {
	Name    string             `json:"name"`
	Files   map[string]*string `json:"files"`
	IDs     [][]int64          `json:"ids"` // nil: the first case's
	Vectors [][]float64        `json:"vectors"`
	Logits  []json.RawMessage  `json:"logits"` // of a text, or of its tokens
	States  []json.RawMessage  `json:"states"` // of tokens
}

// TestReference interprets the graph of each tiny model, for texts of several lengths in one batch, padded after and
// before the text. The answers are those of transformers, and of sentence-transformers for vectors, for each text
// alone.
func TestReference(t *testing.T) {
	for _, folder := range []string{"../../../embed", "../../../classify", "."} {
		list, err := filepath.Glob(folder + "/testdata/models/*.json")
		if err != nil || len(list) < 10 {
			t.Fatalf("%d models of %s, %v", len(list), folder, err)
		}
		for _, name := range list {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var a answers
			if err := json.Unmarshal(text, &a); err != nil {
				t.Fatal(err)
			}
			name = strings.TrimSuffix(name, ".json")
			if list, _ := filepath.Glob(name + "/*.safetensors"); len(list) == 0 {
				continue // an ONNX file
			}
			a.Left = a.Left || strings.Contains(folder, "embed") && relative(name)
			for i, c := range a.Cases {
				if c.IDs == nil {
					c.IDs = a.Cases[0].IDs
				}
				count := len(c.Vectors) + len(c.Logits) + len(c.States)
				if count == 0 { // the first case's, aggregated otherwise
					continue
				}
				c.IDs = c.IDs[:count]                 // variants answer the first ones
				if testing.Short() && folder != "." { // the interpreter takes seconds; package embed runs all of its cases
					if i > 1 {
						break
					}
					c.shorten(i == 0 && slices.Contains([]string{"modernbert", "gemma3_text"}, filepath.Base(name)))
				}
				t.Run(filepath.Base(name)+"/"+c.Name, func(t *testing.T) {
					t.Parallel()
					c.compare(t, name, a.Left)
				})
			}
		}
	}
}

// shorten keeps a few short texts, and one long one if it is asked for.
func (c *answer) shorten(long bool) {
	few := min(4, len(c.IDs))
	c.IDs = slices.Clone(c.IDs)
	if long {
		c.Vectors = slices.Clone(c.Vectors)
		c.IDs[few], c.Vectors[few] = c.IDs[7], c.Vectors[7]
		few++
	}
	c.IDs = c.IDs[:few]
}

// compare interprets a case.
func (c answer) compare(t *testing.T, folder string, left bool) {
	files := overlaid(t, folder, c.Files)
	m := parsed(t, files)
	if asks(m, PromptTokens) {
		t.Skip("package embed tests prompts that are left out, as it counts their tokens")
	}
	for _, left := range slices.Compact([]bool{false, left}) {
		pairs := c.Logits != nil && strings.Contains(folder, "classify")
		results, err := ir.Evaluate(m, batch(m, c.IDs, padding(files), left, pairs), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := results[len(results)-1]
		for i, ids := range c.IDs {
			if d := distance(c.of(got, i, left), c.want(t, i)); !(d < 1e-5) {
				t.Errorf("text %d, of %d tokens, padded on the left %v: differs by %.3g", i, len(ids), left, d)
			}
		}
	}
}

// want returns a text's vector, its logits, or those of its tokens.
func (c answer) want(t *testing.T, text int) (list []float64) {
	if c.Vectors != nil {
		return c.Vectors[text]
	}
	answer := append(c.Logits, c.States...)[text]
	if json.Unmarshal(answer, &list) == nil {
		return list
	}
	var tokens [][]float64
	if err := json.Unmarshal(answer, &tokens); err != nil {
		t.Fatal(err)
	}
	return slices.Concat(tokens...)
}

// of returns what the model has for a text.
func (c answer) of(result *tensor.Tensor, text int, left bool) (list []float64) {
	size := result.Len() / result.Shape()[0]
	begin, end := int64(text)*size, int64(text+1)*size
	if result.Rank() == 3 { // without padding
		used := int64(len(c.IDs[text])) * result.Shape()[2]
		if left {
			begin = end - used
		}
		end = begin + used
	}
	for i := begin; i < end; i++ {
		list = append(list, result.Float(i))
	}
	return list
}

// separator is the id after which the second text of a pair begins, in the test data's tokenizers that have types.
const separator = 3

// relative reports whether padding before a text must not change its vector, as positions are relative or follow from
// the ids.
func relative(name string) bool {
	for _, kind := range []string{"modernbert", "nomic", "llama", "mistral", "qwen", "gemma", "t5", "roberta"} {
		if strings.Contains(name, kind) {
			return true
		}
	}
	return false
}

// asks reports whether a module has an input of a name.
func asks(m *ir.Module, name string) bool {
	for _, p := range m.Main.Body.Params {
		if p.Name == name {
			return true
		}
	}
	return false
}

// parsed returns the module of a folder.
func parsed(t testing.TB, files fs.FS) *ir.Module {
	f := OpenFS(t.Context(), files, ".")
	t.Cleanup(func() { f.Close() })
	m, err := Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// overlaid returns a folder with some files replaced.
func overlaid(t testing.TB, folder string, with map[string]*string) fstest.MapFS {
	files := fstest.MapFS{}
	err := filepath.WalkDir(folder, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		rest, _ := filepath.Rel(folder, name)
		files[filepath.ToSlash(rest)] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range with {
		delete(files, name)
		if text != nil {
			files[name] = &fstest.MapFile{Data: []byte(*text)}
		}
	}
	return files
}

// padding returns the id of the token that pads.
func padding(files fstest.MapFS) (id int64) {
	var c struct {
		ID *int64 `json:"pad_token_id"`
	}
	if file := files["config.json"]; file != nil && json.Unmarshal(file.Data, &c) == nil && c.ID != nil {
		return *c.ID
	}
	return 0
}

// distance returns the length of a difference, as a part of want's; that of a short want, of 1.
func distance(got, want []float64) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	var d, n float64
	for i, x := range want {
		d, n = d+(got[i]-x)*(got[i]-x), n+x*x
	}
	if d == 0 {
		return 0
	}
	return math.Sqrt(d / max(n, 1))
}

// batch returns the inputs of a module for texts of several lengths.
func batch(m *ir.Module, texts [][]int64, padding int64, left, pairs bool) (list []*tensor.Tensor) {
	most := 0
	for _, ids := range texts {
		most = max(most, len(ids))
	}
	for _, p := range m.Main.Body.Params {
		x := make([]int64, len(texts)*most)
		for i, ids := range texts {
			row := x[i*most : (i+1)*most]
			if p.Name == InputIDs {
				for j := range row {
					row[j] = padding
				}
			}
			if left {
				row = row[most-len(ids):]
			}
			second := int64(0)
			for j, id := range ids {
				row[j] = map[string]int64{InputIDs: id, AttentionMask: 1, TokenTypes: second}[p.Name]
				if id == separator && pairs {
					second = 1
				}
			}
		}
		v, err := tensor.Of(x...).Reshape(int64(len(texts)), int64(most))
		if err != nil {
			panic(err)
		}
		list = append(list, v)
	}
	return list
}

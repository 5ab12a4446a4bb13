package embed

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
)

// reference is what sentence-transformers answers for the models of a folder; testdata/reference.py writes it.
type reference struct {
	Texts []string `json:"texts"`
	Cases []struct {
		Name    string             `json:"name"`
		Files   map[string]*string `json:"files"` // laid over the folder; null: removed
		Prompt  *string            `json:"prompt"`
		Text    *string            `json:"text"` // of a prompt that is not one of the model's
		IDs     [][]int32          `json:"ids"`
		Vectors [][]float32        `json:"vectors"`
	} `json:"cases"`
}

// references returns the references of testdata by their names.
func references(t *testing.T) map[string]reference {
	t.Helper()
	names, err := filepath.Glob("testdata/models/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no references: %v", err)
	}
	all := map[string]reference{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var r reference
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[strings.TrimSuffix(filepath.Base(name), ".json")] = r
	}
	return all
}

// over returns a folder of testdata with files laid over it.
func over(t *testing.T, model string, files map[string]*string) fs.FS {
	t.Helper()
	all := fstest.MapFS{}
	root := filepath.Join("testdata/models", model)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		at, err := filepath.Rel(root, name)
		all[filepath.ToSlash(at)] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if text == nil {
			delete(all, name)
		} else {
			all[name] = &fstest.MapFile{Data: []byte(*text)}
		}
	}
	return all
}

// TestReference: vectors and ids are those of sentence-transformers, whether texts are computed together or alone.
func TestReference(t *testing.T) {
	for name, r := range references(t) {
		ids := r.Cases[0].IDs
		for _, c := range r.Cases {
			t.Run(name+"/"+c.Name, func(t *testing.T) {
				o := Options{}
				if c.Prompt != nil {
					o.PromptName = *c.Prompt
				}
				if c.Text != nil {
					o.Prompt, o.NoPrompt = *c.Text, *c.Text == ""
				}
				if c.Name == "model2vec's own" { // what model2vec does, rather than sentence-transformers
					c.Files, c.IDs = map[string]*string{"modules.json": nil}, nil // the ids are not cut as texts are
				}
				m, err := LoadFS(t.Context(), over(t, name, c.Files), ".", o)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				want := c.IDs
				if want == nil && c.Name != "model2vec's own" {
					want = ids
				}
				texts := r.Texts[:len(c.Vectors)] // variants answer the first ones
				got, err := m.Embed(t.Context(), texts)
				if err != nil {
					t.Fatal(err)
				}
				for i, text := range texts {
					if list, err := m.encoder.Encode(m.byDefault + text); err != nil ||
						want != nil && !slices.Equal(list.IDs, want[i]) {
						t.Fatalf("%q has the ids %v (%v); want %v", text, list.IDs, err, want[i])
					}
					alone, err := m.Embed(t.Context(), []string{text})
					if err != nil {
						t.Fatal(err)
					}
					if d := distance(got[i], c.Vectors[i]); d > 1e-5 {
						t.Errorf("%q: the vector differs by %.2g of its length", text, d)
					}
					if d := distance(alone[0], c.Vectors[i]); d > 1e-5 {
						t.Errorf("%q alone: the vector differs by %.2g of its length", text, d)
					}
				}
			})
		}
	}
}

// distance returns the distance of two vectors, as a share of the second's length; +Inf if their extents differ.
func distance(x, y []float32) float64 {
	if len(x) != len(y) {
		return math.Inf(1)
	}
	sum := 0.0
	for i := range x {
		d := float64(x[i]) - float64(y[i])
		sum += d * d
	}
	return math.Sqrt(sum) / max(length(y), 1e-9)
}

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"
)

const samples = "testdata/samples"

// expected is magika's answer for a sample; samples.py wrote it.
type expected struct {
	File, Label, Medium, Guess, Model string
	Score                             float64
	Description                       string
	Input                             string // SHA-256 of the model's input, empty if the model is not asked
}

func loadExpected(t *testing.T) []expected {
	t.Helper()
	var rows []expected
	if err := readJSON("testdata/expected.json", &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// sizes are the numbers of config.min.json that the tests without the model need.
var sizes = config{BegSize: 1024, EndSize: 1024, BlockSize: 4096, MinFileSize: 8, PaddingToken: 256, Medium: 0.5,
	Labels: []string{"c", "markdown", "png", "randombytes"}, Thresholds: map[string]float64{"markdown": 0.75},
	Overwrite: map[string]string{"randombytes": "unknown"}}

// TestFeatures compares the model's input with the bytes that magika takes from each sample.
func TestFeatures(t *testing.T) {
	asked := 0
	for _, want := range loadExpected(t) {
		content, err := os.ReadFile(filepath.Join(samples, want.File))
		if err != nil {
			t.Fatal(err)
		}
		f, err := sizes.extract(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if f.tokens != nil {
			asked++
			var raw []byte
			for _, token := range f.tokens {
				raw = binary.LittleEndian.AppendUint32(raw, uint32(token))
			}
			sum := sha256.Sum256(raw)
			got = hex.EncodeToString(sum[:])
		} else if a := new(labels).few(f.head); a.Label != want.Label {
			t.Errorf("%s: decided without the model as %s, want %s", want.File, a.Label, want.Label)
		}
		if got != want.Input {
			t.Errorf("%s: model's input has SHA-256 %q, want %q", want.File, got, want.Input)
		}
	}
	if asked < 60 {
		t.Errorf("only %d samples reach the model", asked)
	}
}

func TestExtractShortFile(t *testing.T) {
	if _, err := sizes.extract(bytes.NewReader(make([]byte, 100)), 200); err == nil {
		t.Error("a file shorter than its size gave no error")
	}
}

func TestDecide(t *testing.T) {
	l := labels{config: sizes, kinds: map[string]kind{"c": {IsText: true}, "markdown": {IsText: true}, "png": {}}}
	for _, test := range []struct {
		name   string
		scores []float32
		mode   mode
		want   string
	}{
		{"sure", []float32{0.9, 0.05, 0.05, 0}, highConfidence, "c"},
		{"the first of equals", []float32{0.5, 0.5, 0, 0}, highConfidence, "c"},
		{"unsure text", []float32{0.4, 0.3, 0.3, 0}, highConfidence, "txt"},
		{"unsure binary", []float32{0.3, 0.3, 0.4, 0}, mediumConfidence, "unknown"},
		{"a threshold of its own", []float32{0.3, 0.7, 0, 0}, highConfidence, "txt"},
		{"which the medium mode ignores", []float32{0.3, 0.7, 0, 0}, mediumConfidence, "markdown"},
		{"a guess", []float32{0.3, 0.4, 0.3, 0}, bestGuess, "markdown"},
		{"renamed", []float32{0, 0, 0, 1}, bestGuess, "unknown"},
	} {
		if got := l.decide(test.scores, test.mode); got.Label != test.want {
			t.Errorf("%s: %s, want %s", test.name, got.Label, test.want)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	for name, change := range map[string]func(*config){
		"middle": func(c *config) {
			c.MidSize = 1
		}, "offsets": func(c *config) { c.AtOffsets = true }, "no labels": func(c *config) { c.Labels = nil },
		"negative": func(c *config) {
			c.EndSize = -1
		}, "small block": func(c *config) { c.BlockSize = 1000 }, "huge block": func(c *config) { c.BlockSize = 1 << 21 },
	} {
		c := sizes
		change(&c)
		if c.check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	c := sizes
	if err := c.check(); err != nil {
		t.Error(err)
	}
}

// modelFolder returns the folder that fetch.py wrote; without it the test is skipped, because the model is not in the
// repository.
func modelFolder(t *testing.T) string {
	t.Helper()
	folder := filepath.Join("..", "..", ".cache", "magika")
	if _, err := os.Stat(filepath.Join(folder, "model.onnx")); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the model is not there; python3 examples/filetype/fetch.py fetches it")
	}
	return folder
}

// TestSameAsMagika compares label and score of every sample with magika's, in each mode.
func TestSameAsMagika(t *testing.T) {
	d, err := open(t.Context(), modelFolder(t), highConfidence)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	rows := loadExpected(t)
	paths, types := make([]string, len(rows)), map[string]bool{}
	for i, row := range rows {
		paths[i] = filepath.Join(samples, row.File)
		types[row.Label] = true
	}
	answers, unread, err := d.identify(t.Context(), paths)
	if err != nil || unread != nil {
		t.Fatal(err, unread)
	}
	// The model computes variances as E[x²] − E[x]², of values whose mean is far larger than their deviation: another
	// order of rounding changes the fourth digit of the scores.
	const tolerance = 5e-4
	worst := 0.0
	for i, want := range rows {
		got, asked := answers[paths[i]], want.Input != ""
		if off := math.Abs(got.Score - want.Score); got.Label != want.Label || !(off <= tolerance) {
			t.Errorf("%s: %+v, want %s %v", want.File, got, want.Label, want.Score)
		} else {
			worst = max(worst, off)
		}
		if asked && got.Model != want.Model || !asked && got.Model != "" {
			t.Errorf("%s: the model says %q, want %q (asked: %v)", want.File, got.Model, want.Model, asked)
		}
		if text := d.labels.describe(got.Label); text != want.Description {
			t.Errorf("%s: described as %q, want %q", want.File, text, want.Description)
		}
		if !asked {
			continue
		}
		if medium, guess := d.labels.settle(got, mediumConfidence), d.labels.settle(got, bestGuess); medium != want.Medium ||
			guess != want.Guess {
			t.Errorf("%s: in the other modes %s and %s, want %s and %s", want.File, medium, guess, want.Medium, want.Guess)
		}
	}
	t.Logf("%d files of %d types, scores differ by at most %.1e", len(rows), len(types), worst)
}

func TestUnreadable(t *testing.T) {
	d, err := open(t.Context(), modelFolder(t), highConfidence)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	missing := filepath.Join(t.TempDir(), "missing")
	answers, unread, err := d.identify(t.Context(), []string{missing, "testdata", filepath.Join(samples, "page.pdf")})
	if err != nil || !errors.Is(unread, fs.ErrNotExist) {
		t.Fatalf("error %v, unread %v", err, unread)
	}
	if answers["testdata"].Label != "directory" || answers[filepath.Join(samples, "page.pdf")].Label != "pdf" ||
		len(answers) != 2 {
		t.Errorf("answers %v", answers)
	}
}

func TestMissingModel(t *testing.T) {
	err := identifyAll(t.Context(), t.TempDir(), []string{"main.go"}, highConfidence)
	if !errors.Is(err, fs.ErrNotExist) || !bytes.Contains([]byte(err.Error()), []byte("fetch.py")) {
		t.Errorf("error %v, want one that names fetch.py", err)
	}
}

func TestBadTables(t *testing.T) {
	folder := t.TempDir()
	kinds, _ := json.Marshal(map[string]kind{})
	for name, content := range map[string]string{"config.min.json": "{", "content_types_kb.min.json": string(kinds)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := loadLabels(folder); err == nil {
		t.Error("a damaged table gave no error")
	}
}

package catalogue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirml/weir"
	"github.com/weirml/weir/classify"
	"github.com/weirml/weir/embed"
	"github.com/weirml/weir/serve/internal/ledger"
	"github.com/weirml/weir/serve/internal/oip"
	"github.com/weirml/weir/tokenizer"
)

// The names of the input and the output that metadata show of a model of texts: vectors of texts, or scores of labels.
const (
	TextInput  = "text"
	TextOutput = "embedding"
	TextScores = "score"
)

// TokensTogether is about the number of tokens that a run of a model of texts has.
const TokensTogether = 512

// Texts is a version's model of texts: a folder of sentence-transformers, transformers or model2vec. One of Embedder
// and Classifier is there.
type Texts struct {
	TextModel
	Embedder   *embed.Model
	Classifier *classify.Model // of texts or pairs, such as a reranker

	version *Version
	heap    int64 // bytes of the tokenizer, on Go's heap, that the ledger has

	bytes, tokens atomic.Int64 // of the texts that were computed
}

// TextModel is what models of texts have in common.
type TextModel interface {
	Program() *weir.Program
	Tokenizer() *tokenizer.Tokenizer
	MaxTokens() int
	CallBytes(texts, tokens int) int64
	Close() error
}

// Size returns the number of elements that the output has for each text.
func (t *Texts) Size() int {
	if t.Classifier != nil {
		return len(t.Classifier.Labels())
	}
	return t.Embedder.Dimensions()
}

// Counted counts the bytes and tokens of texts.
func (t *Texts) Counted(bytes, tokens int) {
	t.bytes.Add(int64(bytes))
	t.tokens.Add(int64(tokens))
}

// PerByte returns the number of tokens that texts had for each byte.
func (t *Texts) PerByte() float64 {
	const before = 4 << 10 // bytes, until it is known
	return (before/4 + float64(t.tokens.Load())) / (before + float64(t.bytes.Load()))
}

// mainFiles are the files of which a folder of a model of texts has one, and what it needs beside it.
var mainFiles = [][]string{{"modules.json"}, {"config.json", "tokenizer.json"}}

// textsIn returns the file that makes a folder a model of texts, empty if there is none, or if the configuration is one
// of tensors: it names a model file, or inputs of other names.
func textsIn(folder string, config *oip.ModelConfig) string {
	other := func(in *oip.ModelInput) bool { return in.Name != TextInput }
	if config.Parameters["weir.texts"].GetStringValue() == "off" || config.DefaultModelFilename != "" ||
		slices.ContainsFunc(config.Input, other) {
		return ""
	}
	for _, files := range mainFiles {
		if !slices.ContainsFunc(files, func(name string) bool {
			info, err := os.Stat(filepath.Join(folder, name))
			return err != nil || !info.Mode().IsRegular()
		}) {
			return files[0]
		}
	}
	return ""
}

// sourceOfTexts describes a folder of a model of texts: its state consists of its files and those of its subfolders.
func sourceOfTexts(folder, main string) (source, error) {
	var files []string
	for _, pattern := range []string{"*", "*/*"} {
		some, err := filepath.Glob(filepath.Join(quoted(folder), pattern))
		if err != nil {
			return source{}, err
		}
		files = append(files, some...)
	}
	s, err := sourceOf(filepath.Join(folder, main), files)
	s.texts = true
	return s, err
}

// quoted returns a path as a pattern that matches it alone.
func quoted(path string) string {
	var out []rune
	for _, r := range path {
		if slices.Contains([]rune(`*?[\`), r) && filepath.Separator != '\\' {
			out = append(out, '\\')
		}
		out = append(out, r)
	}
	return string(out)
}

// heapOfFile is the most bytes of Go's heap that a tokenizer takes for each byte of its files, until it is loaded and
// counted.
const heapOfFile = 10

// openTexts loads the folder of a model of texts.
func (c *Catalogue) openTexts(ctx context.Context, v *Version, s settings) error {
	if v.Config.GetSequenceBatching() != nil || len(s.options.Dims) > 0 {
		return errors.New("config.pbtxt: a model of texts has neither sequence_batching nor weir.dims; see weir.tokens")
	}
	folder := filepath.Dir(v.source.path)
	t := &Texts{version: v}
	v.Texts = t
	size := int64(0)
	for _, pattern := range []string{"*okeniz*", "vocab*", "*.model", "*/*okeniz*", "*/vocab*", "*/*.model"} {
		files, _ := filepath.Glob(filepath.Join(quoted(folder), pattern))
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				size += info.Size()
			}
		}
	}
	if err := t.resize(ctx, heapOfFile*size); err != nil {
		return err
	}
	if err := c.compile(ctx, v, s, func(artefact string, o weir.Options) error {
		return t.load(ctx, folder, artefact, o, s.tokens, func() int64 { return c.ledger.Most(ledger.Call) })
	}); err != nil {
		return err
	}
	if t.Classifier != nil && t.Classifier.PerToken() {
		return errors.New("the model labels tokens; the server has models that make vectors, or label texts")
	}
	if err := t.resize(ctx, t.Tokenizer().Bytes()); err != nil {
		return err
	}
	v.Inputs = []weir.Info{{Name: TextInput, Kind: weir.TensorKind, DType: weir.StringType,
		Shape: []weir.Extent{{Dim: "texts"}}}}
	v.Outputs = []weir.Info{{Name: TextOutput, Kind: weir.TensorKind, DType: weir.F32,
		Shape: []weir.Extent{{Dim: "texts"}, {Size: int64(t.Size())}}}}
	if t.Classifier != nil {
		v.Outputs[0].Name = TextScores
	}
	return nil
}

// load loads the model in a folder, whose program is that of an artefact if there is one.
func (t *Texts) load(ctx context.Context, folder, artefact string, o weir.Options, tokens int,
	room func() int64) error {
	m, err := embed.Load(ctx, folder, embed.Options{Compile: o, MaxTokens: tokens, Room: room, Artefact: artefact})
	if err == nil {
		t.TextModel, t.Embedder = m, m
	} else if errors.Is(err, weir.ErrUnsupported) {
		m, failed := classify.Load(ctx, folder, classify.Options{Compile: o, MaxTokens: tokens, Room: room,
			Artefact: artefact})
		switch {
		case failed == nil:
			t.TextModel, t.Classifier, err = m, m, nil
		case !errors.Is(failed, weir.ErrUnsupported):
			err = failed
		}
	}
	if err == nil {
		t.version.Program = t.Program()
		t.version.account.run(true)
	}
	return err
}

// resize makes the ledger have so many bytes for the tokenizer, and Go's heap have room for them.
func (t *Texts) resize(ctx context.Context, bytes int64) error {
	more := bytes - t.heap
	if more < 0 {
		t.version.account.fixed.Give(-more)
	} else if err := t.version.account.fixed.Take(ctx, more); err != nil {
		return err
	}
	heapLimit.Lock()
	defer heapLimit.Unlock()
	t.heap = bytes
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		debug.SetMemoryLimit(limit + more)
	}
	return nil
}

// heapLimit guards Texts.heap, and changes of the limit of Go's heap.
var heapLimit sync.Mutex

// require makes models leave room for a run of one text as long as a text may be.
func (t *Texts) require(calls *ledger.Account) error {
	most := t.MaxTokens()
	refused := calls.Require(t.CallBytes(1, most))
	if refused == nil {
		return nil
	}
	fits := 0
	for step := most; step > 0; step /= 2 {
		if fits+step < most && calls.Require(t.CallBytes(1, fits+step)) == nil {
			fits += step
		}
	}
	if fits == 0 {
		return refused
	}
	return fmt.Errorf("a text of %d tokens: %w; texts of at most %d tokens fit: set the parameter weir.tokens", most,
		refused, fits)
}

// release releases the model, and what the ledger has of it. t may be nil.
func (t *Texts) release() error {
	if t == nil {
		return nil
	}
	var err error
	if t.TextModel != nil {
		err = t.Close()
	}
	return errors.Join(err, t.resize(context.Background(), 0))
}

// Heap returns the bytes of Go's heap that the ledger has for loaded models of texts.
func (c *Catalogue) Heap() (bytes int64) {
	loaded := c.Loaded()
	heapLimit.Lock()
	defer heapLimit.Unlock()
	for _, v := range loaded {
		if v.Texts != nil {
			bytes += v.Texts.heap
		}
	}
	return bytes
}

// TakeJoined takes bytes for texts that are computed together with others. The caller gives them back with GiveJoined.
func (v *Version) TakeJoined(ctx context.Context, bytes int64) error {
	return v.joined.Take(ctx, bytes)
}

// GiveJoined gives bytes of TakeJoined back.
func (v *Version) GiveJoined(bytes int64) { v.joined.Give(bytes) }

// Joined reports whether requests of the version share runs.
func (v *Version) Joined() bool { return v.Batcher != nil || v.Texts != nil }

// warmTexts computes a batch of texts without characters.
func (v *Version) warmTexts(ctx context.Context, w *oip.ModelWarmup) error {
	for name, spec := range w.Inputs {
		_, file := spec.InputDataType.(*oip.ModelWarmup_Input_InputDataFile)
		if name != TextInput || file {
			return fmt.Errorf("input %q: a model of texts is warmed up with zero_data or random_data of %q, which are texts "+
				"without characters", name, TextInput)
		}
	}
	texts := make([]string, max(1, min(w.BatchSize, TokensTogether)))
	var err error
	if v.Texts.Classifier != nil {
		_, err = v.Texts.Classifier.Predict(ctx, make([]classify.Pair, len(texts)), classify.Default)
	} else {
		_, err = v.Texts.Embedder.Embed(ctx, texts)
	}
	return err
}

// Package classify runs models that label texts, as the pipelines of transformers and the CrossEncoder of
// sentence-transformers do: it loads a folder with config.json, weights and a tokenizer, or an ONNX file beside them.
//
//	m, err := classify.Load(ctx, "distilbert-base-uncased-finetuned-sst-2-english", classify.Options{})
//	defer m.Close()
//	labels, err := m.Classify(ctx, []string{"a text", "another one"}, classify.Scoring{})
//	fmt.Println(labels[0][0].Name, labels[0][0].Score)
//
// Classify and ClassifyPairs are the pipeline text-classification, ZeroShot is zero-shot-classification, Tag is
// token-classification; Predict and Rank are CrossEncoder's predict and rank. Texts of all goroutines share runs of one
// program: those of about the same number of tokens are computed together, as many as the bytes of a call allow. Memory
// tells before the first run what the model takes.
package classify

import (
	"context"
	"io/fs"
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/encoder"
	"github.com/weirml/weir/internal/importer/transformers"
	"github.com/weirml/weir/tokenizer"
)

// Options are those of a model. The zero value works.
type Options struct {
	// MaxTokens is the most tokens of a text or a pair, special ones included; longer ones are truncated. 0: what the
	// folder says, at most what the model has positions for.
	MaxTokens int
	// Compile are the options of the program: threads, precision, the runs that are active at once (Calls), an account.
	// Threads are GOMAXPROCS / Calls by default. Budget is the most bytes that the loaded model may take (Memory.Held):
	// a run has as many texts as fit. Outputs, Dims, States and Layouts must not be set.
	Compile weir.Options
	// Artefact is the file to which Program().WriteTo wrote the same model. Load reads it instead of the weights, and
	// compiles nothing; the tokenizer and the settings are the folder's. Compile.Precision is the artefact's, and must not
	// be set. LoadFS finds the file in its file system.
	Artefact string
	// Room returns the most bytes that a run may take at present, if that is less than Memory's Call: a run then has fewer
	// texts, but one at least. nil: no less.
	Room func() int64
}

// Memory is a model's certificate, in bytes.
type Memory = encoder.Memory

// TextError is the cause of an error that one of a call's texts or pairs is at fault for; errors.As finds it.
type TextError = encoder.TextError

// Pair is two texts that the model reads together, as a query and a document. The first one is Text.
type Pair struct {
	Text   string `json:"text"`
	Second string `json:"text_pair"`
}

// Label is a label of a text.
type Label struct {
	Name  string  `json:"label"`
	Score float32 `json:"score"`
}

// Model labels texts. Any goroutine may use it.
type Model struct {
	encoder *encoder.Model
	options Options
	config  config
	labels  []string
	prefix  string // the prompt of pairs
	unknown string // the token of what the vocabulary has not; "": there is none
}

// Load reads a model: a folder that transformers or sentence-transformers wrote, or an ONNX file with tokenizer.json
// and config.json beside it. Weights in safetensors files are read in place. The error is an ErrUnsupported that names
// what is not supported, an ErrInput for files that are malformed, or an ErrBudget with what would fit. Compiling ends
// with the error of ctx if ctx ends.
func Load(ctx context.Context, name string, o Options) (*Model, error) {
	m := &Model{options: o}
	return m.loaded(encoder.Load(ctx, name, m.asked()))
}

// LoadFS is Load in a file system: name is a folder or an ONNX file.
func LoadFS(ctx context.Context, files fs.FS, name string, o Options) (*Model, error) {
	m := &Model{options: o}
	return m.loaded(encoder.LoadFS(ctx, files, name, m.asked()))
}

// asked returns the encoder's options.
func (m *Model) asked() encoder.Options {
	return encoder.Options{Compile: m.options.Compile, MaxTokens: m.options.MaxTokens, Artefact: m.options.Artefact,
		Room: m.options.Room, Output: output, Settings: m.settings}
}

// loaded completes the model with its encoder.
func (m *Model) loaded(e *encoder.Model, err error) (*Model, error) {
	if err != nil {
		return nil, err
	}
	if m.labels, err = m.config.names(e.Size()); err != nil {
		e.Close()
		return nil, err
	}
	m.encoder = e
	return m, nil
}

// output returns the name of a model's output that has the logits.
func output(model *weir.Model) (string, error) {
	var names []string
	for _, o := range model.Outputs() {
		names = append(names, o.Name)
	}
	if slices.Contains(names, transformers.Logits) {
		return transformers.Logits, nil
	}
	return "", diag.Unsupportedf("a model whose outputs are %q, and none is %q", names, transformers.Logits).
		WithFix("package embed gives the vectors of a model without labels")
}

// Labels returns the names of the labels, in the order of the model's logits.
func (m *Model) Labels() []string { return slices.Clone(m.labels) }

// PerToken reports whether the model labels tokens, for Tag, rather than whole texts.
func (m *Model) PerToken() bool { return m.encoder.PerToken() }

// MaxTokens returns the most tokens of a text, special ones included; longer texts are truncated.
func (m *Model) MaxTokens() int { return m.encoder.MaxTokens }

// Tokenizer returns the model's tokenizer.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.encoder.Tokenizer() }

// Memory returns the model's certificate.
func (m *Model) Memory() Memory { return m.encoder.Memory() }

// CallBytes returns the bytes that a run takes with so many texts, of which the longest has that many tokens.
func (m *Model) CallBytes(texts, tokens int) int64 { return m.encoder.CallBytes(texts, tokens) }

// Program returns the compiled model, for its plan and statistics. The model closes it.
func (m *Model) Program() *weir.Program { return m.encoder.Program() }

// Close waits for the texts that are being computed, refuses those that wait with an ErrClosed, and releases the
// model's memory. Closing twice is allowed.
func (m *Model) Close() error { return m.encoder.Close() }

// logits returns the logits of n texts; encode returns the ids of each. The model must label whole texts.
func (m *Model) logits(ctx context.Context, n int, encode func(i int) (encoder.Text, error)) ([][]float32, error) {
	if m.PerToken() {
		return nil, diag.Unsupportedf("a label for a text, by a model that labels tokens").WithFix("call Tag")
	}
	list := make([]encoder.Text, n)
	err := encoder.Parallel(ctx, n, func(i int) (err error) {
		list[i], err = encode(i)
		if err == nil && len(list[i].IDs) == 0 {
			err = diag.Inputf("it has no tokens")
		}
		return encoder.InText(i, err)
	})
	if err != nil {
		return nil, err
	}
	return m.encoder.Run(ctx, 0, list)
}

// Package embed turns texts into vectors: it loads a folder of sentence-transformers, or an ONNX file beside a
// tokenizer, and gives the vectors that sentence-transformers gives.
//
//	m, err := embed.Load(ctx, "all-MiniLM-L6-v2", embed.Options{})
//	defer m.Close()
//	vectors, err := m.Embed(ctx, []string{"a text", "another one"})
//
// Texts of all goroutines share runs of one program: those of about the same number of tokens are computed together, as
// many as the bytes of a call allow. Memory tells before the first run what the model takes.
package embed

import (
	"context"
	"io/fs"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/encoder"
	"github.com/weirml/weir/internal/importer/transformers"
	"github.com/weirml/weir/tokenizer"
)

// Options are those of a model. The zero value works.
type Options struct {
	// Prompt is put before each text. PromptName names one of the model's own prompts instead. If both are empty, it is
	// the model's default, which most have not.
	Prompt, PromptName string
	NoPrompt           bool // not even the model's default
	// MaxTokens is the most tokens of a text, special ones included; longer texts are truncated. 0: what the folder says,
	// at most what the model has positions for.
	MaxTokens int
	// Dimensions keeps that many elements of each vector, the first ones, for models that are trained for it (Matryoshka);
	// 0: all. Vectors of length 1 are scaled to length 1 again.
	Dimensions int
	// Normalize scales vectors to length 1, as the folders of many models say anyway.
	Normalize bool
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

// TextError is the cause of an error that one of a call's texts is at fault for; errors.As finds it.
type TextError = encoder.TextError

// Model turns texts into vectors. Any goroutine may use it.
type Model struct {
	encoder   *encoder.Model
	options   Options
	prompts   map[string]string
	byDefault string   // the prompt that is used without another
	counts    sync.Map // the numbers of the tokens of prompts that were used, by their texts
	size      int      // of a vector
}

// Load reads a model: a folder that sentence-transformers wrote, one of transformers (whose vectors are then means over
// the tokens) or of model2vec, or an ONNX file with tokenizer.json beside it. Weights in safetensors files are read in
// place. The error is an ErrUnsupported that names what is not supported, an ErrInput for files that are malformed, or
// an ErrBudget with what would fit. Compiling ends with the error of ctx if ctx ends.
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
	m.encoder, m.size = e, e.Size()
	switch d := m.options.Dimensions; {
	case e.PerToken():
		err = diag.Unsupportedf("a model that has a vector for each token")
	case d < 0 || d > m.size:
		err = diag.Inputf("%d dimensions of vectors that have %d", d, m.size)
	case d > 0:
		m.size = d
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return m, nil
}

// settings reads the model's prompts.
func (m *Model) settings(f *transformers.Folder) (err error) {
	var own struct {
		Prompts map[string]string `json:"prompts"`
		Default *string           `json:"default_prompt_name"`
	}
	if _, err := f.JSON("config_sentence_transformers.json", &own); err != nil {
		return err
	}
	m.prompts = own.Prompts
	o := &m.options
	name := o.PromptName
	if name == "" && own.Default != nil {
		name = *own.Default
	}
	switch {
	case o.Prompt != "" && o.PromptName != "" || o.NoPrompt && o.Prompt+o.PromptName != "":
		return diag.Inputf("more than one of Prompt %q, PromptName %q and NoPrompt", o.Prompt, o.PromptName)
	case o.Prompt != "":
		m.byDefault = o.Prompt
	case name != "" && !o.NoPrompt:
		m.byDefault, err = m.prompt(name)
	}
	return err
}

// prompt returns the model's own prompt of a name.
func (m *Model) prompt(name string) (string, error) {
	prompt, ok := m.prompts[name]
	if !ok {
		return "", diag.Inputf("the model has no prompt %q; it has %q", name, slices.Sorted(maps.Keys(m.prompts)))
	}
	return prompt, nil
}

// output returns the name of a model's output that has the vectors.
func output(model *weir.Model) (string, error) {
	var names []string
	for _, o := range model.Outputs() {
		names = append(names, o.Name)
	}
	if slices.Contains(names, transformers.Sentence) || slices.Contains(names, transformers.Hidden) {
		return transformers.Sentence, nil // of the states of tokens, the importer computes the vectors too
	}
	for _, o := range model.Outputs() { // an ONNX file that pools its states by itself
		if o.Kind == weir.TensorKind && o.DType.IsFloat() && len(o.Shape) == 2 && o.Name != transformers.Logits {
			return o.Name, nil
		}
	}
	return "", diag.Unsupportedf("a model whose outputs are %q, none of which is a vector for each text", names).
		WithFix("package classify runs models that classify texts")
}

// Dimensions returns the number of elements of a vector.
func (m *Model) Dimensions() int { return m.size }

// MaxTokens returns the most tokens of a text, special ones and the prompt's included; longer texts are truncated.
func (m *Model) MaxTokens() int { return m.encoder.MaxTokens }

// Prompts returns the model's own prompts by their names, such as "query" and "passage".
func (m *Model) Prompts() map[string]string { return maps.Clone(m.prompts) }

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

// Embed returns the vectors of texts, in their order: what sentence-transformers' encode returns, to 1e-5 of a vector's
// length. Texts that are too long are truncated. It waits for a run that has room; if ctx ends, it returns the error of
// ctx.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return m.embed(ctx, m.byDefault, texts)
}

// EmbedAs is Embed with the one of the model's prompts that has the name: models for search embed queries and
// passages with different prompts. An unknown name is an ErrInput that lists the known ones.
func (m *Model) EmbedAs(ctx context.Context, promptName string, texts []string) ([][]float32, error) {
	prompt, err := m.prompt(promptName)
	if err != nil {
		return nil, err
	}
	return m.embed(ctx, prompt, texts)
}

// embed returns the vectors of texts with a prompt before each.
func (m *Model) embed(ctx context.Context, prompt string, texts []string) ([][]float32, error) {
	n, err := m.tokensOf(prompt)
	if err != nil {
		return nil, err
	}
	list := make([]encoder.Text, len(texts))
	err = encoder.Parallel(ctx, len(texts), func(i int) (err error) {
		list[i], err = m.encoder.Encode(prompt + texts[i])
		return encoder.InText(i, err)
	})
	if err != nil {
		return nil, err
	}
	out, err := m.encoder.Run(ctx, n, list)
	if err != nil {
		return nil, err
	}
	for i, v := range out {
		out[i] = Shorten(v, m.size)
		if m.options.Normalize {
			normalize(out[i])
		}
	}
	return out, nil
}

// Tokens appends the ids of a text to dst as Embed reads them: with special tokens, truncated, after the prompt that
// has the name, or the default one if the name is empty. prompt is the number of the prompt's tokens.
func (m *Model) Tokens(dst []int32, promptName, text string) (ids []int32, prompt int, err error) {
	before := m.byDefault
	if promptName != "" {
		if before, err = m.prompt(promptName); err != nil {
			return dst, 0, err
		}
	}
	if prompt, err = m.tokensOf(before); err != nil {
		return dst, 0, err
	}
	t, err := m.encoder.Encode(before + text)
	return append(dst, t.IDs...), prompt, err
}

// EmbedTokens writes the vectors of texts that are ids already to the elements of out, which have the model's whole
// size: Options.Dimensions and Normalize are the caller's to apply. prompt is the number of the prompt's tokens at the
// beginning of each text. Nothing writes to out once it has returned; if ctx ends, runs may still read the ids. An id
// that the model does not have is an ErrInput.
func (m *Model) EmbedTokens(ctx context.Context, prompt int, ids [][]int32, out [][]float32) error {
	texts := make([]encoder.Text, len(ids))
	for i := range ids {
		if len(out) != len(ids) || len(out[i]) != m.encoder.Size() {
			return diag.Inputf("memory for %d vectors, not %d of %d elements", len(out), len(ids), m.encoder.Size())
		}
		texts[i].IDs = ids[i]
	}
	return m.encoder.RunInto(ctx, prompt, texts, out)
}

// tokensOf returns the number of a prompt's tokens.
func (m *Model) tokensOf(prompt string) (int, error) {
	if prompt == "" {
		return 0, nil
	}
	if n, known := m.counts.Load(prompt); known {
		return n.(int), nil
	}
	e, err := m.encoder.Tokenizer().Encode(prompt, m.encoder.Encoding())
	if err != nil {
		return 0, err
	}
	n := len(e.IDs)
	if n > 0 && e.Special[n-1] { // the one that ends a text
		n--
	}
	m.counts.Store(prompt, n)
	return n, nil
}

// Shorten returns the first n elements of a vector, scaled to length 1 if the vector has length 1.
func Shorten(v []float32, n int) []float32 {
	if n >= len(v) {
		return v
	}
	unit := math.Abs(length(v)-1) < 1e-4
	if v = v[:n:n]; unit {
		normalize(v)
	}
	return v
}

// length returns the length of a vector.
func length(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

// normalize scales a vector to length 1; one that is shorter than 1e-12 by 1e12.
func normalize(v []float32) {
	n := max(length(v), 1e-12)
	for i := range v {
		v[i] = float32(float64(v[i]) / n)
	}
}

// Package encoder runs models that read texts: it loads the folder of a model with its tokenizer, and computes texts of
// many goroutines together, those of about the same number of tokens, as many as the bytes of a call allow. The
// packages embed and classify give its results their meaning.
package encoder

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/transformers"
	"github.com/weirml/weir/tokenizer"
)

// Options are those of a model.
type Options struct {
	// Compile are the options of the program. Outputs and Dims must not be set. Budget is the most bytes that the loaded
	// model takes: runs have as many texts as fit.
	Compile   weir.Options
	MaxTokens int // of a text, special ones included; 0: what the folder says
	// Artefact is the file of a program that was compiled of the folder: it is read in place of the model. "": none.
	Artefact string
	// Room returns the most bytes that a run may take at present, if that is less than what the certificate has: a run
	// then has fewer texts, but one at least. nil: no less.
	Room func() int64
	// Output returns the name of the output to compute.
	Output func(m *weir.Model) (string, error)
	// Settings reads more of the folder; nil: nothing.
	Settings func(f *transformers.Folder) error
}

// Model is a compiled model with its tokenizer. Any goroutine may use it.
type Model struct {
	Settings
	tokens  *tokenizer.Tokenizer
	program *weir.Program
	options Options
	layout  layout
	memory  Memory

	queue queue
	once  sync.Once
	ended error
}

// Load loads a folder, or an ONNX file with a tokenizer beside it. Compiling ends with the error of ctx if ctx ends.
func Load(ctx context.Context, name string, o Options) (*Model, error) {
	file := ""
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		name, file = filepath.Dir(name), filepath.Base(name)
	}
	folder, err := transformers.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	if o.Artefact != "" {
		return load(ctx, folder, o, func() (*weir.Model, error) { return weir.LoadContext(ctx, o.Artefact) })
	}
	if file == "" {
		return load(ctx, folder, o, func() (*weir.Model, error) { return weir.LoadContext(ctx, name) })
	}
	files, err := folder.Sub()
	if err != nil {
		return nil, err
	}
	return load(ctx, folder, o, func() (*weir.Model, error) { return weir.LoadFS(only{files, file}, ".") })
}

// LoadFS is Load in a file system.
func LoadFS(ctx context.Context, files fs.FS, name string, o Options) (*Model, error) {
	file := ""
	if info, err := fs.Stat(files, name); err == nil && !info.IsDir() {
		name, file = path.Dir(name), path.Base(name)
	}
	folder := transformers.OpenFS(ctx, files, name)
	defer folder.Close()
	if o.Artefact != "" {
		return load(ctx, folder, o, func() (*weir.Model, error) { return weir.LoadFS(files, o.Artefact) })
	}
	from, err := folder.Sub()
	if err != nil {
		return nil, err
	}
	if file != "" {
		from = only{from, file}
	}
	return load(ctx, folder, o, func() (*weir.Model, error) { return weir.LoadFS(from, ".") })
}

// load reads the tokenizer and the settings in a folder, and compiles the model that read reads.
func load(ctx context.Context, folder *transformers.Folder, o Options, read func() (*weir.Model, error)) (m *Model,
	err error) {
	c := &o.Compile
	if o.MaxTokens < 0 || c.Calls < 0 || c.Threads < 0 || c.Budget < 0 {
		return nil, diag.Inputf("an option is negative: %d tokens, %d calls, %d threads, a budget of %d bytes", o.MaxTokens,
			c.Calls, c.Threads, c.Budget)
	}
	if len(c.Outputs) > 0 || len(c.Dims) > 0 || len(c.States) > 0 || len(c.Layouts) > 0 {
		return nil, diag.Inputf("Outputs, Dims, States and Layouts are the package's to set")
	}
	m = &Model{options: o}
	if m.tokens, err = m.read(folder, o.MaxTokens); err != nil {
		return nil, err
	}
	if o.Settings != nil {
		if err := o.Settings(folder); err != nil {
			return nil, err
		}
	}
	model, err := read()
	if err != nil {
		return nil, err
	}
	defer model.Close()
	if err := m.compile(ctx, model); err != nil {
		return nil, err
	}
	if err := m.prepare(); err != nil {
		m.program.Close()
		return nil, err
	}
	return m, nil
}

// compile compiles the model.
func (m *Model) compile(ctx context.Context, model *weir.Model) (err error) {
	o := m.options.Compile
	o.Calls = max(1, o.Calls)
	if o.Threads == 0 {
		o.Threads = max(1, runtime.GOMAXPROCS(0)/o.Calls)
	}
	out, err := m.options.Output(model)
	if err != nil {
		return err
	}
	o.Outputs, o.Budget, o.Account = []string{out}, 0, account{o.Account}
	m.program, err = weir.Compile(ctx, model, o)
	return err
}

// account is the account of a program; nil of grants everything. A program with an account keeps the memory of a call
// for calls of other dimensions.
type account struct{ of weir.Account }

func (a account) Take(ctx context.Context, bytes int64) error {
	if a.of == nil {
		return nil
	}
	return a.of.Take(ctx, bytes)
}

func (a account) Give(bytes int64) {
	if a.of != nil {
		a.of.Give(bytes)
	}
}

// Tokenizer returns the model's tokenizer.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.tokens }

// Program returns the compiled model, which the model closes.
func (m *Model) Program() *weir.Program { return m.program }

// Size returns the number of elements that the output has for each text or, if PerToken, for each token.
func (m *Model) Size() int { return m.layout.size }

// PerToken reports whether the output has elements for each token.
func (m *Model) PerToken() bool { return m.layout.perToken }

// Close waits for the texts that are being computed, refuses those that wait, and releases the model's memory. Closing
// twice is allowed.
func (m *Model) Close() error {
	m.once.Do(func() {
		m.queue.close()
		m.ended = m.program.Close()
	})
	return m.ended
}

// Text is a text, or two, as the model reads it.
type Text struct {
	IDs   []int32
	Types []int32 // nil: all 0
}

// Run returns the output for each text: Size elements or, if PerToken, as many for each of its tokens. prompt is the
// number of tokens at the beginning of each text that a pooling may leave out. Run waits for a run that has room; if
// ctx ends, it returns the error of ctx.
func (m *Model) Run(ctx context.Context, prompt int, texts []Text) ([][]float32, error) {
	out := make([][]float32, len(texts))
	total := 0
	for _, t := range texts {
		total += m.layout.elements(len(t.IDs))
	}
	all := make([]float32, total)
	for i, t := range texts {
		n := m.layout.elements(len(t.IDs))
		out[i], all = all[:n:n], all[n:]
	}
	if err := m.RunInto(ctx, prompt, texts, out); err != nil {
		return nil, err
	}
	return out, nil
}

// check returns an error for a text that would end its run, and thereby others: with ids for which the model has no
// embedding, or more of them than it has positions for.
func (m *Model) check(t Text) error {
	if len(t.IDs) > m.MaxTokens || t.Types != nil && len(t.Types) != len(t.IDs) {
		return diag.Inputf("%d tokens and %d types; the model takes %d", len(t.IDs), len(t.Types), m.MaxTokens)
	}
	for _, input := range m.layout.inputs {
		list := t.IDs
		if input.role == types {
			list = t.Types
		}
		if input.role != ids && input.role != types || input.bounds == nil {
			continue
		}
		for _, id := range list {
			if low, high := input.bounds[0], input.bounds[1]; int64(id) < low || int64(id) > high {
				token, _ := m.tokens.Token(id)
				return diag.Inputf("%s has %d (%q); the model takes %d to %d", input.name, id, token, low, high)
			}
		}
	}
	return nil
}

// RunInto is Run with memory for the output, which nothing writes to once it has returned. Runs may read the texts
// after that, if ctx has ended.
func (m *Model) RunInto(ctx context.Context, prompt int, texts []Text, out [][]float32) (err error) {
	defer diag.Recover(&err, "computing texts")
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	r := &request{ctx: ctx, prompt: int64(prompt), jobs: make([]job, len(texts))}
	if !m.layout.readsPrompt { // texts with other prompts share runs
		r.prompt = 0
	}
	for i, t := range texts {
		if err := m.check(t); err != nil {
			return InText(i, err)
		}
		r.jobs[i] = job{r, t, out[i]}
	}
	if len(texts) == 0 {
		return nil
	}
	if err := m.queue.add(r); err != nil {
		return err
	}
	return m.queue.wait(r)
}

// CallBytes returns the bytes of a run of so many texts, of which the longest has that many tokens.
func (m *Model) CallBytes(texts, tokens int) int64 { return m.layout.call(texts, tokens) }

// only is a folder with one of its ONNX files as the model's: other models in it are not seen.
type only struct {
	fs.FS
	file string
}

// Open opens a file of the folder; model.onnx is the chosen one.
func (o only) Open(name string) (fs.File, error) {
	switch name {
	case "model.onnx":
		return o.FS.Open(o.file)
	case "onnx", "model.safetensors", "model.safetensors.index.json":
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return o.FS.Open(name)
}

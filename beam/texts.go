package beamweir

import (
	"context"
	"encoding/json"

	"github.com/weirml/weir/embed"
	"github.com/weirml/weir/internal/diag"
)

// Texts is the codec of models of texts, which package embed loads: a string becomes its vector. Model.Path is a folder
// on the worker's disk, or an ONNX file with tokenizer.json beside it. It is registered for keys of type string, int
// and int64, and for elements without keys.
type Texts struct {
	Prompt, PromptName string // as those of embed.Options
	NoPrompt           bool   // not even the model's default prompt
	MaxTokens          int    // the most tokens of a text; 0: what the model has
	Dimensions         int    // the elements of a vector that are kept; 0: all
	Normalize          bool   // scale vectors to length 1
}

// textsInProgress is the number of a bundle's texts that are in progress at once: package embed chooses texts of about
// the same length for a run among them.
const textsInProgress = 256

func (t Texts) kind() string {
	fields, _ := json.Marshal(t) // of strings, integers and booleans
	return "texts " + string(fields)
}

func (t Texts) open(ctx context.Context, path string, o Options) (resource, error) {
	if o.Rows != 0 {
		return nil, diag.Inputf("Options.Rows for a model of texts").WithFix("set Options.Compile.Budget")
	}
	m, err := embed.Load(ctx, path, embed.Options{Prompt: t.Prompt, PromptName: t.PromptName, NoPrompt: t.NoPrompt,
		MaxTokens: t.MaxTokens, Dimensions: t.Dimensions, Normalize: t.Normalize, Compile: o.Compile})
	if err != nil {
		return nil, err
	}
	return &texts{model: m}, nil
}

func (t Texts) run(ctx context.Context, model resource, text string, path string) ([]float32, error) {
	vectors, err := model.(*texts).model.Embed(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	return vectors[0], nil
}

// texts is a loaded model of texts.
type texts struct{ model *embed.Model }

func (t *texts) most() int             { return textsInProgress }
func (t *texts) bytes() int64          { return t.model.Memory().Held() }
func (t *texts) needs() (int64, error) { return t.model.Memory().Held(), nil }
func (t *texts) close() error          { return t.model.Close() }

func (t *texts) runs() (count int64, rows float64) {
	return t.model.Program().Stats().Runs, 0
}

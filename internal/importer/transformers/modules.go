package transformers

import (
	"encoding/json"
	"path"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Module is a stage of a model of sentence-transformers, as modules.json lists it.
type Module struct {
	Name string `json:"name"`
	Path string `json:"path"` // its folder in the model's; "" for the model's own
	Type string `json:"type"`
}

// Kind is the module's type without the package: Transformer, Pooling.
func (m Module) Kind() string { return m.Type[strings.LastIndexByte(m.Type, '.')+1:] }

// Modules returns the stages of a model of sentence-transformers; none for a folder of transformers.
func (f *Folder) Modules() (list []Module, err error) {
	found, err := f.JSON("modules.json", &list)
	if err != nil || !found {
		return nil, err
	}
	if len(list) == 0 {
		return nil, f.in("modules.json", diag.Inputf("it lists no modules"))
	}
	for _, m := range list {
		if _, err := f.path(path.Clean(m.Path)); err != nil {
			return nil, f.in("modules.json", err)
		}
	}
	return list, nil
}

// Pooling is how the states of a text's tokens become one vector. With several modes the vectors are concatenated.
type Pooling struct {
	Modes         []string // cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken
	ExcludePrompt bool     // the tokens of the prompt are left out
}

// UnmarshalJSON reads what sentence-transformers writes: since version 6 the modes' names, before it a flag for each.
func (p *Pooling) UnmarshalJSON(text []byte) error {
	var flags struct {
		CLS      bool  `json:"pooling_mode_cls_token"`
		Max      bool  `json:"pooling_mode_max_tokens"`
		Mean     bool  `json:"pooling_mode_mean_tokens"`
		Root     bool  `json:"pooling_mode_mean_sqrt_len_tokens"`
		Weighted bool  `json:"pooling_mode_weightedmean_tokens"`
		Last     bool  `json:"pooling_mode_lasttoken"`
		Prompt   *bool `json:"include_prompt"`

		Mode json.RawMessage `json:"pooling_mode"`
	}
	if err := json.Unmarshal(text, &flags); err != nil {
		return err
	}
	*p = Pooling{ExcludePrompt: flags.Prompt != nil && !*flags.Prompt}
	if len(flags.Mode) > 0 && string(flags.Mode) != "null" {
		var one string
		if err := json.Unmarshal(flags.Mode, &one); err == nil {
			p.Modes = []string{one}
			return nil
		}
		return json.Unmarshal(flags.Mode, &p.Modes)
	}
	for _, f := range []struct {
		set  bool
		name string
	}{{flags.CLS, "cls"}, {flags.Max, "max"}, {flags.Mean, "mean"}, {flags.Root, "mean_sqrt_len_tokens"},
		{flags.Weighted, "weightedmean"}, {flags.Last, "lasttoken"}} {
		if f.set {
			p.Modes = append(p.Modes, f.name)
		}
	}
	if len(p.Modes) == 0 {
		p.Modes = []string{"mean"}
	}
	return nil
}

// mostModes bounds the modes of a pooling.
const mostModes = 16

// sentence builds a model of sentence-transformers: a vector for each text, [batch, size].
func (g *graph) sentence(list []Module) *ir.Value {
	switch m := list[0]; m.Kind() {
	case "Transformer":
		g.load(path.Clean(m.Path))
		g.inputs()
		return g.after(list, g.encoder())
	case "StaticEmbedding":
		return g.after(list, g.static(path.Clean(m.Path)))
	default:
		g.Fail(g.folder.in("modules.json", diag.Unsupportedf("%s as the first module", m.Type)))
		return nil
	}
}

// after builds the modules after the first, whose result is x.
func (g *graph) after(list []Module, x *ir.Value) *ir.Value {
	for _, m := range list[1:] {
		g.claimLayer()
		x = g.stage(m, x)
	}
	if len(x.Type.Shape) != 2 {
		g.Fail(g.folder.in("modules.json", diag.Unsupportedf("a model without a pooling")))
	}
	return x
}

// stage builds a module after x.
func (g *graph) stage(m Module, x *ir.Value) *ir.Value {
	switch kind := m.Kind(); kind {
	case "Pooling":
		var p Pooling
		g.settings(m, &p)
		return g.pooled(x, p)
	case "Dense":
		return g.dense(m, x)
	case "LayerNorm":
		g.within(m)
		return g.layerNormOf(x, "norm", 1e-5)
	case "Normalize":
		g.Source = "normalize"
		return g.unit(x)
	case "Dropout":
		return x
	}
	g.Fail(g.folder.in("modules.json", diag.Unsupportedf("the module %s", m.Type).
		WithFix("Transformer, StaticEmbedding, Pooling, Dense, LayerNorm, Normalize and Dropout are read")))
	return nil
}

// settings decodes the settings of a module, which must have some.
func (g *graph) settings(m Module, to any) {
	name := path.Join(m.Path, "config.json")
	found, err := g.folder.JSON(name, to)
	if err == nil && !found {
		err = g.folder.in(name, diag.Inputf("the module %s has no such file", m.Type))
	}
	if err != nil {
		g.Fail(err)
	}
}

// within makes a module's checkpoint the one that tensors come from.
func (g *graph) within(m Module) {
	var err error
	if g.tensors, err = checkpointIn(g.folder, path.Clean(m.Path)); err != nil {
		g.Fail(err)
	}
	g.weights = map[string]*ir.Value{}
}

// dense builds a linear layer with an activation, of vectors or of tokens.
func (g *graph) dense(m Module, x *ir.Value) *ir.Value {
	var settings struct {
		Activation string `json:"activation_function"`
		Input      string `json:"module_input_name"`
		Output     string `json:"module_output_name"`
		Residual   bool   `json:"use_residual"`
	}
	g.settings(m, &settings)
	of := "sentence_embedding"
	if len(x.Type.Shape) == 3 {
		of = "token_embeddings"
	}
	if or(settings.Input, of) != of || or(settings.Output, of) != of {
		g.Fail(g.folder.in(path.Join(m.Path, "config.json"), diag.Unsupportedf("a module from %s to %s", settings.Input,
			settings.Output)))
	}
	g.within(m)
	act := settings.Activation[strings.LastIndexByte(settings.Activation, '.')+1:]
	y := g.activation(g.linearOf(x, "linear", free), strings.ToLower(or(act, "Tanh")))
	if !settings.Residual {
		return y
	}
	if last(x) != last(y) {
		x = g.linearOf(x, "residual", last(y))
	}
	return g.binary(ops.Add, y, x)
}

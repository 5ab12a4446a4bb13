// Package transformers reads the folders of Hugging Face's transformers and of sentence-transformers: it builds the
// graph that config.json describes, over the tensors of the safetensors files, which are read in place.
//
// A model takes the ids of tokens, [batch, tokens], and a mask of the same shape that is 0 for padding. Its result is
// what the architecture computes: last_hidden_state, or logits; of sentence-transformers, sentence_embedding. Nothing
// in a folder is executed: an architecture whose code lies in the folder is refused by name.
package transformers

import (
	"math"
	"path"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// The names of inputs and outputs, which are those of models that are exported from transformers.
const (
	InputIDs      = "input_ids"
	AttentionMask = "attention_mask"
	TokenTypes    = "token_type_ids"
	// PromptTokens is the number of tokens at the beginning that a pooling leaves out, in all texts.
	PromptTokens = "prompt_tokens"
	Hidden       = "last_hidden_state"
	Logits       = "logits"
	Sentence     = "sentence_embedding"
)

// graph builds a module from a folder.
type graph struct {
	*ir.Builder
	folder *Folder
	*config
	at      string // the folder of the checkpoint in the model's
	tensors *checkpoint
	prefix  string // of the names of the encoder's tensors
	weights map[string]*ir.Value

	// scales returns the factors of norms of roots of means of squares from their weights; nil: norms are of BERT's kind.
	scales func(weight *ir.Value) *ir.Value

	ids, mask *ir.Value // [batch, tokens], I64
}

// Parse builds the module of the model in a folder. The module's constants are views of the folder's files.
func Parse(f *Folder) (m *ir.Module, err error) {
	defer ir.Catch(&err)
	list, err := f.Modules()
	if err != nil {
		return nil, err
	}
	body := &ir.Block{}
	main := &ir.Func{Name: "main", Body: body}
	m = &ir.Module{Name: "transformers", Dims: sym.NewDims(), Funcs: []*ir.Func{main}, Main: main,
		Meta: map[string]string{}}
	g := &graph{Builder: ir.NewBuilder(ir.NewInference(m), body), folder: f, weights: map[string]*ir.Value{}}
	at := ""
	if len(list) == 1 && list[0].Kind() == "Transformer" { // a CrossEncoder's, whose head is the architecture's
		at = path.Clean(list[0].Path)
	} else if len(list) > 0 {
		g.result(g.sentence(list), Sentence)
		return m, nil
	}
	g.load(at)
	if g.isModel2Vec() {
		x := g.static(at)
		if g.Normalize {
			x = g.unit(x)
		}
		g.result(x, Sentence)
		return m, nil
	}
	g.inputs()
	if hidden := g.model(); hidden != nil {
		g.name(g.pooled(hidden, meanPooling), Sentence)
	}
	return m, nil
}

// meanPooling is what sentence-transformers adds to a folder without modules.json.
var meanPooling = Pooling{Modes: []string{"mean"}}

// Extend adds what sentence-transformers computes from the states of tokens to a module whose only result they are,
// such as that of an ONNX file in the folder: the result is then one vector for each text.
func Extend(f *Folder, m *ir.Module) (err error) {
	defer ir.Catch(&err)
	list, err := f.Modules()
	if err != nil {
		return err
	}
	body := m.Main.Body
	g := &graph{Builder: ir.NewBuilder(ir.NewInference(m), body), folder: f, weights: map[string]*ir.Value{}}
	for _, p := range body.Params {
		switch p.Name {
		case InputIDs:
			g.ids = p
		case AttentionMask:
			g.mask = p
		}
	}
	x := body.Results[0]
	if g.ids == nil || g.mask == nil || len(g.ids.Type.Shape) != 2 || len(g.mask.Type.Shape) != 2 ||
		len(x.Type.Shape) != 3 || !x.Type.DType.IsFloat() {
		return diag.Unsupportedf("a model without the inputs %s and %s of [batch, tokens], or whose result %s is not "+
			"[batch, tokens, size]", InputIDs, AttentionMask, x.Name).AtFile(f.name)
	}
	body.Results = nil
	x = g.full(x)
	if len(list) == 0 {
		g.result(g.pooled(x, meanPooling), Sentence)
		return nil
	}
	g.result(g.after(list, x), Sentence)
	return nil
}

// load reads the settings and the checkpoint in a folder of the model.
func (g *graph) load(at string) {
	var err error
	if g.config, err = configIn(g.folder, at); err != nil {
		g.Fail(err)
	}
	if g.tensors, err = checkpointIn(g.folder, at); err != nil {
		g.Fail(err)
	}
	g.at = at
	if g.Quantized != nil || g.Compressed != nil {
		g.Fail(g.notYet("quantization_config"))
	}
	if g.Layers < 1 {
		g.Fail(g.inConfig(diag.Inputf("%d layers", g.Layers)))
	}
	if v := g.Version; v != "" {
		g.Module.Meta["producer"] = "transformers " + v
	}
}

// inputs declares the model's inputs.
func (g *graph) inputs() {
	g.Dims().Set(sym.User("batch"), sym.Range{Min: 1, Max: sym.NoMax})
	g.Dims().Set(sym.User("tokens"), sym.Range{Min: 1, Max: sym.NoMax})
	t := ir.Type{DType: dtype.I64, Shape: []sym.Expr{sym.Dim("batch"), sym.Dim("tokens")}}
	g.ids, g.mask = g.Param(InputIDs, t), g.Param(AttentionMask, t)
}

// tokens and batch are the extents of the inputs.
func (g *graph) tokens() sym.Expr { return g.ids.Type.Shape[1] }
func (g *graph) batch() sym.Expr  { return g.ids.Type.Shape[0] }

// atMost bounds the number of tokens.
func (g *graph) atMost(tokens int64) {
	if tokens < 1 {
		g.Fail(diag.Inputf("the model has positions for %d tokens", tokens).AtFile(g.folder.name))
	}
	g.Dims().Set(sym.User("tokens"), sym.Range{Min: 1, Max: tokens})
}

// name makes a value the one of a name.
func (g *graph) name(v *ir.Value, name string) *ir.Value {
	v.Name = g.Name(name)
	return v
}

// result makes a value a result of the model.
func (g *graph) result(v *ir.Value, name string) {
	g.Block.Results = append(g.Block.Results, g.name(v, name))
}

// model builds the model that the architecture names. It returns the encoder's result if that is the model's; nil if
// the model has a head.
func (g *graph) model() (hidden *ir.Value) {
	hidden = g.encoder()
	if head := g.head(); head != nil {
		g.result(head(g, hidden), Logits)
		return nil
	}
	g.result(hidden, Hidden)
	return hidden
}

// encoder builds the encoder: the last hidden state, [batch, tokens, hidden].
func (g *graph) encoder() *ir.Value {
	build := encoders[g.Type]
	if build == nil {
		g.Fail(g.inConfig(diag.Unsupportedf("the model type %q", g.Type)).
			WithFix("docs/text.md lists the types; an ONNX export of the model can be read"))
	}
	return build(g)
}

// encoders are the encoders by model_type.
var encoders = map[string]func(g *graph) *ir.Value{}

// none is the extent 0.
var none = sym.Const(0)

// free is the extent of a weight that may have any.
const free = -1

// stored returns a tensor of the checkpoint in the type that it has there. Extents that are not free are checked.
func (g *graph) stored(name string, shape ...int64) *ir.Value {
	t, err := g.tensors.tensor(name)
	if err != nil {
		g.Fail(err)
	}
	fits := len(t.Shape()) == len(shape)
	for i := 0; fits && i < len(shape); i++ {
		fits = shape[i] == free || shape[i] == t.Shape()[i]
	}
	if !fits {
		g.Fail(diag.Inputf("%s is %s%v; config.json asks for %v (%d: any)", name, t.DType(), t.Shape(), shape, free).
			AtFile(g.folder.name).AtTensor(name))
	}
	if v := g.weights[name]; v != nil {
		return v
	}
	if !t.DType().IsFloat() {
		g.Fail(diag.Unsupportedf("weights of type %s", t.DType()).AtFile(g.folder.name).AtTensor(name))
	}
	v := g.Constant(g.Name(name), t)
	g.weights[name] = v
	return v
}

// weight returns a tensor of the encoder in f32.
func (g *graph) weight(name string, shape ...int64) *ir.Value {
	return g.full(g.stored(g.prefix+name, shape...))
}

// full returns a value in f32.
func (g *graph) full(v *ir.Value) *ir.Value {
	if v.Type.DType == dtype.F32 {
		return v
	}
	return ops.Cast(g.Builder, v, dtype.F32)
}

// binary applies f to values whose shapes are broadcast.
func (g *graph) binary(f ops.BinaryFunction, x, y *ir.Value) *ir.Value {
	return ops.Binary(g.Builder, f, x, y)
}

// number returns a scalar of x's type.
func (g *graph) number(x *ir.Value, n float64) *ir.Value {
	return ops.Scalar(g.Builder, x.Type.DType, n)
}

// last returns the extent of a value's last axis, which is static.
func last(x *ir.Value) int64 {
	n, _ := x.Type.Shape[len(x.Type.Shape)-1].Const()
	return n
}

// linear returns x · weightᵀ + bias, of the encoder's tensors of a name. There need not be a bias.
func (g *graph) linear(x *ir.Value, name string) *ir.Value {
	return g.linearOf(x, g.prefix+name, free)
}

// linearOf is linear with the tensor's full name. The result has out elements, unless that is free.
func (g *graph) linearOf(x *ir.Value, name string, out int64) *ir.Value {
	g.Source = name
	y := ops.MatMul(g.Builder, x, g.full(g.stored(name+".weight", out, last(x))), false, true)
	if g.tensors.has(name + ".bias") {
		y = g.binary(ops.Add, y, g.full(g.stored(name+".bias", last(y))))
	}
	return y
}

// norm normalises the last axis as the family does, and scales and shifts it by the encoder's tensors of a name.
func (g *graph) norm(x *ir.Value, name string) *ir.Value {
	if g.scales == nil {
		return g.layerNormOf(x, g.prefix+name, g.Epsilon)
	}
	g.Source = g.prefix + name
	y := ops.Normalize(g.Builder, x, g.Epsilon, false, -1)
	return g.binary(ops.Mul, y, g.scales(g.weight(name+".weight", last(x))))
}

// layerNormOf normalises the last axis to a mean of 0 and a variance of 1, with the tensors' full name. There need not
// be a shift. Old checkpoints call scale and shift gamma and beta.
func (g *graph) layerNormOf(x *ir.Value, name string, epsilon float64) *ir.Value {
	g.Source = name
	scale, shift := name+".weight", name+".bias"
	if !g.tensors.has(scale) && g.tensors.has(name+".gamma") {
		scale, shift = name+".gamma", name+".beta"
	}
	y := ops.Normalize(g.Builder, x, epsilon, true, -1)
	y = g.binary(ops.Mul, y, g.full(g.stored(scale, last(x))))
	if g.tensors.has(shift) {
		y = g.binary(ops.Add, y, g.full(g.stored(shift, last(x))))
	}
	return y
}

// activation applies an activation that a configuration names.
func (g *graph) activation(x *ir.Value, name string) *ir.Value {
	switch name {
	case "gelu", "gelu_python":
		return ops.Activation(g.Builder, "gelu", x)
	case "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python_tanh":
		return ops.Activation(g.Builder, "gelu_tanh", x)
	case "quick_gelu":
		return ops.ActivationWith(g.Builder, "swish", x, 1.702, 0)
	case "silu", "swish":
		return ops.Activation(g.Builder, "swish", x)
	case "relu", "tanh", "sigmoid", "mish":
		return ops.Activation(g.Builder, name, x)
	case "linear", "identity":
		return x
	}
	g.Fail(g.inConfig(diag.Unsupportedf("the activation %q", name)))
	return nil
}

// perHead splits the last axis of [batch, tokens, hidden] into heads, [batch, heads, tokens, size].
func (g *graph) perHead(x *ir.Value, heads int64) *ir.Value {
	hidden := last(x)
	if heads < 1 || hidden%heads != 0 {
		g.Fail(g.inConfig(diag.Inputf("%d heads of %d elements in all", heads, hidden)))
	}
	x = ops.Reshape(g.Builder, x, g.batch(), g.tokens(), sym.Const(heads), sym.Const(hidden/heads))
	return ops.Transpose(g.Builder, x, 0, 2, 1, 3)
}

// joined joins the heads of [batch, heads, tokens, size].
func (g *graph) joined(x *ir.Value) *ir.Value {
	heads, _ := x.Type.Shape[1].Const()
	x = ops.Transpose(g.Builder, x, 0, 2, 1, 3)
	return ops.Reshape(g.Builder, x, g.batch(), g.tokens(), sym.Const(heads*last(x)))
}

// keys returns the mask of attention: true for a key that is a token, [batch, 1, 1, tokens].
func (g *graph) keys() *ir.Value {
	seen := g.binary(ops.Ne, g.mask, g.number(g.mask, 0))
	return ops.Reshape(g.Builder, seen, g.batch(), sym.Const(1), sym.Const(1), g.tokens())
}

// hiddenScore is the score of a key that is padding: with the least number of f32 in place of −∞, a text without any
// token has a result, which transformers gives too, and no NaN.
const hiddenScore = -math.MaxFloat32

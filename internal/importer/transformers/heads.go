package transformers

import (
	"fmt"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// classifier is how a family computes the logits of a text from the states of its tokens: from one of them or their
// mean, a linear layer, an activation, a norm, a linear layer. What is empty is left out.
type classifier struct {
	from     string // cls, mean or lasttoken; "": classifier_pooling says it
	first    string // within the encoder if it begins with a point
	act      string
	norm     string
	classify string
}

// classifiers are those of the families, by model_type.
var classifiers = map[string]classifier{
	"bert":       {from: "cls", first: ".pooler.dense", act: "tanh", classify: "classifier"},
	"albert":     {from: "cls", first: ".pooler", act: "tanh", classify: "classifier"},
	"roberta":    {from: "cls", first: "classifier.dense", act: "tanh", classify: "classifier.out_proj"},
	"electra":    {from: "cls", first: "classifier.dense", act: "gelu", classify: "classifier.out_proj"},
	"distilbert": {from: "cls", first: "pre_classifier", act: "relu", classify: "classifier"},
	"deberta-v2": {from: "cls", first: "pooler.dense", act: "gelu", classify: "classifier"},
	"modernbert": {first: "head.dense", act: "gelu", norm: "head.norm", classify: "classifier"},
	"eurobert":   {first: "dense", act: "gelu", classify: "classifier"},
	"llama":      {from: "lasttoken", classify: "score"},
}

func init() {
	for name, like := range map[string]string{"deberta": "deberta-v2", "ernie": "bert",
		"megatron-bert": "bert", "nomic_bert": "bert",
		"gte": "bert", "new": "bert", "xlm-roberta": "roberta", "camembert": "roberta", "data2vec-text": "roberta",
		"roberta-prelayernorm": "roberta", "xlm-roberta-xl": "roberta", "mpnet": "roberta", "mistral": "llama",
		"qwen2": "llama", "qwen3": "llama", "gemma": "llama", "gemma2": "llama", "gemma3_text": "llama"} {
		classifiers[name] = classifiers[like]
	}
}

// head returns the head that the architecture names; nil if it has none, or one that predicts tokens, which embeddings
// do not use.
func (g *graph) head() func(g *graph, hidden *ir.Value) *ir.Value {
	if len(g.Architectures) == 0 {
		return nil
	}
	name := g.Architectures[0]
	switch {
	case strings.HasSuffix(name, "ForSequenceClassification"):
		return (*graph).classified
	case strings.HasSuffix(name, "ForTokenClassification"):
		return (*graph).tagged
	case strings.HasSuffix(name, "Model"), strings.HasSuffix(name, "ForMaskedLM"),
		strings.HasSuffix(name, "ForPreTraining"), strings.HasSuffix(name, "ForCausalLM"),
		strings.HasSuffix(name, "ForConditionalGeneration"):
		return nil
	}
	g.Fail(g.inConfig(diag.Unsupportedf("the architecture %q", name)).
		WithFix("encoders, and models ForSequenceClassification and ForTokenClassification, are read; an ONNX export of " +
			"the model can be read"))
	return nil
}

// classified returns the logits of texts, [batch, labels].
func (g *graph) classified(hidden *ir.Value) *ir.Value {
	c, ok := classifiers[g.Type]
	if !ok {
		g.Fail(g.notYet("the head " + g.Architectures[0]))
	}
	from := or(c.from, or(g.ClassifierFrom, "cls"))
	late := g.Type == "eurobert" && or(g.ClassifierFrom, "late") == "late" // the logits are averaged, not the states
	if !late {
		hidden = g.one(hidden, from)
	}
	logits := g.linearOf(g.headed(hidden, c), c.classify, g.labels())
	if late {
		return g.pooled(logits, Pooling{Modes: []string{"mean"}})
	}
	return logits
}

// one returns a state for each text, [batch, hidden].
func (g *graph) one(hidden *ir.Value, from string) *ir.Value {
	switch from {
	case "cls", "bos":
		x := ops.SliceAxis(g.Builder, hidden, 1, none, sym.Const(1))
		return ops.Reshape(g.Builder, x, g.batch(), sym.Const(last(hidden)))
	case "mean":
		return g.pooled(hidden, Pooling{Modes: []string{from}})
	case "lasttoken": // the last that is not the token that pads
		at := ops.Counting(g.Builder, g.ids.Type.DType, g.tokens())
		if g.Padding != nil {
			token := g.binary(ops.Ne, g.ids, g.number(g.ids, float64(*g.Padding)))
			at = g.binary(ops.Mul, at, ops.Cast(g.Builder, token, at.Type.DType))
		}
		end := ops.ReduceMax(g.Builder, at, true, -1)
		p := pool{graph: g, hidden: hidden}
		return p.pick(g.binary(ops.Eq, ops.Counting(g.Builder, at.Type.DType, g.tokens()), end))
	}
	g.Fail(g.notYet(fmt.Sprintf("the classifier_pooling %q", from)))
	return nil
}

// headed applies a head up to its last linear layer.
func (g *graph) headed(x *ir.Value, c classifier) *ir.Value {
	if c.first == "" {
		return x
	}
	name := c.first
	if inner, within := strings.CutPrefix(name, "."); within {
		name = g.prefix + inner
	}
	act := c.act
	switch g.Type {
	case "modernbert":
		act = or(g.ClassifierAct, act)
	case "deberta", "deberta-v2":
		act = or(g.PoolerAct, act)
	}
	x = g.activation(g.linearOf(x, name, free), act)
	if c.norm != "" {
		x = g.layerNormOf(x, c.norm, g.Epsilon)
	}
	return x
}

// tagged returns the logits of tokens, [batch, tokens, labels].
func (g *graph) tagged(hidden *ir.Value) *ir.Value {
	name := "classifier"
	switch c := classifiers[g.Type]; {
	case c.first == "" && c.classify != "": // language models'
		name = c.classify
	case g.Type == "modernbert":
		hidden = g.headed(hidden, c)
	}
	return g.linearOf(hidden, name, g.labels())
}

// labels returns the number of labels; free if config.json does not name them.
func (g *graph) labels() int64 {
	if len(g.Labels) == 0 {
		return free
	}
	return int64(len(g.Labels))
}

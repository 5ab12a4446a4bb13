package transformers

import (
	"path"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// classifier is how a family computes the logits of a text from its first token: a linear layer, an activation, a
// linear layer.
type classifier struct {
	first    string // within the encoder if it begins with a point
	act      string
	classify string
}

// classifiers are those of the families, by model_type.
var classifiers = map[string]classifier{
	"bert": {".pooler.dense", "tanh", "classifier"}, "albert": {".pooler", "tanh", "classifier"},
	"roberta":    {"classifier.dense", "tanh", "classifier.out_proj"},
	"mpnet":      {"classifier.dense", "tanh", "classifier.out_proj"},
	"electra":    {"classifier.dense", "gelu", "classifier.out_proj"},
	"distilbert": {"pre_classifier", "relu", "classifier"},
}

func init() {
	for _, like := range []string{"xlm-roberta", "camembert"} {
		classifiers[like] = classifiers["roberta"]
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
		strings.HasSuffix(name, "ForPreTraining"), strings.HasSuffix(name, "ForCausalLM"):
		return nil
	}
	g.Fail(diag.Unsupportedf("the architecture %q", name).AtFile(path.Join(g.folder.name, g.at, "config.json")).
		WithFix("encoders, and models ForSequenceClassification and ForTokenClassification, are read; an ONNX export of " +
			"the model can be read"))
	return nil
}

// first returns the hidden state of each text's first token, [batch, hidden].
func (g *graph) first(hidden *ir.Value) *ir.Value {
	x := ops.SliceAxis(g.Builder, hidden, 1, sym.Const(0), sym.Const(1))
	return ops.Reshape(g.Builder, x, g.batch(), sym.Const(last(hidden)))
}

// classified returns the logits of texts, [batch, labels].
func (g *graph) classified(hidden *ir.Value) *ir.Value {
	c, ok := classifiers[g.Type]
	if !ok {
		g.Fail(g.notYet("the head " + g.Architectures[0]))
	}
	first := c.first
	if inner, within := strings.CutPrefix(first, "."); within {
		first = g.prefix + inner
	}
	x := g.activation(g.linearOf(g.first(hidden), first, free), c.act)
	return g.linearOf(x, c.classify, g.labels())
}

// tagged returns the logits of tokens, [batch, tokens, labels].
func (g *graph) tagged(hidden *ir.Value) *ir.Value {
	return g.linearOf(hidden, "classifier", g.labels())
}

// labels returns the number of labels; free if config.json does not name them.
func (g *graph) labels() int64 {
	if len(g.Labels) == 0 {
		return free
	}
	return int64(len(g.Labels))
}

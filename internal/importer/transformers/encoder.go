package transformers

import (
	"fmt"
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// The layers of encoders, which normalise the sums after attention and after the two linear layers (Devlin et al.,
// 2019).
var (
	bertBlock = block{layer: "encoder.layer.%d.", query: "attention.self.query", key: "attention.self.key",
		value: "attention.self.value", out: "attention.output.dense", up: "intermediate.dense", down: "output.dense",
		afterAttention: "attention.output.LayerNorm", after: "output.LayerNorm"}
	distilBERTBlock = block{layer: "transformer.layer.%d.", query: "attention.q_lin", key: "attention.k_lin",
		value: "attention.v_lin", out: "attention.out_lin", up: "ffn.lin1", down: "ffn.lin2",
		afterAttention: "sa_layer_norm", after: "output_layer_norm"}
	mpnetBlock = block{layer: "encoder.layer.%d.", query: "attention.attn.q", key: "attention.attn.k",
		value: "attention.attn.v", out: "attention.attn.o", up: "intermediate.dense", down: "output.dense",
		afterAttention: "attention.LayerNorm", after: "output.LayerNorm"}
	albertBlock = block{query: "attention.query", key: "attention.key", value: "attention.value", out: "attention.dense",
		up: "ffn", down: "ffn_output", afterAttention: "attention.LayerNorm", after: "full_layer_layer_norm"}
	// These normalise the operands of attention and of the linear layers, and the last layer's result:
	megatronBlock = beforeBlock("attention.ln", "ln")
	preNormBlock  = beforeBlock("attention.LayerNorm", "intermediate.LayerNorm")
	largeBlock    = beforeBlock("attention.self_attn_layer_norm", "LayerNorm")
)

// beforeBlock is bertBlock with norms before attention and before the linear layers, in place of those after them.
func beforeBlock(attention, up string) block {
	return bertBlock.with(func(b *block) {
		b.beforeAttention, b.beforeUp, b.afterAttention, b.after = attention, up, "", ""
	})
}

func init() {
	for name, e := range map[string]struct {
		block        *block
		afterPadding bool   // positions count from the row after the padding's
		end          string // the norm of the last layer's result
	}{
		"bert": {&bertBlock, false, ""}, "electra": {&bertBlock, false, ""}, "ernie": {&bertBlock, false, ""},
		"roberta": {&bertBlock, true, ""}, "xlm-roberta": {&bertBlock, true, ""}, "camembert": {&bertBlock, true, ""},
		"data2vec-text": {&bertBlock, true, ""}, "distilbert": {&distilBERTBlock, false, ""},
		"mpnet": {&mpnetBlock, true, ""}, "megatron-bert": {&megatronBlock, false, "encoder.ln"},
		"roberta-prelayernorm": {&preNormBlock, true, "LayerNorm"},
		"xlm-roberta-xl":       {&largeBlock, true, "encoder.LayerNorm"},
	} {
		encoders[name] = func(g *graph) *ir.Value {
			x := g.embedded(e.afterPadding)
			return g.normIn(g.layers(x, e.block, g.biased()), "", e.end)
		}
	}
	encoders["albert"] = (*graph).albert
}

// embedded returns the embeddings of an encoder of BERT's kind.
func (g *graph) embedded(afterPadding bool) *ir.Value {
	if g.Decoder {
		g.Fail(g.notYet("is_decoder is true"))
	}
	absolute := or(g.PositionType, "absolute") == "absolute"
	if !absolute && !relativeKinds[g.PositionType] {
		g.Fail(g.notYet(fmt.Sprintf("the position_embedding_type %q", g.PositionType)))
	}
	g.prefix = g.tensors.prefix("embeddings.word_embeddings.weight")
	var p *positions
	if !absolute {
		p = &positions{unread: true}
	} else if afterPadding {
		p = g.afterPadding(1)
	}
	x := g.embeddings(p)
	for _, project := range []string{"embeddings_project", "encoder.embedding_hidden_mapping_in"} { // ELECTRA, ALBERT
		if g.tensors.has(g.prefix + project + ".weight") {
			x = g.linear(x, project)
		}
	}
	return x
}

// relativeKinds are the position_embedding_types with embeddings of distances, whose products with queries are added to
// the scores (Shaw et al., Self-attention with relative position representations, 2018), and those with keys too (Huang
// et al., Improve transformer models with better relative position embeddings, 2020).
var relativeKinds = map[string]bool{"relative_key": true, "relative_key_query": true}

// biased returns the attention of all layers; MPNet's has biases.
func (g *graph) biased() func(int64) *attention {
	a := g.self()
	if relativeKinds[g.PositionType] {
		a.bias = g.distanceKeys(g.PositionType == "relative_key_query")
	}
	if g.Type == "mpnet" {
		g.Source = g.prefix + "encoder.relative_attention_bias"
		table := g.weight("encoder.relative_attention_bias.weight", g.Buckets, g.Heads)
		a.bias = g.sharedBias(g.biases(table, g.buckets(g.Buckets, 128)))
	}
	return func(int64) *attention { return a }
}

// sharedBias makes a value the bias of all layers.
func (g *graph) sharedBias(v *ir.Value) func(string, *ir.Value, *ir.Value) *ir.Value {
	return func(string, *ir.Value, *ir.Value) *ir.Value { return v }
}

// albert builds an ALBERT, whose layers share the tensors of their group.
func (g *graph) albert() *ir.Value {
	x, a := g.embedded(false), g.biased()(0)
	if g.Groups < 1 || g.Groups > g.Layers || g.Layers > math.MaxInt32 || g.Inner < 1 {
		g.Fail(g.inConfig(diag.Inputf("%d groups of %d layers, each of %d", g.Groups, g.Layers, g.Inner)))
	}
	for i := range g.Layers {
		for j := range g.Inner {
			g.claimLayer()
			at := fmt.Sprintf("encoder.albert_layer_groups.%d.albert_layers.%d.", i*g.Groups/g.Layers, j)
			x = g.layer(x, at, &albertBlock, a)
		}
	}
	return x
}

// embeddings returns the sum of the embeddings of tokens, positions and types, normalised.
func (g *graph) embeddings(p *positions) *ir.Value {
	x := g.summed(p)
	if g.Type == "xlm-roberta-xl" || g.Type == "megatron-bert" { // the layers' own norms come first
		return x
	}
	return g.norm(x, "embeddings.LayerNorm")
}

// summed returns the sum of the embeddings of tokens, positions and types.
func (g *graph) summed(p *positions) *ir.Value {
	g.Source = g.prefix + "embeddings"
	x := ops.Gather(g.Builder, g.weight("embeddings.word_embeddings.weight", free, free), g.ids, 0)
	size := last(x)
	if at := "embeddings.token_type_embeddings.weight"; g.tensors.has(g.prefix + at) {
		table := g.weight(at, free, size)
		if rows, _ := table.Type.Shape[0].Const(); rows == 1 { // RoBERTa's: the type is always 0
			x = g.binary(ops.Add, x, table)
		} else {
			types := g.Param(TokenTypes, g.ids.Type)
			x = g.binary(ops.Add, x, ops.Gather(g.Builder, table, types, 0))
		}
	}
	if at := "embeddings.position_embeddings.weight"; g.tensors.has(g.prefix+at) && (p == nil || !p.unread) {
		x = g.binary(ops.Add, x, g.positioned(g.weight(at, free, size), p))
	}
	if at := "embeddings.task_type_embeddings.weight"; g.Tasks && g.tensors.has(g.prefix+at) { // ERNIE's: always task 0
		x = g.binary(ops.Add, x, ops.SliceAxis(g.Builder, g.weight(at, free, size), 0, none, sym.Const(1)))
	}
	return x
}

// positions says which rows of a table of positions tokens read: those after the row of the id that pads, which tokens
// of this id read themselves.
type positions struct {
	padding int64
	unread  bool // none
}

// afterPadding returns the positions of a family whose id for padding is otherwise by default.
func (g *graph) afterPadding(otherwise int64) *positions {
	return &positions{padding: g.padding(otherwise)}
}

// positioned returns the embeddings of the tokens' positions.
func (g *graph) positioned(table *ir.Value, p *positions) *ir.Value {
	rows, _ := table.Type.Shape[0].Const()
	if p == nil {
		g.atMost(rows)
		return ops.SliceAxis(g.Builder, table, 0, sym.Const(0), g.tokens())
	}
	if p.padding < 0 || p.padding >= rows {
		g.Fail(g.inConfig(diag.Inputf("pad_token_id is %d; the table of positions has %d rows", p.padding, rows)))
	}
	g.atMost(rows - 1 - p.padding)
	token := ops.Cast(g.Builder, g.binary(ops.Ne, g.ids, g.number(g.ids, float64(p.padding))), g.ids.Type.DType)
	at := g.binary(ops.Mul, ops.CumSum(g.Builder, token, 1, false, false), token)
	return ops.Gather(g.Builder, table, g.binary(ops.Add, at, g.number(at, float64(p.padding))), 0)
}

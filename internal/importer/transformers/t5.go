package transformers

import (
	"fmt"
	"strings"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// t5Block is a layer of T5's encoder (Raffel et al., Exploring the limits of transfer learning, 2020).
var t5Block = block{layer: "encoder.block.%d.", query: "layer.0.SelfAttention.q", key: "layer.0.SelfAttention.k",
	value: "layer.0.SelfAttention.v", out: "layer.0.SelfAttention.o", up: "layer.1.DenseReluDense.wi",
	down: "layer.1.DenseReluDense.wo", beforeAttention: "layer.0.layer_norm", beforeUp: "layer.1.layer_norm"}

func init() {
	for _, name := range []string{"t5", "mt5", "umt5"} {
		encoders[name] = (*graph).t5
	}
}

// t5 builds the encoder of a T5. Scores are not scaled, and have a bias for the distance: one for all layers, or one
// for each layer of a umT5.
func (g *graph) t5() *ir.Value {
	g.prefix = g.tensors.prefix("encoder.final_layer_norm.weight")
	g.scales = func(w *ir.Value) *ir.Value { return w }
	b := t5Block
	if act, gated := strings.CutPrefix(g.Act, "gated-"); gated {
		if g.Act = act; act == "gelu" {
			g.Act = "gelu_new"
		}
		b.gate, b.up = "layer.1.DenseReluDense.wi_0", "layer.1.DenseReluDense.wi_1"
	}
	at := g.prefix + "shared.weight"
	if !g.tensors.has(at) {
		at = g.prefix + "encoder.embed_tokens.weight"
	}
	g.Source = at
	x := g.full(ops.Gather(g.Builder, g.stored(at, free, free), g.ids, 0))
	g.Source = g.prefix + "encoder.relative_attention"
	buckets := g.buckets(g.Buckets, g.MostFar)
	bias := func(at string, _, _ *ir.Value) *ir.Value {
		g.Source = g.prefix + at + "layer.0.SelfAttention.relative_attention_bias"
		table := g.weight(at+"layer.0.SelfAttention.relative_attention_bias.weight", g.Buckets, g.Heads)
		return g.biases(table, buckets)
	}
	if g.Type != "umt5" {
		bias = g.sharedBias(bias(fmt.Sprintf(b.layer, 0), nil, nil))
	}
	a := &attention{heads: g.Heads, scale: 1, seen: g.keys(), bias: bias}
	x = g.layers(x, &b, func(int64) *attention { return a })
	return g.norm(x, "encoder.final_layer_norm")
}

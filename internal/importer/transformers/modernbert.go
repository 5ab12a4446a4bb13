package transformers

import (
	"fmt"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// modernBlock is a layer of ModernBERT (Warner et al., Smarter, better, faster, longer, 2024), with the tensors that it
// stores in one split.
var modernBlock = block{layer: "layers.%d.", query: "attn.query", key: "attn.key", value: "attn.value", out: "attn.Wo",
	gate: "mlp.gate", up: "mlp.up", down: "mlp.Wo", beforeAttention: "attn_norm", beforeUp: "mlp_norm"}

// modernConfig is what a ModernBERT's configuration says beyond that of other encoders.
type modernConfig struct {
	GlobalEvery    int64   `json:"global_attn_every_n_layers"`
	GlobalTheta    float64 `json:"global_rope_theta"`
	LocalRopeTheta float64 `json:"local_rope_theta"`
	Local          int64   `json:"local_attention"`
	ClassifierAct  string  `json:"classifier_activation"`
}

func init() { encoders["modernbert"] = (*graph).modern }

// modern builds a ModernBERT.
func (g *graph) modern() *ir.Value {
	g.prefix = g.tensors.prefix("embeddings.tok_embeddings.weight")
	if g.LayerTypes != nil && int64(len(g.LayerTypes)) < g.Layers {
		g.Fail(g.inConfig(diag.Inputf("%d layer_types of %d layers", len(g.LayerTypes), g.Layers)))
	}
	g.Source = g.prefix + "embeddings"
	x := g.full(ops.Gather(g.Builder, g.stored(g.prefix+"embeddings.tok_embeddings.weight", free, free), g.ids, 0))
	x = g.norm(x, "embeddings.norm")
	kinds := map[bool]*attention{}
	first := modernBlock.with(func(b *block) { b.beforeAttention = "" }) // the embeddings are normalised already
	for i := range g.Layers {
		g.claimLayer()
		at := fmt.Sprintf(modernBlock.layer, i)
		g.split(at+"attn.Wqkv", at+modernBlock.query, at+modernBlock.key, at+modernBlock.value)
		g.split(at+"mlp.Wi", at+modernBlock.gate, at+modernBlock.up)
		sliding := i%or(g.GlobalEvery, 3) != 0
		if g.LayerTypes != nil {
			sliding = g.sliding(i)
		}
		if kinds[sliding] == nil {
			kinds[sliding] = g.modernAttention(sliding, g.headSize(at+modernBlock.query))
		}
		b := &modernBlock
		if i == 0 {
			b = &first
		}
		x = g.layer(x, at, b, kinds[sliding])
	}
	return g.norm(x, "final_norm")
}

// modernAttention returns the attention of layers that see all tokens, or near ones.
func (g *graph) modernAttention(sliding bool, size int64) *attention {
	a := g.self()
	theta := or(g.GlobalTheta, 160000)
	if sliding {
		near := or(g.Local, 128) / 2
		if near < 0 {
			g.Fail(g.inConfig(diag.Inputf("local_attention is %d", g.Local)))
		}
		a.seen, theta = g.window(near, near), or(g.LocalRopeTheta, 10000)
	}
	a.turn = g.rotation(g.turningOf(sliding, theta), size)
	return a
}

// split makes the rows of a linear layer of the encoder several layers of as many rows.
func (g *graph) split(name string, into ...string) {
	for i, part := range into {
		into[i] = g.prefix + part
	}
	if err := g.tensors.split(g.prefix+name, into); err != nil {
		g.Fail(err)
	}
}

// splitIf is split of a layer that there need not be.
func (g *graph) splitIf(name string, into ...string) {
	if g.tensors.has(g.prefix + name + ".weight") {
		g.split(name, into...)
	}
}

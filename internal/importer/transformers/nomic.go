package transformers

import (
	"fmt"
	"math"
	"strings"

	"github.com/weirml/weir/internal/ir"
)

// nomicBlock is a layer of BERT's kind with rotary embedding and a gate (Nussbaum et al., Nomic embed, 2024).
var nomicBlock = block{layer: "layers.%d.", query: "self_attn.q_proj", key: "self_attn.k_proj",
	value: "self_attn.v_proj", out: "self_attn.o_proj", gate: "mlp.gate_proj", up: "mlp.up_proj",
	down: "mlp.down_proj", afterAttention: "post_attention_layernorm", after: "post_mlp_layernorm"}

// oldNames gives the tensors of the models' own code the names of transformers 5: queries, keys and values are
// self_attn.all there, and up and gate mlp.wide.
var oldNames = strings.NewReplacer("encoder.layers.", "layers.", "encoder.layer.", "layers.", // Nomic's and GTE's:
	"emb_ln.", "embeddings.LayerNorm.", "attn.Wqkv.", "self_attn.all.", "attention.qkv_proj.", "self_attn.all.",
	"attn.out_proj.", "self_attn.o_proj.", "attention.o_proj.", "self_attn.o_proj.",
	"norm1.", "post_attention_layernorm.", "attn_ln.", "post_attention_layernorm.",
	"norm2.", "post_mlp_layernorm.", "mlp_ln.", "post_mlp_layernorm.",
	"mlp.fc11.", "mlp.up_proj.", "mlp.fc12.", "mlp.gate_proj.", "mlp.fc2.", "mlp.down_proj.",
	"mlp.up_gate_proj.", "mlp.wide.")

// nomicConfig is what the configurations of the models' own code say.
type nomicConfig struct {
	RotaryBase   float64  `json:"rotary_emb_base"`
	RotaryShare  *float64 `json:"rotary_emb_fraction"`
	RotaryFactor float64  `json:"rotary_scaling_factor"`
	Trained      int64    `json:"max_trained_positions"`
	Interleaved  bool     `json:"rotary_emb_interleaved"`
	PreNorm      bool     `json:"prenorm"`
	RMSNorm      bool     `json:"use_rms_norm"`
	Experts      int64    `json:"num_experts"`
	Logn         bool     `json:"logn_attention_scale"`
	NormType     string   `json:"layer_norm_type"`
	ActFunction  string   `json:"activation_function"`
}

func init() {
	encoders["nomic_bert"] = func(g *graph) *ir.Value { return g.nomic(1000) }
	for _, name := range []string{"gte", "new"} { // Alibaba's GTE, Snowflake's Arctic Embed 2
		encoders[name] = func(g *graph) *ir.Value { return g.nomic(160000) }
	}
}

// nomic builds an encoder of this kind; theta is the base of angles by default.
func (g *graph) nomic(theta float64) *ir.Value {
	g.ofOwnCode()
	if err := g.tensors.rename(oldNames.Replace); err != nil {
		g.Fail(err)
	}
	g.prefix = g.tensors.prefix("embeddings.word_embeddings.weight")
	for i := range g.Layers {
		at := fmt.Sprintf(nomicBlock.layer, i)
		if !g.tensors.has(g.prefix + at + "self_attn.all.weight") {
			break
		}
		g.splitIf(at+"self_attn.all", at+nomicBlock.query, at+nomicBlock.key, at+nomicBlock.value)
		g.splitIf(at+"mlp.wide", at+nomicBlock.up, at+nomicBlock.gate)
	}
	x, a := g.embeddings(nil), g.self()
	size := g.headSize(fmt.Sprintf(nomicBlock.layer, 0) + nomicBlock.query)
	t := g.turningOf(false, nonzero(g.Theta, g.RotaryBase, theta))
	if g.Type == "new" && t.kind() == "ntk" && t.Mixed == nil {
		// The base grows by the factor, and the frequencies shrink by a small part of it.
		t.Kind, t.Theta, t.Factor = "linear", t.Theta*t.Factor, math.Pow(t.Factor, 2/float64(size))
	}
	a.turn = g.rotation(t, size)
	return g.layers(x, &nomicBlock, func(int64) *attention { return a })
}

// ofOwnCode refuses settings of the models' own code that transformers 5 does not have.
func (g *graph) ofOwnCode() {
	for _, s := range []struct {
		is   bool
		what string
	}{
		{g.PreNorm, "prenorm"}, {g.RMSNorm, "use_rms_norm"}, {g.Interleaved, "rotary_emb_interleaved"},
		{g.Experts > 0, "num_experts"}, {g.Logn, "logn_attention_scale"},
		{g.RotaryShare != nil && *g.RotaryShare != 1, "rotary_emb_fraction"},
		{or(g.NormType, "layer_norm") != "layer_norm", "the layer_norm_type " + g.NormType},
		{or(g.PositionType, "rope") != "rope" && g.PositionType != "absolute",
			"the position_embedding_type " + g.PositionType},
	} {
		if s.is {
			g.Fail(g.notYet(s.what))
		}
	}
	if g.RotaryFactor > 0 { // for longer texts, the angles depend on the text
		g.atMost(or(g.Trained, 2048))
	}
}

package transformers

import (
	"fmt"
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// The layers of language models, which normalise their operands (Touvron et al., LLaMA, 2023), and of Gemma, which
// normalises what is added too.
var (
	llamaBlock = block{layer: "layers.%d.", query: "self_attn.q_proj", key: "self_attn.k_proj",
		value: "self_attn.v_proj", out: "self_attn.o_proj", gate: "mlp.gate_proj", up: "mlp.up_proj",
		down: "mlp.down_proj", beforeAttention: "input_layernorm", beforeUp: "post_attention_layernorm"}
	qwen3Block  = llamaBlock.with(func(b *block) { b.queryNorm, b.keyNorm = "self_attn.q_norm", "self_attn.k_norm" })
	gemma2Block = llamaBlock.with(func(b *block) {
		b.ofAttention, b.beforeUp = "post_attention_layernorm", "pre_feedforward_layernorm"
		b.ofDown = "post_feedforward_layernorm"
	})
	gemma3Block = gemma2Block.with(func(b *block) { b.queryNorm, b.keyNorm = qwen3Block.queryNorm, qwen3Block.keyNorm })
)

// with returns a changed copy.
func (b block) with(change func(*block)) block {
	change(&b)
	return b
}

// decoderConfig is what the configurations of language models say beyond those of encoders.
type decoderConfig struct {
	KeyHeads      int64   `json:"num_key_value_heads"`
	Window        int64   `json:"sliding_window"`
	UseWindow     bool    `json:"use_sliding_window"`     // Qwen
	WindowsFrom   int64   `json:"max_window_layers"`      // Qwen
	WindowPattern int64   `json:"sliding_window_pattern"` // Gemma 3
	LocalTheta    float64 `json:"rope_local_base_freq"`   // Gemma 3
	ScaleOf       float64 `json:"query_pre_attn_scalar"`  // Gemma
	Softcap       float64 `json:"attn_logit_softcapping"` // Gemma 2
	Bidirectional bool    `json:"use_bidirectional_attention"`
	Causal        *bool   `json:"is_causal"`
}

// decoder is a family of language models.
type decoder struct {
	block   *block
	gemma   bool // embeddings are multiplied by √hidden, and norms by 1 + weight
	encodes bool // tokens see those after them
	// windows are the layers that see near tokens alone, if layer_types does not name them
	windows func(c *config, i int64) bool
	theta   [2]float64 // the base of angles by default: of layers that see all tokens, and near ones
}

// decoders are the language models by model_type.
var decoders = map[string]decoder{
	"llama":    {block: &llamaBlock},
	"mistral":  {block: &llamaBlock, windows: func(c *config, _ int64) bool { return c.Window > 0 }},
	"qwen2":    {block: &llamaBlock, windows: qwenWindows},
	"qwen3":    {block: &qwen3Block, windows: qwenWindows},
	"eurobert": {block: &llamaBlock, encodes: true},
	"gemma":    {block: &llamaBlock, gemma: true},
	"gemma2":   {block: &gemma2Block, gemma: true, windows: func(_ *config, i int64) bool { return i%2 == 0 }},
	"gemma3_text": {block: &gemma3Block, gemma: true, theta: [2]float64{1e6, 1e4}, windows: func(c *config, i int64) bool {
		return (i+1)%max(or(c.WindowPattern, 6), 1) != 0
	}},
}

// qwenWindows says that layers from max_window_layers on see near tokens alone.
func qwenWindows(c *config, i int64) bool {
	return c.UseWindow && c.Window > 0 && i >= or(c.WindowsFrom, 28)
}

func init() {
	for name, d := range decoders {
		encoders[name] = d.build
	}
}

// build builds a language model up to its last hidden state.
func (d decoder) build(g *graph) *ir.Value {
	g.prefix = g.tensors.prefix("embed_tokens.weight")
	if d.gemma {
		g.scales = func(w *ir.Value) *ir.Value { return g.binary(ops.Add, w, g.number(w, 1)) }
	} else {
		g.scales = func(w *ir.Value) *ir.Value { return w }
	}
	of := d.attention(g)
	g.Source = g.prefix + "embed_tokens"
	x := g.full(ops.Gather(g.Builder, g.stored(g.prefix+"embed_tokens.weight", free, free), g.ids, 0))
	if d.gemma {
		x = g.binary(ops.Mul, x, g.number(x, math.Sqrt(float64(last(x)))))
	}
	return g.norm(g.layers(x, d.block, of), "norm")
}

// attention returns the attention of each layer.
func (d decoder) attention(g *graph) func(i int64) *attention {
	encodes := d.encodes || g.Causal != nil && !*g.Causal
	before, after := g.Window-1, int64(0)
	if encodes {
		before, after = g.Window, g.Window
	}
	if g.Bidirectional {
		if g.Type != "gemma3_text" {
			g.Fail(g.notYet("use_bidirectional_attention"))
		}
		encodes, before, after = true, g.Window/2, g.Window/2
	}
	switch {
	case g.Softcap < 0 || g.ScaleOf < 0:
		g.Fail(g.inConfig(diag.Inputf("attn_logit_softcapping is %v, query_pre_attn_scalar %v", g.Softcap, g.ScaleOf)))
	case g.Type == "gemma2" && (g.Softcap <= 0 || g.ScaleOf <= 0):
		g.Fail(g.notYet("no attn_logit_softcapping or query_pre_attn_scalar"))
	case g.Type == "gemma3_text":
		g.ScaleOf = or(g.ScaleOf, 256)
	}
	named := g.LayerTypes != nil && d.windows != nil && g.Type != "mistral" // others do not read them
	if named && int64(len(g.LayerTypes)) < g.Layers {
		g.Fail(g.inConfig(diag.Inputf("%d layer_types of %d layers", len(g.LayerTypes), g.Layers)))
	}
	kinds := map[bool]*attention{}
	return func(i int64) *attention {
		sliding := d.windows != nil && d.windows(g.config, i)
		if named {
			sliding = g.sliding(i)
		}
		if a := kinds[sliding]; a != nil {
			return a
		}
		a := &attention{heads: g.Heads, groups: or(g.KeyHeads, g.Heads), causal: !encodes, softcap: g.Softcap,
			seen: g.keys()}
		if g.ScaleOf > 0 {
			a.scale = 1 / math.Sqrt(g.ScaleOf)
		}
		theta := or(g.Theta, or(d.theta[0], 10000))
		if sliding {
			if g.Window < 1 {
				g.Fail(g.inConfig(diag.Inputf("layer %d sees near tokens; sliding_window is %d", i, g.Window)))
			}
			a.seen = g.window(before, after)
			if d.theta[1] > 0 {
				theta = or(g.LocalTheta, d.theta[1])
			}
		}
		a.turn = g.rotation(g.turningOf(sliding, theta), g.headSize(fmt.Sprintf(d.block.layer, 0)+d.block.query))
		kinds[sliding] = a
		return a
	}
}

// sliding reports whether layer_types says that a layer sees near tokens alone.
func (g *graph) sliding(i int64) bool {
	switch kind := g.LayerTypes[i]; kind {
	case "full_attention":
	case "sliding_attention":
		return true
	default:
		g.Fail(g.notYet(fmt.Sprintf("the layer type %q", kind)))
	}
	return false
}

// headSize returns the size of a head from the linear layer of queries.
func (g *graph) headSize(query string) int64 {
	t, err := g.tensors.tensor(g.prefix + query + ".weight")
	if err != nil {
		g.Fail(err)
	}
	rows := int64(0)
	if t.Rank() == 2 {
		rows = t.Shape()[0]
	}
	if g.Heads < 1 || rows%g.Heads != 0 || g.HeadSize != 0 && g.HeadSize != rows/g.Heads {
		g.Fail(g.inConfig(diag.Inputf("%d queries of %d heads of %d elements", rows, g.Heads, g.HeadSize)))
	}
	return rows / g.Heads
}

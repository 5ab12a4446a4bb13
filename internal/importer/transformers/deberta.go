package transformers

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// The layers of DeBERTa 2 and 3, and of the first.
var (
	debertaBlock = bertBlock.with(func(b *block) {
		b.query, b.key, b.value = "attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"
	})
	deberta1Block = bertBlock.with(func(b *block) {
		b.packed, b.query, b.key, b.value = "attention.self.in_proj", "attention.self.q_bias", "", "attention.self.v_bias"
	})
)

// debertaConfig is what a DeBERTa's configuration says beyond BERT's.
type debertaConfig struct {
	Relative    bool   `json:"relative_attention"`
	MostFar     int64  `json:"max_relative_positions"`
	Buckets     int64  `json:"position_buckets"`
	Kinds       words  `json:"pos_att_type"`
	Shared      bool   `json:"share_att_key"`
	NormDistant string `json:"norm_rel_ebd"`
	Positioned  *bool  `json:"position_biased_input"`
	Kernel      int64  `json:"conv_kernel_size"`
	ConvAct     string `json:"conv_act"`
	ConvGroups  int64  `json:"conv_groups"`
	PoolerAct   string `json:"pooler_hidden_act"`
	Talking     bool   `json:"talking_head"`
}

// words is a list of words, or a text in which | separates them.
type words []string

// UnmarshalJSON reads either.
func (w *words) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) != nil {
		return json.Unmarshal(text, (*[]string)(w))
	}
	*w = nil
	for _, s := range strings.Split(strings.ToLower(one), "|") {
		if s = strings.TrimSpace(s); s != "" {
			*w = append(*w, s)
		}
	}
	return nil
}

func init() {
	encoders["deberta-v2"] = func(g *graph) *ir.Value { return g.deberta(&debertaBlock) }
	encoders["deberta"] = func(g *graph) *ir.Value {
		if g.Talking {
			g.Fail(g.notYet("talking_head"))
		}
		g.debertaConfig.Buckets, g.Shared, g.NormDistant, g.Kernel = 0, false, "", 0 // settings of the later ones
		return g.deberta(&deberta1Block)
	}
}

// deberta builds a DeBERTa.
func (g *graph) deberta(b *block) *ir.Value {
	g.prefix = g.tensors.prefix("embeddings.word_embeddings.weight")
	var p *positions
	if g.Positioned != nil && !*g.Positioned {
		p = &positions{unread: true}
	}
	x := g.summed(p)
	if g.tensors.has(g.prefix + "embeddings.embed_proj.weight") {
		x = g.linear(x, "embeddings.embed_proj")
	}
	x = g.masked(g.norm(x, "embeddings.LayerNorm"))
	a := g.self()
	size := last(x) / max(g.Heads, 1)
	if b.packed == "" {
		size = g.headSize(fmt.Sprintf(b.layer, 0) + b.query)
	}
	a.scale = 1 / math.Sqrt(float64(size)*float64(1+len(g.Kinds)))
	if g.Relative && len(g.Kinds) > 0 {
		a.bias = g.disentangled(a.scale)
	}
	embedded := x
	for i := range g.Layers {
		g.claimLayer()
		x = g.layer(x, fmt.Sprintf(b.layer, i), b, a)
		if i == 0 && g.Kernel > 0 {
			x = g.convolved(embedded, x)
		}
	}
	return x
}

// disentangled returns the scores of contents and distances that attention adds to those of contents (He et al.,
// DeBERTa, 2021).
func (g *graph) disentangled(scale float64) func(at string, q, k *ir.Value) *ir.Value {
	c := g.debertaConfig
	if slices.ContainsFunc(c.Kinds, func(kind string) bool { return kind != "c2p" && kind != "p2c" }) {
		g.Fail(g.notYet(fmt.Sprintf("the pos_att_type %q", c.Kinds)))
	}
	if c.Buckets > 0 && c.Buckets%2 != 0 { // whose last buckets begin beyond the largest distance
		g.Fail(g.notYet(fmt.Sprintf("position_buckets %d", c.Buckets)))
	}
	most := c.MostFar
	if most < 1 {
		most = g.Positions
	}
	span := most
	if c.Buckets > 0 {
		span = c.Buckets
	}
	if most < 2 || most > mostDistance || span > mostDistance || c.Buckets > 0 && (span < 2 || most-1 <= span/2) {
		g.Fail(g.inConfig(diag.Inputf("%d buckets of distances up to %d", c.Buckets, most)))
	}
	g.Source = g.prefix + "encoder.rel_embeddings"
	table := g.weight("encoder.rel_embeddings.weight", 2*span, free)
	if strings.Contains(strings.ToLower(c.NormDistant), "layer_norm") {
		table = g.norm(table, "encoder.LayerNorm")
	}
	list := make([]int64, 2*most+1) // by key − query
	for i := range list {
		d := most - int64(i)
		if c.Buckets > 0 {
			d = logBucket(d, c.Buckets, most)
		}
		list[i] = min(max(d+span, 0), 2*span-1)
	}
	one := sym.Const(1)
	rows := ops.Reshape(g.Builder, g.byDistances(list, most), one, one, g.tokens(), g.tokens())
	turned := ops.Transpose(g.Builder, rows, 0, 1, 3, 2)
	key, query := "attention.self.pos_key_proj", "attention.self.pos_query_proj"
	if c.Shared {
		key, query = debertaBlock.key, debertaBlock.query
	} else if g.Type == "deberta" {
		key, query = "attention.self.pos_proj", "attention.self.pos_q_proj"
	}
	return func(at string, q, k *ir.Value) *ir.Value {
		var sum *ir.Value
		if slices.Contains(c.Kinds, "c2p") {
			sum = g.byDistance(q, g.linear(table, at+key), rows)
		}
		if slices.Contains(c.Kinds, "p2c") {
			y := g.byDistance(k, g.linear(table, at+query), turned)
			if y = ops.Transpose(g.Builder, y, 0, 1, 3, 2); sum != nil {
				y = g.binary(ops.Add, sum, y)
			}
			sum = y
		}
		return g.binary(ops.Mul, sum, g.number(sum, scale))
	}
}

// byDistance returns the products of x, [batch, heads, tokens, size], and of the rows, [1, 1, tokens, tokens], of a
// table, [rows, heads · size].
func (g *graph) byDistance(x, table, rows *ir.Value) *ir.Value {
	heads := x.Type.Shape[1]
	table = ops.Reshape(g.Builder, table, table.Type.Shape[0], heads, x.Type.Shape[3])
	return g.productsAt(x, ops.Transpose(g.Builder, table, 1, 0, 2), rows)
}

// logBucket returns the bucket of a distance: near distances have their own, farther ones share one by their logarithm.
// Arithmetic is in f32, which decides at the bounds between buckets.
func logBucket(distance, buckets, most int64) int64 {
	middle := buckets / 2
	far := max(distance, -distance)
	if far <= middle {
		return distance
	}
	log := func(x float32) float32 { return float32(math.Log(float64(x))) }
	share := log(float32(far)/float32(middle)) / log(float32(float64(most-1)/float64(middle))) * float32(middle-1)
	far = middle + int64(math.Ceil(float64(share)))
	if distance < 0 {
		return -far
	}
	return far
}

// convolved adds the convolution of the embeddings to the first layer's result, and normalises the sum.
func (g *graph) convolved(embedded, x *ir.Value) *ir.Value {
	c := g.debertaConfig
	if c.Kernel%2 == 0 || c.Kernel > 1<<10 {
		g.Fail(g.notYet(fmt.Sprintf("conv_kernel_size %d", c.Kernel)))
	}
	g.Source = g.prefix + "encoder.conv"
	w := g.weight("encoder.conv.conv.weight", last(x), free, c.Kernel)
	bias := g.weight("encoder.conv.conv.bias", last(x))
	side := []sym.Expr{sym.Const((c.Kernel - 1) / 2)}
	window := ops.Window{Kernel: []int64{c.Kernel}, Strides: []int64{1}, Dilations: []int64{1}, Begin: side, End: side}
	y := ops.Convolution(g.Builder, ops.Transpose(g.Builder, embedded, 0, 2, 1), w, bias, window, or(c.ConvGroups, 1))
	y = g.activation(g.masked(ops.Transpose(g.Builder, y, 0, 2, 1)), or(c.ConvAct, "tanh"))
	return g.masked(g.norm(g.binary(ops.Add, x, y), "encoder.conv.LayerNorm"))
}

// masked makes the states of padding 0.
func (g *graph) masked(x *ir.Value) *ir.Value {
	seen := ops.Reshape(g.Builder, ops.Cast(g.Builder, g.mask, dtype.F32), g.batch(), g.tokens(), sym.Const(1))
	return g.binary(ops.Mul, x, seen)
}

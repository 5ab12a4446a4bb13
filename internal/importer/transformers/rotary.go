package transformers

import (
	"fmt"
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// turning is how a layer's queries and keys are turned by their positions, as configurations name it.
type turning struct {
	Kind      string   `json:"rope_type"`
	OldKind   string   `json:"type"`
	Theta     float64  `json:"rope_theta"`
	Partial   float64  `json:"partial_rotary_factor"`
	Factor    float64  `json:"factor"`
	Low       float64  `json:"low_freq_factor"`  // llama3
	High      float64  `json:"high_freq_factor"` // llama3
	Original  float64  `json:"original_max_position_embeddings"`
	Attention *float64 `json:"attention_factor"` // yarn
	Scale     float64  `json:"mscale"`           // yarn
	ScaleAll  float64  `json:"mscale_all_dim"`   // yarn
	Fast      float64  `json:"beta_fast"`        // yarn
	Slow      float64  `json:"beta_slow"`        // yarn
	Truncate  *bool    `json:"truncate"`         // yarn
	Mixed     *float64 `json:"mixed_b"`          // ntk
}

// kind returns the kind of the frequencies.
func (t turning) kind() string { return or(t.Kind, or(t.OldKind, "default")) }

// turnings are those of layers that see all tokens and of layers that see near ones, or one for all layers.
type turnings struct {
	turning
	Full    *turning `json:"full_attention"`
	Sliding *turning `json:"sliding_attention"`
}

// turningOf returns how the layers of a kind are turned. theta is the base if the configuration names none.
func (g *graph) turningOf(sliding bool, theta float64) turning {
	all := g.OldRopes
	if all == nil {
		all = g.Ropes
	}
	t := turning{}
	switch {
	case all == nil:
	case sliding && all.Sliding != nil:
		t = *all.Sliding
	case !sliding && all.Full != nil:
		t = *all.Full
	case all.Full == nil && all.Sliding == nil && (!sliding || g.Type != "gemma3_text"):
		t = all.turning
	}
	t.Theta, t.Partial = or(t.Theta, theta), or(t.Partial, or(g.Partial, 1))
	t.Original = or(t.Original, float64(g.Positions))
	return t
}

// mostSize is the largest size of a head that is turned.
const mostSize = 1 << 16

// frequencies returns the angle of each pair of a head's elements from one position to the next (Su et al., RoFormer,
// 2021), and the factor of cosines and sines. Arithmetic is in f32 where transformers' is.
func (t turning) frequencies(size int64) ([]float32, float64, error) {
	if size < 2 || size > mostSize || t.Theta <= 0 || !(float64(size)*t.Partial >= 2 && t.Partial <= 1) {
		return nil, 0, diag.Inputf("rotary embedding of %d elements, %v of them, with the base %v", size, t.Partial,
			t.Theta)
	}
	size = int64(float64(size) * t.Partial)
	list := make([]float32, size/2)
	for i := range list {
		list[i] = 1 / float32(math.Pow(float64(float32(t.Theta)), float64(float32(2*i)/float32(size))))
	}
	kind := t.kind()
	if kind == "default" {
		return list, 1, nil
	}
	scale, ok := frequencyScales[kind]
	if !ok {
		return nil, 0, diag.Unsupportedf("rotary embedding of the type %q", kind).
			WithFix("an ONNX export of the model can be read")
	}
	t.Fast, t.Slow = or(t.Fast, 32), or(t.Slow, 1)
	if t.Factor < 1 || t.Original < 1 || kind == "llama3" && !(0 < t.Low && t.Low < t.High) ||
		kind == "yarn" && (t.Theta <= 1 || t.Fast <= 0 || t.Slow <= 0) {
		return nil, 0, diag.Inputf("rotary embedding of the type %q with the factor %v for texts of %v tokens", kind,
			t.Factor, t.Original)
	}
	return list, scale(t, list), nil
}

// frequencyScales scale frequencies for texts that are longer than those of the training, by type, and return the
// factor of cosines and sines.
var frequencyScales = map[string]func(t turning, list []float32) float64{
	"linear": func(t turning, list []float32) float64 {
		for i := range list {
			list[i] /= float32(t.Factor)
		}
		return 1
	},
	"llama3": func(t turning, list []float32) float64 {
		for i, f := range list {
			turns := float32(t.Original) / (float32(2*math.Pi) / f) // within the training's texts
			switch near := (turns - float32(t.Low)) / float32(t.High-t.Low); {
			case turns < float32(t.Low):
				list[i] = f / float32(t.Factor)
			case turns <= float32(t.High):
				list[i] = (1-near)*f/float32(t.Factor) + near*f
			}
		}
		return 1
	},
	"yarn": yarn, // Peng et al., YaRN: efficient context window extension of large language models, 2023
}

// yarn scales the frequencies of few turns within the training's texts, and not those of many.
func yarn(t turning, list []float32) float64 {
	size := float64(2 * len(list))
	pair := func(turns float64) float64 { // the pair that has so many turns
		return size * math.Log(t.Original/(turns*2*math.Pi)) / (2 * math.Log(t.Theta))
	}
	low, high := pair(t.Fast), pair(t.Slow)
	if t.Truncate == nil || *t.Truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, size-1)
	if low == high {
		high += 0.001
	}
	for i, f := range list {
		share := min(max((float32(i)-float32(low))/float32(high-low), 0), 1)
		list[i] = f/float32(t.Factor)*share + f*(1-share)
	}
	if t.Attention != nil {
		return *t.Attention
	}
	grown := func(by float64) float64 { return 0.1*by*math.Log(t.Factor) + 1 }
	if t.Scale != 0 && t.ScaleAll != 0 {
		return grown(t.Scale) / grown(t.ScaleAll)
	}
	return grown(1)
}

// rotation turns pairs of the elements of queries and keys by angles that grow with the position.
type rotation struct {
	cos, sin *ir.Value // [tokens, pairs]
}

// rotation returns the rotation of heads of a size.
func (g *graph) rotation(t turning, size int64) *rotation {
	list, factor, err := t.frequencies(size)
	if err != nil {
		g.Fail(g.inConfig(diag.As(err, diag.ErrInput)))
	}
	g.Source = g.prefix + "rotary_emb"
	at := ops.Cast(g.Builder, ops.Counting(g.Builder, dtype.I64, g.tokens()), dtype.F32)
	angles := g.binary(ops.Mul, ops.Reshape(g.Builder, at, g.tokens(), sym.Const(1)),
		g.Constant(g.Name(fmt.Sprintf("%s.frequencies", g.Source)), tensor.Of(list...)))
	r := &rotation{ops.Unary(g.Builder, ops.Cos, angles), ops.Unary(g.Builder, ops.Sin, angles)}
	if factor != 1 {
		r.cos = g.binary(ops.Mul, r.cos, g.number(angles, factor))
		r.sin = g.binary(ops.Mul, r.sin, g.number(angles, factor))
	}
	return r
}

// of turns x, [batch, heads, tokens, size]. Elements beyond the pairs stay as they are.
func (r *rotation) of(g *graph, x *ir.Value) *ir.Value {
	if 2*last(r.cos) == last(x) {
		return ops.RotateNode(g.Builder, x, r.cos, r.sin, false)
	}
	return ops.Rotate(g.Builder, x, r.cos, r.sin, false)
}

package transformers

import (
	"fmt"
	"path"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// block names the tensors of a family's layers: attention, then two linear layers with an activation between them
// (Vaswani et al., Attention is all you need, 2017). Families differ in where the norms stand. A part whose name is
// empty is missing.
type block struct {
	layer                   string // a format of the layer's number
	query, key, value, out  string
	queryNorm, keyNorm      string // of each head
	packed                  string // in place of query, key and value: for each head its rows of the three
	gate, up, down          string // with a gate, the activation is of the gate, which is multiplied by up
	beforeAttention         string // the norm of attention's operand
	ofAttention             string // the norm of attention's result, before it is added to the layer's operand
	afterAttention          string // the norm of that sum
	beforeUp, ofDown, after string // the same for the linear layers
}

// layer builds a layer whose tensors' names begin with at.
func (g *graph) layer(x *ir.Value, at string, b *block, a *attention) *ir.Value {
	y := g.attend(g.normIn(x, at, b.beforeAttention), at, b, a)
	y = g.normIn(g.linear(y, at+b.out), at, b.ofAttention)
	x = g.normIn(g.binary(ops.Add, y, x), at, b.afterAttention)
	y = g.normIn(x, at, b.beforeUp)
	up := g.linear(y, at+b.up)
	if b.gate != "" {
		up = g.binary(ops.Mul, g.activation(g.linear(y, at+b.gate), g.Act), up)
	} else {
		up = g.activation(up, g.Act)
	}
	y = g.normIn(g.linear(up, at+b.down), at, b.ofDown)
	return g.normIn(g.binary(ops.Add, y, x), at, b.after)
}

// normIn is norm of a part of a layer; x itself if the layer has no such part.
func (g *graph) normIn(x *ir.Value, at, name string) *ir.Value {
	if name == "" {
		return x
	}
	return g.norm(x, at+name)
}

// layers builds all layers. Attention of layer i is of(i).
func (g *graph) layers(x *ir.Value, b *block, of func(i int64) *attention) *ir.Value {
	for i := range g.Layers {
		g.claimLayer()
		x = g.layer(x, fmt.Sprintf(b.layer, i), b, of(i))
	}
	return x
}

// layerClaim is what a layer's part of the graph claims, in bytes: layers may share their tensors, so that their number
// is not bounded by the checkpoint's size.
const layerClaim = 16 << 10

// claimLayer claims the memory of the part of the graph that a layer, or a module, adds.
func (g *graph) claimLayer() {
	if err := g.folder.claim.Take(layerClaim); err != nil {
		g.Fail(err)
	}
}

// notYet returns the error for a setting that is not supported.
func (g *graph) notYet(what string) error {
	return g.inConfig(diag.Unsupportedf("%s of the model type %q", what, g.Type)).
		WithFix("an ONNX export of the model can be read")
}

// inConfig adds the name of the configuration to an error.
func (g *graph) inConfig(e *diag.Error) *diag.Error {
	return e.AtFile(path.Join(g.folder.name, g.at, "config.json"))
}

// attention is how the tokens of a text see each other in a layer.
type attention struct {
	heads, groups int64 // of queries; of keys and values, 0: as many
	scale         float64
	softcap       float64
	causal        bool      // tokens see those before them
	turn          *rotation // nil: none
	seen          *ir.Value // the mask, bools, broadcast to [batch, 1, tokens, tokens]
	// bias returns what is added to the scaled scores, broadcast to [batch, heads, tokens, tokens]; nil: nothing.
	bias func(at string, q, k *ir.Value) *ir.Value
}

// self returns attention of all tokens to all tokens.
func (g *graph) self() *attention { return &attention{heads: g.Heads, seen: g.keys()} }

// attend returns the result of attention before its last linear layer, [batch, tokens, heads · size].
func (g *graph) attend(x *ir.Value, at string, b *block, a *attention) *ir.Value {
	groups := or(a.groups, a.heads)
	var q, k, v *ir.Value
	if b.packed != "" {
		q, k, v = g.unpacked(x, at, b, a.heads)
	} else {
		q = g.perHead(g.linear(x, at+b.query), a.heads)
		k = g.perHead(g.linear(x, at+b.key), groups)
		v = g.perHead(g.linear(x, at+b.value), groups)
	}
	if groups < 1 || a.heads%groups != 0 || last(q) != last(k) || last(k) != last(v) {
		g.Fail(g.inConfig(diag.Inputf("%d heads of %d elements read %d heads of %d and %d", a.heads, last(q), groups,
			last(k), last(v))))
	}
	q, k = g.normIn(q, at, b.queryNorm), g.normIn(k, at, b.keyNorm)
	if a.turn != nil {
		q, k = a.turn.of(g, q), a.turn.of(g, k)
	}
	mask := a.seen
	if a.bias != nil {
		bias := a.bias(at, q, k)
		mask = ops.Where(g.Builder, mask, bias, g.number(bias, hiddenScore))
	}
	g.Source = g.prefix + at + "attention"
	y := ops.AttentionNode(g.Builder, ops.AttentionOperands{Query: q, Key: k, Value: v, Mask: mask},
		ops.AttentionSettings{Past: none, Fill: hiddenScore, Scale: a.scale, Softcap: a.softcap, Causal: a.causal})
	return g.joined(y)
}

// unpacked returns the queries, keys and values that one linear layer computes, head by head. Queries and values have
// biases of their own.
func (g *graph) unpacked(x *ir.Value, at string, b *block, heads int64) (q, k, v *ir.Value) {
	y := g.linear(x, at+b.packed)
	if heads < 1 || last(y)%(3*heads) != 0 {
		g.Fail(g.inConfig(diag.Inputf("%d queries, keys and values of %d heads", last(y), heads)))
	}
	size := last(y) / (3 * heads)
	y = g.perHead(y, heads)
	part := func(i int64, bias string) *ir.Value {
		p := ops.SliceAxis(g.Builder, y, 3, sym.Const(i*size), sym.Const(size))
		if bias == "" {
			return p
		}
		of := g.weight(at+bias, heads*size)
		return g.binary(ops.Add, p, ops.Reshape(g.Builder, of, sym.Const(heads), sym.Const(1), sym.Const(size)))
	}
	return part(0, b.query), part(1, b.key), part(2, b.value)
}

// window returns the mask of tokens that see those at a distance of at most before and after them.
func (g *graph) window(before, after int64) *ir.Value {
	d := g.distances()
	near := g.binary(ops.And, g.binary(ops.Ge, d, g.number(d, float64(-before))),
		g.binary(ops.Le, d, g.number(d, float64(after))))
	return g.binary(ops.And, g.keys(), near)
}

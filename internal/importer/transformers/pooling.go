package transformers

import (
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// pooled returns a vector for each text, [batch, size], from the states of its tokens.
func (g *graph) pooled(hidden *ir.Value, p Pooling) *ir.Value {
	if len(hidden.Type.Shape) != 3 {
		g.Fail(g.folder.in("modules.json", diag.Unsupportedf("a second pooling")))
	}
	if len(p.Modes) == 0 || len(p.Modes) > mostModes {
		g.Fail(g.folder.in("modules.json", diag.Unsupportedf("a pooling of %d modes", len(p.Modes))))
	}
	g.Source = "pooling"
	at := ops.Counting(g.Builder, dtype.I64, hidden.Type.Shape[1])
	tokens := g.binary(ops.Ne, g.mask, g.number(g.mask, 0)) // [batch, tokens]
	begin := g.firstOf(tokens)                              // [batch, 1]
	seen := tokens
	if p.ExcludePrompt {
		prompt := g.Param(PromptTokens, ir.Type{DType: dtype.I64, Shape: []sym.Expr{sym.Const(1)}})
		after := g.binary(ops.Ge, at, g.binary(ops.Add, begin, prompt))
		seen = g.binary(ops.And, seen, after)
	}
	x := pool{g, hidden, at, begin, seen, ops.Cast(g.Builder, seen, dtype.F32)}
	var list []*ir.Value
	for _, mode := range p.Modes {
		list = append(list, x.by(mode))
	}
	if len(list) == 1 {
		return list[0]
	}
	return ops.Concat(g.Builder, 1, list...)
}

// firstOf returns the index of the first token that a mask, [batch, tokens], has for each text; 0 if it has none.
func (g *graph) firstOf(mask *ir.Value) *ir.Value {
	return ops.ArgMax(g.Builder, ops.Cast(g.Builder, mask, dtype.I32), 1, false, true, false)
}

// pool is a pooling of states.
type pool struct {
	*graph
	hidden  *ir.Value // [batch, tokens, size]
	at      *ir.Value // the tokens' indices, [tokens]
	begin   *ir.Value // the index of each text's first token, [batch, 1]
	seen    *ir.Value // whether a token counts, [batch, tokens]
	weights *ir.Value // 1 for tokens that count, else 0
}

// by returns the vectors of one mode, [batch, size].
func (p *pool) by(mode string) *ir.Value {
	switch mode {
	case "mean":
		return p.binary(ops.Div, p.sum(p.weights), p.atLeast(p.weights))
	case "mean_sqrt_len_tokens":
		return p.binary(ops.Div, p.sum(p.weights), ops.Unary(p.Builder, ops.Sqrt, p.atLeast(p.weights)))
	case "weightedmean": // by the position in the text, from 1
		w := ops.Cast(p.Builder, p.binary(ops.Sub, p.at, p.begin), dtype.F32)
		w = p.binary(ops.Mul, p.binary(ops.Add, w, p.number(w, 1)), p.weights)
		return p.binary(ops.Div, p.sum(w), p.atLeast(w))
	case "max":
		none := p.number(p.hidden, math.Inf(-1))
		return ops.ReduceMax(p.Builder, ops.Where(p.Builder, p.each(p.seen), p.hidden, none), false, 1)
	case "cls":
		return p.pick(p.binary(ops.Eq, p.at, p.firstOf(p.seen)))
	case "lasttoken": // 0 for a text whose tokens all do not count
		index := p.binary(ops.Mul, p.at, ops.Cast(p.Builder, p.seen, dtype.I64))
		end := ops.ReduceMax(p.Builder, index, true, 1)
		return p.pick(p.binary(ops.And, p.binary(ops.Eq, p.at, end), p.seen))
	}
	p.Fail(p.folder.in("modules.json", diag.Unsupportedf("the pooling mode %q", mode)))
	return nil
}

// each gives a value for each token, [batch, tokens], an axis for the elements of the token's state.
func (p *pool) each(v *ir.Value) *ir.Value {
	return ops.Reshape(p.Builder, v, p.batch(), p.tokens(), sym.Const(1))
}

// sum returns the sum of the states by weights, [batch, size].
func (p *pool) sum(weights *ir.Value) *ir.Value {
	return ops.ReduceSum(p.Builder, p.binary(ops.Mul, p.hidden, p.each(weights)), false, 1)
}

// atLeast returns the sum of weights, [batch, 1], at least 1e-9.
func (p *pool) atLeast(weights *ir.Value) *ir.Value {
	sum := ops.ReduceSum(p.Builder, weights, true, 1)
	return p.binary(ops.Max, sum, p.number(sum, 1e-9))
}

// pick returns the state of the one token of each text for which which, [batch, tokens], is true.
func (p *pool) pick(which *ir.Value) *ir.Value {
	return ops.ReduceSum(p.Builder, ops.Where(p.Builder, p.each(which), p.hidden, p.number(p.hidden, 0)), false, 1)
}

// unit scales vectors to length 1; those shorter than 1e-12 by 1e12.
func (g *graph) unit(x *ir.Value) *ir.Value {
	length := ops.Unary(g.Builder, ops.Sqrt, ops.ReduceSum(g.Builder, g.binary(ops.Mul, x, x), true, -1))
	return g.binary(ops.Div, x, g.binary(ops.Max, length, g.number(x, 1e-12)))
}

// isModel2Vec reports whether the checkpoint is of model2vec, whose config.json names no model type.
func (g *graph) isModel2Vec() bool {
	return (g.Type == "" || g.Type == "model2vec") && g.tensors.has("embeddings")
}

// static builds a model whose vectors are means of the tokens' vectors, without an encoder.
func (g *graph) static(at string) *ir.Value {
	var err error
	if g.tensors, err = checkpointIn(g.folder, at); err != nil {
		g.Fail(err)
	}
	g.inputs()
	g.Source = "embedding"
	name, ids := "embedding.weight", g.ids
	if !g.tensors.has(name) { // model2vec's: tokens may share a row, and have weights
		name = "embeddings"
	}
	weights := g.mask
	if g.tensors.has("weights") {
		own := ops.Gather(g.Builder, g.full(g.stored("weights", free)), ids, 0)
		weights = g.binary(ops.Mul, ops.Cast(g.Builder, g.mask, dtype.F32), own)
	}
	if g.tensors.has("mapping") {
		ids = ops.Gather(g.Builder, g.integers("mapping"), ids, 0)
	}
	table := g.stored(name, free, free)
	x := g.full(ops.Gather(g.Builder, table, ids, 0))
	p := pool{graph: g, hidden: x}
	count := ops.Cast(g.Builder, g.mask, dtype.F32)
	sum := p.sum(ops.Cast(g.Builder, weights, dtype.F32))
	mean := ops.ReduceSum(g.Builder, count, true, 1)
	return g.binary(ops.Div, sum, g.binary(ops.Max, mean, g.number(mean, 1)))
}

// integers returns a tensor of integers of the checkpoint as I64, [extent].
func (g *graph) integers(name string) *ir.Value {
	t, err := g.tensors.tensor(name)
	if err != nil {
		g.Fail(err)
	}
	if !t.DType().IsInt() || t.Rank() != 1 {
		g.Fail(diag.Inputf("%s is %s%v", name, t.DType(), t.Shape()).AtFile(g.folder.name).AtTensor(name))
	}
	return ops.Cast(g.Builder, g.Constant(g.Name(name), t), dtype.I64)
}

package transformers

import (
	"fmt"
	"path"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// layerNames are the names of the tensors of a layer that normalises the sums after attention and after the two linear
// layers, as BERT's does (Devlin et al., 2019). Families differ in them alone.
type layerNames struct {
	layer                   string // a format of the layer's number
	query, key, value, out  string
	up, down                string
	afterAttention, afterUp string // the norms
}

var (
	bertLayer = layerNames{"encoder.layer.%d.", "attention.self.query", "attention.self.key", "attention.self.value",
		"attention.output.dense", "intermediate.dense", "output.dense", "attention.output.LayerNorm", "output.LayerNorm"}
	distilBERTLayer = layerNames{"transformer.layer.%d.", "attention.q_lin", "attention.k_lin", "attention.v_lin",
		"attention.out_lin", "ffn.lin1", "ffn.lin2", "sa_layer_norm", "output_layer_norm"}
	mpnetLayer = layerNames{"encoder.layer.%d.", "attention.attn.q", "attention.attn.k", "attention.attn.v",
		"attention.attn.o", "intermediate.dense", "output.dense", "attention.LayerNorm", "output.LayerNorm"}
	albertLayer = layerNames{"encoder.albert_layer_groups.%d.", "attention.query", "attention.key", "attention.value",
		"attention.dense", "ffn", "ffn_output", "attention.LayerNorm", "full_layer_layer_norm"}
)

func init() {
	for _, name := range []string{"bert", "electra"} {
		encoders[name] = func(g *graph) *ir.Value { return g.bert(bertLayer, nil) }
	}
	for _, name := range []string{"roberta", "xlm-roberta", "camembert"} {
		encoders[name] = func(g *graph) *ir.Value { return g.bert(bertLayer, g.afterPadding(1)) }
	}
	encoders["distilbert"] = func(g *graph) *ir.Value { return g.bert(distilBERTLayer, nil) }
	encoders["mpnet"] = func(g *graph) *ir.Value { return g.bert(mpnetLayer, g.afterPadding(1)) }
	encoders["albert"] = func(g *graph) *ir.Value { return g.bert(albertLayer, nil) }
}

// bert builds an encoder of BERT's kind. positions are the rows of the table of positions that tokens read; nil: they
// count from 0.
func (g *graph) bert(names layerNames, positions *positions) *ir.Value {
	switch {
	case g.Decoder:
		g.Fail(g.notYet("is_decoder is true"))
	case g.PositionType != "" && g.PositionType != "absolute":
		g.Fail(g.notYet(fmt.Sprintf("the position_embedding_type %q", g.PositionType)))
	}
	g.prefix = g.tensors.prefix("embeddings.word_embeddings.weight")
	x := g.embeddings(positions)
	for _, project := range []string{"embeddings_project", "encoder.embedding_hidden_mapping_in"} { // ELECTRA, ALBERT
		if g.tensors.has(g.prefix + project + ".weight") {
			x = g.linear(x, project)
		}
	}
	var bias *ir.Value
	if g.Type == "mpnet" {
		g.Source = g.prefix + "encoder.relative_attention_bias"
		bias = g.relativeBias(g.weight("encoder.relative_attention_bias.weight", g.Buckets, g.Heads), true, 128)
	}
	for i := range g.Layers {
		for _, at := range g.layersAt(names, i) {
			if err := g.folder.claim.Take(layerClaim); err != nil {
				g.Fail(err)
			}
			x = g.layer(x, at, names, bias)
		}
	}
	return x
}

// layerClaim is what a layer's part of the graph claims, in bytes: layers may share their tensors, so that their number
// is not bounded by the checkpoint's size.
const layerClaim = 16 << 10

// notYet returns the error for a setting that is not supported.
func (g *graph) notYet(what string) error {
	return diag.Unsupportedf("%s of the model type %q", what, g.Type).
		AtFile(path.Join(g.folder.name, g.at, "config.json")).WithFix("an ONNX export of the model can be read")
}

// layersAt returns the prefixes of the tensors of a layer: of ALBERT's, which shares them with its group, of several
// that follow each other.
func (g *graph) layersAt(names layerNames, i int64) (list []string) {
	if g.Type != "albert" {
		return []string{fmt.Sprintf(names.layer, i)}
	}
	if g.Groups < 1 || g.Groups > g.Layers || g.Inner < 1 || g.Inner > mostInner {
		g.Fail(diag.Inputf("%d groups of %d layers, each of %d", g.Groups, g.Layers, g.Inner).
			AtFile(path.Join(g.folder.name, g.at, "config.json")))
	}
	for inner := range g.Inner {
		list = append(list, fmt.Sprintf(names.layer, i*g.Groups/g.Layers)+fmt.Sprintf("albert_layers.%d.", inner))
	}
	return list
}

// mostInner bounds the layers of a layer of ALBERT.
const mostInner = 64

// layer builds a layer: attention and two linear layers, each with a norm of the sum after it.
func (g *graph) layer(x *ir.Value, at string, names layerNames, bias *ir.Value) *ir.Value {
	q, k, v := g.linear(x, at+names.query), g.linear(x, at+names.key), g.linear(x, at+names.value)
	g.Source = g.prefix + at + "attention"
	var y *ir.Value
	if bias == nil {
		y = g.attend(q, k, v, g.Heads, ops.AttentionSettings{})
	} else {
		y = g.attendBeside(q, k, v, bias, 0)
	}
	y = g.linear(y, at+names.out)
	x = g.layerNorm(g.binary(ops.Add, y, x), at+names.afterAttention)
	y = g.linear(x, at+names.up)
	y = g.linear(g.activation(y, g.Act), at+names.down)
	return g.layerNorm(g.binary(ops.Add, y, x), at+names.afterUp)
}

// embeddings returns the sum of the embeddings of tokens, positions and types, normalised.
func (g *graph) embeddings(p *positions) *ir.Value {
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
	if at := "embeddings.position_embeddings.weight"; g.tensors.has(g.prefix + at) {
		x = g.binary(ops.Add, x, g.positioned(g.weight(at, free, size), p))
	}
	return g.layerNorm(x, "embeddings.LayerNorm")
}

// positions says which rows of a table of positions tokens read: those after the row of the id that pads, which tokens
// of this id read themselves.
type positions struct{ padding int64 }

// afterPadding returns the positions of a family whose id for padding is otherwise by default.
func (g *graph) afterPadding(otherwise int64) *positions { return &positions{g.padding(otherwise)} }

// positioned returns the embeddings of the tokens' positions.
func (g *graph) positioned(table *ir.Value, p *positions) *ir.Value {
	rows, _ := table.Type.Shape[0].Const()
	if p == nil {
		g.atMost(rows)
		return ops.SliceAxis(g.Builder, table, 0, sym.Const(0), g.tokens())
	}
	if p.padding < 0 || p.padding >= rows {
		g.Fail(diag.Inputf("pad_token_id is %d; the table of positions has %d rows", p.padding, rows).
			AtFile(path.Join(g.folder.name, g.at, "config.json")))
	}
	g.atMost(rows - 1 - p.padding)
	token := ops.Cast(g.Builder, g.binary(ops.Ne, g.ids, g.number(g.ids, float64(p.padding))), g.ids.Type.DType)
	at := g.binary(ops.Mul, ops.CumSum(g.Builder, token, 1, false, false), token)
	return ops.Gather(g.Builder, table, g.binary(ops.Add, at, g.number(at, float64(p.padding))), 0)
}

// attendBeside is attend with a bias that is added to the scores, [1, heads, tokens, tokens]. A scale of 0 is 1/√size.
func (g *graph) attendBeside(q, k, v, bias *ir.Value, scale float64) *ir.Value {
	none := g.number(bias, hiddenScore)
	mask := ops.Where(g.Builder, g.keys(), bias, none)
	x := ops.AttentionOperands{Query: g.perHead(q, g.Heads), Key: g.perHead(k, g.Heads), Value: g.perHead(v, g.Heads),
		Mask: mask}
	return g.joined(ops.AttentionNode(g.Builder, x, ops.AttentionSettings{Past: sym.Const(0), Scale: scale}))
}

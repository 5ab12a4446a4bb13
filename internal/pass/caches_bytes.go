package pass

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// scaleSuffix is the end of the name of a cache's scales.
const scaleSuffix = ".scale"

// CachesInBytes stores the states of main that are caches of f32 as i8, each with a state of scales beside it, and
// returns the caches, in the order of the results that are added. Scatters replace entire vectors along the last axis
// of a cache. A vector has one scale, or one for each head if the readers of the cache split it into heads. The state
// of the scales has the cache's name and ".scale", and the cache's shape except for the last axis. New vectors are
// quantised when they are written (ops.QuantizeRows), and every reader of the cache reads the stored bytes.
func CachesInBytes(m *ir.Module) (narrowed []ir.State, err error) {
	defer ir.Catch(&err)
	c, body := ir.NewInference(m), m.Main.Body
	instead := map[*ir.Node]*byteCache{}
	front, caches := &ir.Block{}, []*byteCache(nil)
	for i := range m.Main.States {
		s := &m.Main.States[i]
		old, last := s.In, body.Results[s.Out]
		chain := writes(old, last)
		if old.Type.DType != dtype.F32 || chain == nil || !allKeepVectors(c, chain) {
			continue
		}
		cache := &byteCache{groups: scalesOfVector(c, body, old, chain)}
		cache.begin(ir.NewBuilder(c, front), m.Main, s)
		cache.end, cache.state = last, s
		for _, n := range chain {
			instead[n] = cache
		}
		narrowed, caches = append(narrowed, *s), append(caches, cache)
	}
	if narrowed == nil {
		return nil, nil
	}
	nodes := front.Nodes
	for _, n := range body.Nodes {
		cache := instead[n]
		if cache == nil {
			nodes = append(nodes, n)
			continue
		}
		block := &ir.Block{}
		cache.follow(ir.NewBuilder(c, block), n)
		nodes, body.Consts = append(nodes, block.Nodes...), append(body.Consts, block.Consts...)
	}
	for _, cache := range caches {
		cache.finish(c, m.Main)
	}
	body.Nodes, body.Consts = nodes, append(body.Consts, front.Consts...)
	return narrowed, nil
}

// byteCache is a cache that is stored as bytes. bytes and scale are its present value while its writes are rebuilt.
type byteCache struct {
	groups       sym.Expr // number of scales of a vector
	bytes, scale *ir.Value
	scaleIn      *ir.Value
	end          *ir.Value
	state        *ir.State
}

// begin makes parameters of a cache's bytes and scales. The readers of the old value read the rebuilt f32 value, which
// keeps the old pointer.
func (k *byteCache) begin(b *ir.Builder, f *ir.Func, s *ir.State) {
	old := s.In
	k.bytes = &ir.Value{Name: b.Name(old.Name), Type: ir.Type{DType: dtype.I8, Shape: old.Type.Shape}}
	k.scale = &ir.Value{Name: b.Name(old.Name + scaleSuffix),
		Type: ir.Type{DType: dtype.F32, Shape: k.ofScales(old.Type.Shape)}}
	k.scaleIn = k.scale
	wide := ops.ScaledRows(b, k.bytes, k.scale)
	k.bytes.TakeName(old)
	wide.Node.Outputs[0], old.Node = old, wide.Node
	for i, p := range f.Body.Params {
		if p == old {
			f.Body.Params[i] = k.bytes
		}
	}
	f.Body.Params = append(f.Body.Params, k.scale)
	s.In = k.bytes
}

// ofScales returns the shape of the scales of vectors.
func (k *byteCache) ofScales(shape []sym.Expr) []sym.Expr {
	return append(slices.Clone(shape[:len(shape)-1]), k.groups)
}

// follow applies a node of the chain to the cache's bytes and scales.
func (k *byteCache) follow(b *ir.Builder, n *ir.Node) {
	b.Source = n.Source
	last := len(n.Outputs[0].Type.Shape) - 1
	switch n.Op.Name() {
	case "reshape":
		shape := n.Outputs[0].Type.Shape
		k.bytes, k.scale = ops.Reshape(b, k.bytes, shape...), ops.Reshape(b, k.scale, k.ofScales(shape)...)
	case "transpose":
		k.bytes, k.scale = b.Op("transpose", n.Attrs, k.bytes), b.Op("transpose", n.Attrs, k.scale)
	default:
		at, ofScale := n.Inputs[1], n.Inputs[1]
		if n.Op.Name() == "scatter_elements" {
			ofScale = ops.SliceAxis(b, at, last, sym.Const(0), k.groups)
		}
		bytes, scale := ops.QuantizeRows(b, n.Inputs[2], k.groups)
		k.bytes, k.scale = b.Op(n.Op.Name(), n.Attrs, k.bytes, at, bytes), b.Op(n.Op.Name(), n.Attrs, k.scale, ofScale, scale)
	}
	wide := ops.ScaledRows(b, k.bytes, k.scale)
	wide.Node.Outputs[0], n.Outputs[0].Node = n.Outputs[0], wide.Node
}

// finish makes the final bytes and scales the new values of states.
func (k *byteCache) finish(c *ir.Inference, f *ir.Func) {
	f.Body.Results[k.state.Out] = k.bytes
	k.bytes.TakeName(k.end)
	k.scale.TakeName(&ir.Value{Name: ir.NewBuilder(c, f.Body).Name(k.bytes.Name + scaleSuffix)})
	f.States = append(f.States, ir.State{In: k.scaleIn, Out: len(f.Body.Results)})
	f.Body.Results = append(f.Body.Results, k.scale)
}

// allKeepVectors reports whether each node of a chain keeps the last axis last, and writes all of it.
func allKeepVectors(c *ir.Inference, chain []*ir.Node) bool {
	for _, n := range chain {
		if len(n.Inputs[0].Type.Shape) < 2 || len(n.Outputs[0].Type.Shape) < 2 || !keepsVectors(c, n) {
			return false
		}
	}
	return true
}

// keepsVectors reports whether a node keeps the last axis last, and writes all of it.
func keepsVectors(c *ir.Inference, n *ir.Node) bool {
	rule := ops.Of(n).KeepsVectors
	return rule != nil && rule(c.Dims(), n)
}

// scalesOfVector returns the number of scales of a cache's vector: the number of heads if all readers that split the
// vectors split them into the same number of heads, else 1.
func scalesOfVector(c *ir.Inference, body *ir.Block, old *ir.Value, chain []*ir.Node) sym.Expr {
	of := map[*ir.Value]bool{old: true}
	for _, n := range chain {
		of[n.Outputs[0]] = true
	}
	groups := sym.Const(1)
	for _, n := range body.Nodes {
		if n.Op.Name() != "reshape" || !of[n.Inputs[0]] || slices.Contains(chain, n) {
			continue
		}
		heads, is := splitVectors(c, n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape)
		if is && !isOne(groups) && !groups.Equal(heads) {
			return sym.Const(1)
		}
		if is {
			groups = heads
		}
	}
	return groups
}

// splitVectors returns the number of vectors into which a reshape from one shape to another, with one axis more, splits
// each vector; is is false for other reshapes.
func splitVectors(c *ir.Inference, from, to []sym.Expr) (groups sym.Expr, is bool) {
	rank := len(from)
	if len(to) != rank+1 || !sameShape(c.Dims(), from[:rank-1], to[:rank-1]) {
		return groups, false
	}
	heads, known := to[rank-1].Const()
	length, fixed := from[rank-1].Const()
	return to[rank-1], known && fixed && heads > 0 && length%heads == 0
}

// bytesAttention lets attention read keys and values directly from caches of bytes, with their scales.
func bytesAttention(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	if n.Inputs[0].Type.DType != dtype.F32 {
		return nil
	}
	in, found := make([]*ir.Value, 10), false
	copy(in, n.Inputs)
	for _, i := range []int{1, 2, 4, 5} {
		scales := ops.AttentionScales(i)
		if bytes, scale := storedBytes(r, b, in[i], 0); bytes != nil && isOne(scale.Type.Shape[len(scale.Type.Shape)-1]) {
			in[i], in[scales], found = bytes, scale, true
		}
	}
	if !found {
		return nil
	}
	for in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	return b.Op("attention", n.Attrs, in...)
}

// storedBytes returns the bytes and scales of the cache whose numbers v holds, in v's shape; nil if v is something
// else.
func storedBytes(r *rewriting, b *ir.Builder, v *ir.Value, depth int) (bytes, scale *ir.Value) {
	if v == nil || v.Node == nil || depth > 4 {
		return nil, nil
	}
	n := v.Node
	name := n.Op.Name()
	if name == "scaled_rows" {
		return n.Inputs[0], n.Inputs[1]
	}
	if !ops.Of(n).Rearranges {
		return nil, nil
	}
	to, from := v.Type.Shape, n.Inputs[0].Type.Shape
	last := len(to) - 1
	if len(from) == 0 || last < 0 {
		return nil, nil
	}
	kept := keepsVectors(r.Inference, n)
	heads, split := sym.Expr{}, false
	if !kept {
		heads, split = splitVectors(r.Inference, from, to)
	}
	if !kept && !split {
		return nil, nil
	}
	if bytes, scale = storedBytes(r, b, n.Inputs[0], depth+1); bytes == nil {
		return nil, nil
	}
	groups := scale.Type.Shape[len(scale.Type.Shape)-1]
	switch {
	case name == "transpose":
		return b.Op("transpose", n.Attrs, bytes), b.Op("transpose", n.Attrs, scale)
	case kept:
		return ops.Reshape(b, bytes, to...), ops.Reshape(b, scale, append(slices.Clone(to[:last]), groups)...)
	case isOne(groups): // all heads share a scale
		scale = ops.Expand(b, scale, append(slices.Clone(from[:len(from)-1]), heads)...)
	case !groups.Equal(heads):
		return nil, nil
	}
	return ops.Reshape(b, bytes, to...), ops.Reshape(b, scale, append(slices.Clone(to[:last]), sym.Const(1))...)
}

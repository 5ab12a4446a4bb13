package pass

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Attention recognises scaled dot product attention that is spelled out as products around a softmax: with its scale on
// the scores, on the queries, or shared between queries and keys; with masks that are added or chosen by, in any number
// as far as they go together; causal ones as such; with a cap on the scores; with heads of keys that several heads of
// queries share, whether they are repeated or the queries' heads are joined.
func Attention(m *ir.Module) error { return apply(m, slices.Concat(attentions, transposes)) }

var attentions = []rule{
	{"attention", []string{"matmul"}, attention},
	{"attention of joined heads", []string{"reshape"}, joinedAttention},
	{"attention of a cache", []string{"attention"}, cachedAttention},
	{"attention of a narrow cache", []string{"attention"}, narrowAttention},
	{"attention of a cache of bytes", []string{"attention"}, bytesAttention},
}

// scores is the way from a softmax back to the product of queries and keys, and what was met on it.
type scores struct {
	r             *rewriting
	b             *ir.Builder
	scale         float64
	cap           float64
	softmax       dtype.DType
	keep          []*ir.Value // masks of bools, each to be negated where drop is true
	drop          []bool
	bias          []*ir.Value // masks that are added
	causal        bool
	past          sym.Expr
	fill          float64
	filled        bool
	blank         bool // weights that are NaN become 0
	queries, keys sym.Expr
	product       *ir.Node
	joined        *ir.Node // the reshape of the product, where heads were joined for it
}

// inside reports whether a value is read once, and computed here.
func (r *rewriting) inside(v *ir.Value) bool {
	return v != nil && v.Const == nil && v.Node != nil && r.uses[v] == 1 && r.owner[v.Node] == r.block &&
		len(v.Node.Outputs) == 1
}

// attention matches weights · values.
func attention(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	if n.Attrs.Bool("transpose_a") || n.Attrs.DType("dtype") != dtype.Invalid || !n.Outputs[0].Type.DType.IsFloat() {
		return nil
	}
	s := &scores{r: r, b: b, scale: 1}
	if !s.weights(n.Inputs[0]) || s.joined != nil {
		return nil
	}
	value := s.operand(n.Inputs[1], n.Attrs.Bool("transpose_b"))
	query := s.operand(s.product.Inputs[0], s.product.Attrs.Bool("transpose_a"))
	key := s.operand(s.product.Inputs[1], !s.product.Attrs.Bool("transpose_b"))
	return s.build(query, key, value, n.Outputs[0].Type.Shape)
}

// joinedAttention matches attention in which the rows of the heads that share a head of keys were joined, as [B, G,
// H/G·Q, D], and are taken apart again.
func joinedAttention(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	product := producer(n.Inputs[0], "matmul")
	if product == nil || !r.inside(n.Inputs[0]) || product.Attrs.Bool("transpose_a") ||
		product.Attrs.DType("dtype") != dtype.Invalid {
		return nil
	}
	weights := producer(product.Inputs[0], "reshape")
	out := n.Outputs[0].Type.Shape
	if weights == nil || !r.inside(product.Inputs[0]) || len(out) != 4 || len(product.Outputs[0].Type.Shape) != 4 {
		return nil
	}
	s := &scores{r: r, b: b, scale: 1}
	if !s.weights(weights.Inputs[0]) || s.joined == nil {
		return nil
	}
	rows := producer(s.peel(s.product.Inputs[0]), "reshape")
	if rows == nil || s.product.Attrs.Bool("transpose_a") {
		return nil
	}
	query := rows.Inputs[0]
	full := s.joined.Outputs[0].Type.Shape // [B, H, Q, K]
	if len(query.Type.Shape) != 4 || len(full) != 4 || !sameShape(r.Dims(), query.Type.Shape[:3], full[:3]) ||
		!sameShape(r.Dims(), query.Type.Shape[:3], out[:3]) ||
		r.Dims().EQ(query.Type.Shape[3], rows.Outputs[0].Type.Shape[3]) != sym.Yes {
		return nil
	}
	// Joined and taken apart in one way: the rows of a head of keys are those of its heads of queries.
	groups := s.product.Outputs[0].Type.Shape
	if r.Dims().EQ(groups[0], full[0]) != sym.Yes || !sameShape(r.Dims(), groups, weights.Outputs[0].Type.Shape) ||
		r.Dims().EQ(full[3], groups[3]) != sym.Yes {
		return nil
	}
	key := s.operand(s.product.Inputs[1], !s.product.Attrs.Bool("transpose_b"))
	return s.build(s.peel(query), key, s.operand(product.Inputs[1], product.Attrs.Bool("transpose_b")), out)
}

// narrowAttention has attention read keys and values as a narrow cache holds them: no widened copy of the cache is
// made.
func narrowAttention(_ *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	if n.Inputs[0].Type.DType != dtype.F32 {
		return nil
	}
	in, found := slices.Clone(n.Inputs), false
	for i := 1; i < len(in); i++ {
		if i == 3 { // the mask
			continue
		}
		if stored := storedNarrow(b, in[i], 0); stored != nil {
			in[i], found = stored, true
		}
	}
	if !found {
		return nil
	}
	return b.Op("attention", n.Attrs, in...)
}

// storedNarrow returns the elements of a cache of bf16 that v widens, in v's shape; nil if v is something else.
func storedNarrow(b *ir.Builder, v *ir.Value, depth int) *ir.Value {
	if v == nil || v.Node == nil || depth > 4 {
		return nil
	}
	n := v.Node
	switch {
	case n.Op.Name() == "cast":
		x := n.Inputs[0]
		if x.Type.DType == dtype.BF16 && x.Const == nil && (x.Node == nil || ops.Of(x.Node).Scatter) {
			return x
		}
	case ops.Of(n).Rearranges:
		if x := storedNarrow(b, n.Inputs[0], depth+1); x != nil {
			return b.Op(n.Op.Name(), n.Attrs, x)
		}
	}
	return nil
}

// cachedAttention reads keys and values that were put behind others, those of a cache, and the others from where they
// lie.
func cachedAttention(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	if len(n.Inputs) > 4 {
		return nil
	}
	keys, values := r.pieces(b, n.Inputs[1]), r.pieces(b, n.Inputs[2])
	if keys == nil || values == nil || r.Dims().EQ(keys[0].Type.Shape[2], values[0].Type.Shape[2]) != sym.Yes {
		return nil
	}
	mask := (*ir.Value)(nil)
	if len(n.Inputs) > 3 {
		mask = n.Inputs[3]
	}
	return b.Op("attention", n.Attrs, n.Inputs[0], keys[0], values[0], mask, keys[1], values[1])
}

// pieces are the two tensors of which v, [B, G, K, D], is put together along its third axis, whatever moves axes behind
// that; nil if nothing of the kind is.
func (r *rewriting) pieces(b *ir.Builder, v *ir.Value) []*ir.Value {
	if !r.inside(v) {
		return nil
	}
	n, axis := v.Node, int64(2)
	move := func(x *ir.Value) *ir.Value { return x }
	switch n.Op.Name() {
	case "transpose":
		perm := permutation(n)
		axis = perm[2]
		move = func(x *ir.Value) *ir.Value { return turned(b, x, perm) }
	case "reshape":
		from, to := n.Inputs[0].Type.Shape, v.Type.Shape
		if len(from) != 3 || !isOne(to[1]) || !sameShape(r.Dims(), from, []sym.Expr{to[0], to[2], to[3]}) {
			return nil
		}
		axis = 1
		move = func(x *ir.Value) *ir.Value {
			return ops.Reshape(b, x, x.Type.Shape[0], sym.Const(1), x.Type.Shape[1], x.Type.Shape[2])
		}
	}
	if n.Op.Name() != "concat" {
		v = n.Inputs[0]
	}
	joint := producer(v, "concat")
	if joint == nil || !r.inside(v) || len(joint.Inputs) != 2 {
		return nil
	}
	if at := joint.Attrs.Int("axis", 0); at != axis && at+int64(len(v.Type.Shape)) != axis {
		return nil
	}
	return []*ir.Value{move(joint.Inputs[0]), move(joint.Inputs[1])}
}

// weights follows the weights, a softmax along the last axis, back to the scores.
func (s *scores) weights(v *ir.Value) bool {
	dt := v.Type.DType
	if c := producer(v, "cast"); c != nil && s.r.inside(v) {
		v = c.Inputs[0]
	}
	uses := 1
	if w := s.blanked(v); w != nil {
		v, s.blank, uses = w, true, 2
	}
	n := producer(v, "softmax")
	rank := int64(len(v.Type.Shape))
	if n == nil || s.r.uses[v] != uses || s.r.owner[n] != s.r.block || rank < 3 {
		return false
	}
	if axis := n.Attrs.Int("axis", -1); axis != -1 && axis != rank-1 {
		return false
	}
	s.queries, s.keys = v.Type.Shape[rank-2], v.Type.Shape[rank-1]
	x := n.Inputs[0]
	if v.Type.DType != dt {
		c := producer(x, "cast")
		if c == nil || !s.r.inside(x) || c.Inputs[0].Type.DType != dt {
			return false
		}
		s.softmax, x = v.Type.DType, c.Inputs[0]
	}
	return s.follow(x, 0)
}

// blanked is the weights of which v has 0 in the place of each that is NaN; nil if v is no such.
func (s *scores) blanked(v *ir.Value) *ir.Value {
	n := producer(v, "where")
	if n == nil || !s.r.inside(v) {
		return nil
	}
	test := producer(n.Inputs[0], "isnan")
	if zero, ok := uniform(n.Inputs[1]); test == nil || !s.r.inside(n.Inputs[0]) || !ok || zero != 0 ||
		test.Inputs[0] != n.Inputs[2] {
		return nil
	}
	return n.Inputs[2]
}

// masksMost is how many masks may follow one another.
const masksMost = 4

// follow goes from scores back over masks and scales to the product.
func (s *scores) follow(v *ir.Value, depth int) bool {
	if !s.r.inside(v) || depth > 2*masksMost+4 {
		return false
	}
	n := v.Node
	switch n.Op.Name() {
	case "matmul":
		s.product = n
		return n.Attrs.DType("dtype") == dtype.Invalid
	case "reshape":
		if s.joined != nil || producer(n.Inputs[0], "matmul") == nil {
			return false
		}
		s.joined = n
		return s.follow(n.Inputs[0], depth+1)
	case "mul":
		for i, in := range n.Inputs {
			if x, ok := uniform(in); ok && x != 0 {
				return s.scaled(n.Inputs[1-i], x, depth+1)
			}
		}
	case "div":
		if x, ok := uniform(n.Inputs[1]); ok && x != 0 {
			return s.scaled(n.Inputs[0], 1/x, depth+1)
		}
	case "scaled_tanh":
		alpha, beta := n.Attrs.Float("alpha", 1), n.Attrs.Float("beta", 1)
		if s.cap != 0 || s.scale != 1 || alpha <= 0 || !near(v.Type.DType, alpha*beta, 1) {
			return false
		}
		s.cap = alpha
		return s.follow(n.Inputs[0], depth+1)
	case "add":
		if s.masked() {
			return false
		}
		for i, in := range n.Inputs {
			before := *s
			if s.leads(in, 0) && s.add(n.Inputs[1-i]) && s.follow(in, depth+1) {
				return true
			}
			*s = before
		}
	case "where":
		for i := 1; i <= 2; i++ {
			before := *s
			if fill, ok := s.filling(n.Inputs[3-i]); ok && !s.masked() && s.leads(n.Inputs[i], 0) &&
				s.choose(n.Inputs[0], i == 2, fill) && s.follow(n.Inputs[i], depth+1) {
				return true
			}
			*s = before
		}
	}
	return false
}

// scaled goes on from a factor x to the scores v that it scales, or to those that it caps.
func (s *scores) scaled(v *ir.Value, x float64, depth int) bool {
	caps := producer(v, "tanh")
	if caps != nil && s.cap == 0 && s.r.inside(v) && x > 0 && s.scale == 1 {
		s.cap, v = x, caps.Inputs[0]
	}
	s.scale *= x
	return s.follow(v, depth)
}

// masked reports whether masks would follow a cap or a scale on their way to the scores: those are not of the scores
// alone.
func (s *scores) masked() bool {
	return s.scale != 1 || s.cap != 0 || s.joined != nil || len(s.keep)+len(s.bias) >= masksMost
}

// leads reports whether v may be the scores: whether a product is behind it, over what may stand between.
func (s *scores) leads(v *ir.Value, depth int) bool {
	if !s.r.inside(v) || depth > 2*masksMost+4 {
		return false
	}
	if v.Node.Op.Name() == "matmul" {
		return true
	}
	between := ops.Elementwise(v.Node) || ops.Of(v.Node).Alias
	return between && slices.ContainsFunc(v.Node.Inputs, func(in *ir.Value) bool { return s.leads(in, depth+1) })
}

// filling is the score of what a choice hides: a number far below others, or −∞.
func (s *scores) filling(v *ir.Value) (float64, bool) {
	if v.Const == nil || v.Const.Len() != 1 {
		return 0, false
	}
	x, ok := uniform(v)
	return x, ok && x <= -1e3
}

// choose notes a mask of bools.
func (s *scores) choose(mask *ir.Value, drop bool, fill float64) bool {
	if s.filled && s.fill != fill {
		return false
	}
	s.fill, s.filled = fill, true
	if !s.causal && len(s.keep) == 0 && (len(s.bias) == 0 || math.IsInf(fill, -1)) {
		if past, ok := s.order(mask, drop); ok {
			s.causal, s.past = true, past
			return true
		}
	}
	s.keep, s.drop = append(s.keep, mask), append(s.drop, drop)
	return true
}

// add notes a mask that is added to the scores.
func (s *scores) add(mask *ir.Value) bool {
	if !s.causal && mask.Const != nil && len(s.keep) == 0 && len(s.bias) == 0 && !s.filled {
		if past, ok := s.constantOrder(mask, false); ok {
			s.causal, s.past, s.fill, s.filled = true, past, math.Inf(-1), true
			return true
		}
	}
	s.bias = append(s.bias, mask)
	return true
}

// order reports whether a mask keeps, or with drop hides all but, for each query the keys up to its own position and
// past ones.
func (s *scores) order(mask *ir.Value, drop bool) (past sym.Expr, ok bool) {
	if mask.Const != nil {
		return s.constantOrder(mask, drop)
	}
	if mask.Node == nil {
		return past, false
	}
	shape := mask.Type.Shape
	in := mask.Node.Inputs
	ordered := func(kept bool, keys, queries *ir.Value) (sym.Expr, bool) {
		if !kept {
			return past, false
		}
		return s.ordered(keys, queries)
	}
	switch mask.Node.Op.Name() {
	case "not":
		return s.order(in[0], !drop)
	case "le":
		return ordered(!drop, in[0], in[1])
	case "gt":
		return ordered(drop, in[0], in[1])
	case "ge":
		return ordered(!drop, in[1], in[0])
	case "lt":
		return ordered(drop, in[1], in[0])
	case "triangle":
		if mask.Node.Attrs.Bool("upper") != drop || len(shape) < 2 {
			return past, false
		}
		past, _ = mask.Node.Attrs["k"].(sym.Expr)
		if drop {
			past = past.Sub(sym.Const(1)) // the first diagonal that is hidden
		}
		full := sameShape(s.r.Dims(), shape[len(shape)-2:], []sym.Expr{s.queries, s.keys}) &&
			s.r.Dims().EQ(sym.Product(shape...), s.queries.Mul(s.keys)) == sym.Yes
		return past, full && always(in[0]) && s.r.Dims().LE(sym.Const(0), past) == sym.Yes
	}
	return past, false
}

// always reports whether all elements of v are true.
func always(v *ir.Value) bool {
	if e := producer(v, "expand"); e != nil {
		v = e.Inputs[0]
	}
	if v.Const == nil || v.Type.DType != dtype.Bool || v.Const.Len() > uniformMost {
		return false
	}
	for i := range v.Const.Len() {
		if v.Const.Int(i) == 0 {
			return false
		}
	}
	return true
}

// ordered matches the positions of keys, a row, which are at most those of queries, a column.
func (s *scores) ordered(keys, queries *ir.Value) (past sym.Expr, ok bool) {
	row, column := keys.Type.Shape, queries.Type.Shape
	if len(row) < 1 || len(column) < 2 || !row[len(row)-1].Equal(s.keys) || !isOne(column[len(column)-1]) ||
		!column[len(column)-2].Equal(s.queries) || !s.counts(keys, s.keys) {
		return past, false
	}
	if a := producer(queries, "add"); a != nil {
		for i, in := range a.Inputs {
			if len(in.Known) == 1 && !in.Bound {
				past, queries = in.Known[0], a.Inputs[1-i]
				break
			}
		}
	}
	return past, s.counts(queries, s.queries)
}

// counts reports whether v is 0, 1, … up to an extent, along one axis, around which there may be axes of 1.
func (s *scores) counts(v *ir.Value, extent sym.Expr) bool {
	if s.r.Dims().EQ(sym.Product(v.Type.Shape...), extent) != sym.Yes {
		return false
	}
	if v.Const != nil {
		for i := range v.Const.Len() {
			if !v.Type.DType.IsInt() || v.Const.Int(i) != i {
				return false
			}
		}
		return true
	}
	if r := producer(v, "reshape"); r != nil {
		v = r.Inputs[0]
	}
	n := producer(v, "range")
	if n == nil {
		return false
	}
	start, okStart := uniform(n.Inputs[0])
	delta, okDelta := uniform(n.Inputs[1])
	return okStart && okDelta && start == 0 && delta == 1
}

func (s *scores) constantOrder(mask *ir.Value, drop bool) (past sym.Expr, ok bool) {
	what := map[bool]string{false: "keeps", true: "hides"}[drop]
	return s.r.about(what, mask, func() (sym.Expr, bool) { return constantOrder(mask, drop) })
}

// hidesAll is what hides a key for certain when it is added to its score, beside a key that is not hidden: the weight
// is 0, as it is of −∞.
const hidesAll = -1e30

// constantOrder is order for a constant: bools, or numbers to add that are 0 or as good as −∞.
func constantOrder(mask *ir.Value, drop bool) (past sym.Expr, ok bool) {
	shape := mask.Const.Shape()
	rank := len(shape)
	if rank < 2 || mask.Const.Len() != shape[rank-2]*shape[rank-1] || mask.Const.Len() > 1<<24 || mask.Const.Len() == 0 {
		return past, false
	}
	rows, columns := shape[rank-2], shape[rank-1]
	kept := func(i int64) (keep, legal bool) {
		if mask.Type.DType == dtype.Bool {
			return mask.Const.Int(i) != 0 != drop, true
		}
		x := mask.Const.Float(i)
		return x == 0, x == 0 || x <= hidesAll
	}
	first := int64(0)
	for first < columns {
		keep, _ := kept(first)
		if !keep {
			break
		}
		first++
	}
	if first == 0 || first == columns || rows == 1 {
		return past, false
	}
	for i := range rows {
		for j := range columns {
			if keep, legal := kept(i*columns + j); !legal || keep != (j < first+i) {
				return past, false
			}
		}
	}
	return sym.Const(first - 1), true
}

// operand is an operand of a product, turned where swap says so, without a scale of its own.
func (s *scores) operand(v *ir.Value, swap bool) *ir.Value {
	v = s.peel(v)
	if !swap {
		return v
	}
	perm := make([]int64, len(v.Type.Shape))
	for i := range perm {
		perm[i] = int64(i)
	}
	last := len(perm) - 1
	perm[last-1], perm[last] = int64(last), int64(last-1)
	if t := producer(v, "transpose"); t != nil {
		return turned(s.b, t.Inputs[0], composed(perm, permutation(t)))
	}
	return ops.Transpose(s.b, v, perm...)
}

// peel takes a scale off an operand: of queries or keys.
func (s *scores) peel(v *ir.Value) *ir.Value {
	if !s.r.inside(v) {
		return v
	}
	n := v.Node
	for i, in := range n.Inputs {
		x, ok := uniform(in)
		if ok && x != 0 && n.Op.Name() == "mul" {
			s.scale *= x
			return s.peel(n.Inputs[1-i])
		}
		if ok && x != 0 && n.Op.Name() == "div" && i == 1 {
			s.scale /= x
			return s.peel(n.Inputs[0])
		}
	}
	return v
}

// build is attention as one node.
func (s *scores) build(query, key, value *ir.Value, out []sym.Expr) *ir.Value {
	b := s.b
	if !query.Type.DType.IsFloat() || s.scale == 0 || math.IsInf(s.scale, 0) {
		return nil
	}
	if size, ok := query.Type.Shape[len(query.Type.Shape)-1].Const(); ok &&
		near(query.Type.DType, s.scale, 1/math.Sqrt(float64(size))) {
		s.scale = 1 / math.Sqrt(float64(size)) // however it was rounded and shared
	}
	mask := s.mask()
	if mask == nil && len(s.keep)+len(s.bias) > 0 {
		return nil
	}
	rank := len(query.Type.Shape)
	if rank == 3 && len(key.Type.Shape) == 3 && len(value.Type.Shape) == 3 {
		single := func(v *ir.Value) *ir.Value {
			return ops.Reshape(b, v, slices.Insert(slices.Clone(v.Type.Shape), 1, sym.Const(1))...)
		}
		query, key, value = single(query), single(key), single(value)
		if mask != nil && len(mask.Type.Shape) == 3 {
			mask = single(mask)
		}
	}
	if len(query.Type.Shape) != 4 || len(key.Type.Shape) != 4 || len(value.Type.Shape) != 4 {
		return nil
	}
	if k, v := s.shared(query, key), s.shared(query, value); k != nil && v != nil &&
		sameShape(s.r.Dims(), k.Type.Shape[:3], v.Type.Shape[:3]) {
		key, value = k, v
	}
	settings := ops.AttentionSettings{Scale: s.scale, Softcap: s.cap, Causal: s.causal, Past: s.past, Softmax: s.softmax,
		Blank: s.blank}
	if (s.causal || len(s.keep) > 0) && !math.IsInf(s.fill, -1) {
		settings.Fill = s.fill
	}
	y := ops.AttentionNode(b, ops.AttentionOperands{Query: query, Key: key, Value: value, Mask: mask}, settings)
	if rank == 3 {
		y = ops.Reshape(b, y, out...)
	}
	return y
}

// mask joins the masks to one; nil if there is none, or if they do not go together.
func (s *scores) mask() *ir.Value {
	var mask *ir.Value
	for i, m := range s.keep {
		if s.drop[i] {
			m = ops.Unary(s.b, ops.Not, m)
		}
		if mask == nil {
			mask = m
		} else {
			mask = ops.Binary(s.b, ops.And, mask, m)
		}
	}
	if len(s.bias) == 0 {
		return mask
	}
	sum := s.bias[len(s.bias)-1]
	for i := len(s.bias) - 2; i >= 0; i-- {
		sum = ops.Binary(s.b, ops.Add, sum, s.bias[i])
	}
	switch {
	case mask == nil:
		return sum
	case math.IsInf(s.fill, -1):
		return ops.Where(s.b, mask, sum, ops.Scalar(s.b, sum.Type.DType, s.fill))
	}
	return nil
}

// shared is the keys or values before they were repeated, [B, G, K, D], for the H heads of queries; nil if they were
// not.
func (s *scores) shared(query, v *ir.Value) *ir.Value {
	merged := producer(v, "reshape")
	if merged == nil {
		return nil
	}
	repeated := producer(merged.Inputs[0], "expand")
	if repeated == nil || len(repeated.Inputs[0].Type.Shape) != 5 || len(repeated.Outputs[0].Type.Shape) != 5 {
		return nil
	}
	from, to, out := repeated.Inputs[0].Type.Shape, repeated.Outputs[0].Type.Shape, v.Type.Shape
	d := s.r.Dims()
	if !isOne(from[2]) || !sameShape(d, []sym.Expr{from[0], from[1], from[3], from[4]},
		[]sym.Expr{to[0], to[1], to[3], to[4]}) ||
		!sameShape(d, []sym.Expr{to[0], to[1].Mul(to[2]), to[3], to[4]}, out) ||
		d.EQ(out[1], query.Type.Shape[1]) != sym.Yes {
		return nil
	}
	return ops.Reshape(s.b, repeated.Inputs[0], from[0], from[1], from[3], from[4])
}

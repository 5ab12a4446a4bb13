package pass

import (
	"bytes"
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// pattern is a description of how a value is computed. It calls then for each way in which v can be read so, with what
// it binds bound, until one is taken: then reports whether it is. A match is complete only if nothing but the match
// itself reads what lies inside it.
//
//	product(is(1), the("x"), op("sigmoid", the("x")))  // x · sigmoid(x), in either order
type pattern func(m *match, v *ir.Value, then func() bool) bool

// match is a pattern's reading of a node so far.
type match struct {
	r       *rewriting
	values  map[string]*ir.Value
	numbers map[string]float64
	nodes   []*ir.Node // that are read, the root first
}

// found is a rule's apply for a pattern: build writes what is found in another way, or returns nil.
func found(p pattern, build func(b *ir.Builder, m *match) *ir.Value) func(*rewriting, *ir.Builder, *ir.Node) *ir.Value {
	return func(r *rewriting, b *ir.Builder, n *ir.Node) (result *ir.Value) {
		m := &match{r: r, values: map[string]*ir.Value{}, numbers: map[string]float64{}}
		p(m, n.Outputs[0], func() bool {
			if !m.closed(n) {
				return false
			}
			result = build(b, m)
			return result != nil
		})
		return result
	}
}

// closed reports whether the nodes inside the match are read by nodes of the match alone.
func (m *match) closed(root *ir.Node) bool {
	inside := map[*ir.Value]int{}
	seen := map[*ir.Node]bool{}
	for _, n := range m.nodes {
		if seen[n] {
			continue
		}
		seen[n] = true
		for _, v := range n.Inputs {
			inside[v]++
		}
	}
	for n := range seen {
		if n == root {
			continue
		}
		for _, v := range n.Outputs {
			if v.Bound || m.r.uses[v] > inside[v] {
				return false
			}
		}
	}
	return true
}

// value is what a name is bound to.
func (m *match) value(name string) *ir.Value { return m.values[name] }

// number is what a name of a number is bound to.
func (m *match) number(name string) float64 { return m.numbers[name] }

// local reports whether v is computed where the pattern's root is: what a loop's body reads from around it is not
// computed anew each time.
func (m *match) local(v *ir.Value) bool {
	return v != nil && v.Const == nil && v.Node != nil && m.r.owner[v.Node] == m.r.block
}

// read goes on with n as part of the match.
func (m *match) read(n *ir.Node, then func() bool) bool {
	m.nodes = append(m.nodes, n)
	if then() {
		return true
	}
	m.nodes = m.nodes[:len(m.nodes)-1]
	return false
}

// each matches values with patterns, in order.
func (m *match) each(values []*ir.Value, patterns []pattern, then func() bool) bool {
	if len(patterns) == 0 {
		return then()
	}
	return patterns[0](m, values[0], func() bool { return m.each(values[1:], patterns[1:], then) })
}

// some matches values with patterns in any order.
func (m *match) some(values []*ir.Value, patterns []pattern, then func() bool) bool {
	if len(patterns) == 0 {
		return then()
	}
	for i := range values {
		rest := slices.Delete(slices.Clone(values), i, i+1)
		if patterns[0](m, values[i], func() bool { return m.some(rest, patterns[1:], then) }) {
			return true
		}
	}
	return false
}

// the is a value with a name; twice the same name is the same value.
func the(name string) pattern { return as(name, nil) }

// as binds a name to what p describes.
func as(name string, p pattern) pattern {
	return func(m *match, v *ir.Value, then func() bool) bool {
		bound := m.values[name]
		if v == nil || bound != nil && bound != v {
			return false
		}
		if bound == nil {
			m.values[name] = v
		}
		ok := false
		if p == nil {
			ok = then()
		} else {
			ok = p(m, v, then)
		}
		if !ok && bound == nil {
			delete(m.values, name)
		}
		return ok
	}
}

// op is the only result of an operator on operands as described, in this order.
func op(name string, in ...pattern) pattern {
	return func(m *match, v *ir.Value, then func() bool) bool {
		if !m.local(v) || v.Node.Op.Name() != name || len(v.Node.Inputs) != len(in) || len(v.Node.Outputs) != 1 {
			return false
		}
		return m.read(v.Node, func() bool { return m.each(v.Node.Inputs, in, then) })
	}
}

// both is op for an operator whose two operands may stand in either order.
func both(name string, x, y pattern) pattern {
	return either(op(name, x, y), func(m *match, v *ir.Value, then func() bool) bool { return op(name, y, x)(m, v, then) })
}

// either is any of several descriptions; the first that fits is taken.
func either(patterns ...pattern) pattern {
	return func(m *match, v *ir.Value, then func() bool) bool {
		for _, p := range patterns {
			if p(m, v, then) {
				return true
			}
		}
		return false
	}
}

// where is p with a condition on the value.
func where(p pattern, cond func(m *match, v *ir.Value) bool) pattern {
	return func(m *match, v *ir.Value, then func() bool) bool {
		return p(m, v, func() bool { return cond(m, v) && then() })
	}
}

// numeral describes a number: a certain one, or any with a name.
type numeral struct {
	name  string
	value float64
}

// is is a certain number, as far as the type of the elements can tell it from others.
func is(x float64) numeral { return numeral{value: x} }

// let is any number, which it names; twice the same name is the same number.
func let(name string) numeral { return numeral{name: name} }

// matches reports whether got is the number x describes, in the precision of dt, and binds its name for then.
func (x numeral) matches(m *match, dt dtype.DType, got float64, then func() bool) bool {
	if x.name == "" {
		return near(dt, got, x.value) && then()
	}
	if bound, ok := m.numbers[x.name]; ok {
		return near(dt, got, bound) && then()
	}
	m.numbers[x.name] = got
	if then() {
		return true
	}
	delete(m.numbers, x.name)
	return false
}

// near reports whether two numbers are the same in the precision of dt, of at most f32's: constants of models were
// often rounded to that.
func near(dt dtype.DType, x, y float64) bool {
	tolerance := map[dtype.DType]float64{dtype.F16: 2e-3, dtype.BF16: 1.6e-2}[dt]
	return x == y || math.Abs(x-y) <= max(tolerance, 5e-7)*max(math.Abs(x), math.Abs(y))
}

// constant is a constant all of whose elements are the number.
func constant(x numeral) pattern {
	return func(m *match, v *ir.Value, then func() bool) bool {
		got, ok := uniform(v)
		return ok && x.matches(m, v.Type.DType, got, then)
	}
}

// uniformMost is the number of elements up to which a constant is looked through for whether they are all the same.
const uniformMost = 1 << 16

// uniform is the number that all elements of a constant are, to the bit; false if v is no such.
func uniform(v *ir.Value) (float64, bool) {
	if v == nil || v.Const == nil || v.Const.Len() == 0 || v.Const.Len() > uniformMost || !v.Type.DType.IsFloat() &&
		!v.Type.DType.IsInt() {
		return 0, false
	}
	if v.Const.Len() > 1 {
		data, size := v.Const.Bytes(), v.Type.DType.Bits()/8
		if size == 0 || !bytes.Equal(data[size:], data[:len(data)-size]) {
			return 0, false
		}
	}
	first := element(v.Const, 0)
	return first, first == first
}

// element is an element as a number. Integers beyond 2⁵³ are rounded.
func element(t *tensor.Tensor, i int64) float64 {
	if t.DType().IsFloat() {
		return t.Float(i)
	}
	return float64(t.Int(i))
}

// product is a number times factors, in any order and however they are put in brackets: as products, quotients by
// constants, negations and small powers.
func product(by numeral, factors ...pattern) pattern { return flat(by, factors, 1, (*terms).multiply) }

// sum is a number plus terms, in any order and however they are put in brackets.
func sum(plus numeral, parts ...pattern) pattern { return flat(plus, parts, 0, (*terms).add) }

// terms is a product or a sum without its brackets.
type terms struct {
	m      *match
	number float64
	list   []*ir.Value
	nodes  []*ir.Node
	most   int
}

func flat(number numeral, patterns []pattern, begin float64,
	collect func(t *terms, v *ir.Value, top bool) bool) pattern {
	return func(m *match, v *ir.Value, then func() bool) bool {
		if v == nil || !v.Type.DType.IsFloat() {
			return false
		}
		t := &terms{m: m, number: begin, most: len(patterns)}
		if !collect(t, v, true) || len(t.list) != len(patterns) {
			return false
		}
		before := len(m.nodes)
		m.nodes = append(m.nodes, t.nodes...)
		if number.matches(m, v.Type.DType, t.number, func() bool { return m.some(t.list, patterns, then) }) {
			return true
		}
		m.nodes = m.nodes[:before]
		return false
	}
}

// leaf adds a part that is not taken apart any further; false if there are too many.
func (t *terms) leaf(v *ir.Value) bool {
	t.list = append(t.list, v)
	return len(t.list) <= t.most
}

// termsMost is how many nodes one product or sum is taken apart into; what lies behind stays together.
const termsMost = 16

// opened reports whether v is the result of a node that may be taken apart: one that is read once, or the one that the
// pattern begins at.
func (t *terms) opened(v *ir.Value, top bool) bool {
	return len(t.nodes) < termsMost && t.m.local(v) && len(v.Node.Outputs) == 1 && (top || t.m.r.uses[v] == 1)
}

func (t *terms) multiply(v *ir.Value, top bool) bool {
	if x, ok := uniform(v); ok {
		t.number *= x
		return true
	}
	if !t.opened(v, top) {
		return t.leaf(v)
	}
	n := v.Node
	switch n.Op.Name() {
	case "mul":
		t.nodes = append(t.nodes, n)
		return t.multiply(n.Inputs[0], false) && t.multiply(n.Inputs[1], false)
	case "div":
		if x, ok := uniform(n.Inputs[1]); ok && x != 0 {
			t.nodes, t.number = append(t.nodes, n), t.number/x
			return t.multiply(n.Inputs[0], false)
		}
	case "neg":
		t.nodes, t.number = append(t.nodes, n), -t.number
		return t.multiply(n.Inputs[0], false)
	case "pow":
		if x, ok := uniform(n.Inputs[1]); ok && (x == 2 || x == 3) {
			t.nodes = append(t.nodes, n)
			for range int(x) {
				if !t.leaf(n.Inputs[0]) {
					return false
				}
			}
			return true
		}
	}
	return t.leaf(v)
}

func (t *terms) add(v *ir.Value, top bool) bool {
	if x, ok := uniform(v); ok {
		t.number += x
		return true
	}
	if !t.opened(v, top) {
		return t.leaf(v)
	}
	n := v.Node
	switch n.Op.Name() {
	case "add":
		t.nodes = append(t.nodes, n)
		return t.add(n.Inputs[0], false) && t.add(n.Inputs[1], false)
	case "sub":
		if x, ok := uniform(n.Inputs[1]); ok {
			t.nodes, t.number = append(t.nodes, n), t.number-x
			return t.add(n.Inputs[0], false)
		}
	}
	return t.leaf(v)
}

// isOne reports whether an extent is 1.
func isOne(e sym.Expr) bool {
	v, ok := e.Const()
	return ok && v == 1
}

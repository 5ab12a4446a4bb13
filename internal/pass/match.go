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

// pattern describes how a value is computed. It binds its names and calls then for each way in which v matches, until
// then returns true; it reports whether then did. A match is complete only if no other node reads the values inside it.
//
//	product(is(1), the("x"), op("sigmoid", the("x")))  // x · sigmoid(x), in either order
type pattern func(m *match, v *ir.Value, then func() bool) bool

// match is a partial match of a pattern.
type match struct {
	r       *rewriting
	values  map[string]*ir.Value
	numbers map[string]float64
	nodes   []*ir.Node // the matched nodes, the root first
}

// found returns the apply function of a rule for a pattern: build builds the matched value in another way, or returns
// nil.
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

// closed reports whether only nodes of the match read the values of the nodes inside the match.
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

// value returns the value that a name is bound to.
func (m *match) value(name string) *ir.Value { return m.values[name] }

// number returns the number that a name is bound to.
func (m *match) number(name string) float64 { return m.numbers[name] }

// local reports whether the block of the pattern's root computes v. A loop's body does not compute again the values
// that it reads from around it.
func (m *match) local(v *ir.Value) bool {
	return v != nil && v.Const == nil && v.Node != nil && m.r.owner[v.Node] == m.r.block
}

// read adds n to the match while it calls then.
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

// the matches any value and binds its name; the same name again matches the same value only.
func the(name string) pattern { return as(name, nil) }

// as matches p and binds a name to the value.
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

// op matches the only result of an operator whose operands match in, in this order.
func op(name string, in ...pattern) pattern {
	return func(m *match, v *ir.Value, then func() bool) bool {
		if !m.local(v) || v.Node.Op.Name() != name || len(v.Node.Inputs) != len(in) || len(v.Node.Outputs) != 1 {
			return false
		}
		return m.read(v.Node, func() bool { return m.each(v.Node.Inputs, in, then) })
	}
}

// both is op for two operands in either order.
func both(name string, x, y pattern) pattern {
	return either(op(name, x, y), func(m *match, v *ir.Value, then func() bool) bool { return op(name, y, x)(m, v, then) })
}

// either matches any of several patterns, of which it tries the first one first.
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

// where matches p if the value meets a condition.
func where(p pattern, cond func(m *match, v *ir.Value) bool) pattern {
	return func(m *match, v *ir.Value, then func() bool) bool {
		return p(m, v, func() bool { return cond(m, v) && then() })
	}
}

// numeral describes a number: the given value, or any number, which it names.
type numeral struct {
	name  string
	value float64
}

// is matches a number that equals x in the precision of the elements' type.
func is(x float64) numeral { return numeral{value: x} }

// let matches any number and binds its name; the same name again matches the same number only.
func let(name string) numeral { return numeral{name: name} }

// matches reports whether x describes got, in the precision of dt, and then returns true. It binds x's name for then.
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

// near reports whether two numbers are equal in the precision of dt, but at most of f32: constants of models were often
// rounded to f32.
func near(dt dtype.DType, x, y float64) bool {
	tolerance := map[dtype.DType]float64{dtype.F16: 2e-3, dtype.BF16: 1.6e-2}[dt]
	return x == y || math.Abs(x-y) <= max(tolerance, 5e-7)*max(math.Abs(x), math.Abs(y))
}

// constant matches a constant whose elements are all the number x.
func constant(x numeral) pattern {
	return func(m *match, v *ir.Value, then func() bool) bool {
		got, ok := uniform(v)
		return ok && x.matches(m, v.Type.DType, got, then)
	}
}

// uniformMost is the largest number of elements of a constant that uniform compares.
const uniformMost = 1 << 16

// uniform returns the number that all elements of a constant equal to the bit; false if v is no such constant, or if
// the number is NaN.
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

// element returns element i as a float64. It rounds integers beyond 2⁵³.
func element(t *tensor.Tensor, i int64) float64 {
	if t.DType().IsFloat() {
		return t.Float(i)
	}
	return float64(t.Int(i))
}

// product matches a number times factors, in any order and with any brackets. It sees through products, quotients by
// constants, negations and small powers.
func product(by numeral, factors ...pattern) pattern { return flat(by, factors, 1, (*terms).multiply) }

// sum matches a number plus terms, in any order and with any brackets.
func sum(plus numeral, summands ...pattern) pattern { return flat(plus, summands, 0, (*terms).add) }

// terms is a product or a sum without its brackets.
type terms struct {
	m      *match
	number float64
	list   []*ir.Value
	nodes  []*ir.Node
	most   int // the number of factors or terms of the pattern
}

// flat matches a product or a sum without its brackets: collect takes it apart, and begin is its neutral number.
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

// leaf adds a factor or term; false if there are more than the pattern has.
func (t *terms) leaf(v *ir.Value) bool {
	t.list = append(t.list, v)
	return len(t.list) <= t.most
}

// termsMost is the largest number of nodes of one product or sum that are taken apart.
const termsMost = 16

// opened reports whether v's node may be taken apart: v is read once, or it is the value that the pattern begins at.
func (t *terms) opened(v *ir.Value, top bool) bool {
	return len(t.nodes) < termsMost && t.m.local(v) && len(v.Node.Outputs) == 1 && (top || t.m.r.uses[v] == 1)
}

// multiply adds the factors of v; false if there are more than the pattern has.
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

// add adds the terms of v; false if there are more than the pattern has.
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

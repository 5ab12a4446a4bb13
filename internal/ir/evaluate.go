package ir

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Evaluation interprets a module. It is the reference for all faster code: it computes each node by its operator's
// Eval, in order, into tensors on Go's heap, and rounds each result to its type. It drops values after their last use.
type Evaluation struct {
	Module *Module // its functions may be called; nil if no node calls one
	Dims   map[sym.Name]int64
	Keep   func(v *Value, t *tensor.Tensor) // if not nil, called with each value as it is computed
	Ask    func() error                     // if not nil, called before each node; its error ends the interpretation
	values map[*Value]*tensor.Tensor
	depth  int                    // of calls
	waits  map[sym.Name][]Require // by dimension: the conditions whose last dimension it is
	reads  map[*Block]lastReads
}

// NewEvaluation begins an interpretation with the given dimensions, to which it adds.
func NewEvaluation(dims map[sym.Name]int64) *Evaluation {
	return &Evaluation{Dims: dims, values: map[*Value]*tensor.Tensor{}}
}

// Evaluate interprets the module's main function on its inputs.
func Evaluate(m *Module, inputs []*tensor.Tensor, keep func(*Value, *tensor.Tensor)) ([]*tensor.Tensor, error) {
	e := NewEvaluation(nil)
	e.Keep = keep
	return e.Main(m, inputs)
}

// Main interprets the module's main function on its inputs. It returns an error as soon as the dimensions of a
// condition that does not hold are known.
func (e *Evaluation) Main(m *Module, inputs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	e.Module, e.Dims = m, map[sym.Name]int64{}
	params := m.Main.Body.Params
	if len(inputs) != len(params) {
		return nil, diag.Inputf("%d inputs for %d parameters", len(inputs), len(params))
	}
	for i, p := range params {
		if err := e.bind(p, inputs[i]); err != nil {
			return nil, err
		}
	}
	for _, name := range m.Dims.Names() {
		if v, ok := e.Dims[name]; ok {
			if r, _ := m.Dims.Get(name); v < r.Min || v > r.Max {
				return nil, m.beyond(name, v, r)
			}
		}
	}
	e.await(m)
	if err := e.holds(m.Requires); err != nil {
		return nil, err
	}
	return e.Run(m.Main.Body, inputs)
}

// await groups the conditions by their dimension that is bound last; they are checked then.
func (e *Evaluation) await(m *Module) {
	e.waits = map[sym.Name][]Require{}
	if len(m.Requires) == 0 {
		return
	}
	order := map[sym.Name]int{}
	first := func(list []*Value) {
		for _, v := range list {
			for _, name := range decides(v) {
				if order[name] == 0 {
					order[name] = len(order) + 1
				}
			}
		}
	}
	var walk func(b *Block)
	walk = func(b *Block) {
		first(b.Params)
		for _, n := range b.Nodes {
			for _, r := range n.Regions {
				for _, p := range r.Params { // the number of an iteration is known, and no parameter's extent
					first([]*Value{{Known: p.Known, Bound: true}})
				}
				walk(r)
			}
			first(n.Outputs)
		}
	}
	walk(m.Main.Body)
	for _, r := range m.Requires {
		last := sym.Name{}
		for _, name := range slices.Concat(r.Cond.A.Vars(), r.Cond.B.Vars()) {
			if _, entry := e.Dims[name]; !entry && (last.None() || order[name] > order[last]) {
				last = name
			}
		}
		if !last.None() {
			e.waits[last] = append(e.waits[last], r)
		}
	}
}

// decides returns the dimensions that a value binds when it is computed: those that are an entire extent of its shape,
// and its elements if they are Bound.
func decides(v *Value) (names []sym.Name) {
	for _, x := range v.Type.Shape {
		if name, ok := x.Name(); ok {
			names = append(names, name)
		}
	}
	if v.Bound {
		for _, x := range v.Known {
			if name, ok := x.Name(); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// holds checks conditions; it skips those with a dimension that is bound later.
func (e *Evaluation) holds(list []Require) error {
	for _, r := range list {
		if ok, err := r.Cond.Eval(func(name sym.Name) (int64, bool) {
			v, ok := e.Dims[name]
			return v, ok
		}); err == nil && !ok {
			return e.Module.broken(r, e.Dims)
		}
	}
	return nil
}

// bind gives the dimensions in a parameter's shape their values, and checks the rest of the shape.
func (e *Evaluation) bind(p *Value, t *tensor.Tensor) error {
	if t.DType() != p.Type.DType || t.Rank() != len(p.Type.Shape) {
		return diag.Inputf("%s is %s%v, not %s", p.Name, t.DType(), t.Shape(), p.Type).AtTensor(p.Name)
	}
	for pass := 0; pass < 2; pass++ {
		for axis, extent := range p.Type.Shape {
			got := t.Shape()[axis]
			if name, ok := extent.Name(); ok {
				if _, bound := e.Dims[name]; !bound {
					e.Dims[name] = got
				}
			}
			if pass == 1 {
				want, err := e.Int(extent)
				if err != nil {
					return err
				}
				if want != got {
					return diag.Inputf("%s has %d along axis %d, and %s is %d", p.Name, got, axis, extent, want).AtTensor(p.Name)
				}
			}
		}
	}
	return nil
}

// Int evaluates a symbolic integer in this run's dimensions.
func (e *Evaluation) Int(x sym.Expr) (int64, error) {
	return x.Eval(func(name sym.Name) (int64, bool) { v, ok := e.Dims[name]; return v, ok })
}

// Ints evaluates symbolic integers in this run's dimensions.
func (e *Evaluation) Ints(xs []sym.Expr) ([]int64, error) {
	out := make([]int64, len(xs))
	for i, x := range xs {
		v, err := e.Int(x)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// Run interprets a block on its arguments, in the scope of the values computed so far. Operators' Eval runs regions
// through it.
func (e *Evaluation) Run(b *Block, args []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if len(args) != len(b.Params) {
		return nil, diag.Inputf("%d arguments for %d parameters", len(args), len(b.Params))
	}
	for i, p := range b.Params {
		if err := e.set(p, args[i]); err != nil {
			return nil, err
		}
	}
	for _, c := range b.Consts {
		if c.Const == nil {
			return nil, diag.Inputf("a constant without contents").AtTensor(c.Name)
		}
		e.values[c] = c.Const
	}
	last := e.lastReads(b)
	for i, n := range b.Nodes {
		if e.Ask != nil {
			if err := e.Ask(); err != nil {
				return nil, err
			}
		}
		if err := e.node(n); err != nil {
			return nil, err
		}
		for _, v := range last[i] {
			delete(e.values, v)
		}
	}
	results := make([]*tensor.Tensor, len(b.Results))
	for i, v := range b.Results {
		results[i] = e.values[v]
	}
	return results, nil
}

// node computes one node.
func (e *Evaluation) node(n *Node) error {
	in := make([]*tensor.Tensor, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != nil {
			in[i] = e.values[v]
		}
	}
	out, err := n.Op.Eval(e, n, in)
	if known, ok := err.(*diag.Error); ok {
		return known.AtNode(n.Source, n.Op.Name())
	} else if err != nil {
		return fmt.Errorf("%s: %w", n.Op.Name(), err)
	}
	for i, v := range n.Outputs {
		if err := e.set(v, out[i]); err != nil {
			return at(err, n)
		}
	}
	return nil
}

// lastReads holds, for each node of a block, the block's values that no later node reads.
type lastReads [][]*Value

// lastReads returns a block's last reads, computed once.
func (e *Evaluation) lastReads(b *Block) lastReads {
	if last, ok := e.reads[b]; ok {
		return last
	}
	at := map[*Value]int{}
	var reads func(n *Node, i int)
	reads = func(n *Node, i int) {
		for _, v := range n.Inputs {
			if _, own := at[v]; own {
				at[v] = i
			}
		}
		for _, r := range n.Regions {
			for _, inner := range r.Nodes {
				reads(inner, i)
			}
			for _, v := range r.Results {
				if _, own := at[v]; own {
					at[v] = i
				}
			}
		}
	}
	for i, n := range b.Nodes {
		for _, v := range n.Outputs {
			at[v] = i
		}
		reads(n, i)
	}
	for _, v := range b.Results {
		delete(at, v)
	}
	last := make(lastReads, len(b.Nodes))
	for _, n := range b.Nodes {
		for _, v := range n.Outputs {
			if i, ends := at[v]; ends {
				last[i] = append(last[i], v)
			}
		}
	}
	if e.reads == nil {
		e.reads = map[*Block]lastReads{}
	}
	e.reads[b] = last
	return last
}

// contradicted returns an element of t that differs from what is known of v; ok is false if none does.
func (e *Evaluation) contradicted(v *Value, t *tensor.Tensor) (i int, want int64, ok bool) {
	if v.Bound || int64(len(v.Known)) != t.Len() {
		return 0, 0, false
	}
	for i, x := range v.Known {
		if want, err := e.Int(x); err == nil && want != t.Int(int64(i)) {
			return i, want, true
		}
	}
	return 0, 0, false
}

// set records a value, and binds the dimensions in its shape and in its Bound elements. If its type, its shape or its
// elements contradict the shape rule, that is a bug, unless a condition of the module does not hold: what is known of
// elements is a claim that the evaluation checks, and never its source.
func (e *Evaluation) set(v *Value, t *tensor.Tensor) error {
	e.values[v] = t
	if t == nil {
		return nil
	}
	wrong := t.DType() != v.Type.DType || t.Rank() != len(v.Type.Shape)
	for axis, extent := range v.Type.Shape {
		if wrong {
			break
		}
		if name, ok := extent.Name(); ok {
			if _, bound := e.Dims[name]; !bound || e.decided(name) {
				if err := e.decide(name, t.Shape()[axis]); err != nil {
					return err
				}
				continue
			}
		}
		want, err := e.Int(extent)
		wrong = err == nil && want != t.Shape()[axis]
	}
	if wrong && e.Module != nil {
		if err := e.holds(e.Module.Requires); err != nil {
			return err
		}
		return diag.Internalf("it is %s%v, and its shape rule says %s", t.DType(), t.Shape(), v.Type).AtTensor(v.Name)
	}
	if i, want, other := e.contradicted(v, t); other && e.Module != nil {
		if err := e.holds(e.Module.Requires); err != nil {
			return err
		}
		return diag.Internalf("element %d is %d, and its shape rule says %d", i, t.Int(int64(i)), want).AtTensor(v.Name)
	}
	if v.Bound {
		for i, x := range v.Known {
			if name, ok := x.Name(); ok {
				if err := e.decide(name, t.Int(int64(i))); err != nil {
					return err
				}
			}
		}
	}
	if e.Keep != nil {
		e.Keep(v, t)
	}
	return nil
}

// decided reports whether a dimension is a data dimension, whose value may change.
func (e *Evaluation) decided(name sym.Name) bool {
	if e.Module == nil {
		return true
	}
	_, data := e.Module.Limits[name]
	return data
}

// beyond returns the error of a dimension whose value is outside its range.
func (m *Module) beyond(name sym.Name, value int64, r sym.Range) *diag.Error {
	return diag.Inputf("it is %d, outside %s", value, r).AtDim(sym.Labels(m.Dims.Names())[name]).Found(m.Origins[name])
}

// broken returns the error of a condition that does not hold at the dimensions' values.
func (m *Module) broken(r Require, values map[sym.Name]int64) *diag.Error {
	labels := sym.Labels(m.Dims.Names())
	names := r.Cond.Vars()
	with := sym.Bindings(names, labels, m.Origins, sym.Numbers(func(name sym.Name) (int64, bool) {
		v, ok := values[name]
		return v, ok
	}))
	e := diag.Inputf("%s does not hold: %s", r.Cond.Shown(labels).Words(), with).From(r.From).AtTensor(r.Tensor)
	if len(names) == 1 {
		e = e.AtDim(labels[names[0]])
	}
	return e
}

// Decide gives a data dimension the value that an operator found.
func (e *Evaluation) Decide(name sym.Name, value int64) error { return e.decide(name, value) }

// decide gives a dimension its value, and checks the conditions that wait for it.
func (e *Evaluation) decide(name sym.Name, value int64) error {
	e.Dims[name] = value
	if e.Module != nil {
		if r, known := e.Module.Dims.Get(name); known && (value < r.Min || value > r.Max) {
			return e.Module.beyond(name, value, r)
		}
	}
	return e.holds(e.waits[name])
}

package memplan

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// Graph is what Order reorders: nodes that use and make values. The nodes' own order is the given one.
type Graph struct {
	Dims   *sym.Dims // the dimensions' ranges; nil if there are none
	Values []Value
	Nodes  []Node
}

// Value is the result of a node, or an input of the graph if no node makes it.
type Value struct {
	Name string
	Size sym.Expr // bytes
	Keep bool     // alive to the end: an output
	View bool     // it has no bytes of its own: it is a view of value Of, and keeps that alive
	Of   int
}

// Node is an operation. While it runs, the values that it uses and makes are alive together.
type Node struct {
	Name  string
	Uses  []int    // values
	Makes []int    // values; each is made by one node
	Reuse []Reuse  // the in-place computations that it allows
	Work  sym.Expr // bytes alive only while it runs
	After []int    // nodes that must run before it for a reason other than a value
	Fixed bool     // all nodes before it stay before it, all after it stay after
}

// Reuse says that Make may take the storage of Use if Use dies at the node. The two should have the same size.
type Reuse struct{ Make, Use int }

// DefaultBudget is the number of moves that Order tries in one piece of a graph.
const DefaultBudget = 100_000

// Order returns the nodes' numbers in an order that lowers the peak of live bytes, and whether the peak at the
// dimensions' upper ends is proved least. Pieces between nodes whose position is the same in every order are searched
// separately: completely if the budget (0: DefaultBudget) suffices, by beam search beyond. At none of the bindings
// that it samples is the peak higher than the given order's. The same graph has the same order on every machine. Errors
// are of kind diag.ErrInput: nodes not in an order that they can run in, indices out of range, sizes that cannot be
// computed.
func Order(g Graph, budget int64) (order []int, proved bool, err error) {
	if budget <= 0 {
		budget = DefaultBudget
	}
	d, samples, err := newDag(&g)
	if err != nil {
		return nil, false, err
	}
	found, proved := d.schedule(samples, budget)
	order = make([]int, len(found))
	for i, v := range found {
		order[i] = int(v)
	}
	return order, proved, nil
}

// Peak computes the greatest number of bytes alive in an order of a graph's nodes, as Order counts them, at one
// binding, and the position in the order where it is reached first.
func Peak(g Graph, order []int, value func(name sym.Name) (int64, bool)) (bytes int64, at int, err error) {
	fixed := g
	fixed.Dims = nil
	fixed.Values, fixed.Nodes = slices.Clone(g.Values), slices.Clone(g.Nodes)
	bind := func(x *sym.Expr) {
		v, failed := x.Eval(value)
		if failed != nil && err == nil {
			err = diag.Inputf("size %s: %v", *x, failed)
		}
		*x = sym.Const(v)
	}
	for i := range fixed.Values {
		bind(&fixed.Values[i].Size)
	}
	for i := range fixed.Nodes {
		bind(&fixed.Nodes[i].Work)
	}
	if err != nil {
		return 0, 0, err
	}
	d, _, err := newDag(&fixed)
	if err != nil {
		return 0, 0, err
	}
	nodes := make([]int32, len(order))
	for i, v := range order {
		if v < 0 || v >= len(g.Nodes) {
			return 0, 0, diag.Inputf("an order with node %d of %d", v, len(g.Nodes))
		}
		nodes[i] = int32(v)
	}
	_, peak := d.curve(nodes, 0, d.start(0), 0)
	bytes = d.start(0)
	for i, p := range peak {
		if p > bytes {
			bytes, at = p, i
		}
	}
	return bytes, at, nil
}

// newDag checks a graph and replaces views by the storages that they lie in.
func newDag(g *Graph) (*dag, int, error) {
	if len(g.Nodes) > math.MaxInt32/4 || len(g.Values) > math.MaxInt32/4 {
		return nil, 0, diag.Inputf("%d nodes and %d values are more than can be ordered", len(g.Nodes), len(g.Values))
	}
	storage, err := storages(g)
	if err != nil {
		return nil, 0, err
	}
	n := len(g.Nodes)
	d := &dag{keep: make([]bool, len(g.Values)), made: slices.Repeat([]int32{-1}, len(g.Values)),
		consumers: make([][]int32, len(g.Values)),
		uses:      make([][]int32, n), makes: make([][]int32, n), reuse: make([][][2]int32, n), before: make([][]int32, n),
		after: make([][]int32, n), fixed: make([]bool, n)}
	maker := slices.Repeat([]int32{-1}, len(g.Values)) // by value, views too
	for v := range g.Nodes {
		for _, m := range g.Nodes[v].Makes {
			if m < 0 || m >= len(g.Values) || maker[m] >= 0 {
				return nil, 0, atNode(g, v, "it makes value %d, which is out of range or made elsewhere", m)
			}
			maker[m] = int32(v)
		}
	}
	for v := range g.Nodes {
		if err := d.connect(g, v, storage, maker); err != nil {
			return nil, 0, err
		}
	}
	for i, value := range g.Values {
		d.keep[storage[i]] = d.keep[storage[i]] || value.Keep
	}
	samples, err := d.measure(g, storage)
	return d, samples, err
}

// atNode returns an input error at a node.
func atNode(g *Graph, v int, format string, args ...any) error {
	return diag.Inputf(format, args...).AtNode(g.Nodes[v].Name, "")
}

// storages finds, for each value, the value that holds its bytes.
func storages(g *Graph) ([]int32, error) {
	out := make([]int32, len(g.Values))
	for i := range g.Values {
		at := i
		for hops := 0; g.Values[at].View; hops++ {
			if at = g.Values[at].Of; at < 0 || at >= len(g.Values) || hops > len(g.Values) {
				return nil, diag.Inputf("a view of an unknown value, or of itself").AtTensor(g.Values[i].Name)
			}
		}
		out[i] = int32(at)
	}
	return out, nil
}

// connect adds a node's edges.
func (d *dag) connect(g *Graph, v int, storage, maker []int32) error {
	node := &g.Nodes[v]
	needs := func(other int32) error {
		if other >= int32(v) || other < 0 {
			return atNode(g, v, "it needs node %d, which does not come before it", other)
		}
		if !slices.Contains(d.before[v], other) {
			d.before[v] = append(d.before[v], other)
			d.after[other] = append(d.after[other], int32(v))
		}
		return nil
	}
	for _, u := range node.Uses {
		if u < 0 || u >= len(g.Values) {
			return atNode(g, v, "it uses value %d of %d", u, len(g.Values))
		}
		if maker[u] >= 0 {
			if err := needs(maker[u]); err != nil {
				return err
			}
		}
		if r := storage[u]; !slices.Contains(d.uses[v], r) {
			d.uses[v] = append(d.uses[v], r)
			d.consumers[r] = append(d.consumers[r], int32(v))
		}
	}
	for _, a := range node.After {
		if err := needs(int32(min(max(a, -1), math.MaxInt32))); err != nil {
			return err
		}
	}
	for _, m := range node.Makes {
		if storage[m] == int32(m) {
			d.makes[v] = append(d.makes[v], int32(m))
			d.made[m] = int32(v)
			continue
		}
		// A view is made of its storage: the node reads it, as far as lifetimes go.
		if r := storage[m]; !slices.Contains(d.uses[v], r) {
			if at := maker[r]; at >= 0 && at != int32(v) {
				if err := needs(at); err != nil {
					return err
				}
			}
			d.uses[v] = append(d.uses[v], r)
			d.consumers[r] = append(d.consumers[r], int32(v))
		}
	}
	for _, r := range node.Reuse {
		if !slices.Contains(node.Makes, r.Make) || !slices.Contains(node.Uses, r.Use) {
			return atNode(g, v, "it computes value %d in place of %d, and does not make the first or use the second", r.Make,
				r.Use)
		}
		d.reuse[v] = append(d.reuse[v], [2]int32{storage[r.Make], storage[r.Use]})
	}
	d.fixed[v] = node.Fixed
	return nil
}

// measure computes all sizes at the samples, and returns how many samples there are.
func (d *dag) measure(g *Graph, storage []int32) (int, error) {
	dims := g.Dims
	if dims == nil {
		dims = sym.NewDims()
	}
	list := make([]sym.Expr, 0, len(g.Values)+len(g.Nodes))
	for i := range g.Values {
		if storage[i] == int32(i) {
			list = append(list, g.Values[i].Size)
		} else {
			list = append(list, sym.Const(0))
		}
	}
	for v := range g.Nodes {
		list = append(list, g.Nodes[v].Work)
	}
	z, err := newSizes(list)
	if err != nil {
		return 0, err
	}
	for _, name := range z.names {
		if _, known := dims.Get(name); !known {
			return 0, diag.Inputf("the sizes mention dimension %s, which has no range", name)
		}
	}
	bindings := z.samples(dims, func(binding []int64) bool {
		size, sum := z.at(binding), int64(0)
		for _, s := range size {
			if sum += s; s > limit || sum > limit {
				return false
			}
		}
		return size != nil
	})
	if bindings == nil {
		return 0, diag.Inputf("the sizes of %d values are negative, cannot be computed or add up to over %d bytes",
			len(g.Values), int64(limit))
	}
	d.size, d.work = make([][]int64, len(g.Values)), make([][]int64, len(g.Nodes))
	for s, binding := range bindings {
		for i, bytes := range z.at(binding) {
			switch {
			case i < len(g.Values):
				d.size[i] = append(d.size[i], bytes)
			case bytes > 0 || d.work[i-len(g.Values)] != nil:
				w := &d.work[i-len(g.Values)]
				*w = append(append(*w, make([]int64, s-len(*w))...), bytes)
			}
		}
	}
	for v, w := range d.work {
		if w != nil {
			d.work[v] = append(w, make([]int64, len(bindings)-len(w))...)
		}
	}
	return len(bindings), nil
}

package pass

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Divided is a module divided in two: Forward computes the first results, and Backward the others, from the values that
// Forward saved.
type Divided struct {
	Forward, Backward *ir.Module
	Saved             []*ir.Value // the values that Forward returns after its own results
	Takes             []Taken     // the inputs of Backward
}

// Taken identifies an input of Backward: the element at Index of the list From.
type Taken struct {
	From  Origin
	Index int
}

// Origin names the list that an input of Backward comes from.
type Origin uint8

// The lists: the module's inputs, Forward's own results, the values it saved, and the seeds.
const (
	FromInput Origin = iota
	FromResult
	FromSaved
	FromSeed
)

// division divides a block.
type division struct {
	b       *ir.Builder
	body    *ir.Block
	own     []*ir.Value // the results of Forward
	later   []*ir.Value // the results of Backward
	seeds   []*ir.Value
	back    map[*ir.Node]bool  // nodes that depend on seeds
	needed  map[*ir.Node]bool  // nodes that Forward's own results depend on
	outer   map[*ir.Value]bool // values that the block defines
	reached map[*ir.Value]bool // values that Forward passes to Backward
}

// Divide divides main in two. The first results, as many as results says, are Forward's; the others may depend on
// seeds, which are inputs that only Backward takes. A value of Forward that Backward reads is saved, or computed again
// if that is cheap, so that the fewest bytes are saved (a minimal cut, as in Jain et al.: Checkmate, 2020, and
// functorch's partitioner). Inputs cost nothing to save, and results little. Divide runs Marks, Common and Dead on the
// module. The halves share its values: they are for printing and compiling only.
func Divide(b *ir.Builder, results int, seeds []*ir.Value) (*Divided, error) {
	m := b.Module
	for _, run := range []func(*ir.Module) error{Marks, Common, Dead} {
		if err := run(m); err != nil {
			return nil, err
		}
	}
	body := m.Main.Body
	a := &division{b: b, body: body, own: body.Results[:results], later: body.Results[results:], seeds: seeds}
	a.classify()
	a.flow()
	return a.build(), nil
}

// classify finds the nodes that depend on seeds, and the nodes that Forward's own results depend on.
func (a *division) classify() {
	a.back, a.needed, a.outer = map[*ir.Node]bool{}, map[*ir.Node]bool{}, map[*ir.Value]bool{}
	late, early := map[*ir.Value]bool{}, map[*ir.Value]bool{}
	for _, v := range a.seeds {
		late[v] = true
	}
	for _, v := range slices.Concat(a.body.Params, a.body.Consts) {
		a.outer[v] = true
	}
	for _, n := range a.body.Nodes {
		a.back[n] = slices.ContainsFunc(a.reads(n), func(v *ir.Value) bool { return late[v] })
		for _, v := range n.Outputs {
			late[v], a.outer[v] = a.back[n], true
		}
	}
	for _, v := range a.own {
		early[v] = true
	}
	for _, n := range slices.Backward(a.body.Nodes) {
		if a.needed[n] = slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return early[v] }); a.needed[n] {
			for _, v := range a.reads(n) {
				early[v] = true
			}
		}
	}
}

// reads returns the values of the block that a node and its regions read.
func (a *division) reads(n *ir.Node) (list []*ir.Value) {
	see := func(values []*ir.Value) {
		for _, v := range values {
			if v != nil && a.outer[v] && !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
	}
	var walk func(b *ir.Block)
	walk = func(b *ir.Block) {
		for _, inner := range b.Nodes {
			see(inner.Inputs)
			for _, r := range inner.Regions {
				walk(r)
			}
		}
		see(b.Results)
	}
	see(n.Inputs)
	for _, r := range n.Regions {
		walk(r)
	}
	return list
}

// fixed reports whether only Forward may compute a node: it is too expensive to compute again.
func (a *division) fixed(n *ir.Node) bool {
	return a.needed[n] && !ops.Of(n).Recompute.Has(ops.Backward) && !ops.Elementwise(n) &&
		!slices.ContainsFunc(n.Outputs, a.decided)
}

// decided reports whether a value's shape depends on data, or its elements decide a dimension. Backward computes such a
// value again, and with it the dimension.
func (a *division) decided(v *ir.Value) bool {
	return v.Bound || slices.ContainsFunc(v.Type.Shape, func(e sym.Expr) bool {
		return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { _, is := a.b.Module.Limits[name]; return is })
	})
}

// cost returns the price of saving a value, which is about the number of its bits.
func (a *division) cost(v *ir.Value) int64 {
	switch {
	case slices.Contains(a.body.Params, v):
		return 0
	case v.Const != nil, v.Type.DType.Bits() == 0, a.decided(v):
		return unbreakable
	}
	count, err := sym.Product(v.Type.Shape...).Eval(func(name sym.Name) (int64, bool) {
		r, ok := a.b.Dims().Get(name)
		return min(max(usualExtent, r.Min), r.Max), ok
	})
	if err != nil {
		count = usualExtent
	}
	cost := min(count*int64(v.Type.DType.Bits()), unbreakable/2)
	if slices.Contains(a.own, v) {
		cost /= 8 // it is computed anyway, and only stays longer
	}
	return cost + 1
}

// usualExtent stands for a named extent when sizes are compared.
const usualExtent = 64

// flow finds the cut that is nearest to Backward among those that save the fewest bytes.
func (a *division) flow() {
	const sink, source = 0, 1 // edges are reversed, since network finds the cut nearest to node 0
	net := &network{}
	net.node()
	net.node()
	in, out, at := map[*ir.Value]int32{}, map[*ir.Value]int32{}, map[*ir.Node]int32{}
	edge := func(from, to int32, price int64) { net.join(to, from, price) }
	define := func(v *ir.Value) {
		in[v], out[v] = net.node(), net.node()
		edge(in[v], out[v], a.cost(v))
	}
	for _, v := range a.body.Params {
		if define(v); !slices.Contains(a.seeds, v) {
			edge(source, in[v], unbreakable)
		}
	}
	for _, n := range a.body.Nodes {
		if a.back[n] {
			for _, v := range a.reads(n) {
				if _, early := out[v]; early {
					edge(out[v], sink, unbreakable)
				}
			}
			continue
		}
		at[n] = net.node()
		for _, v := range a.reads(n) {
			if _, early := out[v]; early {
				edge(out[v], at[n], unbreakable)
			}
		}
		for _, v := range n.Outputs {
			define(v)
			edge(at[n], in[v], unbreakable)
		}
		if a.fixed(n) {
			edge(source, at[n], unbreakable)
		}
	}
	for _, v := range a.later {
		if _, early := out[v]; early {
			edge(out[v], sink, unbreakable)
		}
	}
	after := net.cut(math.MaxInt64)
	a.reached = map[*ir.Value]bool{}
	for v := range in {
		a.reached[v] = !after[in[v]] && after[out[v]]
	}
}

// build builds Forward and Backward.
func (a *division) build() *Divided {
	out := &Divided{}
	var params []*ir.Value
	for _, v := range a.body.Params {
		if !slices.Contains(a.seeds, v) {
			params = append(params, v)
		}
	}
	back, given := a.backward(params, out)
	for _, v := range a.body.Nodes {
		for _, o := range v.Outputs {
			if given[o] && a.reached[o] && !slices.Contains(a.own, o) {
				out.Saved = append(out.Saved, o)
			}
		}
	}
	take := func(from Origin, list []*ir.Value) {
		for i, v := range list {
			if given[v] && !slices.Contains(back.Params, v) {
				back.Params = append(back.Params, v)
				out.Takes = append(out.Takes, Taken{from, i})
			}
		}
	}
	take(FromInput, params)
	take(FromResult, a.own)
	take(FromSaved, out.Saved)
	take(FromSeed, a.seeds)
	front := a.block(slices.Concat(a.own, out.Saved), nil)
	front.Params = params
	out.Forward, out.Backward = a.module("forward", front), a.module("backward", back)
	for i, v := range front.Results[len(a.own):] {
		v.TakeName(&ir.Value{Name: a.b.Name(out.Saved[i].Name + ".saved")})
	}
	return out
}

// backward returns the block of Backward, and the values that it takes.
func (a *division) backward(params []*ir.Value, out *Divided) (*ir.Block, map[*ir.Value]bool) {
	given := map[*ir.Value]bool{}
	for _, v := range a.seeds {
		given[v] = true
	}
	stop := func(v *ir.Value) bool { return given[v] || a.reached[v] || slices.Contains(params, v) }
	block := a.block(a.later, stop)
	note := func(v *ir.Value) { given[v] = given[v] || stop(v) }
	for _, n := range block.Nodes {
		for _, v := range a.reads(n) {
			note(v)
		}
	}
	a.extents(block, params, given)
	return block, given
}

// extents adds to given, for each dimension that the block mentions and no value of given has, a parameter that has it.
func (a *division) extents(block *ir.Block, params []*ir.Value, given map[*ir.Value]bool) {
	has := map[sym.Name]bool{}
	note := func(v *ir.Value) {
		for _, e := range v.Type.Shape {
			if name, alone := e.Name(); alone {
				has[name] = true
			}
		}
	}
	for v, is := range given {
		if is {
			note(v)
		}
	}
	for _, name := range mentioned(block) {
		if has[name] {
			continue
		}
		for _, v := range params {
			if slices.ContainsFunc(v.Type.Shape, func(e sym.Expr) bool { x, alone := e.Name(); return alone && x == name }) {
				given[v] = true
				note(v)
				break
			}
		}
	}
}

// block returns a block of the nodes that results need, up to the values for which stop is true. Its results are
// reshapes of results, so that each block has values of its own.
func (a *division) block(results []*ir.Value, stop func(v *ir.Value) bool) *ir.Block {
	wanted, block := map[*ir.Value]bool{}, &ir.Block{}
	want := func(v *ir.Value) {
		if stop == nil || !stop(v) {
			wanted[v] = true
		}
	}
	for _, v := range results {
		want(v)
	}
	for _, n := range slices.Backward(a.body.Nodes) {
		if !slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return wanted[v] }) {
			continue
		}
		block.Nodes = append(block.Nodes, n)
		for _, v := range a.reads(n) {
			want(v)
		}
	}
	slices.Reverse(block.Nodes)
	for _, v := range a.body.Consts {
		if wanted[v] {
			block.Consts = append(block.Consts, v)
		}
	}
	in := a.b.In(block)
	for _, v := range results {
		block.Results = append(block.Results, in.Op("reshape", ir.Attrs{"shape": slices.Clone(v.Type.Shape)}, v))
	}
	return block
}

// module returns a module of one block, with the dimensions that the block mentions.
func (a *division) module(name string, block *ir.Block) *ir.Module {
	from := a.b.Module
	m := &ir.Module{Name: from.Name + " " + name, Dims: from.Dims.Empty(), Limits: map[sym.Name]sym.Expr{},
		Origins: map[sym.Name]string{},
		Main:    &ir.Func{Name: "main", Body: block}, Meta: map[string]string{}}
	m.Funcs = []*ir.Func{m.Main}
	var add func(names []sym.Name)
	add = func(names []sym.Name) {
		for _, name := range names {
			r, known := from.Dims.Get(name)
			if _, done := m.Dims.Get(name); done || !known {
				continue
			}
			m.Dims.Set(name, r)
			if origin, ok := from.Origins[name]; ok {
				m.Origins[name] = origin
			}
			if limit, ok := from.Limits[name]; ok {
				m.Limits[name] = limit
				add(limit.Vars())
			}
		}
	}
	add(mentioned(block))
	known := func(name sym.Name) bool { _, ok := m.Dims.Get(name); return ok }
	for _, c := range choicesWithout(from.Choices, func(name sym.Name) bool { return !known(name) }) {
		for _, values := range c.Cases {
			for _, x := range values {
				add(x.Vars())
			}
		}
		m.Choices = append(m.Choices, c)
	}
	for _, r := range from.Requires {
		if vars := append(r.Cond.A.Vars(), r.Cond.B.Vars()...); !slices.ContainsFunc(vars, func(name sym.Name) bool {
			return !known(name)
		}) {
			m.Requires = append(m.Requires, r)
		}
	}
	return m
}

// mentioned returns the dimensions that a block mentions, in the order of their first mention.
func mentioned(b *ir.Block) (names []sym.Name) {
	note := func(exprs ...sym.Expr) {
		for _, e := range exprs {
			for _, name := range e.Vars() {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	see := func(list []*ir.Value) {
		for _, v := range list {
			if v != nil {
				note(v.Type.Shape...)
				note(v.Known...)
			}
		}
	}
	var walk func(b *ir.Block)
	walk = func(b *ir.Block) {
		see(b.Params)
		for _, n := range b.Nodes {
			see(n.Inputs)
			see(n.Outputs)
			for _, attr := range n.Attrs {
				switch attr := attr.(type) {
				case sym.Expr:
					note(attr)
				case []sym.Expr:
					note(attr...)
				}
			}
			for _, r := range n.Regions {
				walk(r)
			}
		}
		see(b.Results)
	}
	walk(b)
	return names
}

package sym

import (
	"math"
	"math/bits"
	"slices"
)

// witnesses is the number of bindings that are tried before a proof.
const witnesses = 32

// Spread returns bindings of the names within their ranges: all at the low end, all at the high end, and others of
// various magnitudes. A claim that is false at one of them need not be put to the prover. The same names and ranges
// give the same bindings.
func (d *Dims) Spread(names []Name) [][]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spread(names)
}

// spread is Spread with the set locked by the caller.
func (d *Dims) spread(names []Name) [][]int64 {
	near, far := make([]Range, len(names)), make([]Range, len(names))
	for i, name := range names {
		near[i], far[i] = d.near(name, 1<<12), d.near(name, 1<<20)
	}
	out, values := make([][]int64, witnesses), make([]int64, witnesses*len(names))
	state := uint64(1)
	for i := range out {
		out[i], values = values[:len(names)], values[len(names):]
		ends := near
		if i%2 == 1 {
			ends = far
		}
		for k, r := range ends {
			switch i {
			case 0:
				out[i][k] = r.Min
			case 1:
				out[i][k] = r.Max
			default:
				state = state*6364136223846793005 + 1442695040888963407
				out[i][k] = r.pick(state >> 33)
			}
		}
	}
	return out
}

// near returns the subrange of a name's range that Spread uses: the values close to an end, so that few sizes overflow.
func (d *Dims) near(name Name, far int64) Range {
	r, ok := d.ranges[name]
	switch {
	case !ok || r.Min == math.MinInt64 && r.Max == NoMax:
		return Range{-far, far}
	case r.Min == math.MinInt64:
		return Range{max(r.Max, math.MinInt64+far) - far, r.Max}
	case r.Max > r.Min && uint64(r.Max)-uint64(r.Min) > uint64(far):
		return Range{r.Min, min(r.Min, NoMax-far) + far}
	}
	return Range{r.Min, max(r.Min, r.Max)}
}

// pick returns a value of a short range, selected by a random number below 2³¹: each magnitude of the distance to the
// low end is equally likely.
func (r Range) pick(random uint64) int64 {
	magnitude := random % uint64(bits.Len64(uint64(r.Max-r.Min))+1)
	return r.Min + min(int64(random>>8&(1<<magnitude-1)), r.Max-r.Min)
}

// refuted reports whether e is below 0 at one of the witnesses.
func (q *query) refuted(e Expr) bool {
	names := e.Vars()
	code, err := e.Compile(names)
	if err != nil {
		return false
	}
	for _, binding := range q.dims.spread(names) {
		if v, err := code.Eval(binding); err == nil && v < 0 {
			return true
		}
	}
	return false
}

// Differ reports whether a and b differ at some bindings within the ranges that are tried. It is much quicker than a
// proof; expressions that it does not tell apart may still differ.
func (d *Dims) Differ(a, b Expr) bool {
	list := slices.Concat(a.Vars(), b.Vars())
	slices.SortFunc(list, Name.Compare)
	list = slices.Compact(list)
	names, bindings := NewNames(list), d.Spread(list)
	x, y := names.ValuesAt(a, bindings), names.ValuesAt(b, bindings)
	return x.exceeds(y) || y.exceeds(x)
}

// Values has an expression's values at bindings; Has says whether there is one.
type Values struct {
	At  []int64
	Has []bool
}

// ValuesAt computes e at bindings of the names.
func (n *Names) ValuesAt(e Expr, bindings [][]int64) Values {
	v := Values{make([]int64, len(bindings)), make([]bool, len(bindings))}
	code, err := n.Compile(e)
	if err != nil {
		return v
	}
	for i, binding := range bindings {
		at, err := code.Eval(binding)
		v.At[i], v.Has[i] = at, err == nil
	}
	return v
}

// exceeds reports whether v is greater than w at some binding.
func (v Values) exceeds(w Values) bool {
	for i := range v.At {
		if v.At[i] > w.At[i] && v.Has[i] && w.Has[i] {
			return true
		}
	}
	return false
}

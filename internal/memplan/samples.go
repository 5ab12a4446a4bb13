package memplan

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// sizes holds the distinct sizes of a problem's groups, compiled for evaluation.
type sizes struct {
	names []sym.Name  // the dimensions that they mention, sorted
	exprs []sym.Expr  // distinct
	codes []*sym.Code // beside exprs
	class []int       // by group: index into exprs
}

// newSizes compiles the groups' sizes; the error is of a size that cannot be compiled.
func newSizes(list []sym.Expr) (*sizes, error) {
	z := &sizes{class: make([]int, len(list))}
	index := map[string]int{}
	for g, x := range list {
		key := x.Key()
		at, known := index[key]
		if !known {
			at = len(z.exprs)
			index[key] = at
			z.exprs = append(z.exprs, x)
			z.names = append(z.names, x.Vars()...)
		}
		z.class[g] = at
	}
	slices.SortFunc(z.names, sym.Name.Compare)
	z.names = slices.Compact(z.names)
	for _, x := range z.exprs {
		code, err := x.Compile(z.names)
		if err != nil {
			return nil, diag.Inputf("size %s: %v", x, err)
		}
		z.codes = append(z.codes, code)
	}
	return z, nil
}

// at computes every group's size at a binding of z.names. It returns nil if one overflows, divides by zero or is
// negative.
func (z *sizes) at(binding []int64) []int64 {
	distinct := make([]int64, len(z.codes))
	for i, code := range z.codes {
		v, err := code.Eval(binding)
		if err != nil || v < 0 {
			return nil
		}
		distinct[i] = v
	}
	out := make([]int64, len(z.class))
	for g, c := range z.class {
		out[g] = distinct[c]
	}
	return out
}

// most is the number of samples that planning looks at, and farthest the value that stands for the greatest of a
// dimension without an upper bound, counted from its least.
const (
	most     = 20
	farthest = 1 << 12
)

// axis is one dimension's range, with a middle value.
type axis struct{ low, middle, high int64 }

// axes returns the ranges of the dimensions, made narrower from above until everything can be computed at their upper
// ends. It returns nil if that is so at no end.
func (z *sizes) axes(dims *sym.Dims, fits func(binding []int64) bool) []axis {
	list := make([]axis, len(z.names))
	top := make([]int64, len(z.names))
	for i, name := range z.names {
		r, _ := dims.Get(name)
		list[i] = axis{low: r.Min, high: r.Max}
		if r.Max == sym.NoMax {
			list[i].high = max(r.Min, min(r.Min, sym.NoMax/farthest)*farthest, farthest)
		}
		top[i] = list[i].high
	}
	for !fits(top) {
		narrower := false
		for i := range list {
			half := list[i].low + (list[i].high-list[i].low)/2
			narrower = narrower || half < list[i].high
			list[i].high, top[i] = half, half
		}
		if !narrower {
			return nil
		}
	}
	for i := range list {
		list[i].middle = geometric(list[i].low, list[i].high)
	}
	return list
}

// geometric returns the geometric middle of a range; zero counts as one.
func geometric(low, high int64) int64 {
	m := int64(math.Sqrt(float64(max(low, 1))) * math.Sqrt(float64(max(high, 1))))
	return min(max(m, low), high)
}

// samples chooses the bindings that orders are planned and judged at: the far corner first, then the middle, the near
// corner, the other corners, and values at which the order of the sizes changes.
func (z *sizes) samples(dims *sym.Dims, fits func(binding []int64) bool) [][]int64 {
	list := z.axes(dims, fits)
	if list == nil {
		return nil
	}
	var out [][]int64
	seen := map[string]bool{}
	add := func(value func(i int) int64) {
		binding := make([]int64, len(list))
		key := make([]byte, 0, 8*len(list))
		for i := range list {
			binding[i] = value(i)
			for shift := 0; shift < 64; shift += 8 {
				key = append(key, byte(uint64(binding[i])>>shift))
			}
		}
		if len(out) < most && !seen[string(key)] && fits(binding) {
			seen[string(key)] = true
			out = append(out, binding)
		}
	}
	add(func(i int) int64 { return list[i].high })
	add(func(i int) int64 { return list[i].middle })
	add(func(i int) int64 { return list[i].low })
	if len(list) > 1 {
		for one := range list {
			add(func(i int) int64 { return pick(i == one, list[i].high, list[i].low) })
			add(func(i int) int64 { return pick(i == one, list[i].low, list[i].high) })
		}
	}
	for one := range list {
		values := z.crossings(list, one)
		values = append(values, geometric(list[one].low, list[one].middle), geometric(list[one].middle, list[one].high))
		for _, v := range values {
			add(func(i int) int64 { return pick(i == one, v, list[i].middle) })
		}
	}
	return out
}

// pick returns yes if c is true, else no.
func pick(c bool, yes, no int64) int64 {
	if c {
		return yes
	}
	return no
}

// crossings lists a few values of one dimension at which two sizes change places, the other dimensions being in their
// middle.
func (z *sizes) crossings(list []axis, one int) []int64 {
	const compared, kept = 24, 4
	binding := make([]int64, len(list))
	for i := range list {
		binding[i] = list[i].middle
	}
	less := func(a, b int, v int64) bool {
		binding[one] = v
		x, err1 := z.codes[a].Eval(binding)
		y, err2 := z.codes[b].Eval(binding)
		return err1 == nil && err2 == nil && x < y
	}
	var found []int64
	for a := range min(len(z.codes), compared) {
		for b := range a {
			low, high := list[one].low, list[one].high
			at := less(a, b, low)
			if low >= high || less(a, b, high) == at {
				continue
			}
			for high-low > 1 {
				if m := low + (high-low)/2; less(a, b, m) == at {
					low = m
				} else {
					high = m
				}
			}
			found = append(found, low, high)
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if len(found) <= kept {
		return found
	}
	spread := make([]int64, kept)
	for i := range spread {
		spread[i] = found[i*(len(found)-1)/(kept-1)]
	}
	return slices.Compact(spread)
}

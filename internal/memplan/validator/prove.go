package validator

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// Proof counts the pairs of a plan whose separation is proved for every binding of the dimensions.
type Proof struct {
	Pairs  int      // pairs of families alive together, over all layouts, and one more a family for the arena's end
	Proved int      // the pairs proved disjoint, and the families proved to end inside the arena
	Open   []string // a few of the others
}

// Class says what a plan's separation rests on: "proved" for every binding, or "sampled" at some.
func (p *Proof) Class() string {
	if p.Proved == p.Pairs {
		return "proved"
	}
	return "sampled"
}

// Verify tries to prove the plan, and checks it at its corners, and at as many random bindings as asked. Dimensions
// without an upper bound are sampled up to 4096 beyond the lower one.
func Verify(p *Plan, samples int) (*Proof, error) {
	dims := p.Dims
	if dims == nil {
		dims = sym.NewDims()
	}
	names := dims.Names()
	random := rand.New(rand.NewPCG(1, uint64(len(p.Buffers))))
	binding := map[sym.Name]int64{}
	for i := range samples + 2 {
		for _, name := range names {
			r, _ := dims.Get(name)
			if r.Max == sym.NoMax {
				r.Max = min(r.Min, sym.NoMax-4096) + 4096
			}
			switch i {
			case 0:
				binding[name] = r.Min
			case 1:
				binding[name] = r.Max
			default:
				binding[name] = between(random, r)
			}
		}
		err := Check(p, func(name sym.Name) (int64, bool) { v, ok := binding[name]; return v, ok })
		if err != nil {
			return nil, fmt.Errorf("at %v: %w", binding, err)
		}
		if len(names) == 0 {
			break
		}
	}
	return Prove(p)
}

// between draws a value of a range: near its ends as often as anywhere.
func between(random *rand.Rand, r sym.Range) int64 {
	width := uint64(r.Max-r.Min) + 1
	if random.IntN(2) == 0 && width > 8 {
		width = 8 << random.IntN(8)
		width = min(width, uint64(r.Max-r.Min)+1)
	}
	if width == 0 {
		return int64(random.Uint64())
	}
	v := int64(random.Uint64N(width))
	if random.IntN(4) == 0 {
		return r.Max - v
	}
	return r.Min + v
}

// kin is a family for all bindings.
type kin struct {
	root        int
	first, last int
	base        sym.Expr // offset of the root
	extent      sym.Expr // bytes from the root's offset to the last member's end
}

// Prove tries to show, for every binding, that families alive together are disjoint and end inside the arena. It
// returns a *Fault if an alias never has the right offset; a pair that merely cannot be proved is counted.
func Prove(p *Plan) (*Proof, error) {
	roots, err := findRoots(p)
	if err != nil {
		return nil, err
	}
	dims := sym.NewDims()
	if p.Dims != nil {
		dims = p.Dims.Clone()
	}
	families, err := kinships(p, roots, dims)
	if err != nil {
		return nil, err
	}
	proof := &Proof{}
	for i := range p.Layouts {
		proveLayout(p, &p.Layouts[i], families, dims.Clone(), proof)
	}
	return proof, nil
}

// kinships returns the families with formulas of their offsets and extents; an alias that never lies where it must is
// an error.
func kinships(p *Plan, roots []int, dims *sym.Dims) ([]kin, error) {
	index := map[int]int{}
	var families []kin
	extents := [][]sym.Expr{}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		at, known := index[roots[i]]
		if !known {
			at = len(families)
			index[roots[i]] = at
			root := &p.Buffers[roots[i]]
			families = append(families, kin{root: roots[i], first: root.First, last: root.Last, base: p.Offsets[roots[i]]})
			extents = append(extents, nil)
		}
		f := &families[at]
		f.first, f.last = min(f.first, b.First), max(f.last, b.Last)
		distance := p.Offsets[i].Sub(f.base)
		extents[at] = append(extents[at], distance.Add(b.Size))
		if b.AliasOf >= 0 && dims.EQ(p.Offsets[i], p.Offsets[b.AliasOf].Add(b.AliasOffset)) == sym.No {
			return nil, fault(Alias, "its offset is never the right one", b.Name, p.Buffers[b.AliasOf].Name)
		}
	}
	for i := range families {
		families[i].extent = dims.Simplify(sym.MaxOf(extents[i]...))
	}
	return families, nil
}

// proveLayout builds the relation "ends at or below the start of" from the definitions, and looks every pair up in its
// closure.
func proveLayout(p *Plan, l *Layout, families []kin, dims *sym.Dims, proof *Proof) {
	owner := map[sym.Name]int{} // a defined name to the family that starts there
	for i, f := range families {
		if name, ok := f.base.Name(); ok {
			owner[name] = i
		}
	}
	words := (len(families) + 63) / 64
	under := make([][]uint64, len(families)) // by family: the families proved to lie below it
	for i := range under {
		under[i] = make([]uint64, words)
	}
	// families proved to end inside the arena; an end of at most one of several terms is at most their maximum
	inside := make([]uint64, words)
	zero := sym.Const(0)
	collect := func(x sym.Expr, into []uint64) {
		for _, name := range x.Vars() {
			low, ok := owner[name]
			if !ok || into[low>>6]>>(low&63)&1 == 1 {
				continue
			}
			f := &families[low]
			if dims.LE(zero, f.extent) == sym.Yes && dims.LE(f.base.Add(f.extent), x) == sym.Yes {
				into[low>>6] |= 1 << (low & 63)
				for w := range into {
					into[w] |= under[low][w]
				}
			}
		}
	}
	height, _ := p.Height.Name()
	for _, let := range l.Lets {
		terms := let.Of
		if len(terms) == 0 || !sym.MaxOf(terms...).Equal(let.X) {
			terms = []sym.Expr{let.X}
		}
		least := sym.Range{Min: 0, Max: sym.NoMax}
		if !slices.ContainsFunc(terms, func(x sym.Expr) bool { return dims.LE(zero, x) == sym.Yes }) {
			least.Min = -sym.NoMax
		}
		at, starts := owner[let.Name]
		for _, x := range terms {
			if starts {
				collect(x, under[at])
			}
			if let.Name == height {
				collect(x, inside)
			}
		}
		dims.Set(let.Name, least)
	}
	collect(p.Height, inside)
	has := func(set []uint64, i int) bool { return set[i>>6]>>(i&63)&1 == 1 }
	empty := make([]bool, len(families)) // an empty family is disjoint from all others
	for i, f := range families {
		empty[i] = dims.LE(f.extent, zero) == sym.Yes
	}
	for i, f := range families {
		end := f.base.Add(f.extent)
		proof.count(empty[i] || has(inside, i) || dims.LE(end, p.Height) == sym.Yes, func() string {
			return p.Buffers[f.root].Name + " and the end"
		})
		for j := range i {
			g := families[j]
			if f.first > g.last || g.first > f.last {
				continue
			}
			disjoint := empty[i] || empty[j] || has(under[i], j) || has(under[j], i)
			if _, constant := f.base.Const(); !disjoint && constant {
				disjoint = dims.LE(end, g.base) == sym.Yes || dims.LE(g.base.Add(g.extent), f.base) == sym.Yes
			}
			proof.count(disjoint, func() string { return p.Buffers[f.root].Name + " and " + p.Buffers[g.root].Name })
		}
	}
}

// count counts one pair; what names it in Open.
func (p *Proof) count(proved bool, what func() string) {
	p.Pairs++
	if proved {
		p.Proved++
	} else if len(p.Open) < 8 && !slices.Contains(p.Open, what()) {
		p.Open = append(p.Open, what())
	}
}

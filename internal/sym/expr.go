// Package sym is integer arithmetic over named dimensions: the shapes, bounds, indices and byte sizes of the compiler.
//
// An Expr has one canonical form: a polynomial with 64-bit coefficients over atoms. An atom is a name, or an operation
// that is not polynomial: a floor or ceiling division, a remainder, a minimum, a maximum. Two expressions with the same
// canonical form are Equal, print alike and have the same Key. The canonical form uses only rewrites that hold for all
// integers; rewrites that need a dimension's range are made by Simplify, a method of Dims. Dims also proves
// comparisons.
//
// An expression is a mathematical integer, of any size. Nothing wraps: an operation whose coefficient would not fit
// stays unevaluated, and Eval returns ErrOverflow. Expressions are immutable and safe for concurrent use.
package sym

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync/atomic"
)

// Limits of an expression. They bound the work that a hostile model can cause.
const (
	largestTree   = 1 << 18 // names, numbers and operations; shared subexpressions count each time
	deepestTree   = 256     // atoms within atoms
	mostTerms     = 4096    // terms that a product may expand to
	mostExpansion = 1 << 16 // size that a product may expand to
)

// Expr is an integer expression: an immutable value, cheap to copy, that is compared with Equal. The zero value is the
// constant 0.
//
// An expression that exceeds 2^18 names, numbers and operations, or 256 levels, becomes the single expression that
// prints as huge(). Operations on it return it, its Eval returns ErrTooLarge, and nothing about it can be proved.
type Expr struct {
	n *node // the terms that are not constant; nil for none
	c int64 // the constant term
}

// node is a polynomial without its constant term.
type node struct {
	terms []term // at least one, by compareProducts; no coefficient is zero
	hash  hash
	size  int32
	depth int32
	text  atomic.Pointer[string] // the printed node, without a constant
	names atomic.Pointer[[]Name]
}

// term is a coefficient and the product of its atoms.
type term struct {
	coef  int64
	atoms []*atom // at least one, by compareAtoms; a power repeats its atom
}

// kind is the operation of an atom.
type kind uint8

const (
	variable kind = iota
	floorDiv      // args: dividend, divisor
	ceilDiv       // args: dividend, divisor, which is not a constant other than 0
	modulo        // args: dividend, divisor
	minimum       // args: at least two
	maximum       // args: at least two
	product       // args: two factors whose product is not expanded
	sum           // args: two or more addends whose sum has a coefficient beyond 64 bits
	huge          // the expression that exceeded the limits
	slack         // a quantity that only the prover uses; args: its upper end
)

// atom is a factor of a polynomial's terms: a name or an operation.
type atom struct {
	kind  kind
	name  Name // of a variable or a slack
	args  []Expr
	hash  hash
	size  int32
	depth int32
	alone node // the polynomial that consists of this atom
	term  [1]term
	list  [1]*atom
}

// hash identifies an expression: 128 bits over keys drawn by each process, so that equal hashes stand for equal
// expressions.
type hash struct{ a, b uint64 }

var hashSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

var hashKeys = func() (k [2]uint64) {
	for i := range k {
		k[i] = maphash.String(hashSeeds[i], "sym") | 1
	}
	return k
}()

// then returns the hash of h followed by a and b.
func (h hash) then(a, b uint64) hash {
	return hash{scramble(h.a^a, hashKeys[0]^bits.RotateLeft64(a, 29)),
		scramble(h.b+b, hashKeys[1]^bits.RotateLeft64(b, 31))}
}

// scramble mixes x with a key.
func scramble(x, key uint64) uint64 {
	hi, lo := bits.Mul64(x^0x9e3779b97f4a7c15, key^0xd6e8feb86659fd93)
	return hi ^ lo ^ bits.RotateLeft64(x, 32)
}

// Const returns the constant v.
func Const(v int64) Expr { return Expr{c: v} }

// Var returns the integer of that name.
func Var(name Name) Expr { return newAtom(variable, name, nil).expr() }

var hugeAtom = newAtom(huge, Name{}, nil)

// tooLarge is the expression that exceeded the limits.
var tooLarge = Expr{n: &hugeAtom.alone}

func (e Expr) huge() bool { return e.n != nil && e.n == tooLarge.n }

// newAtom returns an atom, which may exceed the limits; expr checks them.
func newAtom(k kind, name Name, args []Expr) *atom {
	a := &atom{kind: k, name: name, args: args, size: 1}
	h := hash{hashKeys[0] + uint64(k), hashKeys[1] - uint64(k)}
	if k == variable || k == slack {
		h = h.then(maphash.String(hashSeeds[0], name.text), maphash.String(hashSeeds[1], name.text)).then(uint64(name.space),
			uint64(name.space))
	}
	for _, x := range args {
		hx := x.hash()
		h = h.then(hx.a, hx.b)
		a.size = min(a.size+x.size(), largestTree+1)
		a.depth = max(a.depth, x.depth()+1)
	}
	a.hash = h
	a.list[0] = a
	a.term[0] = term{1, a.list[:]}
	a.alone.set(a.term[:])
	return a
}

// makeAtom returns the expression of one new atom; tooLarge if an argument is.
func makeAtom(k kind, args ...Expr) Expr {
	for _, x := range args {
		if x.huge() {
			return tooLarge
		}
	}
	return newAtom(k, Name{}, args).expr()
}

func (a *atom) expr() Expr { return bounded(&a.alone, 0) }

// bounded returns n + c, or tooLarge if n exceeds the limits.
func bounded(n *node, c int64) Expr {
	if n != nil && (n.size > largestTree || n.depth > deepestTree) {
		return tooLarge
	}
	return Expr{n, c}
}

// set makes terms, which it keeps, the terms of an empty node.
func (n *node) set(terms []term) {
	n.terms = terms
	n.size, n.depth = -1, 0
	for _, t := range terms {
		h := t.hash()
		n.hash.a += h.a
		n.hash.b += h.b
		size := n.size + 1
		if t.coef != 1 {
			size++
		}
		for _, a := range t.atoms {
			size = min(size+a.size, largestTree+1)
			n.depth = max(n.depth, a.depth)
		}
		n.size = size
	}
	n.size = max(n.size, 1)
}

// hash identifies the term.
func (t term) hash() hash {
	h := hash{hashKeys[1], hashKeys[0]}
	for _, a := range t.atoms {
		h = h.then(a.hash.a, a.hash.b)
	}
	return h.then(uint64(t.coef), uint64(t.coef))
}

// polynomial returns the expression of sorted terms, which it keeps, and a constant.
func polynomial(terms []term, c int64) Expr {
	if len(terms) == 0 {
		return Expr{c: c}
	}
	if len(terms) == 1 && terms[0].coef == 1 && len(terms[0].atoms) == 1 {
		return bounded(&terms[0].atoms[0].alone, c)
	}
	n := new(node)
	n.set(terms)
	return bounded(n, c)
}

// hash identifies the expression.
func (e Expr) hash() hash {
	h := hash{hashKeys[1], hashKeys[0]}
	if e.n != nil {
		h = e.n.hash
	}
	return h.then(uint64(e.c), uint64(e.c))
}

// Above returns e − o if that is the same number for all values of the names.
func (e Expr) Above(o Expr) (by int64, ok bool) {
	if !sameNode(e.n, o.n) {
		return 0, false
	}
	return e.Sub(o).Const()
}

// size returns the number of names, numbers and operations, at most slightly more than largestTree.
func (e Expr) size() int32 {
	if e.n == nil {
		return 1
	}
	if e.c == 0 {
		return e.n.size
	}
	return e.n.size + 2
}

// depth returns the nesting of atoms; 0 for a constant or a polynomial of names.
func (e Expr) depth() int32 {
	if e.n == nil {
		return 0
	}
	return e.n.depth
}

// terms returns the terms that are not constant.
func (e Expr) terms() []term {
	if e.n == nil {
		return nil
	}
	return e.n.terms
}

// Const returns the value of a constant expression, and whether it is one.
func (e Expr) Const() (int64, bool) { return e.c, e.n == nil }

// atom returns the atom that e consists of, or nil.
func (e Expr) atom() *atom {
	if e.n == nil || e.c != 0 || len(e.n.terms) != 1 || e.n.terms[0].coef != 1 || len(e.n.terms[0].atoms) != 1 {
		return nil
	}
	return e.n.terms[0].atoms[0]
}

// Name returns the name if e consists of one dimension; ok is false otherwise.
func (e Expr) Name() (Name, bool) {
	if a := e.atom(); a != nil && a.kind == variable {
		return a.name, true
	}
	return Name{}, false
}

// Equal reports whether two expressions have the same canonical form. Expressions with the same value everywhere may
// differ in form; Dims.EQ decides more.
func (e Expr) Equal(o Expr) bool { return e.c == o.c && sameNode(e.n, o.n) }

// sameNode reports whether two polynomials are equal apart from their constants.
func sameNode(x, y *node) bool { return x == y || x != nil && y != nil && x.hash == y.hash }

// compareAtoms orders atoms: names first, then by kind and arguments. The order is the same in every process.
func compareAtoms(x, y *atom) int {
	if x == y || x.hash == y.hash {
		return 0
	}
	if x.kind != y.kind {
		return cmp.Compare(x.kind, y.kind)
	}
	if c := x.name.Compare(y.name); c != 0 {
		return c
	}
	return slices.CompareFunc(x.args, y.args, compareExprs)
}

// compareProducts orders products of atoms: by descending degree, then atom by atom. Multiplication of both sides by an
// atom keeps the order.
func compareProducts(x, y []*atom) int {
	if len(x) != len(y) {
		return len(y) - len(x)
	}
	for i := range x {
		if c := compareAtoms(x[i], y[i]); c != 0 {
			return c
		}
	}
	return 0
}

// compareTerms orders terms by their products, then by their coefficients.
func compareTerms(x, y term) int {
	if c := compareProducts(x.atoms, y.atoms); c != 0 {
		return c
	}
	return cmp.Compare(x.coef, y.coef)
}

// compareExprs orders expressions: constants are last, and expressions that differ by a constant are adjacent.
func compareExprs(x, y Expr) int {
	if sameNode(x.n, y.n) {
		return cmp.Compare(x.c, y.c)
	}
	if x.n == nil || y.n == nil {
		if x.n == nil {
			return 1
		}
		return -1
	}
	if c := slices.CompareFunc(x.n.terms, y.n.terms, compareTerms); c != 0 {
		return c
	}
	return cmp.Compare(x.c, y.c)
}

// Vars returns the names in the expression, sorted, each once. The caller must not change the slice.
func (e Expr) Vars() []Name {
	if e.n == nil {
		return nil
	}
	if p := e.n.names.Load(); p != nil {
		return *p
	}
	count := 0
	for _, t := range e.n.terms {
		count += len(t.atoms)
	}
	names := make([]Name, 0, count)
	for _, t := range e.n.terms {
		for i, a := range t.atoms {
			if i == 0 || t.atoms[i-1] != a { // a power repeats its atom
				names = a.appendNames(names)
			}
		}
	}
	slices.SortFunc(names, Name.Compare)
	names = slices.Clip(slices.Compact(names))
	e.n.names.Store(&names)
	return names
}

// appendNames appends the names in the atom, which may repeat.
func (a *atom) appendNames(names []Name) []Name {
	if a.kind == variable {
		return append(names, a.name)
	}
	for _, x := range a.args {
		names = append(names, x.Vars()...)
	}
	return names
}

// mentions reports whether the name occurs in the atom.
func (a *atom) mentions(name Name) bool {
	if a.kind == variable {
		return a.name == name
	}
	for _, x := range a.args {
		if x.mentions(name) {
			return true
		}
	}
	return false
}

// mentions reports whether the name occurs in the expression.
func (e Expr) mentions(name Name) bool {
	_, found := slices.BinarySearchFunc(e.Vars(), name, Name.Compare)
	return found
}

// Multilinear reports whether e is linear in each of its names.
func (e Expr) Multilinear() bool {
	for _, t := range e.terms() {
		for i, a := range t.atoms {
			if a.kind != variable && len(a.args) > 0 && len(e.Vars()) > 0 || i > 0 && a.hash == t.atoms[i-1].hash {
				return false
			}
		}
	}
	return true
}

// Linear returns coef and rest with e = coef×name + rest, neither of which has the name; ok is false if there are none.
// If e does not have the name, coef is 0.
func (e Expr) Linear(name Name) (coef, rest Expr, ok bool) {
	var with, without []term
	factor := int64(0)
	for _, t := range e.terms() {
		at, count := -1, 0
		for i, a := range t.atoms {
			if !a.mentions(name) {
				continue
			}
			if a.kind != variable {
				return Expr{}, Expr{}, false
			}
			at, count = i, count+1
		}
		switch {
		case count == 0:
			without = append(without, t)
		case count > 1:
			return Expr{}, Expr{}, false
		case len(t.atoms) == 1:
			factor = t.coef
		default:
			with = append(with, term{t.coef, slices.Delete(slices.Clone(t.atoms), at, at+1)})
		}
	}
	return polynomial(with, factor), polynomial(without, e.c), true
}

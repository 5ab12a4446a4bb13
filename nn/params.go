package nn

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
)

// Params is a store of named parameters and buffers. Their arrays lie in a scope of their own, to which nothing is
// added after the store is made. Training, Set and reading a file change them.
type Params struct {
	scope *array.Scope
	list  []*slot
	by    map[string]*slot  // by name; a tied parameter has several names
	alias map[string]string // a path of a layer that was declared before → the path where it was declared first
	other map[string]bool   // names of tied parameters whose layers have the two axes swapped
}

// slot is a parameter or a buffer of a store.
type slot struct {
	entry
	array  *array.Array
	frozen bool
}

// New makes a store of a network's parameters. Each parameter's elements are drawn from the key and the parameter's
// name, so that an additional layer does not change the others' elements.
func New(net Layer, key array.Key) (*Params, error) {
	list, alias, err := declare(net)
	if err != nil {
		return nil, err
	}
	p := &Params{scope: array.NewScope("parameters"), by: map[string]*slot{}, alias: alias, other: map[string]bool{}}
	for _, e := range list {
		s := &slot{entry: *e, array: p.scope.Zeros(e.dtype, e.shape...)}
		p.list, p.by[e.name] = append(p.list, s), s
		if err = p.scope.Err(); err == nil {
			err = s.fill(key)
		}
		if err != nil {
			p.Close()
			return nil, diag.As(err, weir.ErrInput).AtTensor(e.name)
		}
	}
	p.scope.Cap()
	return p, nil
}

// Init is New for a network that is known to be valid: it panics with New's error.
func Init(net Layer, key array.Key) *Params {
	p, err := New(net, key)
	if err != nil {
		panic(err)
	}
	return p
}

// fill sets a parameter's initial elements.
func (s *slot) fill(key array.Key) error {
	h := fnv.New64a()
	h.Write([]byte(s.name))
	r := rand.New(rand.NewPCG(uint64(key), h.Sum64()))
	if s.init.fill == nil {
		return nil
	}
	if !s.transposed && s.gates == nil {
		return s.init.fill(r, s.array.Tensor(), s.shape)
	}
	shape := s.inFile()
	t, err := weir.New(s.dtype, shape...)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := s.init.fill(r, t, shape); err != nil {
		return err
	}
	s.fromFile(s.array.Tensor().Bytes(), t.Bytes())
	return nil
}

// fromFile converts a file's elements to the store's layout.
func (e *entry) fromFile(to, from []byte) {
	if e.gates != nil {
		ordered, part := make([]byte, len(from)), len(from)/len(e.gates)
		for i, g := range e.gates {
			copy(ordered[i*part:][:part], from[g*part:])
		}
		from = ordered
	}
	if e.transposed {
		transpose(to, from, e.shape[1], e.shape[0])
	} else {
		copy(to, from)
	}
}

// toFile returns elements of the store in a file's layout. It returns the slice itself if both layouts are equal.
func (e *entry) toFile(from []byte) []byte {
	if e.transposed {
		turned := make([]byte, len(from))
		transpose(turned, from, e.shape[0], e.shape[1])
		from = turned
	}
	if e.gates == nil {
		return from
	}
	ordered, part := make([]byte, len(from)), len(from)/len(e.gates)
	for i, g := range e.gates {
		copy(ordered[g*part:][:part], from[i*part:])
	}
	return ordered
}

// inFile returns the shape in files.
func (e *entry) inFile() []int {
	shape := slices.Clone(e.shape)
	if e.transposed {
		shape[0], shape[1] = shape[1], shape[0]
	}
	return shape
}

// transpose writes a matrix with its axes swapped, block by block.
func transpose(to, from []byte, rows, columns int) {
	if rows*columns == 0 {
		return
	}
	const block = 32
	size := len(from) / (rows * columns)
	for i0 := 0; i0 < rows; i0 += block {
		for k0 := 0; k0 < columns; k0 += block {
			for i := i0; i < min(i0+block, rows); i++ {
				for k := k0; k < min(k0+block, columns); k++ {
					copy(to[(k*rows+i)*size:][:size], from[(i*columns+k)*size:][:size])
				}
			}
		}
	}
}

// entry returns the parameter or buffer of a name, nil if there is none. For a layer that occurs more than once, each
// of its paths is accepted.
func (p *Params) entry(name string) *slot {
	s, _ := p.find(name)
	return s
}

// find is entry; turned reports whether the layer of that name declares the axes in the opposite order.
func (p *Params) find(name string) (s *slot, turned bool) {
	for p != nil {
		if s := p.by[name]; s != nil {
			return s, p.other[name]
		}
		next := p.canonical(name)
		if next == name {
			return nil, false
		}
		name = next
	}
	return nil, false
}

// canonical replaces the longest alias that the name begins with by the path where the layer was declared first.
func (p *Params) canonical(name string) string {
	for at := name; at != ""; {
		if first, ok := p.alias[at]; ok {
			return join(first, strings.TrimPrefix(name[len(at):], "."))
		}
		i := strings.LastIndexByte(at, '.')
		at = at[:max(i, 0)]
	}
	return name
}

// Get returns a parameter or a buffer in the store's layout, by any of its names; nil if there is none.
func (p *Params) Get(name string) *array.Array {
	if s := p.entry(name); s != nil {
		return s.array
	}
	return nil
}

// Names returns the parameters' names in the order of their declaration; tied parameters have one name.
func (p *Params) Names() []string { return p.names(func(s *slot) bool { return !s.buffer }) }

// Trainable returns the names of the parameters that are not frozen.
func (p *Params) Trainable() []string {
	return p.names(func(s *slot) bool { return !s.buffer && !s.frozen })
}

// Buffers returns the buffers' names.
func (p *Params) Buffers() []string { return p.names(func(s *slot) bool { return s.buffer }) }

// names returns the names of the entries that a function selects.
func (p *Params) names(which func(*slot) bool) []string {
	var list []string
	for _, s := range p.list {
		if which(s) {
			list = append(list, s.name)
		}
	}
	return list
}

// Freeze excludes parameters from training: those whose names match a pattern. In a pattern, as "encoder.*", each *
// matches any characters. A pattern without a match is an error, and nothing is frozen then.
func (p *Params) Freeze(patterns ...string) error { return p.freeze(true, patterns) }

// Unfreeze is the opposite of Freeze.
func (p *Params) Unfreeze(patterns ...string) error { return p.freeze(false, patterns) }

// freeze sets or clears the mark of the parameters that match the patterns.
func (p *Params) freeze(frozen bool, patterns []string) error {
	var found []*slot
	for _, pattern := range patterns {
		before := len(found)
		for _, s := range p.list {
			if !s.buffer && Matches(pattern, s.name) {
				found = append(found, s)
			}
		}
		if len(found) == before {
			return diag.Inputf("no parameter matches %q", pattern).WithFix("Names lists them")
		}
	}
	for _, s := range found {
		s.frozen = frozen
	}
	return nil
}

// Matches reports whether a parameter's name matches a pattern. Each * in the pattern matches any characters, also
// slashes and brackets, which names in ONNX models contain.
func Matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	for _, part := range parts[1:last] {
		i := strings.Index(rest, part)
		if !ok || i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return ok && strings.HasSuffix(rest, parts[last])
}

// Tie makes two parameters one: from now on, name refers to other's array and elements. Both must have the same type
// and, in files, the same shape. For example, a linear layer that computes the scores of tokens can share the token
// table.
func (p *Params) Tie(name, other string) error {
	a, b := p.entry(name), p.entry(other)
	switch {
	case a == nil || b == nil:
		return diag.Inputf("%s and %s are to be tied; the store does not have both", name, other)
	case a == b:
		return nil
	case a.dtype != b.dtype || !slices.Equal(a.inFile(), b.inFile()) || a.buffer != b.buffer ||
		!slices.Equal(a.gates, b.gates):
		return diag.Inputf("%s is %v%v, %s is %v%v: they cannot be one", name, a.dtype, a.inFile(), other, b.dtype,
			b.inFile())
	}
	if err := a.array.Close(); err != nil {
		return err
	}
	p.list = slices.DeleteFunc(p.list, func(s *slot) bool { return s == a })
	for key, s := range p.by {
		if s == a {
			p.by[key], p.other[key] = b, p.other[key] != (a.transposed != b.transposed)
		}
	}
	return nil
}

// Set copies the elements of an array into a parameter or a buffer of the same type and shape.
func (p *Params) Set(name string, a *array.Array) error {
	s := p.entry(name)
	if s == nil {
		return diag.Inputf("no parameter is called %s", name).AtTensor(name)
	}
	if a.DType() != s.dtype || !slices.Equal(a.Shape(), s.shape) {
		return diag.Inputf("%s is %v, and is set to %v", name, s.array, a).AtTensor(name)
	}
	from := a.Tensor()
	if from == nil {
		return diag.Inputf("%s is set to an array that has no elements", name).AtTensor(name)
	}
	to := s.array.Tensor()
	if to == nil {
		return diag.New(weir.ErrClosed, "the store is closed").AtTensor(name)
	}
	copy(to.Bytes(), from.Bytes())
	return nil
}

// Bytes returns the size of all parameters and buffers, in bytes.
func (p *Params) Bytes() int64 { return p.scope.Stats().Bytes }

// Count returns the number of elements of all parameters.
func (p *Params) Count() int64 {
	n := int64(0)
	for _, s := range p.list {
		if !s.buffer {
			n += int64(s.array.Len())
		}
	}
	return n
}

// Scope returns the scope that owns the arrays.
func (p *Params) Scope() *array.Scope { return p.scope }

// Close frees the memory. Close compiled functions that read the parameters first: the arrays are lent to them.
func (p *Params) Close() error {
	if p == nil {
		return nil
	}
	return p.scope.Close()
}

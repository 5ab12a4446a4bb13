package array

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// An operation is first compiled for the shapes of its operands. Two calls are of the same class if the operations have
// equal keys, types and ranks, and the same extents are 0, 1, and equal to each other. At the third shape of a class,
// the operation is compiled with names for the extents that have differed so far. This form serves all further shapes
// of the class in which only these extents differ, so that a workload of ragged shapes stops compiling. Sizes among an
// operation's settings count as extents; its numbers are treated alike: see settings.

// class is the history of a class of shapes.
type class struct {
	first   []int     // the extents of the first shape
	varies  []bool    // by extent: it has differed since
	numbers []float64 // the numbers of the first call
	differ  []bool    // by number: it has differed since
	count   int       // the number of shapes that no form served
	forms   []*form
}

// form is an operation compiled with names for some extents, and operands for some numbers.
type form struct {
	first   []int
	varies  []bool
	numbers []float64
	differ  []bool
	failed  bool // it cannot be compiled
}

// enoughShapes is the number of shapes of a class at which a form is made.
const enoughShapes = 3

// mostClasses is the maximum number of classes that are remembered.
const mostClasses = 4096

var classes = struct {
	sync.Mutex
	of map[string]*class
}{of: map[string]*class{}}

// serves reports whether a form serves these extents and numbers.
func (v *form) serves(extents []int, numbers []float64) bool {
	for i, x := range numbers {
		if !v.differ[i] && math.Float64bits(x) != math.Float64bits(v.numbers[i]) {
			return false
		}
	}
	for i, e := range extents {
		if e != v.first[i] && !v.varies[i] {
			return false
		}
	}
	return true
}

// formFor returns the form that serves an operation's operands; nil if the operation is to be compiled for their
// shapes.
func (o *operation) formFor(in []*Array) *form {
	var buffer [256]byte
	var room [16]int
	extents := o.extents(room[:0], in)
	if len(extents)+len(o.numbers) == 0 {
		return nil
	}
	key := o.classKey(buffer[:0], in, extents)
	classes.Lock()
	defer classes.Unlock()
	c := classes.of[string(key)]
	if c == nil {
		if len(classes.of) >= mostClasses {
			clear(classes.of)
		}
		c = &class{first: append([]int(nil), extents...), varies: make([]bool, len(extents)),
			numbers: append([]float64(nil), o.numbers...), differ: make([]bool, len(o.numbers))}
		classes.of[string(key)] = c
	}
	for _, v := range c.forms {
		if v.serves(extents, o.numbers) {
			if v.failed {
				return nil
			}
			return v
		}
	}
	return c.add(extents, o.numbers)
}

// add counts a shape that no form serves, and returns a new form if there were enough shapes, else nil.
func (c *class) add(extents []int, numbers []float64) *form {
	differ := false
	for i, e := range extents {
		c.varies[i] = c.varies[i] || e != c.first[i]
		differ = differ || c.varies[i]
	}
	for i, x := range numbers {
		c.differ[i] = c.differ[i] || math.Float64bits(x) != math.Float64bits(c.numbers[i])
		differ = differ || c.differ[i]
	}
	if c.count++; c.count < enoughShapes || !differ {
		return nil
	}
	v := &form{first: c.first, varies: append([]bool(nil), c.varies...), numbers: c.numbers,
		differ: append([]bool(nil), c.differ...)}
	c.forms = append(c.forms, v)
	return v
}

// fail records that a form cannot be compiled.
func (v *form) fail() {
	classes.Lock()
	defer classes.Unlock()
	v.failed = true
}

// extents appends the operands' extents and the sizes of the operation's settings.
func (o *operation) extents(out []int, in []*Array) []int {
	return append(extentsOf(out, in), o.sizes...)
}

// extentsOf appends the operands' extents.
func extentsOf(out []int, in []*Array) []int {
	for _, a := range in {
		if a != nil {
			out = append(out, a.shape...)
		}
	}
	return out
}

// group returns the index of the first extent that equals extent i.
func group(extents []int, i int) int {
	for k, e := range extents[:i] {
		if e == extents[i] {
			return k
		}
	}
	return i
}

// classKey appends the key of the operands' class.
func (o *operation) classKey(b []byte, in []*Array, extents []int) []byte {
	return o.keyBy(b, in, func(b []byte, i int) []byte {
		if e := extents[i]; e < 2 {
			return append(b, byte(e))
		}
		return binary.AppendUvarint(b, uint64(2+group(extents, i)))
	})
}

// formKey appends the key of a form's program, which differs from all keys of fixed shapes.
func (o *operation) formKey(b []byte, in []*Array, extents []int, v *form) []byte {
	b = o.keyBy(append(b, "named "...), in, func(b []byte, i int) []byte {
		if v.varies[i] {
			return binary.AppendUvarint(append(b, 1), uint64(group(extents, i)))
		}
		return binary.AppendUvarint(append(b, 0), uint64(extents[i]))
	})
	for i, differs := range v.differ {
		if differs {
			b = append(b, 1)
			continue
		}
		b = binary.LittleEndian.AppendUint64(append(b, 0), math.Float64bits(v.numbers[i]))
	}
	return b
}

// keyBy appends a key in which say writes extent i, counted over all operands.
func (o *operation) keyBy(b []byte, in []*Array, say func(b []byte, i int) []byte) []byte {
	b = o.begin(b)
	i := 0
	for _, a := range in {
		if a == nil {
			b = append(b, 0xff)
			continue
		}
		b = append(b, 0xfe, byte(a.dtype), byte(len(a.shape)))
		for range a.shape {
			b = say(b, i)
			i++
		}
	}
	for range o.sizes {
		b = say(b, i)
		i++
	}
	return b
}

// named builds a module with only the operation, with names for the extents that vary.
func (o *operation) named(in []*Array, v *form) (*ir.Module, error) {
	var room [16]int
	extents := o.extents(room[:0], in)
	at := 0
	return o.moduleOf(in, func(t *trace, a *Array) ([]sym.Expr, error) {
		out := make([]sym.Expr, len(a.shape))
		for i, e := range a.shape {
			out[i] = sym.Const(int64(e))
			if v.varies[at] {
				expr, err := t.dimension(group(extents, at))
				if err != nil {
					return nil, err
				}
				out[i] = expr
			}
			at++
		}
		return out, nil
	}, func(t *trace) ([]sym.Expr, []number, error) { return v.named(t, o, extents) })
}

// eagerNamed runs an operation by a form. done reports whether the form could be used.
func (s *Scope) eagerNamed(o *operation, in []*Array, v *form, tensors []*weir.Tensor) (out []*Array, done bool,
	err error) {
	var buffer [256]byte
	var room [16]int
	extents := o.extents(room[:0], in)
	key := o.formKey(buffer[:0], in, extents, v)
	p, err := programs.get(key, func() (*ir.Module, error) { return o.named(in, v) })
	if err != nil {
		v.fail()
		return nil, false, nil
	}
	defer programs.done(p)
	all, numbers, sizes, err := s.given(o, v, len(extents)-len(o.sizes), tensors)
	defer func() {
		for _, a := range sizes {
			a.Close()
		}
	}()
	if err != nil {
		return nil, true, err
	}
	if p.dataDependent && len(all) > len(tensors) {
		v.fail()
		return nil, false, nil
	}
	if out, err = s.launch(p, all, numbers); err == nil {
		return out, true, nil
	}
	// The form may require more of its extents than the operation requires of these.
	e := (*diag.Error)(nil)
	return nil, !errors.As(err, &e) || e.Kind == weir.ErrMemory, err
}

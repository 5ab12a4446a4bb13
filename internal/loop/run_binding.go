package loop

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// lookup returns the value of a dimension, if it is bound.
func (s *running) lookup(name sym.Name) (int64, bool) {
	v, ok := s.dims[name]
	return v, ok
}

// eval computes a symbolic integer; the error is of kind ErrInput.
func (s *running) eval(e sym.Expr) (int64, error) {
	v, err := e.Eval(s.lookup)
	if err != nil {
		return 0, &diag.Error{Kind: diag.ErrInput, Detail: "a size cannot be computed: " + e.String(), Err: err}
	}
	return v, nil
}

// atMost returns the value of e with the dimensions that data decide at their limits.
func (s *running) atMost(e sym.Expr) (int64, error) {
	return s.eval(sym.AtLimits(e, s.module.Limits))
}

// shape computes a list of extents.
func (s *running) shape(list []sym.Expr) ([]int64, error) {
	shape := make([]int64, len(list))
	for i, e := range list {
		v, err := s.eval(e)
		if err != nil {
			return nil, err
		}
		shape[i] = v
	}
	return shape, nil
}

// bind gives a dimension its value.
func (s *running) bind(name sym.Name, v int64, from string) error {
	if err := s.within(name, v, from); err != nil {
		return err
	}
	s.dims[name] = v
	for _, r := range s.waiting[name] {
		if err := s.require(r); err != nil {
			return err
		}
	}
	return nil
}

// sortRequires assigns each condition to the one of its dimensions that is bound last. A loop binds its count after its
// body, so WalkSteps, which visits a loop before its body, would give another order.
func (s *running) sortRequires() {
	order, number := map[sym.Name]int{}, 0
	mark := func(name sym.Name) { number++; order[name] = number }
	var walk func(body []Step)
	walk = func(body []Step) {
		for _, step := range body {
			switch step := step.(type) {
			case *Bind:
				mark(step.Dim)
			case *Host:
				for _, b := range step.Out {
					for axis := 0; b != nil && axis < len(b.Shape); axis++ {
						if name, ok := b.Shape[axis].Name(); ok && s.decided(name) {
							mark(name)
						}
					}
				}
			}
			for _, inner := range StepBodies(step) {
				if inner != nil {
					walk(*inner)
				}
			}
			if l, ok := step.(*Loop); ok && !l.Count.None() {
				mark(l.Count)
			}
		}
	}
	walk(s.module.Body)
	for i := range s.module.Requires {
		r, last := &s.module.Requires[i], sym.Name{}
		for _, name := range slices.Concat(r.Cond.A.Vars(), r.Cond.B.Vars()) {
			if order[name] > order[last] {
				last = name
			}
		}
		s.waiting[last] = append(s.waiting[last], r)
	}
}

// within checks a value against a dimension's range and limit.
func (s *running) within(name sym.Name, v int64, from string) error {
	if r, ok := s.module.Dims.Get(name); ok && (v < r.Min || v > r.Max) {
		return &diag.Error{Kind: diag.ErrInput, Node: from, Dim: name.Text(),
			Detail: fmt.Sprintf("%d is outside [%d, %d]", v, r.Min, r.Max)}
	}
	if limit, ok := s.module.Limits[name]; ok {
		most, err := s.atMost(limit)
		if err != nil {
			return err
		}
		if v > most {
			return &diag.Error{Kind: diag.ErrInput, Node: from, Dim: name.Text(),
				Detail: fmt.Sprintf("%d is more than the limit %s = %d", v, limit, most)}
		}
	}
	return nil
}

// match binds the names in a shape to extents; a name that already has a value, and every other expression, must agree.
func (s *running) match(b *Buffer, extents []int64, rebind bool) error {
	wrong := func(detail string) error {
		return &diag.Error{Kind: diag.ErrInput, Tensor: b.Name, Detail: detail}
	}
	if len(extents) != len(b.Shape) {
		return wrong(fmt.Sprintf("rank %d, want %d", len(extents), len(b.Shape)))
	}
	bound := map[sym.Name]bool{}
	for i, e := range b.Shape {
		name, ok := e.Name()
		if !ok || bound[name] {
			continue
		}
		if _, has := s.dims[name]; has && !(rebind && s.decided(name)) {
			continue
		}
		if err := s.bind(name, extents[i], b.Source); err != nil {
			return err
		}
		bound[name] = true
	}
	for i, e := range b.Shape {
		v, err := s.eval(e)
		if err != nil {
			return err
		}
		if v != extents[i] {
			return wrong(fmt.Sprintf("axis %d has %d elements, want %s = %d", i, extents[i], e, v))
		}
	}
	return nil
}

// decided reports whether a dimension depends on data.
func (s *running) decided(name sym.Name) bool {
	_, ok := s.module.Limits[name]
	return ok
}

// enter binds the inputs and their dimensions, and checks the module's requirements.
func (s *running) enter(inputs map[string]*tensor.Tensor) error {
	// Single names first, so that expressions over them can be checked for any order of inputs.
	for pass := range 2 {
		for _, b := range s.module.Buffers {
			if b.Kind == Weight && b.View == nil && b.Data != nil {
				s.storage[b] = &storage{data: b.Data.Bytes(), strings: b.Data.Strings(), written: true, borrowed: true}
			}
			if b.Kind != Input || b.View != nil {
				continue
			}
			t := inputs[b.Name]
			if t == nil {
				return &diag.Error{Kind: diag.ErrInput, Tensor: b.Name, Detail: "the input is missing"}
			}
			if t.DType() != b.DType {
				return &diag.Error{Kind: diag.ErrInput, Tensor: b.Name, Detail: fmt.Sprintf("is %s, want %s", t.DType(), b.DType)}
			}
			if pass == 0 {
				s.storage[b] = &storage{data: t.Bytes(), strings: t.Strings(), written: true, borrowed: true}
				if err := s.names(b, t.Shape()); err != nil {
					return err
				}
				if err := s.elements(b, t); err != nil {
					return err
				}
			} else if err := s.match(b, t.Shape(), false); err != nil {
				return err
			}
		}
	}
	for _, r := range s.waiting[sym.Name{}] {
		if err := s.require(r); err != nil {
			return err
		}
	}
	return nil
}

// elements binds the dimensions that are elements of an input. A dimension that already has a value must agree.
func (s *running) elements(b *Buffer, t *tensor.Tensor) error {
	if len(b.Elements) == 0 {
		return nil
	}
	if t.Len() != int64(len(b.Elements)) {
		return &diag.Error{Kind: diag.ErrInput, Tensor: b.Name,
			Detail: fmt.Sprintf("has %d elements, want %d", t.Len(), len(b.Elements))}
	}
	for i, name := range b.Elements {
		v, has := s.dims[name]
		if !has {
			if err := s.bind(name, t.Int(int64(i)), b.Source); err != nil {
				return err
			}
		} else if v != t.Int(int64(i)) {
			return &diag.Error{Kind: diag.ErrInput, Tensor: b.Name, Dim: name.Text(),
				Detail: fmt.Sprintf("element %d is %d, want %d", i, t.Int(int64(i)), v)}
		}
	}
	return nil
}

// require checks a condition once all its dimensions have values.
func (s *running) require(r *Require) error {
	for _, e := range []sym.Expr{r.Cond.A, r.Cond.B} {
		for _, name := range e.Vars() {
			if _, bound := s.dims[name]; !bound {
				return nil
			}
		}
	}
	ok, err := r.Cond.Eval(s.lookup)
	if err != nil {
		return &diag.Error{Kind: diag.ErrInput, Node: r.From, Detail: "the condition " + r.Cond.String() +
			" cannot be computed", Err: err}
	}
	if !ok {
		return &diag.Error{Kind: diag.ErrInput, Node: r.From, Detail: "the inputs must meet " + r.Cond.String()}
	}
	return nil
}

// names binds the extents of a shape that are names alone.
func (s *running) names(b *Buffer, extents []int64) error {
	for i, e := range b.Shape {
		name, ok := e.Name()
		if _, has := s.dims[name]; !ok || has || i >= len(extents) {
			continue
		}
		if err := s.bind(name, extents[i], ""); err != nil {
			return diag.Inputf("input %s axis %d: %v", b.Name, i, err)
		}
	}
	return nil
}

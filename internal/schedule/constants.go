package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/tensor"
)

// constants replaces the loads of each weight with a single element by its value, before kernels are joined. Bounds and
// scales then are constants in expressions.
func (s *scheduler) constants() {
	s.findShared()
	s.eachList(&s.module.Body, func(list *[]loop.Step) {
		for _, step := range *list {
			if l, ok := step.(*loop.Launch); ok && !s.shared[l.Kernel] {
				putNumbers(l)
			}
		}
	})
}

// putNumbers replaces single-element weights in one launch.
func putNumbers(l *loop.Launch) {
	k := l.Kernel
	numbers := map[string]*loop.Const{}
	for i, b := range l.Args {
		if c := numberIn(b); c != nil && k.Params[i].Access == loop.Read && c.Type == k.Params[i].DType {
			numbers[k.Params[i].Name] = c
		}
	}
	for a := range loop.EachAccess(k.Body) {
		if a.Tile != nil || a.Mask != nil {
			delete(numbers, a.Buffer)
		}
	}
	if len(numbers) == 0 {
		return
	}
	r := &loop.Rewrite{Expr: func(e loop.Expr) loop.Expr {
		if load, ok := e.(*loop.Load); ok && numbers[load.From] != nil {
			return copied(numbers[load.From])
		}
		return e
	}}
	k.Body = r.Body(k.Body)
	for i := len(k.Params) - 1; i >= 0; i-- {
		if numbers[k.Params[i].Name] != nil {
			k.Params, l.Args = slices.Delete(k.Params, i, i+1), slices.Delete(l.Args, i, i+1)
		}
	}
	k.Dims = dimsOf(k, k)
}

// numberIn returns the value of a constant weight with a single element; nil for other buffers.
func numberIn(b *loop.Buffer) *loop.Const {
	if b.Kind != loop.Weight || b.View != nil || b.Data == nil || b.Data.Len() != 1 {
		return nil
	}
	return elementOf(b.Data)
}

// elementOf returns the value of a tensor with a single element as a constant; nil for types that loop.Const does not
// hold.
func elementOf(t *tensor.Tensor) *loop.Const {
	dt := t.DType()
	switch {
	case dt.IsFloat() && dt.Bits() >= 16 && dt.Bits() <= 64:
		return &loop.Const{Type: dt, Bits: loop.FromFloat(dt, t.Float(0))}
	case dt.IsInt() && dt.Bits() >= 8 && dt.Bits() <= 64:
		return &loop.Const{Type: dt, Bits: loop.FromInt(dt, t.Int(0))}
	}
	return nil
}

package blocks

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Memory is a buffer of a kernel: memory at an address, or a variable.
type Memory struct {
	DType          dtype.DType
	Shape, Strides []sym.Expr
	Base           ID // the address; 0 for a variable
	Variable       ID
	Shared         bool     // the variable is a block's, and not a thread's
	Written        bool     // the kernel writes the memory at the address
	offset         sym.Expr // in a thread's slice of the launch's scratch
	thread         bool     // threads' own memory: the first axis is the thread, which has a variable for its slice
}

// memory returns a buffer by its name.
func (w *Writer) memory(name string) *Memory {
	m := w.memories[name]
	if m == nil {
		w.Bug("%%%s is not declared", name)
	}
	return m
}

// offsetOf returns the offset of an element from the buffer's first one, in elements. It refuses an index into threads'
// own memory other than that of the present thread.
func (w *Writer) offsetOf(m *Memory, index []sym.Expr) sym.Expr {
	if m.thread {
		if w.thread == (sym.Name{}) || !index[0].Equal(sym.Var(w.thread)) {
			Refuse("access to another thread's own memory")
		}
		index = append([]sym.Expr{sym.Const(0)}, index[1:]...)
	}
	return loop.Offset(index, m.Shape, m.Strides)
}

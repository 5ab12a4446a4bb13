package lanes

import (
	"bytes"
	"encoding/binary"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file emits vector loops that only move narrow elements, or fill memory with one. It moves full registers of
// elements at a time, which are several strips of 32-bit lanes.

// stripsMoved returns the number of strips of a vector loop that one move does; 0 if the loop does something else.
func (e *Emitter) stripsMoved(f *loop.For) int64 {
	if len(f.Body) != 1 || e.Override != nil || e.Collect != nil {
		return 0
	}
	s, ok := f.Body[0].(*loop.Store)
	if !ok || s.Mask != nil {
		return 0
	}
	dt := s.X.DType()
	if dt.Bits() >= 32 || Packs(dt) || dt == dtype.Bool {
		return 0
	}
	switch x := s.X.(type) {
	case *loop.Load:
		ok = x.Mask == nil && e.inRun(x.From, x.Index)
	case *loop.Const:
		ok = dt.IsInt()
	default:
		ok = false
	}
	if !ok || !e.inRun(s.To, s.Index) {
		return 0
	}
	return int64(32 / dt.Bits())
}

// moveRun writes a register of elements, from the first lane's on.
func (e *Emitter) moveRun(s *loop.Store) {
	var r regalloc.Reg
	switch x := s.X.(type) {
	case *loop.Load:
		r = e.Load(dtype.I32, e.runAt(x.From, x.Index), regalloc.NoReg)
	case *loop.Const:
		r = e.Load(dtype.I32, e.InPool(e.filled(x)), regalloc.NoReg)
	}
	e.Machine.Store(dtype.I32, e.runAt(s.To, s.Index), r, regalloc.NoReg)
}

// inRun reports whether the elements of all lanes are contiguous.
func (e *Emitter) inRun(buffer string, index []sym.Expr) bool {
	step, even := e.ConstantStep(e.runOffset(buffer, index))
	return even && step == 1
}

// runOffset returns the offset of the first lane's element.
func (e *Emitter) runOffset(buffer string, index []sym.Expr) sym.Expr {
	return e.Simpler(e.Resolve(e.Kernel.Memory(buffer).Offset(index)))
}

// runAt returns the address of the first lane's element.
func (e *Emitter) runAt(buffer string, index []sym.Expr) regalloc.Mem {
	return e.Address(buffer, e.runOffset(buffer, index))
}

// filled returns the bytes of a register with a constant in each element.
func (e *Emitter) filled(c *loop.Const) []byte {
	one := binary.LittleEndian.AppendUint64(nil, c.Bits)[:c.Type.Bits()/8]
	return bytes.Repeat(one, 32*e.lanes/c.Type.Bits())
}

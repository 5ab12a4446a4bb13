package lanes

import (
	"math"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Distance is a number of bytes or iterations, constant or in a register.
type Distance struct {
	Fixed    int64
	Register regalloc.Reg // NoReg: fixed
}

// Known returns a constant distance.
func Known(v int64) Distance { return Distance{Fixed: v} }

// Known reports whether a distance is constant.
func (d Distance) Known() bool { return d.Register == regalloc.NoReg }

// Is reports whether a distance is the constant v.
func (d Distance) Is(v int64) bool { return d.Known() && d.Fixed == v }

// MoveOn adds a distance to a register.
func (e *Emitter) MoveOn(r regalloc.Reg, d Distance) {
	switch {
	case !d.Known():
		e.Integer(Add, r, d.Register)
	case d.Fixed != 0:
		e.IntegerNumber(Add, r, d.Fixed)
	}
}

// TimesDistance returns n times a distance.
func (e *Emitter) TimesDistance(d Distance, n int64) Distance {
	if d.Known() {
		return Known(d.Fixed * n)
	}
	return Distance{Register: e.Times(d.Register, n)}
}

// Repeat emits code that runs body n times: in a loop, if n is more than 1. A number in a register may be 0 or less.
func (e *Emitter) Repeat(n Distance, body func()) { e.RepeatAtMost(n, Unbounded, body) }

// RepeatAtMost is repeat for a number of at most most.
func (e *Emitter) RepeatAtMost(n Distance, most int64, body func()) {
	if n.Known() && n.Fixed <= 1 {
		if n.Fixed == 1 {
			body()
		}
		return
	}
	count, again, end := e.General(), e.Label(), e.Label()
	if n.Known() {
		e.SetNumber(count, n.Fixed)
	} else {
		e.Assign(count, n.Register)
		e.CompareZero(count)
		e.JumpIf(LessOrEqual, end)
	}
	if n.Known() {
		most = n.Fixed
	}
	e.Turns(again, most, n.Known(), count, 1)
	body()
	e.IntegerNumber(Subtract, count, 1)
	e.JumpIf(NotEqual, again)
	e.Bind(end)
}

// Offset returns the distance in elements of steps along a buffer's axes.
func (e *Emitter) Offset(buffer string, steps []sym.Expr) sym.Expr {
	m := e.Kernel.Memory(buffer)
	return e.Resolve(loop.Offset(steps, m.Shape, m.Strides))
}

// farApart is the greatest distance in bytes between rows, or steps of a sum, that displacements can express: a tile
// has at most mostRows rows, and a round unrolled steps.
const farApart = 1 << 26

// Distance returns a number of elements in bytes, as a constant if it is at most farApart, else in a register.
func (e *Emitter) Distance(x sym.Expr, size int64) Distance {
	x = e.Resolve(x)
	if n, ok := x.Const(); ok && n <= farApart/size && n >= -farApart/size {
		return Known(n * size)
	}
	return Distance{Register: e.Times(e.IntegerOf(x), size)}
}

// Iterations returns the number of steps of a sum, or of a loop, as a constant or in a register.
func (e *Emitter) Iterations(x sym.Expr) Distance {
	x = e.Resolve(x)
	if n, ok := x.Const(); ok && n <= math.MaxInt32 {
		return Known(n)
	}
	return Distance{Register: e.IntegerOf(x)}
}

// Few splits an extent in tiles: all have full elements except the last, which has rest.
func (e *Emitter) Few(x sym.Expr) (full, rest int64, ok bool) {
	args := x.MinArgs()
	if len(args) != 2 {
		return 0, 0, false
	}
	for i := range args {
		if full, ok = args[i].Const(); !ok || len(args[1-i].Vars()) != 1 {
			continue
		}
		name := args[1-i].Vars()[0]
		step, _, linear := args[1-i].Linear(name)
		if n, fixed := step.Const(); !linear || !fixed || n != -full {
			continue
		}
		_, last := e.Kernel.Ranges.Bounds(sym.Var(name))
		if last >= 1<<40 {
			continue
		}
		rest, ok = args[1-i].Subst(func(sym.Name) (sym.Expr, bool) { return sym.Const(last), true }).Const()
		return full, rest, ok && rest > 0 && rest <= full
	}
	return 0, 0, false
}

// evenGroups is EvenRows for tiles of so many rows or a multiple of it, except for the last tile, which may have fewer.
// most is a multiple of it too.
func evenGroups(n int64, most, together int, do func(count int64, rows int)) {
	left := (n + int64(together) - 1) / int64(together)
	lacks := left*int64(together) - n
	EvenRows(left, most/together, func(count int64, groups int) {
		left -= count * int64(groups)
		if left > 0 || lacks == 0 {
			do(count, groups*together)
			return
		}
		do(count-1, groups*together)
		do(1, groups*together-int(lacks))
	})
}

// EvenRows cuts n rows into tiles of at most `most` rows, of nearly equal sizes: first the larger tiles, then tiles
// with one row less. It calls do for each size, with the number of tiles.
func EvenRows(n int64, most int, do func(count int64, rows int)) {
	if n <= 0 {
		return
	}
	tiles := (n + int64(most) - 1) / int64(most)
	size := (n + tiles - 1) / tiles
	larger := n - tiles*(size-1)
	do(larger, int(size))
	if size > 1 && tiles > larger {
		do(tiles-larger, int(size-1))
	}
}

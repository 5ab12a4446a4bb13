package kerneltest

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// laneForms are indices below rows that do not change by a fixed step from lane to lane. i is the loop variable below
// n, j a checked value, and c is at least 1.
var laneForms = map[string]func(i, j, n, c, rows sym.Expr) sym.Expr{
	"quotient":  func(i, j, n, c, rows sym.Expr) sym.Expr { return i.FloorDiv(sym.Const(3)).Min(rows.Sub(n1)) },
	"shift":     func(i, j, n, c, rows sym.Expr) sym.Expr { return i.FloorDiv(sym.Const(4)).Min(rows.Sub(n1)) },
	"remainder": func(i, j, n, c, rows sym.Expr) sym.Expr { return i.Mul(sym.Const(5)).Mod(rows) },
	"mask":      func(i, j, n, c, rows sym.Expr) sym.Expr { return i.Mod(sym.Const(8)).Min(rows.Sub(n1)) },
	"ceiling":   func(i, j, n, c, rows sym.Expr) sym.Expr { return i.CeilDiv(sym.Const(7)).Min(rows.Sub(n1)) },
	"below zero": func(i, j, n, c, rows sym.Expr) sym.Expr {
		return i.Sub(sym.Const(40)).FloorDiv(sym.Const(5)).Mod(rows)
	},
	"named quotient":  func(i, j, n, c, rows sym.Expr) sym.Expr { return i.FloorDiv(c).Min(rows.Sub(n1)) },
	"named remainder": func(i, j, n, c, rows sym.Expr) sym.Expr { return i.Sub(sym.Const(9)).Mod(c).Min(rows.Sub(n1)) },
	"named step":      func(i, j, n, c, rows sym.Expr) sym.Expr { return i.Mul(c).Min(rows.Sub(n1)) },
	"bounds": func(i, j, n, c, rows sym.Expr) sym.Expr {
		return i.Mul(sym.Const(2)).Sub(sym.Const(11)).Max(n0).Min(rows.Sub(n1))
	},
	"product":      func(i, j, n, c, rows sym.Expr) sym.Expr { return i.Mul(i).Mod(rows) },
	"checked":      func(i, j, n, c, rows sym.Expr) sym.Expr { return j.Mod(rows) },
	"checked, far": func(i, j, n, c, rows sym.Expr) sym.Expr { return j.Mul(sym.Const(1 << 33)).Add(i).Mod(rows) },
}

// Lanes reads, compares and writes at the indices of laneForms, for every element type, with and without masks.
func (h Harness) Lanes(t *testing.T) {
	r := rand.New(rand.NewSource(11))
	for _, dt := range ElementTypes {
		for name, form := range laneForms {
			for _, named := range []bool{false, true} {
				for masked := range 3 {
					if h.Take != nil && !h.Take() {
						continue
					}
					t.Run(fmt.Sprintf("%s of %s, named %t, masked %d", name, dt, named, masked), func(t *testing.T) {
						h.lane(t, r, dt, form, named, masked)
					})
				}
			}
		}
	}
}

// lane runs a loop with one form of index.
func (h Harness) lane(t *testing.T, r *rand.Rand, dt dtype.DType, form func(i, j, n, c, rows sym.Expr) sym.Expr,
	named bool, masked int) {
	values := map[sym.Name]int64{}
	extent := func(name string, v int64) sym.Expr {
		if !named {
			return sym.Const(v)
		}
		values[sym.User(name)] = v - 1
		return dim(name).Add(n1)
	}
	n, c, rows := extent("n", int64(1+r.Intn(70))), extent("c", int64(1+r.Intn(9))), extent("rows", int64(1+r.Intn(50)))
	b := loop.NewBuilder("lanes")
	at := b.Param("at", loop.Read, []dtype.DType{dtype.I64, dtype.I32, dtype.U8}[r.Intn(3)], []sym.Expr{n})
	x := b.Param("x", loop.Read, dt, []sym.Expr{sym.Const(2), rows, sym.Const(3)})
	y := b.Param("y", loop.Write, dtype.I64, []sym.Expr{n, sym.Const(2)})
	z := b.Param("z", loop.Write, storable(dt), []sym.Expr{n, sym.Const(2)})
	b.For(loop.Vector, "i", n, func(i sym.Expr) {
		j := b.Check("j", at.Load(i), n0, sym.Const(20), "an index")
		index := form(i, j, n, c, rows)
		var v loop.Expr = x.Load(n1, index, n1)
		switch masked {
		case 1:
			inside := loop.Apply2(loop.Lt, loop.At(index), loop.At(rows.FloorDiv(sym.Const(2))))
			v = &loop.Load{From: "x", Index: []sym.Expr{n0, index, sym.Const(2)}, Type: dt, Mask: inside,
				Else: loop.Number(dt, 1)}
		case 2:
			inside := loop.Apply2(loop.Ne, loop.At(c), loop.At(sym.Const(3)))
			v = &loop.Load{From: "x", Index: []sym.Expr{n0, index, sym.Const(2)}, Type: dt, Mask: inside,
				Else: loop.Number(dt, 0)}
		}
		b.Store(y, []sym.Expr{i, n1}, loop.At(index))
		b.Store(y, []sym.Expr{i, n0}, loop.Choose(loop.Apply2(loop.Ge, loop.At(index), loop.At(i)), loop.At(index),
			loop.At(i)))
		b.Store(z, []sym.Expr{i, n0}, loop.Convert(storable(dt), v))
		b.Store(z, []sym.Expr{n.Sub(n1).Sub(i), n1}, loop.Convert(storable(dt), v))
	})
	k := Finish(b)
	var operands []*tensor.Tensor
	for _, p := range k.Params {
		operands = append(operands, Operand(t, p, values))
		Fill(r, operands[len(operands)-1])
	}
	for i := range operands[0].Len() {
		operands[0].SetInt(i, r.Int63n(21))
	}
	h.Agree(t, k, values, operands, 0, 0)
	if operands[0].Len() > 0 && operands[0].DType() != dtype.U8 {
		operands[0].SetInt(r.Int63n(operands[0].Len()), -1)
		h.Agree(t, k, values, operands, 0, 0)
	}
}

// storable returns the type itself, or f32 for a type whose elements share bytes, which lanes cannot write one by one.
func storable(dt dtype.DType) dtype.DType {
	if dt.Bits() < 8 {
		return dtype.F32
	}
	return dt
}

// borders are indices of an axis with w elements, for padding: i may be outside, and the index changes differently
// there.
var borders = map[string]func(i, w sym.Expr) sym.Expr{
	"edge": func(i, w sym.Expr) sym.Expr { return i.Max(n0).Min(w.Sub(n1)) },
	"wrap": func(i, w sym.Expr) sym.Expr { return i.Mod(w) },
	"reflect": func(i, w sym.Expr) sym.Expr {
		period := w.Mul(sym.Const(2)).Sub(sym.Const(2)).Max(n1)
		return i.Mod(period).Min(period.Sub(i.Mod(period)))
	},
	"backward": func(i, w sym.Expr) sym.Expr { return w.Sub(n1).Sub(i).Max(n0).Min(w.Sub(n1)) },
	"repeat":   func(i, w sym.Expr) sym.Expr { return i.FloorDiv(sym.Const(40)).Max(n0).Min(w.Sub(n1)) },
}

// Borders runs loops along padded axes, with indices of borders and with masked loads.
func (h Harness) Borders(t *testing.T) {
	r := rand.New(rand.NewSource(12))
	for name, form := range borders {
		for range 30 {
			width, left := int64(1+r.Intn(90)), int64(r.Intn(9))
			w := sym.Const(width)
			b := loop.NewBuilder("border")
			dt := []dtype.DType{dtype.F32, dtype.F32, dtype.U8, dtype.I64, dtype.F16}[r.Intn(5)]
			x := b.Param("x", loop.Read, dt, []sym.Expr{w})
			n := sym.Const(width + left + int64(r.Intn(9)))
			y := b.Param("y", loop.Write, dt, []sym.Expr{n})
			z := b.Param("z", loop.Write, dt, []sym.Expr{n})
			b.For(loop.Vector, "i", n, func(i sym.Expr) {
				at := i.Sub(sym.Const(left))
				b.Store(y, []sym.Expr{i}, x.Load(form(at, w)))
				inside := loop.Apply2(loop.And, loop.Apply2(loop.Le, loop.At(n0), loop.At(at)),
					loop.Apply2(loop.Lt, loop.At(at), loop.At(w)))
				b.Store(z, []sym.Expr{i}, &loop.Load{From: "x", Index: []sym.Expr{at}, Type: dt, Mask: inside,
					Else: loop.Number(dt, 1)})
			})
			k := Finish(b)
			t.Run(name, func(t *testing.T) { h.agreeFilled(t, r, k) })
		}
	}
}

// agreeFilled compares a kernel of fixed sizes with the interpreter on random operands.
func (h Harness) agreeFilled(t *testing.T, r *rand.Rand, k *loop.Kernel) {
	t.Helper()
	var operands []*tensor.Tensor
	for _, p := range k.Params {
		operands = append(operands, Operand(t, p, nil))
		Fill(r, operands[len(operands)-1])
	}
	h.Agree(t, k, nil, operands, 0, 0)
}

// Strided reads and writes with steps from −6 to 6: all lanes, those of a mask that is an interval, and those of any
// mask.
func (h Harness) Strided(t *testing.T) {
	r := rand.New(rand.NewSource(13))
	for _, dt := range []dtype.DType{dtype.F32, dtype.U32, dtype.U8, dtype.F16, dtype.F64, dtype.I64} {
		for by := int64(-6); by <= 6; by++ {
			for masked := range 3 {
				for _, n := range []int64{1, 15, 16, 17, 40, 101} {
					k := stridedKernel(r, dt, by, n, masked)
					t.Run(fmt.Sprintf("%s, step %d, %d, masked %d", dt, by, n, masked), func(t *testing.T) { h.agreeFilled(t, r, k) })
				}
			}
		}
	}
}

// stridedKernel returns a loop over n lanes with step by; masked is 0 for no mask, 1 for an interval, 2 for any mask.
func stridedKernel(r *rand.Rand, dt dtype.DType, by, n int64, masked int) *loop.Kernel {
	b := loop.NewBuilder("strided")
	extent := max(by, -by)*(n-1) + 1
	x := b.Param("x", loop.Read, dt, Fixed(extent))
	c := b.Param("c", loop.Read, dtype.Bool, Fixed(n))
	y := b.Param("y", loop.Update, dt, Fixed(max(by, -by, 1)*n))
	first := max(0, -by) * (n - 1)
	b.For(loop.Vector, "i", sym.Const(n), func(i sym.Expr) {
		at := i.Mul(sym.Const(by)).Add(sym.Const(first))
		v := x.Load(at)
		switch masked {
		case 1:
			v = &loop.Load{From: "x", Index: []sym.Expr{at}, Type: dt,
				Mask: loop.Apply2(loop.Lt, loop.At(i), loop.At(sym.Const(r.Int63n(n+1)))), Else: loop.Number(dt, 1)}
		case 2:
			v = &loop.Load{From: "x", Index: []sym.Expr{at}, Type: dt, Mask: c.Load(i), Else: loop.Number(dt, 0)}
		}
		to := i.Mul(sym.Const(max(by, -by, 1)))
		if by < 0 {
			to = sym.Const(-by * (n - 1)).Sub(to)
		}
		b.Store(y, []sym.Expr{to}, v)
	})
	return Finish(b)
}

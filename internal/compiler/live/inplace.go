package live

import "github.com/weirml/weir/internal/loop"

// InPlace reports whether a kernel may write parameter w into the storage of parameter r. It may if each load of r is
// at the index of the following store to w in the same body, and if w is stored by one statement only. Operands of a
// contraction never qualify.
func InPlace(k *loop.Kernel, r, w int) bool {
	in, out := k.Params[r], k.Params[w]
	if in.DType.Bits() != out.DType.Bits() || in.DType.Bits()%8 != 0 || in.Strides != nil || out.Strides != nil {
		return false
	}
	stores, ok := 0, true
	var stored *loop.Store
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Store:
			if s.To == out.Name {
				stores++
				stored = s
			}
		case *loop.Contract:
			for _, t := range []loop.Tile{s.A, s.B, s.C} {
				ok = ok && t.Buffer != in.Name && t.Buffer != out.Name
			}
		}
		return true
	})
	if !ok || stores != 1 {
		return false
	}
	where := out.Offset(stored.Index)
	var inside func(body []loop.Stmt) bool
	inside = func(body []loop.Stmt) bool {
		store := -1
		for i, s := range body {
			if st, is := s.(*loop.Store); is && st.To == out.Name {
				store = i
			}
		}
		for i, s := range body {
			for _, inner := range loop.Bodies(s) {
				if !inside(*inner) {
					return false
				}
			}
			for _, x := range loop.Values(s) {
				same := true
				loop.WalkExpr(x, func(e loop.Expr) {
					if l, is := e.(*loop.Load); is {
						if l.From == out.Name {
							same = false
						}
						if l.From == in.Name {
							same = same && i <= store && in.Offset(l.Index).Equal(where)
						}
					}
				})
				if !same {
					return false
				}
			}
		}
		return true
	}
	return inside(k.Body)
}

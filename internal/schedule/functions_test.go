package schedule

import (
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// TestFunctionsOnce counts the functions in bodies that repeat some of them, before and after the step, and compares
// results.
func TestFunctionsOnce(t *testing.T) {
	type memory map[string]*loop.Memory
	sigmoid := func(x loop.Expr) loop.Expr { return loop.Apply(loop.Sigmoid, x) }
	tanh := func(x loop.Expr) loop.Expr { return loop.Apply(loop.Tanh, x) }
	times := func(x, y loop.Expr) loop.Expr { return loop.Apply2(loop.Mul, x, y) }
	for _, c := range []struct {
		name   string
		before int // functions
		after  int
		body   func(b *loop.Builder, m memory, i sym.Expr)
	}{
		{"within a value", 2, 1, func(b *loop.Builder, m memory, i sym.Expr) {
			b.Store(m["y"], shape(i), times(sigmoid(m["x"].Load(i)), loop.Apply2(loop.Add, f32(1), sigmoid(m["x"].Load(i)))))
		}},
		{"functions of functions", 6, 2, func(b *loop.Builder, m memory, i sym.Expr) {
			outer := func() loop.Expr { return tanh(times(f32(3), sigmoid(m["x"].Load(i)))) }
			b.Store(m["y"], shape(i), times(outer(), f32(2)))
			b.Store(m["z"], shape(i), times(f32(5), outer()))
			v := b.Let("v", sigmoid(m["x"].Load(i)))
			b.Store(m["w"], shape(i), times(v, sigmoid(m["x"].Load(i))))
		}},
		{"of another element", 2, 2, func(b *loop.Builder, m memory, i sym.Expr) {
			b.Store(m["y"], shape(i), times(sigmoid(m["x"].Load(i)), sigmoid(m["x"].Load(number(7).Sub(i)))))
		}},
		{"of an element that is stored in between", 3, 2, func(b *loop.Builder, m memory, i sym.Expr) {
			b.Store(m["z"], shape(i), m["x"].Load(i))
			b.Store(m["y"], shape(i), sigmoid(m["z"].Load(i)))
			b.Store(m["w"], shape(i), sigmoid(m["z"].Load(i)))
			b.Store(m["z"], shape(i), f32(1))
			b.Store(m["w"], shape(i), sigmoid(m["z"].Load(i)))
		}},
		{"of a sum that changes in between", 2, 2, func(b *loop.Builder, m memory, i sym.Expr) {
			sum := b.Var("sum", m["x"].Load(i))
			b.Store(m["y"], shape(i), sigmoid(sum))
			b.Reduce(sum, loop.Add, f32(1))
			b.Store(m["z"], shape(i), sigmoid(sum))
		}},
		{"with a loop in between", 2, 2, func(b *loop.Builder, m memory, i sym.Expr) {
			b.Store(m["y"], shape(i), sigmoid(m["x"].Load(i)))
			b.Serial("k", number(2), func(sym.Expr) { b.Store(m["z"], shape(i), f32(2)) })
			b.Store(m["w"], shape(i), sigmoid(m["x"].Load(i)))
		}},
		{"within a selection", 2, 1, func(b *loop.Builder, m memory, i sym.Expr) {
			selected := func() loop.Expr {
				x := m["x"].Load(i)
				return loop.Choose(loop.Apply2(loop.Lt, x, f32(-87)), f32(0), loop.Apply(loop.Exp, m["x"].Load(i)))
			}
			b.Store(m["y"], shape(i), selected())
			b.Store(m["z"], shape(i), times(f32(2), selected()))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := loop.NewBuilder("row")
			m := memory{"x": b.Param("x", loop.Read, dtype.F32, constants([]int64{8}))}
			for _, name := range []string{"y", "z", "w"} {
				m[name] = b.Param(name, loop.Update, dtype.F32, constants([]int64{8}))
			}
			b.Each("i", number(8), func(i sym.Expr) { c.body(b, m, i) })
			k := b.Kernel
			want, got := operands(t, k, nil, 1), operands(t, k, nil, 1)
			if err := interpret(k, want, nil); err != nil {
				t.Fatal(err)
			}
			s := &scheduler{module: &loop.Module{Kernels: []*loop.Kernel{k}}, machine: target.Portable(1), dims: sym.NewDims()}
			next := k.Clone()
			if changed := functionsOnce(s, next); changed != (c.before != c.after) {
				t.Errorf("changed: %v\n%s", changed, next)
			}
			if before, after := functionsOf(k), functionsOf(next); before != c.before || after != c.after {
				t.Errorf("of %d functions %d are left, want %d of %d\n%s", before, after, c.after, c.before, next)
			}
			if _, err := loop.Verify(next, s.dims); err != nil {
				t.Fatalf("%v\n%s", err, next)
			}
			if err := interpret(next, got, nil); err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if err := tensor.Compare(got[i], want[i], 0, 0); err != nil {
					t.Errorf("%s: %v\n%s", k.Params[i].Name, err, next)
				}
			}
		})
	}
}

// functionsOf counts the expensive functions in a kernel.
func functionsOf(k *loop.Kernel) (count int) {
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		for _, x := range loop.Values(s) {
			loop.WalkExpr(x, func(x loop.Expr) {
				if u, ok := x.(*loop.Unary); ok && expensive[u.Op] {
					count++
				}
			})
		}
		return true
	})
	return count
}

package ops

import (
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestCountedTrips runs loops whose condition compares a counter with the extent of an input, and compares the number
// of iterations with the planned limit: they are equal, and 1 if the condition is never true.
func TestCountedTrips(t *testing.T) {
	for _, test := range []struct {
		compare     loop.BinaryOp
		begin, step int64
		after       bool // the condition is on the counter's next value
		swapped     bool // the extent is the first operand
		float       bool // as floats
		narrow      bool // of 32 bits: the extent fits them in usual runs, which the loop requires
	}{
		{loop.Lt, 0, 1, true, false, false, false}, {loop.Lt, 0, 1, false, false, false, false},
		{loop.Le, 0, 1, true, false, false, false}, {loop.Gt, 0, 1, true, true, false, false},
		{loop.Ge, 0, 2, true, true, false, false}, {loop.Lt, -3, 3, true, false, true, false},
		{loop.Lt, 5, 7, false, false, true, false}, {loop.Lt, 0, 1, true, false, false, true},
		{loop.Gt, 0, 1, true, true, true, true},
	} {
		for extent := range int64(12) {
			t.Run(fmt.Sprint(test, extent), func(t *testing.T) {
				counted(t, extent, test.compare, test.begin, test.step, test.after, test.swapped, test.float,
					test.narrow)
			})
		}
	}
}

// counted builds and runs one loop, and compares the number of its scan output's rows with the limit.
func counted(t *testing.T, extent int64, compare loop.BinaryOp, begin, step int64, after, swapped, float,
	narrow bool) {
	m := &ir.Module{Name: "main", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: &ir.Block{}}}
	m.Funcs = []*ir.Func{m.Main}
	m.Dims.Set(sym.User("n"), sym.Range{Min: 0, Max: sym.NoMax})
	err := func() (err error) {
		defer ir.Catch(&err)
		b := ir.NewBuilder(ir.NewInference(m), m.Main.Body)
		b.Param("x", ir.Type{DType: dtype.F32, Shape: []sym.Expr{sym.Dim("n")}})
		integer := func(e sym.Expr) *ir.Value {
			v := Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{e})
			if narrow {
				v = Cast(b, v, dtype.I32)
			}
			return v
		}
		n, first, by := integer(sym.Dim("n")), integer(sym.Const(begin)), integer(sym.Const(step))
		body, in := LoopBody(b, "loop", sym.Const(LoopLimit), []*ir.Value{first})
		counter := body.Params[2]
		next := Binary(in, loop.Add, counter, by)
		compared, with := counter, n
		if after {
			compared = next
		}
		if float {
			compared, with = Cast(in, compared, dtype.F32), Cast(in, with, dtype.F32)
		}
		if swapped {
			compared, with = with, compared
		}
		body.Results = []*ir.Value{Binary(in, compare, compared, with), next, counter}
		m.Main.Body.Results = Loop(b, body, nil, nil, first)[1:]
		return ir.Verify(m)
	}()
	if err != nil {
		t.Fatal(err)
	}
	out, err := ir.Evaluate(m, []*tensor.Tensor{tensor.Must(tensor.New(dtype.F32, extent))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	name, _ := m.Main.Body.Results[0].Type.Shape[0].Name()
	limit, err := m.Limits[name].Eval(func(sym.Name) (int64, bool) { return extent, true })
	if err != nil || limit != out[0].Shape()[0] {
		t.Errorf("%d iterations are planned (%s, %v), %d were made", limit, m.Limits[name], err, out[0].Shape()[0])
	}
}

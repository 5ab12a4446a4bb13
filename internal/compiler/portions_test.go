package compiler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/compiler/budget"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// TestPortions: whatever shape and layout a table has, and however it is read besides, a program within the smallest
// budget gives the bits that it gives without one, in program's interpreter, which sees each byte that is read before
// it was written.
func TestPortions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	machines := []Options{{Machine: Portable(2)}}
	for _, cpu := range []string{"avx2", "avx512"} {
		if m, err := Machine(cpu, 2, true); err == nil {
			machines = append(machines, Options{Machine: m, Portable: true})
		}
	}
	rows, parts := 0, 0
	for range 40 {
		v, d, n := 1+r.Int64N(400), 1+r.Int64N(90), 1+r.Int64N(5)
		text, width, gathers, bytes := "", d, r.IntN(3), 4-2*r.Int64N(2)
		if gathers == 1 {
			width = v
		}
		head := fmt.Sprintf("weir 1\nir @net {\n  main @main(%%i: i%d[%d]) {\n    const %%w: f32[%d, %d] data %d\n    "+
			"const %%u: f32[%d, 130] data %d\n", 32<<r.IntN(2), n, v, d, bytes*v*d, width, bytes*width*130)
		switch gathers {
		case 0:
			text += fmt.Sprintf("    %%e: f32[%d, %d] = gather(%%w, %%i) {axis = int 0}\n", n, d)
		case 1:
			text += fmt.Sprintf("    %%s: f32[%d, %d] = gather(%%w, %%i) {axis = int 1}\n    %%e: f32[%d, %d] = "+
				"transpose(%%s) {perm = ints [1, 0]}\n", v, n, n, v)
		case 2:
			text += fmt.Sprintf("    %%s: f32[%d, %d] = gather(%%w, %%i) {axis = int 0}\n    %%e: f32[%d, %d] = exp(%%s)\n", n,
				d, n, d)
		}
		switch r.IntN(3) {
		case 0: // no product
			text += "    return %e\n"
		case 1: // with the table turned so that its sums run along what the rows have
			turned, out := "true", v
			if width == v {
				turned, out = "false", d
			}
			text += fmt.Sprintf("    %%m: f32[%d, %d] = matmul(%%e, %%w) {transpose_b = bool %s}\n    %%y: f32[%d, %d] = "+
				"tanh(%%m)\n    return %%y, %%e\n", n, out, turned, n, out)
		case 2: // with another weight
			text += fmt.Sprintf("    %%m: f32[%d, 130] = matmul(%%e, %%u)\n    return %%m\n", n)
		}
		if text = head + text + "  }\n}\n"; bytes == 2 {
			text = strings.ReplaceAll(text, "f32", []string{"f16", "bf16"}[r.IntN(2)])
		}
		weights := map[string]*tensor.Tensor{}
		read := func() *ir.Module {
			m, err := ir.Parse(text, ir.ParseOptions{Data: func(name string, dt dtype.DType, shape []int64,
				_ int64) (*tensor.Tensor, error) {
				if weights[name] == nil {
					x, err := tensor.New(dt, shape...)
					if err != nil {
						return nil, err
					}
					for i := range x.Len() {
						x.SetFloat(i, r.NormFloat64())
					}
					weights[name] = x
				}
				return weights[name], nil
			}})
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			return m
		}
		most := v
		if width == v {
			most = d
		}
		index := tensor.Must(tensor.New(read().Main.Body.Params[0].Type.DType, n))
		for i := range n {
			index.SetInt(i, r.Int64N(2*most)-most)
		}
		o := machines[r.IntN(len(machines))]
		free, err := Compile(read(), o)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		want, err := interpreter(free).Run(free.Program, []*tensor.Tensor{index})
		if err != nil {
			t.Fatalf("%v\n%s", err, free.Program)
		}
		o.Budget = &budget.Budget{Bytes: 1, Calls: 1, Workers: 2}
		_, err = Compile(read(), o)
		if err == nil {
			t.Fatalf("one byte is enough:\n%s", text)
		}
		var refused *diag.Error
		if !errors.As(err, &refused) {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(refused.Fix, "a budget of %d bytes works", &o.Budget.Bytes); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			tight, err := Compile(read(), o)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			for _, s := range tight.Savings {
				if rows += int(min(s.Rows, 1)); s.Pieces > 1 {
					parts++
				}
			}
			got, err := interpreter(tight).Run(tight.Program, []*tensor.Tensor{index})
			if err != nil {
				t.Fatalf("%v\n%s", err, tight.Program)
			}
			for i := range want {
				if err := tensor.Compare(got[i], want[i], 0, 0); err != nil {
					t.Errorf("result %d: %v\n%s%s", i, err, text, tight.Loop)
				}
			}
			o.Budget.Bytes += r.Int64N(1 + 2*v*d)
		}
	}
	if rows < 5 || parts < 5 {
		t.Errorf("%d tables by rows, %d in parts: the nets show little", rows, parts)
	}
}

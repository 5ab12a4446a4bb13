package compiler

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/compiler/budget"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// TestTables shows that a program within the smallest budget gives the same bits as without a budget, for tables of
// random shape and layout that are gathered and multiplied in random ways. Package program's interpreter runs it, and
// refuses reads of bytes that were not written.
func TestTables(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	machines := []Options{{Machine: Portable(2)}}
	for _, cpu := range []string{"avx2", "avx512"} {
		if m, err := Machine(cpu, 2, true); err == nil {
			machines = append(machines, Options{Machine: m, Portable: true})
		}
	}
	rows, pieces := 0, 0
	for range 40 {
		net := newTableNet(r)
		read := func() *ir.Module { return net.read(t, r) }
		index := net.index(read().Main.Body.Params[0].Type.DType, r)
		o := machines[r.IntN(len(machines))]
		free, err := Compile(read(), o)
		if err != nil {
			t.Fatalf("%v\n%s", err, net.source)
		}
		want, err := interpreter(free).Run(free.Program, []*tensor.Tensor{index})
		if err != nil {
			t.Fatalf("%v\n%s", err, free.Program)
		}
		o.Budget = smallestBudget(t, read(), o, net.source)
		for range 2 {
			tight, err := Compile(read(), o)
			if err != nil {
				t.Fatalf("%v\n%s", err, net.source)
			}
			for _, s := range tight.Saved.Savings {
				if rows += int(min(s.Rows, 1)); s.Pieces > 1 {
					pieces++
				}
			}
			got, err := interpreter(tight).Run(tight.Program, []*tensor.Tensor{index})
			if err != nil {
				t.Fatalf("%v\n%s", err, tight.Program)
			}
			for i := range want {
				if err := tensor.Compare(got[i], want[i], 0, 0); err != nil {
					t.Errorf("result %d: %v\n%s%s", i, err, net.source, tight.Loop)
				}
			}
			o.Budget.Bytes += r.Int64N(1 + 2*net.rows*net.columns)
		}
	}
	if rows < 5 || pieces < 5 {
		t.Errorf("only %d tables are paged by rows and %d are computed in pieces", rows, pieces)
	}
}

// smallestBudget returns the budget that the refusal of one byte suggests.
func smallestBudget(t *testing.T, m *ir.Module, o Options, source string) *budget.Budget {
	b := &budget.Budget{Bytes: 1, Calls: 1, Workers: 2}
	o.Budget = b
	c, err := Compile(m, o)
	if err != nil || !c.Saved.Frugal {
		t.Fatalf("one byte is enough, or %v:\n%s", err, source)
	}
	b.Bytes = c.Saved.Bytes
	return b
}

// tableNet is a random net that gathers rows or columns of a table.
type tableNet struct {
	source        string // ir
	rows, columns int64  // of the table
	indices       int64  // the number of gathered rows or columns
	choices       int64  // the number of rows or columns to choose from
	weights       map[string]*tensor.Tensor
}

// newTableNet returns a net of a gather from a table, with or without a function or a product that follows.
func newTableNet(r *rand.Rand) *tableNet {
	v, d, n := 1+r.Int64N(400), 1+r.Int64N(90), 1+r.Int64N(5)
	body, width, gathers, bytes := "", d, r.IntN(3), 4-2*r.Int64N(2)
	if gathers == 1 {
		width = v
	}
	head := fmt.Sprintf("weir 1\nir @net {\n  main @main(%%i: i%d[%d]) {\n    const %%w: f32[%d, %d] data %d\n    "+
		"const %%u: f32[%d, 130] data %d\n", 32<<r.IntN(2), n, v, d, bytes*v*d, width, bytes*width*130)
	switch gathers {
	case 0:
		body += fmt.Sprintf("    %%e: f32[%d, %d] = gather(%%w, %%i) {axis = int 0}\n", n, d)
	case 1:
		body += fmt.Sprintf("    %%s: f32[%d, %d] = gather(%%w, %%i) {axis = int 1}\n    %%e: f32[%d, %d] = "+
			"transpose(%%s) {perm = ints [1, 0]}\n", v, n, n, v)
	case 2:
		body += fmt.Sprintf("    %%s: f32[%d, %d] = gather(%%w, %%i) {axis = int 0}\n    %%e: f32[%d, %d] = exp(%%s)\n", n,
			d, n, d)
	}
	switch r.IntN(3) {
	case 0: // no product
		body += "    return %e\n"
	case 1: // a product with the table, transposed so that the gathered axis is summed
		turned, out := "true", v
		if width == v {
			turned, out = "false", d
		}
		body += fmt.Sprintf("    %%m: f32[%d, %d] = matmul(%%e, %%w) {transpose_b = bool %s}\n    %%y: f32[%d, %d] = "+
			"tanh(%%m)\n    return %%y, %%e\n", n, out, turned, n, out)
	case 2: // a product with another weight
		body += fmt.Sprintf("    %%m: f32[%d, 130] = matmul(%%e, %%u)\n    return %%m\n", n)
	}
	net := &tableNet{source: head + body + "  }\n}\n", rows: v, columns: d, indices: n, choices: v,
		weights: map[string]*tensor.Tensor{}}
	if bytes == 2 {
		net.source = strings.ReplaceAll(net.source, "f32", []string{"f16", "bf16"}[r.IntN(2)])
	}
	if width == v {
		net.choices = d
	}
	return net
}

// read parses the net. Its weights are random, and the same each time.
func (net *tableNet) read(t *testing.T, r *rand.Rand) *ir.Module {
	m, err := ir.Parse(net.source, ir.ParseOptions{Data: func(name string, dt dtype.DType, shape []int64,
		_ int64) (*tensor.Tensor, error) {
		if net.weights[name] == nil {
			x, err := tensor.New(dt, shape...)
			if err != nil {
				return nil, err
			}
			for i := range x.Len() {
				x.SetFloat(i, r.NormFloat64())
			}
			net.weights[name] = x
		}
		return net.weights[name], nil
	}})
	if err != nil {
		t.Fatalf("%v\n%s", err, net.source)
	}
	return m
}

// index returns random indices of the net's gather, negative ones too.
func (net *tableNet) index(dt dtype.DType, r *rand.Rand) *tensor.Tensor {
	index := tensor.Must(tensor.New(dt, net.indices))
	for i := range net.indices {
		index.SetInt(i, r.Int64N(2*net.choices)-net.choices)
	}
	return index
}

package compiler

import (
	"os"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestInterpreted compiles hand-written texts of ir and runs the programs in program's interpreter, which checks every
// byte that kernels read and write: the results equal the results of ir's interpreter, with the kernels as they were
// lowered and as they were scheduled.
func TestInterpreted(t *testing.T) {
	row := func(x ...float32) *tensor.Tensor { return tensor.Must(tensor.FromSlice(x, int64(len(x)))) }
	yes := tensor.Must(tensor.New(dtype.Bool))
	yes.SetInt(0, 1)
	matrix := func(rows, columns int64) *tensor.Tensor {
		m := tensor.Must(tensor.New(dtype.F32, rows, columns))
		for i := range m.Len() {
			m.SetFloat(i, float64(i%7)/8-0.4)
		}
		return m
	}
	for name, inputs := range map[string][]*tensor.Tensor{
		"../../../../testdata/states/training": {matrix(3, 16), matrix(3, 8), matrix(16, 24), matrix(24, 24), matrix(24, 8),
			matrix(16, 24), matrix(24, 24), matrix(24, 8),
			tensor.Scalar(int64(4)), tensor.Scalar(float32(0.5))},
		"regions": {tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)), yes},
		"state":   {row(1, 2, 3), row(4, 5, 6), tensor.Must(tensor.FromSlice([]uint64{9, 3}, 2))},
		"call":    {row(1, 2), row(3, 4, 5, 6, 7)},
		"growing": {tensor.Must(tensor.FromSlice([]int64{3})), row(1, 2), row(3, 4), row(5)},
	} {
		for _, reference := range []bool{false, true} {
			read := func() *ir.Module {
				source, err := os.ReadFile("../ops/testdata/proofs/" + name + ".weir")
				if err != nil {
					t.Fatal(err)
				}
				m, err := ir.Parse(string(source), ir.ParseOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			want, err := ir.Evaluate(read(), inputs, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			c, err := Compile(read(), Options{Reference: reference})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			got, err := interpreter(c).Run(c.Program, inputs)
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, c.Program)
				continue
			}
			for i := range want {
				if err := tensor.Compare(got[i], want[i], 1e-6, 1e-6); err != nil {
					t.Errorf("%s, reference %v, result %d: %v", name, reference, i, err)
				}
			}
		}
	}
}

// interpreter returns an interpreter of program that runs a compiled program's kernels in loop's interpreter.
func interpreter(c *Compiled) *program.Interpreter {
	kernels, results := map[string]*loop.Kernel{}, map[string][]dtype.DType{}
	for _, k := range c.Loop.Kernels {
		kernels[k.Name] = k
	}
	for _, s := range c.Loop.Body { // the texts have host operators outside branches and loops only
		if h, ok := s.(*loop.Host); ok {
			results[h.Op] = nil
			for _, b := range h.Out {
				results[h.Op] = append(results[h.Op], b.DType)
			}
		}
	}
	return &program.Interpreter{
		Kernel: func(name string, operands []program.Operand, dims []int64) error {
			k, values := kernels[name], map[sym.Name]int64{}
			for i, n := range k.Dims {
				values[n] = dims[i]
			}
			var data []loop.Data
			for _, o := range operands {
				data = append(data, loop.Data{DType: o.DType, Bytes: o.Data})
			}
			return loop.Interpret(k, data, values)
		},
		Host: func(op string, attrs map[string]any, in []*tensor.Tensor,
			result func(i int, shape ...int64) (*tensor.Tensor, error)) error {
			f, err := hostop.Lookup(op)
			if err != nil {
				return err
			}
			return f(&hostop.Call{Attrs: attrs, In: in, Types: results[op], Result: result})
		},
	}
}

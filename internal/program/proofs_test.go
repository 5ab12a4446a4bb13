package program

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// testKernels are the kernels that the hand-written programs launch.
var testKernels = map[string]func(o []Operand, dims []int64){
	"scale": func(o []Operand, _ []int64) {
		each(o[2], func(i []int64) { put(o[2], i, get(o[0], i)*get(o[1], nil)) })
	},
	"add":    func(o []Operand, _ []int64) { each(o[2], func(i []int64) { put(o[2], i, get(o[0], i)+get(o[1], i)) }) },
	"double": func(o []Operand, _ []int64) { each(o[1], func(i []int64) { put(o[1], i, 2*get(o[0], i)) }) },
	"gather": func(o []Operand, _ []int64) {
		each(o[2], func(i []int64) { put(o[2], i, get(o[0], []int64{int64(get(o[1], i))})) })
	},
	"wild": func(o []Operand, _ []int64) { o[0].Data[0] ^= 0xff }, // writes a borrowed argument
}

// each visits the indices of an operand's elements in row-major order.
func each(o Operand, f func(i []int64)) { tensor.Each(o.Shape, f) }

// get returns an element of an operand; a nil index is the first.
func get(o Operand, i []int64) float64 {
	return dtype.LoadFloat(o.DType, o.Data, tensor.Offset(o.Strides, i))
}

// put stores an element of an operand; a nil index is the first.
func put(o Operand, i []int64, x float64) {
	dtype.StoreFloat(o.DType, o.Data, tensor.Offset(o.Strides, i), x)
}

// testInterpreter runs testKernels. Its one host operator returns the indices of the elements above the attribute
// least.
var testInterpreter = Interpreter{
	Steps: 1000,
	Kernel: func(name string, o []Operand, dims []int64) error {
		k := testKernels[name]
		if k == nil {
			return fmt.Errorf("no kernel %s", name)
		}
		k(o, dims)
		return nil
	},
	Host: func(op string, attrs map[string]any, in []*tensor.Tensor,
		result func(i int, shape ...int64) (*tensor.Tensor, error)) error {
		var indices []int64
		for i := int64(0); i < in[0].Len(); i++ {
			if in[0].Float(i) > attrs["least"].(float64) {
				indices = append(indices, i)
			}
		}
		if attrs["limit"].(int64) != in[0].Len() || in[1] != nil {
			return fmt.Errorf("%s with %v", op, attrs)
		}
		out, err := result(0, int64(len(indices)))
		for i, at := range indices {
			out.SetInt(int64(i), at)
		}
		return err
	},
}

// row returns a tensor with one axis.
func row(x ...float32) *tensor.Tensor { return tensor.Must(tensor.FromSlice(x, int64(len(x)))) }

// pair returns a tensor of two rows.
func pair(x ...float32) *tensor.Tensor {
	return tensor.Must(tensor.FromSlice(x, 2, int64(len(x)/2)))
}

// proofs gives, for each hand-written program, its inputs and its results, which Go code computes directly.
var proofs = map[string]func() (in, want []*tensor.Tensor){
	"storage": func() (in, want []*tensor.Tensor) {
		x, y := []float32{1, -2, 0.5}, make([]float32, 3)
		for i := range x {
			y[i] = 8 * x[i]
		}
		return []*tensor.Tensor{row(x...)}, []*tensor.Tensor{row(y...)}
	},
	"state": func() (in, want []*tensor.Tensor) {
		return []*tensor.Tensor{row(1, 2), row(10, 20)}, []*tensor.Tensor{row(10, 20), row(11, 22)}
	},
	"strides": func() (in, want []*tensor.Tensor) {
		x := []float32{3, -1, 0, 7, 2}
		var both, above []float32
		for _, v := range x {
			both = append(both, v, v+v)
			if v > 0 {
				above = append(above, v)
			}
		}
		return []*tensor.Tensor{row(x...)}, []*tensor.Tensor{tensor.Must(tensor.FromSlice(both, 5, 2)), row(above...)}
	},
	"devices": func() (in, want []*tensor.Tensor) {
		return []*tensor.Tensor{pair(1, 2, 3, 10, 20, 30)}, []*tensor.Tensor{row(2*1+10, 2*2+20, 2*3+30)}
	},
}

// TestProofs prints, parses, verifies and runs the programs of testdata/proofs, one for each main use of the language,
// and compares the results with the expected ones.
func TestProofs(t *testing.T) {
	files, _ := filepath.Glob("testdata/proofs/*.weir")
	if len(files) != len(proofs) {
		t.Fatalf("%d texts, %d proofs", len(files), len(proofs))
	}
	for _, file := range files {
		name := filepath.Base(file)
		name = name[:len(name)-len(".weir")]
		t.Run(name, func(t *testing.T) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Parse(string(source), ParseOptions{})
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse(p.String(), ParseOptions{})
			if err != nil || !Equal(p, again) {
				t.Fatalf("%v\n%s\nprints as\n%s", err, source, p)
			}
			if err := again.Verify(); err != nil {
				t.Fatal(err)
			}
			in, want := proofs[name]()
			got, err := testInterpreter.Run(again, in)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if err := tensor.Compare(got[i], want[i], 0, 0); err != nil {
					t.Errorf("result %d: %v", i, err)
				}
			}
		})
	}
}

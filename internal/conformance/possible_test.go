package conformance

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// choosing returns an If whose then branch is valid if the input x has 8 elements, and whose else branch is valid if it
// has 4. A comparison or an argument decides.
func choosing(argument bool, size *wire.Dimension) []byte {
	form := func(name string, rows int64) *wire.TensorProto {
		return wire.FromTensor(name, tensor.Must(tensor.FromSlice([]int64{rows, 2}, 2)))
	}
	branch := func(name, shape, weight string) *wire.GraphProto {
		return &wire.GraphProto{Name: name, Output: []*wire.ValueInfoProto{{Name: name + "y"}}, Node: []*wire.NodeProto{
			operation("Reshape", "x,"+shape, name+"r"), operation("MatMul", weight+","+name+"r", name+"y")}}
	}
	g := &wire.GraphProto{Name: "choosing", Input: []*wire.ValueInfoProto{wire.TensorValue("x", wire.FloatType, size)},
		Output: []*wire.ValueInfoProto{{Name: "y"}},
		Initializer: []*wire.TensorProto{form("four", 4), form("two", 2), wire.FromTensor("limit", tensor.Scalar(int64(9))),
			wire.FromTensor("w4", tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4}, 1, 4))),
			wire.FromTensor("w2", tensor.Must(tensor.FromSlice([]float32{5, 6}, 1, 2)))}}
	if argument {
		g.Input = append(g.Input, wire.TensorValue("c", wire.BoolType))
	} else {
		g.Input = append(g.Input, wire.TensorValue("rate", wire.Int64Type))
		g.Node = append(g.Node, operation("Greater", "rate,limit", "c"))
	}
	g.Node = append(g.Node, operation("If", "c", "y", wire.GraphAttribute("then_branch", branch("t", "four", "w4")),
		wire.GraphAttribute("else_branch", branch("e", "two", "w2"))))
	return (&wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 17}}, Graph: g}).Marshal()
}

// TestImpossibleAtSizes: a branch that is invalid at the sizes of a dimension, in the file or by Options.Dims, does not
// stop the other; a run that would take it is refused.
func TestImpossibleAtSizes(t *testing.T) {
	x, err := weir.FromSlice([]float32{1, 1, 1, 1, 1, 1, 1, 2}, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for _, argument := range []bool{false, true} {
		for name, how := range map[string]struct {
			size *wire.Dimension
			o    weir.Options
		}{
			"free":   {size: wire.Dim("n")},
			"bound":  {size: wire.Dim("n"), o: weir.Options{Dims: map[string]weir.Range{"n": {Min: 8, Max: 8}}}},
			"range":  {size: wire.Dim("n"), o: weir.Options{Dims: map[string]weir.Range{"n": {Min: 5, Max: 99}}}},
			"static": {size: wire.Size(8)},
			"reference": {size: wire.Dim("n"), o: weir.Options{Target: weir.Reference,
				Dims: map[string]weir.Range{"n": {Min: 8, Max: 8}}}},
		} {
			m, err := weir.LoadBytes(choosing(argument, how.size))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			p, err := weir.Compile(t.Context(), m, how.o)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, then := range []bool{true, false} {
				in := weir.Inputs{"x": x}
				for _, info := range p.Inputs() {
					var scalar *tensor.Tensor
					switch info.Name {
					case "c":
						scalar = tensor.Scalar(then)
					case "rate":
						scalar = tensor.Scalar(map[bool]int64{true: 16, false: 8}[then])
					default:
						continue
					}
					c, err := values.ToWeir(scalar)
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					in[info.Name] = c
				}
				r, err := p.Run(t.Context(), in)
				if !then {
					if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "(If)") &&
						!strings.Contains(err.Error(), "(if)") && !strings.Contains(err.Error(), "reshape") {
						t.Errorf("%s, argument %v: the branch that is not valid: %v", name, argument, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s, argument %v: %v", name, argument, err)
					continue
				}
				if y, err := weir.Copy[float32](r.Get("y")); err != nil || len(y) != 2 || y[0] != 10 || y[1] != 14 {
					t.Errorf("%s, argument %v: %v %v", name, argument, y, err)
				}
				_ = r.Close()
			}
			_ = p.Close()
			_ = m.Close()
		}
	}
}

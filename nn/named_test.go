package nn_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
)

// namedAxes gives the names of the axes with which a fixture's network is compiled: the first row whose prefix the
// fixture's name has.
var namedAxes = []struct {
	prefix string
	inputs []string // for each input, a name for each axis; a dot keeps the fixture's extent
}{
	{"linear_rank3", []string{"batch steps ."}},
	{"conv1d", []string{"batch . width"}}, {"conv_transpose1d", []string{"batch . width"}},
	{"conv3d", []string{"batch . depth height width"}}, {"conv_transpose3d", []string{"batch . depth height width"}},
	{"conv", []string{"batch . height width"}},
	{"embedding_rank0", []string{""}}, {"embedding_rank3", []string{"batch steps more"}}, {"embedding", []string{"batch"}},
	{"layer_norm_over", []string{"batch . ."}}, {"layer_norm", []string{"batch steps ."}},
	{"rms_norm", []string{"batch steps ."}},
	{"batch_norm_1d", []string{"batch ."}}, {"batch_norm", []string{"batch . height width"}},
	{"group_norm", []string{"batch . height width"}},
	{"instance_norm_scaled", []string{"batch . width"}}, {"instance_norm", []string{"batch . height width"}},
	{"lstm_states", []string{"batch steps .", ". batch .", ". batch ."}},
	{"gru_states", []string{"batch steps .", ". batch ."}},
	{"rnn_relu", []string{"batch steps .", ". batch ."}}, {"lstm", []string{"batch steps ."}},
	{"gru", []string{"batch steps ."}}, {"rnn", []string{"batch steps ."}},
	{"attention_cross", []string{"batch queries .", "batch keys .", "batch keys ."}},
	{"attention_added", []string{"batch queries .", "batch keys .", "batch keys .", "queries keys"}},
	{"attention_mask", []string{"batch steps .", "steps steps"}}, {"attention", []string{"batch steps ."}},
	{"decoder", []string{"batch steps .", "batch keys ."}}, {"encoder", []string{"batch steps ."}},
	{"max_pool3d", []string{"batch . depth height width"}}, {"avg_pool_uncounted", []string{"batch . width"}},
	{"max_pool", []string{"batch . height width"}}, {"avg_pool", []string{"batch . height width"}},
	{"adaptive", []string{"batch . . ."}},
	{"prelu", []string{"batch . width"}},
	{"", []string{"batch ."}},
}

// TestNamed: each layer, compiled once with names for the extents of its batch and of its steps or image, gives
// PyTorch's results and has a certificate.
func TestNamed(t *testing.T) {
	for name, net := range torchNets {
		t.Run(name, func(t *testing.T) {
			s, p := open(t, net)
			f := readFixture(t, name)
			f.load(t, p)
			x := f.arrays(t, s, "x")
			c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
				if torchTraining[name] {
					return nn.Apply(nn.Training(s, p, nil), net, in...)
				}
				return nn.Apply(nn.Inference(s, p), net, in...)
			}, array.Options{Name: name, Inputs: namedSpecs(name, x)})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			out := c.Call(s, x...)
			if err := s.Err(); err != nil {
				t.Fatal(err)
			}
			for i, a := range out {
				want, _, _ := f.floats(fmt.Sprint("y", i))
				near(t, fmt.Sprint("result ", i), elements(t, a), want)
			}
			if c.Memory() == nil {
				t.Error("no certificate")
			}
		})
	}
}

// namedSpecs returns the specs of a fixture's inputs, with the names of namedAxes.
func namedSpecs(name string, x []*array.Array) (specs []array.Spec) {
	for _, row := range namedAxes {
		if !strings.HasPrefix(name, row.prefix) {
			continue
		}
		for i, a := range x {
			spec := array.Spec{DType: a.DType()}
			names := strings.Fields(row.inputs[i])
			for axis, e := range a.Shape() {
				extent := weir.Extent{Size: int64(e)}
				if names[axis] != "." {
					extent = weir.Extent{Size: -1, Dim: names[axis]}
				}
				spec.Shape = append(spec.Shape, extent)
			}
			specs = append(specs, spec)
		}
		return specs
	}
	return nil
}

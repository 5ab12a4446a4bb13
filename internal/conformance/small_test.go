package conformance

import (
	"fmt"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/conformance/conformancetest"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// TestSmallModels runs short models over slices that are empty for some extents, in every configuration, and compares
// the results with the reference's and the memory with the predicted bytes.
func TestSmallModels(t *testing.T) {
	for _, p := range conformancetest.SmallModels {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			for _, slice := range conformancetest.SmallSlices {
				proto := p.Build(slice)
				for _, how := range configurations {
					m := &conformancetest.RandomModel{Model: proto, Inputs: []*tensor.Tensor{p.Input(21)}}
					if _, err := trialOf(m).compare(t.Context(), how); err != nil {
						t.Errorf("slice %v, %s: %v", slice, how.name, err)
					}
				}
				measureSmall(t, &p, proto, fmt.Sprint("slice ", slice))
			}
		})
	}
}

// measureSmall compiles once for each target, and runs with extents around those at which the slices become empty.
func measureSmall(t *testing.T, p *conformancetest.SmallModel, proto *wire.ModelProto, what string) {
	loaded, err := weir.LoadBytes(proto.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	for _, target := range []weir.Target{weir.Best, weir.Portable, weir.Reference} {
		program, err := weir.Compile(t.Context(), loaded, weir.Options{Target: target, Threads: 2})
		if err != nil {
			t.Errorf("%s, %s: %v", what, target, err)
			continue
		}
		for _, n := range []int64{0, 1, 3, 4, 5, 17, 20, 21, 40} {
			x, err := values.ToWeir(p.Input(n))
			if err != nil {
				t.Fatal(err)
			}
			memory, err := MemoryOf(t.Context(), program, weir.Inputs{"x": x})
			if err != nil && p.Name != "added to 17" {
				t.Errorf("%s, %s, n = %d: %v", what, target, n, err)
			} else if memory.Measured != memory.Predicted {
				t.Errorf("%s, %s, n = %d: predicted %d bytes, measured %d", what, target, n, memory.Predicted, memory.Measured)
			}
			x.Close()
		}
		program.Close()
	}
}

// TestConvolvedByItself runs convolutions with one value as picture and as weights.
func TestConvolvedByItself(t *testing.T) {
	for _, shape := range [][]int64{{1, 1, 1, 1}, {3, 3, 1, 1}, {2, 2, 2, 2}, {1, 1, 3}, {4, 4, 1}, {2, 2, 3, 1}} {
		m := conformancetest.ConvolvedByItself(shape...)
		for _, how := range configurations {
			if _, err := trialOf(m).compare(t.Context(), how); err != nil {
				t.Errorf("%v, %s: %v", shape, how.name, err)
			}
		}
	}
}

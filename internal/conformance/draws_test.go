package conformance

import (
	"errors"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// TestOtherDraws: only other numbers of a random operator become a refusal; another type or shape does not, nor does a
// difference in a model without random operators.
func TestOtherDraws(t *testing.T) {
	value := func(x *tensor.Tensor) values.Value { return values.Value{Tensors: []*tensor.Tensor{x}} }
	difference := errors.New("other numbers")
	if err := otherText("node/test_resize_downsample_scales_linear_align_corners", difference); !errors.Is(err,
		diag.ErrUnsupported) {
		t.Errorf("a case that expects other numbers than the text: %v", err)
	}
	if err := otherText("test_resize_upsample_scales_linear_align_corners", difference); err != difference {
		t.Errorf("a case that expects the text's numbers: %v", err)
	}
	for _, c := range []struct {
		name      string
		ops       []string
		got, want *tensor.Tensor
		refused   bool
	}{
		{"drawn", []string{"Add", "Bernoulli"}, tensor.Of[float32](0, 1), tensor.Of[float32](1, 0), true},
		{"computed", []string{"Add"}, tensor.Of[float32](0, 1), tensor.Of[float32](1, 0), false},
		{"type", []string{"Bernoulli"}, tensor.Of(0.0, 1), tensor.Of[float32](1, 0), false},
		{"shape", []string{"Bernoulli"}, tensor.Of[float32](0, 1, 0), tensor.Of[float32](1, 0), false},
	} {
		err := otherDraws(c.ops, value(c.got), value(c.want), difference)
		if refused := errors.Is(err, diag.ErrUnsupported); refused != c.refused || !refused && err != difference {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

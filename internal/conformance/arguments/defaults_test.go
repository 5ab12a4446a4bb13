package arguments

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirml/weir"
)

// TestDefaultsOfInputs: an input with an initializer has its value, and a run that gives another value is refused with
// the input's name.
func TestDefaultsOfInputs(t *testing.T) {
	m, err := weir.Load("testdata/onnx/passthrough/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	x, err := weir.FromSlice([]float32{1, 2, 3}, 3)
	if err != nil {
		t.Fatal(err)
	}
	in := weir.Inputs{"x": x, "unread": x}
	r, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	in["w"] = x
	_, err = p.Run(t.Context(), in)
	if !errors.Is(err, weir.ErrUnsupported) || !strings.Contains(err.Error(), `"w" has a value in the model's file`) {
		t.Errorf("another value for w: %v", err)
	}
	delete(in, "w")
	in["v"] = x
	if _, err = p.Run(t.Context(), in); !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), `no input "v"`) {
		t.Errorf("a name that is none: %v", err)
	}
}

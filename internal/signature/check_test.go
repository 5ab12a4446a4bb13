package signature

import (
	"errors"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/sym"
)

// TestCheck checks edges that do not fit the ports of their program: each is ErrInput.
func TestCheck(t *testing.T) {
	vector := []sym.Expr{sym.Const(3)}
	tensors := []program.Tensor{{DType: dtype.I64, Shape: vector}, {DType: dtype.U8, Shape: vector}, {DType: dtype.Bool},
		{DType: dtype.F32, Shape: vector}, {DType: dtype.I64, Shape: append(vector, sym.Const(8))}}
	ports := []program.Port{{Tensor: 0}, {Tensor: 1}, {Tensor: 2}, {Tensor: 3}, {Tensor: 4}}
	shape := []Extent{{Size: 3}}
	texts := Edge{Info{Name: "t", DType: dtype.String, Shape: shape}, []int{0, 1}}
	rest := Edge{Info{Name: "o", DType: dtype.F32, Kind: sources.OptionalSequence}, []int{2, 3, 4}}
	if err := Check([]Edge{texts, rest}, ports, tensors); err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string][]Edge{
		"a port that is no edge's": {texts},
		"a port twice":             {texts, texts, rest},
		"a port outside":           {{texts.Info, []int{0, 9}}, rest},
		"a port below 0":           {{texts.Info, []int{0, -1}}, rest},
		"too few parts":            {{texts.Info, []int{0}}, rest},
		"parts of other types":     {{texts.Info, []int{1, 0}}, rest},
		"an unknown kind":          {texts, {Info{Name: "o", DType: dtype.F32, Kind: 9}, []int{2, 3, 4}}},
		"another rank":             {{Info{Name: "t", DType: dtype.String}, []int{0, 1}}, rest},
		"extents that are a vector": {{rest.Info, []int{2, 3, 0}}, {Info{Name: "u", DType: dtype.U8, Shape: shape}, []int{1}},
			{Info{Name: "v", DType: dtype.I64, Shape: shape}, []int{4}}},
		"a tensor in place of a vector": {{Info{Name: "v", DType: dtype.I64, Shape: shape}, []int{4}}},
	} {
		if err := Check(bad, ports, tensors); !errors.Is(err, diag.ErrInput) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

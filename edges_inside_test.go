package weir

import (
	"errors"
	"testing"

	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// TestCheckEdges checks edges that do not fit the ports of their program: each is ErrInput.
func TestCheckEdges(t *testing.T) {
	vector := []sym.Expr{sym.Const(3)}
	tensors := []program.Tensor{{DType: I64, Shape: vector}, {DType: U8, Shape: vector}, {DType: Bool},
		{DType: F32, Shape: vector}, {DType: I64, Shape: append(vector, sym.Const(8))}}
	ports := []program.Port{{Tensor: 0}, {Tensor: 1}, {Tensor: 2}, {Tensor: 3}, {Tensor: 4}}
	shape := []Extent{{Size: 3}}
	texts := edge{Info{Name: "t", DType: StringType, Shape: shape}, []int{0, 1}}
	rest := edge{Info{Name: "o", DType: F32, Kind: OptionalSequenceKind}, []int{2, 3, 4}}
	if err := checkEdges([]edge{texts, rest}, ports, tensors); err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string][]edge{
		"a port that is no edge's": {texts},
		"a port twice":             {texts, texts, rest},
		"a port outside":           {{texts.Info, []int{0, 9}}, rest},
		"a port below 0":           {{texts.Info, []int{0, -1}}, rest},
		"too few parts":            {{texts.Info, []int{0}}, rest},
		"parts of other types":     {{texts.Info, []int{1, 0}}, rest},
		"an unknown kind":          {texts, {Info{Name: "o", DType: F32, Kind: 9}, []int{2, 3, 4}}},
		"another rank":             {{Info{Name: "t", DType: StringType}, []int{0, 1}}, rest},
		"extents that are a vector": {{rest.Info, []int{2, 3, 0}}, {Info{Name: "u", DType: U8, Shape: shape}, []int{1}},
			{Info{Name: "v", DType: I64, Shape: shape}, []int{4}}},
		"a tensor in place of a vector": {{Info{Name: "v", DType: I64, Shape: shape}, []int{4}}},
	} {
		if err := checkEdges(bad, ports, tensors); !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

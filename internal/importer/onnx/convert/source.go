package convert

import (
	"fmt"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Oldest and Newest are the operator sets of ai.onnx that are supported, NewestFormat the newest version of the file
// format (ir_version).
const (
	Oldest       = 1
	Newest       = 28
	NewestFormat = 14
)

// Source is a model to be converted.
type Source struct {
	Inputs  []Port
	Outputs []Port
	Meta    map[string]string
	Opsets  map[string]int64 // by domain; ai.onnx is ""
	Proto   *wire.ModelProto

	Functions map[string]*wire.FunctionProto                    // by FunctionKey
	Read      func(t *wire.TensorProto) (*tensor.Tensor, error) // a constant of the file
	Rules     *RuleSet
}

// DomainOf returns the canonical name of a domain: "" for ai.onnx.
func DomainOf(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

// FunctionKey returns the key of a function in Source.Functions.
func FunctionKey(domain, name, overload string) string {
	return DomainOf(domain) + ":" + name + ":" + overload
}

// Nameless has the names that exporters write for an unknown extent: each stands for a dimension of its own.
var Nameless = map[string]bool{"": true, "?": true, "-1": true, "None": true, "none": true, "null": true}

// NoteDims adds the names of a declaration's dimensions to named.
func NoteDims(t *wire.TypeProto, named map[string]bool) {
	for t != nil && t.TensorType == nil {
		switch {
		case t.OptionalType != nil:
			t = t.OptionalType.ElemType
		case t.SequenceType != nil:
			t = t.SequenceType.ElemType
		default:
			return
		}
	}
	if t == nil || t.TensorType.Shape == nil {
		return
	}
	for _, d := range t.TensorType.Shape.Dim {
		if d.Named() {
			named[d.Param] = true
		}
	}
}

// longestDimension is the largest number of bytes of a dimension's name, because formulas and errors repeat it.
const longestDimension = 1 << 14

// typeOf returns a declared tensor type. An axis without a size is a dimension of the declared name, or INPUT.AXIS,
// followed by underscores if the model has a dimension of this name. strict demands a known type.
func typeOf(v *wire.ValueInfoProto, strict bool, named map[string]bool) (ir.Type, error) {
	if v.Type == nil {
		return ir.Type{}, diag.Inputf("no type is declared for %s", v.Name).AtTensor(v.Name)
	}
	if v.Type.TensorType == nil {
		return ir.Type{}, diag.Unsupportedf("%s is no tensor, and no sequence or optional of tensors; maps and sparse "+
			"tensors are not supported", v.Name).AtTensor(v.Name)
	}
	if shape := v.Type.TensorType.Shape; shape != nil {
		for _, d := range shape.Dim {
			if n := len(d.Param); n > longestDimension {
				return ir.Type{}, diag.Inputf("the name of a dimension has %d bytes, and may have %d", n, longestDimension).
					AtTensor(v.Name)
			}
		}
	}
	dt, ok := v.Type.TensorType.ElemType.DType()
	if !ok && v.Type.TensorType.ElemType != wire.UndefinedType {
		return ir.Type{}, v.Type.TensorType.ElemType.NoType("the element type of " + v.Name).AtTensor(v.Name)
	}
	if !ok {
		return ir.Type{}, diag.Inputf("no element type is declared for %s", v.Name).AtTensor(v.Name)
	}
	t := ir.Type{DType: dt}
	if v.Type.TensorType.Shape == nil {
		if strict {
			return t, diag.Unsupportedf("%s is declared without a shape", v.Name).AtTensor(v.Name).
				WithFix("declare its rank; a size may be a name")
		}
		return t, nil
	}
	if len(v.Type.TensorType.Shape.Dim) > tensor.MaxRank {
		return t, diag.Inputf("%s has rank %d, more than %d", v.Name, len(v.Type.TensorType.Shape.Dim), tensor.MaxRank).
			AtTensor(v.Name)
	}
	t.Shape = []sym.Expr{}
	for axis, d := range v.Type.TensorType.Shape.Dim {
		switch {
		case d.Known() && d.Value >= 0:
			t.Shape = append(t.Shape, sym.Const(d.Value))
		case d.Known() && d.Value < -1:
			return t, diag.Inputf("axis %d of %s is declared as %d", axis, v.Name, d.Value).AtTensor(v.Name)
		case d.Named() && !Nameless[strings.TrimSpace(d.Param)]:
			t.Shape = append(t.Shape, sym.Dim(d.Param))
		default:
			name := fmt.Sprintf("%s.%d", v.Name, axis)
			for named[name] {
				name += "_"
			}
			t.Shape = append(t.Shape, sym.Dim(name))
		}
	}
	return t, nil
}

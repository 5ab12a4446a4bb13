package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	importer "github.com/weirml/weir/internal/importer/onnx"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// composed has the tolerances of operators that are written as several operators of ONNX, which round more often.
var composed = map[string]float64{"log1p": 4e-3, "expm1": 4e-3, "normalize": 8e-3, "swish": 8e-3, "scaled_tanh": 4e-3,
	"affine": 4e-3, "attention": 8e-3,
	"reduce_log_sum_exp": 8e-3, "recurrent": 1e-2, "range": 4e-3, "resample": 4e-3,
	// The settings of the following are f32 in ONNX.
	"elu": 4e-3, "celu": 4e-3, "leaky_relu": 4e-3, "hard_sigmoid": 4e-3, "selu": 4e-3, "thresholded_relu": 4e-3,
	"lrn": 4e-3, "shrink": 4e-3}

// refusedRules are the operators of which ONNX cannot express some samples, and why.
var refusedRules = map[string]string{
	"shl": "integers with a sign", "shr": "integers with a sign", "slice_by": "steps of either sign",
	"slice":  "steps backwards to an extent of either sign",
	"matmul": "sums of other types", "convolution": "sums of other types", "convolution_transpose": "padding below 0",
	"max_pool": "padding that depends on extents", "average_pool": "padding that depends on extents", "lp_pool": "padding",
	"max_pool_indices": "padding",
	"recurrent":        "functions and directions that ONNX does not name, and what is kept for a derivative",
	"elu":              "settings of f64", "celu": "settings of f64", "leaky_relu": "settings of f64",
	"hard_sigmoid": "settings of f64", "thresholded_relu": "settings of f64", "shrink": "settings of f64",
	"selu":       "settings of f64",
	"reduce_sum": "axes that the run knows", "reduce_prod": "axes that the run knows",
	"reduce_min": "axes that the run knows",
	"reduce_max": "axes that the run knows", "reduce_mean": "axes that the run knows",
	"lrn": "settings of f64", "normalize": "no axes", "quantize": "types that version 21 does not mix",
	"dequantize": "types that version 21 does not mix",
	"reduce_l1":  "no axes", "reduce_l2": "no axes", "reduce_sum_square": "no axes", "reduce_log_sum": "no axes",
	"reduce_log_sum_exp": "no axes",
}

// TestSamples writes every sample of every operator with a rule, imports it again, and compares the results of the
// imported module with those of the sample.
func TestSamples(t *testing.T) {
	for _, op := range ir.Ops() {
		def, ok := op.(*ops.Def)
		if !ok || def.Samples == nil || rules[def.Op] == nil {
			continue
		}
		t.Run(def.Op, func(t *testing.T) {
			written, wrong := 0, 0
			for i, s := range def.Samples(rand.New(rand.NewSource(1))) {
				for _, symbolic := range []bool{false, true} {
					done, err := roundTrip(def, s, symbolic)
					if done {
						written++
					}
					if err != nil {
						t.Errorf("sample %d, symbolic %v: %v", i, symbolic, err)
						if wrong++; wrong > 3 {
							t.FailNow()
						}
					}
				}
			}
			if written == 0 {
				t.Error("no sample was written")
			}
		})
	}
}

// roundTrip writes and imports a sample; done is false if the sample could not be written.
func roundTrip(def *ops.Def, s ops.Sample, symbolic bool) (done bool, err error) {
	m, args, dims, err := module(def, s, symbolic)
	if err != nil {
		if symbolic {
			return false, nil
		}
		return false, fmt.Errorf("building: %w", err)
	}
	want, err := ir.NewEvaluation(dims).Run(m.Main.Body, args)
	if err != nil {
		return false, fmt.Errorf("meaning: %w", err)
	}
	var file bytes.Buffer
	if err := Write(&file, m, nil); err != nil {
		if errors.Is(err, diag.ErrUnsupported) && refusedRules[def.Op] != "" {
			return false, nil
		}
		return false, fmt.Errorf("writing: %w", err)
	}
	model, err := importer.Parse(file.Bytes())
	if err != nil {
		return false, fmt.Errorf("parsing: %w", err)
	}
	defer model.Close()
	read, _, err := model.Build(nil)
	if err != nil {
		return false, fmt.Errorf("reading: %w", err)
	}
	got, err := ir.Evaluate(read, args, nil)
	if err != nil {
		return false, fmt.Errorf("meaning of what was read: %w", err)
	}
	for i := range got {
		if err := same(def.Op, got[i], want[i]); err != nil {
			return true, fmt.Errorf("result %d: %w\n%v", i, err, read)
		}
	}
	return true, nil
}

// module returns a module of one node for a sample. If symbolic is true, each extent above 1 is a dimension, one for
// each number.
func module(def *ops.Def, s ops.Sample, symbolic bool) (m *ir.Module, args []*tensor.Tensor, dims map[sym.Name]int64,
	err error) {
	defer ir.Catch(&err)
	body := &ir.Block{}
	m = &ir.Module{Name: "main", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
	m.Funcs = []*ir.Func{m.Main}
	b, dims := ir.NewBuilder(ir.NewInference(m), body), map[sym.Name]int64{}
	var inputs []*ir.Value
	for i, in := range s.Inputs {
		switch {
		case in == nil:
			inputs = append(inputs, nil)
			continue
		case slices.Contains(s.Constant, i):
			inputs = append(inputs, b.Constant(fmt.Sprintf("c%d", i), in))
			continue
		}
		shape := ir.Constants(in.Shape())
		for axis, size := range in.Shape() {
			if symbolic && size > 1 {
				name := fmt.Sprintf("d%d", size)
				m.Dims.Set(sym.User(name), sym.Range{Min: 0, Max: 1 << 20})
				dims[sym.User(name)], shape[axis] = size, sym.Dim(name)
			}
		}
		inputs, args = append(inputs, b.Param(fmt.Sprintf("x%d", i), ir.Type{DType: in.DType(), Shape: shape})),
			append(args, in)
	}
	var regions []*ir.Block
	if s.Regions != nil {
		regions = s.Regions(b)
	}
	n := b.NodeWith(def.Op, maps.Clone(s.Attrs), regions, inputs...)
	body.Results = n.Outputs
	if def.Op == "topk" { // the third result is scratch
		body.Results = n.Outputs[:2]
	}
	return m, args, dims, nil
}

// same compares two tensors: equal to the bit, unless composed has a tolerance for the operator.
func same(op string, got, want *tensor.Tensor) error {
	if got.DType() != want.DType() || !slices.Equal(got.Shape(), want.Shape()) {
		return fmt.Errorf("%v, not %v", got, want)
	}
	if got.Equal(want) {
		return nil
	}
	if !got.DType().IsFloat() {
		return fmt.Errorf("%v, not %v", got, want)
	}
	tolerance := composed[op]
	if tolerance > 0 && got.DType().Bits() >= 32 {
		tolerance = 1e-5
	}
	for i := range got.Len() {
		x, y := got.Float(i), want.Float(i)
		if x == y || math.IsNaN(x) && math.IsNaN(y) {
			continue
		}
		if !(math.Abs(x-y) <= tolerance*max(math.Abs(y), 1)) {
			return fmt.Errorf("element %d is %v, not %v", i, x, y)
		}
	}
	return nil
}

// TestUnsupported shows that an error names an operator that ONNX does not have.
func TestUnsupported(t *testing.T) {
	body := &ir.Block{}
	m := &ir.Module{Name: "main", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
	m.Funcs = []*ir.Func{m.Main}
	b := ir.NewBuilder(ir.NewInference(m), body)
	x := b.Param("x", ir.Type{DType: dtype.F32, Shape: ir.Constants([]int64{2})})
	b.Source = "3.noise"
	body.Results = []*ir.Value{ops.Binary(b, ops.Atan2, x, x)}
	err := Write(&bytes.Buffer{}, m, nil)
	if !errors.Is(err, diag.ErrUnsupported) || !strings.Contains(err.Error(), "atan2") ||
		!strings.Contains(err.Error(), "3.noise") {
		t.Error(err)
	}
}

// TestDigits writes an imported model with a symbolic batch, imports it again and compares the results.
func TestDigits(t *testing.T) {
	data, err := os.ReadFile("../../../examples/digits/data/digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	first, err := importer.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	m, _, err := first.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := Write(&file, m, nil); err != nil {
		t.Fatal(err)
	}
	second, err := importer.Parse(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	again, _, err := second.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewSource(1))
	var in []*tensor.Tensor
	for _, v := range m.Main.Body.Params {
		shape := make([]int64, len(v.Type.Shape))
		for i, e := range v.Type.Shape {
			shape[i] = 2
			if n, ok := e.Const(); ok {
				shape[i] = n
			}
		}
		x := tensor.Must(tensor.New(v.Type.DType, shape...))
		for i := range x.Len() {
			x.SetFloat(i, r.Float64())
		}
		in = append(in, x)
	}
	want, err := ir.Evaluate(m, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ir.Evaluate(again, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) || !got[0].Equal(want[0]) {
		t.Errorf("%v, not %v", got, want)
	}
}

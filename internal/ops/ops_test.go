package ops

import (
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/schedule/recipes"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// TestSamples derives tests from every operator's samples: it compares the shape rule, the expansion, every lowering,
// the view and the host function with the reference, each with the inputs' extents as numbers, and again as named
// dimensions.
func TestSamples(t *testing.T) {
	for _, op := range ir.Ops() {
		def, ok := op.(*Def)
		if !ok || def.Samples == nil {
			continue
		}
		t.Run(def.Op, func(t *testing.T) {
			r := rand.New(rand.NewSource(1))
			count := 0
			for i, s := range def.Samples(r) {
				for _, symbolic := range []bool{false, true} {
					if err := checkSample(def, s, symbolic); err != nil {
						t.Errorf("sample %d (%s), symbolic %v: %v", i, s, symbolic, err)
						if count++; count > 8 {
							t.FailNow()
						}
					}
				}
			}
			for _, name := range recipes.Names(def.Op) {
				if recipesUsed[def.Op+", "+name] == 0 {
					t.Errorf("no sample is computed by the recipe %s", name)
				}
			}
		})
	}
}

// TestWays shows that each operator can be computed in some way.
func TestWays(t *testing.T) {
	structures := []string{"if", "loop", "scan", ir.PlaceOp} // package lower turns these into steps
	for _, op := range ir.Ops() {
		def := op.(*Def)
		if len(def.Lowerings) == 0 && def.Expand == nil && def.Host == "" && def.View == nil &&
			!slices.Contains(structures, def.Op) {
			t.Errorf("%s has no view, no lowering, no expansion and no host function", def.Op)
		}
	}
}

// String lists the types of the sample's inputs and its attributes.
func (s Sample) String() string {
	var parts []string
	for _, in := range s.Inputs {
		if in == nil {
			parts = append(parts, "_")
		} else {
			parts = append(parts, fmt.Sprintf("%s%v", in.DType(), in.Shape()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Attrs)) {
		parts = append(parts, fmt.Sprintf("%s=%v", name, s.Attrs[name]))
	}
	return strings.Join(parts, " ")
}

// sampled is a sample built as a module of one node.
type sampled struct {
	module *ir.Module
	build  *ir.Builder
	params []*ir.Value
	args   []*tensor.Tensor // of the parameters
	inputs []*ir.Value      // of the node
	dims   map[sym.Name]int64
}

// newSampled makes the sample's inputs. With symbolic, each extent above 1 is a dimension; equal extents are one
// dimension.
func newSampled(s Sample, symbolic bool) *sampled {
	body := &ir.Block{}
	m := &ir.Module{Name: "main", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
	m.Funcs = []*ir.Func{m.Main}
	x := &sampled{module: m, build: ir.NewBuilder(ir.NewInference(m), body), dims: map[sym.Name]int64{}}
	for i, in := range s.Inputs {
		switch {
		case in == nil:
			x.inputs = append(x.inputs, nil)
			continue
		case slices.Contains(s.Constant, i):
			x.inputs = append(x.inputs, x.build.Constant(fmt.Sprintf("c%d", i), in))
			continue
		}
		shape := ir.Constants(in.Shape())
		if symbolic {
			for axis, size := range in.Shape() {
				if size > 1 {
					name := fmt.Sprintf("d%d", size)
					x.module.Dims.Set(sym.User(name), sym.Range{Min: 0, Max: 1 << 20})
					x.dims[sym.User(name)] = size
					shape[axis] = sym.Dim(name)
				}
			}
		}
		v := x.build.Param(fmt.Sprintf("x%d", i), ir.Type{DType: in.DType(), Shape: shape})
		x.inputs, x.params, x.args = append(x.inputs, v), append(x.params, v), append(x.args, in)
	}
	return x
}

// node adds the sample's node to the module.
func (x *sampled) node(def *Def, s Sample) (n *ir.Node, err error) {
	defer ir.Catch(&err)
	var regions []*ir.Block
	if s.Regions != nil {
		regions = s.Regions(x.build)
	}
	return x.build.NodeWith(def.Op, maps.Clone(s.Attrs), regions, x.inputs...), nil
}

// checkSample compares each way to compute a sample with the reference; it accepts that symbolic extents are not
// supported.
func checkSample(def *Def, s Sample, symbolic bool) error {
	x := newSampled(s, symbolic)
	n, err := x.node(def, s)
	if err != nil {
		if symbolic && errors.Is(err, diag.ErrUnsupported) {
			return nil
		}
		return fmt.Errorf("Infer: %w", err)
	}
	x.module.Main.Body.Results = n.Outputs
	e := ir.NewEvaluation(maps.Clone(x.dims))
	want, err := e.Run(x.module.Main.Body, x.args)
	if err != nil {
		return fmt.Errorf("Eval: %w", err)
	}
	if err := checkInference(x, n, e, want); err != nil {
		return fmt.Errorf("Infer against Eval: %w", err)
	}
	if err := ir.Verify(x.module); err != nil {
		return err
	}
	if def.View != nil {
		if view := def.View(n, x.module.Dims); view != nil {
			if err := checkView(e, view, s.Inputs[view.Of], want[0]); err != nil {
				return fmt.Errorf("View: %w", err)
			}
		}
	}
	for _, low := range def.Lowerings {
		if low.When == nil || low.When(n, x.module.Dims) {
			if err := checkLowering(x, n, low, e, s.Inputs, want); err != nil {
				return fmt.Errorf("lowering %s: %w", low.Name, err)
			}
		}
	}
	if def.Expand != nil {
		if err := checkExpansion(def, s, symbolic, want); err != nil {
			return fmt.Errorf("Expand: %w", err)
		}
	}
	if def.Host != "" {
		return checkHost(def, n, e, s.Inputs, want)
	}
	return nil
}

// checkInference compares the shape rule's types, known elements, conditions and limits with the results.
func checkInference(x *sampled, n *ir.Node, e *ir.Evaluation, out []*tensor.Tensor) error {
	for _, r := range x.module.Requires {
		ok, err := r.Cond.Eval(func(name sym.Name) (int64, bool) { v, ok := e.Dims[name]; return v, ok })
		if err != nil || !ok {
			return fmt.Errorf("a condition that does not hold: %s (%v)", r.Cond, err)
		}
	}
	if len(n.Outputs) != len(out) {
		return fmt.Errorf("%d outputs, not %d", len(n.Outputs), len(out))
	}
	for name, limit := range x.module.Limits {
		most, err := e.Int(limit)
		if err != nil {
			return err
		}
		if v, bound := e.Dims[name]; bound && v > most {
			return fmt.Errorf("%s is %d, more than its limit %s = %d", name, v, limit, most)
		}
	}
	for i, v := range n.Outputs {
		shape, err := e.Ints(v.Type.Shape)
		if err != nil {
			return err
		}
		if out[i].DType() != v.Type.DType || !slices.Equal(out[i].Shape(), shape) {
			return fmt.Errorf("output %d is %s%v, not %s%v (%s)", i, v.Type.DType, shape, out[i].DType(), out[i].Shape(), v.Type)
		}
		if v.Known == nil {
			continue
		}
		known, err := e.Ints(v.Known)
		if err != nil {
			return err
		}
		if int64(len(known)) != out[i].Len() {
			return fmt.Errorf("output %d: %d elements are known of %d", i, len(known), out[i].Len())
		}
		for j, k := range known {
			if k != out[i].Int(int64(j)) {
				return fmt.Errorf("output %d: element %d is known as %d and is %d", i, j, k, out[i].Int(int64(j)))
			}
		}
	}
	return nil
}

// checkView compares the elements of a view with the results.
func checkView(e *ir.Evaluation, v *View, of, want *tensor.Tensor) error {
	if v.Strides != nil && len(v.Strides) != want.Rank() {
		return fmt.Errorf("%d strides for rank %d", len(v.Strides), want.Rank())
	}
	offset, err := e.Int(v.Offset)
	if err != nil {
		return err
	}
	strides, err := e.Ints(v.Strides)
	if err != nil {
		return err
	}
	if v.Strides == nil {
		strides = tensor.Strides(want.Shape())
	}
	got := tensor.Must(tensor.New(want.DType(), want.Shape()...))
	flat := int64(0)
	tensor.Each(want.Shape(), func(at []int64) {
		from := offset + tensor.Offset(strides, at)
		if from < 0 || from >= of.Len() {
			err = fmt.Errorf("element %v lies at %d of %d", at, from, of.Len())
			return
		}
		moveElement(got, flat, of, from)
		flat++
	})
	if err != nil {
		return err
	}
	return compareSample(got, want, 0)
}

// checkLowering interprets the kernel that a lowering builds, and those that recipes make of it, and compares their
// results.
func checkLowering(x *sampled, n *ir.Node, low Lowering, e *ir.Evaluation, in, want []*tensor.Tensor) error {
	k := &Nest{Builder: loop.NewBuilder(n.Op.Name()), D: x.module.Dims}
	var operands []loop.Data
	for i, v := range n.Inputs {
		if v == nil {
			k.In = append(k.In, nil)
			continue
		}
		if i == 0 && low.Onto {
			k.In = append(k.In, nil)
			continue
		}
		k.In = append(k.In, k.Param(fmt.Sprintf("x%d", i), loop.Read, v.Type.DType, v.Type.Shape))
		operands = append(operands, loop.Data{DType: in[i].DType(), Bytes: in[i].Bytes()})
	}
	got := make([]*tensor.Tensor, len(want))
	for i, v := range n.Outputs {
		access := loop.Write
		got[i] = tensor.Must(tensor.New(want[i].DType(), want[i].Shape()...))
		if low.Onto {
			access, got[i] = loop.Update, in[0].Clone()
		}
		k.Out = append(k.Out, k.Param(fmt.Sprintf("y%d", i), access, v.Type.DType, v.Type.Shape))
		operands = append(operands, loop.Data{DType: got[i].DType(), Bytes: got[i].Bytes()})
	}
	low.Lower(k, n)
	kernel := k.Finish()
	check := func(kernel *loop.Kernel) error {
		if _, err := loop.Verify(kernel, x.module.Dims); err != nil {
			return fmt.Errorf("%w\n%s", err, kernel)
		}
		if err := loop.Interpret(kernel, operands, e.Dims); err != nil {
			return fmt.Errorf("%w\n%s", err, kernel)
		}
		for i := range want {
			if err := compareSample(got[i], want[i], low.Error); err != nil {
				return fmt.Errorf("output %d: %w\n%s", i, err, kernel)
			}
		}
		return nil
	}
	if err := check(kernel); err != nil {
		return err
	}
	for name, other := range recipes.Each(kernel, x.module.Dims, target.Portable(1)) {
		for i, t := range got { // so that no result is left of the kernel before
			clear(t.Bytes())
			if low.Onto {
				copy(got[i].Bytes(), in[0].Bytes())
			}
		}
		if err := check(other); err != nil {
			return fmt.Errorf("recipe %s: %w", name, err)
		}
		recipesUsed[n.Op.Name()+", "+name]++
	}
	return nil
}

// recipesUsed counts the kernels of each recipe that were compared, by operator and recipe.
var recipesUsed = map[string]int{}

// checkExpansion evaluates the expansion, unless it declines, and compares its results.
func checkExpansion(def *Def, s Sample, symbolic bool, want []*tensor.Tensor) (err error) {
	x := newSampled(s, symbolic)
	n, err := x.node(def, s)
	if err != nil {
		return err
	}
	body := x.module.Main.Body
	body.Nodes = nil
	results := func() (out []*ir.Value) {
		defer ir.Catch(&err)
		return def.Expand(x.build, n)
	}()
	if err != nil || results == nil {
		return err
	}
	body.Results = results
	if err := ir.Verify(x.module); err != nil {
		return err
	}
	got, err := ir.NewEvaluation(maps.Clone(x.dims)).Run(body, x.args)
	if err != nil {
		return err
	}
	for i := range want {
		if err := compareSample(got[i], want[i], 0); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}

// checkHost calls the host function and compares its results.
func checkHost(def *Def, n *ir.Node, e *ir.Evaluation, in, want []*tensor.Tensor) error {
	attrs := map[string]any{}
	for name, v := range n.Attrs {
		var err error
		switch v := v.(type) {
		case sym.Expr:
			attrs[name], err = e.Int(v)
		case []sym.Expr:
			attrs[name], err = e.Ints(v)
		default:
			attrs[name] = v
		}
		if err != nil {
			return err
		}
	}
	types := make([]dtype.DType, len(want))
	for i, v := range want {
		types[i] = v.DType()
	}
	got, err := hostop.Apply(def.Host, attrs, in, types)
	if err != nil {
		return fmt.Errorf("host function: %w", err)
	}
	for i := range want {
		if err := compareSample(got[i], want[i], 0); err != nil {
			return fmt.Errorf("host function, output %d: %w", i, err)
		}
	}
	return nil
}

// closeness is the tolerance for results of a type: the reference computes in f64 and rounds once.
var closeness = map[dtype.DType]float64{dtype.F64: 1e-10, dtype.F32: 2e-5, dtype.F16: 2e-3, dtype.BF16: 1.6e-2,
	dtype.C64: 1e-5, dtype.C128: 1e-10}

func compareSample(got, want *tensor.Tensor, bound float64) error {
	near := max(bound, closeness[want.DType()])
	return tensor.Compare(got, want, near, near)
}

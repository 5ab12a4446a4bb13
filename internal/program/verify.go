package program

import (
	"fmt"
	"maps"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Condition is a condition that memory safety rests on. If Proved is true, it holds for every binding of the
// dimensions; else the run checks it, at entry if it is about the inputs' dimensions (see Require).
type Condition struct {
	Cond   sym.Cond
	From   string
	Proved bool
}

// Verify is Check, and returns an error too if a condition fails at a sample binding.
func (p *Program) Verify() error {
	_, err := p.check(true)
	return err
}

// Check verifies a program and returns the conditions on dimensions that its safety rests on. It checks that steps name
// declared things; that a tensor is used only between its carve and its release, on every path, and not read after
// another tensor was written over it; that carves lie within their storage and are disjoint; that extents are not
// negative; that a data dimension has its value before it is used; that constants and borrowed arguments are not
// written; that a launch's operands are on its device. A condition that no binding meets is an error, and so are carves
// that overlap at a sample binding.
func (p *Program) Check() ([]Condition, error) { return p.check(false) }

// check is Check; strict makes a condition that fails at a sample binding an error.
func (p *Program) check(strict bool) ([]Condition, error) {
	v := &verifier{p: p, strict: strict, dims: sym.NewDims(), lets: map[sym.Name]bool{}, data: map[sym.Name]int{},
		ports: map[int]*Port{}, paged: map[int]bool{}, given: map[int]string{}, newValues: map[int]int{},
		late: p.lateness(), state: state{live: map[int]bool{}, lost: map[int]bool{}, bound: map[sym.Name]bool{},
			taken: map[int]bool{}}}
	v.dims.Grant(len(p.Tensors) + len(p.Steps))
	if err := v.header(); err != nil {
		return nil, err
	}
	for i := range p.Tensors {
		if err := v.tensor(i); err != nil {
			return nil, err
		}
	}
	if err := v.holders(); err != nil {
		return nil, err
	}
	if err := v.steps(p.Steps); err != nil {
		return nil, err
	}
	if err := v.gives(); err != nil {
		return nil, err
	}
	if err := v.ending(); err != nil {
		return nil, err
	}
	return v.conditions, v.samples()
}

type verifier struct {
	p          *Program
	dims       *sym.Dims
	lets       map[sym.Name]bool
	data       map[sym.Name]int // indices of dimensions that data decide
	ports      map[int]*Port    // by argument's tensor
	conditions []Condition
	strict     bool           // a condition that fails at a sample is an error
	visits     int            // of steps
	paged      map[int]bool   // constants that are left in a file
	given      map[int]string // devices of weights and states, by tensor
	newValues  map[int]int    // a state's old value by its new one
	late       lateness
	state
}

// state is the verifier's knowledge between two steps.
type state struct {
	live  map[int]bool // carved tensors that were not released
	lost  map[int]bool // live tensors and states that were overwritten
	bound map[sym.Name]bool
	over  map[int][]int // tensors that a live tensor may overlap
	taken map[int]bool  // late storages whose size fits the dimensions
}

// clone returns a copy that shares no map.
func (s state) clone() state {
	return state{maps.Clone(s.live), maps.Clone(s.lost), maps.Clone(s.bound), maps.Clone(s.over), maps.Clone(s.taken)}
}

// header checks dimensions, plans and storages.
func (v *verifier) header() error {
	v.over = map[int][]int{}
	for i, d := range v.p.Dims {
		if _, twice := v.dims.Get(d.Name); twice || d.Range.Min > d.Range.Max || !d.Name.Dimension() {
			return diag.Inputf("it is declared twice, or as %s, or has a name that no dimension has", d.Range).
				AtDim(d.Name.Text())
		}
		v.dims.Set(d.Name, d.Range)
		if d.Data {
			v.data[d.Name] = i
		}
	}
	for _, d := range v.p.Dims {
		if d.Data {
			for _, name := range d.Limit.Vars() {
				if i, decided := v.data[name]; decided && !v.p.Dims[i].Late() {
					return diag.Inputf("the limit %s depends on a dimension that data decide", d.Limit).AtDim(d.Name.Text())
				}
			}
			if err := v.named("a limit", false, d.Limit); err != nil {
				return err
			}
			if _, most := v.dims.Bounds(d.Limit); most >= d.Range.Min && most < d.Range.Max {
				v.dims.Set(d.Name, sym.Range{Min: d.Range.Min, Max: most}) // a run refuses values above the limit
			}
		}
	}
	for _, r := range v.p.Requires {
		if err := v.named("a condition", false, r.Cond.A, r.Cond.B); err != nil {
			return err
		}
		if v.dims.Prove(r.Cond) == sym.No {
			return diag.Inputf("%s can never hold", r.Cond).From(r.From)
		}
	}
	if len(v.p.Plans) == 0 {
		return diag.Inputf("a program has at least one plan")
	}
	for i, plan := range v.p.Plans {
		if len(plan.Lets) != len(v.p.Plans[0].Lets) {
			return diag.Inputf("plans define the same names; plan %d has %d, the first %d", i, len(plan.Lets),
				len(v.p.Plans[0].Lets))
		}
		for _, c := range plan.When {
			if err := v.named("a plan's condition", false, c.A, c.B); err != nil {
				return err
			}
		}
		first := v.lets
		v.lets = map[sym.Name]bool{}
		for _, l := range plan.Lets {
			if i > 0 && !first[l.Name] || v.lets[l.Name] || !l.Name.Planned() {
				return diag.Inputf("plan %d defines %s, which another does not, or twice, or which is no name of a plan", i, l.Name)
			}
			if err := v.named("the value of "+l.Name.String(), true, l.X); err != nil {
				return err
			}
			if err := v.early("the value of "+l.Name.String(), l.X); err != nil {
				return err
			}
			v.lets[l.Name] = true
		}
	}
	if err := v.storages(); err != nil {
		return err
	}
	for _, s := range v.p.Streams {
		if s.Name == "" {
			return diag.Inputf("a stream without a name")
		}
	}
	return nil
}

// named returns an error, which begins with what, if an expression has a name other than a dimension or, if lets is
// true, a plan's name.
func (v *verifier) named(what string, lets bool, list ...sym.Expr) error {
	for _, e := range list {
		for _, name := range e.Vars() {
			if _, ok := v.dims.Get(name); !ok && !(lets && v.lets[name]) {
				return diag.Inputf("%s names %s, which is not declared", what, name).AtDim(name.Text())
			}
		}
	}
	return nil
}

// holds adds a condition to v.conditions; it returns an error if the condition can never hold. Samples test the
// conditions that are not proved.
func (v *verifier) holds(c sym.Cond, from string) error {
	truth := v.dims.Prove(c)
	if truth == sym.No {
		return diag.Inputf("%s: %s can never hold", from, c)
	}
	if _, constant := c.B.Sub(c.A).Const(); !constant {
		v.conditions = append(v.conditions, Condition{c, from, truth == sym.Yes})
	}
	return nil
}

// tensor checks one tensor's declaration.
func (v *verifier) tensor(i int) error {
	t := &v.p.Tensors[i]
	fault := func(format string, args ...any) error { return diag.Inputf(format, args...).AtTensor(t.Name) }
	if t.DType == dtype.Invalid || t.DType >= dtype.String || len(t.Shape) > tensor.MaxRank {
		return fault("%s of rank %d cannot lie in memory", t.DType, len(t.Shape))
	}
	if t.Strides != nil && len(t.Strides) != len(t.Shape) {
		return fault("%d strides for %d axes", len(t.Strides), len(t.Shape))
	}
	if err := v.named("tensor "+t.Name, false, append(append([]sym.Expr{}, t.Shape...), t.Strides...)...); err != nil {
		return err
	}
	for _, list := range [][]sym.Expr{t.Shape, t.Strides} {
		for axis, e := range list {
			if err := v.holds(sym.Cond{A: sym.Const(0), B: e}, fmt.Sprintf("axis %d of %s is not negative", axis,
				t.Name)); err != nil {
				return err
			}
		}
	}
	if t.Reserved && (t.Class != Carved || t.DType != dtype.U8 || len(t.Shape) != 1) {
		return fault("it is reserved, and is no carve of bytes")
	}
	var room sym.Expr
	switch t.Class {
	case Carved:
		if t.Of < 0 || t.Of >= len(v.p.Storages) {
			return fault("it is carved from storage %d of %d", t.Of, len(v.p.Storages))
		}
		room = v.p.Storages[t.Of].Size
	case View:
		if t.Of < 0 || t.Of >= i {
			return fault("it is part of tensor %d, which does not come before it", t.Of)
		}
		room = v.p.Tensors[t.Of].Bytes()
	default:
		return nil
	}
	if err := v.named("the offset of "+t.Name, true, t.Offset); err != nil {
		return err
	}
	if err := v.holds(sym.Cond{A: sym.Const(0), B: t.Offset}, t.Name+" begins within what it lies in"); err != nil {
		return err
	}
	if _, most := v.dims.Bounds(t.Bytes()); most <= 0 {
		return nil // it has no bytes to lie anywhere
	}
	return v.holds(sym.Cond{A: t.Offset.Add(t.Bytes()), B: room}, t.Name+" ends within what it lies in")
}

// holders checks that each argument belongs to a port and each constant to a weight.
func (v *verifier) holders() error {
	for i := range v.p.Inputs {
		port := &v.p.Inputs[i]
		if err := v.argument(port); err != nil || port.Ownership > State {
			return diag.Inputf("input %q is neither a borrowed argument nor a state (%v)", port.Name, err)
		}
		if v.given[port.Tensor] = port.Device; port.Device != "" && port.Ownership != State {
			return diag.Inputf("input %q lies in a device's memory, and is no state", port.Name)
		}
		for _, d := range port.Elements {
			if d < 0 || d >= len(v.p.Dims) || v.p.Dims[d].Data || v.p.Tensors[port.Tensor].DType.IsFloat() {
				return diag.Inputf("the elements of input %q give no dimension %d", port.Name, d)
			}
		}
		if port.Ownership == State {
			if err := v.stated(port); err != nil {
				return err
			}
		}
	}
	for i := range v.p.Outputs {
		port := &v.p.Outputs[i]
		if port.Ownership != Borrow || port.Device != "" || port.Tensor < 0 || port.Tensor >= len(v.p.Tensors) {
			return diag.Inputf("output %q does not name a tensor, or is a state", port.Name)
		}
	}
	weights := map[int]bool{}
	for _, w := range v.p.Weights {
		if w.Tensor < 0 || w.Tensor >= len(v.p.Tensors) || v.p.Tensors[w.Tensor].Class != Constant || weights[w.Tensor] {
			return diag.Inputf("weight %q has no constant of its own", w.Name)
		}
		weights[w.Tensor], v.paged[w.Tensor], v.given[w.Tensor] = true, w.Paged, w.Device
		if w.Paged && w.Device != "" {
			return diag.Inputf("weight %q is left in a file, and lies in a device's memory", w.Name)
		}
		if size, ok := v.p.Tensors[w.Tensor].Bytes().Const(); !ok || size != int64(len(w.Data)) {
			return diag.Inputf("weight %q has %d bytes of %s", w.Name, len(w.Data), v.p.Tensors[w.Tensor].Bytes())
		}
	}
	for i, t := range v.p.Tensors {
		if t.Class == Argument && v.ports[i] == nil || t.Class == Constant && !weights[i] || t.Class > View {
			return diag.Inputf("no input and no weight has its bytes").AtTensor(t.Name)
		}
	}
	return nil
}

// argument checks that a port has an argument that no other port has.
func (v *verifier) argument(port *Port) error {
	if port.Tensor < 0 || port.Tensor >= len(v.p.Tensors) || v.p.Tensors[port.Tensor].Class != Argument ||
		v.ports[port.Tensor] != nil {
		return diag.Inputf("%q has no argument of its own", port.Name)
	}
	v.ports[port.Tensor] = port
	return nil
}

// ending checks the state after the last step: outputs are readable and outlive the run, and all other carves are
// released.
func (v *verifier) ending() error {
	for _, port := range v.p.Outputs {
		if err := v.use(port.Tensor, false); err != nil {
			return fmt.Errorf("output %q: %w", port.Name, err)
		}
		if _, state := v.newValues[port.Tensor]; !state {
			if err := v.lieOn("", port.Tensor); err != nil {
				return fmt.Errorf("output %q: %w", port.Name, err)
			}
		}
		root := v.p.Root(port.Tensor)
		t := &v.p.Tensors[root]
		if from := v.ports[root]; from != nil && from.Ownership == Borrow || t.Class == Constant {
			return diag.Inputf("output %q is %s, which the program does not own", port.Name, t.Name)
		}
		if t.Class == Carved && v.p.Storages[t.Of].Kind != Results {
			return diag.Inputf("output %q is in %s, which does not outlive the run", port.Name, v.p.Storages[t.Of].Name)
		}
		delete(v.live, root)
	}
	for i := range v.p.Tensors {
		if v.live[i] {
			return diag.Inputf("it is never released").AtTensor(v.p.Tensors[i].Name)
		}
	}
	return nil
}

package program

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// use checks that a tensor may be read, or written, now.
func (v *verifier) use(t int, write bool) error {
	if t < 0 || t >= len(v.p.Tensors) {
		return diag.Inputf("there is no tensor %d", t)
	}
	at := &v.p.Tensors[t]
	for i := t; ; i = v.p.Tensors[i].Of {
		x := &v.p.Tensors[i]
		needed := append([]sym.Expr{x.Offset}, x.Strides...)
		if !write || i != t {
			// a written tensor's shape may be bound later: until then its dimensions are at their limits
			needed = append(needed, x.Shape...)
		}
		for _, e := range needed {
			if err := v.known(e); err != nil {
				return err.(*diag.Error).AtTensor(x.Name)
			}
		}
		if x.Class != View {
			break
		}
	}
	root := v.p.Root(t)
	if x := &v.p.Tensors[root]; x.Class == Carved && v.p.Storages[x.Of].Late && !v.taken[x.Of] {
		return diag.Inputf("it lies in %s, which is not taken, or not since a dimension changed", v.p.Storages[x.Of].Name).
			AtTensor(at.Name)
	}
	home := v.p.home(v.newValues, t)
	switch class, port := v.p.Tensors[root].Class, v.ports[root]; {
	case class == Carved && !v.live[root]:
		return diag.Inputf("it is used while it is not carved, or after its release").AtTensor(at.Name)
	case !write && v.lost[home]:
		return diag.Inputf("it is read after another tensor was written over it").AtTensor(at.Name)
	case write && (class == Constant || port != nil && port.Ownership == Borrow):
		return diag.Inputf("a constant or a borrowed argument is written").AtTensor(at.Name)
	case write && home == root && port != nil && port.Ownership == State:
		return diag.Inputf("a state is written, and not by the output that replaces it").AtTensor(at.Name)
	}
	return nil
}

// known checks that the dimensions of an expression have their values.
func (v *verifier) known(e sym.Expr) error {
	for _, name := range e.Vars() {
		if _, decided := v.data[name]; decided && !v.bound[name] {
			return diag.Inputf("it has no value yet").AtDim(name.Text())
		}
	}
	return nil
}

// reads checks that tensors may be read; −1 stands for none.
func (v *verifier) reads(tensors ...int) error {
	for _, t := range tensors {
		if t != -1 {
			if err := v.use(t, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// writes checks that tensors may be written, after the reads of the same step, and marks the tensors that they overlap
// as lost.
func (v *verifier) writes(tensors ...int) error {
	for _, t := range tensors {
		if err := v.use(t, true); err != nil {
			return err
		}
	}
	for _, t := range tensors {
		root := v.p.home(v.newValues, t)
		delete(v.lost, root)
		if old, is := v.newValues[root]; is {
			v.lost[old] = true
		}
		for _, x := range v.over[root] {
			if v.live[x] {
				v.lost[x] = true
			}
		}
	}
	return nil
}

// mostVisits limits the visits of step lists: a loop's body is visited twice, so nesting doubles the work.
const mostVisits = 1 << 20

// steps checks a list of steps in order.
func (v *verifier) steps(steps []Step) error {
	if v.visits++; v.visits > mostVisits {
		return diag.Inputf("loops are nested too deep")
	}
	for _, step := range steps {
		if err := v.step(step); err != nil {
			return err
		}
	}
	return nil
}

// step checks one step and updates the state; an error names the step's node.
func (v *verifier) step(step Step) error {
	switch s := step.(type) {
	case *Carve:
		return v.carve(s)
	case *Release:
		return v.release(s)
	case *Take:
		return v.take(s)
	case *Launch:
		return at(v.launch(s), s.Source)
	case *Host:
		return at(v.host(s), s.Source)
	case *Bind:
		return at(v.bind(s), s.Source)
	case *If:
		return at(v.branch(s), s.Source)
	case *Loop:
		return at(v.loop(s), s.Source)
	case *Copy:
		return v.copy(s)
	case *Record:
		return v.event(s.Event, s.Stream)
	case *Wait:
		return v.event(s.Event, s.Stream)
	}
	return diag.Inputf("a step of an unknown kind, %T", step)
}

// at adds the model's node to an error that does not name one.
func at(err error, source string) error {
	if e, ok := err.(*diag.Error); ok && e.Node == "" {
		return e.AtNode(source, e.Op)
	}
	return err
}

// carve checks that the tensor is not live and that the tensors it may overlap are live in its storage.
func (v *verifier) carve(s *Carve) error {
	if s.Tensor < 0 || s.Tensor >= len(v.p.Tensors) || v.p.Tensors[s.Tensor].Class != Carved {
		return diag.Inputf("there is no carved tensor %d", s.Tensor)
	}
	t := &v.p.Tensors[s.Tensor]
	if v.live[s.Tensor] {
		return diag.Inputf("it is carved twice").AtTensor(t.Name)
	}
	if v.p.Storages[t.Of].Late && v.late.alone[t.Of] < 0 && !v.taken[t.Of] {
		return diag.Inputf("it is carved from %s, which is not taken", v.p.Storages[t.Of].Name).AtTensor(t.Name)
	}
	for _, x := range s.Over {
		if x < 0 || x >= len(v.p.Tensors) || v.p.Tensors[x].Class != Carved || v.p.Tensors[x].Of != t.Of || !v.live[x] {
			return diag.Inputf("it is carved over tensor %d, which is not live in its storage", x).AtTensor(t.Name)
		}
	}
	v.live[s.Tensor], v.over[s.Tensor] = true, s.Over
	delete(v.lost, s.Tensor)
	return nil
}

// release checks that the tensors are live, and ends their live ranges.
func (v *verifier) release(s *Release) error {
	for _, t := range s.Tensors {
		if t < 0 || t >= len(v.p.Tensors) {
			return diag.Inputf("there is no tensor %d", t)
		}
		if !v.live[t] {
			return diag.Inputf("it is released while it is not carved").AtTensor(v.p.Tensors[t].Name)
		}
		delete(v.live, t)
		delete(v.lost, t)
		delete(v.over, t)
	}
	return nil
}

// launch checks a launch's indices, then its reads, its writes and its device.
func (v *verifier) launch(s *Launch) error {
	if s.Kernel < 0 || s.Kernel >= len(v.p.Kernels) {
		return diag.Inputf("there is no kernel %d", s.Kernel)
	}
	if len(s.Args) != len(s.Writes) {
		return diag.Inputf("kernel %s has %d operands, and %d marks of written ones", v.p.Kernels[s.Kernel],
			len(s.Args), len(s.Writes))
	}
	for _, d := range s.Dims {
		if d < 0 || d >= len(v.p.Dims) {
			return diag.Inputf("there is no dimension %d", d)
		}
		if err := v.known(sym.Var(v.p.Dims[d].Name)); err != nil {
			return err
		}
	}
	var read, written []int
	for i, t := range s.Args {
		if s.Writes[i] {
			written = append(written, t)
		} else {
			read = append(read, t)
		}
	}
	if err := v.reads(read...); err != nil {
		return err
	}
	if err := v.writes(written...); err != nil {
		return err
	}
	return v.onDevice(s.Stream, s.Args...)
}

// host checks a host operator: it reads inputs, binds the data dimensions of its results' shapes, takes late storage,
// and writes its results, all in the host's memory.
func (v *verifier) host(s *Host) error {
	if err := v.reads(s.In...); err != nil {
		return err
	}
	for _, t := range s.Out {
		if t < 0 || t >= len(v.p.Tensors) {
			return diag.Inputf("there is no tensor %d", t)
		}
		for _, e := range v.p.Tensors[t].Shape {
			if name, ok := e.Name(); ok {
				if d, data := v.data[name]; data { // the operator binds it when it asks for its result
					v.binds(d)
				}
			}
		}
	}
	for _, t := range s.Out {
		if err := v.takesResult(t); err != nil {
			return err
		}
	}
	if err := v.writes(s.Out...); err != nil {
		return err
	}
	return v.lieOn("", slices.Concat(s.In, s.Out)...)
}

// decided checks that an index names a data dimension.
func (v *verifier) decided(dim int) error {
	if dim < 0 || dim >= len(v.p.Dims) || !v.p.Dims[dim].Data {
		return diag.Inputf("dimension %d is not one that data decide", dim)
	}
	return nil
}

// bind checks that the value is known, or an integer element on the host, and gives the dimension a value.
func (v *verifier) bind(s *Bind) error {
	if err := v.decided(s.Dim); err != nil {
		return err
	}
	if s.From < 0 {
		if err := v.named("a value", false, s.Value); err != nil {
			return err
		}
		if err := v.known(s.Value); err != nil {
			return err
		}
	} else {
		if err := v.reads(s.From); err != nil {
			return err
		}
		if err := v.lieOn("", s.From); err != nil {
			return err
		}
		t := &v.p.Tensors[s.From]
		if !t.DType.IsInt() && t.DType != dtype.Bool || t.Strides != nil || s.At < 0 ||
			v.dims.LT(sym.Const(s.At), sym.Product(t.Shape...)) == sym.No {
			return diag.Inputf("there is no integer at %d of it", s.At).AtTensor(t.Name)
		}
	}
	v.binds(s.Dim)
	return nil
}

// scalar checks that a tensor on the host has one element of an accepted type; −1 stands for none.
func (v *verifier) scalar(t int, ok func(dtype.DType) bool) error {
	if t == -1 {
		return nil
	}
	if err := v.reads(t); err != nil {
		return err
	}
	if err := v.lieOn("", t); err != nil {
		return err
	}
	x := &v.p.Tensors[t]
	if count, fixed := sym.Product(x.Shape...).Const(); !fixed || count != 1 || !ok(x.DType) {
		return diag.Inputf("%s%v does not say what to do next", x.DType, x.Shape).AtTensor(x.Name)
	}
	return nil
}

// isBool reports whether a type is bool.
func isBool(dt dtype.DType) bool { return dt == dtype.Bool }

// branch checks both branches. They must leave the same tensors live; a tensor lost in one is lost after the branch,
// and a dimension bound in one only is not bound.
func (v *verifier) branch(s *If) error {
	if s.Cond < 0 {
		return diag.Inputf("a branch without a condition")
	}
	if err := v.scalar(s.Cond, isBool); err != nil {
		return err
	}
	before := v.state.clone()
	if err := v.steps(s.Then); err != nil {
		return err
	}
	then := v.state
	v.state = before
	if err := v.steps(s.Else); err != nil {
		return err
	}
	if !maps.Equal(then.live, v.live) {
		return diag.Inputf("the branches leave different tensors live: %s", v.difference(then.live, v.live))
	}
	for t := range then.lost {
		v.lost[t] = true
	}
	maps.DeleteFunc(v.taken, func(s int, _ bool) bool { return !then.taken[s] })
	for name := range v.bound {
		if !then.bound[name] {
			delete(v.bound, name)
		}
	}
	return nil
}

// difference names a tensor that is in one set only.
func (v *verifier) difference(a, b map[int]bool) string {
	for i := range v.p.Tensors {
		if a[i] != b[i] {
			return v.p.Tensors[i].Name
		}
	}
	return ""
}

// loop checks a loop's operands and its body: an iteration must leave the tensors live that it found.
func (v *verifier) loop(s *Loop) error {
	if err := v.scalar(s.Trip, dtype.DType.IsInt); err != nil {
		return err
	}
	if s.Cond >= 0 {
		// The condition is read before each iteration, so it is live there.
		if err := v.scalar(s.Cond, isBool); err != nil {
			return err
		}
	}
	if s.Index >= 0 {
		if err := v.use(s.Index, true); err != nil {
			return err
		}
		if err := v.scalar(s.Index, func(dt dtype.DType) bool { return dt == dtype.I64 }); err != nil {
			return err
		}
	}
	if s.Count >= 0 {
		if err := v.decided(s.Count); err != nil {
			return err
		}
		v.binds(s.Count)
	}
	before := v.state.clone()
	// The second pass sees the state that a first iteration leaves: more tensors lost, or fewer storages taken.
	for range 2 {
		lost, taken := maps.Clone(v.lost), maps.Clone(v.taken)
		if err := v.steps(s.Body); err != nil {
			return err
		}
		if !maps.Equal(before.live, v.live) {
			return diag.Inputf("an iteration leaves other tensors live than it found: %s", v.difference(before.live, v.live))
		}
		if err := v.scalar(s.Cond, isBool); err != nil {
			return err
		}
		v.bound = maps.Clone(before.bound) // there may be no iteration
		if s.Count >= 0 {
			v.binds(s.Count)
		}
		maps.DeleteFunc(v.taken, func(s int, _ bool) bool { return !taken[s] })
		if maps.Equal(lost, v.lost) && maps.Equal(taken, v.taken) {
			break
		}
	}
	return nil
}

// copy checks that both ends have one type and as many elements, and that the right device does the copy.
func (v *verifier) copy(s *Copy) error {
	if err := v.reads(s.From, s.Pick.Of()); err != nil {
		return err
	}
	if err := v.writes(s.To); err != nil {
		return err
	}
	if s.Pick != nil {
		return at(v.pick(s), s.Pick.Source)
	}
	to, from := &v.p.Tensors[s.To], &v.p.Tensors[s.From]
	if err := v.across(s); err != nil {
		return err
	}
	if to.DType != from.DType || v.dims.EQ(sym.Product(to.Shape...), sym.Product(from.Shape...)) == sym.No {
		return diag.Inputf("%s%v is copied from %s%v", to.DType, to.Shape, from.DType, from.Shape).AtTensor(to.Name)
	}
	return nil
}

// pick checks a copy of rows: its source is in the host's memory or in a file, its target and its index in the host's
// memory.
func (v *verifier) pick(s *Copy) error {
	to, from, of := &v.p.Tensors[s.To], &v.p.Tensors[s.From], &v.p.Tensors[s.Pick.Index]
	where := []int{s.To, s.Pick.Index, s.From}
	if v.deviceOf(s.From) == inFile {
		where = where[:2]
	}
	if err := v.lieOn("", where...); err != nil {
		return err
	}
	for _, t := range where[:2] {
		if v.p.Tensors[t].Strides != nil {
			return diag.Inputf("rows are copied to it or by it, which has strides").AtTensor(v.p.Tensors[t].Name)
		}
	}
	leading := len(from.Shape) - len(to.Shape) + len(of.Shape)
	if of.DType != dtype.I32 && of.DType != dtype.I64 || to.DType != from.DType || to.DType.Bits()%8 != 0 || leading < 1 ||
		leading > len(from.Shape) || s.Stream != 0 || s.Pick.Rows < 0 ||
		v.dims.LE(sym.Const(s.Pick.Rows), sym.Product(from.Shape[:leading]...)) != sym.Yes ||
		!slices.EqualFunc(to.Shape, slices.Concat(of.Shape, from.Shape[leading:]), func(a, b sym.Expr) bool {
			return v.dims.EQ(a, b) != sym.No
		}) {
		return diag.Inputf("%s%v is copied from %d rows of %s%v by %s%v", to.DType, to.Shape, s.Pick.Rows, from.DType,
			from.Shape, of.DType, of.Shape).AtTensor(to.Name)
	}
	return nil
}

// event checks the indices of a Record or a Wait.
func (v *verifier) event(event, stream int) error {
	if event < 0 || event >= len(v.p.Events) || stream < 0 || stream > len(v.p.Streams) {
		return diag.Inputf("there is no event %d, or no stream %d", event, stream)
	}
	return nil
}

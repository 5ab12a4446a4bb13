package leak

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// step updates the state by an instruction. It returns false if the path ends there.
func (w *walk) step(instruction ssa.Instruction, s *state) bool {
	switch i := instruction.(type) {
	case *ssa.Alloc:
		s.clear(i)
	case *ssa.Store:
		w.store(i, s)
	case *ssa.UnOp:
		w.load(i, s)
	case *ssa.Extract:
		s.set(i, w.element(i, s))
	case *ssa.MapUpdate:
		w.put(i, s)
	case *ssa.Send:
		w.send(i.X, i, s)
	case *ssa.Select:
		for _, c := range i.States {
			if c.Send != nil {
				w.send(c.Send, i, s)
			}
		}
		s.settle(nil) // another function may have used it by then
	case *ssa.MakeMap:
		s.set(i, mark{})
	case *ssa.Range:
		w.read(i.X, s)
	case *ssa.MakeClosure:
		s.set(i, mark{})
		if e := w.closure(i, s); e != borrows {
			s.set(i, mark{kind: closer})
		} else if slices.ContainsFunc(i.Bindings, func(v ssa.Value) bool { return s.of(v).kind != 0 }) {
			s.set(i, w.captured(i, s))
		}
	case *ssa.TypeAssert:
		w.assert(i, s)
	case *ssa.ChangeType, *ssa.ChangeInterface, *ssa.MakeInterface, *ssa.Convert, *ssa.MultiConvert, *ssa.Slice,
		*ssa.IndexAddr, *ssa.Index:
		w.derive(i.(ssa.Value), s)
	case *ssa.Lookup:
		w.read(i.X, s)
		w.derive(i, s)
	case *ssa.FieldAddr:
		if s.of(i.X).kind == context && embedsScope(i.X.Type()) == i.Field {
			s.set(i, mark{kind: context})
			break
		}
		s.set(i, s.marks[location{i.X, i.Field}])
	case *ssa.Field:
		if load, ok := i.X.(*ssa.UnOp); ok {
			s.set(i, s.marks[location{load.X, i.Field}])
		}
	case *ssa.Call:
		return w.call(i, s)
	case *ssa.Go:
		w.goes(i, s)
	case *ssa.Defer:
		w.defers(i, s)
	case *ssa.Return:
		w.leave(i, s)
		return false
	case *ssa.Panic:
		return false
	}
	return true
}

// read updates the state by a lookup in a map, whose result the function may close.
func (w *walk) read(m ssa.Value, s *state) {
	if s.of(m).kind == within && s.ending == open {
		s.ending = moved
	}
}

// derive gives a value the mark of its first operand, if it can share its memory.
func (w *walk) derive(v ssa.Value, s *state) {
	operand := (*v.(ssa.Instruction).Operands(nil)[0])
	m := s.value(operand)
	if slice, ok := v.(*ssa.Slice); ok && m.kind == 0 { // a list of arguments is marked element by element
		m = s.inside(slice.X)
	}
	if !carries(v.Type()) && m.kind == derived {
		m = mark{}
	}
	s.set(v, m)
}

// inside returns the mark of a variable's fields or elements, if one has any.
func (s *state) inside(v ssa.Value) mark {
	var found mark
	for p, m := range s.marks {
		if p.value == v && m.kind > found.kind {
			found = m
		}
	}
	return found
}

// load marks a value that is read from an address.
func (w *walk) load(i *ssa.UnOp, s *state) {
	if i.Op == token.ARROW {
		s.settle(nil) // the sender may have used the value that was sent to it
	}
	if i.Op != token.MUL {
		s.set(i, mark{})
		return
	}
	m := s.of(i.X)
	if m.kind == 0 {
		if variable, ok := i.X.(*ssa.Alloc); ok { // an entire struct
			if m = s.inside(variable); m.kind != derived {
				m = mark{}
			}
		}
	}
	if m.kind == derived && !carries(i.Type()) {
		m = mark{}
	}
	if m.kind == context && is(i.Type(), "Scope") {
		m = mark{kind: itself}
	}
	s.set(i, m)
}

// element returns the mark of a tuple's element.
func (w *walk) element(i *ssa.Extract, s *state) mark {
	m := s.of(i.Tuple)
	switch m.kind {
	case pair:
		if i.Index == m.at {
			return mark{kind: itself}
		}
		if isError(i.Type()) {
			return mark{kind: failed}
		}
	case failing:
		if isBool(i.Type()) {
			return m
		}
	case derived:
		if carries(i.Type()) {
			return m
		}
	case itself, failed:
		if i.Index == 0 {
			return m
		}
	}
	return mark{}
}

// assert marks the result of a type assertion.
func (w *walk) assert(i *ssa.TypeAssert, s *state) {
	m := s.of(i.X)
	if m.kind == failed {
		m.kind = failing
	}
	s.set(i, m)
}

// closure returns the effect of a closure on the resource, if it captures it.
func (w *walk) closure(c *ssa.MakeClosure, s *state) effect {
	found := borrows
	for i, binding := range c.Bindings {
		switch s.of(binding).kind {
		case itself, within:
			found = max(found, w.a.effectOfBinding(c, i))
		case closer:
			found = max(found, mayClose)
		}
	}
	return found
}

// captured returns the mark of a closure that reads the resource, or what belongs to it.
func (w *walk) captured(c *ssa.MakeClosure, s *state) mark {
	for _, binding := range c.Bindings {
		switch m := s.of(binding); m.kind {
		case derived:
			return m
		case itself:
			return mark{kind: derived, id: c}
		}
	}
	return mark{}
}

// isLoan reports whether a call lends an array to a scope that outlives the function. Until the loan is closed, the
// scope cannot be closed.
func (w *walk) isLoan(i *ssa.Call, s *state) bool {
	args := i.Call.Args
	if !ofLibrary(callee(i.Common()), "Scope.Lend") || len(args) != 3 {
		return false
	}
	if s.of(args[0]).kind != itself || !outlives(args[2]) {
		return false
	}
	s.set(i, mark{kind: derived, id: i})
	s.pending[fmt.Sprintf("%p", i)] = keeping{at: i.Pos(), where: lentOut, id: i, what: i.Type()}
	return true
}

// lentOut is the place of a loan in a keeping.
const lentOut = "lent"

// goes updates the state by the start of a goroutine.
func (w *walk) goes(i *ssa.Go, s *state) {
	if c, ok := i.Call.Value.(*ssa.MakeClosure); ok && w.closure(c, s) != borrows || s.of(i.Call.Value).kind == closer {
		s.ending = moved
	}
	w.arguments(&i.Call, s)
	for _, arg := range append([]ssa.Value{i.Call.Value}, i.Call.Args...) {
		if m := s.of(arg); m.kind == derived {
			s.pending[fmt.Sprintf("%p", i)] = keeping{at: i.Pos(), where: "a goroutine", id: m.id, what: arg.Type()}
		}
	}
}

// defers records a deferred call.
func (w *walk) defers(i *ssa.Defer, s *state) {
	if _, ok := i.Call.Value.(*ssa.MakeClosure); ok {
		s.defers = append(slices.Clone(s.defers), i)
	}
	e := w.effect(&i.Call, s)
	if e.closes() {
		s.deferred = max(s.deferred, e)
		return
	}
	if e == takes {
		s.ending = moved
	}
}

// effect returns the effect of a call on the resource.
func (w *walk) effect(call *ssa.CallCommon, s *state) effect {
	if c, ok := call.Value.(*ssa.MakeClosure); ok {
		if e := w.closure(c, s); e != borrows {
			return e
		}
	} else if m := s.of(call.Value); m.kind == closer {
		return mayClose
	} else if call.IsInvoke() && m.kind == itself && closes(call.Method) {
		return mustClose
	}
	found := borrows
	for i, arg := range call.Args {
		switch m := s.of(arg); m.kind {
		case itself, within:
			e := w.a.effectOfArg(call, i)
			if isVariable(arg) { // its address: the function may close the resource or set the variable
				e = takes
			}
			found = max(found, e)
		case closer:
			found = takes
		}
	}
	return found
}

// arguments updates the state by the arguments of a call.
func (w *walk) arguments(call *ssa.CallCommon, s *state) {
	switch e := w.effect(call, s); {
	case e.closes():
		s.ending = ended
	case e == takes && s.ending == open:
		s.ending = moved
	}
}

// stops are the names of methods and function variables that do not return.
var stops = []string{"fatal", "failnow", "skipnow", "goexit"}

// ends reports whether a call ends the path: the process or test ends, or the test has failed and may leave resources
// open.
func ends(call *ssa.CallCommon) bool {
	if f := callee(call); f != nil {
		name := strings.ToLower(f.Name())
		if slices.ContainsFunc(stops, func(s string) bool { return strings.HasPrefix(name, s) }) {
			return true
		}
		testing := f.Pkg() != nil && f.Pkg().Path() == "testing"
		return testing && slices.Contains([]string{"error", "errorf", "fail", "skip", "skipf"}, name)
	}
	name := ""
	if load, ok := call.Value.(*ssa.UnOp); ok {
		switch v := load.X.(type) {
		case *ssa.Global:
			name = v.Name()
		case *ssa.FreeVar:
			name = v.Name()
		}
	}
	name = strings.ToLower(name)
	return strings.Contains(name, "fatal") || strings.Contains(name, "exit") || name == "die"
}

// call updates the state by a call. It returns false if the path ends there.
func (w *walk) call(i *ssa.Call, s *state) bool {
	call := i.Common()
	s.set(i, mark{})
	if i == w.site && !w.carried(s) {
		w.again(s)
		return false
	}
	if ends(call) || w.provesFailure(call, s) {
		return false
	}
	f := callee(call)
	if b, ok := call.Value.(*ssa.Builtin); ok {
		return w.builtin(i, b, s)
	}
	if ofLibrary(f, settlers...) && s.of(call.Args[0]).kind == itself {
		w.settle(call.Args[1:], s)
		return true
	}
	w.result(i, s)
	w.onDerived(call, f, s)
	w.arguments(call, s)
	if f != nil && f.Name() == "Wait" {
		s.settle(nil) // the receiver may have used the value that was sent
	}
	return true
}

// provesFailure reports whether a call is made only if the resource's error is not nil, or expects that.
func (w *walk) provesFailure(call *ssa.CallCommon, s *state) bool {
	if call.IsInvoke() && s.of(call.Value).kind == failed {
		return true
	}
	if !w.ignored {
		return false
	}
	return w.inTest() && slices.ContainsFunc(call.Args, func(v ssa.Value) bool { return s.of(v).kind == failed })
}

// inTest reports whether the function is in a test file.
func (w *walk) inTest() bool {
	return strings.HasSuffix(w.a.pass.Fset.Position(w.f.Pos()).Filename, "_test.go")
}

// isBoolCall reports whether a call's only result is a bool.
func isBoolCall(call *ssa.CallCommon) bool {
	r := call.Signature().Results()
	return r.Len() == 1 && isBool(r.At(0).Type())
}

// builtin updates the state by a call of a builtin function.
func (w *walk) builtin(i *ssa.Call, b *ssa.Builtin, s *state) bool {
	if b.Name() != "append" {
		return true
	}
	for k, arg := range i.Call.Args {
		switch m := s.of(arg); m.kind {
		case itself, within, closer:
			if k > 0 {
				s.ending = moved
			}
		case derived:
			if k == 0 || carries(elementOf(i.Type())) { // otherwise the elements are copied
				s.set(i, mark{kind: derived, id: i})
			}
		}
	}
	return true
}

// settle removes the marks of arrays that another scope owns now.
func (w *walk) settle(args []ssa.Value, s *state) {
	for _, arg := range args {
		list, ok := arg.(*ssa.Slice)
		if variable, mine := listOf(list, ok); mine {
			for p, m := range s.marks {
				if p.value == variable && m.kind == derived {
					s.settle(m.id)
				}
			}
			continue
		}
		if m := s.of(arg); ok || m.kind == derived && isSlice(arg.Type()) {
			s.settle(nil)
		} else if m.kind == derived {
			s.settle(m.id)
		}
	}
}

// listOf returns the variable that holds a call's variadic arguments.
func listOf(list *ssa.Slice, ok bool) (*ssa.Alloc, bool) {
	if !ok {
		return nil, false
	}
	variable, ok := list.X.(*ssa.Alloc)
	return variable, ok && variable.Comment == "varargs"
}

// elementOf returns the type of a slice's elements.
func elementOf(t types.Type) types.Type {
	if s, ok := types.Unalias(t).Underlying().(*types.Slice); ok {
		return s.Elem()
	}
	return t
}

// isSlice reports whether a type's underlying type is a slice.
func isSlice(t types.Type) bool {
	_, ok := types.Unalias(t).Underlying().(*types.Slice)
	return ok
}

// result marks a call's result.
func (w *walk) result(i *ssa.Call, s *state) {
	call := i.Common()
	if f := callee(call); ofLibrary(f, views...) {
		arguments := call.Args
		if call.IsInvoke() {
			arguments = []ssa.Value{call.Value} // the receiver
		}
		for _, arg := range arguments {
			switch m := s.of(arg); {
			case m.kind == derived:
				s.set(i, m)
			case m.kind == itself:
				s.set(i, mark{kind: derived, id: i})
			}
		}
		return
	}
	if w.isLoan(i, s) {
		return
	}
	if owner := w.a.scopeOf(call); owner != nil && (s.of(owner).kind == itself || s.of(owner).kind == context) {
		s.set(i, mark{kind: derived, id: i})
		return
	}
	if ofLibrary(callee(call)) && embedsScope(i.Type()) >= 0 && slices.ContainsFunc(call.Args, func(v ssa.Value) bool {
		return s.of(v).kind == itself
	}) {
		s.set(i, mark{kind: context})
		return
	}
	for k, arg := range call.Args {
		switch m := s.of(arg); m.kind {
		case failed:
			if isBoolCall(call) || lastIsBool(call) {
				s.set(i, mark{kind: failing})
			} else if r := call.Signature().Results(); r.Len() == 1 && isError(r.At(0).Type()) {
				s.set(i, m)
			}
		case itself:
			if sum := w.a.ofCall(call); sum != nil {
				w.alias(i, sum, k, s)
			}
		}
	}
}

// lastIsBool reports whether a call's last result is a bool.
func lastIsBool(call *ssa.CallCommon) bool {
	r := call.Signature().Results()
	return r.Len() == 2 && isBool(r.At(1).Type())
}

// alias marks a result that is the argument itself.
func (w *walk) alias(i *ssa.Call, sum *summary, param int, s *state) {
	for result, p := range sum.Alias {
		if p != param {
			continue
		}
		if isTuple(i.Type()) {
			s.set(i, mark{kind: pair, at: result})
		} else {
			s.set(i, mark{kind: itself})
		}
	}
}

// onDerived updates the state by a call that closes or takes over a value that belongs to the resource.
func (w *walk) onDerived(call *ssa.CallCommon, f *types.Func, s *state) {
	if !closes(f) && !ofLibrary(f, takers...) {
		return
	}
	for _, arg := range append([]ssa.Value{call.Value}, call.Args...) {
		if m := s.of(arg); m.kind == derived {
			if w.owner != nil && w.owner.Obj().Name() == "Results" && s.ending == open {
				s.ending = moved // results close after each of their tensors is closed
			}
			s.settle(m.id)
		}
	}
}

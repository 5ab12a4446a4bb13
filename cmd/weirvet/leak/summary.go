package leak

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// effect is the greatest effect of a function on a parameter or captured variable.
type effect uint8

const (
	borrows   effect = iota // it is read
	mayClose                // it is closed on some path
	mustClose               // it is closed on every path
	takes                   // it is kept, or its end cannot be seen
)

func (e effect) closes() bool { return e == mayClose || e == mustClose }

// summary is the part of a function that its callers need. It is a fact.
type summary struct {
	Params []effect    // of each parameter, the receiver first
	Free   []effect    // of each captured variable
	Fresh  []int       // the indices of results that are new resources, which the caller must close
	Alias  map[int]int // result → the parameter that it is
	Of     map[int]int // result → the scope parameter that its arrays belong to
	OfFree map[int]int // result → the captured scope that its arrays belong to
}

// AFact marks summaries as facts.
func (*summary) AFact() {}

func (s *summary) String() string { return fmt.Sprintf("%v fresh %v", s.Params, s.Fresh) }

func (s *summary) equal(o *summary) bool { return fmt.Sprint(*s) == fmt.Sprint(*o) }

// ofCall returns the summary of the function that a call names, or nil.
func (a *analysisOf) ofCall(call *ssa.CallCommon) *summary {
	if f := call.StaticCallee(); f != nil {
		return a.of(f)
	}
	return nil
}

// of returns the summary of a function, or nil if it has not been analysed.
func (a *analysisOf) of(f *ssa.Function) *summary {
	if f.Origin() != nil {
		f = f.Origin()
	}
	if s := a.summaries[f]; s != nil {
		return s
	}
	object := objectOf(f)
	if object == nil || f.Synthetic != "" && !strings.HasPrefix(f.Synthetic, "from type information") {
		return nil
	}
	fact := new(summary)
	if object.Pkg() != nil && object.Pkg() != a.pass.Pkg && a.pass.ImportObjectFact(object, fact) {
		return fact
	}
	return nil
}

// summarise computes the effects of functions on parameters and captured variables, until nothing changes.
func (a *analysisOf) summarise() {
	for _, f := range a.functions {
		a.summaries[f] = &summary{Params: make([]effect, len(f.Params)), Free: make([]effect, len(f.FreeVars)),
			Alias: map[int]int{}, Of: map[int]int{}, OfFree: map[int]int{}}
	}
	for range 10 {
		changed := false
		for _, f := range a.functions {
			before := *a.summaries[f]
			after := a.summaryOf(f)
			after.Fresh = before.Fresh
			if !after.equal(&before) {
				a.summaries[f], changed = after, true
			}
		}
		if !changed {
			return
		}
	}
}

// summaryOf computes a function's summary from the present summaries of others.
func (a *analysisOf) summaryOf(f *ssa.Function) *summary {
	s := &summary{Alias: map[int]int{}, Of: map[int]int{}, OfFree: map[int]int{}}
	for i, p := range f.Params {
		e := borrows
		if mayHold(p.Type()) {
			u := a.follow(p)
			e = u.effect(f)
			for _, result := range u.returned {
				s.Alias[result] = i
			}
		}
		s.Params = append(s.Params, e)
		if computesIn(p.Type()) {
			a.arraysOf(f, p, i, s.Of)
		}
	}
	for i, v := range f.FreeVars {
		if pointer, ok := v.Type().(*types.Pointer); ok && is(pointer.Elem(), "Scope") {
			a.arraysOf(f, v, i, s.OfFree)
		}
		u := a.follow(v)
		if len(u.returned) > 0 {
			u.kept = true
		}
		s.Free = append(s.Free, u.effect(f))
	}
	return s
}

// mayHold reports whether a parameter of type t may get a resource.
func mayHold(t types.Type) bool {
	if resource(t) != nil {
		return true
	}
	switch u := types.Unalias(t).(type) {
	case *types.TypeParam:
		return true
	default:
		switch u := u.Underlying().(type) {
		case *types.Interface, *types.Map:
			return true
		case *types.Slice:
			return mayHold(u.Elem())
		}
	}
	return false
}

// uses are the uses of a value and of all values that it flows into.
type uses struct {
	seen     map[ssa.Value]bool
	closed   []ssa.Instruction // the calls that close it
	later    bool              // a closure that runs at an unknown time closes it
	kept     bool
	returned []int
}

// effect returns the effect of the uses in f.
func (u *uses) effect(f *ssa.Function) effect {
	switch {
	case u.kept:
		return takes
	case len(u.closed) == 0 && !u.later:
		return borrows
	}
	for _, call := range u.closed {
		if always(f, call, u.seen) {
			return mustClose
		}
	}
	return mayClose
}

// always reports whether every path through f passes the call, except paths on which one of the values is nil.
func always(f *ssa.Function, call ssa.Instruction, values map[ssa.Value]bool) bool {
	if _, ok := call.(*ssa.Go); ok {
		return false
	}
	at := call.Block()
	for {
		covers := true
		for _, b := range f.Blocks {
			if b == f.Recover || len(b.Instrs) == 0 {
				continue
			}
			if _, ok := b.Instrs[len(b.Instrs)-1].(*ssa.Return); ok && !at.Dominates(b) {
				covers = false
			}
		}
		if covers {
			return true
		}
		above := at.Idom()
		if above == nil || !testsNil(above, at, values) {
			return false
		}
		at = above
	}
}

// testsNil reports whether block above ends in a test that leads to below if one of the values is not nil.
func testsNil(above, below *ssa.BasicBlock, values map[ssa.Value]bool) bool {
	branch, ok := above.Instrs[len(above.Instrs)-1].(*ssa.If)
	if !ok {
		return false
	}
	test, ok := branch.Cond.(*ssa.BinOp)
	if !ok || !isNil(test.Y) || !values[test.X] {
		return false
	}
	return test.Op.String() == "!=" && above.Succs[0] == below || test.Op.String() == "==" && above.Succs[1] == below
}

// isNil reports whether a value is the constant nil.
func isNil(v ssa.Value) bool {
	c, ok := v.(*ssa.Const)
	return ok && c.IsNil()
}

// follow finds the uses of a parameter or of a captured variable.
func (a *analysisOf) follow(start ssa.Value) *uses {
	u := &uses{seen: map[ssa.Value]bool{}}
	work := []ssa.Value{start}
	flow := func(v ssa.Value) {
		if v != nil && !u.seen[v] {
			u.seen[v] = true
			work = append(work, v)
		}
	}
	u.seen[start] = true
	for len(work) > 0 {
		v := work[len(work)-1]
		work = work[:len(work)-1]
		if v.Referrers() == nil {
			continue
		}
		for _, r := range *v.Referrers() {
			a.followUse(u, v, r, flow)
		}
	}
	return u
}

// followUse adds the use of a value by one instruction; flow follows the instruction's result.
func (a *analysisOf) followUse(u *uses, v ssa.Value, r ssa.Instruction, flow func(ssa.Value)) {
	switch r := r.(type) {
	case *ssa.Phi, *ssa.ChangeType, *ssa.ChangeInterface, *ssa.MakeInterface, *ssa.TypeAssert, *ssa.Extract, *ssa.Convert,
		*ssa.MultiConvert, *ssa.UnOp,
		*ssa.Slice, *ssa.Lookup, *ssa.Index:
		if value := r.(ssa.Value); carries(value.Type()) || isTuple(value.Type()) {
			flow(value)
		}
	case *ssa.Range:
		flow(r)
	case *ssa.Next:
		flow(r)
	case *ssa.IndexAddr:
		if r.X == v {
			flow(r)
		}
	case *ssa.Store:
		if r.Val == v {
			if cell, ok := local(r.Addr); ok {
				flow(cell)
			} else {
				u.kept = true
			}
		}
	case *ssa.MapUpdate:
		u.kept = u.kept || r.Map != v && !is(r.Map.Type(), "Inputs")
	case *ssa.Send:
		u.kept = u.kept || r.X == v
	case *ssa.Select:
		for _, s := range r.States {
			u.kept = u.kept || s.Send == v
		}
	case *ssa.Return:
		for i, result := range r.Results {
			if result == v && !slices.Contains(u.returned, i) {
				u.returned = append(u.returned, i)
			}
		}
	case *ssa.MakeClosure:
		a.followClosure(u, v, r)
	case ssa.CallInstruction:
		a.followCall(u, v, r, flow)
	}
}

// local returns the variable of this function that contains an address: a variable of its own, or an element of a
// call's variadic arguments.
func local(addr ssa.Value) (ssa.Value, bool) {
	switch addr := addr.(type) {
	case *ssa.Alloc:
		return addr, true
	case *ssa.IndexAddr:
		if list, ok := addr.X.(*ssa.Alloc); ok && list.Comment == "varargs" {
			return list, true
		}
	}
	return nil, false
}

// isTuple reports whether a type is a tuple.
func isTuple(t types.Type) bool {
	_, ok := t.(*types.Tuple)
	return ok
}

// followClosure adds the uses of a value that a closure captures.
func (a *analysisOf) followClosure(u *uses, v ssa.Value, closure *ssa.MakeClosure) {
	for i, binding := range closure.Bindings {
		if binding != v {
			continue
		}
		switch e := a.effectOfBinding(closure, i); {
		case e == takes:
			u.kept = true
		case e.closes():
			u.later = true
			if e == mustClose {
				u.closed = append(u.closed, runs(closure)...)
			}
		}
	}
}

// runs returns the calls and defers of a closure in its function.
func runs(closure *ssa.MakeClosure) (list []ssa.Instruction) {
	for _, r := range *closure.Referrers() {
		if call, ok := r.(ssa.CallInstruction); ok && call.Common().Value == closure {
			list = append(list, r)
		}
	}
	return list
}

// effectOfBinding returns the effect of a closure on its i-th captured variable.
func (a *analysisOf) effectOfBinding(closure *ssa.MakeClosure, i int) effect {
	f := closure.Fn.(*ssa.Function)
	if strings.HasPrefix(f.Synthetic, "bound method wrapper") {
		switch object := objectOf(f); {
		case closes(object):
			return mustClose
		case ofLibrary(object):
			return borrows
		}
		return takes
	}
	if s := a.of(f); s != nil && i < len(s.Free) {
		return s.Free[i]
	}
	return takes
}

// followCall adds the use of a value by a call.
func (a *analysisOf) followCall(u *uses, v ssa.Value, r ssa.CallInstruction, flow func(ssa.Value)) {
	call := r.Common()
	if b, ok := call.Value.(*ssa.Builtin); ok {
		if b.Name() == "append" {
			u.kept = u.kept || len(call.Args) > 1 && call.Args[1] == v
			flow(r.Value())
		}
		return
	}
	if call.IsInvoke() && call.Value == v || call.Signature().Recv() != nil && len(call.Args) > 0 && call.Args[0] == v {
		if f := callee(call); closes(f) {
			u.closed = append(u.closed, r)
			return
		}
	}
	for i, arg := range call.Args {
		if arg != v {
			continue
		}
		switch e := a.effectOfArg(call, i); {
		case e == takes:
			u.kept = true
		case e == mustClose:
			u.closed = append(u.closed, r)
		case e.closes():
			u.later = true
		}
		if s := a.ofCall(call); s != nil && r.Value() != nil && hasValue(s.Alias, i) {
			flow(r.Value())
		}
	}
}

// hasValue reports whether a map contains a value.
func hasValue(m map[int]int, value int) bool {
	for _, v := range m {
		if v == value {
			return true
		}
	}
	return false
}

// effectOfArg returns the effect of a call on its i-th argument. The receiver of a named method is the first.
func (a *analysisOf) effectOfArg(call *ssa.CallCommon, i int) effect {
	f := callee(call)
	switch {
	case f != nil && closes(f) && f.Signature().Recv() != nil && i == 0 && !call.IsInvoke():
		return mustClose
	case ofLibrary(f, takers...):
		return takes
	case ofLibrary(f):
		return borrows
	case f != nil && f.Pkg() != nil && slices.Contains(onlyLook, f.Pkg().Path()):
		return borrows
	}
	if s := a.ofCall(call); s != nil && i < len(s.Params) {
		return s.Params[i]
	}
	// A function with a scope parameter that returns arrays computes in the scope: closing it would close them.
	if i < len(call.Args) && is(call.Args[i].Type(), "Scope") && holdsArray(call.Signature().Results()) {
		return borrows
	}
	return takes
}

// export gives the summaries of the package's functions to the packages that import it.
func (a *analysisOf) export() {
	for _, f := range a.functions {
		object := objectOf(f)
		if object == nil || object.Pkg() != a.pass.Pkg || f.Parent() != nil {
			continue
		}
		fact := *a.summaries[f]
		fact.Free, fact.OfFree = nil, nil
		a.pass.ExportObjectFact(object, &fact)
	}
}

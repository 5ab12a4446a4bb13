package leak

import (
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// arraysOf records the results of f that hold arrays of its parameter or captured variable at, a scope.
func (a *analysisOf) arraysOf(f *ssa.Function, scope ssa.Value, at int, of map[int]int) {
	for i := range f.Signature.Results().Len() {
		if !holdsArray(f.Signature.Results().At(i).Type()) {
			continue
		}
		found := false
		for _, b := range f.Blocks {
			r, ok := b.Instrs[len(b.Instrs)-1].(*ssa.Return)
			if !ok || b == f.Recover {
				continue
			}
			switch of := a.belongs(r.Results[i], scope, map[ssa.Value]bool{}); of {
			case "yes":
				found = true
			case "no":
				return
			}
		}
		if found {
			of[i] = at
		}
	}
}

// belongs reports whether a value is arrays computed in a scope: "yes", "no", or "" for nil.
func (a *analysisOf) belongs(v ssa.Value, scope ssa.Value, seen map[ssa.Value]bool) string {
	if seen[v] || isNil(v) {
		return ""
	}
	seen[v] = true
	switch v := v.(type) {
	case *ssa.Extract:
		return a.belongs(v.Tuple, scope, seen)
	case *ssa.Phi:
		answer := ""
		for _, edge := range v.Edges {
			switch a.belongs(edge, scope, seen) {
			case "yes":
				answer = "yes"
			case "no":
				return "no"
			}
		}
		return answer
	case *ssa.Call:
		if isReturn(v.Common()) && a.parentOf(v.Call.Args[0]) == scope {
			return "yes"
		}
		if given := a.givenTo(v, map[ssa.Value]bool{}); given != nil {
			return answer(given == scope)
		}
		if owner := a.scopeOf(v.Common()); owner != nil {
			return answer(contextOf(owner) == scope || captures(owner, scope))
		}
	case *ssa.Slice, *ssa.UnOp: // a list or struct that is written in the source
		if variable, ok := (*v.(ssa.Instruction).Operands(nil)[0]).(*ssa.Alloc); ok {
			return a.allBelong(variable, scope, seen)
		}
	case *ssa.Alloc:
		return a.allBelong(v, scope, seen)
	}
	return "no"
}

// captures reports whether a scope is read from a captured variable.
func captures(scope, variable ssa.Value) bool {
	load, ok := scope.(*ssa.UnOp)
	return ok && load.X == variable && is(load.Type(), "Scope")
}

// answer returns the answer of belongs.
func answer(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// allBelong is belongs for a variable: all values that are stored in it, or in its fields or elements, belong.
func (a *analysisOf) allBelong(variable *ssa.Alloc, scope ssa.Value, seen map[ssa.Value]bool) string {
	found := ""
	addresses := []ssa.Value{variable}
	for _, r := range *variable.Referrers() {
		switch r := r.(type) {
		case *ssa.FieldAddr:
			addresses = append(addresses, r)
		case *ssa.IndexAddr:
			addresses = append(addresses, r)
		case *ssa.MakeClosure:
			return "no"
		}
	}
	for _, addr := range addresses {
		for _, r := range *addr.Referrers() {
			store, ok := r.(*ssa.Store)
			if !ok || store.Addr != addr || !holdsArray(store.Val.Type()) {
				continue
			}
			switch a.belongs(store.Val, scope, seen) {
			case "yes":
				found = "yes"
			case "no":
				return "no"
			}
		}
	}
	return found
}

// isReturn reports whether a call is of Scope.Return.
func isReturn(call *ssa.CallCommon) bool {
	return ofLibrary(callee(call), "Scope.Return") && !call.IsInvoke() && len(call.Args) > 0
}

// parentOf returns the scope that a scope was opened inside, by the option In; nil if it is not known.
func (a *analysisOf) parentOf(scope ssa.Value) ssa.Value {
	call, ok := scope.(*ssa.Call)
	if !ok || !ofLibrary(callee(call.Common()), "NewScope") || len(call.Call.Args) < 2 {
		return nil
	}
	list, ok := call.Call.Args[1].(*ssa.Slice)
	variable, mine := listOf(list, ok)
	if !mine {
		return nil
	}
	for _, option := range storedIn(variable) {
		in, ok := option.(*ssa.Call)
		if ok && ofLibrary(callee(in.Common()), "In") && len(in.Call.Args) == 1 {
			return contextOf(in.Call.Args[0])
		}
	}
	return nil
}

// storedIn returns the values that are stored in the elements of a list.
func storedIn(variable *ssa.Alloc) (list []ssa.Value) {
	for _, r := range *variable.Referrers() {
		at, ok := r.(*ssa.IndexAddr)
		if !ok {
			continue
		}
		for _, r := range *at.Referrers() {
			if store, ok := r.(*ssa.Store); ok && store.Addr == at {
				list = append(list, store.Val)
			}
		}
	}
	return list
}

// givenTo returns the scope to which Return or Transfer gives an array; nil if there is no such call.
func (a *analysisOf) givenTo(v ssa.Value, seen map[ssa.Value]bool) ssa.Value {
	if seen[v] || v.Referrers() == nil {
		return nil
	}
	seen[v] = true
	for _, r := range *v.Referrers() {
		var to ssa.Value
		switch r := r.(type) {
		case *ssa.Call:
			switch {
			case ofLibrary(callee(r.Common()), "Scope.Transfer") && len(r.Call.Args) == 3 && r.Call.Args[1] == v:
				to = contextOf(r.Call.Args[2])
			case isReturn(r.Common()) && len(r.Call.Args) > 1 && r.Call.Args[1] == v:
				to = a.parentOf(r.Call.Args[0])
			}
		case *ssa.Store: // into a variable, or into a list of arguments
			if variable, ok := local(r.Addr); ok && r.Val == v {
				to = a.givenTo(variable, seen)
			}
		case *ssa.UnOp:
			to = a.givenTo(r, seen)
		case *ssa.Slice:
			to = a.givenTo(r, seen)
		}
		if to != nil {
			return to
		}
	}
	return nil
}

// givesArray reports whether one of a function's results is an array.
func givesArray(results *types.Tuple) bool {
	for i := range results.Len() {
		if is(results.At(i).Type(), "Array") {
			return true
		}
	}
	return false
}

// scopeOf returns the scope, or the context, that owns the arrays in a call's result; nil if it is not known. A method
// of an interface and a function value are taken to compute in the scope that they are given.
func (a *analysisOf) scopeOf(call *ssa.CallCommon) ssa.Value {
	if !holdsArray(call.Signature().Results()) {
		return nil
	}
	args := call.Args
	f := callee(call)
	if bound, ok := call.Value.(*ssa.MakeClosure); ok && strings.HasPrefix(bound.Fn.(*ssa.Function).Synthetic, "bound") {
		args = append(bound.Bindings[:len(bound.Bindings):len(bound.Bindings)], args...)
	}
	if ofLibrary(f) && f.Exported() && (ofLibrary(f, settlers...) || ofLibrary(f, stored...) || ofLibrary(f, unowned...)) {
		return nil
	}
	if _, builtin := call.Value.(*ssa.Builtin); builtin {
		return nil
	}
	unseen := call.IsInvoke() || call.StaticCallee() == nil
	if unseen && !givesArray(call.Signature().Results()) {
		return nil // a list may have been returned element by element
	}
	if unseen || ofLibrary(f) && f.Exported() {
		if i := slices.IndexFunc(args, func(arg ssa.Value) bool { return computesIn(arg.Type()) }); i >= 0 {
			return args[i]
		}
		return nil
	}
	s := a.ofCall(call)
	if s == nil {
		return nil
	}
	if at, ok := only(s.Of); ok {
		return call.Args[at]
	}
	if closure, ok := call.Value.(*ssa.MakeClosure); ok {
		if at, ok := only(s.OfFree); ok {
			return closure.Bindings[at]
		}
	}
	return nil
}

// only returns the value that all entries of a map have; ok is false if there is none, or if they differ.
func only(of map[int]int) (value int, ok bool) {
	for _, v := range of {
		if ok && v != value {
			return 0, false
		}
		value, ok = v, true
	}
	return value, ok
}

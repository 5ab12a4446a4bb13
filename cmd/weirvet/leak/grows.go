package leak

import (
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// grows reports operations that run in a scope that outlives the function, although their results do not: each call
// leaves an array in the scope of a model, where nobody closes it.
//
// Such a scope is a global variable, the scope of an array or of a store, or a field of a parameter or captured
// variable. A field is only judged if the function has a scope for results; or if its struct also holds arrays,
// programs or models, and the function reads the elements of the result itself.
func (a *analysisOf) grows() {
	for _, f := range a.functions {
		if f.Name() == "init" || a.inTestFile(f) {
			continue
		}
		told := map[string]bool{}
		for _, b := range f.Blocks {
			for _, instruction := range b.Instrs {
				call, ok := instruction.(*ssa.Call)
				if !ok {
					continue
				}
				scope := a.grown(f, call)
				if scope == nil || told[keyOf(scope, 8)] {
					continue
				}
				told[keyOf(scope, 8)] = true
				at, _ := a.callAt(call.Pos())
				if ofLibrary(callee(call.Common()), "Scope.Lend") {
					a.report(at, categoryGrows, "an array is lent to a scope that outlives this function, and nothing ends "+
						"the loan: lend to the scope of the results, or Close the loan")
					continue
				}
				a.report(at, categoryGrows, "the result belongs to a scope that outlives this function, which grows with "+
					"each call: compute in the scope of the results, or in one that this function opens and closes")
			}
		}
	}
}

// grown returns the scope that a call leaves an array or a loan in; nil if there is none, or if it may be intended.
func (a *analysisOf) grown(f *ssa.Function, call *ssa.Call) ssa.Value {
	lends := ofLibrary(callee(call.Common()), "Scope.Lend") && len(call.Call.Args) == 3
	scope := a.scopeOf(call.Common())
	if lends {
		scope = call.Call.Args[2]
		if lender, ok := call.Call.Args[0].(*ssa.Call); ok && len(a.made(lender)) > 0 {
			return nil // the walk of the lender tells it
		}
	}
	if scope == nil || !is(scope.Type(), "Scope") {
		return nil
	}
	switch long, sure := a.outlasts(f, scope); {
	case !long:
		return nil
	case lends && !a.passes(call, false, map[ssa.Value]bool{}): // something closes or keeps the loan
		return nil
	case lends && !sure && !hasScope(f):
		return nil
	case !lends && !a.passes(call, sure || hasScope(f), map[ssa.Value]bool{}):
		return nil
	case !lends && !sure && !hasScope(f) && !a.copied(call, map[ssa.Value]bool{}):
		return nil
	}
	return scope
}

// outlasts reports whether a scope outlives the function, and whether that is sure.
func (a *analysisOf) outlasts(f *ssa.Function, scope ssa.Value) (long, sure bool) {
	switch v := scope.(type) {
	case *ssa.Call:
		object := callee(v.Common())
		return ofLibrary(object, "Array.Scope", "Store.Scope") && outlives(v.Call.Args[0]), true
	case *ssa.UnOp:
		switch addr := v.X.(type) {
		case *ssa.Global:
			return true, true
		case *ssa.FieldAddr:
			if !outlives(addr.X) || embedsScope(addr.X.Type()) == addr.Field {
				return false, false
			}
			if closedIn(f, addr) {
				return false, false
			}
			return hasScope(f) || isModel(addr.X.Type()), false
		}
	}
	return false, false
}

// closedIn reports whether a function stores to a field or closes its value.
func closedIn(f *ssa.Function, field *ssa.FieldAddr) bool {
	key := keyOf(field, 8)
	for _, b := range f.Blocks {
		for _, instruction := range b.Instrs {
			switch i := instruction.(type) {
			case *ssa.Store:
				if keyOf(i.Addr, 8) == key {
					return true
				}
			case ssa.CallInstruction:
				if closes(callee(i.Common())) && len(i.Common().Args) > 0 {
					if load, ok := i.Common().Args[0].(*ssa.UnOp); ok && keyOf(load.X, 8) == key {
						return true
					}
				}
			}
		}
	}
	return false
}

// hasScope reports whether a function has a scope for results: a parameter, or one that it or an outer function opens.
func hasScope(f *ssa.Function) bool {
	for ; f != nil; f = f.Parent() {
		if slices.ContainsFunc(f.Params, func(p *ssa.Parameter) bool { return computesIn(p.Type()) }) {
			return true
		}
		for _, b := range f.Blocks {
			for _, instruction := range b.Instrs {
				if call, ok := instruction.(*ssa.Call); ok && ofLibrary(callee(call.Common()), "NewScope") {
					return true
				}
			}
		}
	}
	return false
}

// isModel reports whether t is, or points to, a struct that holds arrays, programs, models or compiled functions.
func isModel(t types.Type) bool {
	if p, ok := types.Unalias(t).Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := types.Unalias(t).Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for i := range s.NumFields() {
		for _, name := range []string{"Array", "Program", "Model", "Compiled", "Store"} {
			if holds(s.Field(i).Type(), name, 3) {
				return true
			}
		}
	}
	return false
}

// passes reports whether all uses of an array are over when the function returns: nothing closes, keeps or moves it.
// If returned is true, the function may also return it.
func (a *analysisOf) passes(v ssa.Value, returned bool, seen map[ssa.Value]bool) bool {
	if seen[v] || v.Referrers() == nil {
		return true
	}
	seen[v] = true
	for _, r := range *v.Referrers() {
		switch r := r.(type) {
		case *ssa.Return:
			if !returned {
				return false
			}
		case *ssa.Store:
			variable, mine := local(r.Addr)
			if r.Addr == v {
				continue
			}
			if at, ok := r.Addr.(*ssa.IndexAddr); ok && !mine { // a list that is written in the source
				variable, mine = at.X.(*ssa.Alloc)
			}
			if !mine || !a.passes(variable, returned, seen) {
				return false
			}
		case *ssa.Phi, *ssa.Extract, *ssa.UnOp, *ssa.Slice, *ssa.ChangeType, *ssa.IndexAddr, *ssa.Index, *ssa.MakeInterface,
			*ssa.ChangeInterface:
			if !a.passes(r.(ssa.Value), returned, seen) {
				return false
			}
		case *ssa.Call:
			if !a.onlyReads(r.Common()) {
				return false
			}
		case *ssa.BinOp, *ssa.DebugRef, *ssa.If:
		default:
			return false
		}
	}
	return true
}

// onlyReads reports whether a call only reads its arrays: it computes, copies or prints.
func (a *analysisOf) onlyReads(call *ssa.CallCommon) bool {
	f := callee(call)
	switch {
	case closes(f), ofLibrary(f, settlers...), ofLibrary(f, "Array.Detach", "Scope.Lend", "Of"):
		return false
	case ofLibrary(f):
		return f.Pkg().Name() == "array"
	}
	return f != nil && f.Pkg() != nil && slices.Contains(onlyLook, f.Pkg().Path())
}

// copied reports whether the function reads the elements of an array, or of an array that it computes from it.
func (a *analysisOf) copied(v ssa.Value, seen map[ssa.Value]bool) bool {
	if seen[v] || v.Referrers() == nil {
		return false
	}
	seen[v] = true
	for _, r := range *v.Referrers() {
		switch r := r.(type) {
		case *ssa.Store:
			if variable, ok := local(r.Addr); ok && r.Val == v && a.copied(variable, seen) {
				return true
			}
		case *ssa.Call:
			f := callee(r.Common())
			if ofLibrary(f, "Copy", "View", "Item") || holdsArray(r.Call.Signature().Results()) && a.copied(r, seen) {
				return true
			}
		case ssa.Value:
			if a.copied(r, seen) {
				return true
			}
		}
	}
	return false
}

// inTestFile reports whether a function is in a test file.
func (a *analysisOf) inTestFile(f *ssa.Function) bool {
	return strings.HasSuffix(a.pass.Fset.Position(f.Pos()).Filename, "_test.go")
}

package leak

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ast/astutil"
	"golang.org/x/tools/go/ssa"
)

// again judges a path that returns to the call that made the resource.
func (w *walk) again(s *state) {
	if s.ending != open || w.gathered(s) {
		return
	}
	what, fix := w.what(), w.fix()
	at := w.start()
	if s.deferred != borrows || w.atExit(s) != borrows {
		w.inTurn()
		return
	}
	w.findings = append(w.findings, func() {
		w.a.report(at, categoryOpen, what+w.be()+" not closed before a later turn of the loop opens another: "+fix)
	})
}

// carried reports whether a variable from before the loop holds the resource when the next iteration opens another one,
// so that the iteration may still close it. From then on the call's results are the new resource.
func (w *walk) carried(s *state) bool {
	if s.ending != open {
		return false
	}
	found := false
	for p, m := range s.marks {
		switch v := p.value.(type) {
		case *ssa.Alloc, *ssa.Phi:
			found = found || m.kind == itself && precedes(v.(ssa.Instruction), w.site)
		}
	}
	if found {
		for _, r := range *w.site.Referrers() {
			if e, ok := r.(*ssa.Extract); ok {
				s.clear(e)
			}
		}
		s.clear(w.site)
	}
	return found
}

// inTurn reports a defer in a loop.
func (w *walk) inTurn() {
	message := w.what() + w.be() +
		" opened in each turn of a loop, and closed by a defer only when the function returns: " +
		"close in the turn, or make the loop's body a function"
	at := w.start()
	w.findings = append(w.findings, func() { w.a.report(at, categoryTurn, message) })
}

// goesOn reports whether a return ends an iteration of a loop over a function, and not the loop.
func (w *walk) goesOn(r *ssa.Return) bool {
	return w.f.Synthetic == "range-over-func yield" && len(r.Results) == 1 && constant(r.Results[0]).kind == yes
}

// gathered reports whether the resource is in a map from before the loop, which holds those of all iterations.
func (w *walk) gathered(s *state) bool {
	for p, m := range s.marks {
		switch v := p.value.(type) {
		case *ssa.MakeMap, *ssa.Alloc:
			if m.kind == within && precedes(v.(ssa.Instruction), w.site) {
				return true
			}
		}
	}
	return false
}

// precedes reports whether every path to an instruction passes the other one first.
func precedes(first, second ssa.Instruction) bool {
	b, c := first.Block(), second.Block()
	return before(b, slices.Index(b.Instrs, first), c, slices.Index(c.Instrs, second))
}

// atExit returns the effect of the deferred closures on the resource.
func (w *walk) atExit(s *state) effect {
	found := borrows
	for _, d := range s.defers {
		if c, ok := d.Call.Value.(*ssa.MakeClosure); ok {
			found = max(found, w.closure(c, s))
		}
	}
	return found
}

// leave judges a path that returns.
func (w *walk) leave(r *ssa.Return, s *state) {
	deferred := max(s.deferred, w.atExit(s))
	returned := false
	var kept *keeping
	for i, result := range r.Results {
		switch m := s.value(result); m.kind {
		case itself:
			returned = true
			if s.ending == open && deferred != mustClose {
				if w.results[r] == nil {
					w.results[r] = map[int]bool{}
				}
				w.results[r][i] = true
			}
			if s.ending == open && deferred == mustClose {
				w.returnedClosed(r)
			}
		case within, closer:
			returned = true
		case failed: // a test's closure returns the error to a function that expects one
			returned = returned || w.ignored && w.inTest() && w.f.Parent() != nil
		case derived:
			if w.ownerIs("Results") && holds(result.Type(), "Tensor", 3) {
				returned = true // closing the tensors closes the results
			}
			kept = &keeping{at: r.Pos(), where: "returned", id: m.id, what: result.Type()}
		}
	}
	if s.ending == ended || deferred == mustClose {
		w.keptOnes(kept, s)
	}
	if w.site != nil && deferred != borrows && s.ending == open && w.goesOn(r) && !w.gathered(s) {
		w.inTurn()
	}
	if w.site == nil || s.ending != open || deferred != borrows || returned || endsProcess(w.f) {
		return
	}
	w.notClosed(r)
}

func (w *walk) ownerIs(name string) bool { return w.owner != nil && w.owner.Obj().Name() == name }

// endsProcess reports whether a return from f ends the process, which frees everything.
func endsProcess(f *ssa.Function) bool {
	return f.Name() == "main" && f.Parent() == nil && f.Signature.Recv() == nil && f.Pkg != nil &&
		f.Pkg.Pkg.Name() == "main"
}

// notClosed adds the finding of a return that leaves the resource open.
func (w *walk) notClosed(r *ssa.Return) {
	what, fix, at := w.what(), w.fix(), w.start()
	line := w.a.line(r.Pos())
	if w.ignored {
		w.findings = append(w.findings, func() {
			w.a.report(at, categoryDropped, what+w.be()+" dropped, so that nobody can call Close: keep the value and close it")
		})
		return
	}
	where := fmt.Sprintf("if the function returns at line %d", line)
	if !r.Pos().IsValid() {
		where = "if the function runs to its end"
	}
	w.findings = append(w.findings, func() { w.a.report(at, categoryOpen, what+w.be()+" not closed "+where+": "+fix) })
}

// returnedClosed adds the finding of a resource that is returned and closed by a defer.
func (w *walk) returnedClosed(r *ssa.Return) {
	message := w.what() + w.be() +
		" returned, but closed by a defer of this function: close only if there is an error, and leave the rest to the caller"
	at := r.Pos()
	w.findings = append(w.findings, func() { w.a.report(at, categoryKept, message) })
}

// keptOnes adds findings for values that belong to the resource and outlive it.
func (w *walk) keptOnes(returned *keeping, s *state) {
	list := []keeping{}
	if returned != nil {
		list = append(list, *returned)
	}
	for _, k := range s.pending {
		list = append(list, k)
	}
	for _, k := range list {
		where := "kept in " + k.where
		if k.where == "returned" {
			where = "returned"
		}
		message, at := w.keptMessage(k, where), k.at
		w.findings = append(w.findings, func() { w.a.report(at, categoryKept, message) })
	}
}

// keptMessage returns the message for such a value.
func (w *walk) keptMessage(k keeping, where string) string {
	what, fix := "what belongs to it", "Copy its elements"
	if k.where == lentOut {
		return fmt.Sprintf("an array is lent to a scope that stays open, so that this function cannot close %s: "+
			"Close the loan first, or give the array away with Transfer", w.what())
	}
	_, function := types.Unalias(k.what).Underlying().(*types.Signature)
	switch {
	case function:
		what, fix = "a function that reads what belongs to it", "leave the closing to the caller, or Copy the elements first"
	case isSlice(k.what) && !carries(elementOf(k.what)):
		what = "a slice"
	case w.ownerIs("Scope") && holdsArray(k.id.Type()):
		what, fix = "an array", "give it to the outer scope with Return, or Copy its elements"
	case holds(k.id.Type(), "Tensor", 3):
		what = "a tensor"
	}
	return fmt.Sprintf("%s is %s, but dies when this function closes %s: %s", what, where, w.what(), fix)
}

// what returns the resource's name in a message.
func (w *walk) what() string {
	name := "value"
	if w.owner != nil {
		name = word(w.owner)
	}
	if w.site == nil {
		return "the " + name + " " + w.given.Name()
	}
	if f := callee(w.site.Common()); f != nil {
		return "the " + name + " from " + shown(f)
	}
	return "the " + name
}

// be returns the verb after what.
func (w *walk) be() string {
	if w.ownerIs("Results") {
		return " are"
	}
	return " is"
}

// fix returns the fix for a resource that is not closed.
func (w *walk) fix() string {
	if _, names := w.a.callAt(w.site.Pos()); w.at < len(names) && names[w.at] != "_" {
		return "defer " + names[w.at] + ".Close(), or call it on this path too"
	}
	return "call Close on this path too"
}

// start returns the position of the call that made the resource.
func (w *walk) start() token.Pos {
	at, _ := w.a.callAt(w.site.Pos())
	return at
}

// callAt returns the position of a call, given its opening parenthesis, and the names of the variables that get its
// results.
func (a *analysisOf) callAt(paren token.Pos) (token.Pos, []string) {
	for _, file := range a.pass.Files {
		if paren < file.FileStart || paren >= file.FileEnd {
			continue
		}
		path, _ := astutil.PathEnclosingInterval(file, paren, paren)
		for i, node := range path {
			call, ok := node.(*ast.CallExpr)
			if !ok || call.Lparen != paren {
				continue
			}
			var names []string
			if i+1 < len(path) {
				names = targets(path[i+1])
			}
			return call.Pos(), names
		}
	}
	return paren, nil
}

// targets returns the names that a statement assigns to.
func targets(node ast.Node) (names []string) {
	switch n := node.(type) {
	case *ast.AssignStmt:
		for _, e := range n.Lhs {
			names = append(names, types.ExprString(e))
		}
	case *ast.ValueSpec:
		for _, e := range n.Names {
			names = append(names, e.Name)
		}
	}
	return names
}

package leak

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// fruitful are the scope's methods whose result need not be used.
var fruitful = []string{"Scope.Return"}

// dropped reports statements that compute an array and drop it, except in tests, which do so to check errors and
// memory.
func (a *analysisOf) dropped() {
	for _, file := range a.pass.Files {
		if strings.HasSuffix(a.pass.Fset.Position(file.FileStart).Filename, "_test.go") {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			var call *ast.CallExpr
			switch n := n.(type) {
			case *ast.ExprStmt:
				call, _ = ast.Unparen(n.X).(*ast.CallExpr)
			case *ast.GoStmt:
				call = n.Call
			case *ast.DeferStmt:
				call = n.Call
			}
			if call != nil {
				a.droppedCall(call)
			}
			return true
		})
	}
}

// droppedCall reports a call whose result is an array that is dropped.
func (a *analysisOf) droppedCall(call *ast.CallExpr) {
	f, _ := typeutil.Callee(a.pass.TypesInfo, call).(*types.Func)
	if !ofLibrary(f) || slices.Contains(fruitful, qualified(f)) || !a.computes(f) {
		return
	}
	a.report(call.Pos(), categoryDropped, "the result of "+shown(f)+" is dropped: use it, or leave the call out")
}

// computes reports whether f is an operation of a scope: its only result is an array, and it has no other effect.
func (a *analysisOf) computes(f *types.Func) bool {
	s := f.Signature()
	if s.Results().Len() != 1 || !is(s.Results().At(0).Type(), "Array") {
		return false
	}
	if s.Recv() != nil {
		return is(s.Recv().Type(), "Scope")
	}
	return s.Params().Len() > 0 && is(s.Params().At(0).Type(), "Scope")
}

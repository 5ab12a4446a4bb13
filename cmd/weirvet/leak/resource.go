package leak

import (
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// scoped are the library's types with a Close that need not be called: a scope closes its arrays, and the borrower its
// loans.
var scoped = []string{"Array", "Loan"}

// lent are the library's functions and methods that return a closable value which has another owner, or which is only
// memory of Go.
var lent = []string{"FromSlice", "Scalar"}

// makers are the library's methods, besides those named New… and Open…, whose result the caller must close.
var makers = []string{"Program.Run", "Array.Detach", "Batcher.Run", "Traced.Run", "Runner.Run", "Archive.Read"}

// takers are the library's functions that take over their argument.
var takers = []string{"Consume", "Donate"}

// closers are the methods that end a resource.
var closers = []string{"Close", "CloseContext"}

// views are the library's functions and methods whose result shares the memory of their argument, and is invalid after
// it.
var views = []string{"View", "Array.Tensor", "Tensor.Bytes", "Results.Get", "Results.At", "Results.Sequence",
	"Outputs.Get", "Outputs.At", "Outputs.Sequence", "Call.Input", "Call.Output"}

// settlers are the methods of a scope that give its arrays to another scope.
var settlers = []string{"Scope.Return", "Scope.Transfer"}

// stored are the methods of a context that return arrays of the parameters' scope.
var stored = []string{"Context.Param", "Context.Buffer"}

// unowned are the methods of a scope whose result the scope does not own.
var unowned = []string{"Scope.Number", "Scope.Dead"}

// onlyLook are packages of the standard library whose functions neither close nor keep their arguments.
var onlyLook = []string{"fmt", "log", "log/slog", "testing", "errors", "runtime", "reflect",
	"github.com/google/go-cmp/cmp",
	"github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"}

// named returns the type of the library that t is or points to, or nil.
func named(t types.Type) *types.Named {
	if t == nil {
		return nil
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || !library(n.Obj().Pkg()) {
		return nil
	}
	return n
}

// resource returns the type of the library as which a value of type t must be closed, or nil.
func resource(t types.Type) *types.Named {
	if t == nil {
		return nil
	}
	if _, ok := types.Unalias(t).(*types.Pointer); !ok {
		return nil
	}
	n := named(t)
	if n == nil || slices.Contains(scoped, n.Obj().Name()) {
		return nil
	}
	method, path, _ := types.LookupFieldOrMethod(t, true, n.Obj().Pkg(), "Close")
	f, ok := method.(*types.Func)
	// an embedded field's Close, such as that of the scope of an nn.Context: the field's owner calls it
	if !ok || len(path) > 1 {
		return nil
	}
	s := f.Signature()
	if s.Params().Len() != 0 || s.Results().Len() != 1 || !isError(s.Results().At(0).Type()) {
		return nil
	}
	return n
}

// is reports whether t is, or points to, the library's type of that name.
func is(t types.Type, name string) bool {
	n := named(t)
	return n != nil && n.Obj().Name() == name
}

// embedsScope returns the index of the field of a library's struct, such as nn.Context, that is its scope, or −1.
func embedsScope(t types.Type) int {
	n := named(t)
	if n == nil {
		return -1
	}
	s, ok := n.Underlying().(*types.Struct)
	if !ok {
		return -1
	}
	for i := range s.NumFields() {
		if s.Field(i).Embedded() && is(s.Field(i).Type(), "Scope") {
			return i
		}
	}
	return -1
}

// computesIn reports whether operations run in a value of type t: it is a scope, or embeds one.
func computesIn(t types.Type) bool { return is(t, "Scope") || embedsScope(t) >= 0 }

// contextOf returns the context whose scope a value is, or the value.
func contextOf(v ssa.Value) ssa.Value {
	if load, ok := v.(*ssa.UnOp); ok {
		if field, ok := load.X.(*ssa.FieldAddr); ok && embedsScope(field.X.Type()) == field.Field {
			return field.X
		}
	}
	return v
}

// isError reports whether t is error.
func isError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// callee returns the function or method that a call names; nil if it calls a value.
func callee(call *ssa.CallCommon) *types.Func {
	if call.IsInvoke() {
		return call.Method
	}
	if f := call.StaticCallee(); f != nil {
		return objectOf(f)
	}
	return nil
}

// objectOf returns the declaration of a function, or of the method that a wrapper calls; nil if there is none.
func objectOf(f *ssa.Function) *types.Func {
	if f.Origin() != nil {
		f = f.Origin()
	}
	object, _ := f.Object().(*types.Func)
	return object
}

// qualified returns Type.Method or Function.
func qualified(f *types.Func) string {
	receiver := f.Signature().Recv()
	if receiver == nil {
		return f.Name()
	}
	t := receiver.Type()
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := types.Unalias(t).(*types.Named); ok {
		return n.Obj().Name() + "." + f.Name()
	}
	return f.Name()
}

// shown returns a function's name as users write it.
func shown(f *types.Func) string {
	if f.Signature().Recv() == nil && f.Pkg() != nil {
		return f.Pkg().Name() + "." + f.Name()
	}
	return qualified(f)
}

// ofLibrary reports whether f is in the library and, if names are given, has one of them.
func ofLibrary(f *types.Func, names ...string) bool {
	return f != nil && library(f.Pkg()) && (len(names) == 0 || slices.Contains(names, qualified(f)))
}

// closes reports whether f is a method that ends its receiver.
func closes(f *types.Func) bool {
	return f != nil && slices.Contains(closers, f.Name()) && f.Signature().Recv() != nil
}

// made returns the indices of the results of a library's function that its caller must close.
func made(f *types.Func) []int {
	if !ofLibrary(f) || ofLibrary(f, lent...) || !f.Exported() {
		return nil
	}
	if f.Signature().Recv() != nil && !ofLibrary(f, makers...) && !strings.HasPrefix(f.Name(), "New") &&
		!strings.HasPrefix(f.Name(), "Open") {
		return nil
	}
	var list []int
	results := f.Signature().Results()
	for i := range results.Len() {
		if resource(results.At(i).Type()) != nil {
			list = append(list, i)
		}
	}
	return list
}

// holdsArray reports whether a value of type t is an array, or a slice or struct with arrays.
func holdsArray(t types.Type) bool { return holds(t, "Array", 3) }

// holds reports whether a value of type t is of the library's type of that name, or contains one at most depth levels
// deep. It does not look behind pointers.
func holds(t types.Type, name string, depth int) bool {
	if depth == 0 || t == nil {
		return false
	}
	if is(t, name) {
		return true
	}
	switch u := types.Unalias(t).Underlying().(type) {
	case *types.Slice:
		return holds(u.Elem(), name, depth-1)
	case *types.Array:
		return holds(u.Elem(), name, depth-1)
	case *types.Map:
		return holds(u.Elem(), name, depth-1)
	case *types.Struct:
		for i := range u.NumFields() {
			if holds(u.Field(i).Type(), name, depth-1) {
				return true
			}
		}
	case *types.Tuple:
		for i := range u.Len() {
			if holds(u.At(i).Type(), name, depth-1) {
				return true
			}
		}
	}
	return false
}

// carries reports whether a value of type t can share memory with the value that it was made from.
func carries(t types.Type) bool {
	switch u := types.Unalias(t).Underlying().(type) {
	case *types.Basic:
		return false
	case *types.Struct:
		for i := range u.NumFields() {
			if carries(u.Field(i).Type()) {
				return true
			}
		}
		return false
	case *types.Interface:
		return !isError(t)
	}
	return true
}

// word returns the name of a resource in a message.
func word(n *types.Named) string {
	if n.Obj().Name() == "Compiled" {
		return "compiled function"
	}
	name := n.Obj().Name()
	return strings.ToLower(name[:1]) + name[1:]
}

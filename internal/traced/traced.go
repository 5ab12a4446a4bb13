// Package traced is what the package weir does for the package array beside its API: it takes modules that Go code
// built, and makes tensors for arrays.
package traced

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
)

// Load makes a *weir.Model of a module, which it does not keep. Where names the code that built it, in errors. The package
// weir sets it when it is initialised.
var Load func(where string, module *ir.Module) (model any, err error)

// New makes a *weir.Tensor, as weir.New does, at the line that a return address says. Its elements are zero if zeroed
// says so, and else whatever the memory held: for results that an operation writes whole. The package weir sets it when
// it is initialised.
var New func(dt dtype.DType, shape []int, at uintptr, zeroed bool) (tensor any, err error)

// Number makes a *weir.Tensor of one element, in Go's heap. The package weir sets it when it is initialised.
var Number func(dt dtype.DType) (tensor any, err error)

// Enter returns the bytes of a *weir.Tensor, which are there until leave is called, whoever closes the tensor. The
// package weir sets it when it is initialised.
var Enter func(tensor any) (data []byte, leave func(), err error)

// Run lends a *weir.Call, of a program without states, its inputs and places for its outputs, in the program's order,
// all of them *weir.Tensor, and runs it: what Bind of each and Call.Run do. The package weir sets it when it is
// initialised.
var Run func(call any, tensors []any) error

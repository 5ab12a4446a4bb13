// Package traced holds functions of the package weir for the package array that are not in its API: they load modules
// that Go code built, and make tensors for arrays.
package traced

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
)

// Load makes a *weir.Model from a module, which nobody may change any more. where is the source line that built it, for
// errors. If once is true, the model can be compiled once only, and describes itself before that: the compilation takes
// the module over, and the model has no text. The package weir sets Load when it is initialised.
var Load func(where string, module *ir.Module, once bool) (model any, err error)

// New makes a *weir.Tensor, as weir.New does, for the line of a return address. Its elements are zero if zeroed is
// true; otherwise they are undefined, for results that an operation writes in full. The package weir sets New when it
// is initialised.
var New func(dt dtype.DType, shape []int, at uintptr, zeroed bool) (tensor any, err error)

// Granted makes a *weir.Tensor of zeros in whole pages that an account has granted, and gets back when the tensor is
// closed. It also returns the bytes of these pages. account is a weir.Account. The package weir sets it when it is
// initialised.
var Granted func(account any, dt dtype.DType, shape []int) (tensor any, bytes int64, err error)

// Number makes a *weir.Tensor of one element, on Go's heap. The package weir sets it when it is initialised.
var Number func(dt dtype.DType) (tensor any, err error)

// Enter returns the bytes of a *weir.Tensor, which stay valid until leave is called, even if the tensor is closed. The
// package weir sets it when it is initialised.
var Enter func(tensor any) (data []byte, leave func(), err error)

// Run lends inputs, and memory for all outputs, to a *weir.Call of a program without states, and runs it: as Bind of
// each and Call.Run do. tensors are *weir.Tensor, inputs first, in the program's order. The package weir sets Run when
// it is initialised.
var Run func(call any, tensors []any) error

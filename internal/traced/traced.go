// Package traced hands a module that Go code built to the package weir, whose API does not name ir.
package traced

import "github.com/weirml/weir/internal/ir"

// Load makes a *weir.Model of a module, which it does not keep. Where names the code that built it, in errors. The package
// weir sets it when it is initialised.
var Load func(where string, module *ir.Module) (model any, err error)

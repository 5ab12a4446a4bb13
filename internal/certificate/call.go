package certificate

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
)

// CallFormula is the formula of CallPages.Call, compiled to be evaluated for each request.
type CallFormula struct{ terms []callTerm }

// callTerm is the size of count blocks.
type callTerm struct {
	count int64
	code  *sym.Code
}

// CallFormulaOf returns the formula for a program with a number of workers, over a vector with the values of the
// program's dimensions.
func CallFormulaOf(c *compiler.Compiled, workers int) (*CallFormula, error) {
	f := &CallFormula{}
	var dims []sym.Name
	data := map[sym.Name]bool{}
	for _, d := range c.Program.Dims {
		dims, data[d.Name] = append(dims, d.Name), d.Data
	}
	names := sym.NewNames(dims)
	var failed error
	eachBlock(c, workers, func(count int64, x sym.Expr) {
		for range c.Loop.Limits { // a limit may mention others
			x = sym.AtLimits(x, c.Loop.Limits)
		}
		code, err := names.Compile(x)
		if err == nil && slices.ContainsFunc(x.Vars(), func(name sym.Name) bool { return data[name] }) {
			err = diag.Unsupportedf("a size that data decide, without a limit")
		}
		if err != nil && failed == nil {
			failed = err
		}
		f.terms = append(f.terms, callTerm{count, code})
	})
	return f, failed
}

// Pages returns the bytes of the pages of a call, without what data decide.
func (f *CallFormula) Pages(dims []int64) (bytes int64, err error) {
	for _, t := range f.terms {
		v, err := t.code.Eval(dims)
		if err != nil || v < 0 {
			return 0, diag.Inputf("the bytes of a call are more than 64 bits count")
		}
		if v = mem.WholePages(v); v < 0 || v > (math.MaxInt64-bytes)/max(1, t.count) {
			return 0, diag.Inputf("the bytes of a call are more than 64 bits count")
		}
		bytes += t.count * v
	}
	return bytes, nil
}

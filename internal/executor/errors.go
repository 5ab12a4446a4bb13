package executor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// typed turns an overflow or a division by zero in a formula into an input error that gives the dimensions' values. To
// an error that names a node only, it adds the node's operator. It returns other errors unchanged.
func (x *Executable) typed(err error, values []int64) error {
	if err == nil { // before anything is allocated, since successful runs come here too
		return nil
	}
	var known *diag.Error
	divided := errors.Is(err, sym.ErrDivide)
	if errors.As(err, &known) || !divided && !errors.Is(err, sym.ErrOverflow) {
		return x.program.Operators.In(err)
	}
	if e := x.program.Oversize(func(name sym.Name) (int64, bool) {
		for i, d := range x.program.Dims {
			if d.Name == name && i < len(values) {
				return values[i], !d.Data || values[i] != 0
			}
		}
		return 0, false
	}); e != nil {
		return e
	}
	var dims []string
	labels := x.program.Labels()
	for i, d := range x.program.Dims {
		decided := d.Data && i < len(values) && values[i] == 0 // it has no value yet, or is 0: no size becomes large by it
		if i < len(values) && len(dims) < 8 && !decided {
			dims = append(dims, fmt.Sprintf("%s = %d", labels[d.Name], values[i]))
		}
	}
	if divided {
		return diag.Inputf("a formula divides by zero with %s: %w", strings.Join(dims, ", "), err)
	}
	return diag.Inputf("a size is past 64 bits with %s: %w", strings.Join(dims, ", "), err)
}

package executor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// typed makes an error of evaluating a formula, such as a size past 64 bits, the fault of the values that the dimensions have.
func (x *Executable) typed(err error, values []int64) error {
	if err == nil { // before anything is allocated: a run that ends well asks too
		return nil
	}
	var known *diag.Error
	if errors.As(err, &known) || !errors.Is(err, sym.ErrOverflow) {
		return err
	}
	var dims []string
	for i, d := range x.program.Dims {
		if i < len(values) && len(dims) < 8 {
			dims = append(dims, fmt.Sprintf("%s = %d", d.Name, values[i]))
		}
	}
	return diag.Inputf("a size is past 64 bits with %s: %w", strings.Join(dims, ", "), err)
}

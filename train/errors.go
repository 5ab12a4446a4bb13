package train

import (
	"fmt"

	"github.com/weirml/weir"
)

// NotFinite is the error of a step whose loss, gradients or new buffers are infinite or NaN. The step changed nothing:
// parameters, moments, buffers, the number of steps and accumulated gradients are as before.
type NotFinite struct {
	Step      int64
	Loss      float64
	Gradients bool // the loss is finite, the gradients are not
	// the loss is finite, a buffer would not be: for example, BatchNorm's variance of one value per channel is NaN
	Buffers bool
}

// Error returns the step, the values that are not finite and a fix.
func (e *NotFinite) Error() string {
	what := fmt.Sprintf("the loss is %v", e.Loss)
	if e.Gradients {
		what = fmt.Sprintf("the loss is %v, and gradients are not finite", e.Loss)
	}
	if e.Buffers {
		return fmt.Sprintf("step %d: the loss is %v, and a running statistic would not be finite; parameters are as before "+
			"the step "+
			"(fix: give BatchNorm more than one value for each channel, as by DataOptions.DropLast, or look at the batch)",
			e.Step, e.Loss)
	}
	return fmt.Sprintf("step %d: %s; parameters are as before the step (fix: lower the learning rate, clip gradients, "+
		"or look at the batch)", e.Step, what)
}

// Is reports whether target is weir.ErrInput.
func (e *NotFinite) Is(target error) bool { return target == weir.ErrInput }

// Torn is the error of a step that failed after it began to write parameters or moments, and of every later step: the
// named states are old, new or partly written. Restore of a checkpoint ends the condition.
type Torn struct {
	Step  int64
	Names []string
	Err   error
}

// Error returns the step, the states and the cause.
func (e *Torn) Error() string {
	return fmt.Sprintf("step %d ended while it wrote %v: %v (fix: Restore a checkpoint)", e.Step, e.Names, e.Err)
}

// Unwrap returns the error that ended the step.
func (e *Torn) Unwrap() error { return e.Err }

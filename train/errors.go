package train

import (
	"fmt"

	"github.com/weirml/weir"
)

// NotFinite is the error of a step whose loss, whose gradients, or whose new buffers are infinite or no numbers.
// Nothing changed: parameters, moments, buffers and the step's number are as before the step, and so are gradients that
// are added up.
type NotFinite struct {
	Step      int64
	Loss      float64
	Gradients bool // the loss is finite, the gradients are not
	Buffers   bool // the loss is finite, a buffer would not be: BatchNorm has no variance of one value for each channel
}

// Error names the step.
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

// Is reports that it is an error of the input.
func (e *NotFinite) Is(target error) bool { return target == weir.ErrInput }

// Torn is the error of a step that failed when it had begun to write parameters or moments, and of every step after it:
// each of those named has its new value or a part of it. Restore, from a checkpoint, ends that.
type Torn struct {
	Step  int64
	Names []string
	Err   error
}

// Error names what is torn.
func (e *Torn) Error() string {
	return fmt.Sprintf("step %d ended while it wrote %v: %v (fix: Restore a checkpoint)", e.Step, e.Names, e.Err)
}

// Unwrap is what ended the step.
func (e *Torn) Unwrap() error { return e.Err }

package weir

import (
	"context"

	"github.com/weirml/weir/internal/session"
)

// Call is a run with bound dimensions, inputs and outputs: repeating it allocates nothing. One goroutine uses it at a
// time: Run and Bind return ErrInput while another goroutine uses the call, Input and Output wait. A Call occupies one
// of the program's calls until closed.
type Call session.Call

func (c *Call) inner() *session.Call { return (*session.Call)(c) }

// NewCall makes a call with these dimensions; d needs a value for each dimension of Program.Dims. If Options.Calls
// calls are in use, it does not wait: the error is ErrInput, and names the line that holds the oldest. All inputs and
// outputs must be tensors of numbers.
func (p *Program) NewCall(d Dims) (*Call, error) {
	c, err := p.session.NewCall(d)
	return (*Call)(c), err
}

// Input returns the tensor bound to an input; if none is bound, it makes a tensor of zeros to fill, and binds it. It is
// nil if there is no such input, if the call is closed, or if memory is refused: in the last case Run returns the
// error.
func (c *Call) Input(name string) *Tensor { return (*Tensor)(c.inner().Input(name)) }

// Bind lends a tensor to an input, or makes the runs that follow write an output to a tensor; the call allocates no
// memory for such outputs (Memory.Binding). A tensor bound to an output starts at a multiple of 64 bytes, as tensors of
// New do, and shares no memory with the inputs and other outputs, with one exception: it may also be bound to an input
// that the output may overwrite (see Donate), and is then updated in place. An input that is a state is bound to an
// Update, and its output is the same tensor. A tensor bound by Consume must have memory of its own, as tensors of New
// do; the next run consumes it, after which the input is unbound. A Donate is refused.
func (c *Call) Bind(name string, a Arg) error {
	return c.inner().Bind(name, session.Argument(a.given()))
}

// Run runs the call on its inputs. It overwrites the outputs of the previous run, and updates states in place.
func (c *Call) Run(ctx context.Context) error { return c.inner().Run(ctx) }

// Output returns an output of the last run; nil if there is none with that name. The tensor is invalid after Close.
func (c *Call) Output(name string) *Tensor { return (*Tensor)(c.inner().Output(name)) }

// Close returns the call to the program. It does not wait for a run: the call is then returned when the run ends.
// Closing twice is allowed.
func (c *Call) Close() error { return c.inner().Close() }

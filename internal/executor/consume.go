package executor

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/program"
)

// A consumed argument is given back after the last step that reads it. A branch or a loop is one step here, since it
// may read the argument to its end.

// ending is an argument that the next run consumes.
type ending struct {
	input int
	last  int // the step after which it is given back; −1 if no step reads it
	done  func() error
}

// Consume makes the next run call done after its last read of input i, which was lent. A run that fails earlier does
// not call it.
func (c *Call) Consume(i int, done func() error) {
	c.endings = append(c.endings, ending{i, c.x.layout.last[i], done})
}

// consuming runs the program's steps and returns consumed arguments on the way. It allocates outputs as late as
// possible, after consumed arguments are returned.
func (c *Call) consuming() error {
	slices.SortStableFunc(c.endings, func(a, b ending) int { return a.last - b.last })
	steps, from := c.x.program.Steps, 0
	for _, e := range c.endings {
		if err := c.readyAt(e.last + 1); err != nil {
			return err
		}
		if err := c.follow(steps, from, e.last+1); err != nil {
			return err
		}
		from = e.last + 1
		if err := e.done(); err != nil {
			return err
		}
	}
	if err := c.readyAt(math.MaxInt); err != nil {
		return err
	}
	return c.follow(steps, from, len(steps))
}

// early returns the number of the program's own steps whose outputs are allocated before the run begins: all, unless
// the run consumes an argument. If it updates a state, memory must be refused before that.
func (c *Call) early() int {
	if len(c.endings) == 0 || c.x.layout.states || c.watch != nil || c.guards != nil || c.x.poison {
		return math.MaxInt
	}
	return 0
}

// follow runs the program's own steps from index from up to to.
func (c *Call) follow(steps []program.Step, from, to int) error {
	for at := from; at < to; at++ {
		if c.x.layout.states {
			if err := c.ctx.Err(); err != nil { // before the step, so that it has written nothing
				return err
			}
		}
		c.reached, c.next = at, c.own[at]
		if err := c.steps(steps[at : at+1]); err != nil {
			return err
		}
	}
	return nil
}

// Begun reports whether the last run began the step that first writes the new value of input i, a state.
func (c *Call) Begun(i int) bool {
	first := c.x.layout.updated[i]
	return first >= 0 && first <= c.reached
}

// Writing returns the shape of input i, a state, if the step at which the last run ended writes its new value; nil
// otherwise.
func (c *Call) Writing(i int) (shape []int64) {
	p := c.x.program
	if c.reached < 0 || c.reached >= len(p.Steps) || p.NewValue(i) < 0 {
		return nil
	}
	state := p.Outputs[p.NewValue(i)].Tensor
	program.Mentions(p.Steps[c.reached:c.reached+1], func(t int) {
		for t != state && p.Tensors[t].Class == program.View {
			t = p.Tensors[t].Of
		}
		if t == state {
			shape = c.shapes[p.Inputs[i].Tensor]
		}
	})
	return shape
}

// firstWrites returns, for each input that is a state, the index of the first of the program's own steps that mentions
// its new value; −1 for others.
func firstWrites(p *program.Program) []int {
	at := map[int]int{} // by tensor
	for step, s := range p.Steps {
		program.Mentions([]program.Step{s}, func(t int) {
			for ; ; t = p.Tensors[t].Of {
				if _, seen := at[t]; !seen {
					at[t] = step
				}
				if p.Tensors[t].Class != program.View {
					break
				}
			}
		})
	}
	out := make([]int, len(p.Inputs))
	for i := range out {
		out[i] = -1
		if o := p.NewValue(i); o >= 0 {
			if step, is := at[p.Outputs[o].Tensor]; is {
				out[i] = step
			}
		}
	}
	return out
}

// forget drops the addresses of consumed arguments.
func (c *Call) forget() {
	for _, e := range c.endings {
		c.operands[c.x.program.Inputs[e.input].Tensor].Base = nil
	}
	clear(c.endings)
	c.endings = c.endings[:0]
}

// lastReads returns, for each input, the index of the last of the program's own steps that mentions it or a view of it;
// −1 if none does.
func lastReads(p *program.Program) []int {
	inputs := map[int]int{} // by tensor
	out := make([]int, len(p.Inputs))
	for i, port := range p.Inputs {
		inputs[port.Tensor], out[i] = i, -1
	}
	for at, step := range p.Steps {
		program.Mentions([]program.Step{step}, func(t int) {
			if i, is := inputs[p.Root(t)]; is {
				out[i] = at
			}
		})
	}
	return out
}

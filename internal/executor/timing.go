package executor

import (
	"time"

	"github.com/weirml/weir/internal/program"
)

// Timing receives the duration of each launch, host operator and copy.
type Timing func(step program.Step, took time.Duration)

// Time gives the call a timing for the runs that follow; nil ends it.
func (c *Call) Time(t Timing) { c.timing = t }

// timed runs a step and reports its duration; the steps of a body are reported by themselves.
func (c *Call) timed(step program.Step) error {
	switch step.(type) {
	case *program.Launch, *program.Host, *program.Copy:
		begin := time.Now()
		err := c.step(step)
		if err == nil && c.queue != nil {
			err = c.awaitDevice() // else only the time of queueing would be measured
		}
		c.timing(step, time.Since(begin))
		return err
	}
	return c.step(step)
}

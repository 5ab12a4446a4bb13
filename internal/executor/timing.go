package executor

import (
	"time"

	"github.com/weirml/weir/internal/program"
)

// Timing is told, while a call has one, how long each launch, host operator and copy took. It changes nothing else.
type Timing func(step program.Step, took time.Duration)

// Time gives the call a timing for the runs that follow; nil ends it.
func (c *Call) Time(t Timing) { c.timing = t }

// timed does a step of the program and tells how long that took; bodies are made of steps of their own.
func (c *Call) timed(step program.Step) error {
	switch step.(type) {
	case *program.Launch, *program.Host, *program.Copy:
		begin := time.Now()
		err := c.step(step)
		if err == nil && c.queue != nil {
			err = c.awaitDevice() // or it would be the time that it took to ask
		}
		c.timing(step, time.Since(begin))
		return err
	}
	return c.step(step)
}

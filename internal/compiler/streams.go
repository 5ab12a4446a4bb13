package compiler

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/program"
)

// A device runs its steps in a stream of its own, concurrently with the host. After a copy between the two memories,
// the host waits before its next own step and at the end of a body, since it may touch memory that the copy reads or
// writes.

// stream returns the number of a device's stream, which it adds if it is new; 0 is the host's own order.
func (a *assembly) stream(device string) int {
	if device == "" {
		return 0
	}
	if len(a.to.Streams) == 0 {
		a.to.Streams = []program.Stream{{Name: device, Device: device}}
		a.to.Events = []string{"done"}
	}
	return 1
}

// await makes the host wait for pending copies before a step of its own, and marks a copy between memories as pending.
func (a *assembly) await(out []program.Step, step loop.Step) []program.Step {
	switch s := step.(type) {
	case *loop.Launch:
		if s.Device != "" {
			return out
		}
	case *loop.Copy:
		if from, to := s.From.Memory(), s.To.Memory(); from != "" || to != "" {
			a.pending = a.pending || from != to
			return out
		}
	}
	return a.finish(out)
}

// finish makes the host wait for all pending copies.
func (a *assembly) finish(out []program.Step) []program.Step {
	if !a.pending {
		return out
	}
	a.pending = false
	return append(out, &program.Record{Event: 0, Stream: 1}, &program.Wait{Event: 0, Stream: 0})
}

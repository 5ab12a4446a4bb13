package compiler

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/program"
)

// What a device does, it does in a stream of its own, beside the host, which goes on at once. The host waits where it
// may touch what a copy between the two memories reads or writes: before its next own step, and at the end of a body.

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

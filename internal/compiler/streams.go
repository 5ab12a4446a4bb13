package compiler

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/program"
)

// What a device does, it does in a stream of its own, beside the host, which goes on at once. The host waits where it
// may touch what a copy between the two memories reads or writes: before its next own step, and at the end of a body.

// stream is the number of a device's stream, made when first asked for; 0 is the host's own order.
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

// await has the host wait for copies that are under way where a step is its own, and notes those that a step begins.
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

// finish has the host wait for all copies that are under way.
func (a *assembly) finish(out []program.Step) []program.Step {
	if !a.pending {
		return out
	}
	a.pending = false
	return append(out, &program.Record{Event: 0, Stream: 1}, &program.Wait{Event: 0, Stream: 0})
}

package weir

import (
	"context"
	"time"

	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/timing"
)

// KernelTime is the profile of one kernel launch, host operator or copy.
type KernelTime struct {
	Nodes  string `json:"nodes"`  // the model's nodes that it computes
	Kernel string `json:"kernel"` // the kernel's name, or the host operator's, or "copy"
	// Backend made the code: "amd64" or another machine's name, "portable", "reference", or "host".
	Backend string `json:"backend"`
	// Why says why it is not machine code, or which parts of the code are slower than scheduled.
	Why []string `json:"why,omitempty"`
	// Delays says what may make the launch much longer than its arithmetic and its bytes: the parts of an estimate of its
	// time, largest first, with their shares. It is empty for host operators and copies.
	Delays []string `json:"delays,omitempty"`
	// Count is the number of executions in a run: several in a loop, 0 in a branch that is not taken.
	Count int           `json:"count"`
	Time  time.Duration `json:"nanoseconds"`
	// Operations is the arithmetic of the results by the operators' definitions: without padding, and the same for every
	// algorithm. Done is the arithmetic that the launch executes, and Slots the same in f32 operations: narrow products
	// that one instruction sums count as one. Bytes is the least number of bytes to move, of which Weights belong to
	// constants. All are 0 for host operators.
	Operations int64 `json:"operations"`
	Done       int64 `json:"done"`
	Slots      int64 `json:"slots"`
	Bytes      int64 `json:"bytes"`
	Weights    int64 `json:"weights"`
	// Tiles is the number of pieces that several workers may share; 0 for host operators. Alone says why one worker
	// computes the launch, although a run has several; it is empty if they share it.
	Tiles int64  `json:"tiles"`
	Alone string `json:"alone,omitempty"`
}

// Kernels lists the launches as Profile does, without a run: counts and times are 0, and the other fields are for
// dimensions at their minimum, but at least 1.
func (p *Program) Kernels() []KernelTime {
	dims := make([]int64, len(p.compiled.Program.Dims))
	for i, d := range p.compiled.Program.Dims {
		dims[i] = max(d.Range.Min, 1)
	}
	list, _ := timing.Launches(p.compiled, dims)
	return each(list, kernelTime)
}

// Profile runs the program runs times and returns the shortest time of each launch. The time of a launch in a loop is
// the sum over the iterations.
func (p *Program) Profile(ctx context.Context, in Inputs, runs int) ([]KernelTime, error) {
	list, err := timing.Profile(ctx, p.compiled, p.session, arguments(in), runs)
	if err != nil {
		return nil, err
	}
	times := each(list, kernelTime)
	if workers := p.Memory().Workers; workers > 1 && p.target != Vulkan {
		for i := range times {
			times[i].Alone = alone(times[i])
		}
	}
	return times, nil
}

// alone returns why one worker computes a launch; empty if several share it.
func alone(k KernelTime) string {
	switch {
	case k.Backend == "host":
		return "a host operator"
	case k.Tiles <= 1:
		return "one tile"
	case k.Count > 0 && k.Time/time.Duration(k.Count) < target.LeastShared:
		return "shorter than " + target.LeastShared.String()
	}
	return ""
}

// kernelTime returns a launch as the public type.
func kernelTime(l timing.Launch) KernelTime { return KernelTime(l) }

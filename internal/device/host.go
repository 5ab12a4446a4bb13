package device

import "github.com/weirml/weir/internal/target"

// Host is the machine's own processors. They run a program's own order, and its streams that have no device.
type Host interface {
	// NewTeam makes the workers of a call.
	NewTeam() Team
}

// Team is the workers of one run at a time. Worker 0 is the goroutine that entered.
type Team interface {
	// Enter takes a place among the runs of the process, for at most width workers. Where all places are taken it
	// waits, until stop. Stop also ends launches.
	Enter(width int, stop target.Stop) error
	// Leave gives up the team's places, if it has any. The team may enter again.
	Leave()
	// Launch runs a job's tiles, and returns when all are done. scratch has an entry for each worker. The error is that
	// of the first tile, in order, that failed, or target.ErrStopped.
	Launch(j *Job, scratch [][]byte) error
}

// Job is a launch on a host: a kernel, its arguments, the number of its tiles and, if they are not all independent,
// their order.
type Job struct {
	Kernel target.Kernel
	Args   target.Args
	Tiles  int64
	Course *target.Course
	// Known is what a host remembers of the job from one launch to the next, such as how long tiles take. It is the
	// host's alone.
	Known any
}

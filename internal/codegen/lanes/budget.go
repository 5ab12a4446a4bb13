package lanes

// The costs of instructions that these limits count: about a quarter of a nanosecond each, four times as much if each
// must wait for memory.
const (
	callMost  = 1 << 19 // between two returns to Go
	TileMost  = 1 << 17 // of a tile without a pause
	LoopMost  = 1 << 16 // of a loop without a pause, inside a tile that has others
	loopSmall = 1 << 12 // of a loop that is counted with the code around it
	guessMost = 1 << 9  // the same, if it may also be shorter than counted
)

// The header's words, by their distance from the frame.
const (
	BudgetWord = -8  // the cost left before the code returns
	PauseWord  = -16 // the address of the routine that saves registers
	ResumeWord = -24 // the address at which the code continues
)

// Paused is the status of code that has not ended. Others are 0, and the number of a check that failed.
const Paused = -1

// PauseAlways makes every loop return at every iteration; tests set it.
var PauseAlways bool

// longestMost is the largest legal result of longestOf. A larger one is a bug.
const longestMost = 1 << 19

package weir

import (
	"context"

	"github.com/weirml/weir/internal/executor"
)

// Measurement is the memory that one watched run used, in bytes. Measure does not read the plan: it records the
// addresses and sizes of the operands, scratch and outputs that launches received, in storage that was filled with a
// pattern.
type Measurement struct {
	Weights, Code, Arena, Outputs, Scratch int64 // Scratch is the sum over all workers
	// ArenaWritten and OutputsWritten are the offsets after the last byte that changed.
	ArenaWritten, OutputsWritten int64
	ScratchWritten               int64 // the same, of one worker's scratch
	// Kernel is the operating system's own count of the call's mappings, and Mapped the same sizes in full pages; 0 if
	// the system does not tell.
	Kernel, Mapped int64
	// DeviceWeights and DeviceCall are the bytes requested from the device's driver for the program and for the measured
	// call.
	DeviceWeights, DeviceCall int64
	// Decided has the largest size of each dimension that data determine. With the inputs' dimensions, it binds the
	// certificate's formulas.
	Decided Dims

	bodies []uint8          // the bodies of branches and loops that ran: see session.Measurement
	joint  []executor.Joint // the sizes of dimensions that data determine together
}

// Peak returns the measured peak for a number of such calls at once: compare it with the prediction of Memory.Peak.
func (m Measurement) Peak(calls int) int64 {
	return m.Weights + m.Code + int64(calls)*(m.Arena+m.Outputs+m.Scratch)
}

// Measure runs the program twice on the same inputs, in separate memory filled with two patterns, and returns the
// memory used. It allocates that memory beside the program's calls. The caller keeps its arguments: consumed arguments
// are lent, donated and updated arguments are copied.
func (p *Program) Measure(ctx context.Context, in Inputs) (m Measurement, err error) {
	m, _, err = p.measure(ctx, in)
	return m, err
}

// measure is Measure that also returns the ranges that steps received.
func (p *Program) measure(ctx context.Context, in Inputs) (Measurement, []executor.Access, error) {
	seen, err := p.session.Measure(ctx, arguments(in), p.deviceAsked)
	m := Measurement{Weights: seen.Weights, Arena: seen.Arena, Outputs: seen.Outputs, Scratch: seen.Scratch,
		ArenaWritten: seen.ArenaWritten, OutputsWritten: seen.OutputsWritten, ScratchWritten: seen.ScratchWritten,
		Kernel: seen.Kernel, Mapped: seen.Mapped, DeviceWeights: p.deviceHeld, DeviceCall: seen.DeviceCall,
		Decided: seen.Decided, bodies: seen.Bodies, joint: seen.Joint}
	if held := p.compiled.Code.Held; held != nil && err == nil {
		m.Code = held()
	}
	return m, seen.Ranges, err
}

package weir

import (
	"context"
	"fmt"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/report"
)

// Measurement is the memory that one watched run used, in bytes. It does not read the plan: it records the extents of
// the operands, scratch and outputs that launches received, in storage that was filled with a pattern.
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

	bodies []uint8 // what was run of the branches and loops, as walkBodies asks for it
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
func (p *Program) measure(ctx context.Context, in Inputs) (m Measurement, ranges []executor.Access, err error) {
	defer diag.Recover(&err, "measuring")
	args, dims, err := p.bindInputs(in)
	defer args.release()
	if err != nil {
		return m, nil, err
	}
	x, err := p.enter()
	if err != nil {
		return m, nil, err
	}
	defer p.engine.Leave()
	if err := p.unchanged(); err != nil {
		return m, nil, err
	}
	before := p.deviceAsked()
	call, err := p.bind(x, dims)
	if err != nil {
		return m, nil, err
	}
	defer call.Close()
	if err := args.copyAll(p); err != nil {
		return m, nil, err
	}
	parts, lend, err := args.lend(call)
	if err != nil {
		return m, nil, err
	}
	for _, pattern := range []byte{0x5a, 0xc3} {
		call.Watch(pattern)
		lend()
		if err := p.run(ctx, call, parts); err != nil {
			return m, nil, err
		}
		seen := call.Measured(pattern)
		m.Weights, m.Arena, m.Outputs, m.Scratch = seen.Weights+p.ownHeld(), seen.Arena, seen.Outputs, seen.Scratch
		m.Decided, ranges = Dims{}, seen.Accesses
		for i, d := range p.compiled.Program.Dims {
			if d.Data {
				m.Decided[p.label(i)] = seen.Decided[i]
			}
		}
		m.bodies = nil
		report.WalkBodies(p.compiled.Program.Steps, func(s program.Step) uint8 {
			m.bodies = append(m.bodies, seen.Bodies[s])
			return 3
		}, nil)
		m.ArenaWritten, m.OutputsWritten = max(m.ArenaWritten, seen.ArenaWritten), max(m.OutputsWritten, seen.OutputsWritten)
		if m.ScratchWritten = max(m.ScratchWritten, seen.ScratchWritten); seen.Beyond != nil {
			return m, nil, seen.Beyond
		}
	}
	if held := p.compiled.Code.Held; held != nil {
		m.Code = held()
	}
	m.DeviceWeights, m.DeviceCall = p.deviceHeld, p.deviceAsked()-before
	if extent, ok := mem.KernelBytes(call.Blocks()...); ok {
		m.Kernel = extent.Size
		for _, b := range call.Blocks() {
			m.Mapped += b.Mapped()
		}
		if m.Kernel != m.Mapped {
			return m, nil, fmt.Errorf("the kernel counts %d bytes for mappings of %d", m.Kernel, m.Mapped)
		}
	}
	if m.ArenaWritten > m.Arena || m.OutputsWritten > m.Outputs {
		return m, nil, diag.Internalf("a kernel wrote beyond its operands: arena %d of %d, outputs %d of %d", m.ArenaWritten,
			m.Arena, m.OutputsWritten, m.Outputs)
	}
	return m, ranges, nil
}

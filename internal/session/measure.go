package session

import (
	"context"
	"fmt"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/report"
)

// Measurement is the memory that one watched run used, in bytes, with the fields of weir.Measurement.
type Measurement struct {
	Weights, Arena, Outputs, Scratch int64 // Weights include the session's own states
	ArenaWritten, OutputsWritten     int64
	ScratchWritten                   int64
	Kernel, Mapped                   int64
	DeviceCall                       int64            // bytes that the call requested from the device's driver
	Decided                          map[string]int64 // sizes of the dimensions that data determine
	// Bodies has, for each branch and loop in the order of report.WalkBodies, the bodies that ran, as bits.
	Bodies []uint8
	Joint  []executor.Joint  // the sizes of dimensions that data determine together
	Ranges []executor.Access // the ranges of memory that the steps received
}

// Measure runs the program twice on the same inputs, in separate memory filled with two patterns, as
// weir.Program.Measure does. device returns the bytes requested from the device's driver so far; 0 without a device.
func (s *Session) Measure(ctx context.Context, in Arguments, device func() int64) (m Measurement, err error) {
	defer diag.Recover(&err, "measuring")
	args, dims, err := s.bindInputs(ctx, in)
	defer args.release()
	if err != nil {
		return m, err
	}
	x, err := s.Enter()
	if err != nil {
		return m, err
	}
	defer s.Leave()
	if err := s.Unchanged(); err != nil {
		return m, err
	}
	before := device()
	call, err := s.bind(ctx, x, dims)
	if err != nil {
		return m, err
	}
	defer call.Close()
	if err := args.copyAll(s); err != nil {
		return m, err
	}
	if err := args.fetchStates(); err != nil {
		return m, err
	}
	parts, lend, err := args.lend(call)
	if err != nil {
		return m, err
	}
	for _, pattern := range []byte{0x5a, 0xc3} {
		call.Watch(pattern)
		lend()
		if err := s.run(ctx, call, parts, nil); err != nil {
			return m, err
		}
		seen := call.Measured(pattern)
		m.Weights, m.Arena, m.Outputs, m.Scratch = seen.Weights+s.OwnBytes(), seen.Arena, seen.Outputs, seen.Scratch
		m.Decided, m.Ranges = map[string]int64{}, seen.Accesses
		for i, d := range s.prog.Dims {
			if d.Data {
				m.Decided[s.label(i)] = seen.Decided[i]
			}
		}
		m.Bodies, m.Joint = nil, seen.Joint
		report.WalkBodies(s.prog.Steps, func(s program.Step) uint8 {
			m.Bodies = append(m.Bodies, seen.Bodies[s])
			return 3
		}, nil)
		m.ArenaWritten, m.OutputsWritten = max(m.ArenaWritten, seen.ArenaWritten), max(m.OutputsWritten, seen.OutputsWritten)
		if m.ScratchWritten = max(m.ScratchWritten, seen.ScratchWritten); seen.Beyond != nil {
			return m, seen.Beyond
		}
	}
	m.DeviceCall = device() - before
	if size, ok := mem.KernelSize(call.Blocks()...); ok {
		m.Kernel = size
		for _, b := range call.Blocks() {
			m.Mapped += b.Mapped()
		}
		if m.Kernel != m.Mapped {
			return m, fmt.Errorf("the kernel counts %d bytes for mappings of %d", m.Kernel, m.Mapped)
		}
	}
	if m.ArenaWritten > m.Arena || m.OutputsWritten > m.Outputs {
		return m, diag.Internalf("a kernel wrote beyond its operands: arena %d of %d, outputs %d of %d", m.ArenaWritten,
			m.Arena, m.OutputsWritten, m.Outputs)
	}
	return m, nil
}

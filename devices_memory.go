package weir

import (
	"slices"

	"github.com/weirml/weir/internal/certificate"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// DeviceMemory is the certificate of a device's memory: the program requests weights + calls × (arena + states +
// scratch + queue) from the driver, each a size in bytes over the model's named dimensions. The driver may round blocks
// up.
type DeviceMemory struct {
	Name    string // the device's name, or "vulkan" if the device is not on this machine
	Weights Size   // constants that the device's kernels read
	Arena   Size   // working memory of one run
	// States is the memory of the states that one run updates. A tensor that runs update keeps it until it is closed, so
	// further tensors, of runs that are not active, take as much each.
	States  Size
	Scratch Size // the largest workspace of a launch
	// Queue is the memory of one run's queue: arguments, and staging buffers if the host cannot access the device's
	// memory.
	Queue         Size
	LowerBound    Size // no plan of this arena is smaller
	DataDependent Size // the share of Arena that a run allocates when data have determined its size
}

// Formula returns the peak for a number of calls.
func (m *DeviceMemory) Formula(calls int) Size {
	call := sym.Sum(m.Arena.x, m.States.x, m.Scratch.x, m.Queue.x)
	return Size{m.Arena.dims.Simplify(m.Weights.x.Add(call.Mul(sym.Const(int64(calls))))), m.Arena.dims}
}

// onDevice returns the certificate of the program's device memory; nil for a program without a device.
func (m *Memory) onDevice() *DeviceMemory {
	t, ok := certificate.DeviceTermsOf(m.program.compiled)
	if !ok {
		return nil
	}
	name, queue := target.VulkanName, int64(0)
	if d := m.program.device; d != nil {
		name, queue = d.Name(), d.QueueBytes()
	}
	return &DeviceMemory{Name: name, Weights: m.size(sym.Const(t.Weights)), Arena: m.size(t.Arena),
		States: m.size(t.States), Scratch: m.size(t.Scratch), Queue: m.size(sym.Const(queue)),
		LowerBound: m.size(t.LowerBound), DataDependent: m.size(t.DataDependent)}
}

// OnHost is a step of a device's program that runs on the host.
type OnHost struct {
	Nodes  string `json:"nodes"`  // the model's nodes that it computes
	Step   string `json:"step"`   // the kernel, or the host operator
	Reason string `json:"reason"` // why the device does not run it
}

// OnHost lists the steps of a device's program that run on the host: kernels that the device cannot run, and host
// operators. Copies between the two memories surround them.
func (p *Program) OnHost() (list []OnHost) {
	if p.compiled.Device.Arena == nil {
		return nil
	}
	for _, r := range p.compiled.Device.Refused {
		list = append(list, OnHost{r.Source, r.Kernel, r.Reason})
	}
	program.Walk(p.compiled.Program.Steps, func(step program.Step) {
		if s, ok := step.(*program.Host); ok {
			list = append(list, OnHost{s.Source, s.Op,
				"it is computed element by element, and has no loops that a device could run"})
		}
	})
	return list
}

// DeviceKernel is a kernel of a device, or a part of one that is launched by itself, with the resources of a launch.
type DeviceKernel struct {
	Name    string `json:"name"`
	Nodes   string `json:"nodes"`        // the model's nodes that it computes
	Shared  int64  `json:"shared_bytes"` // shared memory of the threads of a block
	Threads int64  `json:"invocations"`  // the threads of a block
}

// DeviceKernels lists the device's kernels, and the limits that they were compiled for.
func (p *Program) DeviceKernels() (limits DeviceInfo, list []DeviceKernel) {
	m := p.compiled.Machine
	limits = DeviceInfo{Name: target.VulkanName, Shared: m.Limits.Shared, Threads: m.Limits.Invocations,
		Subgroup: m.Limits.Subgroup, Features: slices.Clone(m.Features)}
	for i, k := range p.compiled.Code.Kernels {
		b, ok := k.(target.Blocks)
		if !ok {
			continue
		}
		for _, e := range b.Binary().Entries {
			list = append(list, DeviceKernel{k.Name(), p.compiled.Loop.Kernels[i].Source, e.Shared, e.Threads})
		}
	}
	return limits, list
}

package weir

import (
	"slices"

	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// DeviceMemory is the certificate of a device's memory: what is asked of its driver is weights + calls × (arena +
// scratch + queue), each a size in bytes over the model's named dimensions. The driver may round blocks up.
type DeviceMemory struct {
	Name    string // the device's, or "vulkan" for one that is not here
	Weights Size   // constants that kernels there read
	Arena   Size   // working memory of one run
	Scratch Size   // of one launch, the greediest
	// what a run's queue takes for arguments, and for what is on its way where the host does not see the device's memory
	Queue         Size
	LowerBound    Size // no plan of this arena is smaller
	DataDependent Size // of Arena, what a run takes when data have decided its size
}

// Formula is the whole for so many calls.
func (m *DeviceMemory) Formula(calls int) Size {
	call := sym.Sum(m.Arena.x, m.Scratch.x, m.Queue.x)
	return Size{m.Arena.dims.Simplify(m.Weights.x.Add(call.Mul(sym.Const(int64(calls))))), m.Arena.dims}
}

// deviceAlign is where weights begin in a device's block of them.
const deviceAlign = 64

// newDeviceMemory is the certificate of what a program takes of its device; nil if it has none.
func newDeviceMemory(p *Program, size func(x sym.Expr) Size) *DeviceMemory {
	c := p.compiled
	if c.Device.Arena == nil {
		return nil
	}
	weights := int64(0)
	for _, w := range c.Program.Weights {
		if w.Device != "" {
			weights = (weights+deviceAlign-1)/deviceAlign*deviceAlign + int64(len(w.Data))
		}
	}
	arena, bound, late := c.Device.Arena.Arena, c.Device.Arena.Bound, sym.Const(0)
	for _, l := range c.Late {
		if l.Device != "" {
			arena, bound, late = arena.Add(l.Plan.Arena), bound.Add(l.Plan.Bound), late.Add(l.Plan.Arena)
		}
	}
	m := &DeviceMemory{Name: target.VulkanName, Weights: size(sym.Const(weights)), Arena: size(arena),
		Scratch: size(c.Device.Scratch), LowerBound: size(bound), DataDependent: size(late)}
	queue := int64(0)
	if p.device != nil {
		m.Name, queue = p.device.Name(), p.device.QueueBytes()
	}
	m.Queue = size(sym.Const(queue))
	return m
}

// OnHost is a part of a program for a device that runs on the host.
type OnHost struct {
	Nodes  string `json:"nodes"`  // the model's
	Step   string `json:"step"`   // the kernel, or the host operator
	Reason string `json:"reason"` // why the device does not run it
}

// OnHost lists what a program for a device computes on the host: kernels that the device cannot run, and operators that
// are no kernels. Copies between the two memories stand around them.
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

// DeviceKernel is a part of a kernel that a device runs: what a launch of it asks of the machine.
type DeviceKernel struct {
	Name    string `json:"name"`
	Nodes   string `json:"nodes"`        // the model's
	Shared  int64  `json:"shared_bytes"` // that the threads of a block share
	Threads int64  `json:"invocations"`  // of a block
}

// DeviceKernels lists what the device runs, and the limits that it was compiled within.
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

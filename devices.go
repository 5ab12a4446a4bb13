package weir

import (
	"errors"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/target"
)

// ErrDeviceLost is the error of a run on a device that has stopped working. The contents of its memory are lost; a
// program that is compiled later opens the device again.
var ErrDeviceLost = device.ErrLost

// DeviceInfo describes a device that programs may run on.
type DeviceInfo struct {
	Name     string   `json:"name"`             // the target and the number, as "vulkan:0"
	Product  string   `json:"product"`          // the vendor's name for it
	Driver   string   `json:"driver"`           // the driver's name and version
	Memory   int64    `json:"memory_bytes"`     // the size of its largest memory
	Shared   int64    `json:"shared_bytes"`     // shared memory of the threads of a block
	Threads  int64    `json:"invocations"`      // the most threads of a block
	Subgroup int64    `json:"subgroup"`         // threads that execute in lockstep
	Features []string `json:"features"`         // the features that generated code may use
	Why      string   `json:"unused,omitempty"` // why it cannot be used; empty if it can
}

// Devices lists the devices that this build can reach; a kind of device that is not in the build is not listed. If a
// kind in the build has no driver on this machine, Devices returns ErrUnsupported, with a fix, and the devices of other
// kinds.
func Devices() (list []DeviceInfo, err error) {
	for _, k := range device.Kinds() {
		infos, failed := k.List()
		err = errors.Join(err, failed)
		for _, i := range infos {
			m := i.Machine
			list = append(list, DeviceInfo{i.Name, i.Product, i.Driver, i.Bytes, m.Limits.Shared, m.Limits.Invocations,
				m.Limits.Subgroup, m.Features, i.Why})
		}
	}
	return list, err
}

// machine returns the machine that the program is scheduled for. It opens the device, if there is one.
func (p *Program) machine(o Options) (target.Machine, error) {
	if o.Target != Vulkan {
		return compiler.Machine(o.CPU, o.Threads, o.Cross)
	}
	if o.Limits != "" {
		m, err := target.ParseLimits(o.Limits)
		if err != nil {
			return target.Machine{}, err
		}
		m.Threads = o.Threads
		p.runWithin(&m, o)
		return m, nil
	}
	d, err := device.Share(string(o.Target), o.Device)
	if err != nil {
		return target.Machine{}, err
	}
	p.device = d
	m := d.Machine()
	m.Threads = o.Threads
	return m, nil
}

// runWithin opens the device if it has all that m has: the program then runs on it. Otherwise it records why runs are
// refused.
func (p *Program) runWithin(m *target.Machine, o Options) {
	d, err := device.Share(string(Vulkan), o.Device)
	if err != nil {
		p.absent = diag.Unsupportedf("a run of a program for a device that is not here: %v", err)
		return
	}
	here := d.Machine()
	if !m.Within(here) {
		p.absent = diag.Unsupportedf("a run of a program for a device that has more than %s", d.Name()).
			WithFix("weir env lists devices and their limits; compile the model for one of them")
		_ = device.Leave(d)
		return
	}
	m.Limits.Iterations = here.Limits.Iterations
	p.device = d
}

// leaveDevice ends the program's use of its device.
func (p *Program) leaveDevice() error {
	if p.device == nil {
		return nil
	}
	d := p.device
	p.device = nil
	return device.Leave(d)
}

// deviceAsked returns the bytes that all programs have requested from the device's driver.
func (p *Program) deviceAsked() int64 {
	if p.device == nil {
		return 0
	}
	u := p.device.Usage()
	return u.Memory + u.Queues
}

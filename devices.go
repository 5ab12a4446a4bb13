package weir

import (
	"errors"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/target"
)

// ErrDeviceLost is the error of a run on a device that has stopped working. What was in its memory is gone; a program
// that is compiled after it opens the device anew.
var ErrDeviceLost = device.ErrLost

// DeviceInfo describes a device that programs may run on.
type DeviceInfo struct {
	Name     string   `json:"name"`             // the target and the number, as "vulkan:0"
	Product  string   `json:"product"`          // as its maker names it
	Driver   string   `json:"driver"`           // and its version
	Memory   int64    `json:"memory_bytes"`     // of its largest memory
	Shared   int64    `json:"shared_bytes"`     // that the threads of a block share
	Threads  int64    `json:"invocations"`      // of a block, at most
	Subgroup int64    `json:"subgroup"`         // threads that go together
	Features []string `json:"features"`         // that code for it may use
	Why      string   `json:"unused,omitempty"` // why it cannot be used; empty where it can
}

// Devices lists the devices that this build can reach. A kind of device that is not in the build has none; one that has
// no driver here is ErrUnsupported, with what would mend it.
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

// machine is what the program is scheduled for. A device is opened for it.
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

// runWithin opens the device if there is one that has all that a machine has: the program then runs on it. Else it
// notes why runs are refused.
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

// deviceAsked is what the device's driver has been asked for, by all programs.
func (p *Program) deviceAsked() int64 {
	if p.device == nil {
		return 0
	}
	u := p.device.Usage()
	return u.Memory + u.Queues
}

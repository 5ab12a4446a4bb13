package compiler

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/lower"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// schedules are the options to schedule with, each simpler than the one before. If all fail, the module runs as it was
// lowered.
var schedules = []schedule.Options{{}, {Without: schedule.Simplest}}

// schedule schedules the module and verifies the result. A fault in scheduling is a bug of the compiler, but does not
// fail the compilation: it is reported as progress, and the module is lowered again and scheduled with simpler options.
func (k *compilation) schedule() (err error) {
	c, m, o, step := k.c, k.m, k.o, k.step
	ways := schedules
	if c.effort == unfused {
		ways = schedules[len(schedules)-1:]
	}
	for _, how := range ways {
		c.packs = map[*loop.Buffer]*schedule.Pack{}
		how.Pack = func(p *schedule.Pack) { c.packs[p.Buffer] = p }
		how.Check, how.Choice, how.Arena = m.Check, c.chosen(&o), c.predicted
		how.Without = slices.Concat(how.Without, Without)
		if c.effort != fullEffort || c.written != nil {
			how.Without = append(how.Without, "parts")
		}
		if o.After != nil {
			how.After = func(step string, text func() string) { o.After(step, text()) }
		}
		how.Progress = func(row int, name string) { k.begins(name, step+1+row) }
		c.kept, c.verdicts = map[string]string{}, map[string]verdict{}
		how.Kept, how.Host = c.kept, c.hostMachine(&o)
		if refuses := refusals[o.Machine.Name]; refuses != nil {
			how.Refuses = func(k *loop.Kernel) error {
				v := verdict{of: k.String()}
				v.conditions, v.refused = refuses(k, c.Loop, o.Machine)
				c.verdicts[k.Name] = v
				return v.refused
			}
		}
		fault := scheduled(c.Loop, o.Machine, how)
		if err := m.Ask(); err != nil || fault == nil {
			return err
		}
		c.Faults = append(c.Faults, fault)
		if o.Progress != nil {
			o.Progress(Progress{Stage: "schedule, which failed and is done more simply: " + fault.Error()})
		}
		if c.Loop, err = lower.For(m, c.forBlocks(&o)); err != nil {
			return err
		}
		c.verdicts = nil
	}
	return nil
}

// verdict is a device generator's answer for a kernel with this text. Refused kernels are scheduled for the host.
type verdict struct {
	of         string     // the kernel's text
	refused    error      // why the device cannot run the kernel; nil: it can, in runs in which the conditions hold
	conditions []sym.Cond // on dimensions
}

// scheduled schedules a module in place and verifies it. After an error or panic the module's state is undefined.
func scheduled(m *loop.Module, machine target.Machine, how schedule.Options) (err error) {
	defer diag.Recover(&err, "scheduling")
	if err := schedule.RunWith(m, machine, how); err != nil {
		return err
	}
	if _, err = loop.VerifyModule(m); err != nil {
		return err
	}
	return schedule.Verify(m, machine)
}

// verifyLoop panics if a module that the compiler made is not valid.
func verifyLoop(m *loop.Module, stage string) {
	if _, err := loop.VerifyModule(m); err != nil {
		panic(diag.Internalf("after %s: %v", stage, err))
	}
}

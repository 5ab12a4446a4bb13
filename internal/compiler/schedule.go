package compiler

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/lower"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/target"
)

// schedules are the ways to schedule, each simpler than the one before; what none of them can do runs as it was
// lowered.
var schedules = []schedule.Options{{}, {Without: schedule.Simplest}}

// schedule schedules the module, and verifies what came out: a fault in scheduling is our bug, but not the user's loss.
// It is reported as progress, and the module is lowered again and scheduled more simply.
func (k *compilation) schedule() (err error) {
	c, m, o := k.c, k.m, k.o
	ways := schedules
	if c.plain == plain {
		ways = schedules[len(schedules)-1:]
	}
	for _, how := range ways {
		var refusal error // of memory to pack in, or of a file to read: no fault of scheduling
		pack := func(list []*schedule.Pack) error { refusal = c.pack(list); return refusal }
		how.Check, how.Pack, how.Choice, how.Arena = m.Check, pack, c.chosen(&o), c.predicted
		how.Without = slices.Concat(how.Without, Without)
		if c.plain != whole || c.written != nil {
			how.Without = append(how.Without, "parts")
		}
		if o.After != nil {
			how.After = func(step string, text func() string) { o.After(step, text()) }
		}
		c.kept, c.verdicts = map[string]string{}, map[string]verdict{}
		how.Kept, how.Host = c.kept, c.hostMachine(&o)
		if refuses := refusals[o.Machine.Name]; refuses != nil {
			how.Refuses = func(k *loop.Kernel) error {
				v := verdict{k.String(), refuses(k, c.Loop, o.Machine)}
				c.verdicts[k.Name] = v
				return v.refused
			}
		}
		fault := scheduled(c.Loop, o.Machine, how)
		if err := m.Ask(); err != nil || fault == nil {
			return err
		}
		if refusal != nil {
			return refusal
		}
		c.Faults = append(c.Faults, fault)
		if err := c.afresh(); err != nil {
			return err
		}
		if o.Progress != nil {
			o.Progress("schedule, which failed and is done more simply: " + fault.Error())
		}
		if c.Loop, err = lower.For(m, c.forBlocks(&o)); err != nil {
			return err
		}
		c.verdicts = nil
	}
	return nil
}

// verdict is what the generator of a device's code said of a kernel: of this text of it. One that it refused is
// scheduled for the host.
type verdict struct {
	of      string
	refused error // why the device cannot run it; nil: it can
}

// scheduled schedules a module in place, and checks that it is still right and fits the machine; an error, or a panic,
// leaves it in no defined state.
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

// verifyLoop checks a module that the compiler itself has written: what is wrong with it is our bug.
func verifyLoop(m *loop.Module, stage string) {
	if _, err := loop.VerifyModule(m); err != nil {
		panic(diag.Internalf("after %s: %v", stage, err))
	}
}

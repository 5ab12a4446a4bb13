package compiler

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/codegen/amd64"
	"github.com/weirml/weir/internal/codegen/arm64"
	"github.com/weirml/weir/internal/codegen/portable"
	"github.com/weirml/weir/internal/codegen/reference"
	"github.com/weirml/weir/internal/codegen/spirv"
	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// generators generate the code of scheduled kernels, by the machine's name: see place.
var generators = map[string]func(m *loop.Module, machine target.Machine) (*target.Code, error){
	target.PortableName: portable.Compile,
	target.AMD64Name:    amd64.Generate,
	target.ARM64Name:    arm64.Generate,
	target.VulkanName:   spirv.Compile,
}

// hosts are the machines whose kernels are machine code of the host's, by name: text returns that code as text, and try
// reports why the system does not allow it.
var hosts = map[string]struct {
	text func(m *loop.Module, machine target.Machine) string
	try  func() error
}{
	target.AMD64Name: {amd64.Text, func() error {
		block, err := mem.MapCode("try", []byte{0xC3})
		if err == nil {
			err = block.Close()
		}
		return err
	}},
	target.ARM64Name: {arm64.Text, arm64.Try},
}

// refusals return why a device cannot run a kernel, or nil and the conditions on which it can, by the name of the
// device's machine.
var refusals = map[string]func(k *loop.Kernel, m *loop.Module, machine target.Machine) ([]sym.Cond,
	error){target.VulkanName: spirv.Refuses}

// Portable returns the machine for portable code, which runs anywhere.
func Portable(threads int) target.Machine { return target.Portable(threads) }

// Machine returns the machine of a level (see target.Select), or the best level of this machine if cpu is empty. If
// cross is true, the level may be one that this machine does not have. It returns ErrUnsupported if there is no code
// generator for the level.
func Machine(cpu string, threads int, cross bool) (target.Machine, error) {
	choose := target.Select
	if cross {
		choose = target.For
	}
	m, err := choose(cpu, threads)
	if err != nil || generators[m.Name] != nil {
		return m, err
	}
	if cpu == "" || cpu == target.Native {
		return target.Portable(threads), nil
	}
	return m, diag.Unsupportedf("machine code for %s, since there is no generator of it for %s", cpu, m.Arch).
		WithFix("--cpu portable works everywhere")
}

// Levels returns the levels that there is a generator of code for, the lowest first, on this machine or another:
// portable code is the first.
func Levels() []string {
	return slices.DeleteFunc(target.Levels(), func(level string) bool {
		_, err := Machine(level, 1, true)
		return err != nil || level == target.Native
	})
}

// Processor describes this machine and the level that programs are compiled for.
type Processor struct {
	Name     string
	Features []string // that code could use, sorted
	Cache    [3]int64 // bytes of L1 for data, L2, L3
	CPU      string   // the level that programs are compiled for
	Why      string   // the reason why it is not a higher level
}

// Here describes this machine. It tests whether the system allows machine code.
func Here() Processor {
	m, _ := Machine("", 1, false) // fails only for a named level
	p := Processor{Name: target.Description(), Features: target.Features(), Cache: target.HostCache(), CPU: m.CPU}
	if host, ok := hosts[m.Name]; ok {
		p.Why = "the highest level that this processor has"
		if err := host.try(); err != nil {
			p.CPU, p.Why = target.PortableName, err.Error()
		}
	}
	missing := target.Missing()
	for _, level := range target.Levels() {
		if lacks := missing[level]; lacks != nil {
			p.Why = strings.TrimPrefix(fmt.Sprintf("%s; %s needs %s besides", p.Why, level, strings.Join(lacks, ", ")), "; ")
		}
	}
	return p
}

// generate generates the code of the scheduled module, which place makes ready to run. The code is portable, and a note
// says why, if the machine is not this one.
func (c *Compiled) generate(o Options) (err error) {
	c.allProved()
	defer c.hold()
	if o.Reference {
		c.Code = reference.Compile(c.Loop.Kernels)
		return nil
	}
	m := c.credited()
	if c.device != "" {
		err = c.generateDivided(&m, o)
		c.report(o)
		return err
	}
	generator, missing := generators[c.Machine.Name], c.Machine.Lacks()
	if o.Foreign {
		missing = nil
	}
	if generator != nil && !o.Portable && len(missing) == 0 {
		c.Code, err = generator(&m, c.Machine)
		if !errors.Is(err, diag.ErrUnsupported) || c.Machine.Name == target.PortableName {
			c.report(o)
			return err
		}
		c.refused(err)
	} else if len(missing) > 0 {
		c.Notes = append(c.Notes, "portable code here, since "+strings.Join(missing, ", ")+" is missing")
	}
	c.Code, err = portable.Compile(&m, Portable(c.Machine.Threads))
	return err
}

// refused notes why the system has no machine code.
func (c *Compiled) refused(err error) {
	c.Notes = append(c.Notes, "portable code, since machine code was refused: "+err.Error())
}

// permitted asks Options.Planned and then places the code, unless it is foreign.
func (c *Compiled) permitted(o *Options) error {
	if c.scratch(); o.Planned != nil {
		if err := o.Planned(c); err != nil {
			return err
		}
	}
	if o.Foreign {
		return diag.Unsupportedf("code for %s is for inspection only, and cannot run", c.Machine.CPU)
	}
	return c.place()
}

// place takes the memory of the code. The code becomes portable, and a note says why, if the system refuses machine
// code.
func (c *Compiled) place() error {
	if c.Code.Place == nil {
		return nil
	}
	err := c.Code.Place()
	if !errors.Is(err, diag.ErrUnsupported) || c.device != "" {
		return err
	}
	c.refused(err)
	m := c.credited()
	if c.Code, err = portable.Compile(&m, Portable(c.Machine.Threads)); err != nil {
		return err
	}
	c.scratch()
	return nil
}

// coded returns the machine whose machine code assembly returns: that of the code or, if this processor lacks what code
// for the program's machine needs, the program's.
func (c *Compiled) coded() target.Machine {
	if len(c.Machine.Lacks()) > 0 {
		return c.Machine
	}
	return c.Code.Machine
}

// machineCode reports whether there is machine code of the kernels for processors.
func (c *Compiled) machineCode() bool {
	_, ok := hosts[c.coded().Name]
	return ok && c.device == ""
}

// assembly returns the machine code of the kernels as text.
func (c *Compiled) assembly() string {
	m, machine := c.credited(), c.coded()
	return hosts[machine.Name].text(&m, machine)
}

// credited returns the scheduled module with a proof budget of its own for code generation.
func (c *Compiled) credited() loop.Module {
	m := *c.Loop
	m.Dims = c.Loop.Dims.Fresh()
	m.Dims.Grant(proofsOfKernel * (1 + len(m.Kernels)))
	return m
}

// generateDivided generates the device's code for its kernels, and the best host code for the others.
func (c *Compiled) generateDivided(m *loop.Module, o Options) error {
	device := map[*loop.Kernel]bool{}
	live.Each(m.Body, func(l *loop.Launch) { device[l.Kernel] = l.Device != "" })
	sides := [2]loop.Module{*m, *m}
	for i := range sides {
		sides[i].Kernels = nil
	}
	var at []int // by kernel: the index of its side
	for _, k := range m.Kernels {
		side := 0
		if device[k] {
			side = 1
		}
		sides[side].Kernels = append(sides[side].Kernels, k)
		at = append(at, side)
	}
	machines := [2]target.Machine{c.hostMachine(&o), c.Machine}
	all := &target.Code{Machine: c.Machine}
	var made [2]*target.Code
	for i, machine := range machines {
		var err error
		if made[i], err = generators[machine.Name](&sides[i], machine); err != nil {
			if all.Release != nil {
				all.Release()
			}
			return err
		}
		code := made[i]
		all.Bytes += code.Bytes
		all.Left, all.Slower = append(all.Left, code.Left...), append(all.Slower, code.Slower...)
		if place := code.Place; i == 0 && place != nil {
			all.Place = func() error {
				err := place()
				all.Place, all.Release, all.Held = nil, code.Release, code.Held
				return err
			}
		}
	}
	for _, side := range at {
		all.Kernels = append(all.Kernels, made[side].Kernels[0])
		made[side].Kernels = made[side].Kernels[1:]
	}
	c.Code = all
	return nil
}

// hostMachine returns the machine for kernels that the host runs.
func (c *Compiled) hostMachine(o *Options) target.Machine {
	host, err := Machine("", c.Machine.Threads, false)
	if err != nil || o.Portable {
		return Portable(c.Machine.Threads)
	}
	return host
}

// report records kernels for which a bug of the compiler prevented machine code.
func (c *Compiled) report(o Options) {
	if c.Code == nil {
		return
	}
	for _, left := range c.Code.Left {
		if left.Fault != nil {
			c.Faults = append(c.Faults, left.Fault)
			if o.Progress != nil {
				o.Progress(Progress{Stage: "codegen, which failed for @" + left.Kernel + " and is done more simply: " +
					left.Fault.Error()})
			}
		}
	}
}

// trusted returns an artefact's machine without the facts that cannot be trusted; an error if code for it cannot be
// generated or run here.
func trusted(m target.Machine, o Options) (target.Machine, error) {
	if m.Name == target.PortableName || m.Name == reference.Machine().Name {
		return m, nil
	}
	if m.Name == target.VulkanName {
		known, err := m.KnownBlocks()
		known.Limits.Iterations = o.Machine.Limits.Iterations
		return known, err
	}
	known, ok := m.Known()
	if !ok || generators[known.Name] == nil {
		return m, diag.Unsupportedf("an artefact for %q, %q", m.Name, m.CPU).WithFix("compile the model again with this weir")
	}
	if missing := known.Lacks(); len(missing) > 0 && !o.Portable && !o.Cross {
		best, _ := Machine("", 1, false)
		return m, diag.Unsupportedf("an artefact for %s: this processor (%s) has no %s", m.CPU, target.Description(),
			strings.Join(missing, ", ")).
			WithFix("weir compile MODEL --cpu %s makes one for this processor; --cpu portable runs this one, more slowly",
				best.CPU)
	}
	return known, nil
}

package command

import (
	"fmt"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/values"
)

// spaceRow is the use of one memory by a program.
type spaceRow struct {
	Name    string `json:"name"`
	Weights *int64 `json:"weights_bytes"`
	Arena   *int64 `json:"arena_bytes"`
	States  *int64 `json:"states_bytes"`
	Scratch *int64 `json:"scratch_bytes"`
	Queue   *int64 `json:"queue_bytes"`
	Peak    *int64 `json:"peak_bytes"`
	Formula string `json:"peak_formula"`
}

// onDevice fills in the use of a device's memory, and the device's kernels.
func (p *planned) onDevice(program *weir.Program, at func(s weir.Size) *int64) {
	d := program.Memory().Device
	if d == nil {
		return
	}
	whole := d.Formula(p.Calls)
	p.Spaces = []spaceRow{{d.Name, at(d.Weights), at(d.Arena), at(d.States), at(d.Scratch), at(d.Queue), at(whole),
		whole.String()}}
	limits, kernels := program.DeviceKernels()
	p.Limits, p.Kernels, p.OnHost = &limits, kernels, program.OnHost()
}

// printDevice prints the fields of onDevice.
func (p *planned) printDevice(m *weir.Memory) {
	d := m.Device
	if d == nil {
		return
	}
	row := func(name string, s weir.Size, v *int64) {
		text := s.String()
		if v != nil {
			text = fmt.Sprintf("%d (%s)", *v, values.FormatBytes(*v))
			if formula := s.String(); formula != fmt.Sprint(*v) {
				text += " = " + formula
			}
		}
		stdout.Printf("%-14s   %-9s %s\n", "", name, text)
	}
	space := p.Spaces[0]
	stdout.Printf("%-14s in its own memory, as its driver is asked for it:\n", d.Name)
	row("weights", d.Weights, space.Weights)
	row("arena", d.Arena, space.Arena)
	row("states", d.States, space.States)
	row("scratch", d.Scratch, space.Scratch)
	row("queue", d.Queue, space.Queue)
	row("peak", d.Formula(p.Calls), space.Peak)
	var shared, threads int64
	for _, k := range p.Kernels {
		shared, threads = max(shared, k.Shared), max(threads, k.Threads)
	}
	stdout.Printf("%-14s %d parts of kernels; of %d shared bytes the greediest has %d, of %d threads of a block %d\n",
		"kernels", len(p.Kernels), p.Limits.Shared, shared, p.Limits.Threads, threads)
	for _, h := range p.OnHost {
		stdout.Printf("%-14s %s (%s): %s\n", "on the host", h.Step, h.Nodes, h.Reason)
	}
}

// printDevices prints the devices that this build reaches, or the reason that there are none.
func printDevices(list []weir.DeviceInfo, none error) {
	if none != nil {
		stdout.Printf("%-24s %v\n", "devices", none)
	}
	for _, d := range list {
		stdout.Printf("%-24s %s, %s\n", d.Name, d.Product, d.Driver)
		if d.Why != "" {
			stdout.Printf("%-24s not used: %s\n", "", d.Why)
			continue
		}
		stdout.Printf("%-24s %s of memory, %s shared by the threads of a block, of at most %d, which go together by %d\n", "",
			values.FormatBytes(d.Memory), values.FormatBytes(d.Shared), d.Threads, d.Subgroup)
		stdout.Printf("%-24s %s\n", "", strings.Join(d.Features, " "))
	}
	if none == nil && len(list) == 0 {
		stdout.Printf("%-24s %s\n", "devices",
			"none: this build has no kind of device beside the processor (go build -tags vulkan ./cmd/weir has GPUs)")
	}
}

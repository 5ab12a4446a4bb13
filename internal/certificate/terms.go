// Package certificate computes the terms of a program's memory: formulas for the terms of the certificate, the bytes of
// full pages that a program requests from the system, and the bytes that a measured run needs.
package certificate

import (
	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// Terms are the terms of weir.Memory, in bytes over the program's dimensions.
type Terms struct {
	Weights, Code                              int64
	Arena, Outputs, Scratch, LowerBound, Least sym.Expr
	DataDependent                              sym.Expr // the share of Arena and Outputs that data determine
	// Proven: it is proved that no plan of the arena is smaller, and that each run reaches the sizes that are planned.
	Proven  bool
	Bounded bool // data decide the size of a tensor within a planned bound
}

// TermsOf returns the terms of a program; own is the number of bytes of its own states, which count as weights.
func TermsOf(c *compiler.Compiled, own int64) Terms {
	t := Terms{Weights: own, Code: c.Code.Bytes, Arena: c.Arena.Arena, Outputs: c.Outputs, Scratch: c.Scratch,
		LowerBound: c.Arena.Bound, Least: c.Arena.Least, DataDependent: sym.Const(0), Proven: c.Arena.Proven}
	for _, w := range c.Program.Weights {
		if !w.Paged && w.Device == "" {
			t.Weights += bytesOf(c, w)
		}
	}
	for _, l := range c.Late {
		if l.Device != "" {
			continue
		}
		t.DataDependent = t.DataDependent.Add(l.Plan.Arena)
		if l.Kind == program.Results {
			t.Outputs = t.Outputs.Add(l.Plan.Arena)
			continue
		}
		t.Arena, t.LowerBound, t.Least = t.Arena.Add(l.Plan.Arena), t.LowerBound.Add(l.Plan.Bound),
			t.Least.Add(l.Plan.Least)
		t.Proven = t.Proven && l.Plan.Proven
	}
	for i := range c.Program.Tensors {
		t.Bounded = t.Bounded || c.Program.Bounded(&c.Program.Tensors[i])
	}
	t.Proven = t.Proven && !t.Bounded
	return t
}

// bytesOf returns the bytes of a weight, which need not be laid out yet.
func bytesOf(c *compiler.Compiled, w program.Weight) int64 {
	bytes, _ := c.Program.Tensors[w.Tensor].Bytes().Const()
	return bytes
}

// DeviceTerms are the terms of weir.DeviceMemory, without the queue.
type DeviceTerms struct {
	Weights                                           int64
	Arena, States, Scratch, LowerBound, DataDependent sym.Expr
}

// deviceAlign is the alignment of weights in the device's block of weights, in bytes.
const deviceAlign = 64

// DeviceTermsOf returns the terms of a program's device memory; ok is false for a program without a device.
func DeviceTermsOf(c *compiler.Compiled) (t DeviceTerms, ok bool) {
	if c.Device.Arena == nil {
		return t, false
	}
	for _, w := range c.Program.Weights {
		if w.Device != "" {
			t.Weights = (t.Weights+deviceAlign-1)/deviceAlign*deviceAlign + bytesOf(c, w)
		}
	}
	t.Arena, t.Scratch, t.LowerBound, t.DataDependent = c.Device.Arena.Arena, c.Device.Scratch, c.Device.Arena.Bound,
		sym.Const(0)
	t.States = sym.Const(0)
	for _, in := range c.Program.Inputs {
		if in.Device != "" {
			t.States = t.States.Add(c.Program.Tensors[in.Tensor].Bytes())
		}
	}
	for _, l := range c.Late {
		if l.Device != "" {
			t.Arena, t.LowerBound, t.DataDependent = t.Arena.Add(l.Plan.Arena), t.LowerBound.Add(l.Plan.Bound),
				t.DataDependent.Add(l.Plan.Arena)
		}
	}
	return t, true
}

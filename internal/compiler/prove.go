package compiler

import (
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
)

// prove makes the scheduled module one whose kernels stay within their buffers whatever the run decides: an access that
// is not proved gets a check in the code, and integers that fit 64 bits for no dimensions are refused. No code is
// generated of kernels that it has not seen. Errors are *loop.VerifyError, or of kind ErrInput.
func (c *Compiled) prove() error {
	m := *c.Loop
	m.Dims = c.Loop.Dims.Fresh() // the proofs of code have a credit of their own, whatever it took to come here
	m.Dims.Grant(proofsOfKernel * (1 + len(m.Kernels)))
	if err := narrowEnough(&m); err != nil {
		return err // before proofs, which have no bounds of what is too large to write down
	}
	guarded, err := loop.Prove(&m)
	if err != nil {
		return err
	}
	c.proved = map[*loop.Kernel]bool{}
	c.Guards = 0
	for i, k := range m.Kernels {
		c.proved[k] = true
		c.Guards += guarded[i]
	}
	if c.Guards == 0 {
		return nil // the kernels are what they were
	}
	return narrowEnough(&m)
}

// narrowEnough returns an error of kind ErrInput if the integers of some kernel fit 64 bits for no dimensions.
func narrowEnough(m *loop.Module) error {
	unlike, _ := loop.Distinct(m.Kernels)
	for _, k := range unlike {
		if err := loop.WidthOf(k).Least(m.Dims); err != nil {
			return err
		}
	}
	return nil
}

// proveOwn is prove for a module that the compiler itself has written.
func (c *Compiled) proveOwn() error {
	err := c.prove()
	if e, ok := err.(*loop.VerifyError); ok {
		panic(diag.Internalf("after scheduling: %v", e))
	}
	return err
}

// allProved panics where code is asked for of a kernel that prove has not seen.
func (c *Compiled) allProved() {
	for _, k := range c.Loop.Kernels {
		if !c.proved[k] {
			panic(diag.Internalf("code of kernel @%s, which was not proved", k.Name))
		}
	}
}

// ofSteps keeps, of what is open in a module, what speaks of launches and of what is read before it is written. That
// views lie inside their buffers, that copies are between equals, and that operands have the memory that kernels reach
// for, the executor sees to.
func ofSteps(open []string) []string {
	var list []string
	for _, u := range open {
		if !strings.HasPrefix(u, "buffer ") && !strings.HasPrefix(u, "a copy ") {
			list = append(list, u)
		}
	}
	return list
}

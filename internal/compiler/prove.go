package compiler

import (
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
)

// prove proves that the scheduled kernels stay within their buffers for all data. It adds a check to the code for each
// access that is not proved, and refuses integers that fit 64 bits for no dimensions. Code is generated only for
// kernels it has seen. Errors are *loop.VerifyError, or of kind ErrInput.
func (c *Compiled) prove() error {
	m := *c.Loop
	m.Dims = c.Loop.Dims.Fresh() // these proofs have a budget of their own
	m.Dims.Grant(proofsOfKernel * (1 + len(m.Kernels)))
	if err := narrowEnough(&m); err != nil {
		return err // before the proofs, which cannot bound such integers
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
		return nil // the kernels are unchanged
	}
	return narrowEnough(&m)
}

// narrowEnough returns an error of kind ErrInput if the integers of some kernel fit 64 bits for no dimensions.
func narrowEnough(m *loop.Module) error {
	unlike, _ := loop.Distinct(m.Kernels)
	for _, k := range unlike {
		if err := loop.FitLeast(k, m.Dims); err != nil {
			return err
		}
	}
	return nil
}

// proveOwn is prove for a module that the compiler has made: a verification error is a bug, and panics.
func (c *Compiled) proveOwn() error {
	err := c.prove()
	if e, ok := err.(*loop.VerifyError); ok {
		panic(diag.Internalf("after scheduling: %v", e))
	}
	return err
}

// allProved panics if a kernel has not been through prove.
func (c *Compiled) allProved() {
	for _, k := range c.Loop.Kernels {
		if !c.proved[k] {
			panic(diag.Internalf("code of kernel @%s, which was not proved", k.Name))
		}
	}
}

// ofSteps keeps the open proofs about launches and about reads before writes. The executor checks the others: views
// within their buffers, copies between equal sizes, and operands with enough memory.
func ofSteps(open []string) []string {
	var list []string
	for _, u := range open {
		if !strings.HasPrefix(u, "buffer ") && !strings.HasPrefix(u, "a copy ") {
			list = append(list, u)
		}
	}
	return list
}

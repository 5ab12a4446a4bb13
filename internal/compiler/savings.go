package compiler

import (
	"github.com/weirml/weir/internal/compiler/budget"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// saving adapts a compilation to budget.Compilation.
type saving struct{ *compilation }

func (k saving) Loop() *loop.Module { return k.c.Loop }
func (k saving) Code() *target.Code { return k.c.Code }

// Allowed reports whether no two carves share bytes in the order of the steps.
func (k saving) Allowed() bool { return k.c.IR == nil || k.c.sharedCarves() == nil }

// Remake makes the kernels and their code again from ir.
func (k saving) Remake() error {
	k.c.drop()
	again := *k.compilation
	again.quiet = true
	return again.make()
}

// Regenerate generates the code of the module's kernels again.
func (k saving) Regenerate() error {
	c := k.c
	if c.Code != nil && c.Code.Release != nil {
		if err := c.Code.Release(); err != nil {
			return err
		}
	}
	c.Code = nil
	if err := c.proveOwn(); err != nil {
		return err
	}
	return c.generate(k.o)
}

// keepWithin makes the program keep within its budget, or take the fewest bytes if no savings are enough: see
// budget.Found. The search estimates the bytes, so the caller compares the planned program's with the budget.
func (k *compilation) keepWithin() (err error) {
	c, b := k.c, k.o.Budget
	if c.written == nil && c.effort == fullEffort {
		c.Saved, err = budget.Within(saving{k}, k.m, *b)
		return err
	}
	c.uncut = uncutText
	if c.Saved, err = budget.OfLoops(saving{k}, *b, k.m.Ask); err != nil {
		return err
	}
	return c.checkCarves()
}

// Over returns the error of a program that takes peak bytes, more than the budget, and whose savings are frugal.
func (c *Compiled) Over(peak, allowed int64) *diag.Error {
	how := "in pieces or "
	if c.uncut != "" {
		how = ""
	}
	e := budget.Over(peak, "%d bytes are allowed, and whatever is computed %sagain, spilled or paged, it takes %d%s",
		allowed, how, peak, c.uncut)
	if c.uncut == uncutArtefact {
		e = e.WithFix("%s; weir compile MODEL --budget %d may cut the model itself", e.Fix, allowed)
	}
	return e
}

// The reasons why a module is not computed in pieces.
const (
	uncutText     = ": the storages that its text lays out stay as they are, and such a text is not computed in pieces"
	uncutArtefact = ": an artefact's steps are not cut into pieces"
)

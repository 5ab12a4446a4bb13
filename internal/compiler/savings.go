package compiler

import (
	"github.com/weirml/weir/internal/compiler/budget"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// saving adapts a compilation to budget.Compilation.
type saving struct{ *compilation }

func (k saving) Loop() *loop.Module { return k.c.Loop }
func (k saving) Code() *target.Code { return k.c.Code }

// Remake makes the kernels and their code again from ir.
func (k saving) Remake() error {
	k.c.drop()
	if err := k.c.afresh(); err != nil {
		return err
	}
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

// keepWithin makes the program keep within its budget, and moves paged weights to files. If it cannot, the error gives
// the fewest bytes that were reached. Choices depend on the budget, so a caller must try that number before showing it.
func (k *compilation) keepWithin() (err error) {
	c, given := k.c, k.o.Budget.Bytes
	if k.o.Budget.Whole, err = budget.Whole(saving{k}, *k.o.Budget); err != nil {
		return err
	}
	if c.written != nil || c.effort != fullEffort {
		return k.keepWritten()
	}
	least := int64(0)
	if c.Savings, least, err = budget.Within(saving{k}, k.m, *k.o.Budget); err != nil {
		return err
	}
	if least > given {
		return budget.Over(least, "%d bytes are allowed, and whatever is computed in pieces or again, spilled or paged, it "+
			"takes %d", given, least)
	}
	return c.pageOut()
}

// keepWritten is keepWithin for a module that lays out memory itself: its storages stay, and its kernels are not made
// again.
func (k *compilation) keepWritten() (err error) {
	c, given, least := k.c, k.o.Budget.Bytes, int64(0)
	if c.Savings, least, err = budget.OfLoops(saving{k}, *k.o.Budget, k.m.Ask); err != nil {
		return err
	}
	if least > given {
		return budget.Over(least, "%d bytes are allowed, and whatever is computed again, spilled or paged, it takes %d: "+
			"the storages that its text lays out stay as they are, and such a text is not computed in pieces", given, least)
	}
	if err := c.checkCarves(); err != nil {
		return err
	}
	return c.pageOut()
}

package compiler

import (
	"github.com/weirml/weir/internal/compiler/budget"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// saving is a compilation as the search for savings changes it.
type saving struct{ *compilation }

func (k saving) Loop() *loop.Module { return k.c.Loop }
func (k saving) Code() *target.Code { return k.c.Code }

// Remake makes the kernels anew of ir, and their code.
func (k saving) Remake() error {
	k.c.drop()
	if err := k.c.afresh(); err != nil {
		return err
	}
	again := *k.compilation
	again.quiet = true
	return again.make()
}

// Regenerate makes the code of the module's kernels anew.
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

// keepWithin has the program keep within its budget, and lays out what it pages. If that cannot be, the error names the
// least that a way took: what is computed in pieces or again depends on the budget, so whoever shows the number tries
// it first.
func (k *compilation) keepWithin() (err error) {
	c, given := k.c, k.o.Budget.Bytes
	if c.written != nil || c.plain != whole {
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

// keepWritten is keepWithin for a module that lays out memory itself: its storages stay as they are, and its kernels
// are not made anew.
func (k *compilation) keepWritten() (err error) {
	c, given, least := k.c, k.o.Budget.Bytes, int64(0)
	if c.Savings, least, err = budget.OfLoops(saving{k}, *k.o.Budget, k.m.Ask); err != nil {
		return err
	}
	if least > given {
		return budget.Over(least, "%d bytes are allowed, and whatever is computed again, spilled or paged, it takes %d: "+
			"the storages that its text lays out stay as they are, and such a text is not computed in pieces", given, least)
	}
	if err := c.checkPlaces(); err != nil {
		return err
	}
	return c.pageOut()
}

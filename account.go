package weir

import (
	"context"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
)

// Account decides about the memory of programs (Options.Account), in bytes of full pages as Usage's Held counts them. A
// program asks it before it takes memory outside Go's heap, so that it holds at no moment more than what was taken less
// what was given. docs/memory.md lists what is asked for, and when.
//
// Several goroutines call its methods at once. Program.Trim of any program may be called meanwhile, as no lock is held.
type Account interface {
	// Take grants bytes, perhaps after a wait that ends with ctx, or returns an error, which refuses the compilation or
	// the run. If ctx has ended when Take is called, it does not wait: it grants what there is room for, or refuses. An
	// error that is neither an Error of this package nor the error of ctx is returned as an ErrMemory that wraps it.
	Take(ctx context.Context, bytes int64) error
	// Give returns bytes. It must not wait.
	Give(bytes int64)
}

// Trim releases the memory of the calls that nobody uses, and returns the bytes of its pages. The next run of the
// program allocates a call again. Any goroutine may call it, also during runs.
func (p *Program) Trim() (bytes int64, err error) {
	if _, err := p.session.Enter(); err != nil {
		return 0, err
	}
	defer p.session.Leave()
	return p.session.CloseIdle()
}

// retain asks the account for the model's files that lie in memory, and keeps the files for the program.
func (p *Program) retain(ctx context.Context) error {
	files := p.model.files
	if p.options.Account != nil {
		p.charged = files.Whole()
	}
	if err := mem.Ask(ctx, p.options.Account, p.charged); err != nil {
		p.charged = 0
		return err
	}
	if err := files.Retain(); err != nil {
		p.uncharge()
		return err
	}
	return nil
}

// charge asks the account for what a planned program will hold without its calls, beside what retain asked for. An
// earlier attempt, which failed, holds nothing any more.
func (p *Program) charge(ctx context.Context, c *compiler.Compiled) error {
	if p.options.Account == nil {
		return nil
	}
	own, err := p.session.FirstBytes(mem.WholePages)
	if err != nil {
		return err
	}
	files := p.model.files
	need := files.Whole() + c.Ahead() + executor.CopiedPages(c.Program, p.options.Private) + own +
		files.Pinned(p.pinned())
	return p.recharge(ctx, need)
}

// recharge makes the bytes that the account has granted exactly these.
func (p *Program) recharge(ctx context.Context, bytes int64) error {
	if more := bytes - p.charged; more < 0 {
		p.options.Account.Give(-more)
	} else if err := mem.Ask(ctx, p.options.Account, more); err != nil {
		return err
	}
	p.charged = bytes
	return nil
}

// settled makes what the account has granted exactly what the program holds without its calls. The pages of the
// program's own states go back when they are freed, the others at the program's end.
func (p *Program) settled(ctx context.Context) error {
	if p.options.Account == nil {
		return nil
	}
	if err := p.recharge(ctx, p.asks.Held()); err != nil {
		return err
	}
	p.session.ChargeOwn()
	p.charged -= p.session.OwnPages()
	return nil
}

// uncharge gives back what the account has granted for the program without its calls.
func (p *Program) uncharge() {
	mem.Return(p.options.Account, p.charged)
	p.charged = 0
}

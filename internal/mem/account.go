package mem

import (
	"context"
	"errors"

	"github.com/weirml/weir/internal/diag"
)

// Account is weir.Account.
type Account interface {
	Take(ctx context.Context, bytes int64) error
	Give(bytes int64)
}

// Now is a context that has ended: a request to an account with it does not wait.
var Now = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Ask takes bytes from an account; nil grants everything. The refusal is an ErrMemory with the account's error as its
// cause, unless that error is typed already: a *diag.Error, or the error of ctx.
func Ask(ctx context.Context, a Account, bytes int64) error {
	if a == nil || bytes == 0 {
		return nil
	}
	err := a.Take(ctx, bytes)
	var known *diag.Error
	switch {
	case err == nil, errors.As(err, &known), ctx != Now && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return err
	}
	return diag.New(diag.ErrMemory, "the account refused %d bytes", bytes).WithCause(err)
}

// Return gives bytes back to an account, which may be nil.
func Return(a Account, bytes int64) {
	if a != nil && bytes != 0 {
		a.Give(bytes)
	}
}

// Charge makes Close give the block's pages back to the account that granted them, after the block has left the ledger.
func (b *Block) Charge(a Account) { b.account = a }

// MapGranted is Map for memory of an account, which is asked first, with ctx, and gets the pages back after Close. Nil
// is no account.
func MapGranted(ctx context.Context, a Account, kind Kind, label string, bytes int64) (*Block, error) {
	return Granted(ctx, a, bytes, func() (*Block, error) { return Map(kind, label, bytes) })
}

// Granted asks an account for the pages of a block of so many bytes, which take allocates.
func Granted(ctx context.Context, a Account, bytes int64, take func() (*Block, error)) (*Block, error) {
	if a == nil {
		return take()
	}
	if bytes < 0 || bytes > Machine() {
		return take() // which refuses it
	}
	if err := Ask(ctx, a, roundUp(bytes)); err != nil {
		return nil, err
	}
	b, err := take()
	if err != nil {
		Return(a, roundUp(bytes))
		return nil, err
	}
	b.Charge(a)
	return b, nil
}

package batch

import (
	"context"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/traced"
)

// grant is memory that Options.Account has granted for tensors of one run; nil without an account.
type grant struct {
	account weir.Account
	left    int64 // bytes that no tensor has yet
}

// ask asks the account for the joined inputs of requests, if they are joined, and for the results of each that are not
// lent. It waits
// until ctx ends, and holds no lock meanwhile that a caller needs in order to leave.
func (b *Batcher) ask(ctx context.Context, list []*request, joins bool) (*grant, error) {
	if b.account == nil {
		return nil, nil
	}
	total, rows := int64(0), 0
	for _, r := range list {
		rows += r.rows
	}
	if joins {
		for i, info := range b.shape.inputs {
			count := int64(rows)
			for _, size := range list[0].in[i].Shape()[1:] {
				count *= int64(size)
			}
			bytes, err := info.DType.Bytes(count)
			if err != nil {
				return nil, err
			}
			total += mem.WholePages(bytes)
		}
	}
	dims := weir.Dims{}
	for name, v := range list[0].dims {
		dims[name] = v
	}
	for _, size := range b.shape.sizes {
		for _, r := range list {
			if r.use != nil {
				continue
			}
			dims[b.shape.dim] = int64(r.rows)
			bytes, err := size.At(dims)
			if err != nil {
				return nil, err
			}
			total += mem.WholePages(bytes)
		}
	}
	if err := mem.Ask(ctx, b.account, total); err != nil {
		return nil, err
	}
	return &grant{b.account, total}, nil
}

// tensor makes a tensor, whose Close gives its bytes back to the account.
func (g *grant) tensor(dt weir.DType, shape []int) (*weir.Tensor, error) {
	if g == nil {
		return weir.New(dt, shape...)
	}
	t, bytes, err := traced.Granted(g.account, dt, shape)
	if err != nil {
		return nil, err
	}
	g.left -= bytes
	return t.(*weir.Tensor), nil
}

// end gives back what no tensor has. Calling it twice is harmless.
func (g *grant) end() {
	if g != nil {
		mem.Return(g.account, g.left)
		g.left = 0
	}
}

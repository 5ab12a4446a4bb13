package ledger

import (
	"context"
	"math/bits"
	"sync"

	"github.com/weirml/weir"
)

// Buffers is memory outside Go's heap for bodies. Buffers that are given back are kept for the next, up to a number of
// bytes; they stay in the account until the ledger asks for them.
type Buffers struct {
	account *Account
	keep    int64

	mu   sync.Mutex
	free map[int64][]*Buffer // by size
	kept int64               // bytes of large buffers in free
	all  map[*slab]bool
}

// slab is a tensor that small buffers are cut from.
type slab struct {
	tensor *weir.Tensor
	size   int64 // of each buffer
	used   int
}

// Buffer is memory for a body. One goroutine uses it at a time.
type Buffer struct {
	of     *Buffers
	slab   *slab // nil: the buffer has a tensor of its own
	tensor *weir.Tensor
	bytes  []byte
	size   int64
}

// Small buffers are cut from slabs. Slabs and large buffers are larger than the blocks that Weir itself cuts from
// larger ones (128 KiB), so that their bytes are exactly those of their pages.
const (
	pageBytes    = 4 << 10
	slabBytes    = 256 << 10
	largestSmall = 64 << 10
	leastLarge   = 160 << 10
)

// NewBuffers returns buffers that are taken from an account, and that keep up to a number of bytes of large ones.
func NewBuffers(account *Account, keep int64) *Buffers {
	b := &Buffers{account: account, keep: keep, free: map[int64][]*Buffer{}, all: map[*slab]bool{}}
	account.ledger.Idle(account.kind, b.Release)
	return b
}

// Size returns the size of the buffer that Get returns for so many bytes: a class of a few pages, or four to each power
// of two.
func Size(bytes int64) int64 {
	for size := int64(pageBytes); size <= largestSmall; size *= 4 {
		if bytes <= size {
			return size
		}
	}
	step := int64(1) << max(12, bits.Len64(uint64(bytes-1))-3)
	return max(leastLarge, (bytes+step-1)/step*step)
}

// Whole returns the bytes that a buffer of so many takes from its account, if no free one is there.
func Whole(bytes int64) int64 {
	if size := Size(max(bytes, 1)); size > largestSmall {
		return size
	}
	return slabBytes
}

// Get returns a buffer of at least so many bytes, which are undefined. It waits for room until ctx ends.
func (b *Buffers) Get(ctx context.Context, bytes int64) (*Buffer, error) {
	if bytes > 1<<50 {
		return nil, &Refused{Kind: b.account.kind, Account: b.account.name, Need: bytes,
			Limit: b.account.ledger.Most(b.account.kind), Never: true}
	}
	size := Size(max(bytes, 1))
	if x := b.pop(size); x != nil {
		return x.cut(bytes), nil
	}
	whole := Whole(bytes)
	if err := b.account.Take(ctx, whole); err != nil {
		return nil, err
	}
	t, err := weir.New(weir.U8, int(whole))
	if err != nil {
		b.account.Give(whole)
		return nil, err
	}
	if whole == size {
		return (&Buffer{of: b, tensor: t, bytes: t.Bytes(), size: size}).cut(bytes), nil
	}
	s := &slab{tensor: t, size: size, used: 1}
	data := t.Bytes()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all[s] = true
	for at := size; at < whole; at += size {
		b.free[size] = append(b.free[size], &Buffer{of: b, slab: s, bytes: data[at : at+size : at+size], size: size})
	}
	return (&Buffer{of: b, slab: s, bytes: data[:size:size], size: size}).cut(bytes), nil
}

// pop returns a free buffer of a size, nil if there is none.
func (b *Buffers) pop(size int64) *Buffer {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.free[size]
	if len(list) == 0 {
		return nil
	}
	x := list[len(list)-1]
	list[len(list)-1] = nil
	b.free[size] = list[:len(list)-1]
	if x.slab != nil {
		x.slab.used++
	} else {
		b.kept -= size
	}
	return x
}

// cut makes Bytes have a length.
func (x *Buffer) cut(bytes int64) *Buffer {
	x.bytes = x.bytes[:bytes]
	return x
}

// Bytes returns the buffer's memory, which starts at a multiple of 64 bytes and has the length that was asked for. It
// is invalid after Close.
func (x *Buffer) Bytes() []byte { return x.bytes }

// Close gives the buffer back. It must be called once.
func (x *Buffer) Close() {
	b := x.of
	b.mu.Lock()
	x.bytes = x.bytes[:x.size]
	switch {
	case x.slab != nil:
		x.slab.used--
	case b.kept+x.size <= b.keep:
		b.kept += x.size
	default:
		b.mu.Unlock()
		x.drop()
		return
	}
	b.free[x.size] = append(b.free[x.size], x)
	b.mu.Unlock()
	b.account.ledger.Settle()
}

// drop releases a buffer that has a tensor of its own.
func (x *Buffer) drop() {
	x.tensor.Close()
	x.of.account.Give(x.size)
}

// Release releases the free buffers, except those of slabs of which another is in use.
func (b *Buffers) Release() {
	b.mu.Lock()
	var drop []*Buffer
	var slabs []*slab
	for size, list := range b.free {
		kept := list[:0]
		for _, x := range list {
			switch {
			case x.slab == nil:
				drop = append(drop, x)
			case x.slab.used > 0:
				kept = append(kept, x)
			}
		}
		clear(list[len(kept):])
		b.free[size] = kept
	}
	b.kept = 0
	for s := range b.all {
		if s.used == 0 {
			delete(b.all, s)
			slabs = append(slabs, s)
		}
	}
	b.mu.Unlock()
	for _, x := range drop {
		x.drop()
	}
	for _, s := range slabs {
		bytes := int64(s.tensor.Len())
		s.tensor.Close()
		b.account.Give(bytes)
	}
}

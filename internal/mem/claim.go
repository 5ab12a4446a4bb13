package mem

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"

	"github.com/weirml/weir/internal/diag"
)

// Reading a file may take ClaimFloor bytes, and ClaimFactor more for each byte that the file has.
const (
	ClaimFactor = 32
	ClaimFloor  = 16 << 20
)

// claimValue is the number of bytes that a value of a JSON text is charged, besides the text.
const claimValue = 128

// Claim is the account of what a file says it needs. A reader charges each size that the file states before it takes
// memory for it: bytes that unpack, records, copies, tensors that share bytes. What the file as a whole may claim
// follows from the bytes that it has. Blocks that a claim maps live until its Close. A Claim also carries the context
// of the reading, so that a charge fails once the context has ended. Its methods may be called by any goroutine.
type Claim struct {
	lock   sync.Mutex
	ctx    context.Context
	bytes  int64 // of the file, and of those that belong to it
	taken  int64
	looks  int
	blocks []*Block
}

// NewClaim returns the claim of a file of so many bytes. A nil context never ends.
func NewClaim(ctx context.Context, bytes int64) *Claim {
	if ctx == nil {
		ctx = context.Background()
	}
	return &Claim{ctx: ctx, bytes: bytes}
}

// Claimable returns the most that reading a file of so many bytes may take.
func Claimable(bytes int64) int64 {
	if bytes > (math.MaxInt64-ClaimFloor)/ClaimFactor {
		return math.MaxInt64
	}
	return ClaimFloor + ClaimFactor*bytes
}

// Extend adds the bytes of another file that belongs to this one, as external data do.
func (c *Claim) Extend(bytes int64) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.bytes += bytes
}

// Alone detaches the claim from its context: later charges do not look at it.
func (c *Claim) Alone() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.ctx = context.Background()
}

// looking is the number of charges between two looks at the context.
const looking = 256

// Take charges bytes. If the file claims more than it may, the error is an ErrInput and nothing is charged; if the
// context has ended, it is the context's error.
func (c *Claim) Take(bytes int64) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.looks++; c.looks%looking == 0 || bytes > ClaimFloor/looking {
		if err := c.ctx.Err(); err != nil {
			return err
		}
	}
	if most := Claimable(c.bytes); bytes < 0 || bytes > most-c.taken {
		return diag.Inputf("it claims %s beside %s, and a file of %d bytes may claim %s", FormatBytes(bytes),
			FormatBytes(c.taken), c.bytes, FormatBytes(most))
	}
	c.taken += bytes
	return nil
}

// Err returns the context's error.
func (c *Claim) Err() error {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.ctx.Err()
}

// TakeFor is Take for a tensor or record, which the ErrInput names.
func (c *Claim) TakeFor(name string, bytes int64) error {
	err := c.Take(bytes)
	var e *diag.Error
	if errors.As(err, &e) {
		return e.AtTensor(name)
	}
	return err
}

// Map charges bytes and takes them from the ledger. The block is closed by Close, if not before.
func (c *Claim) Map(kind Kind, label string, bytes int64) (*Block, error) {
	if err := c.TakeFor(label, bytes); err != nil {
		return nil, err
	}
	b, err := Map(kind, label, bytes)
	if err != nil {
		return nil, err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.blocks = append(c.blocks, b)
	return b, nil
}

// Unpack reads bytes that unpack into a block of the claim, which they must fill exactly.
func (c *Claim) Unpack(r io.Reader, label string, bytes uint64) (*Block, error) {
	b, err := c.Map(File, label, int64(min(bytes, math.MaxInt64)))
	if err != nil {
		return nil, err
	}
	if err := b.readFrom(r); err != nil {
		b.Close()
		return nil, diag.As(err, diag.ErrInput).AtTensor(label)
	}
	return b, nil
}

// JSON charges what decoding a JSON text may take: the text, and a fixed number of bytes for each value in it, however
// short. The text need not be valid.
func (c *Claim) JSON(text []byte) error {
	if err := c.Take(int64(len(text))); err != nil {
		return err
	}
	values, within := int64(1), false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++ // the escaped character does not end the string
		case '"':
			within = !within
		case '{', '[', ',':
			if within {
				continue
			}
			if values++; values%(1<<16) == 0 {
				if err := c.Take(values * claimValue); err != nil {
					return err
				}
				values = 0
			}
		}
	}
	return c.Take(values * claimValue)
}

// Blocks returns the blocks that the claim mapped and that are not closed.
func (c *Claim) Blocks() (list []*Block) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, b := range c.blocks {
		if !b.closed.Load() {
			list = append(list, b)
		}
	}
	return list
}

// Close releases the blocks.
func (c *Claim) Close() error {
	c.lock.Lock()
	defer c.lock.Unlock()
	var all []error
	for _, b := range c.blocks {
		all = append(all, b.Close())
	}
	c.blocks = nil
	return errors.Join(all...)
}

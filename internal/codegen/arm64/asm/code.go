package asm

import (
	"encoding/binary"
	"slices"

	"github.com/weirml/weir/internal/codegen/assembly"
	"github.com/weirml/weir/internal/diag"
)

// Code collects machine code: instructions one after another, labels, and a pool of constants after them. Its zero
// value is ready. It is position independent; its first byte must come to lie on a multiple of 64 for Align and for the
// constants' alignment to hold.
type Code struct {
	bytes    []byte
	labels   assembly.Labels
	jumps    []distance
	pool     assembly.Pool
	uses     []distance
	features Features
}

// distance is a field for the distance from an instruction to a label, or to a constant's byte.
type distance struct {
	at, to, byte int32
	reach        uint8
}

// Reset empties the code and keeps its memory.
func (c *Code) Reset() {
	c.labels.Reset()
	c.pool.Reset()
	*c = Code{bytes: c.bytes[:0], labels: c.labels, jumps: c.jumps[:0], pool: c.pool, uses: c.uses[:0]}
}

// Grow makes room for so many bytes more.
func (c *Code) Grow(bytes int) { c.bytes = slices.Grow(c.bytes, bytes) }

// Len returns the number of bytes of the instructions so far.
func (c *Code) Len() int { return len(c.bytes) }

// Features returns the features that the instructions so far need.
func (c *Code) Features() Features { return c.features }

// NewLabel returns a new label that is not bound.
func (c *Code) NewLabel() Label { return c.labels.New() }

// Bind binds a label to the present position. It makes the label if NewLabel did not: callers may number labels from 1.
func (c *Code) Bind(l Label) { c.labels.Bind(l, len(c.bytes)) }

// Align fills with instructions that do nothing up to a multiple of a power of two, from 4 to 64.
func (c *Code) Align(to int) {
	for len(c.bytes)&(to-1) != 0 {
		c.bytes = binary.LittleEndian.AppendUint32(c.bytes, nop)
	}
}

// nop does nothing.
const nop = 0xD503201F

// Constant puts bytes into the pool, once, and returns their value of Mem.Pool. There may be 4 to 64 bytes, a
// power of two.
func (c *Code) Constant(bytes []byte) int32 { return c.pool.Add(bytes, 4) }

// Emit appends an instruction. Its registers must be the machine's. It panics if the instruction has no form.
func (c *Code) Emit(i Inst) {
	switch i.Op {
	case LABEL:
		c.Bind(i.To)
		return
	case ALIGN:
		c.Align(int(i.Imm))
		return
	}
	f := find(&i)
	if f == nil {
		panic(diag.Internalf("arm64: no form of %s", i.String()))
	}
	if (i.Args[0] | i.Args[1] | i.Args[2] | i.Args[3] | i.Args[4] | i.Args[5] | i.Mem.Base | i.Mem.Index).Virtual() {
		panic(diag.Internalf("arm64: a virtual register in %s", i.String()))
	}
	if int(i.Mem.Pool) > c.pool.Len() {
		panic(diag.Internalf("arm64: constant %d of %d", i.Mem.Pool, c.pool.Len()))
	}
	c.features |= f.needs(&i)
	if f.count > 0 {
		if o := &f.operands[f.count-1]; o.kind.reach > 0 {
			d := distance{at: int32(len(c.bytes)), reach: o.kind.reach}
			if o.place == 'J' {
				d.to = int32(i.To)
				c.jumps = append(c.jumps, d)
			} else {
				d.to, d.byte = i.Mem.Pool, i.Mem.Disp
				c.uses = append(c.uses, d)
			}
		}
	}
	c.bytes = binary.LittleEndian.AppendUint32(c.bytes, f.encode(&i))
}

// largest is the most bytes of code: every distance within it has 32 bits.
const largest = 1 << 30

// Finish resolves jumps and constants and returns the code with its pool after it. The bytes are Code's own until
// Reset. Code in which a jump or a constant is out of an instruction's reach is ErrUnsupported.
func (c *Code) Finish() ([]byte, error) {
	if len(c.bytes) > largest {
		return nil, diag.Unsupportedf("a kernel of %d bytes of machine code", len(c.bytes))
	}
	for _, j := range c.jumps {
		to, err := c.labels.Target(Label(j.to))
		if err != nil {
			return nil, err
		}
		if err := c.resolve(j, to); err != nil {
			return nil, err
		}
	}
	c.jumps = c.jumps[:0]
	if c.pool.Len() > 0 {
		if err := c.finishPool(); err != nil {
			return nil, err
		}
	}
	return c.bytes, nil
}

// resolve puts the distance to a position into an instruction.
func (c *Code) resolve(d distance, to int32) error {
	far, limit := to-d.at, int32(1)<<(d.reach+1)
	if d.reach == nearReach {
		limit /= 4
	}
	if far < -limit || far >= limit {
		return diag.Unsupportedf("machine code with a jump or a constant over %d bytes, where %d can be reached", far, limit)
	}
	word := binary.LittleEndian.Uint32(c.bytes[d.at:])
	switch d.reach {
	case nearReach:
		word |= uint32(far)&3<<29 | uint32(far>>2)&(1<<19-1)<<5
	case 26:
		word |= uint32(far>>2) & (1<<26 - 1)
	default:
		word |= uint32(far>>2) & (1<<d.reach - 1) << 5
	}
	binary.LittleEndian.PutUint32(c.bytes[d.at:], word)
	return nil
}

// finishPool appends the constants, the largest first so that each lies on a multiple of its size.
func (c *Code) finishPool() error {
	c.Align(c.pool.Align())
	var at []int32
	c.bytes, at = c.pool.AppendTo(c.bytes)
	for _, u := range c.uses {
		if err := c.resolve(u, at[u.to-1]+u.byte); err != nil {
			return err
		}
	}
	c.uses = c.uses[:0]
	return nil
}

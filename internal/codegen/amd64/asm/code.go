package asm

import (
	"encoding/binary"
	"math"
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
	jumps    []jump
	pool     assembly.Pool
	uses     []poolUse
	features Features
}

// jump is a displacement of 32 bits to a label that was not yet bound.
type jump struct {
	at int32
	to Label
}

// poolUse is a displacement to a constant, relative to the instruction's end.
type poolUse struct{ at, end, constant int32 }

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

// Align fills with instructions that do nothing up to a multiple of a power of two, at most 64.
func (c *Code) Align(to int) {
	for rest := -len(c.bytes) & (to - 1); rest > 0; {
		n := min(rest, len(nops))
		c.bytes = append(c.bytes, nops[n-1]...)
		rest -= n
	}
}

// nops do nothing in so many bytes; they are the ones that Intel and AMD recommend.
var nops = [...]string{
	"\x90", "\x66\x90", "\x0F\x1F\x00", "\x0F\x1F\x40\x00", "\x0F\x1F\x44\x00\x00", "\x66\x0F\x1F\x44\x00\x00",
	"\x0F\x1F\x80\x00\x00\x00\x00",
	"\x0F\x1F\x84\x00\x00\x00\x00\x00", "\x66\x0F\x1F\x84\x00\x00\x00\x00\x00",
}

// Constant puts bytes into the pool, once, and returns their value of Mem.Pool. There may be 1 to 64 bytes, a
// power of two.
func (c *Code) Constant(bytes []byte) int32 { return c.pool.Add(bytes, 1) }

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
		panic(diag.Internalf("amd64: no form of %s", i.String()))
	}
	if (i.Args[0] | i.Args[1] | i.Args[2] | i.Args[3] | i.Mem.Base | i.Mem.Index | i.Mask).Virtual() {
		panic(diag.Internalf("amd64: a virtual register in %s", i.String()))
	}
	if i.Mem.Index|i.Mem.Base != NoReg && !f.addresses(&i.Mem) {
		panic(diag.Internalf("amd64: no such address as in %s", i.String()))
	}
	c.features |= f.needs(&i)
	if f.count > 0 && f.operands[0].place == 'J' {
		c.jump(f, i.To)
		return
	}
	p := f.sort(&i)
	uses, unit := len(c.uses), 1
	switch f.prefix {
	case legacy:
		c.legacy(f, &i, &p)
	case vex:
		c.vex(f, &i, &p)
	case evex:
		c.evex(f, &i, &p)
		if p.memory {
			unit = f.size(&i)
			if f.unit != 0 {
				unit = int(f.unit)
			}
		}
	}
	if f.modRM {
		c.modRM(&i, &p, unit)
	}
	if f.flags&immediate != 0 {
		c.immediateBytes(f, &i, &p)
	} else if f.operands[3].place == 'S' {
		c.bytes = append(c.bytes, byte(p.top<<4))
	}
	if len(c.uses) > uses {
		c.uses[uses].end = int32(len(c.bytes))
	}
}

// addresses reports whether registers and scale make an address that the form can encode.
func (f *form) addresses(m *Mem) bool {
	if m.Pool != 0 || m.Base != NoReg && m.Base.Class() != General {
		return false
	}
	index := General
	if f.flags&gathers != 0 {
		index = Vector
	} else if m.Index == NoReg {
		return f.flags&strides == 0
	}
	return m.Index.Class() == index && m.Index != RSP && (m.Scale == 1 || m.Scale == 2 || m.Scale == 4 || m.Scale == 8)
}

// needs returns the features that a form needs.
func (f *form) needs(i *Inst) Features {
	if f.prefix == evex && f.flags&(scalar|fixedL) == 0 && f.bits >= 128 && i.Bits != 512 {
		return f.features | AVX512VL
	}
	return f.features
}

// jump appends a jump: of two bytes to a bound label nearby, else with 32 bits of displacement.
func (c *Code) jump(f *form, to Label) {
	if at, ok := c.labels.Position(to); ok {
		if d := int(at) - len(c.bytes) - 2; d >= -128 {
			short := byte(0xEB)
			if f.op != JMP {
				short = f.opcode - 0x10
			}
			c.bytes = append(c.bytes, short, byte(d))
			return
		}
	}
	if f.opcodes == 1 {
		c.bytes = append(c.bytes, 0x0F)
	}
	c.bytes = append(c.bytes, f.opcode)
	c.jumps = append(c.jumps, jump{int32(len(c.bytes)), to})
	c.number32(0)
}

// Finish resolves jumps and constants and returns the code with its pool after it. The bytes are Code's own until
// Reset.
func (c *Code) Finish() ([]byte, error) {
	for _, j := range c.jumps {
		to, err := c.labels.Target(j.to)
		if err != nil {
			return nil, err
		}
		binary.LittleEndian.PutUint32(c.bytes[j.at:], uint32(to-j.at-4))
	}
	c.jumps = c.jumps[:0]
	if c.pool.Len() > 0 {
		c.finishPool()
	}
	if len(c.bytes) > math.MaxInt32 {
		return nil, diag.Internalf("amd64: %d bytes of code", len(c.bytes))
	}
	return c.bytes, nil
}

// finishPool appends the constants, the largest first so that each lies on a multiple of its size.
func (c *Code) finishPool() {
	c.Align(c.pool.Align())
	var at []int32
	c.bytes, at = c.pool.AppendTo(c.bytes)
	for _, u := range c.uses {
		disp := int32(binary.LittleEndian.Uint32(c.bytes[u.at:]))
		binary.LittleEndian.PutUint32(c.bytes[u.at:], uint32(at[u.constant]-u.end+disp))
	}
	c.uses = c.uses[:0]
}

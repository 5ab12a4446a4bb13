package executor

import (
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/target"
)

// Every output has storage of its own, which is allocated when a run first needs it, since an output may lie in other
// memory, and its storage may be handed to the caller.

// PutOutput makes output i lie in the caller's memory, aligned to 64 bytes, in the runs that follow; if base is nil, in
// the call's own again.
func (c *Call) PutOutput(i int, base unsafe.Pointer, bytes int64) error {
	p := c.x.program
	s := c.x.layout.own[i]
	if s < 0 {
		return diag.Unsupportedf("memory of the caller for an output whose size depends on data, or that is a view of " +
			"another tensor").
			AtTensor(p.Outputs[i].Name)
	}
	if c.outside == nil {
		c.outside = make([]target.Operand, len(p.Storages))
	}
	if c.outside[s].Base == base {
		return nil
	}
	if base != nil {
		if size, err := c.x.layout.sizes[s].Eval(c.values); err != nil || size != bytes {
			return diag.Inputf("%d bytes given, %d expected (%v)", bytes, size, err).AtTensor(p.Outputs[i].Name)
		}
	}
	c.outside[s] = target.Operand{Base: base, Bytes: bytes}
	if base != nil {
		c.unpromise(s)
	}
	if old := c.storages[s]; old != nil && base != nil {
		c.storages[s] = nil
		if err := old.Close(); err != nil {
			return err
		}
	}
	c.unplaced = true
	return nil
}

// Inside makes all outputs lie in the call's own storage again.
func (c *Call) Inside() {
	for s := range c.outside {
		if c.outside[s].Base != nil {
			c.outside[s], c.unplaced = target.Operand{}, true
		}
	}
}

// TakeOutput hands the storage of output i, with the last run's result, to the caller; nil if the output has none of
// its own. The next run allocates another.
func (c *Call) TakeOutput(i int) *mem.Block {
	s := c.x.layout.own[i]
	if s < 0 {
		return nil
	}
	b := c.storages[s]
	if g := c.guards[c.x.program.Outputs[i].Tensor]; g != nil && b != nil {
		copy(b.Bytes(), g.Bytes())
	}
	c.storages[s], c.unplaced, c.handedOn = nil, true, true
	if b != nil {
		b.Own(nil)
		c.again(s, b.Size())
	}
	return b
}

// again makes mem keep an output's memory after the caller frees it, since the next run needs as much. It keeps at most
// the outputs' bytes for a call.
func (c *Call) again(s int, bytes int64) {
	if mem.Pooled(bytes) || c.x.account != nil {
		return // pools keep so little memory anyway; and an account grants no memory that is free
	}
	if c.kept == nil {
		c.kept = make([]int64, len(c.storages))
	}
	if bytes > c.kept[s] {
		mem.Again(bytes - c.kept[s]) // a positive number, so nothing is given back
		c.kept[s] = bytes
	}
}

// forgo releases the memory that mem keeps for the call's outputs.
func (c *Call) forgo() error {
	total := int64(0)
	for _, bytes := range c.kept {
		total += bytes
	}
	c.kept = nil
	return mem.Again(-total)
}

// Owns reports whether output i has storage of its own, which the caller can provide or take.
func (x *Executable) Owns(i int) bool { return x.layout.own[i] >= 0 }

// ready allocates missing output storages that the first steps use, and locates the tensors in storages that are new or
// have moved.
func (c *Call) ready(steps int) error {
	if !c.unplaced {
		return nil
	}
	c.unplaced = false
	for _, s := range c.x.layout.results {
		if c.storages[s] != nil || c.elsewhere(s) {
			continue
		}
		if c.x.layout.begins[s] >= steps {
			c.unplaced = true
		} else if err := c.takeResult(s); err != nil {
			c.unplaced = true
			return err
		}
	}
	for _, t := range c.x.layout.moving {
		if s := c.x.layout.home[t]; c.storages[s] == nil && !c.elsewhere(s) {
			continue
		}
		if err := c.placeTensor(t); err != nil {
			c.unplaced = true
			return c.x.typed(err, c.values)
		}
	}
	return nil
}

// readyAt allocates the output storages that steps before the given one use and that ready left out, and locates the
// tensors there.
func (c *Call) readyAt(steps int) error {
	if !c.unplaced {
		return nil
	}
	left := false
	for _, s := range c.x.layout.results {
		if c.storages[s] != nil || c.elsewhere(s) {
			continue
		}
		if c.x.layout.begins[s] >= steps {
			left = true
			continue
		}
		if err := c.takeResult(s); err != nil {
			return err
		}
		for _, t := range c.x.layout.moving {
			if c.x.layout.home[t] != s {
				continue
			}
			if err := c.placeTensor(t); err != nil {
				return c.x.typed(err, c.values)
			}
		}
	}
	c.unplaced = left
	return nil
}

// takeResult allocates the storage of an output.
func (c *Call) takeResult(s int) error {
	size, err := c.x.layout.sizes[s].Eval(c.values)
	if err != nil {
		return c.x.typed(err, c.values)
	}
	take, promised := mem.Map, c.promised != nil && c.promised[s] > 0
	switch {
	case c.x.account != nil && !promised:
		take = c.granting(take)
	case c.x.account == nil && c.handedOn: // the caller may give it back soon: a pool keeps it for the runs that follow
		take = mem.TakeAgain
	}
	if c.storages[s], err = c.x.takeStorage(&c.x.program.Storages[s], size, take); err != nil {
		return err
	}
	if promised {
		c.promised[s] = 0
		c.storages[s].Charge(c.x.account)
	}
	if c.watch != nil {
		mem.Fill(c.storages[s], c.watch.pattern)
	}
	return nil
}

// elsewhere reports whether the caller's memory replaces a storage.
func (c *Call) elsewhere(s int) bool { return c.outside != nil && c.outside[s].Base != nil }

// outputs records the outputs' storages, the tensors in them, and for each output the storage that it has alone; −1 if
// there is none.
func (l *layout) outputs() {
	p := l.program
	l.inResults = make([]bool, len(p.Tensors))
	of := make([]int, len(p.Storages)) // by storage: its carves
	for s := range p.Storages {
		if p.Storages[s].Kind == program.Results && !p.Storages[s].Late {
			l.results = append(l.results, s)
		}
	}
	for i := range p.Tensors {
		switch t := &p.Tensors[i]; t.Class {
		case program.Carved:
			l.inResults[i] = p.Storages[t.Of].Kind == program.Results && !p.Storages[t.Of].Late
			of[t.Of]++
		case program.View:
			l.inResults[i] = l.inResults[t.Of]
		}
		if l.inResults[i] && !l.tensors[i].dynamic {
			l.moving = append(l.moving, i)
		}
	}
	l.beginnings()
	for _, port := range p.Outputs {
		own := -1
		if t := &p.Tensors[port.Tensor]; t.Class == program.Carved && l.inResults[port.Tensor] &&
			!l.tensors[port.Tensor].dynamic && of[t.Of] == 1 {
			own = t.Of
		}
		l.own = append(l.own, own)
	}
}

// beginnings records for each tensor the output storage that it lies in, and for each output storage the first of the
// program's own steps that uses it.
func (l *layout) beginnings() {
	p := l.program
	l.home, l.begins = make([]int, len(p.Tensors)), make([]int, len(p.Storages))
	for s := range l.begins {
		l.begins[s] = max(0, len(p.Steps)-1)
	}
	for t := range p.Tensors {
		if l.home[t] = -1; l.inResults[t] {
			l.home[t] = p.Tensors[p.Root(t)].Of
		}
	}
	for at := len(p.Steps) - 1; at >= 0; at-- {
		if _, is := p.Steps[at].(*program.Carve); is {
			continue // it only says which tensor owns which range
		}
		program.Mentions(p.Steps[at:at+1], func(t int) {
			if s := l.home[t]; s >= 0 {
				l.begins[s] = at
			}
		})
	}
}

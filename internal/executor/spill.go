package executor

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
)

// Tensors that do not fit a budget lie in files: results that are needed again later in the call's own file, weights in
// the model's.

// file returns the spill file that a tensor lies in; nil if it lies in memory.
func (c *Call) file(t int) *mem.SpillFile {
	if x := &c.x.program.Tensors[t]; x.Class == program.Carved {
		return c.files[x.Of]
	}
	return nil
}

// away reports whether a tensor lies in a file: the call's spill file or the model's.
func (c *Call) away(t int) bool { return c.file(t) != nil || c.x.paged[t] }

// page copies between memory and a file.
func (c *Call) page(s *program.Copy) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	here, away := s.To, s.From
	if c.away(s.To) {
		here, away = s.From, s.To
	}
	o, err := c.operand(here)
	if err != nil {
		return err
	}
	there, err := c.operand(away)
	if err != nil {
		return err
	}
	c.watch.touch(c, here)
	data := bytesOf(o)
	if p := c.picks[s]; p != nil {
		return p.view(c, s, data)
	}
	if o.Bytes != there.Bytes {
		panic(diag.Internalf("a copy of %d bytes of %s and %d of %s", o.Bytes, c.x.program.Tensors[here].Name, there.Bytes,
			c.x.program.Tensors[away].Name))
	}
	f := c.file(away)
	if f == nil {
		return mem.Read(bytesOf(there), func() error {
			return inPieces(data, c.ctx.Err, func(piece []byte, at int64) error {
				mem.Move(piece, bytesOf(there)[at:at+int64(len(piece))])
				return nil
			})
		})
	}
	at, err := c.x.layout.tensors[away].offset.Eval(c.values)
	if err != nil {
		return err
	}
	c.watch.note(c.x.program.Tensors[away].Of, at, o.Bytes)
	if away == s.To {
		return inPieces(data, c.ctx.Err, func(piece []byte, from int64) error { return f.Write(piece, at+from) })
	}
	return inPieces(data, c.ctx.Err, func(piece []byte, from int64) error { return f.Read(piece, at+from) })
}

// inPieces calls do for consecutive pieces of data, with their offsets, until do or ask returns an error.
func inPieces(data []byte, ask func() error, do func(piece []byte, at int64) error) error {
	for at := 0; at < len(data); at += bytesAtOnce {
		if at > 0 {
			if err := ask(); err != nil {
				return err
			}
		}
		if err := do(data[at:min(at+bytesAtOnce, len(data))], int64(at)); err != nil {
			return err
		}
	}
	return nil
}

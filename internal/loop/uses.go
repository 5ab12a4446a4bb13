package loop

// EachBuffer calls visit for every buffer that the steps mention, in order, bodies included; nil operands are passed over.
func EachBuffer(steps []Step, visit func(*Buffer)) {
	see := func(buffers ...*Buffer) {
		for _, b := range buffers {
			if b != nil {
				visit(b)
			}
		}
	}
	for _, step := range steps {
		switch s := step.(type) {
		case *Launch:
			see(s.Args...)
		case *Host:
			see(s.In...)
			see(s.Out...)
		case *Bind:
			see(s.From)
		case *If:
			see(s.Cond)
			EachBuffer(s.Then, visit)
			EachBuffer(s.Else, visit)
		case *Loop:
			see(s.Trip, s.Cond, s.Index)
			EachBuffer(s.Body, visit)
		case *Copy:
			see(s.From, s.Pick.Of(), s.To)
		}
	}
}

// Root is the buffer whose storage b lies in: b itself where it is no view.
func (b *Buffer) Root() *Buffer {
	for b.View != nil {
		b = b.View.Of
	}
	return b
}

// Carved reports whether a buffer is a view that lies in reserved bytes.
func (b *Buffer) Carved() bool { return b.View != nil && b.View.Of.Reserved }

package loop

// StepBodies returns the lists of steps directly inside a step, in their printed order; unused entries are nil.
func StepBodies(step Step) (bodies [2]*[]Step) {
	switch s := step.(type) {
	case *If:
		bodies[0], bodies[1] = &s.Then, &s.Else
	case *Loop:
		bodies[0] = &s.Body
	}
	return bodies
}

// WalkSteps calls visit for each step, in order, an outer one before those in its bodies.
func WalkSteps(steps []Step, visit func(Step)) {
	for _, step := range steps {
		visit(step)
		for _, body := range StepBodies(step) {
			if body != nil {
				WalkSteps(*body, visit)
			}
		}
	}
}

// EachBuffer calls visit for every buffer that the steps mention, in order, bodies included. It skips nil operands.
func EachBuffer(steps []Step, visit func(*Buffer)) {
	WalkSteps(steps, func(step Step) { StepOperands(step, visit) })
}

// StepOperands calls visit for each buffer that a step itself reads or writes, its bodies left out. It skips nil
// operands.
func StepOperands(step Step, visit func(*Buffer)) {
	see := func(buffers ...*Buffer) {
		for _, b := range buffers {
			if b != nil {
				visit(b)
			}
		}
	}
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
	case *Loop:
		see(s.Trip, s.Cond, s.Index)
	case *Copy:
		see(s.From, s.Pick.Of(), s.To)
	}
}

// Root returns the buffer that owns the storage of b: b itself if it is not a view.
func (b *Buffer) Root() *Buffer {
	for b.View != nil {
		b = b.View.Of
	}
	return b
}

// Carved reports whether a buffer is a view of a Reserved buffer.
func (b *Buffer) Carved() bool { return b.View != nil && b.View.Of.Reserved }

package program

// Bodies returns the lists of steps directly inside a step, in the order of the text; nil stands for none.
func Bodies(step Step) (bodies [2][]Step) {
	switch s := step.(type) {
	case *If:
		bodies[0], bodies[1] = s.Then, s.Else
	case *Loop:
		bodies[0] = s.Body
	}
	return bodies
}

// Walk visits steps, each before those in its bodies, in order.
func Walk(steps []Step, visit func(Step)) {
	for _, step := range steps {
		visit(step)
		for _, body := range Bodies(step) {
			Walk(body, visit)
		}
	}
}

// Operands visits the tensors that a step itself reads or writes, its bodies left out. A carve and a release have none.
func Operands(step Step, visit func(tensor int)) {
	some := func(tensors ...int) {
		for _, t := range tensors {
			if t >= 0 {
				visit(t)
			}
		}
	}
	switch s := step.(type) {
	case *Launch:
		some(s.Args...)
	case *Host:
		some(s.In...)
		some(s.Out...)
	case *Copy:
		some(s.To, s.From, s.Pick.Of())
	case *Bind:
		some(s.From)
	case *If:
		some(s.Cond)
	case *Loop:
		some(s.Trip, s.Cond, s.Index)
	}
}

// Mentions visits the operands of steps and of all steps in their bodies, in the order of the steps.
func Mentions(steps []Step, visit func(tensor int)) {
	Walk(steps, func(step Step) { Operands(step, visit) })
}

// Root returns the tensor that a view, or a view of a view, lies in; t itself if it is not a view.
func (p *Program) Root(t int) int {
	for p.Tensors[t].Class == View {
		t = p.Tensors[t].Of
	}
	return t
}

package program

// Mentions visits the tensors that steps read or write, those of bodies included, in the order of the steps; carves and releases mention nothing.
func Mentions(steps []Step, visit func(tensor int)) {
	some := func(tensors ...int) {
		for _, t := range tensors {
			if t >= 0 {
				visit(t)
			}
		}
	}
	for _, step := range steps {
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
			Mentions(s.Then, visit)
			Mentions(s.Else, visit)
		case *Loop:
			some(s.Trip, s.Cond, s.Index)
			Mentions(s.Body, visit)
		}
	}
}

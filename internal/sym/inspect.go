package sym

// MinArgs returns expressions whose least is e: of a min, plus any constant, its arguments with the constant added; of anything
// else, e alone.
func (e Expr) MinArgs() []Expr { return e.extremumArgs(minimum) }

// MaxArgs returns expressions whose greatest is e: of a max, plus any constant, its arguments with the constant added; of
// anything else, e alone.
func (e Expr) MaxArgs() []Expr { return e.extremumArgs(maximum) }

func (e Expr) extremumArgs(k kind) []Expr {
	a := e.Sub(Const(e.c)).atom()
	if a == nil || a.kind != k {
		return []Expr{e}
	}
	list := make([]Expr, len(a.args))
	for i, x := range a.args {
		list[i] = x.Add(Const(e.c))
	}
	return list
}

package sym

import "slices"

// Min returns the smaller of e and o.
func (e Expr) Min(o Expr) Expr { return extremum(minimum, []Expr{e, o}) }

// Max returns the larger of e and o.
func (e Expr) Max(o Expr) Expr { return extremum(maximum, []Expr{e, o}) }

// MinOf returns the least expression of a list, 0 for an empty list.
func MinOf(list ...Expr) Expr { return extremum(minimum, list) }

// MaxOf returns the greatest expression of a list, 0 for an empty list.
func MaxOf(list ...Expr) Expr { return extremum(maximum, list) }

// extremum flattens nested extrema, sorts the arguments, and keeps one of those that differ by a constant.
func extremum(k kind, list []Expr) Expr {
	if len(list) == 0 {
		return Expr{}
	}
	flat := make([]Expr, 0, len(list))
	for _, x := range list {
		if x.huge() {
			return tooLarge
		}
		if a := x.atom(); a != nil && a.kind == k {
			flat = append(flat, a.args...)
		} else {
			flat = append(flat, x)
		}
	}
	slices.SortFunc(flat, compareExprs)
	out := flat[:0]
	for _, x := range flat {
		switch last := len(out) - 1; {
		case last < 0 || !sameNode(out[last].n, x.n):
			out = append(out, x)
		case k == maximum:
			out[last] = x // the greater one: the arguments are sorted by their constants
		}
	}
	if len(out) > 1 && len(out) <= mostCompared {
		out = absorb(k, out)
	}
	if len(out) == 1 {
		return out[0]
	}
	return makeAtom(k, slices.Clip(out)...)
}

// absorb drops the arguments that contain another argument under the opposite extremum: max(a, min(a, b)) = a.
func absorb(k kind, list []Expr) []Expr {
	opposite := minimum + maximum - k
	dropped := func(x Expr) bool {
		a := x.atom()
		return a != nil && a.kind == opposite && slices.ContainsFunc(a.args, func(y Expr) bool {
			return slices.ContainsFunc(list, y.Equal)
		})
	}
	if !slices.ContainsFunc(list, dropped) {
		return list
	}
	var out []Expr
	for _, x := range list {
		if !dropped(x) {
			out = append(out, x)
		}
	}
	return out
}

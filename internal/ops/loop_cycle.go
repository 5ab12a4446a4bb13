package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// cycles finds the dimensions that return to earlier values together, as those of a state that each iteration
// transposes: their values are those of a few cases, whatever the number of iterations. It returns the others.
func (l *limiting) cycles(open []growth) (rest []growth) {
	for _, group := range l.related(open, true) {
		if len(group) > 1 && l.cycle(group) {
			continue
		}
		for _, group := range l.related(group, false) {
			if len(group) < 2 || !l.cycle(group) {
				rest = append(rest, group...)
			}
		}
	}
	return rest
}

// related divides dimensions into groups whose values depend on one another, or on one choice, or that are of one
// carried value if values is set.
func (l *limiting) related(open []growth, values bool) (groups [][]growth) {
	group := make([]int, len(open))
	seen := map[sym.Name]int{} // by what a dimension depends on: the first dimension
	for i := range open {
		group[i] = i
	}
	first := map[int]int{} // by carried value
	join := func(i, j int) {
		for k, from, to := 0, group[i], group[j]; k < len(group); k++ {
			if group[k] == from {
				group[k] = to
			}
		}
	}
	for i, g := range open {
		if of, ok := first[g.value]; !ok {
			first[g.value] = i
		} else if values {
			join(i, of)
		}
		on := []sym.Name{sought(g.name)}
		for _, e := range []sym.Expr{g.begins, g.becomes} {
			for _, name := range e.Vars() {
				if l.own[name] {
					on = append(on, name)
				}
			}
		}
		for _, e := range []sym.Expr{g.first, g.next} {
			for _, name := range e.Vars() {
				for _, c := range l.c.Module.Choices {
					if slices.Contains(c.Names, name) {
						on = append(on, c.Names[0])
					}
				}
			}
		}
		for _, name := range on {
			if first, ok := seen[name]; ok {
				join(i, first)
			} else {
				seen[name] = i
			}
		}
	}
	for i := range open {
		var members []growth
		for k, g := range open {
			if group[k] == i {
				members = append(members, g)
			}
		}
		if members != nil {
			groups = append(groups, members)
		}
	}
	return groups
}

// cycle finds all values that the dimensions of a group have together; false if they are too many.
func (l *limiting) cycle(group []growth) bool {
	choice := sym.Choice{From: "a state of a loop has the extents of an iteration before or after"}
	var first, next []sym.Expr
	for _, g := range group {
		if !g.bounded {
			return false
		}
		choice.Names = append(choice.Names, sought(g.name))
		first, next = append(first, g.first), append(next, g.next)
	}
	decided := l.c.Module.Decided()
	begins, ok := decided.AtMost(first, l.dims)
	becomes, known := decided.AtMost(next, l.dims)
	if !ok || !known {
		return false
	}
	add := func(values []sym.Expr) {
		for i, x := range values {
			values[i] = l.dims.Simplify(x)
		}
		if !slices.ContainsFunc(choice.Cases, func(y []sym.Expr) bool { return l.dims.AllLE(values, y) }) {
			choice.Cases = append(choice.Cases, values)
		}
	}
	for _, values := range begins {
		add(values)
	}
	for at := 0; at < len(choice.Cases); at++ {
		if len(choice.Cases) > sym.MostCases {
			return false
		}
		for _, values := range becomes {
			after := make([]sym.Expr, len(values))
			for i, x := range values {
				after[i] = choice.At(x, at)
			}
			add(after)
		}
	}
	for i, name := range choice.Names {
		largest := choice.Cases[0][i]
		for _, values := range choice.Cases {
			largest = largest.Max(values[i])
		}
		l.found[name] = l.dims.Simplify(largest)
	}
	l.cycled = append(l.cycled, choice)
	names := slices.Clone(choice.Names)
	for i, g := range group {
		names[i] = g.name
	}
	l.c.AddChoice(sym.Choice{Names: names, Cases: choice.Cases, From: choice.From})
	return true
}

// spreadChoices replaces the sought names in the cases of all choices by their limits, and by those of each case of a
// cycle together. A choice for which one has no limit, or whose cases become too many, is dropped.
func (l *limiting) spreadChoices() {
	m := l.c.Module
	list := m.Choices
	m.Choices = nil
	all := sym.Decided{Limits: map[sym.Name]sym.Expr{}, Choices: l.cycled}
	for name, limit := range l.found {
		if !isNoLimit(limit) {
			all.Limits[name] = limit
		}
	}
	for _, c := range list {
		if !slices.ContainsFunc(c.Cases, func(values []sym.Expr) bool { return slices.ContainsFunc(values, l.sought) }) {
			m.Choices = append(m.Choices, c)
			continue
		}
		spread, ok := sym.Choice{Names: c.Names, From: c.From}, true
		for _, values := range c.Cases {
			cases, bounded := all.AtMost(values, l.dims)
			ok = ok && bounded && !slices.ContainsFunc(cases, func(values []sym.Expr) bool {
				return slices.ContainsFunc(values, l.sought)
			})
			spread.Cases = append(spread.Cases, cases...)
		}
		if ok {
			l.c.AddChoice(spread)
		}
	}
}

// sought reports whether an expression has a name for which this loop seeks a limit.
func (l *limiting) sought(e sym.Expr) bool {
	return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { return l.own[name] })
}

// stackedTogether adds the choice that the extents of a loop's scan outputs are those of one iteration: made are their
// dimensions, extents those of the body.
func stackedTogether(c *ir.Inference, n *ir.Node, made []sym.Name, extents []sym.Expr) {
	if len(made) > 1 {
		c.Choose(made, "what "+n.Op.Name()+" stacks has the extents of one of its iterations", extents)
	}
}

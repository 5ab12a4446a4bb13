package onnx

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/ir"
)

// rule turns one node into ir: it builds through the call and returns the node's outputs, as many as the call asks for at
// most. It stops by the builder's Fail, Failf or Refuse.
type rule func(c *call) []*ir.Value

// table is the rows of some operators, by their spellings: "Add", or "domain:Name" outside ai.onnx.
type table struct {
	// rules say what an operator becomes. If a newer version only adds to an older one, the rule serves both, and
	// call.Version tells them apart.
	rules map[string]rule
	// before says what an operator became in models that import a version of its domain below the number, down to the
	// next such number.
	before map[int64]map[string]rule
	// texts are rules of operators that mean something else of texts than of numbers.
	texts map[string]rule
	// moves are operators that do to texts' spans what they do to numbers.
	moves map[string]moved
	// integers are inputs that must be integers.
	integers map[string]counted
}

// moved says of an operator that only moves elements which of its inputs may be texts, and which of its outputs then are;
// nil: all.
type moved struct{ in, out []int }

// counted are the inputs, from first to last, that are integers since a version of their operator: sizes, places, axes.
type counted struct {
	since       int64
	first, last int
}

// ruleSet is tables put together.
type ruleSet struct {
	table
	earlier map[string][]meaning // before, by operator, in ascending order
}

// meaning is what an operator was in models that import a version of its domain below until.
type meaning struct {
	until int64
	rule  rule
}

// assemble puts tables together. Two rows of one operator are a fault of the tables.
func assemble(tables ...table) *ruleSet {
	all := &ruleSet{table: table{rules: map[string]rule{}, texts: map[string]rule{}, moves: map[string]moved{}, integers: map[string]counted{}},
		earlier: map[string][]meaning{}}
	for _, t := range tables {
		all.rules, all.texts = merged(all.rules, t.rules), merged(all.texts, t.texts)
		all.moves, all.integers = merged(all.moves, t.moves), merged(all.integers, t.integers)
		for until, rows := range t.before {
			for name, r := range rows {
				all.earlier[name] = append(all.earlier[name], meaning{until, r})
			}
		}
	}
	for name, list := range all.earlier {
		slices.SortFunc(list, func(a, b meaning) int { return cmp.Compare(a.until, b.until) })
		for i := 1; i < len(list); i++ {
			if list[i].until == list[i-1].until {
				panic(fmt.Sprintf("onnx: two rules for %s before version %d", name, list[i].until))
			}
		}
	}
	return all
}

// merged is rows together. Two rows of one name are a fault of the tables.
func merged[T any](parts ...map[string]T) map[string]T {
	all := map[string]T{}
	for _, rows := range parts {
		for name := range rows {
			if _, twice := all[name]; twice {
				panic("onnx: two rows for " + name)
			}
		}
		maps.Copy(all, rows)
	}
	return all
}

// each is rows of one kind as rules.
func each[T any](rows map[string]T, make func(T) rule) map[string]rule {
	out := map[string]rule{}
	for name, row := range rows {
		out[name] = make(row)
	}
	return out
}

// within is rows of a domain, by the operators' names without it.
func within[T any](domain string, rows map[string]T) map[string]T {
	out := map[string]T{}
	for name, row := range rows {
		out[domain+":"+name] = row
	}
	return out
}

// rule is the rule of an operator in models that import the given version of its domain; nil if there is none.
func (s *ruleSet) rule(name string, version int64) rule {
	for _, m := range s.earlier[name] {
		if version < m.until {
			return m.rule
		}
	}
	return s.rules[name]
}

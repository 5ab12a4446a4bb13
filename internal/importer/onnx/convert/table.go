package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/ir"
)

// Rule converts one node: it builds through the call and returns the node's outputs, at most as many as the call asks
// for. It stops by the builder's Fail, Failf or Refuse.
type Rule func(c *Call) []*ir.Value

// Table has the rules of some operators by name: "Add", or "domain:Name" outside ai.onnx.
type Table struct {
	// Rules has the rule of each operator. If a newer version only extends an older one, one rule converts both, and
	// Call.Version distinguishes them.
	Rules map[string]Rule
	// Before has the rules for models that import a version of the domain below the key; the next lower key takes
	// precedence.
	Before map[int64]map[string]Rule
	// Strings has the rules for strings of operators whose rules for strings and numbers differ.
	Strings map[string]Rule
	// Moves has the operators that move spans of strings as they move numbers.
	Moves map[string]Moved
	// Integers has the inputs that must be integers.
	Integers map[string]Counted
}

// Moved lists the inputs that may be strings, of an operator that only moves elements, and the outputs that are strings
// then; nil means all.
type Moved struct{ In, Out []int }

// Counted is a range of inputs that must be integers from a version of their operator on: sizes, indices, axes.
type Counted struct {
	since       int64
	first, last int
}

// Since returns the Counted of the inputs from first to last.
func Since(version int64, first, last int) Counted { return Counted{version, first, last} }

// RuleSet is the union of tables.
type RuleSet struct {
	Table
	earlier map[string][]meaning // the rules of Before, by operator, in ascending order
}

// meaning is an operator's rule in models that import a version of its domain below until.
type meaning struct {
	until int64
	rule  Rule
}

// Assemble merges tables. It panics if two tables have a rule for one operator.
func Assemble(tables ...Table) *RuleSet {
	all := &RuleSet{Table: Table{Rules: map[string]Rule{}, Strings: map[string]Rule{}, Moves: map[string]Moved{},
		Integers: map[string]Counted{}},
		earlier: map[string][]meaning{}}
	for _, t := range tables {
		all.Rules, all.Strings = Merged(all.Rules, t.Rules), Merged(all.Strings, t.Strings)
		all.Moves, all.Integers = Merged(all.Moves, t.Moves), Merged(all.Integers, t.Integers)
		for until, rows := range t.Before {
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

// Merged merges maps. It panics if two of them have the same key.
func Merged[T any](tables ...map[string]T) map[string]T {
	all := map[string]T{}
	for _, rows := range tables {
		for name := range rows {
			if _, twice := all[name]; twice {
				panic("onnx: two rows for " + name)
			}
		}
		maps.Copy(all, rows)
	}
	return all
}

// Each converts rows of one kind to rules.
func Each[T any](rows map[string]T, make func(T) Rule) map[string]Rule {
	out := map[string]Rule{}
	for name, row := range rows {
		out[name] = make(row)
	}
	return out
}

// Within prefixes the operators' names with a domain.
func Within[T any](domain string, rows map[string]T) map[string]T {
	out := map[string]T{}
	for name, row := range rows {
		out[domain+":"+name] = row
	}
	return out
}

// Names returns the operators that have a rule at some version, sorted.
func (s *RuleSet) Names() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(s.Rules)), maps.Keys(s.earlier))
	slices.Sort(names)
	return slices.Compact(names)
}

// Rule returns the rule of an operator in models that import the given version of its domain; nil if there is none.
func (s *RuleSet) Rule(name string, version int64) Rule {
	for _, m := range s.earlier[name] {
		if version < m.until {
			return m.rule
		}
	}
	return s.Rules[name]
}

package convert

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/ir"
)

// TestAssemble merges tables: the rows of older versions are ordered, and two rows of one operator are refused.
func TestAssemble(t *testing.T) {
	was := int64(0)
	row := func(until int64) Rule { return func(*Call) []*ir.Value { was = until; return nil } }
	first := Table{Rules: map[string]Rule{"A": row(99)}, Before: map[int64]map[string]Rule{9: {"A": row(9)},
		2: {"A": row(2), "B": row(2)}}}
	second := Table{Rules: map[string]Rule{"C": row(99)}, Before: map[int64]map[string]Rule{5: {"A": row(5)}}}
	all := Assemble(first, second)
	for version, want := range map[int64]int64{1: 2, 2: 5, 4: 5, 5: 9, 8: 9, 9: 99, 30: 99} {
		if all.Rule("A", version)(nil); was != want {
			t.Errorf("version %d of A is that before %d, not %d", version, was, want)
		}
	}
	if all.Rule("B", 1) == nil || all.Rule("B", 2) != nil || all.Rule("D", 1) != nil {
		t.Error("B is an operator of version 1")
	}
	if names := all.Names(); !slices.Equal(names, []string{"A", "B", "C"}) {
		t.Errorf("the operators are %v", names)
	}
	for _, twice := range []Table{{Rules: map[string]Rule{"A": row(1)}},
		{Before: map[int64]map[string]Rule{9: {"A": row(9)}}}} {
		if text := panicOf(func() { Assemble(first, twice) }); text == "" {
			t.Errorf("two rows of A are taken")
		}
	}
}

// panicOf returns the value with which f panics, printed; "" if it does not panic.
func panicOf(f func()) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprint(p)
		}
	}()
	f()
	return ""
}

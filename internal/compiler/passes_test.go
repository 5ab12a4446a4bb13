package compiler

import (
	"slices"
	"strings"
	"testing"
)

// TestOrder shows that the table of passes is in order, and that checkOrder finds rows that are not.
func TestOrder(t *testing.T) {
	refused := func(rows []PassRow) (why string) {
		defer func() { why, _ = recover().(string) }()
		checkOrder(rows)
		return ""
	}
	if why := refused(Passes); why != "" {
		t.Error(why)
	}
	for _, c := range []struct {
		rows []PassRow
		want string
	}{
		{[]PassRow{{Name: "a"}, {Name: "a"}}, "twice"},
		{[]PassRow{{Name: "a", After: []string{"b"}}, {Name: "b"}}, "a must come after b"},
		{[]PassRow{{Name: "a"}, {Name: "b", Before: []string{"a"}}}, "b must come before a"},
		{[]PassRow{{Name: "a", After: []string{"c"}}}, "no pass c"},
	} {
		if why := refused(c.rows); !strings.Contains(why, c.want) {
			t.Errorf("%v: %q", c.rows, why)
		}
	}
	for i := range Passes {
		for j := range i {
			swapped := slices.Clone(Passes)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			if slices.Contains(Passes[i].After, Passes[j].Name) && refused(swapped) == "" {
				t.Errorf("%s before %s", Passes[i].Name, Passes[j].Name)
			}
		}
	}
}

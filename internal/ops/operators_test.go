package ops

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/schedule/recipes"
)

// TestOperators lists each operator's rules in docs/operators.md; -rewrite writes the page.
func TestOperators(t *testing.T) {
	const file = "../../docs/operators.md"
	var b strings.Builder
	b.WriteString(`# Operators

These are the operators of Weir's own form, ir, into which importers translate a format's operators. Each is defined
in one file of internal/ops, by a Def. It is computed in the first way that applies: a view (its operand's memory, under
another shape or other strides), a lowering (loops), an expansion (other operators), or a function on the host. An
operator that is computed in pieces says which rows of its operands a piece of its result needs. The properties are
fields of Def in ` + "[ops.go](../internal/ops/ops.go)" + `, which says what each of them means; passes ask for
properties, and never compare operators' names instead. ` + "`go test ./internal/ops -run TestOperators -rewrite`" + `
writes this page; [gradients.md](gradients.md) says how derivatives are tested.

| operator | computed by | derivative | in pieces | arithmetic counted | properties |
|---|---|---|---|---|---|
`)
	yes := map[bool]string{true: "yes"}
	for _, op := range ir.Ops() {
		d := op.(*Def)
		var ways []string
		if d.View != nil {
			ways = append(ways, "a view")
		}
		for _, low := range d.Lowerings {
			name := low.Name
			if low.Blocks {
				name += " (blocks of threads)"
			}
			ways = append(ways, name)
			if names := recipes.Names(d.Op); low.Meant && len(names) > 0 {
				ways = append(ways, "on processors a recipe: "+strings.Join(names, ", "))
			}
		}
		if d.Expand != nil {
			ways = append(ways, "an expansion")
		}
		if d.Host != "" {
			ways = append(ways, "the host")
		}
		if len(ways) == 0 {
			ways = append(ways, "steps of a program")
		}
		derivative := "its expansion's"
		switch {
		case d.NoGrad != "":
			derivative = "none: " + d.NoGrad
		case d.Grad != nil:
			derivative = "its own"
		case d.Expand == nil:
			derivative = ""
		}
		work := ""
		if d.Work != nil {
			work = "as it is defined"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", d.Op, strings.Join(ways, ", "), derivative,
			yes[d.rows.axes != nil], work, strings.Join(properties(d), ", "))
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != b.String() {
		t.Errorf("%s is not what the definitions say (%v): go test ./internal/ops -run TestOperators -rewrite", file, err)
	}
}

// ownColumns are the fields of Def that docs/operators.md does not list as properties: some have columns of their own,
// and the others are set for all operators.
var ownColumns = []string{"Op", "Shape", "Mean", "Expand", "Grad", "NoGrad", "View", "Lowerings", "Work", "Host",
	"Samples", "rows"}

// properties returns the other fields of a definition that are set, with the contents of some of them.
func properties(d *Def) (list []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Def]()) {
		if slices.Contains(ownColumns, field.Name) || reflect.ValueOf(d).Elem().FieldByIndex(field.Index).IsZero() {
			continue
		}
		switch name := field.Name; name {
		case "Neutral":
			list = append(list, fmt.Sprintf("%s (%v)", name, *d.Neutral))
		case "Merge":
			list = append(list, fmt.Sprintf("%s (%s)", name, d.Merge.By))
		case "Recompute":
			var situations []string
			for i, situation := range []string{"late", "in pieces", "backward"} {
				if d.Recompute.Has(1 << i) {
					situations = append(situations, situation)
				}
			}
			list = append(list, fmt.Sprintf("%s (%s)", name, strings.Join(situations, ", ")))
		default:
			list = append(list, name)
		}
	}
	return list
}

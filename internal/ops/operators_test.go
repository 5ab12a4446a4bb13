package ops

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/ir"
)

// TestOperators writes down, operator by operator, which rules it has, as docs/operators.md; -rewrite writes it anew.
func TestOperators(t *testing.T) {
	const file = "../../docs/operators.md"
	var b strings.Builder
	b.WriteString(`# Operators

These are the operators of Weir's own form, ir, which importers make of a format's. Each is a file of internal/ops, which has all that is known of it:
a view (it is its operand, read otherwise), lowerings (loops), an expansion (other operators), or a function on the host say how it is computed, the first that applies. Its rows are
what a part of its result is made of, for computing it in pieces. ` + "`go test ./internal/ops -run TestOperators -rewrite`" + ` writes this page; [gradients.md](gradients.md)
has how derivatives are tested.

| operator | computed by | derivative | elementwise | in pieces | arithmetic counted |
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
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", d.Op, strings.Join(ways, ", "), derivative, yes[d.Elementwise], yes[d.rows.axes != nil], work)
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

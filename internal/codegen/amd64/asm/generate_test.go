package asm

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write ops.go from forms.txt")

// TestOps checks that the constants are those of the table.
func TestOps(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("// Code generated from forms.txt by go test -rewrite; DO NOT EDIT.\n\npackage asm\n\n// The operations, in the order of the table.\nconst (\n")
	b.WriteString("\tNoOp Op = iota\n\tLABEL // Inst.To is here\n\tALIGN // to a multiple of Inst.Imm bytes\n")
	seen := map[string]bool{}
	for _, name := range names()[3:] {
		if seen[name] {
			t.Errorf("the rows of %s are apart", name)
		}
		seen[name] = true
	}
	last := ""
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" || fields[0] == last {
			continue
		}
		last = fields[0]
		fmt.Fprintf(&b, "\t%s\n", last)
	}
	b.WriteString(")\n")
	want, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile("ops.go", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile("ops.go"); err != nil || !bytes.Equal(have, want) {
		t.Errorf("ops.go is not what forms.txt says (%v); go test -rewrite writes it", err)
	}
}

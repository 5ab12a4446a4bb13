// Package codetest has the tests of assemblers and of calls of machine code, for every machine.
package codetest

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"strings"
	"testing"
)

// Operations checks that ops.go is the index of a table of forms: a constant for each name, and where its lines begin.
// With rewrite it writes the file first.
func Operations(t *testing.T, table string, rewrite bool) {
	t.Helper()
	var b, offsets bytes.Buffer
	b.WriteString("// Code generated from forms.txt by go test -rewrite; DO NOT EDIT.\n\n//weir:table\npackage " +
		"asm\n\n// The operations, in the order of the table.\nconst (\n")
	b.WriteString("\tNoOp Op = iota\n\tLABEL // Inst.To is here\n\tALIGN // to a multiple of Inst.Imm bytes\n")
	seen, last := map[string]bool{}, ""
	at, count := 0, 3
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) > 0 && fields[0] != "#" && fields[0] != last {
			last = fields[0]
			if seen[last] {
				t.Errorf("the rows of %s are apart", last)
			}
			seen[last] = true
			fmt.Fprintf(&b, "\t%s\n", last)
			if count%20 == 0 {
				offsets.WriteString("\n")
			}
			fmt.Fprintf(&offsets, "%d, ", at)
			count++
		}
		at += len(line)
	}
	fmt.Fprintf(&b, ")\n\n// offsets are where each operation's lines begin in the table.\nvar offsets = "+
		"[...]uint32{\n0, 0, 0, %s\n}\n", &offsets)
	want, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if rewrite {
		if err := os.WriteFile("ops.go", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile("ops.go"); err != nil || !bytes.Equal(have, want) {
		t.Errorf("ops.go is not what forms.txt says (%v); go test -rewrite writes it", err)
	}
}

package asm

import (
	"flag"
	"testing"

	"github.com/weirml/weir/internal/codegen/codetest"
)

var rewrite = flag.Bool("rewrite", false, "write ops.go from forms.txt")

// TestOps checks that ops.go is the table's index.
func TestOps(t *testing.T) { codetest.Operations(t, text, *rewrite) }

package amd64

import (
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/portable"
	"github.com/weirml/weir/internal/target"
)

// TestHostile compares hostile kernels with the interpreter, as portable code and as machine code for each level that
// this processor has. To run more of them:
//
//	WEIR_HOSTILE=100000000 go test ./internal/codegen/amd64 -run TestHostile -timeout 0
func TestHostile(t *testing.T) {
	list := []kerneltest.Harness{{Compile: portable.Compile}}
	for _, cpu := range []string{"avx2", "avx512"} {
		if machine, err := target.Select(cpu, 1); err != nil {
			t.Logf("without %s: %v", cpu, err)
		} else {
			list = append(list, kerneltest.Harness{Compile: Compile, Machine: machine})
		}
	}
	kerneltest.Hostiles(t, 400, list...)
}

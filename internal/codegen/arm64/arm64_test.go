package arm64

import (
	"errors"
	"testing"

	"github.com/weirml/weir/internal/codegen/arm64/call"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
)

// TestTry: machine code runs on processors for it; on others, and if the system refuses it, that is an ErrUnsupported.
func TestTry(t *testing.T) {
	before := mem.Usage()
	if err := Try(); call.Supported && err != nil || !call.Supported && !errors.Is(err, diag.ErrUnsupported) {
		t.Errorf("supported: %t: %v", call.Supported, err)
	}
	defer mem.RefuseCode()()
	if err := Try(); !errors.Is(err, diag.ErrUnsupported) {
		t.Errorf("a system that refuses code: %v", err)
	}
	if after := mem.Usage(); after.Current != before.Current || after.Blocks != before.Blocks {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

package leak_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/weirml/weir/cmd/weirvet/leak"
)

// TestFindings compares findings with the comments in the code.
func TestFindings(t *testing.T) {
	analysistest.Run(onlyFindings{t}, analysistest.TestData(), leak.Analyzer, "open", "kept", "turn", "dropped",
		"across/...", "leaves", "good", "goodmain")
}

// onlyFindings ignores facts, since every function has one.
type onlyFindings struct{ *testing.T }

func (t onlyFindings) Errorf(format string, args ...any) {
	if message := fmt.Sprintf(format, args...); !strings.Contains(message, "unexpected fact") {
		t.Error(message)
	}
}

package golangci

import (
	"testing"

	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"
)

// TestRegistered makes the plugin as golangci-lint does: by its name, with the settings of a file.
func TestRegistered(t *testing.T) {
	make, err := register.GetPlugin("weirvet")
	if err != nil {
		t.Fatal(err)
	}
	for _, settings := range []any{nil, map[string]any{}} {
		p, err := make(settings)
		if err != nil {
			t.Fatalf("settings %v: %v", settings, err)
		}
		list, err := p.BuildAnalyzers()
		if err != nil || len(list) != 1 || p.GetLoadMode() != register.LoadModeTypesInfo {
			t.Fatalf("%v, %v, %s", list, err, p.GetLoadMode())
		}
		if err := analysis.Validate(list); err != nil {
			t.Error(err)
		}
	}
	if _, err := make(map[string]any{"no": "such"}); err == nil {
		t.Error("settings that there are not are taken")
	}
}

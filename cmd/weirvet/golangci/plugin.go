// Package golangci makes weirvet a module plugin of golangci-lint, under the name weirvet. docs/weirvet.md shows the
// two files of configuration that it needs.
//
// It is in weirvet's own module, not in another one: its only further dependency is a small package without
// dependencies of its own, and a plugin and the analyser that it wraps must be of one version.
package golangci

import (
	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/weirml/weir/cmd/weirvet/leak"
)

func init() { register.Plugin(leak.Analyzer.Name, New) }

// New returns the plugin. It does not have settings: any are an error.
func New(settings any) (register.LinterPlugin, error) {
	if _, err := register.DecodeSettings[struct{}](settings); err != nil {
		return nil, err
	}
	return plugin{}, nil
}

type plugin struct{}

// BuildAnalyzers returns the analyser.
func (plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) {
	return []*analysis.Analyzer{leak.Analyzer}, nil
}

// GetLoadMode says that the analyser needs types.
func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }

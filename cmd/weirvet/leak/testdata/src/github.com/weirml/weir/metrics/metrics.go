// Package metrics stands in for Weir's in the analyser's tests: declarations only.
package metrics

import (
	"context"

	"github.com/weirml/weir"
)

type Runner interface {
	Run(ctx context.Context, in weir.Inputs) (*weir.Results, error)
}

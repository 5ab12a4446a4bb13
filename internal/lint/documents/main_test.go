// Package documents builds and runs what documents show: the README's program, pieces of Go, the steps of
// docs/contributing, and the installation of the command. These builds take longer than the rules of lint.
package documents

import (
	"testing"

	"github.com/weirml/weir/internal/weirtest"
)

func TestMain(m *testing.M) { weirtest.Main(m) }

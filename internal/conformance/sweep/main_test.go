// Package sweep refuses every taking of memory, files and threads in turn, and ends contexts at every look, for every
// function of the API.
package sweep

import (
	"testing"

	"github.com/weirml/weir/internal/weirtest"
)

func TestMain(m *testing.M) { weirtest.Main(m) }

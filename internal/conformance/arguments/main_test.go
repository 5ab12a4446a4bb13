// Package arguments sends strings, sequences, optionals, scalars and 16-bit floats through programs.
package arguments

import (
	"testing"

	"github.com/weirml/weir/internal/weirtest"
)

func TestMain(m *testing.M) { weirtest.Main(m) }

// Package accuracy compares compiled programs with sums in more precision: the error bounds of docs/accuracy.md, and
// the treatment of values that are not finite.
package accuracy

import (
	"testing"

	"github.com/weirml/weir/internal/weirtest"
)

func TestMain(m *testing.M) { weirtest.Main(m) }

// Package ownership hands tensors to programs and back: borrowed, consumed, donated, updated, detached, with strides
// and from other code.
package ownership

import (
	"testing"

	"github.com/weirml/weir/internal/weirtest"
)

func TestMain(m *testing.M) { weirtest.Main(m) }

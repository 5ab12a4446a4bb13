// Package memory compares certificates, limits and budgets with the bytes that runs take.
package memory

import (
	"testing"

	"github.com/weirml/weir/internal/weirtest"
)

func TestMain(m *testing.M) { weirtest.Main(m) }

// Package caches updates caches of attention in place, in all element types, and compares their bytes and results.
package caches

import (
	"testing"

	"github.com/weirml/weir/internal/weirtest"
)

func TestMain(m *testing.M) { weirtest.Main(m) }

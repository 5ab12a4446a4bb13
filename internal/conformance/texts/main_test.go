// Package texts judges texts that lay out memory by hand: proved, refused or checked, on written and on random texts.
package texts

import (
	"testing"

	"github.com/weirml/weir/internal/weirtest"
)

func TestMain(m *testing.M) { weirtest.Main(m) }

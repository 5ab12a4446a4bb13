// Package torch runs files of torch.export beside the results of PyTorch.
package torch

import (
	"testing"

	"github.com/weirml/weir/internal/weirtest"
)

func TestMain(m *testing.M) { weirtest.Main(m) }

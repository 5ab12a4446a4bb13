//go:build !(((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64))

package vulkan

import (
	"runtime"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/target"
)

// Kind returns Vulkan as a kind of device, of which this system has none.
func Kind() device.Kind {
	none := diag.Unsupportedf("Vulkan on %s/%s", runtime.GOOS, runtime.GOARCH)
	return device.Kind{
		Name: target.VulkanName,
		List: func() ([]device.Info, error) { return nil, none },
		Open: func(int) (device.Device, error) { return nil, none },
	}
}

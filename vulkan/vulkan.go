// Package vulkan lets programs run on GPUs through Vulkan. It is imported for its effect:
//
//	import _ "github.com/weirml/weir/vulkan"
//
// Then weir.Options{Target: weir.Vulkan} compiles for the first device that weir.Devices lists, and Options.Device for
// another. A program that imports the package finds the system's Vulkan loader when it first needs it; it needs no cgo,
// but is not static any more.
package vulkan

import (
	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/device/vulkan"
)

func init() { device.Register(vulkan.Kind()) }

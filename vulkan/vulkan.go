// Package vulkan lets programs run on GPUs through Vulkan. Import it for its side effect:
//
//	import _ "github.com/weirml/weir/vulkan"
//
// Then weir.Options{Target: weir.Vulkan} compiles for the first device that weir.Devices lists, and Options.Device for
// another. A program that imports the package loads the system's Vulkan loader when it first needs it. The program
// needs no cgo, but it is linked dynamically.
package vulkan

import (
	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/device/vulkan"
)

func init() { device.Register(vulkan.Kind()) }

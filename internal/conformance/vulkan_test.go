//go:build !static

package conformance

// A program with Vulkan is linked dynamically, and needs the system's libraries. Tests on emulated processors are built
// without it.
import _ "github.com/weirml/weir/vulkan"

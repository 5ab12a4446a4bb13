//go:build ((linux && !android) || (darwin && !ios)) && (amd64 || arm64)

package vulkan

import "github.com/ebitengine/purego"

// libraryNames are the names of the loader, in the order in which they are tried.
var libraryNames = []string{"libvulkan.so.1", "libvulkan.so", "libvulkan.1.dylib", "libvulkan.dylib",
	"libMoltenVK.dylib"}

// openLibrary loads a library, and returns the address of its vkGetInstanceProcAddr.
func openLibrary(name string) (uintptr, error) {
	handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, err
	}
	return purego.Dlsym(handle, "vkGetInstanceProcAddr")
}

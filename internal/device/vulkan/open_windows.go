//go:build windows && (amd64 || arm64)

package vulkan

import "golang.org/x/sys/windows"

// libraryNames are the names of the loader.
var libraryNames = []string{"vulkan-1.dll"}

// openLibrary loads a library from the system's folder, and returns the address of its vkGetInstanceProcAddr.
func openLibrary(name string) (uintptr, error) {
	handle, err := windows.LoadLibraryEx(name, 0, windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
	if err != nil {
		return 0, err
	}
	return windows.GetProcAddress(handle, "vkGetInstanceProcAddr")
}

//go:build windows && (amd64 || arm64)

package vulkan

import "golang.org/x/sys/windows"

// libraryNames are the loader's.
var libraryNames = []string{"vulkan-1.dll"}

// openLibrary loads a library of the system's, and is the address of vkGetInstanceProcAddr in it.
func openLibrary(name string) (uintptr, error) {
	handle, err := windows.LoadLibraryEx(name, 0, windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
	if err != nil {
		return 0, err
	}
	return windows.GetProcAddress(handle, "vkGetInstanceProcAddr")
}

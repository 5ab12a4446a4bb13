// Package vulkan is devices that are reached through Vulkan, by the system's loader, without cgo. It needs Vulkan 1.2
// with addresses of buffers.
//
// Structures that Vulkan reads are Go's, laid out as vulkan_core.h has them (a test compares the two), and pinned for
// the call; Vulkan keeps none of them. Memory that the device uses is Vulkan's own.
package vulkan

// Package vulkan runs kernels on devices through Vulkan, by the system's loader, without cgo. It needs Vulkan 1.2 with
// addresses of buffers.
//
// The structures of calls are Go's, laid out as in vulkan_core.h (a test compares both), and pinned for the call;
// Vulkan keeps none of them. The device's memory is allocated by Vulkan.
package vulkan

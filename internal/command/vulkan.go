//go:build vulkan

package command

import _ "github.com/weirml/weir/vulkan" // the GPU, in a build with -tags vulkan

// Package spirv is the code generator for machines of blocks of threads that run SPIR-V, such as GPUs through Vulkan:
// package blocks writes kernels in its instructions. It writes the words of a module itself.
//
// Memory is accessed by address: the module's only push constant is the address of the argument block that
// target.Binary describes. The code relies on properties that the loop language proves or checks, and on no others; in
// particular not on robust access.
package spirv

import (
	"github.com/weirml/weir/internal/codegen/blocks"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Compile compiles the kernels of a module. It returns an error of kind diag.ErrUnsupported for a kernel that the
// machine cannot run.
func Compile(m *loop.Module, machine target.Machine) (*target.Code, error) {
	return blocks.Compile(m, machine, language(machine))
}

// Refuses returns the reason, of kind diag.ErrUnsupported, why a machine cannot run a kernel of a module; nil if it
// can, in runs in which the conditions hold.
func Refuses(k *loop.Kernel, m *loop.Module, machine target.Machine) (conditions []sym.Cond, err error) {
	return blocks.Refuses(k, m, machine, language(machine))
}

// language returns the function that makes a writer of SPIR-V for a kernel.
func language(machine target.Machine) func(*blocks.Writer) blocks.Language {
	return func(kernel *blocks.Writer) blocks.Language {
		w := &writer{module: newModule(), kernel: kernel, machine: machine, numbers: map[id]float64{}, words: map[id]id{}}
		w.capability(capabilityShader, capabilityPhysicalStorageBufferAddresses)
		w.extension("SPV_KHR_physical_storage_buffer")
		if kernel.Cooperates() {
			w.vulkan = true
			w.capability(capabilityVulkanMemoryModel, capabilityCooperativeMatrix)
			w.extension("SPV_KHR_cooperative_matrix")
		}
		w.float32Modes()
		return w
	}
}

#!/bin/sh
# Compiles the kernels that the tests of the device run. It needs glslang-tools and spirv-tools.
set -e
cd "$(dirname "$0")"
for kernel in step check fill spread; do
	glslangValidator --quiet -V --target-env vulkan1.2 -I. -e $kernel --source-entrypoint main $kernel.comp -o $kernel.spv
done
spirv-link --target-env vulkan1.2 fill.spv spread.spv -o mirror.spv
rm fill.spv spread.spv
for kernel in step check mirror; do
	spirv-opt --strip-debug $kernel.spv -o $kernel.spv
	spirv-val --target-env vulkan1.2 $kernel.spv
done

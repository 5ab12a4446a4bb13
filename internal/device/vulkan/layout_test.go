//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// layouts lists the structures with the names that vulkan_core.h gives to them and to their fields.
var layouts = []struct {
	name   string
	kind   string // the name of its sType without VK_STRUCTURE_TYPE_; empty if the structure has none
	number uint32
	value  any
	fields string
}{
	{"VkApplicationInfo", "APPLICATION_INFO", kindApplication, applicationInfo{},
		"pApplicationName applicationVersion pEngineName engineVersion apiVersion"},
	{"VkInstanceCreateInfo", "INSTANCE_CREATE_INFO", kindInstance, instanceCreateInfo{},
		"flags pApplicationInfo enabledLayerCount ppEnabledLayerNames enabledExtensionCount ppEnabledExtensionNames"},
	{"VkDebugUtilsMessengerCreateInfoEXT", "DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT", kindMessenger, messengerCreateInfo{},
		"flags messageSeverity messageType pfnUserCallback pUserData"},
	{"VkQueueFamilyProperties", "", 0, queueFamily{},
		"queueFlags queueCount timestampValidBits minImageTransferGranularity"},
	{"VkDeviceQueueCreateInfo", "DEVICE_QUEUE_CREATE_INFO", kindQueueCreate, queueCreateInfo{},
		"flags queueFamilyIndex queueCount pQueuePriorities"},
	{"VkDeviceCreateInfo", "DEVICE_CREATE_INFO", kindDevice, deviceCreateInfo{},
		"flags queueCreateInfoCount pQueueCreateInfos enabledLayerCount ppEnabledLayerNames enabledExtensionCount " +
			"ppEnabledExtensionNames pEnabledFeatures"},
	{"VkExtensionProperties", "", 0, extension{}, "extensionName specVersion"},
	{"VkMemoryType", "", 0, memoryType{}, "propertyFlags heapIndex"},
	{"VkMemoryHeap", "", 0, memoryHeap{}, "size flags"},
	{"VkPhysicalDeviceMemoryProperties", "", 0, memoryProperties{},
		"memoryTypeCount memoryTypes memoryHeapCount memoryHeaps"},
	{"VkBufferCreateInfo", "BUFFER_CREATE_INFO", kindBuffer, bufferCreateInfo{},
		"flags size usage sharingMode queueFamilyIndexCount pQueueFamilyIndices"},
	{"VkMemoryRequirements", "", 0, memoryRequirements{}, "size alignment memoryTypeBits"},
	{"VkMemoryAllocateInfo", "MEMORY_ALLOCATE_INFO", kindAllocate, allocateInfo{}, "allocationSize memoryTypeIndex"},
	{"VkMemoryAllocateFlagsInfo", "MEMORY_ALLOCATE_FLAGS_INFO", kindAllocateFlags, allocateFlags{}, "flags deviceMask"},
	{"VkBufferDeviceAddressInfo", "BUFFER_DEVICE_ADDRESS_INFO", kindBufferAddress, bufferAddressInfo{}, "buffer"},
	{"VkShaderModuleCreateInfo", "SHADER_MODULE_CREATE_INFO", kindShaderModule, shaderModuleCreateInfo{},
		"flags codeSize pCode"},
	{"VkPushConstantRange", "", 0, pushConstantRange{}, "stageFlags offset size"},
	{"VkPipelineLayoutCreateInfo", "PIPELINE_LAYOUT_CREATE_INFO", kindLayout, layoutCreateInfo{},
		"flags setLayoutCount pSetLayouts pushConstantRangeCount pPushConstantRanges"},
	{"VkPipelineShaderStageCreateInfo", "PIPELINE_SHADER_STAGE_CREATE_INFO", kindStage, stageCreateInfo{},
		"flags stage module pName pSpecializationInfo"},
	{"VkComputePipelineCreateInfo", "COMPUTE_PIPELINE_CREATE_INFO", kindPipeline, pipelineCreateInfo{},
		"flags stage layout basePipelineHandle basePipelineIndex"},
	{"VkPipelineCacheCreateInfo", "PIPELINE_CACHE_CREATE_INFO", kindPipelineCache, pipelineCacheCreateInfo{},
		"flags initialDataSize pInitialData"},
	{"VkCommandPoolCreateInfo", "COMMAND_POOL_CREATE_INFO", kindCommandPool, commandPoolCreateInfo{},
		"flags queueFamilyIndex"},
	{"VkCommandBufferAllocateInfo", "COMMAND_BUFFER_ALLOCATE_INFO", kindCommands, commandsAllocateInfo{},
		"commandPool level commandBufferCount"},
	{"VkCommandBufferBeginInfo", "COMMAND_BUFFER_BEGIN_INFO", kindBegin, beginInfo{}, "flags pInheritanceInfo"},
	{"VkMemoryBarrier", "MEMORY_BARRIER", kindMemoryBarrier, memoryBarrier{}, "srcAccessMask dstAccessMask"},
	{"VkSemaphoreTypeCreateInfo", "SEMAPHORE_TYPE_CREATE_INFO", kindSemaphoreType, semaphoreTypeInfo{},
		"semaphoreType initialValue"},
	{"VkSemaphoreCreateInfo", "SEMAPHORE_CREATE_INFO", kindSemaphore, semaphoreCreateInfo{}, "flags"},
	{"VkTimelineSemaphoreSubmitInfo", "TIMELINE_SEMAPHORE_SUBMIT_INFO", kindTimelineSubmit, timelineSubmitInfo{},
		"waitSemaphoreValueCount pWaitSemaphoreValues signalSemaphoreValueCount pSignalSemaphoreValues"},
	{"VkSubmitInfo", "SUBMIT_INFO", kindSubmit, submitInfo{},
		"waitSemaphoreCount pWaitSemaphores pWaitDstStageMask commandBufferCount pCommandBuffers signalSemaphoreCount " +
			"pSignalSemaphores"},
	{"VkSemaphoreWaitInfo", "SEMAPHORE_WAIT_INFO", kindSemaphoreWait, semaphoreWaitInfo{},
		"flags semaphoreCount pSemaphores pValues"},
	{"VkBufferCopy", "", 0, bufferCopy{}, "srcOffset dstOffset size"},
}

// numbers pairs sizes, offsets and constants of vulkan_core.h, as expressions of C, with this package's values.
var numbers = []struct {
	c    string
	here int64
}{
	{"sizeof(VkPhysicalDeviceProperties2)", properties2Size},
	{"offsetof(VkPhysicalDeviceProperties2, properties.apiVersion)", propertyAPI},
	{"offsetof(VkPhysicalDeviceProperties2, properties.vendorID)", propertyVendor},
	{"offsetof(VkPhysicalDeviceProperties2, properties.deviceID)", propertyDevice},
	{"offsetof(VkPhysicalDeviceProperties2, properties.deviceType)", propertyType},
	{"offsetof(VkPhysicalDeviceProperties2, properties.deviceName)", propertyName},
	{"offsetof(VkPhysicalDeviceProperties2, properties.pipelineCacheUUID)", propertyCacheUUID},
	{"offsetof(VkPhysicalDeviceProperties2, properties.limits.maxComputeSharedMemorySize)", limitShared},
	{"offsetof(VkPhysicalDeviceProperties2, properties.limits.maxComputeWorkGroupInvocations)", limitInvocations},
	{"offsetof(VkPhysicalDeviceProperties2, properties.limits.maxComputeWorkGroupSize)", limitWidth},
	{"sizeof(VkPhysicalDeviceFeatures2)", features2Size},
	{"offsetof(VkPhysicalDeviceFeatures2, features.shaderFloat64)", featureFloat64},
	{"offsetof(VkPhysicalDeviceFeatures2, features.shaderInt64)", featureInt64},
	{"offsetof(VkPhysicalDeviceFeatures2, features.shaderInt16)", featureInt16},
	{"sizeof(VkPhysicalDeviceVulkan11Features)", features11Size},
	{"offsetof(VkPhysicalDeviceVulkan11Features, storageBuffer16BitAccess)", feature16Bits},
	{"sizeof(VkPhysicalDeviceVulkan12Features)", features12Size},
	{"offsetof(VkPhysicalDeviceVulkan12Features, storageBuffer8BitAccess)", feature8Bits},
	{"offsetof(VkPhysicalDeviceVulkan12Features, shaderFloat16)", featureFloat16},
	{"offsetof(VkPhysicalDeviceVulkan12Features, shaderInt8)", featureInt8},
	{"offsetof(VkPhysicalDeviceVulkan12Features, timelineSemaphore)", featureTimeline},
	{"offsetof(VkPhysicalDeviceVulkan12Features, bufferDeviceAddress)", featureAddress},
	{"offsetof(VkPhysicalDeviceVulkan12Features, vulkanMemoryModel)", featureMemoryModel},
	{"sizeof(VkPhysicalDeviceShaderIntegerDotProductFeatures)", dotProductSize},
	{"offsetof(VkPhysicalDeviceShaderIntegerDotProductFeatures, shaderIntegerDotProduct)", featureDotProduct},
	{"sizeof(VkPhysicalDeviceFloatControlsProperties)", floatControlsSize},
	{"offsetof(VkPhysicalDeviceFloatControlsProperties, shaderSignedZeroInfNanPreserveFloat32)", controlSpecial},
	{"offsetof(VkPhysicalDeviceFloatControlsProperties, shaderDenormPreserveFloat32)", controlSubnormal},
	{"sizeof(VkPhysicalDeviceSubgroupProperties)", subgroupSize},
	{"offsetof(VkPhysicalDeviceSubgroupProperties, supportedStages)", subgroupStages},
	{"offsetof(VkPhysicalDeviceSubgroupProperties, supportedOperations)", subgroupOperations},
	{"sizeof(VkPhysicalDeviceSubgroupSizeControlFeatures)", subgroupControlSize},
	{"offsetof(VkPhysicalDeviceSubgroupSizeControlFeatures, subgroupSizeControl)", featureSubgroupControl},
	{"offsetof(VkPhysicalDeviceSubgroupSizeControlFeatures, computeFullSubgroups)", featureFullSubgroups},
	{"sizeof(VkPhysicalDeviceSubgroupSizeControlProperties)", subgroupSizesSize},
	{"offsetof(VkPhysicalDeviceSubgroupSizeControlProperties, minSubgroupSize)", leastSubgroup},
	{"offsetof(VkPhysicalDeviceSubgroupSizeControlProperties, maxSubgroupSize)", greatestSubgroup},
	{"offsetof(VkPhysicalDeviceSubgroupSizeControlProperties, maxComputeWorkgroupSubgroups)", mostSubgroups},
	{"offsetof(VkPhysicalDeviceSubgroupSizeControlProperties, requiredSubgroupSizeStages)", subgroupSizeStages},
	{"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES", kindSubgroupControl},
	{"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES", kindSubgroupSizes},
	{"VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO", kindSubgroupAsked},
	{"VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT", shuffleRelative},
	{"VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT", fullSubgroups},
	{"offsetof(VkPhysicalDeviceSubgroupProperties, subgroupSize)", subgroupThreads},
	{"sizeof(VkPhysicalDeviceMaintenance3Properties)", maintenance3Size},
	{"offsetof(VkPhysicalDeviceMaintenance3Properties, maxMemoryAllocationSize)", maintenanceMostAllocated},
	{"sizeof(VkPhysicalDeviceMaintenance4Properties)", maintenance4Size},
	{"offsetof(VkPhysicalDeviceMaintenance4Properties, maxBufferSize)", maintenanceMostBuffer},
	{"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES", kindMaintenance4},
	{"VK_MEMORY_PROPERTY_HOST_CACHED_BIT", propertyCached},
	{"VK_MAX_MEMORY_TYPES", mostTypes},
	{"VK_MAX_MEMORY_HEAPS", mostHeaps},
	{"VK_PHYSICAL_DEVICE_TYPE_CPU", deviceIsProcessor},
	{"VK_MEMORY_HEAP_DEVICE_LOCAL_BIT", heapDeviceLocal},
	{"VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR", portability},
	{"VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT", allocateAddressed},
	{"VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT", submitOnce},
	{"VK_SEMAPHORE_TYPE_TIMELINE", timelineSemaphore},
	{"VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT", severityWarning},
	{"VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT", severityError},
	{"VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | " +
		"VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT", messagesAll},
	{"sizeof(VkPhysicalDeviceDriverProperties)", driverSize},
	{"offsetof(VkPhysicalDeviceDriverProperties, driverName)", driverName},
	{"offsetof(VkPhysicalDeviceDriverProperties, driverInfo)", driverInfo},
	{"offsetof(VkDebugUtilsMessengerCallbackDataEXT, pMessage)", messageAt},
	{"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES", kindFeatures11},
	{"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES", kindFeatures12},
	{"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2", kindFeatures2},
	{"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2", kindProperties2},
	{"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES", kindSubgroup},
	{"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES", kindMaintenance3},
	{"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES", kindDriver},
	{"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES", kindFloatControls},
	{"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES", kindDotProduct},
	{"VK_API_VERSION_1_2", apiVersion12},
	{"VK_API_VERSION_1_3", apiVersion13},
	{"VK_QUEUE_COMPUTE_BIT", queueCompute},
	{"VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT", propertyDeviceLocal},
	{"VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT", propertyVisible},
	{"VK_MEMORY_PROPERTY_HOST_COHERENT_BIT", propertyCoherent},
	{"VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT", usageTransfer},
	{"VK_BUFFER_USAGE_STORAGE_BUFFER_BIT", usageStorage},
	{"VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT", usageAddress},
	{"VK_SHADER_STAGE_COMPUTE_BIT", stageCompute},
	{"VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT", computeShader},
	{"VK_PIPELINE_STAGE_TRANSFER_BIT", transferStage},
	{"VK_PIPELINE_STAGE_HOST_BIT", hostStage},
	{"VK_ACCESS_SHADER_READ_BIT", shaderRead},
	{"VK_ACCESS_SHADER_WRITE_BIT", shaderWrite},
	{"VK_ACCESS_TRANSFER_READ_BIT", transferRead},
	{"VK_ACCESS_TRANSFER_WRITE_BIT", transferWrite},
	{"VK_ACCESS_HOST_READ_BIT", hostRead},
	{"VK_PIPELINE_BIND_POINT_COMPUTE", bindCompute},
	{"VK_TIMEOUT", timeout},
	{"VK_ERROR_OUT_OF_HOST_MEMORY", outOfHost},
	{"VK_ERROR_OUT_OF_DEVICE_MEMORY", outOfDevice},
	{"VK_ERROR_INITIALIZATION_FAILED", failed},
	{"VK_ERROR_DEVICE_LOST", lost},
	{"VK_ERROR_LAYER_NOT_PRESENT", layerMissing},
	{"VK_ERROR_TOO_MANY_OBJECTS", tooManyBlocks},
}

// later pairs the same of extensions that an older vulkan_core.h does not have.
var later = []struct {
	extension, c string
	here         int64
}{
	{"KHR_cooperative_matrix", "sizeof(VkPhysicalDeviceCooperativeMatrixFeaturesKHR)", matrixFeaturesSize},
	{"KHR_cooperative_matrix", "offsetof(VkPhysicalDeviceCooperativeMatrixFeaturesKHR, cooperativeMatrix)", featureMatrix},
	{"KHR_cooperative_matrix", "sizeof(VkPhysicalDeviceCooperativeMatrixPropertiesKHR)", matrixSupportSize},
	{"KHR_cooperative_matrix",
		"offsetof(VkPhysicalDeviceCooperativeMatrixPropertiesKHR, cooperativeMatrixSupportedStages)", matrixStages},
	{"KHR_cooperative_matrix", "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR", kindMatrixFeatures},
	{"KHR_cooperative_matrix", "VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR", kindMatrix},
	{"KHR_cooperative_matrix", "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR", kindMatrixSupport},
	{"KHR_cooperative_matrix", "sizeof(VkCooperativeMatrixPropertiesKHR)", int64(unsafe.Sizeof(matrixKind{}))},
	{"KHR_cooperative_matrix", "offsetof(VkCooperativeMatrixPropertiesKHR, MSize)",
		int64(unsafe.Offsetof(matrixKind{}.rows))},
	{"KHR_cooperative_matrix", "offsetof(VkCooperativeMatrixPropertiesKHR, KSize)",
		int64(unsafe.Offsetof(matrixKind{}.steps))},
	{"KHR_cooperative_matrix", "offsetof(VkCooperativeMatrixPropertiesKHR, AType)",
		int64(unsafe.Offsetof(matrixKind{}.left))},
	{"KHR_cooperative_matrix", "offsetof(VkCooperativeMatrixPropertiesKHR, CType)",
		int64(unsafe.Offsetof(matrixKind{}.added))},
	{"KHR_cooperative_matrix", "offsetof(VkCooperativeMatrixPropertiesKHR, saturatingAccumulation)",
		int64(unsafe.Offsetof(matrixKind{}.saturates))},
	{"KHR_cooperative_matrix", "offsetof(VkCooperativeMatrixPropertiesKHR, scope)",
		int64(unsafe.Offsetof(matrixKind{}.scope))},
	{"KHR_cooperative_matrix", "VK_COMPONENT_TYPE_FLOAT16_KHR", componentF16},
	{"KHR_cooperative_matrix", "VK_COMPONENT_TYPE_FLOAT32_KHR", componentF32},
	{"KHR_cooperative_matrix", "VK_COMPONENT_TYPE_SINT8_KHR", componentI8},
	{"KHR_cooperative_matrix", "VK_COMPONENT_TYPE_SINT32_KHR", componentI32},
	{"KHR_cooperative_matrix", "VK_SCOPE_SUBGROUP_KHR", scopeSubgroup},
	{"KHR_shader_bfloat16", "VK_COMPONENT_TYPE_BFLOAT16_KHR", componentBF16},
	{"KHR_shader_bfloat16", "sizeof(VkPhysicalDeviceShaderBfloat16FeaturesKHR)", brainFeaturesSize},
	{"KHR_shader_bfloat16", "offsetof(VkPhysicalDeviceShaderBfloat16FeaturesKHR, shaderBFloat16Type)", featureBrain},
	{"KHR_shader_bfloat16", "offsetof(VkPhysicalDeviceShaderBfloat16FeaturesKHR, shaderBFloat16CooperativeMatrix)",
		featureBrainMatrix},
	{"KHR_shader_bfloat16", "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR", kindBrainFeatures},
}

// offsets returns the byte offsets of a structure's fields, without those that only pad. A head counts as two fields.
func offsets(t reflect.Type) []int64 {
	var out []int64
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Type == reflect.TypeFor[head]():
			out = append(out, 0, int64(reflect.TypeFor[head]().Field(2).Offset))
		case f.Name != "_":
			out = append(out, int64(f.Offset))
		}
	}
	return out
}

// TestLayout shows that the structures and the constants of this package equal those that a C compiler finds in
// Vulkan's header.
func TestLayout(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc IS NOT INSTALLED: the structures are not compared with vulkan_core.h")
	}
	var c strings.Builder
	var want []int64
	var names []string
	compare := func(expression string, here int64) {
		fmt.Fprintf(&c, "\tprintf(\"%%lld\\n\", (long long)(%s));\n", expression)
		names, want = append(names, expression), append(want, here)
	}
	for _, l := range layouts {
		fields := strings.Fields(l.fields)
		if l.kind != "" {
			fields = append([]string{"sType", "pNext"}, fields...)
			compare("VK_STRUCTURE_TYPE_"+l.kind, int64(l.number))
		}
		kind := reflect.TypeOf(l.value)
		at := offsets(kind)
		if len(at) != len(fields) {
			t.Fatalf("%s has %d fields here, and %d in C", l.name, len(at), len(fields))
		}
		compare("sizeof("+l.name+")", int64(kind.Size()))
		for i, f := range fields {
			compare("offsetof("+l.name+", "+f+")", at[i])
		}
	}
	for _, n := range numbers {
		compare(n.c, n.here)
	}
	for _, n := range later { // a header without the extension leaves the number as it is here
		fmt.Fprintf(&c, "#ifdef VK_%s\n\tprintf(\"%%lld\\n\", (long long)(%s));\n#else\n\tprintf(\"%d\\n\");\n#endif\n",
			n.extension, n.c, n.here)
		names, want = append(names, n.c), append(want, n.here)
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	text := "#include <stddef.h>\n#include <stdio.h>\n#if __has_include(<vulkan/vulkan_core.h>)\n#include " +
		"<vulkan/vulkan_core.h>\nint main(void)\n{\n" + c.String() +
		"\treturn 0;\n}\n#else\nint main(void) { return 3; }\n#endif\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).Output()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 3 {
		t.Skip("vulkan_core.h IS NOT INSTALLED (Debian: libvulkan-dev): the structures are not compared with it")
	}
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	if len(got) != len(want) {
		t.Fatalf("%d numbers, not %d", len(got), len(want))
	}
	for i, g := range got {
		if n, err := strconv.ParseInt(g, 10, 64); err != nil || n != want[i] {
			t.Errorf("%s is %s in C, and %d here", names[i], g, want[i])
		}
	}
}

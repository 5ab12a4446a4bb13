//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

// This file has the structures that calls read and write, laid out as in vulkan_core.h. Large structures that drivers
// fill in are bytes, with constants for their sizes and the offsets of the fields that are read. Pointers are addresses
// of pinned memory.

// head is the beginning of every structure with a kind: sType and pNext.
type head struct {
	kind uint32
	_    uint32
	next uintptr
}

// The kinds of structure.
const (
	kindApplication     = 0
	kindInstance        = 1
	kindQueueCreate     = 2
	kindDevice          = 3
	kindSubmit          = 4
	kindAllocate        = 5
	kindSemaphore       = 9
	kindBuffer          = 12
	kindShaderModule    = 16
	kindPipelineCache   = 17
	kindStage           = 18
	kindPipeline        = 29
	kindLayout          = 30
	kindCommandPool     = 39
	kindCommands        = 40
	kindBegin           = 42
	kindMemoryBarrier   = 46
	kindFeatures11      = 49
	kindFeatures12      = 51
	kindFeatures2       = 1000059000
	kindProperties2     = 1000059001
	kindAllocateFlags   = 1000060000
	kindSubgroup        = 1000094000
	kindMessenger       = 1000128004
	kindMaintenance3    = 1000168000
	kindDriver          = 1000196000
	kindFloatControls   = 1000197000
	kindSemaphoreType   = 1000207002
	kindTimelineSubmit  = 1000207003
	kindSemaphoreWait   = 1000207004
	kindBufferAddress   = 1000244001
	kindSubgroupSizes   = 1000225000
	kindSubgroupAsked   = 1000225001
	kindSubgroupControl = 1000225002
	kindDotProduct      = 1000280000
	kindMaintenance4    = 1000413001
	kindMatrixFeatures  = 1000506000
	kindMatrix          = 1000506001
	kindMatrixSupport   = 1000506002
	kindBrainFeatures   = 1000141000
	apiVersion12        = 1<<22 | 2<<12
	apiVersion13        = 1<<22 | 3<<12
	queueCompute        = 2
	propertyDeviceLocal = 1
	propertyVisible     = 2
	propertyCoherent    = 4
	propertyCached      = 8
	deviceIsProcessor   = 4 // VK_PHYSICAL_DEVICE_TYPE_CPU
	mostTypes           = 32
	mostHeaps           = 16
	heapDeviceLocal     = 1
	usageTransfer       = 1 | 2
	usageStorage        = 0x20
	usageAddress        = 0x20000
	stageCompute        = 0x20
	computeShader       = 0x800
	transferStage       = 0x1000
	hostStage           = 0x4000
	shaderRead          = 0x20
	shaderWrite         = 0x40
	transferRead        = 0x800
	transferWrite       = 0x1000
	hostRead            = 0x2000
	bindCompute         = 1
	shuffleRelative     = 0x20 // of operations of subgroups
	fullSubgroups       = 2    // flag of a stage: all threads of its subgroups are active
	portability         = 1    // flag of an instance: it also lists devices that lack features of Vulkan
	allocateAddressed   = 2    // flag of an allocation: it has an address
	submitOnce          = 1    // flag of commands
	timelineSemaphore   = 1
	severityWarning     = 0x100
	severityError       = 0x1000
	messagesAll         = 7
)

type applicationInfo struct {
	head
	application   uintptr
	version       uint32
	_             uint32
	engine        uintptr
	engineVersion uint32
	api           uint32
}

type instanceCreateInfo struct {
	head
	flags          uint32
	_              uint32
	application    uintptr
	layerCount     uint32
	_              uint32
	layers         uintptr
	extensionCount uint32
	_              uint32
	extensions     uintptr
}

type messengerCreateInfo struct {
	head
	flags    uint32
	severity uint32
	kinds    uint32
	_        uint32
	callback uintptr
	user     uintptr
}

type queueFamily struct {
	flags, count, timestamps uint32
	granularity              [3]uint32
}

type queueCreateInfo struct {
	head
	flags, family, count uint32
	_                    uint32
	priorities           uintptr
}

type deviceCreateInfo struct {
	head
	flags, queueCount uint32
	queues            uintptr
	layerCount        uint32
	_                 uint32
	layers            uintptr
	extensionCount    uint32
	_                 uint32
	extensions        uintptr
	features          uintptr
}

type extension struct {
	name    [256]byte
	version uint32
}

type memoryType struct{ flags, heap uint32 }

type memoryHeap struct {
	size  uint64
	flags uint32
	_     uint32
}

type memoryProperties struct {
	typeCount uint32
	types     [mostTypes]memoryType
	heapCount uint32
	heaps     [mostHeaps]memoryHeap
}

type bufferCreateInfo struct {
	head
	flags    uint32
	_        uint32
	size     uint64
	usage    uint32
	sharing  uint32
	count    uint32
	_        uint32
	families uintptr
}

type memoryRequirements struct {
	size, alignment uint64
	types           uint32
	_               uint32
}

type allocateInfo struct {
	head
	size   uint64
	typeAt uint32
	_      uint32
}

type allocateFlags struct {
	head
	flags, mask uint32
}

type bufferAddressInfo struct {
	head
	buffer uint64
}

type shaderModuleCreateInfo struct {
	head
	flags uint32
	_     uint32
	size  uintptr
	code  uintptr
}

type pushConstantRange struct{ stages, offset, size uint32 }

type layoutCreateInfo struct {
	head
	flags, setCount uint32
	sets            uintptr
	rangeCount      uint32
	_               uint32
	ranges          uintptr
}

type stageCreateInfo struct {
	head
	flags, stage   uint32
	module         uint64
	name           uintptr
	specialization uintptr
}

type subgroupInfo struct {
	head
	threads uint32
	_       uint32
}

type pipelineCreateInfo struct {
	head
	flags     uint32
	_         uint32
	stage     stageCreateInfo
	layout    uint64
	base      uint64
	baseIndex int32
	_         uint32
}

type pipelineCacheCreateInfo struct {
	head
	flags uint32
	_     uint32
	size  uintptr
	data  uintptr
}

type commandPoolCreateInfo struct {
	head
	flags, family uint32
}

type commandsAllocateInfo struct {
	head
	pool         uint64
	level, count uint32
}

type beginInfo struct {
	head
	flags       uint32
	_           uint32
	inheritance uintptr
}

type memoryBarrier struct {
	head
	from, to uint32
}

type semaphoreTypeInfo struct {
	head
	kindOf  uint32
	_       uint32
	initial uint64
}

type semaphoreCreateInfo struct {
	head
	flags uint32
	_     uint32
}

type timelineSubmitInfo struct {
	head
	waitCount   uint32
	_           uint32
	waits       uintptr
	signalCount uint32
	_           uint32
	signals     uintptr
}

type submitInfo struct {
	head
	waitCount    uint32
	_            uint32
	waits        uintptr
	waitStages   uintptr
	commandCount uint32
	_            uint32
	commands     uintptr
	signalCount  uint32
	_            uint32
	signals      uintptr
}

type semaphoreWaitInfo struct {
	head
	flags, count uint32
	semaphores   uintptr
	values       uintptr
}

type bufferCopy struct{ from, to, size uint64 }

// matrixKind is VkCooperativeMatrixPropertiesKHR: sizes, the types of the factors, the summand and the result, whether
// sums saturate, and the scope of the threads that share a matrix.
type matrixKind struct {
	head
	rows, columns, steps       uint32
	left, right, added, result uint32
	saturates, scope           uint32
	_                          uint32
}

// The sizes in bytes of structures that drivers fill in, each of which begins with a head, and the offsets in bytes of
// their fields.
const (
	properties2Size          = 840
	propertiesAt             = 16 // of its VkPhysicalDeviceProperties
	propertyAPI              = propertiesAt
	propertyVendor           = propertiesAt + 8
	propertyDevice           = propertiesAt + 12
	propertyType             = propertiesAt + 16
	propertyName             = propertiesAt + 20
	propertyCacheUUID        = propertiesAt + 276
	propertyLimits           = propertiesAt + 296
	limitShared              = propertyLimits + 216
	limitInvocations         = propertyLimits + 232
	limitWidth               = propertyLimits + 236
	features2Size            = 240
	featureFloat64           = 16 + 156
	featureInt64             = 16 + 160
	featureInt16             = 16 + 164
	features11Size           = 64
	feature16Bits            = 16
	features12Size           = 208
	feature8Bits             = 24
	featureFloat16           = 44
	featureInt8              = 48
	featureTimeline          = 164
	featureAddress           = 168
	featureMemoryModel       = 180
	dotProductSize           = 24
	featureDotProduct        = 16
	floatControlsSize        = 88
	controlSpecial           = 28
	controlSubnormal         = 40
	subgroupSize             = 32
	subgroupThreads          = 16
	subgroupStages           = 20
	subgroupOperations       = 24
	subgroupControlSize      = 24
	featureSubgroupControl   = 16
	featureFullSubgroups     = 20
	subgroupSizesSize        = 32
	leastSubgroup            = 16
	greatestSubgroup         = 20
	mostSubgroups            = 24
	subgroupSizeStages       = 28
	matrixFeaturesSize       = 24
	featureMatrix            = 16
	matrixSupportSize        = 24
	matrixStages             = 16
	brainFeaturesSize        = 32
	featureBrain             = 16
	featureBrainMatrix       = 24
	maintenance4Size         = 24
	maintenanceMostBuffer    = 16
	maintenance3Size         = 32
	maintenanceMostAllocated = 24
	driverSize               = 536
	driverName               = 20
	driverInfo               = 276
	messageAt                = 40 // of pMessage in a messenger's callback data
)

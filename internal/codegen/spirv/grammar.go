package spirv

// The numbers and operands of the instructions that this room writes, from the grammar that Khronos publishes.
// TestGrammar compares both if the grammar is installed.

// opcode is the number of an instruction.
type opcode uint16

// The instructions.
const (
	opName                       opcode = 5
	opExtInstImport              opcode = 11
	opExtInst                    opcode = 12
	opMemoryModel                opcode = 14
	opEntryPoint                 opcode = 15
	opExecutionMode              opcode = 16
	opCapability                 opcode = 17
	opTypeVoid                   opcode = 19
	opTypeBool                   opcode = 20
	opTypeInt                    opcode = 21
	opTypeFloat                  opcode = 22
	opTypeVector                 opcode = 23
	opTypeArray                  opcode = 28
	opTypeStruct                 opcode = 30
	opTypePointer                opcode = 32
	opTypeFunction               opcode = 33
	opConstantTrue               opcode = 41
	opConstantFalse              opcode = 42
	opConstant                   opcode = 43
	opConstantComposite          opcode = 44
	opConstantNull               opcode = 46
	opFunction                   opcode = 54
	opFunctionEnd                opcode = 56
	opVariable                   opcode = 59
	opLoad                       opcode = 61
	opStore                      opcode = 62
	opAccessChain                opcode = 65
	opDecorate                   opcode = 71
	opCompositeConstruct         opcode = 80
	opCompositeExtract           opcode = 81
	opConvertFToU                opcode = 109
	opConvertFToS                opcode = 110
	opConvertSToF                opcode = 111
	opConvertUToF                opcode = 112
	opUConvert                   opcode = 113
	opSConvert                   opcode = 114
	opFConvert                   opcode = 115
	opConvertUToPtr              opcode = 120
	opBitcast                    opcode = 124
	opSNegate                    opcode = 126
	opFNegate                    opcode = 127
	opIAdd                       opcode = 128
	opFAdd                       opcode = 129
	opISub                       opcode = 130
	opFSub                       opcode = 131
	opIMul                       opcode = 132
	opFMul                       opcode = 133
	opUDiv                       opcode = 134
	opSDiv                       opcode = 135
	opFDiv                       opcode = 136
	opUMod                       opcode = 137
	opSRem                       opcode = 138
	opIAddCarry                  opcode = 149
	opUMulExtended               opcode = 151
	opLogicalEqual               opcode = 164
	opLogicalNotEqual            opcode = 165
	opLogicalOr                  opcode = 166
	opLogicalAnd                 opcode = 167
	opLogicalNot                 opcode = 168
	opSelect                     opcode = 169
	opIEqual                     opcode = 170
	opINotEqual                  opcode = 171
	opUGreaterThan               opcode = 172
	opSGreaterThan               opcode = 173
	opUGreaterThanEqual          opcode = 174
	opSGreaterThanEqual          opcode = 175
	opULessThan                  opcode = 176
	opSLessThan                  opcode = 177
	opULessThanEqual             opcode = 178
	opSLessThanEqual             opcode = 179
	opFOrdEqual                  opcode = 180
	opFUnordNotEqual             opcode = 183
	opFOrdLessThan               opcode = 184
	opFOrdGreaterThan            opcode = 186
	opFOrdLessThanEqual          opcode = 188
	opFOrdGreaterThanEqual       opcode = 190
	opShiftRightLogical          opcode = 194
	opShiftRightArithmetic       opcode = 195
	opShiftLeftLogical           opcode = 196
	opBitwiseOr                  opcode = 197
	opBitwiseXor                 opcode = 198
	opBitwiseAnd                 opcode = 199
	opNot                        opcode = 200
	opControlBarrier             opcode = 224
	opMemoryBarrier              opcode = 225
	opAtomicIAdd                 opcode = 234
	opAtomicAnd                  opcode = 240
	opAtomicOr                   opcode = 241
	opAtomicCompareExchange      opcode = 230
	opLoopMerge                  opcode = 246
	opSelectionMerge             opcode = 247
	opLabel                      opcode = 248
	opBranch                     opcode = 249
	opBranchConditional          opcode = 250
	opReturn                     opcode = 253
	opUnreachable                opcode = 255
	opExtension                  opcode = 10
	opUndef                      opcode = 1
	opSDotKHR                    opcode = 4450
	opUDotKHR                    opcode = 4451
	opSUDotKHR                   opcode = 4452
	opGroupNonUniformFAdd        opcode = 350
	opGroupNonUniformIAdd        opcode = 349
	opGroupNonUniformShuffleDown opcode = 348
	opTypeRuntimeArray           opcode = 29
	opMemberDecorate             opcode = 72
	opPtrAccessChain             opcode = 67
	opCopyObject                 opcode = 83
	opTypeCooperativeMatrix      opcode = 4456
	opCooperativeMatrixLoad      opcode = 4457
	opCooperativeMatrixStore     opcode = 4458
	opCooperativeMatrixMulAdd    opcode = 4459
)

// layouts has the name and the operands of each instruction. An operand is t for a result type, r for a result, i for
// an id, n for a number, c for a number of the result type's width, s for a string, x for the number of an extended
// instruction, or <Kind> for an enumerant; ? after it makes it optional, and * repeats it as long as there are words.
var layouts = map[opcode]layout{
	opName:                       {"OpName", "is"},
	opExtInstImport:              {"OpExtInstImport", "rs"},
	opExtInst:                    {"OpExtInst", "trixi*"},
	opMemoryModel:                {"OpMemoryModel", "<AddressingModel><MemoryModel>"},
	opEntryPoint:                 {"OpEntryPoint", "<ExecutionModel>isi*"},
	opExecutionMode:              {"OpExecutionMode", "i<ExecutionMode>"},
	opCapability:                 {"OpCapability", "<Capability>"},
	opTypeVoid:                   {"OpTypeVoid", "r"},
	opTypeBool:                   {"OpTypeBool", "r"},
	opTypeInt:                    {"OpTypeInt", "rnn"},
	opTypeFloat:                  {"OpTypeFloat", "rn<FPEncoding>?"},
	opTypeVector:                 {"OpTypeVector", "rin"},
	opTypeArray:                  {"OpTypeArray", "rii"},
	opTypeStruct:                 {"OpTypeStruct", "ri*"},
	opTypePointer:                {"OpTypePointer", "r<StorageClass>i"},
	opTypeFunction:               {"OpTypeFunction", "rii*"},
	opConstantTrue:               {"OpConstantTrue", "tr"},
	opConstantFalse:              {"OpConstantFalse", "tr"},
	opConstant:                   {"OpConstant", "trc"},
	opConstantComposite:          {"OpConstantComposite", "tri*"},
	opConstantNull:               {"OpConstantNull", "tr"},
	opFunction:                   {"OpFunction", "tr<FunctionControl>i"},
	opFunctionEnd:                {"OpFunctionEnd", ""},
	opVariable:                   {"OpVariable", "tr<StorageClass>i?"},
	opLoad:                       {"OpLoad", "tri<MemoryAccess>?"},
	opStore:                      {"OpStore", "ii<MemoryAccess>?"},
	opAccessChain:                {"OpAccessChain", "trii*"},
	opDecorate:                   {"OpDecorate", "i<Decoration>"},
	opCompositeConstruct:         {"OpCompositeConstruct", "tri*"},
	opCompositeExtract:           {"OpCompositeExtract", "trin*"},
	opConvertFToU:                {"OpConvertFToU", "tri"},
	opConvertFToS:                {"OpConvertFToS", "tri"},
	opConvertSToF:                {"OpConvertSToF", "tri"},
	opConvertUToF:                {"OpConvertUToF", "tri"},
	opUConvert:                   {"OpUConvert", "tri"},
	opSConvert:                   {"OpSConvert", "tri"},
	opFConvert:                   {"OpFConvert", "tri"},
	opConvertUToPtr:              {"OpConvertUToPtr", "tri"},
	opBitcast:                    {"OpBitcast", "tri"},
	opSNegate:                    {"OpSNegate", "tri"},
	opFNegate:                    {"OpFNegate", "tri"},
	opIAdd:                       {"OpIAdd", "trii"},
	opFAdd:                       {"OpFAdd", "trii"},
	opISub:                       {"OpISub", "trii"},
	opFSub:                       {"OpFSub", "trii"},
	opIMul:                       {"OpIMul", "trii"},
	opFMul:                       {"OpFMul", "trii"},
	opUDiv:                       {"OpUDiv", "trii"},
	opSDiv:                       {"OpSDiv", "trii"},
	opFDiv:                       {"OpFDiv", "trii"},
	opUMod:                       {"OpUMod", "trii"},
	opSRem:                       {"OpSRem", "trii"},
	opIAddCarry:                  {"OpIAddCarry", "trii"},
	opUMulExtended:               {"OpUMulExtended", "trii"},
	opLogicalEqual:               {"OpLogicalEqual", "trii"},
	opLogicalNotEqual:            {"OpLogicalNotEqual", "trii"},
	opLogicalOr:                  {"OpLogicalOr", "trii"},
	opLogicalAnd:                 {"OpLogicalAnd", "trii"},
	opLogicalNot:                 {"OpLogicalNot", "tri"},
	opSelect:                     {"OpSelect", "triii"},
	opIEqual:                     {"OpIEqual", "trii"},
	opINotEqual:                  {"OpINotEqual", "trii"},
	opUGreaterThan:               {"OpUGreaterThan", "trii"},
	opSGreaterThan:               {"OpSGreaterThan", "trii"},
	opUGreaterThanEqual:          {"OpUGreaterThanEqual", "trii"},
	opSGreaterThanEqual:          {"OpSGreaterThanEqual", "trii"},
	opULessThan:                  {"OpULessThan", "trii"},
	opSLessThan:                  {"OpSLessThan", "trii"},
	opULessThanEqual:             {"OpULessThanEqual", "trii"},
	opSLessThanEqual:             {"OpSLessThanEqual", "trii"},
	opFOrdEqual:                  {"OpFOrdEqual", "trii"},
	opFUnordNotEqual:             {"OpFUnordNotEqual", "trii"},
	opFOrdLessThan:               {"OpFOrdLessThan", "trii"},
	opFOrdGreaterThan:            {"OpFOrdGreaterThan", "trii"},
	opFOrdLessThanEqual:          {"OpFOrdLessThanEqual", "trii"},
	opFOrdGreaterThanEqual:       {"OpFOrdGreaterThanEqual", "trii"},
	opShiftRightLogical:          {"OpShiftRightLogical", "trii"},
	opShiftRightArithmetic:       {"OpShiftRightArithmetic", "trii"},
	opShiftLeftLogical:           {"OpShiftLeftLogical", "trii"},
	opBitwiseOr:                  {"OpBitwiseOr", "trii"},
	opBitwiseXor:                 {"OpBitwiseXor", "trii"},
	opBitwiseAnd:                 {"OpBitwiseAnd", "trii"},
	opNot:                        {"OpNot", "tri"},
	opControlBarrier:             {"OpControlBarrier", "iii"},
	opMemoryBarrier:              {"OpMemoryBarrier", "ii"},
	opAtomicIAdd:                 {"OpAtomicIAdd", "triiii"},
	opAtomicAnd:                  {"OpAtomicAnd", "triiii"},
	opAtomicOr:                   {"OpAtomicOr", "triiii"},
	opAtomicCompareExchange:      {"OpAtomicCompareExchange", "triiiiii"},
	opLoopMerge:                  {"OpLoopMerge", "ii<LoopControl>"},
	opSelectionMerge:             {"OpSelectionMerge", "i<SelectionControl>"},
	opLabel:                      {"OpLabel", "r"},
	opBranch:                     {"OpBranch", "i"},
	opBranchConditional:          {"OpBranchConditional", "iiin*"},
	opReturn:                     {"OpReturn", ""},
	opUnreachable:                {"OpUnreachable", ""},
	opExtension:                  {"OpExtension", "s"},
	opUndef:                      {"OpUndef", "tr"},
	opSDotKHR:                    {"OpSDot", "trii<PackedVectorFormat>?"},
	opUDotKHR:                    {"OpUDot", "trii<PackedVectorFormat>?"},
	opSUDotKHR:                   {"OpSUDot", "trii<PackedVectorFormat>?"},
	opGroupNonUniformFAdd:        {"OpGroupNonUniformFAdd", "tri<GroupOperation>ii?"},
	opGroupNonUniformIAdd:        {"OpGroupNonUniformIAdd", "tri<GroupOperation>ii?"},
	opGroupNonUniformShuffleDown: {"OpGroupNonUniformShuffleDown", "triii"},
	opTypeRuntimeArray:           {"OpTypeRuntimeArray", "ri"},
	opMemberDecorate:             {"OpMemberDecorate", "in<Decoration>"},
	opPtrAccessChain:             {"OpPtrAccessChain", "triii*"},
	opCopyObject:                 {"OpCopyObject", "tri"},
	opTypeCooperativeMatrix:      {"OpTypeCooperativeMatrixKHR", "riiiii"},
	opCooperativeMatrixLoad:      {"OpCooperativeMatrixLoadKHR", "triii?<MemoryAccess>?"},
	opCooperativeMatrixStore:     {"OpCooperativeMatrixStoreKHR", "iiii?<MemoryAccess>?"},
	opCooperativeMatrixMulAdd:    {"OpCooperativeMatrixMulAddKHR", "triii<CooperativeMatrixOperands>?"},
}

// layout is an instruction's name and operands.
type layout struct{ name, operands string }

// The enumerants.
const (
	capabilityShader                           = 1
	capabilityInt8                             = 39
	capabilityInt16                            = 22
	capabilityInt64                            = 11
	capabilityFloat16                          = 9
	capabilityFloat64                          = 10
	capabilityInt64Atomics                     = 12
	capabilityStorageBuffer8BitAccess          = 4448
	capabilityStorageBuffer16BitAccess         = 4433
	capabilityPhysicalStorageBufferAddresses   = 5347
	capabilitySignedZeroInfNanPreserve         = 4466
	capabilityDenormPreserve                   = 4464
	capabilityDotProduct                       = 6019
	capabilityDotProductInput4x8BitPacked      = 6018
	capabilityGroupNonUniform                  = 61
	capabilityGroupNonUniformArithmetic        = 63
	capabilityGroupNonUniformShuffleRelative   = 66
	capabilityVulkanMemoryModel                = 5345
	capabilityCooperativeMatrix                = 6022
	capabilityBFloat16Type                     = 5116
	capabilityBFloat16CooperativeMatrix        = 5118
	storageClassInput                          = 1
	storageClassWorkgroup                      = 4
	storageClassFunction                       = 7
	storageClassPushConstant                   = 9
	storageClassPhysicalStorageBuffer          = 5349
	decorationBlock                            = 2
	decorationBuiltIn                          = 11
	decorationOffset                           = 35
	decorationArrayStride                      = 6
	decorationNoContraction                    = 42
	decorationRestrictPointer                  = 5355
	decorationAliasedPointer                   = 5356
	builtInWorkgroupId                         = 26
	builtInLocalInvocationId                   = 27
	builtInLocalInvocationIndex                = 29
	builtInSubgroupId                          = 40
	builtInSubgroupLocalInvocationId           = 41
	executionModeLocalSize                     = 17
	executionModeSignedZeroInfNanPreserve      = 4461
	executionModeDenormPreserve                = 4459
	executionModeRoundingModeRTE               = 4462
	executionModelGLCompute                    = 5
	addressingModelPhysicalStorageBuffer64     = 5348
	memoryModelGLSL450                         = 1
	memoryModelVulkan                          = 3
	functionControlNone                        = 0
	selectionControlNone                       = 0
	loopControlNone                            = 0
	loopControlUnroll                          = 1
	memoryAccessNone                           = 0
	memoryAccessVolatile                       = 1
	memoryAccessAligned                        = 2
	memoryAccessNonPrivate                     = 32
	encodingBFloat16                           = 0
	matrixOperandsSigned                       = 1 | 2 | 4 | 8 // both factors, the summand and the result
	groupOperationReduce                       = 0
	packedVectorFormatPackedVectorFormat4x8Bit = 0
)

// enumerants has the names of each kind's enumerants, by number.
var enumerants = map[string]map[uint32]string{
	"Capability": {1: "Shader", 39: "Int8", 22: "Int16", 11: "Int64", 9: "Float16", 10: "Float64",
		12: "Int64Atomics", 4448: "StorageBuffer8BitAccess", 4433: "StorageBuffer16BitAccess",
		5347: "PhysicalStorageBufferAddresses", 4466: "SignedZeroInfNanPreserve", 4464: "DenormPreserve", 6019: "DotProduct",
		6018: "DotProductInput4x8BitPacked", 61: "GroupNonUniform", 63: "GroupNonUniformArithmetic",
		66:   "GroupNonUniformShuffleRelative",
		5345: "VulkanMemoryModel", 6022: "CooperativeMatrixKHR", 5116: "BFloat16TypeKHR",
		5118: "BFloat16CooperativeMatrixKHR"},
	"StorageClass": {1: "Input", 4: "Workgroup", 7: "Function", 9: "PushConstant", 5349: "PhysicalStorageBuffer"},
	"Decoration": {2: "Block", 11: "BuiltIn", 35: "Offset", 6: "ArrayStride", 42: "NoContraction",
		5355: "RestrictPointer", 5356: "AliasedPointer"},
	"BuiltIn": {26: "WorkgroupId", 27: "LocalInvocationId", 29: "LocalInvocationIndex", 40: "SubgroupId",
		41: "SubgroupLocalInvocationId"},
	"ExecutionMode": {17: "LocalSize", 4461: "SignedZeroInfNanPreserve", 4459: "DenormPreserve",
		4462: "RoundingModeRTE"},
	"ExecutionModel":   {5: "GLCompute"},
	"AddressingModel":  {5348: "PhysicalStorageBuffer64"},
	"MemoryModel":      {1: "GLSL450", 3: "Vulkan"},
	"FunctionControl":  {0: "None"},
	"SelectionControl": {0: "None"},
	"LoopControl":      {0: "None", 1: "Unroll"},
	"MemoryAccess":     {0: "None", 1: "Volatile", 2: "Aligned", 32: "NonPrivatePointer"},
	"FPEncoding":       {0: "BFloat16KHR"},
	"CooperativeMatrixOperands": {0: "NoneKHR", 1: "MatrixASignedComponentsKHR", 2: "MatrixBSignedComponentsKHR",
		4: "MatrixCSignedComponentsKHR", 8: "MatrixResultSignedComponentsKHR"},
	"GroupOperation":     {0: "Reduce"},
	"PackedVectorFormat": {0: "PackedVectorFormat4x8Bit"},
}

// The numbers of GLSL.std.450's functions.
const (
	glslRoundEven = 2
	glslTrunc     = 3
	glslFloor     = 8
	glslCeil      = 9
	glslSqrt      = 31
	glslFClamp    = 43
	glslFma       = 50
	glslFindUMsb  = 75
)

// glslNames has the names of these functions.
var glslNames = map[uint32]string{glslRoundEven: "RoundEven", glslTrunc: "Trunc", glslFloor: "Floor", glslCeil: "Ceil",
	glslSqrt: "Sqrt", glslFClamp: "FClamp", glslFma: "Fma", glslFindUMsb: "FindUMsb"}

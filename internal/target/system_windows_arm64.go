package target

import "golang.org/x/sys/windows"

// describe adds the features that package cpu does not know. Windows before 11 24H2 does not tell them.
func describe(_ *processor, has map[string]bool) {
	has["fp16"] = windows.IsProcessorFeaturePresent(windows.PF_ARM_V82_FP16_INSTRUCTIONS_AVAILABLE)
	has["i8mm"] = windows.IsProcessorFeaturePresent(windows.PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE)
	has["bf16"] = windows.IsProcessorFeaturePresent(windows.PF_ARM_V86_BF16_INSTRUCTIONS_AVAILABLE)
}

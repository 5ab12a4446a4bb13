package catalogue

import (
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve/internal/oip"
)

// Platform returns the version's kind of model, as metadata tell it.
func (v *Version) Platform() string {
	if v.Texts != nil {
		return "text_weir"
	}
	switch filepath.Ext(v.source.path) {
	case ".onnx":
		return "onnx_weir"
	case ".pt2":
		return "pt2_weir"
	}
	return "weir"
}

// Completed returns the version's configuration with what the model and the server decided.
func (v *Version) Completed() *oip.ModelConfig {
	c := proto.Clone(v.Config).(*oip.ModelConfig)
	c.Platform, c.Backend = v.Platform(), "weir"
	batched := c.MaxBatchSize > 0
	if c.MaxBatchSize == 0 && v.Batcher != nil {
		c.MaxBatchSize, batched = int32(v.MostRows), true
	}
	if c.VersionPolicy == nil {
		c.VersionPolicy = &oip.ModelVersionPolicy{PolicyChoice: &oip.ModelVersionPolicy_Latest_{
			Latest: &oip.ModelVersionPolicy_Latest{NumVersions: 1}}}
	}
	if len(c.Input) == 0 {
		for _, info := range v.Inputs {
			c.Input = append(c.Input, &oip.ModelInput{Name: info.Name, DataType: oip.ConfigType(info.DType),
				Dims: dimsOf(info, batched)})
		}
	}
	if len(c.Output) == 0 {
		for i, info := range v.Outputs {
			if v.Hidden(i) {
				continue
			}
			c.Output = append(c.Output, &oip.ModelOutput{Name: info.Name, DataType: oip.ConfigType(info.DType),
				Dims: dimsOf(info, batched)})
		}
	}
	if len(c.InstanceGroup) == 0 {
		c.InstanceGroup = []*oip.ModelInstanceGroup{{Name: v.Model, Kind: oip.ModelInstanceGroup_KIND_CPU,
			Count: int32(v.Calls)}}
	}
	if v.Batcher != nil && c.GetDynamicBatching() == nil {
		c.SchedulingChoice = &oip.ModelConfig_DynamicBatching{DynamicBatching: &oip.ModelDynamicBatching{}}
	}
	return c
}

// dimsOf returns a shape as a configuration has it, without the first axis if requests are joined along it.
func dimsOf(info weir.Info, batched bool) (dims []int64) {
	shape := info.Shape
	if batched && len(shape) > 0 {
		shape = shape[1:]
	}
	for _, e := range shape {
		if e.Dim != "" {
			dims = append(dims, -1)
		} else {
			dims = append(dims, e.Size)
		}
	}
	return dims
}

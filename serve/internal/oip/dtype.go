// Package oip is the Open Inference Protocol v2 with Triton's extensions: requests and responses as REST and gRPC write
// them, and the types that protoc generates from the two .proto files.
//
// The elements of tensors are never copied to Go's heap. A decoded request refers to the bytes of its body, or to
// memory of the caller; an encoded response is a list of pieces, which are written one after the other.
package oip

//go:generate protoc --go_out=. --go_opt=paths=source_relative model_config.proto grpc_service.proto
//go:generate protoc --go-grpc_out=. --go-grpc_opt=paths=source_relative grpc_service.proto

import (
	"strings"

	"github.com/weirml/weir"
)

// names are the protocol's names of element types. Types that the protocol lacks have Weir's names in capital letters.
var names = map[weir.DType]string{
	weir.Bool: "BOOL", weir.U8: "UINT8", weir.U16: "UINT16", weir.U32: "UINT32", weir.U64: "UINT64",
	weir.I8: "INT8", weir.I16: "INT16", weir.I32: "INT32", weir.I64: "INT64",
	weir.F16: "FP16", weir.F32: "FP32", weir.F64: "FP64", weir.BF16: "BF16", weir.StringType: "BYTES",
}

// others are the types that the protocol lacks.
var others = []weir.DType{weir.U2, weir.I2, weir.U4, weir.I4, weir.F4E2M1, weir.F8E4M3FN, weir.F8E4M3FNUZ, weir.F8E5M2,
	weir.F8E5M2FNUZ, weir.F8E8M0, weir.C64, weir.C128}

var byName = func() map[string]weir.DType {
	all := map[string]weir.DType{}
	for _, dt := range others {
		names[dt] = strings.ToUpper(dt.String())
	}
	for dt, name := range names {
		all[name] = dt
	}
	return all
}()

// Name returns the protocol's name of an element type, such as FP32.
func Name(dt weir.DType) string { return names[dt] }

// Parse returns the element type with a name of the protocol; ok is false if there is none.
func Parse(name string) (dt weir.DType, ok bool) {
	dt, ok = byName[name]
	return dt, ok
}

// configNames are the names of Triton's model configuration, where they are not TYPE_ and the protocol's name.
var configNames = map[weir.DType]DataType{weir.StringType: DataType_TYPE_STRING}

// ConfigType returns the name of an element type in a model's configuration, TYPE_INVALID if it has none.
func ConfigType(dt weir.DType) DataType {
	if t, ok := configNames[dt]; ok {
		return t
	}
	return DataType(DataType_value["TYPE_"+names[dt]])
}

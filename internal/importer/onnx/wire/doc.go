// Package wire reads and writes the protocol buffers of ONNX: ModelProto and everything below it, and the
// SequenceProto, OptionalProto and MapProto of test data. The messages and fields bear the names of onnx.proto (ONNX
// 1.22, IR version 13).
//
// # Copies
//
// The input is one []byte, usually a mapped file. Names are copied, so that they outlive the mapping. The payloads of
// raw_data, string_data, doc_string, the attributes s and strings, and the typed data fields of tensors are subslices
// of the input: the parser reads their lengths and never their bytes, so that no page of a weight is touched. A
// TensorProto also has the offset of its raw_data in the input.
//
// # Refused input
//
// Every error is a *diag.Error of kind ErrInput whose Detail begins with the path of the field, as in
// "graph.node[12].attribute[0].t.dims: …".
//
//   - A length past the end of its message, a varint of more than 64 bits, an int32 that does not fit 32 bits, a field
//     number of 0 or past 2^29−1, an invalid wire type, a group (ONNX never had one).
//   - A known field with another wire type than its own. (protobuf skips such a field, and then reads half of a model.)
//     Repeated numbers may be packed or not, in any mixture.
//   - Invalid UTF-8 in a field of type string. A field of type bytes may hold anything.
//   - Messages nested deeper than MaxDepth.
//   - Input that expands to more than mem.ClaimFactor times its size of records, beyond mem.ClaimFloor bytes: a
//     megabyte of empty nodes would otherwise take a hundred.
//
// Unknown fields are skipped, as are the multi-device annotations (device_configurations, configuration) and
// training_info; of the last the count is kept.
//
// # Fields that occur twice
//
// As protobuf requires: of a singular scalar the last one wins; singular messages are merged, which appends their
// repeated fields; of a oneof the last member wins, and is merged only with an earlier value of the same member.
package wire

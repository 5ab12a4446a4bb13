package wire

var (
	modelTable        message[ModelProto]
	opsetTable        message[OperatorSetIDProto]
	entryTable        message[StringStringEntryProto]
	graphTable        message[GraphProto]
	annotationTable   message[TensorAnnotation]
	nodeTable         message[NodeProto]
	attributeTable    message[AttributeProto]
	tensorTable       message[TensorProto]
	segmentTable      message[SegmentProto]
	sparseTable       message[SparseTensorProto]
	valueInfoTable    message[ValueInfoProto]
	typeTable         message[TypeProto]
	tensorTypeTable   message[TensorTypeProto]
	elementTypeTable  message[ElementTypeProto]
	mapTypeTable      message[MapTypeProto]
	opaqueTypeTable   message[OpaqueTypeProto]
	shapeTable        message[TensorShapeProto]
	dimensionTable    message[Dimension]
	functionTable     message[FunctionProto]
	sequenceTable     message[SequenceProto]
	mapTable          message[MapProto]
	optionalTable     message[OptionalProto]
	attributePresence = func(m *AttributeProto) *Presence { return &m.Present }
	dimensionPresence = func(m *Dimension) *Presence { return &m.Present }
)

// enumField is an int32 field of a named type.
func enumField[T any, E ~int32](number int32, name string, at func(*T) *E) field[T] {
	f := field[T]{Field: Field{Number: number, Name: name, Kind: Int32}}
	f.read = func(d *decoder, m *T, w wireType) error {
		var value int32
		err := int32Field(number, name, func(*T) *int32 { return &value }).read(d, m, w)
		*at(m) = E(value)
		return err
	}
	f.write = func(e *encoder, m *T) {
		if value := *at(m); value != 0 {
			e.int(number, int64(value))
		}
	}
	return f
}

// init fills the tables, which refer to each other.
func init() {
	initModel()
	initAttribute()
	initTensor()
	initTypes()
	initValues()
}

// initModel fills the tables of a model, its graphs, nodes and functions.
func initModel() {
	modelTable.fill("ModelProto",
		int64Field(1, "ir_version", func(m *ModelProto) *int64 { return &m.IRVersion }),
		stringField(2, "producer_name", func(m *ModelProto) *string { return &m.ProducerName }),
		stringField(3, "producer_version", func(m *ModelProto) *string { return &m.ProducerVersion }),
		stringField(4, "domain", func(m *ModelProto) *string { return &m.Domain }),
		int64Field(5, "model_version", func(m *ModelProto) *int64 { return &m.ModelVersion }),
		docField(6, func(m *ModelProto) *[]byte { return &m.DocString }),
		messageField(7, "graph", &graphTable, func(m *ModelProto) **GraphProto { return &m.Graph }),
		messagesField(8, "opset_import", &opsetTable, func(m *ModelProto) *[]*OperatorSetIDProto { return &m.OpsetImport }),
		messagesField(14, "metadata_props", &entryTable, func(m *ModelProto) *[]*StringStringEntryProto {
			return &m.MetadataProps
		}),
		countField(20, "training_info", func(m *ModelProto) *int { return &m.TrainingInfo }),
		messagesField(25, "functions", &functionTable, func(m *ModelProto) *[]*FunctionProto { return &m.Functions }),
	)
	opsetTable.fill("OperatorSetIdProto",
		stringField(1, "domain", func(m *OperatorSetIDProto) *string { return &m.Domain }),
		int64Field(2, "version", func(m *OperatorSetIDProto) *int64 { return &m.Version }),
	)
	entryTable.fill("StringStringEntryProto",
		stringField(1, "key", func(m *StringStringEntryProto) *string { return &m.Key }),
		stringField(2, "value", func(m *StringStringEntryProto) *string { return &m.Value }),
	)
	graphTable.fill("GraphProto",
		messagesField(1, "node", &nodeTable, func(m *GraphProto) *[]*NodeProto { return &m.Node }),
		stringField(2, "name", func(m *GraphProto) *string { return &m.Name }),
		messagesField(5, "initializer", &tensorTable, func(m *GraphProto) *[]*TensorProto { return &m.Initializer }),
		docField(10, func(m *GraphProto) *[]byte { return &m.DocString }),
		messagesField(11, "input", &valueInfoTable, func(m *GraphProto) *[]*ValueInfoProto { return &m.Input }),
		messagesField(12, "output", &valueInfoTable, func(m *GraphProto) *[]*ValueInfoProto { return &m.Output }),
		messagesField(13, "value_info", &valueInfoTable, func(m *GraphProto) *[]*ValueInfoProto { return &m.ValueInfo }),
		messagesField(14, "quantization_annotation", &annotationTable, func(m *GraphProto) *[]*TensorAnnotation {
			return &m.QuantizationAnnotation
		}),
		messagesField(15, "sparse_initializer", &sparseTable, func(m *GraphProto) *[]*SparseTensorProto {
			return &m.SparseInitializer
		}),
		messagesField(16, "metadata_props", &entryTable, func(m *GraphProto) *[]*StringStringEntryProto {
			return &m.MetadataProps
		}),
	)
	annotationTable.fill("TensorAnnotation",
		stringField(1, "tensor_name", func(m *TensorAnnotation) *string { return &m.TensorName }),
		messagesField(2, "quant_parameter_tensor_names", &entryTable, func(m *TensorAnnotation) *[]*StringStringEntryProto {
			return &m.QuantParameterTensorNames
		}),
	)
	nodeTable.fill("NodeProto",
		stringsField(1, "input", func(m *NodeProto) *[]string { return &m.Input }),
		stringsField(2, "output", func(m *NodeProto) *[]string { return &m.Output }),
		stringField(3, "name", func(m *NodeProto) *string { return &m.Name }),
		stringField(4, "op_type", func(m *NodeProto) *string { return &m.OpType }),
		messagesField(5, "attribute", &attributeTable, func(m *NodeProto) *[]*AttributeProto { return &m.Attribute }),
		docField(6, func(m *NodeProto) *[]byte { return &m.DocString }),
		stringField(7, "domain", func(m *NodeProto) *string { return &m.Domain }),
		stringField(8, "overload", func(m *NodeProto) *string { return &m.Overload }),
		messagesField(9, "metadata_props", &entryTable, func(m *NodeProto) *[]*StringStringEntryProto {
			return &m.MetadataProps
		}),
	)
	functionTable.fill("FunctionProto",
		stringField(1, "name", func(m *FunctionProto) *string { return &m.Name }),
		stringsField(4, "input", func(m *FunctionProto) *[]string { return &m.Input }),
		stringsField(5, "output", func(m *FunctionProto) *[]string { return &m.Output }),
		stringsField(6, "attribute", func(m *FunctionProto) *[]string { return &m.Attribute }),
		messagesField(7, "node", &nodeTable, func(m *FunctionProto) *[]*NodeProto { return &m.Node }),
		docField(8, func(m *FunctionProto) *[]byte { return &m.DocString }),
		messagesField(9, "opset_import", &opsetTable, func(m *FunctionProto) *[]*OperatorSetIDProto {
			return &m.OpsetImport
		}),
		stringField(10, "domain", func(m *FunctionProto) *string { return &m.Domain }),
		messagesField(11, "attribute_proto", &attributeTable, func(m *FunctionProto) *[]*AttributeProto {
			return &m.AttributeProto
		}),
		messagesField(12, "value_info", &valueInfoTable, func(m *FunctionProto) *[]*ValueInfoProto { return &m.ValueInfo }),
		stringField(13, "overload", func(m *FunctionProto) *string { return &m.Overload }),
		messagesField(14, "metadata_props", &entryTable, func(m *FunctionProto) *[]*StringStringEntryProto {
			return &m.MetadataProps
		}),
	)
}

// initAttribute fills the table of attributes.
func initAttribute() {
	attributeTable.mark = attributePresence
	attributeTable.fill("AttributeProto",
		stringField(1, "name", func(m *AttributeProto) *string { return &m.Name }),
		always(float32Field(AttributeFieldF, "f", func(m *AttributeProto) *float32 { return &m.F }), attributePresence,
			func(e *encoder) { e.float32(AttributeFieldF, 0) }),
		always(int64Field(AttributeFieldI, "i", func(m *AttributeProto) *int64 { return &m.I }), attributePresence,
			func(e *encoder) { e.int(AttributeFieldI, 0) }),
		bytesField(AttributeFieldS, "s", func(m *AttributeProto) *[]byte { return &m.S }),
		messageField(5, "t", &tensorTable, func(m *AttributeProto) **TensorProto { return &m.T }),
		messageField(6, "g", &graphTable, func(m *AttributeProto) **GraphProto { return &m.G }),
		float32sField(7, "floats", func(m *AttributeProto) *[]float32 { return &m.Floats }),
		int64sField(8, "ints", func(m *AttributeProto) *[]int64 { return &m.Ints }),
		bytesListField(9, "strings", func(m *AttributeProto) *[][]byte { return &m.Strings }),
		messagesField(10, "tensors", &tensorTable, func(m *AttributeProto) *[]*TensorProto { return &m.Tensors }),
		messagesField(11, "graphs", &graphTable, func(m *AttributeProto) *[]*GraphProto { return &m.Graphs }),
		docField(13, func(m *AttributeProto) *[]byte { return &m.DocString }),
		messageField(14, "tp", &typeTable, func(m *AttributeProto) **TypeProto { return &m.TP }),
		messagesField(15, "type_protos", &typeTable, func(m *AttributeProto) *[]*TypeProto { return &m.TypeProtos }),
		enumField(20, "type", func(m *AttributeProto) *AttributeType { return &m.Type }),
		stringField(21, "ref_attr_name", func(m *AttributeProto) *string { return &m.RefAttrName }),
		messageField(22, "sparse_tensor", &sparseTable, func(m *AttributeProto) **SparseTensorProto {
			return &m.SparseTensor
		}),
		messagesField(23, "sparse_tensors", &sparseTable, func(m *AttributeProto) *[]*SparseTensorProto {
			return &m.SparseTensors
		}),
	)
}

// initTensor fills the tables of dense and sparse tensors; raw_data's offset is recorded too.
func initTensor() {
	raw := bytesField(9, "raw_data", func(m *TensorProto) *[]byte { return &m.RawData })
	read := raw.read
	raw.read = func(d *decoder, m *TensorProto, w wireType) error {
		err := read(d, m, w)
		m.RawOffset = int64(d.pos - len(m.RawData))
		return err
	}
	tensorTable.fill("TensorProto",
		int64sField(1, "dims", func(m *TensorProto) *[]int64 { return &m.Dims }),
		enumField(2, "data_type", func(m *TensorProto) *DataType { return &m.DataType }),
		messageField(3, "segment", &segmentTable, func(m *TensorProto) **SegmentProto { return &m.Segment }),
		numbersField(4, "float_data", Float32, func(m *TensorProto) *Numbers { return &m.FloatData }),
		numbersField(5, "int32_data", Int32, func(m *TensorProto) *Numbers { return &m.Int32Data }),
		bytesListField(6, "string_data", func(m *TensorProto) *[][]byte { return &m.StringData }),
		numbersField(7, "int64_data", Int64, func(m *TensorProto) *Numbers { return &m.Int64Data }),
		stringField(8, "name", func(m *TensorProto) *string { return &m.Name }),
		raw,
		numbersField(10, "double_data", Float64, func(m *TensorProto) *Numbers { return &m.DoubleData }),
		numbersField(11, "uint64_data", Uint64, func(m *TensorProto) *Numbers { return &m.Uint64Data }),
		docField(12, func(m *TensorProto) *[]byte { return &m.DocString }),
		messagesField(13, "external_data", &entryTable, func(m *TensorProto) *[]*StringStringEntryProto {
			return &m.ExternalData
		}),
		int32Field(14, "data_location", func(m *TensorProto) *int32 { return &m.DataLocation }),
		messagesField(16, "metadata_props", &entryTable, func(m *TensorProto) *[]*StringStringEntryProto {
			return &m.MetadataProps
		}),
	)
	segmentTable.fill("TensorProto.Segment",
		int64Field(1, "begin", func(m *SegmentProto) *int64 { return &m.Begin }),
		int64Field(2, "end", func(m *SegmentProto) *int64 { return &m.End }),
	)
	sparseTable.fill("SparseTensorProto",
		messageField(1, "values", &tensorTable, func(m *SparseTensorProto) **TensorProto { return &m.Values }),
		messageField(2, "indices", &tensorTable, func(m *SparseTensorProto) **TensorProto { return &m.Indices }),
		int64sField(3, "dims", func(m *SparseTensorProto) *[]int64 { return &m.Dims }),
	)
}

// initTypes fills the tables of values' types and shapes.
func initTypes() {
	valueInfoTable.fill("ValueInfoProto",
		stringField(1, "name", func(m *ValueInfoProto) *string { return &m.Name }),
		messageField(2, "type", &typeTable, func(m *ValueInfoProto) **TypeProto { return &m.Type }),
		docField(3, func(m *ValueInfoProto) *[]byte { return &m.DocString }),
		messagesField(4, "metadata_props", &entryTable, func(m *ValueInfoProto) *[]*StringStringEntryProto {
			return &m.MetadataProps
		}),
	)
	typeTable.fill("TypeProto",
		only(messageField(1, "tensor_type", &tensorTypeTable, func(m *TypeProto) **TensorTypeProto { return &m.TensorType }),
			func(m *TypeProto) { *m = TypeProto{TensorType: m.TensorType, Denotation: m.Denotation} }),
		only(messageField(4, "sequence_type", &elementTypeTable, func(m *TypeProto) **ElementTypeProto {
			return &m.SequenceType
		}),
			func(m *TypeProto) { *m = TypeProto{SequenceType: m.SequenceType, Denotation: m.Denotation} }),
		only(messageField(5, "map_type", &mapTypeTable, func(m *TypeProto) **MapTypeProto { return &m.MapType }),
			func(m *TypeProto) { *m = TypeProto{MapType: m.MapType, Denotation: m.Denotation} }),
		stringField(6, "denotation", func(m *TypeProto) *string { return &m.Denotation }),
		only(messageField(7, "opaque_type", &opaqueTypeTable, func(m *TypeProto) **OpaqueTypeProto { return &m.OpaqueType }),
			func(m *TypeProto) { *m = TypeProto{OpaqueType: m.OpaqueType, Denotation: m.Denotation} }),
		only(messageField(8, "sparse_tensor_type", &tensorTypeTable, func(m *TypeProto) **TensorTypeProto {
			return &m.SparseTensorType
		}),
			func(m *TypeProto) { *m = TypeProto{SparseTensorType: m.SparseTensorType, Denotation: m.Denotation} }),
		only(messageField(9, "optional_type", &elementTypeTable, func(m *TypeProto) **ElementTypeProto {
			return &m.OptionalType
		}),
			func(m *TypeProto) { *m = TypeProto{OptionalType: m.OptionalType, Denotation: m.Denotation} }),
	)
	tensorTypeTable.fill("TypeProto.Tensor",
		enumField(1, "elem_type", func(m *TensorTypeProto) *DataType { return &m.ElemType }),
		messageField(2, "shape", &shapeTable, func(m *TensorTypeProto) **TensorShapeProto { return &m.Shape }),
	)
	elementTypeTable.fill("TypeProto.Sequence",
		messageField(1, "elem_type", &typeTable, func(m *ElementTypeProto) **TypeProto { return &m.ElemType }),
	)
	mapTypeTable.fill("TypeProto.Map",
		enumField(1, "key_type", func(m *MapTypeProto) *DataType { return &m.KeyType }),
		messageField(2, "value_type", &typeTable, func(m *MapTypeProto) **TypeProto { return &m.ValueType }),
	)
	opaqueTypeTable.fill("TypeProto.Opaque",
		stringField(1, "domain", func(m *OpaqueTypeProto) *string { return &m.Domain }),
		stringField(2, "name", func(m *OpaqueTypeProto) *string { return &m.Name }),
	)
	shapeTable.fill("TensorShapeProto",
		messagesField(1, "dim", &dimensionTable, func(m *TensorShapeProto) *[]*Dimension { return &m.Dim }),
	)
	dimensionTable.mark = dimensionPresence
	dimensionTable.fill("TensorShapeProto.Dimension",
		only(always(int64Field(dimensionValue, "dim_value", func(m *Dimension) *int64 { return &m.Value }), dimensionPresence,
			func(e *encoder) { e.int(dimensionValue, 0) }),
			func(m *Dimension) { m.Param, m.Present = "", m.Present&^(1<<dimensionParam) }),
		only(stringField(dimensionParam, "dim_param", func(m *Dimension) *string { return &m.Param }),
			func(m *Dimension) { m.Value, m.Present = 0, m.Present&^(1<<dimensionValue) }),
		stringField(3, "denotation", func(m *Dimension) *string { return &m.Denotation }),
	)
}

// initValues fills the tables of sequences, maps and optionals.
func initValues() {
	sequenceTable.fill("SequenceProto",
		stringField(1, "name", func(m *SequenceProto) *string { return &m.Name }),
		enumField(2, "elem_type", func(m *SequenceProto) *ValueKind { return &m.ElemType }),
		messagesField(3, "tensor_values", &tensorTable, func(m *SequenceProto) *[]*TensorProto { return &m.TensorValues }),
		messagesField(4, "sparse_tensor_values", &sparseTable, func(m *SequenceProto) *[]*SparseTensorProto {
			return &m.SparseTensorValues
		}),
		messagesField(5, "sequence_values", &sequenceTable, func(m *SequenceProto) *[]*SequenceProto {
			return &m.SequenceValues
		}),
		messagesField(6, "map_values", &mapTable, func(m *SequenceProto) *[]*MapProto { return &m.MapValues }),
		messagesField(7, "optional_values", &optionalTable, func(m *SequenceProto) *[]*OptionalProto {
			return &m.OptionalValues
		}),
	)
	mapTable.fill("MapProto",
		stringField(1, "name", func(m *MapProto) *string { return &m.Name }),
		enumField(2, "key_type", func(m *MapProto) *DataType { return &m.KeyType }),
		int64sField(3, "keys", func(m *MapProto) *[]int64 { return &m.Keys }),
		bytesListField(4, "string_keys", func(m *MapProto) *[][]byte { return &m.StringKeys }),
		messageField(5, "values", &sequenceTable, func(m *MapProto) **SequenceProto { return &m.Values }),
	)
	optionalTable.fill("OptionalProto",
		stringField(1, "name", func(m *OptionalProto) *string { return &m.Name }),
		enumField(2, "elem_type", func(m *OptionalProto) *ValueKind { return &m.ElemType }),
		messageField(3, "tensor_value", &tensorTable, func(m *OptionalProto) **TensorProto { return &m.TensorValue }),
		messageField(4, "sparse_tensor_value", &sparseTable, func(m *OptionalProto) **SparseTensorProto {
			return &m.SparseTensorValue
		}),
		messageField(5, "sequence_value", &sequenceTable, func(m *OptionalProto) **SequenceProto { return &m.SequenceValue }),
		messageField(6, "map_value", &mapTable, func(m *OptionalProto) **MapProto { return &m.MapValue }),
		messageField(7, "optional_value", &optionalTable, func(m *OptionalProto) **OptionalProto { return &m.OptionalValue }),
	)
}

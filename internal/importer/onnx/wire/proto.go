package wire

// The structs below are onnx.proto's messages. A field that a message did not carry has its zero value; Presence
// distinguishes zero from absent if that matters. Slices of bytes are subslices of the input.

// ModelProto is a model.
type ModelProto struct {
	IRVersion       int64
	OpsetImport     []*OperatorSetIDProto
	ProducerName    string
	ProducerVersion string
	Domain          string
	ModelVersion    int64
	DocString       []byte
	Graph           *GraphProto
	MetadataProps   []*StringStringEntryProto
	TrainingInfo    int // the number of records; they are not read
	Functions       []*FunctionProto
}

// OperatorSetIDProto is a version of an operator set; domain "" is ai.onnx.
type OperatorSetIDProto struct {
	Domain  string
	Version int64
}

// StringStringEntryProto is an entry of a map.
type StringStringEntryProto struct {
	Key   string
	Value string
}

// GraphProto is the model's graph, or a body of If, Loop or Scan.
type GraphProto struct {
	Node                   []*NodeProto
	Name                   string
	Initializer            []*TensorProto
	SparseInitializer      []*SparseTensorProto
	DocString              []byte
	Input                  []*ValueInfoProto
	Output                 []*ValueInfoProto
	ValueInfo              []*ValueInfoProto
	QuantizationAnnotation []*TensorAnnotation
	MetadataProps          []*StringStringEntryProto
}

// TensorAnnotation names the tensors that hold another tensor's scale and zero point.
type TensorAnnotation struct {
	TensorName                string
	QuantParameterTensorNames []*StringStringEntryProto
}

// NodeProto is one operation. An input named "" is absent.
type NodeProto struct {
	Input         []string
	Output        []string
	Name          string
	OpType        string
	Attribute     []*AttributeProto
	DocString     []byte
	Domain        string
	Overload      string
	MetadataProps []*StringStringEntryProto
}

// AttributeType says which field of an attribute holds its value.
type AttributeType int32

// The types of attributes.
const (
	AttributeUndefined     AttributeType = 0
	AttributeFloat         AttributeType = 1
	AttributeInt           AttributeType = 2
	AttributeString        AttributeType = 3
	AttributeTensor        AttributeType = 4
	AttributeGraph         AttributeType = 5
	AttributeFloats        AttributeType = 6
	AttributeInts          AttributeType = 7
	AttributeStrings       AttributeType = 8
	AttributeTensors       AttributeType = 9
	AttributeGraphs        AttributeType = 10
	AttributeSparseTensor  AttributeType = 11
	AttributeSparseTensors AttributeType = 12
	AttributeTypeProto     AttributeType = 13
	AttributeTypeProtos    AttributeType = 14
)

var attributeTypeNames = [...]string{"undefined", "float", "int", "string", "tensor", "graph", "floats", "ints",
	"strings",
	"tensors", "graphs", "sparse_tensor", "sparse_tensors", "type_proto", "type_protos"}

// String returns the type's name in lower case, or "?" for an unknown number.
func (t AttributeType) String() string {
	if t < 0 || int(t) >= len(attributeTypeNames) {
		return "?"
	}
	return attributeTypeNames[t]
}

// AttributeProto is a named attribute of a node, or of a function with its default.
type AttributeProto struct {
	Name string
	F    float32
	// Present distinguishes f, i and s of value zero from absent ones, in files before IR version 2, which declare no
	// type.
	Present       Presence
	I             int64
	S             []byte
	T             *TensorProto
	G             *GraphProto
	Floats        []float32
	Ints          []int64
	Strings       [][]byte
	Tensors       []*TensorProto
	Graphs        []*GraphProto
	DocString     []byte
	TP            *TypeProto
	TypeProtos    []*TypeProto
	Type          AttributeType
	RefAttrName   string
	SparseTensor  *SparseTensorProto
	SparseTensors []*SparseTensorProto
}

// The numbers of the attribute fields that Presence is read for.
const (
	AttributeFieldF = 2
	AttributeFieldI = 3
	AttributeFieldS = 4
)

// Kind returns the attribute's declared type. If it declares none, as in files before IR version 2, Kind returns the
// type of the field that is set, or AttributeUndefined if none is.
func (a *AttributeProto) Kind() AttributeType {
	if a.Type != AttributeUndefined {
		return a.Type
	}
	for _, c := range [...]struct {
		set  bool
		kind AttributeType
	}{
		{a.Present.Has(AttributeFieldF), AttributeFloat},
		{a.Present.Has(AttributeFieldI), AttributeInt},
		{a.Present.Has(AttributeFieldS), AttributeString},
		{a.T != nil, AttributeTensor},
		{a.G != nil, AttributeGraph},
		{a.SparseTensor != nil, AttributeSparseTensor},
		{a.TP != nil, AttributeTypeProto},
		{len(a.Floats) > 0, AttributeFloats},
		{len(a.Ints) > 0, AttributeInts},
		{len(a.Strings) > 0, AttributeStrings},
		{len(a.Tensors) > 0, AttributeTensors},
		{len(a.Graphs) > 0, AttributeGraphs},
		{len(a.SparseTensors) > 0, AttributeSparseTensors},
		{len(a.TypeProtos) > 0, AttributeTypeProtos},
	} {
		if c.set {
			return c.kind
		}
	}
	return AttributeUndefined
}

// IntAttribute returns an attribute of type int.
func IntAttribute(name string, value int64) *AttributeProto {
	return &AttributeProto{Name: name, Type: AttributeInt, I: value, Present: 1 << AttributeFieldI}
}

// FloatAttribute returns an attribute of type float.
func FloatAttribute(name string, value float32) *AttributeProto {
	return &AttributeProto{Name: name, Type: AttributeFloat, F: value, Present: 1 << AttributeFieldF}
}

// StringAttribute returns an attribute of type string.
func StringAttribute(name, value string) *AttributeProto {
	return &AttributeProto{Name: name, Type: AttributeString, S: []byte(value), Present: 1 << AttributeFieldS}
}

// IntsAttribute returns an attribute of type ints.
func IntsAttribute(name string, values ...int64) *AttributeProto {
	return &AttributeProto{Name: name, Type: AttributeInts, Ints: values}
}

// FloatsAttribute returns an attribute of type floats.
func FloatsAttribute(name string, values ...float32) *AttributeProto {
	return &AttributeProto{Name: name, Type: AttributeFloats, Floats: values}
}

// StringsAttribute returns an attribute of type strings.
func StringsAttribute(name string, values ...string) *AttributeProto {
	a := &AttributeProto{Name: name, Type: AttributeStrings}
	for _, v := range values {
		a.Strings = append(a.Strings, []byte(v))
	}
	return a
}

// TensorAttribute returns an attribute of type tensor.
func TensorAttribute(name string, value *TensorProto) *AttributeProto {
	return &AttributeProto{Name: name, Type: AttributeTensor, T: value}
}

// GraphAttribute returns an attribute of type graph.
func GraphAttribute(name string, value *GraphProto) *AttributeProto {
	return &AttributeProto{Name: name, Type: AttributeGraph, G: value}
}

// TensorProto is a tensor: its data is in raw_data, in one of the typed fields, or in another file. Its methods read
// the data.
type TensorProto struct {
	Dims          []int64
	DataType      DataType
	Segment       *SegmentProto
	FloatData     Numbers
	Int32Data     Numbers
	StringData    [][]byte
	Int64Data     Numbers
	Name          string
	RawData       []byte // nil if the field is absent
	RawOffset     int64  // RawData's offset in the input
	DoubleData    Numbers
	Uint64Data    Numbers
	DocString     []byte
	ExternalData  []*StringStringEntryProto
	DataLocation  int32 // LocationDefault or LocationExternal
	MetadataProps []*StringStringEntryProto
}

// The values of TensorProto.DataLocation.
const (
	LocationDefault  = 0
	LocationExternal = 1
)

// SegmentProto says which segment of a larger tensor a TensorProto holds.
type SegmentProto struct {
	Begin int64
	End   int64
}

// SparseTensorProto is a tensor that is given by its non-zero elements.
type SparseTensorProto struct {
	Values  *TensorProto
	Indices *TensorProto
	Dims    []int64
}

// ValueInfoProto is a value's name and type.
type ValueInfoProto struct {
	Name          string
	Type          *TypeProto
	DocString     []byte
	MetadataProps []*StringStringEntryProto
}

// TypeProto is a type: at most one of its six members is set.
type TypeProto struct {
	TensorType       *TensorTypeProto
	SequenceType     *ElementTypeProto
	MapType          *MapTypeProto
	Denotation       string
	OpaqueType       *OpaqueTypeProto
	SparseTensorType *TensorTypeProto
	OptionalType     *ElementTypeProto
}

// TensorTypeProto is TypeProto.Tensor and TypeProto.SparseTensor. A nil shape is an unknown rank.
type TensorTypeProto struct {
	ElemType DataType
	Shape    *TensorShapeProto
}

// ElementTypeProto is TypeProto.Sequence and TypeProto.Optional.
type ElementTypeProto struct {
	ElemType *TypeProto
}

// MapTypeProto is TypeProto.Map.
type MapTypeProto struct {
	KeyType   DataType
	ValueType *TypeProto
}

// OpaqueTypeProto is TypeProto.Opaque.
type OpaqueTypeProto struct {
	Domain string
	Name   string
}

// TensorShapeProto is a shape.
type TensorShapeProto struct {
	Dim []*Dimension
}

// Dimension is a number, a name, or unknown if it has neither.
type Dimension struct {
	Value      int64
	Param      string
	Denotation string
	Present    Presence
}

const (
	dimensionValue = 1
	dimensionParam = 2
)

// Known reports whether the dimension is a number.
func (d *Dimension) Known() bool { return d.Present.Has(dimensionValue) }

// Named reports whether the dimension has a name that is not empty; an empty name means unknown.
func (d *Dimension) Named() bool { return d.Present.Has(dimensionParam) && d.Param != "" }

// Size returns a dimension that is a number.
func Size(value int64) *Dimension { return &Dimension{Value: value, Present: 1 << dimensionValue} }

// Dim returns a dimension that is a name.
func Dim(name string) *Dimension { return &Dimension{Param: name, Present: 1 << dimensionParam} }

// TensorValue returns the declaration of a value that is a dense tensor.
func TensorValue(name string, dt DataType, shape ...*Dimension) *ValueInfoProto {
	return &ValueInfoProto{Name: name, Type: &TypeProto{TensorType: &TensorTypeProto{ElemType: dt,
		Shape: &TensorShapeProto{Dim: shape}}}}
}

// FunctionProto is an operator that the model itself defines.
type FunctionProto struct {
	Name           string
	Input          []string
	Output         []string
	Attribute      []string // without a default
	Node           []*NodeProto
	DocString      []byte
	OpsetImport    []*OperatorSetIDProto
	Domain         string
	AttributeProto []*AttributeProto // with a default
	ValueInfo      []*ValueInfoProto
	Overload       string
	MetadataProps  []*StringStringEntryProto
}

// ValueKind is the kind of a SequenceProto's elements, or of an OptionalProto's element.
type ValueKind int32

// The kinds of values.
const (
	ValueUndefined    ValueKind = 0
	ValueTensor       ValueKind = 1
	ValueSparseTensor ValueKind = 2
	ValueSequence     ValueKind = 3
	ValueMap          ValueKind = 4
	ValueOptional     ValueKind = 5
)

// SequenceProto is a list of values of one kind.
type SequenceProto struct {
	Name               string
	ElemType           ValueKind
	TensorValues       []*TensorProto
	SparseTensorValues []*SparseTensorProto
	SequenceValues     []*SequenceProto
	MapValues          []*MapProto
	OptionalValues     []*OptionalProto
}

// MapProto is a map: Keys or StringKeys, and as many Values.
type MapProto struct {
	Name       string
	KeyType    DataType
	Keys       []int64
	StringKeys [][]byte
	Values     *SequenceProto
}

// OptionalProto is a value; it is empty if it has no value and ElemType is ValueUndefined.
type OptionalProto struct {
	Name              string
	ElemType          ValueKind
	TensorValue       *TensorProto
	SparseTensorValue *SparseTensorProto
	SequenceValue     *SequenceProto
	MapValue          *MapProto
	OptionalValue     *OptionalProto
}

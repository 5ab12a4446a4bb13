package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/mem"
)

const (
	largestFooter = 64 << 20
	footerEntries = 1 << 20        // of all lists of a footer
	mostRows      = math.MaxInt32  // of a row group
	magic         = "PAR1"         // at the beginning and the end of a file
	encrypted     = "PARE"         // at the end of one whose footer is encrypted
	trailer       = 4 + len(magic) // bytes: the footer's size and the magic
	headMost      = 1 << 20        // bytes of a page's header
	headEntries   = 64             // of all lists of a page's header
)

// table is a file: its columns, and where their values are.
type table struct {
	name    string
	columns []*column
	groups  []format.RowGroup
	rows    int64
}

// column is a field of a file's rows.
type column struct {
	name string
	leaf int    // the number of its chunk in a row group; −1 if the field has not exactly one
	what string // what the field is, if its values are no elements of tensors; "" if they are

	kind      format.Type
	width     int         // bytes of a value in a page; 0 if it is text
	dtype     dtype.DType // its elements in tensors
	lists     int         // the depth of lists: the largest repetition level
	whole     byte        // the definition level of a value: the largest
	listLevel []byte      // the definition levels of an empty list
}

// open reads a file's footer.
func open(name string) (t *table, err error) {
	file, err := mem.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, diag.Inputf("%v", err).AtFile(name).WithCause(err)
	}
	t = &table{name: name}
	if err := t.read(file, info.Size()); err != nil {
		return nil, diag.As(err, diag.ErrInput).AtFile(name)
	}
	return t, nil
}

// read reads the footer of a file of so many bytes.
func (t *table) read(file io.ReaderAt, size int64) error {
	var end [trailer]byte
	least := int64(len(magic) + trailer)
	if size < least {
		return diag.Inputf("it is no Parquet file: it has %d bytes", size)
	}
	if _, err := file.ReadAt(end[:], size-int64(trailer)); err != nil {
		return err
	}
	switch string(end[4:]) {
	case magic:
	case encrypted:
		return diag.Unsupportedf("an encrypted Parquet file")
	default:
		return diag.Inputf("it is no Parquet file: it does not end with %s", magic)
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	if n > size-least {
		return diag.Inputf("the footer has %d bytes, the file %d", n, size)
	}
	if n > largestFooter {
		return diag.Unsupportedf("a footer of %d bytes; %d are allowed", n, largestFooter).
			WithFix("write fewer row groups, or several files")
	}
	data := make([]byte, n)
	if _, err := file.ReadAt(data, size-int64(trailer)-n); err != nil {
		return err
	}
	var m format.FileMetaData
	if _, err := metadata(data, footerEntries, &m); err != nil {
		return diag.Inputf("the footer: %w", err)
	}
	return t.take(&m, size)
}

// metadata decodes the struct at the start of data, and returns its size.
func metadata(data []byte, entries int, to any) (size int, err error) {
	defer diag.Recover(&err, "reading metadata of Parquet")
	if size, err = skim(data, entries); err != nil {
		return size, err
	}
	return size, thrift.Unmarshal(new(thrift.CompactProtocol), data[:size], to)
}

// take checks a footer, and takes what a reader needs of it.
func (t *table) take(m *format.FileMetaData, size int64) error {
	leaves, err := t.schema(m.Schema)
	if err != nil {
		return err
	}
	for i := range m.RowGroups {
		g := &m.RowGroups[i]
		if g.NumRows < 0 || g.NumRows > mostRows {
			return diag.Inputf("row group %d has %d rows; at most %d are allowed", i, g.NumRows, mostRows)
		}
		if len(g.Columns) != leaves {
			return diag.Inputf("row group %d has %d columns, the schema %d", i, len(g.Columns), leaves)
		}
		t.rows += g.NumRows // at most 2²⁰ groups, so that the sum has 51 bits
		for k := range g.Columns {
			if err := checkChunk(&g.Columns[k], size); err != nil {
				return diag.Inputf("row group %d, column %d: %w", i, k, err)
			}
		}
	}
	t.groups = m.RowGroups
	return nil
}

// checkChunk checks that a column chunk lies within its file.
func checkChunk(c *format.ColumnChunk, size int64) error {
	begin, bytes := start(&c.MetaData), c.MetaData.TotalCompressedSize
	switch {
	case c.FilePath != "":
		return errors.New("it is in another file")
	case begin < int64(len(magic)) || bytes < 0 || begin > size || bytes > size-begin:
		return errors.New("it lies outside of the file")
	}
	return nil
}

// start returns the position of a chunk's first page.
func start(m *format.ColumnMetaData) int64 {
	if d := m.DictionaryPageOffset; d > 0 && d < m.DataPageOffset {
		return d
	}
	return m.DataPageOffset
}

// schema makes the columns of the fields below the schema's root, and returns the number of leaves.
func (t *table) schema(list []format.SchemaElement) (leaves int, err error) {
	if len(list) == 0 {
		return 0, diag.Inputf("the schema has no root")
	}
	at := 1
	for at < len(list) {
		c := &column{name: list[at].Name, leaf: leaves}
		before := leaves
		if at, leaves, err = c.field(list, at, leaves, 0, 0); err != nil {
			return 0, err
		}
		if leaves != before+1 {
			c.leaf, c.what = -1, "several columns"
		}
		t.columns = append(t.columns, c)
	}
	return leaves, nil
}

// field reads a node of the schema and those below it, and returns the number of the node after them.
func (c *column) field(list []format.SchemaElement, at, leaves, depth int, level byte) (int, int, error) {
	if at >= len(list) || depth > deepest {
		return 0, 0, diag.Inputf("the schema is cut or too deep")
	}
	e := &list[at]
	at++
	switch e.RepetitionType.V {
	case format.Optional:
		level++
	case format.Repeated:
		c.listLevel = append(c.listLevel, level)
		c.lists++
		level++
	}
	if e.Type.Valid {
		c.leafOf(e, level)
		return at, leaves + 1, nil
	}
	for range max(0, e.NumChildren.V) {
		var err error
		if at, leaves, err = c.field(list, at, leaves, depth+1, level); err != nil {
			return 0, 0, err
		}
	}
	return at, leaves, nil
}

// leafOf takes the type of a field's leaf.
func (c *column) leafOf(e *format.SchemaElement, level byte) {
	c.kind, c.whole = e.Type.V, level
	c.dtype, c.what = dtype.Invalid, strings.ToLower(e.Type.V.String())
	logical := ""
	if e.LogicalType.Value != nil {
		logical = e.LogicalType.String()
	} else if e.ConvertedType.Valid {
		logical = convertedNames[e.ConvertedType.V]
		if logical == "" {
			logical = fmt.Sprintf("the converted type %d", e.ConvertedType.V)
		}
	}
	if logical != "" {
		c.what = logical
	}
	for _, k := range kinds {
		if k.kind == c.kind && k.logical == logical && (k.length == 0 || e.TypeLength.V == k.length) {
			c.dtype, c.width, c.what = k.dtype, k.width, ""
		}
	}
}

// kinds are the types of columns that are elements of tensors.
var kinds = []struct {
	kind    format.Type
	length  int32 // of fixed bytes
	logical string
	width   int
	dtype   dtype.DType
}{
	{format.Boolean, 0, "", 1, dtype.Bool},
	{format.Int32, 0, "", 4, dtype.I32},
	{format.Int32, 0, "INT(8,true)", 4, dtype.I8},
	{format.Int32, 0, "INT(16,true)", 4, dtype.I16},
	{format.Int32, 0, "INT(32,true)", 4, dtype.I32},
	{format.Int32, 0, "INT(8,false)", 4, dtype.U8},
	{format.Int32, 0, "INT(16,false)", 4, dtype.U16},
	{format.Int32, 0, "INT(32,false)", 4, dtype.U32},
	{format.Int64, 0, "", 8, dtype.I64},
	{format.Int64, 0, "INT(64,true)", 8, dtype.I64},
	{format.Int64, 0, "INT(64,false)", 8, dtype.U64},
	{format.Float, 0, "", 4, dtype.F32},
	{format.Double, 0, "", 8, dtype.F64},
	{format.FixedLenByteArray, 2, "FLOAT16", 2, dtype.F16},
	{format.ByteArray, 0, "STRING", 0, dtype.String},
	{format.ByteArray, 0, "ENUM", 0, dtype.String},
	{format.ByteArray, 0, "JSON", 0, dtype.String},
}

// convertedNames are the names that converted types, the older annotation, have as logical ones.
var convertedNames = map[deprecated.ConvertedType]string{
	deprecated.UTF8: "STRING", deprecated.Enum: "ENUM", deprecated.Json: "JSON",
	deprecated.Int8: "INT(8,true)", deprecated.Int16: "INT(16,true)", deprecated.Int32: "INT(32,true)",
	deprecated.Int64: "INT(64,true)", deprecated.Uint8: "INT(8,false)", deprecated.Uint16: "INT(16,false)",
	deprecated.Uint32: "INT(32,false)", deprecated.Uint64: "INT(64,false)",
}

// pick returns the columns of these names, or the only one of the file.
func (t *table) pick(names []string) (list []*column, err error) {
	for _, c := range t.columns {
		if slices.Contains(names, c.name) {
			list = append(list, c)
		}
	}
	if len(list) == 0 && len(t.columns) == 1 {
		list = t.columns
	}
	if len(list) == 0 {
		var there []string
		for _, c := range t.columns[:min(len(t.columns), 20)] {
			there = append(there, c.name)
		}
		return nil, diag.Inputf("the file has no column %s", strings.Join(names, " or ")).AtFile(t.name).
			WithFix("its columns are %s; they need the names of the inputs", strings.Join(there, ", "))
	}
	for _, c := range list {
		if c.what != "" {
			return nil, diag.Unsupportedf("a column of %s", c.what).AtTensor(c.name).AtFile(t.name).
				WithFix("columns are numbers or text, or lists of them")
		}
	}
	return list, nil
}

// Package parquettest writes Parquet files, true ones and false ones, for tests.
package parquettest

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// File is a file of one column, whose rows are lists of Width numbers.
type File struct {
	Column         string
	Rows, Width    int
	PerPage, Pages int                             // rows of a page, pages of a row group
	Value          func(row, i int) float32        // an element
	Footer         func(*format.FileMetaData)      // changes what the footer says; may be nil
	Header         func(*format.PageHeader)        // changes what a page's header says; may be nil
	Levels         func(repetitions []byte) []byte // changes a page's levels; may be nil
	compact        thrift.CompactProtocol
	to             bytes.Buffer
	metadata       format.FileMetaData
}

// Bytes returns the file.
func (f *File) Bytes() ([]byte, error) {
	f.to.WriteString("PAR1")
	root := format.SchemaElement{Name: "root", NumChildren: thrift.New(int32(1))}
	column := format.SchemaElement{Name: f.Column, Type: thrift.New(format.Float),
		RepetitionType: thrift.New(format.Repeated)}
	f.metadata = format.FileMetaData{Version: 1, Schema: []format.SchemaElement{root, column}, NumRows: int64(f.Rows)}
	for row := 0; row < f.Rows; {
		group := format.RowGroup{}
		chunk := format.ColumnMetaData{Type: format.Float, PathInSchema: []string{f.Column},
			DataPageOffset: int64(f.to.Len())}
		for range f.Pages {
			n := min(f.PerPage, f.Rows-row)
			if n == 0 {
				break
			}
			if err := f.page(row, n); err != nil {
				return nil, err
			}
			row += n
			group.NumRows += int64(n)
			chunk.NumValues += int64(n * f.Width)
		}
		chunk.TotalCompressedSize = int64(f.to.Len()) - chunk.DataPageOffset
		chunk.TotalUncompressedSize = chunk.TotalCompressedSize
		group.Columns = []format.ColumnChunk{{MetaData: chunk}}
		f.metadata.RowGroups = append(f.metadata.RowGroups, group)
	}
	if f.Footer != nil {
		f.Footer(&f.metadata)
	}
	footer, err := thrift.Marshal(&f.compact, f.metadata)
	if err != nil {
		return nil, err
	}
	f.to.Write(footer)
	f.to.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))))
	f.to.WriteString("PAR1")
	return f.to.Bytes(), nil
}

// page writes a page of n rows.
func (f *File) page(row, n int) error {
	var repetitions []byte
	for range n {
		repetitions = append(run(repetitions, 1, 0), run(nil, f.Width-1, 1)...)
	}
	if f.Levels != nil {
		repetitions = f.Levels(repetitions)
	}
	definitions := run(nil, n*f.Width, 1)
	data := binary.LittleEndian.AppendUint32(nil, uint32(len(repetitions)))
	data = append(data, repetitions...)
	data = binary.LittleEndian.AppendUint32(data, uint32(len(definitions)))
	data = append(data, definitions...)
	for r := range n {
		for i := range f.Width {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(f.Value(row+r, i)))
		}
	}
	header := format.PageHeader{Type: format.DataPage, UncompressedPageSize: int32(len(data)),
		CompressedPageSize: int32(len(data)), DataPageHeader: thrift.New(format.DataPageHeader{
			NumValues: int32(n * f.Width), DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})}
	if f.Header != nil {
		f.Header(&header)
	}
	text, err := thrift.Marshal(&f.compact, header)
	f.to.Write(text)
	f.to.Write(data)
	return err
}

// run adds a run of n levels, unless n is 0.
func run(to []byte, n int, level byte) []byte {
	if n == 0 {
		return to
	}
	return append(binary.AppendUvarint(to, uint64(n)<<1), level)
}

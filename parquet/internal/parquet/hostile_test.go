package parquet

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/weirml/weir/parquet/internal/parquettest"
)

// TestLies: what a file promises beyond its bytes is refused, without memory for it.
func TestLies(t *testing.T) {
	type f = parquettest.File
	chunk := func(m *format.FileMetaData) *format.ColumnMetaData { return &m.RowGroups[0].Columns[0].MetaData }
	page := func(change func(h *format.PageHeader)) func(*f) { return func(x *f) { x.Header = change } }
	footer := func(change func(m *format.FileMetaData)) func(*f) { return func(x *f) { x.Footer = change } }
	levels := func(run uint64) func(*f) {
		return func(x *f) {
			x.Levels = func([]byte) []byte { return append(binary.AppendUvarint(nil, run), 1, 1, 1, 1) }
		}
	}
	for want, lie := range map[string]func(*f){
		"at most 2147483647 are allowed": footer(func(m *format.FileMetaData) { m.RowGroups[0].NumRows = 1 << 40 }),
		"has -1 rows":                    footer(func(m *format.FileMetaData) { m.RowGroups[0].NumRows = -1 }),
		"promises 2147483647 rows": footer(func(m *format.FileMetaData) {
			m.RowGroups[0].NumRows = math.MaxInt32
		}),
		"lies outside of the file": footer(func(m *format.FileMetaData) { chunk(m).TotalCompressedSize = 1 << 40 }),
		"lies outside of the file #position": footer(func(m *format.FileMetaData) {
			chunk(m).DataPageOffset = math.MaxInt64
		}),
		"lies outside of the file #size": footer(func(m *format.FileMetaData) {
			chunk(m).DataPageOffset, chunk(m).TotalCompressedSize = 4, -1
		}),
		"in another file":     footer(func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].FilePath = "a" }),
		"has 0 columns":       footer(func(m *format.FileMetaData) { m.RowGroups[0].Columns = nil }),
		"compression LZO":     footer(func(m *format.FileMetaData) { chunk(m).Codec = format.LZO }),
		"the chunk has INT64": footer(func(m *format.FileMetaData) { chunk(m).Type = format.Int64 }),
		"cut or too deep": footer(func(m *format.FileMetaData) {
			m.Schema[1].Type, m.Schema[1].NumChildren = thrift.Null[format.Type]{}, thrift.New(int32(math.MaxInt32))
		}),
		"that stand for 209715200": func(x *f) {
			x.Footer = func(m *format.FileMetaData) { chunk(m).Codec = format.Snappy }
			x.Header = func(h *format.PageHeader) { h.UncompressedPageSize = 200 << 20 }
		},
		"268435456 are allowed": page(func(h *format.PageHeader) { h.UncompressedPageSize = math.MaxInt32 }),
		"bytes where":           page(func(h *format.PageHeader) { h.CompressedPageSize = math.MaxInt32 }),
		"bytes of UNCOMPRESSED": page(func(h *format.PageHeader) { h.UncompressedPageSize = 200 << 20 }),
		"a page of 2147483647 values": page(func(h *format.PageHeader) {
			h.DataPageHeader.V.NumValues = math.MaxInt32
		}),
		"levels: the page ends": page(func(h *format.PageHeader) { h.DataPageHeader.V.NumValues = 4096 }),
		"dictionary that is not": page(func(h *format.PageHeader) {
			h.DataPageHeader.V.Encoding = format.RLEDictionary
		}),
		"the encoding BIT_PACKED": page(func(h *format.PageHeader) {
			h.DataPageHeader.V.RepetitionLevelEncoding = format.BitPacked
		}),
		"begins with the level 1":    levels(100<<1 | 0),
		"levels: the page ends #run": levels(0),
	} {
		x := &f{Column: "x", Rows: 10, Width: 4, PerPage: 5, Pages: 2, Value: func(int, int) float32 { return 1 }}
		lie(x)
		data, err := x.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		want, _, _ = strings.Cut(want, " #") // several lies have the same refusal
		refused(t, want, data)
	}
	true10, err := (&f{Column: "x", Rows: 10, Width: 4, PerPage: 5, Pages: 2,
		Value: func(int, int) float32 { return 1 }}).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	with := func(at int, bytes ...byte) []byte {
		data := append([]byte{}, true10...)
		copy(data[(at+len(data))%len(data):], bytes)
		return data
	}
	begin := len(true10) - 8 - int(binary.LittleEndian.Uint32(true10[len(true10)-8:]))
	refused(t, "does not end with", true10[:len(true10)-1])
	refused(t, "it has 3 bytes", true10[:3])
	refused(t, "encrypted", with(-4, 'P', 'A', 'R', 'E'))
	refused(t, "the footer has 4294967295", with(-8, 0xff, 0xff, 0xff, 0xff))
	// The schema is a list of 2³¹ structs.
	refused(t, "ends within a value", with(begin+2, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 7))
	refused(t, "damaged", with(begin+2, 0x1b))
}

// refused fails unless a file is refused with these words, and little memory.
func refused(t *testing.T, want string, data []byte) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "lie.parquet")
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := Open([]string{name})
	if err == nil {
		for _, e := range s.Elements([]string{"x"}, every) {
			if err = e; err != nil {
				break
			}
		}
	}
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "lie.parquet") {
		t.Errorf("%s: %v", want, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%s: %d bytes were allocated", want, took)
	}
}

// TestFlat: a file of any number of rows is read in the memory of a page.
func TestFlat(t *testing.T) {
	rows := 100_000
	if testing.Short() {
		rows = 20_000
	}
	const width = 256
	data, err := (&parquettest.File{Column: "x", Rows: rows, Width: width, PerPage: 100, Pages: 50,
		Value: func(row, i int) float32 { return float32(row*7 + i) }}).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "a.parquet")
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	data = nil
	s, err := Open([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	begin, n := held(), 0
	for e, err := range s.Elements([]string{"x"}, every) {
		if err != nil || e.Err != nil {
			t.Fatal(err, e.Err)
		}
		if x := e.Arrays["x"]; x.Len() != width || x.Float(5) != float64(n*7+5) {
			t.Fatalf("row %d is %v", n, x)
		}
		if n++; n%(rows/10) == 0 {
			// The page's bytes, two levels of each of its values, and the row.
			if took, page := int64(held()-begin), int64(100*width*4); took > page+2*page/4+8*width+64<<10 {
				t.Errorf("%d bytes are held at row %d, of a page of %d", took, n, page)
			}
		}
	}
	if n != rows {
		t.Errorf("%d rows of %d", n, rows)
	}
}

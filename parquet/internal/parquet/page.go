package parquet

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/format"

	"github.com/weirml/weir/internal/diag"
)

// page is what one page of a column has.
type page struct {
	repetitions []byte // of each entry: the depth of the list that it continues; nil without lists
	definitions []byte // of each entry: what of it is there; nil if nothing may be missing
	entries     int
	values      values
	indexes     []uint32 // of the values in the dictionary; nil if values has them
}

// pages reads the pages of a column's chunk.
type pages struct {
	column     *column
	file       io.ReaderAt
	codec      format.CompressionCodec
	at, end    int64
	dictionary *values
	size       int // of the dictionary
}

// newPages begins at a chunk's first page.
func newPages(c *column, file io.ReaderAt, chunk *format.ColumnChunk) (*pages, error) {
	m := &chunk.MetaData
	if codecs[m.Codec].fill == nil {
		return nil, diag.Unsupportedf("the compression %s", m.Codec).WithFix("write it with zstd or snappy")
	}
	if m.Type != c.kind {
		return nil, diag.Inputf("the chunk has %s, the schema %s", m.Type, c.kind)
	}
	at := start(m)
	return &pages{column: c, file: file, codec: m.Codec, at: at, end: at + m.TotalCompressedSize}, nil
}

// header reads the header of the page at the current position, and goes to what follows it.
func (p *pages) header() (h *format.PageHeader, err error) {
	for most := int64(4 << 10); ; most *= 16 {
		data := make([]byte, min(most, p.end-p.at))
		if _, err := p.file.ReadAt(data, p.at); err != nil {
			return nil, err
		}
		h = &format.PageHeader{}
		size, err := metadata(data, headEntries, h)
		if errors.Is(err, errCut) && int64(len(data)) == most && most < headMost {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("a page's header: %w", err)
		}
		p.at += int64(size)
		if n := int64(h.CompressedPageSize); n < 0 || n > p.end-p.at {
			return nil, fmt.Errorf("a page of %d bytes where %d are left", n, p.end-p.at)
		}
		if n := h.UncompressedPageSize; n < 0 || n > largest {
			return nil, diag.Unsupportedf("a page of %d bytes; %d are allowed", n, largest).WithFix("write smaller pages")
		}
		return h, nil
	}
}

// pass passes over the next page, if its header tells its rows and these are not more than so many, and returns their
// number; 0 if it does not.
func (p *pages) pass(rows int64) (passed int64, err error) {
	begin := p.at
	if begin >= p.end {
		return 0, nil
	}
	h, err := p.header()
	if err != nil {
		return 0, err
	}
	switch {
	case h.Type == format.DataPage && h.DataPageHeader.Valid && p.column.lists == 0:
		passed = int64(h.DataPageHeader.V.NumValues)
	case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
		passed = int64(h.DataPageHeaderV2.V.NumRows)
	}
	if passed <= 0 || passed > rows {
		p.at = begin
		return 0, nil
	}
	p.at += int64(h.CompressedPageSize)
	return passed, nil
}

// next reads the next page of values; io.EOF after the last.
func (p *pages) next() (*page, error) {
	for p.at < p.end {
		h, err := p.header()
		if err != nil {
			return nil, err
		}
		at := p.at
		if p.at += int64(h.CompressedPageSize); h.Type != format.DataPage && h.Type != format.DataPageV2 &&
			h.Type != format.DictionaryPage {
			continue // an index
		}
		data := make([]byte, h.CompressedPageSize)
		if _, err := p.file.ReadAt(data, at); err != nil {
			return nil, err
		}
		switch {
		case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
			if err := p.readDictionary(h, data); err != nil {
				return nil, fmt.Errorf("a dictionary: %w", err)
			}
		case h.Type == format.DataPage && h.DataPageHeader.Valid:
			return p.first(h, data)
		case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
			return p.second(h, data)
		default:
			return nil, errOdd
		}
	}
	return nil, io.EOF
}

// plainly decompresses bytes of a page into so many.
func (p *pages) plainly(data []byte, size int) ([]byte, error) {
	if p.codec == format.Uncompressed && len(data) == size {
		return data, nil
	}
	c := codecs[p.codec]
	if int64(size) > int64(len(data))*c.ratio+c.ratio {
		return nil, fmt.Errorf("%d bytes of %s that stand for %d", len(data), p.codec, size)
	}
	to := make([]byte, size)
	return to, c.fill(to, data)
}

// readDictionary reads the dictionary of the pages that follow.
func (p *pages) readDictionary(h *format.PageHeader, data []byte) error {
	d := h.DictionaryPageHeader.V
	if p.dictionary != nil || d.Encoding != format.Plain && d.Encoding != format.PlainDictionary ||
		p.column.kind == format.Boolean {
		return errOdd
	}
	n, err := entriesOf(d.NumValues)
	if err != nil {
		return err
	}
	if data, err = p.plainly(data, int(h.UncompressedPageSize)); err != nil {
		return err
	}
	v, err := plain(p.column, n, data)
	p.dictionary, p.size = &v, n
	return err
}

// first reads a page of the first version: levels after their lengths, and values, compressed together.
func (p *pages) first(h *format.PageHeader, data []byte) (out *page, err error) {
	d := h.DataPageHeader.V
	out = &page{}
	if out.entries, err = entriesOf(d.NumValues); err != nil {
		return nil, err
	}
	if data, err = p.plainly(data, int(h.UncompressedPageSize)); err != nil {
		return nil, err
	}
	for _, l := range []struct {
		to       *[]byte
		most     int
		encoding format.Encoding
	}{{&out.repetitions, p.column.lists, d.RepetitionLevelEncoding},
		{&out.definitions, int(p.column.whole), d.DefinitionLevelEncoding}} {
		if l.most == 0 {
			continue
		}
		if l.encoding != format.RLE {
			return nil, diag.Unsupportedf("levels in the encoding %s", l.encoding)
		}
		var levels []byte
		if levels, data, err = prefixed(data); err != nil {
			return nil, err
		}
		if *l.to, err = levelsOf(levels, out.entries, l.most); err != nil {
			return nil, err
		}
	}
	return out, p.readValues(out, d.Encoding, data)
}

// second reads a page of the second version: levels that are never compressed, and values.
func (p *pages) second(h *format.PageHeader, data []byte) (out *page, err error) {
	d := h.DataPageHeaderV2.V
	out = &page{}
	if out.entries, err = entriesOf(d.NumValues); err != nil {
		return nil, err
	}
	r, l := int64(d.RepetitionLevelsByteLength), int64(d.DefinitionLevelsByteLength)
	if r < 0 || l < 0 || r+l > int64(len(data)) || r+l > int64(h.UncompressedPageSize) {
		return nil, errShort
	}
	if p.column.lists > 0 {
		if out.repetitions, err = levelsOf(data[:r], out.entries, p.column.lists); err != nil {
			return nil, err
		}
	}
	if p.column.whole > 0 {
		if out.definitions, err = levelsOf(data[r:r+l], out.entries, int(p.column.whole)); err != nil {
			return nil, err
		}
	}
	data = data[r+l:]
	if !d.IsCompressed.Valid || d.IsCompressed.V {
		if size := int64(h.UncompressedPageSize) - r - l; size > 0 || len(data) > 0 {
			if data, err = p.plainly(data, int(size)); err != nil {
				return nil, err
			}
		}
	}
	return out, p.readValues(out, d.Encoding, data)
}

// levelsOf reads the levels of entries.
func levelsOf(data []byte, entries, most int) ([]byte, error) {
	levels := make([]byte, entries)
	if err := hybrid(levels, data, bitsOf(most)); err != nil {
		return nil, fmt.Errorf("levels: %w", err)
	}
	for _, l := range levels {
		if int(l) > most {
			return nil, fmt.Errorf("a level of %d, the most is %d", l, most)
		}
	}
	return levels, nil
}

// readValues reads the values of entries that are there.
func (p *pages) readValues(out *page, encoding format.Encoding, data []byte) (err error) {
	n := out.entries
	if out.definitions != nil {
		n = count(out.definitions, p.column.whole)
	}
	if encoding == format.PlainDictionary || encoding == format.RLEDictionary {
		if p.dictionary == nil {
			return errors.New("a page of numbers of a dictionary that is not there")
		}
		if out.indexes, err = indexed(n, data); err != nil {
			return err
		}
		for _, i := range out.indexes {
			if int64(i) >= int64(p.size) {
				return fmt.Errorf("value %d of a dictionary of %d", i, p.size)
			}
		}
		out.values = *p.dictionary
		return nil
	}
	read := decoders[encoding]
	if read == nil {
		return diag.Unsupportedf("values in the encoding %s", encoding)
	}
	out.values, err = read(p.column, n, data)
	return err
}

// count returns the number of levels that are this one.
func count(levels []byte, level byte) (n int) {
	for _, l := range levels {
		if l == level {
			n++
		}
	}
	return n
}

package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/parquet-go/parquet-go/format"
)

// errShort is a page whose bytes end before its values do.
var errShort = errors.New("the page ends before its values")

// values are the values of a page or of a dictionary: bytes of the same width, or texts.
type values struct {
	data  []byte
	texts [][]byte
}

// decoders read so many values of a column, at most mostEntries, of which a page has the bytes.
var decoders = map[format.Encoding]func(c *column, n int, page []byte) (values, error){
	format.Plain:                plain,
	format.RLE:                  booleans,
	format.DeltaBinaryPacked:    differences,
	format.DeltaLengthByteArray: lengths,
	format.DeltaByteArray:       prefixes,
	format.ByteStreamSplit:      streams,
}

// plain reads values as they are: bits of booleans, bytes of numbers, texts after their lengths.
func plain(c *column, n int, page []byte) (values, error) {
	switch {
	case c.kind == format.Boolean:
		if len(page) < (n+7)/8 {
			return values{}, errShort
		}
		data := make([]byte, n)
		return values{data: data}, unpacked(data, page, 1)
	case c.width > 0:
		if int64(len(page)) < int64(n)*int64(c.width) {
			return values{}, errShort
		}
		return values{data: page[:n*c.width]}, nil
	}
	if len(page)/4 < n {
		return values{}, errShort
	}
	texts := make([][]byte, n)
	for i := range texts {
		if len(page) < 4 {
			return values{}, errShort
		}
		size := binary.LittleEndian.Uint32(page)
		if page = page[4:]; uint64(size) > uint64(len(page)) {
			return values{}, errShort
		}
		texts[i], page = page[:size:size], page[size:]
	}
	return values{texts: texts}, nil
}

// booleans reads booleans as runs, after their length.
func booleans(c *column, n int, page []byte) (values, error) {
	if c.kind != format.Boolean {
		return values{}, errors.New("runs of values that are no booleans")
	}
	runs, _, err := prefixed(page)
	if err != nil {
		return values{}, err
	}
	data := make([]byte, n)
	return values{data: data}, hybrid(data, runs, 1)
}

// prefixed returns what the length at the start of data counts, and the rest.
func prefixed(data []byte) (counted, rest []byte, err error) {
	if len(data) < 4 {
		return nil, nil, errShort
	}
	n := binary.LittleEndian.Uint32(data)
	if data = data[4:]; uint64(n) > uint64(len(data)) {
		return nil, nil, errShort
	}
	return data[:n], data[n:], nil
}

// streams reads numbers whose first bytes come first, then their second, and so on.
func streams(c *column, n int, page []byte) (values, error) {
	if c.width == 0 || c.kind == format.Boolean {
		return values{}, errors.New("streams of bytes of values that are no numbers")
	}
	if int64(len(page)) < int64(n)*int64(c.width) {
		return values{}, errShort
	}
	data := make([]byte, n*c.width)
	for i := range n {
		for k := range c.width {
			data[i*c.width+k] = page[k*n+i]
		}
	}
	return values{data: data}, nil
}

// differences reads integers as their differences.
func differences(c *column, n int, page []byte) (values, error) {
	if c.kind != format.Int32 && c.kind != format.Int64 {
		return values{}, errors.New("differences of values that are no integers")
	}
	list, _, err := deltas(n, page)
	if err != nil {
		return values{}, err
	}
	data := make([]byte, n*c.width)
	for i, x := range list {
		if c.width == 4 {
			binary.LittleEndian.PutUint32(data[4*i:], uint32(x))
		} else {
			binary.LittleEndian.PutUint64(data[8*i:], uint64(x))
		}
	}
	return values{data: data}, nil
}

// deltas reads n integers as differences, and returns what follows them. Blocks of a page may have more values than
// the page, and a block has miniblocks whose values have a number of bits of their own.
func deltas(n int, page []byte) (list []int64, rest []byte, err error) {
	failed := false
	next := func() uint64 {
		x, size := binary.Uvarint(page)
		if size <= 0 {
			failed = true
			return 0
		}
		page = page[size:]
		return x
	}
	signed := func() int64 {
		x := next()
		return int64(x>>1) ^ -int64(x&1)
	}
	block, minis, count, value := next(), next(), next(), signed()
	if failed || count != uint64(n) {
		return nil, nil, fmt.Errorf("differences of %d values, not %d", count, n)
	}
	if block == 0 || block > 1<<16 || minis == 0 || block%minis != 0 || block/minis%8 != 0 {
		return nil, nil, errors.New("differences in odd blocks")
	}
	each := int(block / minis)
	if n > 0 {
		list = append(list, value)
	}
	differences := make([]uint64, each)
	for len(list) < n {
		least := signed()
		if failed || uint64(len(page)) < minis {
			return nil, nil, errShort
		}
		widths := page[:minis]
		page = page[minis:]
		for _, width := range widths {
			if len(list) >= n {
				break
			}
			size := each / 8 * int(width)
			if width > 64 || size > len(page) {
				return nil, nil, errShort
			}
			wide(differences, page[:size], int(width))
			for _, d := range differences[:min(each, n-len(list))] {
				value += least + int64(d)
				list = append(list, value)
			}
			page = page[size:]
		}
	}
	return list, page, nil
}

// wide unpacks integers of up to 64 bits each.
func wide(to []uint64, from []byte, width int) {
	bit := 0
	for i := range to {
		x := uint64(0)
		for have := 0; have < width; {
			take := min(8-bit%8, width-have)
			x |= uint64(from[bit/8]>>(bit%8)&(1<<take-1)) << have
			have, bit = have+take, bit+take
		}
		to[i] = x
	}
}

// lengths reads texts after all their lengths.
func lengths(c *column, n int, page []byte) (values, error) {
	if c.width > 0 {
		return values{}, errors.New("lengths of values that are no texts")
	}
	list, rest, err := deltas(n, page)
	if err != nil {
		return values{}, err
	}
	texts := make([][]byte, n)
	for i, size := range list {
		if size < 0 || size > int64(len(rest)) {
			return values{}, errShort
		}
		texts[i], rest = rest[:size:size], rest[size:]
	}
	return values{texts: texts}, nil
}

// prefixes reads texts that share a number of their first bytes with the text before.
func prefixes(c *column, n int, page []byte) (values, error) {
	shared, rest, err := deltas(n, page)
	if err != nil {
		return values{}, err
	}
	v, err := lengths(c, n, rest)
	if err != nil {
		return values{}, err
	}
	total := int64(0)
	for i, size := range shared {
		before := int64(0)
		if i > 0 {
			before = int64(len(v.texts[i-1]))
		}
		if size < 0 || size > before {
			return values{}, errors.New("a text shares more bytes than the text before has")
		}
		if total += size; total > largest {
			return values{}, fmt.Errorf("texts of more than %d bytes", largest)
		}
		if size > 0 {
			text := make([]byte, 0, size+int64(len(v.texts[i])))
			v.texts[i] = append(append(text, v.texts[i-1][:size]...), v.texts[i]...)
		}
	}
	return v, nil
}

// hybrid fills memory with unsigned integers of so many bits, which are runs of one integer or packed ones. A run may
// be empty.
func hybrid[T uint8 | uint32](to []T, from []byte, width int) error {
	for len(to) > 0 {
		head, size := binary.Uvarint(from)
		if size <= 0 {
			return errShort
		}
		from = from[size:]
		if head&1 == 1 { // groups of eight
			groups := int(min(head>>1, uint64(len(to)+7)/8))
			n, have := min(len(to), groups*8), min(len(from), groups*width) // the last group may be cut
			if err := unpacked(to[:n], from[:have], width); err != nil {
				return err
			}
			to, from = to[n:], from[have:]
			continue
		}
		n, size := min(uint64(len(to)), head>>1), (width+7)/8
		if len(from) < size {
			return errShort
		}
		x := uint32(0)
		for i := range size {
			x |= uint32(from[i]) << (8 * i)
		}
		if uint64(x)>>width != 0 {
			return errors.New("a run of an integer that has too many bits")
		}
		for i := range to[:n] {
			to[i] = T(x)
		}
		to, from = to[n:], from[size:]
	}
	return nil
}

// unpacked fills memory with unsigned integers of so many bits, which follow each other from the lowest bit on.
func unpacked[T uint8 | uint32](to []T, from []byte, width int) error {
	if uint64(len(to))*uint64(width) > uint64(len(from))*8 {
		return errShort
	}
	held, have, at := uint64(0), 0, 0 // bits that are not used yet, their number, and the next byte
	mask := uint64(1)<<width - 1
	for i := range to {
		for have < width {
			held |= uint64(from[at]) << have
			at, have = at+1, have+8
		}
		to[i] = T(held & mask)
		held, have = held>>width, have-width
	}
	return nil
}

// indexed reads n numbers of a dictionary's values.
func indexed(n int, page []byte) ([]uint32, error) {
	if n == 0 {
		return []uint32{}, nil
	}
	if len(page) == 0 || page[0] > 32 {
		return nil, errShort
	}
	list := make([]uint32, n)
	return list, hybrid(list, page[1:], int(page[0]))
}

// mostEntries is the most values of a page, nulls included: a run of equal ones takes a few bytes.
const mostEntries = 16 << 20

// entriesOf checks a number of values that a page's header has.
func entriesOf(n int32) (int, error) {
	if n < 0 || n > mostEntries {
		return 0, fmt.Errorf("a page of %d values; at most %d are allowed", n, mostEntries)
	}
	return int(n), nil
}

// bitsOf returns the bits of a level of at most so much.
func bitsOf(most int) int { return bits.Len(uint(most)) }

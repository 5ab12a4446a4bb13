package picture

import (
	"github.com/weirml/weir/internal/hostop/picture/decoding"
)

// mostScans is the largest number of scans of a file. It bounds the work, because a scan of few bytes may pass over all
// blocks.
const mostScans = 256

// huffman is a Huffman code.
type huffman struct {
	fast    [256]uint16 // the length and the symbol by the next 8 bits; 0: the code is longer
	last    [17]int32   // the largest code of each length, −1: none
	offset  [17]int32   // to be added to a code; the sum is its symbol's index
	symbols []byte
}

// defineHuffman reads a segment of code tables.
func (d *jpeg) defineHuffman(body []byte) error {
	for len(body) > 0 {
		if len(body) < 17 || body[0]>>4 > 1 || body[0]&15 > 3 {
			return decoding.Corrupt("a table of codes of %d bytes", len(body))
		}
		class, number := body[0]>>4, body[0]&15
		counts, total := body[1:17], 0
		for _, n := range counts {
			total += int(n)
		}
		body = body[17:]
		if total > 256 || total > len(body) {
			return decoding.Corrupt("a table of %d codes", total)
		}
		h := &huffman{symbols: body[:total]}
		code, index := int32(0), int32(0)
		for length := 1; length <= 16; length++ {
			n := int32(counts[length-1])
			if code+n > 1<<length {
				return decoding.Corrupt("too many codes of length %d", length)
			}
			h.offset[length], h.last[length] = index-code, code+n-1
			if n == 0 {
				h.last[length] = -1
			}
			for range n {
				if length <= 8 {
					entry := uint16(length)<<8 | uint16(h.symbols[index])
					for i := code << (8 - length); i < (code+1)<<(8-length); i++ {
						h.fast[i] = entry
					}
				}
				code, index = code+1, index+1
			}
			code <<= 1
		}
		if class == 0 {
			for _, s := range h.symbols {
				if s > 15 {
					return decoding.Corrupt("a DC coefficient of %d bits", s)
				}
			}
		}
		d.huffman[class][number], body = h, body[total:]
	}
	return nil
}

// bitReader reads the bits of a scan without the zeros that are stuffed after 0xff. From a marker on it reads zeros.
type bitReader struct {
	data  []byte
	at    int
	bits  uint64
	count int // of bits
	zeros int // bits buffered after the end, all zero
	ended bool
}

// fill loads bytes until more than 48 bits are buffered.
func (r *bitReader) fill() {
	for r.count <= 48 {
		b := byte(0)
		switch {
		case r.zeros > 0 || r.at >= len(r.data):
			r.ended = r.ended || r.at >= len(r.data)
			r.zeros += 8
		case r.data[r.at] != 0xff:
			b = r.data[r.at]
			r.at++
		case r.at+1 < len(r.data) && r.data[r.at+1] == 0:
			b = 0xff
			r.at += 2
		case r.at+1 < len(r.data) && r.data[r.at+1] == 0xff:
			r.at++
			continue
		default:
			r.zeros += 8
		}
		r.bits = r.bits<<8 | uint64(b)
		r.count += 8
	}
}

// spent reports whether bits after the end have been read.
func (r *bitReader) spent() bool { return r.zeros > r.count }

// take returns the next n bits, at most 16.
func (r *bitReader) take(n int) int32 {
	if r.count < n {
		r.fill()
	}
	r.count -= n
	return int32(r.bits>>r.count) & (1<<n - 1)
}

// signed returns a number with n bits of magnitude. The first bit of a negative number is 0.
func (r *bitReader) signed(n int) int32 {
	if n == 0 {
		return 0
	}
	v := r.take(n)
	if v < 1<<(n-1) {
		v += -1<<n + 1
	}
	return v
}

// symbol returns the next symbol.
func (r *bitReader) symbol(h *huffman) (byte, error) {
	if r.count < 16 {
		r.fill()
	}
	if entry := h.fast[byte(r.bits>>(r.count-8))]; entry != 0 {
		r.count -= int(entry >> 8)
		return byte(entry), nil
	}
	for length := 9; length <= 16; length++ {
		code := int32(r.bits>>(r.count-length)) & (1<<length - 1)
		if code <= h.last[length] {
			r.count -= length
			return h.symbols[code+h.offset[length]], nil
		}
	}
	return 0, decoding.Corrupt("a code without a symbol")
}

// scan is the header of a pass over the picture, with the tables for its blocks.
type scan struct {
	components  []scanComponent
	first, last int  // of the coefficients, in their order in the file
	refining    bool // the scan has the next bit of coefficients of an earlier scan
	low         uint // the position of its lowest bit
}

// scanComponent is a component of a scan.
type scanComponent struct {
	c        *component
	mean, ac *huffman
}

// scan reads one pass over the picture.
func (d *jpeg) scan(body []byte) error {
	if d.components == nil || len(body) < 1 || len(body) < 4+2*int(body[0]) || body[0] < 1 || body[0] > 4 {
		return decoding.Corrupt("a scan's header of %d bytes", len(body))
	}
	count := int(body[0])
	tail := body[1+2*count:]
	s := scan{first: int(tail[0]), last: int(tail[1]), refining: tail[2]>>4 > 0, low: uint(tail[2] & 15)}
	if !d.progressive {
		s.first, s.last, s.refining, s.low = 0, 63, false, 0
	}
	if s.first > s.last || s.last > 63 || s.low > 13 || d.progressive && s.first == 0 && s.last > 0 || s.first > 0 &&
		count > 1 || s.refining && uint(tail[2]>>4) != s.low+1 {
		return decoding.Corrupt("a scan of coefficients %d to %d, %d, of %d components", s.first, s.last, tail[2], count)
	}
	for i := range count {
		component := scanComponent{}
		for j := range d.components {
			if d.components[j].id == body[1+2*i] {
				component.c = &d.components[j]
			}
		}
		if component.c == nil || body[2+2*i]>>4 > 3 || body[2+2*i]&15 > 3 {
			return decoding.Corrupt("a scan of a component %d that is not there", body[1+2*i])
		}
		for _, other := range s.components {
			if other.c == component.c {
				return decoding.Corrupt("a scan of one component twice")
			}
		}
		component.mean, component.ac = d.huffman[0][body[2+2*i]>>4], d.huffman[1][body[2+2*i]&15]
		if component.mean == nil && s.first == 0 && !s.refining || component.ac == nil && s.last > 0 {
			return decoding.Corrupt("a scan without its codes")
		}
		if component.c.table == nil {
			if component.c.table = d.quantizers[component.c.quantizer]; component.c.table == nil {
				return decoding.Corrupt("a scan without its quantization table")
			}
		}
		s.components = append(s.components, component)
	}
	if d.scans++; d.scans > mostScans {
		return decoding.Corrupt("more than %d scans", mostScans)
	}
	d.restart()
	d.bits = bitReader{data: d.data, at: d.at}
	err := d.units(&s)
	d.at = d.bits.at
	if err == nil && d.bits.ended && d.bits.spent() {
		return decoding.Corrupt("the file ends before its picture does")
	}
	return err
}

// units decodes the units of a scan: blocks of one component, or of all interleaved ones.
func (d *jpeg) units(s *scan) error {
	across, down := ceil(d.width, 8*d.hMost), ceil(d.height, 8*d.vMost)
	single := len(s.components) == 1
	if single {
		across, down = s.components[0].c.across, s.components[0].c.down
	}
	for unit := range across * down {
		d.file.Did(int64(64 * len(s.components)))
		if d.interval > 0 && unit > 0 && unit%d.interval == 0 {
			d.resume()
		}
		if d.bits.spent() {
			if d.interval == 0 || d.bits.ended {
				return nil // the other blocks are not changed
			}
			continue
		}
		x, y := unit%across, unit/across
		for i := range s.components {
			component := &s.components[i]
			c := component.c
			if single {
				if err := d.block(s, component, x, y); err != nil {
					return err
				}
				continue
			}
			for j := range c.h * c.v {
				if err := d.block(s, component, x*c.h+j%c.h, y*c.v+j/c.h); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// restart resets the predictions of all components.
func (d *jpeg) restart() {
	d.run = 0
	for i := range d.components {
		d.components[i].predicted = 0
	}
}

// resume continues after the next restart marker. If the next marker is another one, no bits are left.
func (d *jpeg) resume() {
	d.restart()
	at := d.bits.at
	for at+1 < len(d.data) && (d.data[at] != 0xff || d.data[at+1] == 0 || d.data[at+1] == 0xff) {
		at++
	}
	if at+1 < len(d.data) && d.data[at+1] >= markRST0 && d.data[at+1] <= markRST7 {
		d.bits = bitReader{data: d.data, at: at + 2}
		return
	}
	d.bits = bitReader{data: d.data, at: at, zeros: 1, ended: at+1 >= len(d.data)}
}

// block decodes the bits of one block in a scan.
func (d *jpeg) block(s *scan, component *scanComponent, x, y int) error {
	c := component.c
	if !d.progressive {
		var block [64]int32
		if err := d.sequential(component, &block); err != nil {
			return err
		}
		idct(&block, c.plane[8*y*c.stride+8*x:], c.stride)
		return nil
	}
	block := (*[64]int16)(c.coefficients[64*(y*c.rowBlocks+x):])
	switch {
	case s.first > 0 && s.refining:
		return d.refine(s, component.ac, block)
	case s.first > 0:
		return d.spectrum(s, component.ac, block)
	case s.refining:
		block[0] |= int16(d.bits.take(1) << s.low)
		return nil
	}
	size, err := d.bits.symbol(component.mean)
	c.predicted += d.bits.signed(int(size))
	block[0] = int16(c.predicted << s.low)
	return err
}

// sequential decodes all coefficients of a block, dequantized.
func (d *jpeg) sequential(component *scanComponent, block *[64]int32) error {
	c := component.c
	size, err := d.bits.symbol(component.mean)
	if err != nil {
		return err
	}
	c.predicted += d.bits.signed(int(size))
	block[0] = c.predicted * c.table[0]
	for k := 1; k < 64; k++ {
		rs, err := d.bits.symbol(component.ac)
		if err != nil {
			return err
		}
		zeros, size := int(rs>>4), int(rs&15)
		if size == 0 {
			if zeros < 15 {
				break
			}
			k += 15
			continue
		}
		k += zeros
		v := d.bits.signed(size)
		if k < 64 {
			index := zigzag[k]
			block[index] = v * c.table[index]
		}
	}
	return nil
}

// spectrum decodes a block in the first scan of some AC coefficients.
func (d *jpeg) spectrum(s *scan, codes *huffman, block *[64]int16) error {
	if d.run > 0 {
		d.run--
		return nil
	}
	for k := s.first; k <= s.last; k++ {
		rs, err := d.bits.symbol(codes)
		if err != nil {
			return err
		}
		zeros, size := int(rs>>4), int(rs&15)
		if size == 0 {
			if zeros < 15 {
				d.run = 1<<zeros + int(d.bits.take(zeros)) - 1
				return nil
			}
			k += 15
			continue
		}
		k += zeros
		v := d.bits.signed(size)
		if k <= s.last {
			block[zigzag[k]] = int16(v << s.low)
		}
	}
	return nil
}

// refine decodes the next bit of a block's AC coefficients in a scan: of those that are not zero, and of those that
// become ±1.
func (d *jpeg) refine(s *scan, codes *huffman, block *[64]int16) error {
	one := int16(1) << s.low
	k := s.first
	// correct refines coefficients up to the zero that follows the given number of zeros.
	correct := func(zeros int) {
		for ; k <= s.last; k++ {
			v := &block[zigzag[k]]
			if *v == 0 {
				if zeros == 0 {
					return
				}
				zeros--
				continue
			}
			if d.bits.take(1) == 0 || *v&one != 0 {
				continue
			}
			if *v > 0 {
				*v += one
			} else {
				*v -= one
			}
		}
	}
	for d.run == 0 && k <= s.last {
		rs, err := d.bits.symbol(codes)
		if err != nil {
			return err
		}
		zeros, size := int(rs>>4), int(rs&15)
		var v int16
		if size > 0 {
			v = one
			if d.bits.take(1) == 0 {
				v = -one
			}
		} else if zeros < 15 {
			d.run = 1<<zeros + int(d.bits.take(zeros))
			break
		}
		correct(zeros)
		if v != 0 && k <= s.last {
			block[zigzag[k]] = v
		}
		k++
	}
	if d.run > 0 {
		correct(64)
		d.run--
	}
	return nil
}

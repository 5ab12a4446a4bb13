package jpeg2000

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/hostop/picture/decoding"
)

// The markers of a codestream (ISO/IEC 15444-1, table A.2).
const (
	markSOC, markSOT, markSOD, markEOC          = 0xff4f, 0xff90, 0xff93, 0xffd9
	markSIZ, markCOD, markCOC, markQCD, markQCC = 0xff51, 0xff52, 0xff53, 0xff5c, 0xff5d
	markRGN, markPOC, markPPM, markPPT          = 0xff5e, 0xff5f, 0xff60, 0xff61
)

// mostResolutions is the largest number of resolutions of a component.
const mostResolutions = 33

// plane has the samples of one component. An offset makes signed samples 0 or more.
type plane struct {
	bits          int
	signed        bool
	dx, dy        int64 // distance of samples on the reference grid
	x0, y0        int64 // of the first sample
	width, height int64
	samples       []uint16
}

// coding is the coding style of a component of a tile.
type coding struct {
	levels                int // of the wavelet transform
	widthBits, heightBits int // of a code-block
	style                 byte
	reversible            bool
	precincts             [mostResolutions][2]uint // log₂ of width and height
	own                   bool                     // set for this component, not for all
}

// quantization is the scaling of a component's coefficients.
type quantization struct {
	kind, guard int
	steps       [3*mostResolutions - 2]struct{ exponent, mantissa int }
	own         bool
}

// componentCoding is the coding and the quantization of a component.
type componentCoding struct {
	coding
	quantization
	region int // by how many bits a region of interest is shifted
}

// progression is an order of packets, up to some layer, of some resolutions and components.
type progression struct {
	order, layers           int
	resolution, resolutions int // from, to
	component, components   int // from, to
}

// general is the coding of a tile: the parameters that all components share, and those of each component.
type general struct {
	order, layers   int
	mixed           bool // the first three components are transformed together
	changes         []progression
	components      []componentCoding
	startMarks, end bool
}

// tile is one rectangle of a picture under decoding.
type tile struct {
	general
	x0, y0, x1, y1 int64
	body           []byte
}

// codestream is a picture under decoding.
type codestream struct {
	file           *decoding.File
	x0, y0, x1, y1 int64 // of the picture on the reference grid
	tx, ty, tw, th int64 // of the tiles
	across, down   int64 // how many tiles
	planes         []plane
	general        general
	coded          bool // COD and QCD have been read
	quantized      bool
	tiles          map[int64]*tile
	order          []int64 // of the tiles
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// decodeCodestream reads a codestream to its end.
func decodeCodestream(data []byte, f *decoding.File) (*codestream, error) {
	s := &codestream{tiles: map[int64]*tile{}, file: f}
	if len(data) < 2 || binary.BigEndian.Uint16(data) != markSOC {
		return nil, decoding.Corrupt("no codestream begins here")
	}
	rest := data[2:]
	for {
		if len(rest) < 2 {
			if len(s.tiles) > 0 {
				break // the end marker is missing
			}
			return nil, decoding.Corrupt("the file ends before its picture does")
		}
		mark := int(binary.BigEndian.Uint16(rest))
		if mark == markEOC {
			break
		}
		var err error
		if mark == markSOT {
			rest, err = s.tilePart(rest)
		} else {
			var body []byte
			if body, rest, err = parameters(rest); err == nil {
				err = s.mainHeader(mark, body)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if int64(len(s.order)) < s.across*s.down || len(s.order) == 0 {
		return nil, decoding.Corrupt("%d tiles of %d", len(s.order), s.across*s.down)
	}
	if err := s.take(); err != nil {
		return nil, err
	}
	for i := range s.planes {
		p := &s.planes[i]
		p.samples = make([]uint16, p.width*p.height)
	}
	for _, number := range s.order {
		t := s.tiles[number]
		if err := s.decodeTile(t); err != nil {
			return nil, err
		}
		t.body = nil
	}
	return s, nil
}

// take reserves the bytes of Go's heap for each sample's coefficient and its share of a block and of the trees of
// blocks; for the blocks in packet headers, of at least four bits each; and for the description of each tile.
func (s *codestream) take() error {
	total := int64(0)
	for i := range s.planes {
		total += s.planes[i].width * s.planes[i].height
	}
	bytes := len(s.file.Data)
	if err := decoding.Dense(s.x1-s.x0, s.y1-s.y0, bytes, decoding.PixelsOfByte); err != nil {
		return err
	}
	return s.file.Take(20*total + 160*int64(bytes) +
		int64(len(s.order)*len(s.planes))*int64(unsafe.Sizeof(componentCoding{})+512))
}

// parameters splits a marker's segment from data.
func parameters(data []byte) (body, rest []byte, err error) {
	if len(data) < 4 {
		return nil, nil, decoding.Corrupt("the file ends inside a segment")
	}
	length := int(binary.BigEndian.Uint16(data[2:])) + 2
	if length < 4 || length > len(data) {
		return nil, nil, decoding.Corrupt("a segment of %d bytes of %d", length, len(data))
	}
	return data[4:length], data[length:], nil
}

// mainHeader reads a segment of the main header.
func (s *codestream) mainHeader(mark int, body []byte) error {
	if mark == markSIZ {
		return s.size(body)
	}
	if s.planes == nil {
		return decoding.Corrupt("marker %x before the picture's size", mark)
	}
	return s.segment(&s.general, mark, body)
}

// size reads the extents of the picture, its tiles and components.
func (s *codestream) size(body []byte) error {
	if s.planes != nil {
		return decoding.Corrupt("the picture's size is given twice")
	}
	r := &bytesReader{data: body}
	r.u16()
	s.x1, s.y1, s.x0, s.y0 = r.u32(), r.u32(), r.u32(), r.u32()
	s.tw, s.th, s.tx, s.ty = r.u32(), r.u32(), r.u32(), r.u32()
	count := r.u16()
	if r.over || len(r.data) < 3*count || count < 1 {
		return decoding.Corrupt("a size of %d bytes", len(body))
	}
	if s.x0 >= s.x1 || s.y0 >= s.y1 || s.tw < 1 || s.th < 1 || s.tx > s.x0 || s.ty > s.y0 || s.tx+s.tw <= s.x0 ||
		s.ty+s.th <= s.y0 {
		return decoding.Corrupt("a picture from %d, %d to %d, %d in tiles of %d × %d", s.x0, s.y0, s.x1, s.y1, s.tw, s.th)
	}
	if err := decoding.Sized(s.x1-s.x0, s.y1-s.y0); err != nil {
		return err
	}
	s.across, s.down = ceilDiv(s.x1-s.tx, s.tw), ceilDiv(s.y1-s.ty, s.th)
	if count > 4 {
		return diag.Unsupportedf("JPEG 2000 with %d components", count)
	}
	total := int64(0)
	for range count {
		depth := r.u8()
		p := plane{bits: depth&127 + 1, signed: depth > 127, dx: int64(r.u8()), dy: int64(r.u8())}
		if p.dx < 1 || p.dy < 1 {
			return decoding.Corrupt("samples at distances of %d × %d", p.dx, p.dy)
		}
		if p.bits > 16 {
			return diag.Unsupportedf("JPEG 2000 with samples of %d bits", p.bits)
		}
		p.x0, p.y0 = ceilDiv(s.x0, p.dx), ceilDiv(s.y0, p.dy)
		p.width, p.height = ceilDiv(s.x1, p.dx)-p.x0, ceilDiv(s.y1, p.dy)-p.y0
		if p.width < 1 || p.height < 1 {
			return decoding.Corrupt("a component without samples")
		}
		if total += p.width * p.height; total > decoding.MostPixels {
			return diag.Unsupportedf("JPEG 2000 with more than %d samples", decoding.MostPixels)
		}
		s.planes = append(s.planes, p)
	}
	s.general.components = make([]componentCoding, count)
	return nil
}

// segment reads a segment of the main header, or of a tile's.
func (s *codestream) segment(g *general, mark int, body []byte) error {
	r := &bytesReader{data: body}
	all := g.components
	switch mark {
	case markCOD:
		style := r.u8()
		g.startMarks, g.end = style&2 != 0, style&4 != 0
		g.order, g.layers, g.mixed = r.u8(), r.u16(), r.u8() == 1
		c := readCoding(r, style&1 != 0)
		for i := range all {
			if !all[i].coding.own {
				all[i].coding = c
			}
		}
		s.coded = true
		if g.order > 4 || g.layers < 1 {
			return decoding.Corrupt("order %d of %d layers", g.order, g.layers)
		}
		return checkCoding(r, c)
	case markQCD:
		q := readQuantization(r)
		for i := range all {
			if !all[i].quantization.own {
				all[i].quantization = q
			}
		}
		s.quantized = true
	case markCOC, markQCC, markRGN:
		c := s.component(r)
		if c >= len(all) {
			return decoding.Corrupt("a segment of component %d", c)
		}
		switch mark {
		case markCOC:
			all[c].coding = readCoding(r, r.u8()&1 != 0)
			all[c].coding.own = true
			return checkCoding(r, all[c].coding)
		case markQCC:
			all[c].quantization = readQuantization(r)
			all[c].quantization.own = true
		default:
			r.u8()
			if all[c].region = r.u8(); all[c].region > 30 {
				return decoding.Corrupt("a region shifted by %d bits", all[c].region)
			}
		}
	case markPOC:
		for len(r.data) > 0 && !r.over {
			p := progression{resolution: r.u8(), component: s.component(r), layers: r.u16(), resolutions: r.u8(),
				components: s.component(r), order: r.u8()}
			if p.components == 0 {
				p.components = len(all)
			}
			if p.order > 4 || len(g.changes) > 64 {
				return decoding.Corrupt("a change to order %d", p.order)
			}
			g.changes = append(g.changes, p)
		}
	case markPPM, markPPT:
		return diag.Unsupportedf("JPEG 2000 with packed headers of packets")
	}
	if r.over {
		return decoding.Corrupt("marker %x: a segment of %d bytes", mark, len(body))
	}
	return nil
}

// component reads the index of a component.
func (s *codestream) component(r *bytesReader) int {
	if len(s.planes) < 257 {
		return r.u8()
	}
	return r.u16()
}

// readCoding reads the coding style of a component.
func readCoding(r *bytesReader, precincts bool) coding {
	c := coding{levels: r.u8(), widthBits: r.u8()&15 + 2, heightBits: r.u8()&15 + 2, style: byte(r.u8()),
		reversible: r.u8() == 1}
	for i := range c.precincts {
		c.precincts[i] = [2]uint{15, 15}
		if precincts && i <= c.levels {
			b := r.u8()
			c.precincts[i] = [2]uint{uint(b & 15), uint(b >> 4)}
		}
	}
	return c
}

// checkCoding returns an error for a coding style that the standard forbids.
func checkCoding(r *bytesReader, c coding) error {
	if r.over || c.levels >= mostResolutions || c.widthBits > 10 || c.heightBits > 10 || c.widthBits+c.heightBits > 12 {
		return decoding.Corrupt("%d levels of code-blocks of 2^%d × 2^%d", c.levels, c.widthBits, c.heightBits)
	}
	for _, p := range c.precincts[1 : c.levels+1] {
		if p[0] == 0 || p[1] == 0 {
			return decoding.Corrupt("precincts of less than a coefficient")
		}
	}
	return nil
}

// readQuantization reads the step sizes of a component.
func readQuantization(r *bytesReader) quantization {
	style := r.u8()
	q := quantization{kind: style & 31, guard: style >> 5}
	for i := range q.steps {
		step := &q.steps[i]
		switch {
		case q.kind == 0 && len(r.data) > 0:
			step.exponent = r.u8() >> 3
		case q.kind == 1 && i > 0:
			// Only one step is given; those of the other bands follow from their levels.
			step.exponent, step.mantissa = max(q.steps[0].exponent-(i-1)/3, 0), q.steps[0].mantissa
		case q.kind > 0 && len(r.data) > 0:
			v := r.u16()
			step.exponent, step.mantissa = v>>11, v&2047
		}
	}
	return q
}

// tilePart reads a tile-part: its header, and its packets, which are decoded after the last tile-part.
func (s *codestream) tilePart(data []byte) (rest []byte, err error) {
	body, after, err := parameters(data)
	if err != nil {
		return nil, err
	}
	if !s.coded || !s.quantized {
		return nil, decoding.Corrupt("a tile before its coding is known")
	}
	r := &bytesReader{data: body}
	number, length := int64(r.u16()), r.u32()
	if number >= s.across*s.down || r.over {
		return nil, decoding.Corrupt("tile %d of %d", number, s.across*s.down)
	}
	if length == 0 {
		length = int64(len(data))
	}
	if length > int64(len(data)) || length < int64(len(data)-len(after)) {
		return nil, decoding.Corrupt("a tile-part of %d bytes of %d", length, len(data))
	}
	rest, part := data[length:], data[len(data)-len(after):length]
	t := s.tiles[number]
	if t == nil {
		t = &tile{general: s.general}
		t.components = append([]componentCoding{}, s.general.components...)
		for i := range t.components {
			t.components[i].coding.own, t.components[i].quantization.own = false, false
		}
		x, y := number%s.across, number/s.across
		t.x0, t.y0 = max(s.tx+x*s.tw, s.x0), max(s.ty+y*s.th, s.y0)
		t.x1, t.y1 = min(s.tx+(x+1)*s.tw, s.x1), min(s.ty+(y+1)*s.th, s.y1)
		s.tiles[number], s.order = t, append(s.order, number)
	}
	changed := false
	for {
		if len(part) < 2 {
			return nil, decoding.Corrupt("a tile-part without packets")
		}
		mark := int(binary.BigEndian.Uint16(part))
		if mark == markSOD {
			t.body = append(t.body, part[2:]...)
			return rest, nil
		}
		var body []byte
		if body, part, err = parameters(part); err != nil {
			return nil, err
		}
		if mark == markPOC && !changed {
			// Progressions in the tile's header replace those of the main header.
			if len(t.body) == 0 {
				t.changes = nil
			}
			changed = true
		}
		if err := s.segment(&t.general, mark, body); err != nil {
			return nil, err
		}
	}
}

// store writes a tile's samples into the planes: it reverses the component transform, shifts the samples and clips
// them to their range.
func (s *codestream) store(t *tile, components []*tileComponent) {
	if t.mixed && len(components) >= 3 && components[0].same(components[1]) && components[0].same(components[2]) {
		if a, b, c := components[0].integers, components[1].integers, components[2].integers; components[0].reversible {
			for i := range a {
				g := a[i] - (b[i]+c[i])>>2
				a[i], b[i], c[i] = c[i]+g, g, b[i]+g
			}
		} else {
			a, b, c := components[0].real, components[1].real, components[2].real
			for i := range a {
				y, u, v := a[i], b[i], c[i]
				a[i] = y + float32(v*1.402)
				b[i] = float32(y-float32(u*0.34413)) - float32(v*0.71414)
				c[i] = y + float32(u*1.772)
			}
		}
	}
	for i, component := range components {
		p := &s.planes[i]
		most, middle := int64(1)<<p.bits-1, int64(1)<<(p.bits-1)
		width := component.x1 - component.x0
		for y := range component.y1 - component.y0 {
			s.file.Did(4 * width)
			to := p.samples[(component.y0-p.y0+y)*p.width+component.x0-p.x0:]
			for x := range width {
				v := int64(0)
				if component.reversible {
					v = int64(component.integers[y*width+x])
				} else {
					v = int64(math.RoundToEven(min(max(float64(component.real[y*width+x]), math.MinInt32), math.MaxInt32)))
				}
				to[x] = uint16(min(max(v+middle, 0), most))
			}
		}
	}
}

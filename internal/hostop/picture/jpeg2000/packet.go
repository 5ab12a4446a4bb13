package jpeg2000

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/weirml/weir/internal/hostop/picture/decoding"
)

// tagTree decodes numbers of a raster of blocks; each node has the minimum of its children (annex B.10.2).
type tagTree struct {
	levels []tagLevel // the leaves first
}

// tagLevel is one level of a tagTree.
type tagLevel struct {
	width int
	nodes []tagNode
}

// tagNode is the state of a node of a tagTree.
type tagNode struct {
	low   int32 // a lower bound of the number
	known bool  // the number is low
}

// newTagTree returns a tree whose leaves are width × height blocks.
func newTagTree(width, height int) *tagTree {
	t := &tagTree{}
	for {
		t.levels = append(t.levels, tagLevel{width, make([]tagNode, width*height)})
		if width*height <= 1 {
			return t
		}
		width, height = (width+1)/2, (height+1)/2
	}
}

// reaches reads the bits that decide whether a leaf's number is at least limit, and reports whether it is.
func (t *tagTree) reaches(r *packetBits, x, y int, limit int32) bool {
	low := int32(0)
	for i := len(t.levels) - 1; i >= 0; i-- {
		level := &t.levels[i]
		n := &level.nodes[y>>i*level.width+x>>i]
		n.low = max(n.low, low)
		for n.low < limit && !n.known {
			if r.bit() == 1 {
				n.known = true
			} else {
				n.low++
			}
		}
		low = n.low
	}
	leaf := &t.levels[0].nodes[y*t.levels[0].width+x]
	return leaf.low >= limit
}

// packetBits reads the bits of a packet's header: a byte after 0xff has seven.
type packetBits struct {
	data  []byte
	at    int
	last  byte
	count int
	over  bool
}

// bit returns the next bit.
func (r *packetBits) bit() uint32 {
	if r.count == 0 {
		r.count = 8
		if r.last == 0xff {
			r.count = 7
		}
		if r.at >= len(r.data) {
			r.over = true
			return 1
		}
		r.last = r.data[r.at]
		r.at++
	}
	r.count--
	return uint32(r.last>>r.count) & 1
}

// bits returns the next n bits as a number.
func (r *packetBits) bits(n int) int {
	v := uint32(0)
	for range n {
		v = v<<1 | r.bit()
	}
	return int(v)
}

// align skips to the next byte.
func (r *packetBits) align() {
	r.count = 0
	if r.last == 0xff {
		r.at++
	}
}

// segment has the codes of consecutive passes of a block that are decoded together.
type segment struct {
	data   []byte
	passes int
	most   int // the largest number of passes
}

// block is a code-block.
type block struct {
	x0, y0, x1, y1 int32 // in its band
	included       bool
	planes         int
	lengthBits     int
	segments       []segment
}

// precinctBand has the blocks of a precinct in one band.
type precinctBand struct {
	width, height int // in blocks
	blocks        []block
	included      *tagTree
	empty         *tagTree // of the number of bit-planes that are all zero
}

// precinct is a region of a resolution with packets of its own.
type precinct struct {
	component, resolution int
	px, py                int64 // its column and row
	x, y                  int64 // the position by which precincts are ordered
	layers                int   // the number of layers read
	bands                 []precinctBand
}

// band is one of a resolution's bands of coefficients.
type band struct {
	kind           int // 0: LL, 1: HL, 2: LH, 3: HH
	x0, y0, x1, y1 int64
	planes         int
	step           float32
}

// resolution is one resolution of a tile's component.
type resolution struct {
	x0, y0, x1, y1 int64
	bands          []band
	px, py         uint  // log₂ of a precinct
	bx, by         uint  // log₂ of a code-block
	p0, q0         int64 // the first precinct
	across, down   int64
}

// tileComponent is a component of a tile.
type tileComponent struct {
	x0, y0, x1, y1 int64
	*componentCoding
	resolutions []resolution
	integers    []int32
	real        []float32
}

// same reports whether two components have the same sample positions and transform.
func (c *tileComponent) same(o *tileComponent) bool {
	return c.x0 == o.x0 && c.y0 == o.y0 && c.x1 == o.x1 && c.y1 == o.y1 && c.reversible == o.reversible
}

func shiftCeil(v int64, by int) int64 { return (v + 1<<by - 1) >> by }

// tileComponent lays out component i of a tile.
func (s *codestream) tileComponent(t *tile, i int) *tileComponent {
	p := &s.planes[i]
	c := &tileComponent{x0: ceilDiv(t.x0, p.dx), y0: ceilDiv(t.y0, p.dy), x1: ceilDiv(t.x1, p.dx), y1: ceilDiv(t.y1, p.dy),
		componentCoding: &t.components[i]}
	for r := range c.levels + 1 {
		down := c.levels - r
		res := resolution{x0: shiftCeil(c.x0, down), y0: shiftCeil(c.y0, down), x1: shiftCeil(c.x1, down),
			y1: shiftCeil(c.y1, down)}
		res.px, res.py = c.precincts[r][0], c.precincts[r][1]
		kinds, level, less := []int{0}, down, uint(0)
		if r > 0 {
			kinds, level, less = []int{1, 2, 3}, down+1, 1
		}
		res.bx, res.by = min(uint(c.widthBits), res.px-less), min(uint(c.heightBits), res.py-less)
		if res.x1 > res.x0 && res.y1 > res.y0 {
			res.p0, res.q0 = res.x0>>res.px, res.y0>>res.py
			res.across, res.down = shiftCeil(res.x1, int(res.px))-res.p0, shiftCeil(res.y1, int(res.py))-res.q0
		}
		for _, kind := range kinds {
			number := 0
			right, below := int64(kind&1), int64(kind>>1)
			if r > 0 {
				number = 3*(r-1) + kind
				right, below = right<<(level-1), below<<(level-1)
			}
			step := c.steps[number]
			b := band{kind: kind, x0: shiftCeil(c.x0-right, level), y0: shiftCeil(c.y0-below, level),
				x1: shiftCeil(c.x1-right, level), y1: shiftCeil(c.y1-below, level)}
			b.planes = step.exponent + c.guard - 1
			b.step = float32((1+float64(step.mantissa)/2048)*exp2(p.bits-step.exponent)) / 2
			res.bands = append(res.bands, b)
		}
		c.resolutions = append(c.resolutions, res)
	}
	return c
}

// exp2 returns 2ⁿ.
func exp2(n int) float64 {
	if n < 0 {
		return 1 / float64(int64(1)<<-n)
	}
	return float64(int64(1) << n)
}

// precinctBytes is the most bytes of Go's heap that a precinct takes, apart from its blocks.
const precinctBytes = 1 << 10

// decodeTile decodes a tile's packets, blocks and wavelets.
func (s *codestream) decodeTile(t *tile) error {
	components, all := make([]*tileComponent, len(s.planes)), []*precinct(nil)
	for i := range components {
		components[i] = s.tileComponent(t, i)
		for r := range components[i].resolutions {
			// Each precinct has at least one packet, and each packet at least a byte.
			res := &components[i].resolutions[r]
			if res.down > 0 && res.across > (int64(len(t.body))-int64(len(all)))/res.down {
				return decoding.Corrupt("a tile of %d bytes has more precincts than that", len(t.body))
			}
			if err := s.file.Take(res.across * res.down * precinctBytes); err != nil {
				return err
			}
			for k := range res.across * res.down {
				p := &precinct{component: i, resolution: r, px: res.p0 + k%res.across, py: res.q0 + k/res.across}
				down := components[i].levels - r
				p.x, p.y = max(p.px<<res.px, res.x0)<<down*s.planes[i].dx, max(p.py<<res.py, res.y0)<<down*s.planes[i].dy
				if p.px<<res.px < res.x0 {
					p.x = t.x0
				}
				if p.py<<res.py < res.y0 {
					p.y = t.y0
				}
				all = append(all, p)
			}
		}
	}
	reader := &packetReader{file: s.file, tile: t, components: components, data: t.body}
	changes := t.changes
	if len(changes) == 0 {
		changes = []progression{{order: t.order, layers: t.layers, resolutions: mostResolutions, components: len(components)}}
	}
	for _, change := range changes {
		if err := reader.packets(change, all); err != nil {
			return err
		}
	}
	for i, component := range components {
		if err := component.coefficients(s.file, i, all); err != nil {
			return err
		}
		width := int(component.x1 - component.x0)
		if component.reversible {
			synthesize(s.file, component.integers, width, component.resolutions, reversible53)
		} else {
			synthesize(s.file, component.real, width, component.resolutions, irreversible97)
		}
	}
	s.store(t, components)
	return nil
}

// packetOrders are the orders of packets in each progression: LRCP, RLCP, RPCL, PCRL, CPRL. Precincts are sorted by
// before; precincts that are equal by it remain in the order of their numbers.
var packetOrders = [5]struct {
	// the precincts whose packets of one layer precede those of the next layer: 0: all; 1: of a resolution; 2: a single
	// one
	layers int
	before func(a, b *precinct) int
}{
	{0, func(a, b *precinct) int {
		return cmp.Or(cmp.Compare(a.resolution, b.resolution), cmp.Compare(a.component, b.component))
	}},
	{1, func(a, b *precinct) int {
		return cmp.Or(cmp.Compare(a.resolution, b.resolution), cmp.Compare(a.component, b.component))
	}},
	{2, func(a, b *precinct) int {
		return cmp.Or(cmp.Compare(a.resolution, b.resolution), cmp.Compare(a.y, b.y), cmp.Compare(a.x, b.x),
			cmp.Compare(a.component, b.component))
	}},
	{2, func(a, b *precinct) int {
		return cmp.Or(cmp.Compare(a.y, b.y), cmp.Compare(a.x, b.x), cmp.Compare(a.component, b.component),
			cmp.Compare(a.resolution, b.resolution))
	}},
	{2, func(a, b *precinct) int {
		return cmp.Or(cmp.Compare(a.component, b.component), cmp.Compare(a.y, b.y), cmp.Compare(a.x, b.x),
			cmp.Compare(a.resolution, b.resolution))
	}},
}

// packetReader reads the packets of a tile.
type packetReader struct {
	file       *decoding.File
	tile       *tile
	components []*tileComponent
	data       []byte
}

// packets reads packets in the order of p, until the order or the bytes end.
func (r *packetReader) packets(p progression, all []*precinct) error {
	var list []*precinct
	for _, one := range all {
		if one.resolution >= p.resolution && one.resolution < p.resolutions && one.component >= p.component &&
			one.component < p.components {
			list = append(list, one)
		}
	}
	order := packetOrders[p.order]
	slices.SortStableFunc(list, order.before)
	layers := min(p.layers, r.tile.layers)
	// The packets of a layer of all precincts in a group precede those of the next layer.
	for len(list) > 0 {
		group := len(list)
		switch order.layers {
		case 1:
			group = 1
			for group < len(list) && list[group].resolution == list[0].resolution {
				group++
			}
		case 2:
			group = 1
		}
		for layer := range layers {
			for _, one := range list[:group] {
				if len(r.data) == 0 {
					return nil
				}
				if layer < one.layers {
					continue // read in an earlier order
				}
				if err := r.packet(one, layer); err != nil {
					return err
				}
				one.layers = layer + 1
				r.file.Did(16)
			}
		}
		list = list[group:]
	}
	return nil
}

// lay allocates the blocks of a precinct.
func (r *packetReader) lay(p *precinct) {
	res := &r.components[p.component].resolutions[p.resolution]
	less := uint(0)
	if p.resolution > 0 {
		less = 1
	}
	p.bands = make([]precinctBand, len(res.bands))
	for i, b := range res.bands {
		x0, x1 := max(p.px<<(res.px-less), b.x0), min((p.px+1)<<(res.px-less), b.x1)
		y0, y1 := max(p.py<<(res.py-less), b.y0), min((p.py+1)<<(res.py-less), b.y1)
		if x0 >= x1 || y0 >= y1 {
			continue
		}
		left, top := x0>>res.bx, y0>>res.by
		to := &p.bands[i]
		to.width, to.height = int(shiftCeil(x1, int(res.bx))-left), int(shiftCeil(y1, int(res.by))-top)
		to.included, to.empty = newTagTree(to.width, to.height), newTagTree(to.width, to.height)
		to.blocks = make([]block, to.width*to.height)
		for k := range to.blocks {
			cx, cy := left+int64(k%to.width), top+int64(k/to.width)
			to.blocks[k] = block{lengthBits: 3, x0: int32(max(cx<<res.bx, x0) - b.x0), x1: int32(min((cx+1)<<res.bx, x1) - b.x0),
				y0: int32(max(cy<<res.by, y0) - b.y0), y1: int32(min((cy+1)<<res.by, y1) - b.y0)}
		}
	}
}

// packet reads one packet: the codes that a layer adds to the blocks of a precinct.
func (r *packetReader) packet(p *precinct, layer int) error {
	if r.tile.startMarks && len(r.data) >= 6 && r.data[0] == 0xff && r.data[1] == 0x91 {
		r.data = r.data[6:]
	}
	h := &packetBits{data: r.data}
	type addition struct {
		b       *block
		segment int
		length  int
	}
	var additions []addition
	if h.bit() == 1 {
		if p.bands == nil {
			r.lay(p)
		}
		component := r.components[p.component]
		for i := range p.bands {
			set := &p.bands[i]
			for k := range set.blocks {
				b := &set.blocks[k]
				x, y := k%set.width, k/set.width
				if !b.included {
					if set.included.reaches(h, x, y, int32(layer+1)) {
						continue
					}
					b.included = true
					empty := int32(1)
					for set.empty.reaches(h, x, y, empty) {
						if empty++; h.over || empty > 80 {
							return decoding.Corrupt("a packet's header is wrong")
						}
					}
					b.planes = component.resolutions[p.resolution].bands[i].planes + component.region - int(empty-1)
				} else if h.bit() == 0 {
					continue
				}
				passes := h.passes()
				for h.bit() == 1 {
					if b.lengthBits++; b.lengthBits > 32 {
						return decoding.Corrupt("a packet's header is wrong")
					}
				}
				for passes > 0 {
					current := b.room(component.style)
					now := min(passes, b.segments[current].most-b.segments[current].passes)
					length := h.bits(b.lengthBits + bits.Len(uint(now)) - 1)
					if h.over || length < 0 || length > len(r.data) {
						return decoding.Corrupt("a packet of %d bytes", length)
					}
					b.segments[current].passes += now
					additions = append(additions, addition{b, current, length})
					passes -= now
				}
			}
		}
	}
	h.align()
	if h.over || h.at > len(r.data) {
		return decoding.Corrupt("a packet's header is cut short")
	}
	r.data = r.data[h.at:]
	if r.tile.end && len(r.data) >= 2 && r.data[0] == 0xff && r.data[1] == 0x92 {
		r.data = r.data[2:]
	}
	for _, a := range additions {
		if a.length > len(r.data) {
			return decoding.Corrupt("a packet is cut short")
		}
		s := &a.b.segments[a.segment]
		if s.data == nil {
			s.data = r.data[:a.length:a.length]
		} else {
			s.data = append(s.data, r.data[:a.length]...)
		}
		r.data = r.data[a.length:]
	}
	return nil
}

// passes reads a number of passes (table B.4).
func (r *packetBits) passes() int {
	switch {
	case r.bit() == 0:
		return 1
	case r.bit() == 0:
		return 2
	}
	if n := r.bits(2); n < 3 {
		return 3 + n
	}
	if n := r.bits(5); n < 31 {
		return 6 + n
	}
	return 37 + r.bits(7)
}

// room returns the index of the segment that has the next pass; it appends one if the last segment is full.
func (b *block) room(style byte) int {
	last := len(b.segments) - 1
	if last >= 0 && b.segments[last].passes < b.segments[last].most {
		return last
	}
	most := 1 << 30
	switch {
	case style&styleTerminate != 0:
		most = 1
	case style&styleBypass != 0 && last < 0:
		most = 10
	case style&styleBypass != 0:
		// Two raw passes and an arithmetic one alternate.
		most = 2
		if b.segments[last].most == 2 {
			most = 1
		}
	}
	b.segments = append(b.segments, segment{most: most})
	return last + 1
}

// coefficients decodes a component's blocks into its plane. The bands are nested: each resolution is in the upper left
// corner of the next.
func (c *tileComponent) coefficients(f *decoding.File, number int, all []*precinct) error {
	width, height := c.x1-c.x0, c.y1-c.y0
	if c.reversible {
		c.integers = make([]int32, width*height)
	} else {
		c.real = make([]float32, width*height)
	}
	d := &blockDecoder{}
	for _, p := range all {
		if p.component != number {
			continue
		}
		res := &c.resolutions[p.resolution]
		for i := range p.bands {
			b := &res.bands[i]
			x, y := int64(0), int64(0)
			if lower := p.resolution - 1; lower >= 0 {
				x = int64(b.kind&1) * (c.resolutions[lower].x1 - c.resolutions[lower].x0)
				y = int64(b.kind>>1) * (c.resolutions[lower].y1 - c.resolutions[lower].y0)
			}
			for k := range p.bands[i].blocks {
				one := &p.bands[i].blocks[k]
				if len(one.segments) == 0 {
					continue
				}
				if one.planes > 30 {
					return decoding.Corrupt("a block of %d bit-planes", one.planes)
				}
				w, h := int(one.x1-one.x0), int(one.y1-one.y0)
				f.Did(int64(w) * int64(h) * int64(one.planes))
				d.decode(w, h, b.kind, c.style, one.planes, one.segments)
				c.storeBlock(d, (y+int64(one.y0))*width+x+int64(one.x0), width, b.step)
				one.segments = nil
			}
		}
	}
	return nil
}

// storeBlock dequantizes a decoded block and writes it into the plane.
func (c *tileComponent) storeBlock(d *blockDecoder, at, stride int64, step float32) {
	if c.region > 0 {
		for i, v := range d.values {
			magnitude := max(v, -v)
			if magnitude >= 1<<c.region {
				magnitude >>= c.region
			}
			if v < 0 {
				magnitude = -magnitude
			}
			d.values[i] = magnitude
		}
	}
	for y := range d.height {
		row := d.values[y*d.width : (y+1)*d.width]
		to := at + int64(y)*stride
		if c.reversible {
			for x, v := range row {
				c.integers[to+int64(x)] = v / 2
			}
			continue
		}
		for x, v := range row {
			c.real[to+int64(x)] = float32(v) * step
		}
	}
}

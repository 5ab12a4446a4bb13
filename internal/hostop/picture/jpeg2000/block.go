package jpeg2000

// mqState is one state of the arithmetic decoder's estimate (ISO/IEC 15444-1, table C.2).
type mqState struct {
	probability    uint32
	likely, rarely byte // the next states
	swap           bool // whether the likely bit is exchanged after the other one
}

//weir:table
var mqStates = [47]mqState{
	{0x5601, 1, 1, true}, {0x3401, 2, 6, false}, {0x1801, 3, 9, false}, {0x0ac1, 4, 12, false}, {0x0521, 5, 29, false},
	{0x0221, 38, 33, false},
	{0x5601, 7, 6, true}, {0x5401, 8, 14, false}, {0x4801, 9, 14, false}, {0x3801, 10, 14, false}, {0x3001, 11, 17, false},
	{0x2401, 12, 18, false},
	{0x1c01, 13, 20, false}, {0x1601, 29, 21, false}, {0x5601, 15, 14, true}, {0x5401, 16, 14, false},
	{0x5101, 17, 15, false}, {0x4801, 18, 16, false},
	{0x3801, 19, 17, false}, {0x3401, 20, 18, false}, {0x3001, 21, 19, false}, {0x2801, 22, 19, false},
	{0x2401, 23, 20, false}, {0x2201, 24, 21, false},
	{0x1c01, 25, 22, false}, {0x1801, 26, 23, false}, {0x1601, 27, 24, false}, {0x1401, 28, 25, false},
	{0x1201, 29, 26, false}, {0x1101, 30, 27, false},
	{0x0ac1, 31, 28, false}, {0x09c1, 32, 29, false}, {0x08a1, 33, 30, false}, {0x0521, 34, 31, false},
	{0x0441, 35, 32, false}, {0x02a1, 36, 33, false},
	{0x0221, 37, 34, false}, {0x0141, 38, 35, false}, {0x0111, 39, 36, false}, {0x0085, 40, 37, false},
	{0x0049, 41, 38, false}, {0x0025, 42, 39, false},
	{0x0015, 43, 40, false}, {0x0009, 44, 41, false}, {0x0005, 45, 42, false}, {0x0001, 45, 43, false},
	{0x5601, 46, 46, false},
}

// The contexts of the arithmetic decoder: 0 to 8 for significance, 9 to 13 for signs, 14 to 16 for refinement, and two
// more.
const (
	contextSign, contextRefine, contextRun, contextUniform = 9, 14, 17, 18
	contexts                                               = 19
)

// mqDecoder is the arithmetic decoder (annex C). It also reads the bits that bypass the decoder. After the end it reads
// ones.
type mqDecoder struct {
	data     []byte
	at       int
	c, a     uint32
	count    int
	states   [contexts]byte
	likely   [contexts]byte
	raw      byte
	rawCount int
}

// reset sets the contexts to their initial states.
func (m *mqDecoder) reset() {
	m.states, m.likely = [contexts]byte{}, [contexts]byte{}
	m.states[0], m.states[contextRun], m.states[contextUniform] = 4, 3, 46
}

// byteAt returns byte i of the segment; 0xff after the end.
func (m *mqDecoder) byteAt(i int) uint32 {
	if i < len(m.data) {
		return uint32(m.data[i])
	}
	return 0xff
}

// begin starts a segment of arithmetic codes.
func (m *mqDecoder) begin(data []byte) {
	m.data, m.at = data, 0
	m.c = m.byteAt(0) << 16
	m.fill()
	m.c <<= 7
	m.count -= 7
	m.a = 0x8000
}

// fill loads the next byte into the code register (BYTEIN).
func (m *mqDecoder) fill() {
	if m.byteAt(m.at) != 0xff {
		m.at++
		m.c += m.byteAt(m.at) << 8
		m.count = 8
	} else if m.byteAt(m.at+1) > 0x8f {
		m.c += 0xff00
		m.count = 8
	} else {
		m.at++
		m.c += m.byteAt(m.at) << 9
		m.count = 7
	}
}

// decode returns the next bit in a context.
func (m *mqDecoder) decode(context int) byte {
	s := &mqStates[m.states[context]]
	bit := m.likely[context]
	m.a -= s.probability
	if m.c>>16 >= s.probability {
		m.c -= s.probability << 16
		if m.a&0x8000 != 0 {
			return bit
		}
		bit = m.adapt(context, s, bit, m.a < s.probability)
	} else {
		bit = m.adapt(context, s, bit, m.a >= s.probability)
		m.a = s.probability
	}
	for m.a&0x8000 == 0 {
		if m.count == 0 {
			m.fill()
		}
		m.a <<= 1
		m.c <<= 1
		m.count--
	}
	return bit
}

// adapt moves a context to its next state and returns the bit.
func (m *mqDecoder) adapt(context int, s *mqState, bit byte, rare bool) byte {
	if !rare {
		m.states[context] = s.likely
		return bit
	}
	if s.swap {
		m.likely[context] = 1 - bit
	}
	m.states[context] = s.rarely
	return 1 - bit
}

// beginRaw starts a segment of raw bits.
func (m *mqDecoder) beginRaw(data []byte) { m.data, m.at, m.raw, m.rawCount = data, 0, 0, 0 }

// bit returns the next raw bit. A byte after 0xff has seven bits.
func (m *mqDecoder) bit() byte {
	if m.rawCount == 0 {
		m.rawCount = 8
		if m.raw == 0xff {
			m.rawCount = 7
		}
		m.raw = byte(m.byteAt(m.at))
		m.at++
	}
	m.rawCount--
	return m.raw >> m.rawCount & 1
}

// The flags of a coefficient.
const (
	significant = 1 << iota
	negative
	visited
	refined
)

// The bits of a code-block's style.
const (
	styleBypass = 1 << iota
	styleReset
	styleTerminate
	styleCausal
	stylePredictable
	styleSymbols
)

// blockDecoder decodes the coefficients of code-blocks, bit-plane by bit-plane (annex D).
type blockDecoder struct {
	mq            mqDecoder
	width, height int
	stride        int     // of flags, which has a border
	flags         []byte  // of the coefficient (x, y) at (y+1)·stride + x+1
	values        []int32 // rows of width values, with one bit of fraction
	band          int     // 0: LL, 1: HL, 2: LH, 3: HH
	style         byte
	plane         uint
	raw           bool // bits of this pass bypass the arithmetic decoder
}

// decode decodes the passes of a block of the given number of bit-planes, whose codes are in segments.
func (d *blockDecoder) decode(width, height, band int, style byte, planes int, segments []segment) {
	d.width, d.height, d.band, d.style = width, height, band, style
	d.stride = width + 2
	d.flags = grown(d.flags, d.stride*(height+2))
	d.values = grown(d.values, width*height)
	d.mq.reset()
	// The first plane has only a cleanup pass, because no coefficient is significant before it.
	kind, plane := 2, planes
	for _, s := range segments {
		d.raw = style&styleBypass != 0 && kind < 2 && plane <= planes-4
		if d.raw {
			d.mq.beginRaw(s.data)
		} else {
			d.mq.begin(s.data)
		}
		for range s.passes {
			if plane < 1 {
				return
			}
			d.plane = uint(plane)
			switch kind {
			case 0:
				d.significance()
			case 1:
				d.refinement()
			default:
				d.cleanup()
			}
			if style&styleReset != 0 && !d.raw {
				d.mq.reset()
			}
			if kind++; kind == 3 {
				kind, plane = 0, plane-1
			}
		}
	}
}

// grown returns n zeros; it reuses the memory of s if it is large enough.
func grown[T byte | int32 | float32](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// neighbours counts the significant coefficients around one: left and right, above and below, and at its corners.
func (d *blockDecoder) neighbours(at int, last bool) (h, v, corners byte) {
	f, up, down := d.flags, at-d.stride, at+d.stride
	h = f[at-1]&1 + f[at+1]&1
	v = f[up] & 1
	corners = f[up-1]&1 + f[up+1]&1
	if !last {
		v += f[down] & 1
		corners += f[down-1]&1 + f[down+1]&1
	}
	return h, v, corners
}

// significanceContext returns the context in which a coefficient becomes significant (table D.1).
func (d *blockDecoder) significanceContext(at int, last bool) int {
	h, v, corners := d.neighbours(at, last)
	if d.band == 3 {
		sides := min(h+v, 2)
		switch {
		case corners >= 3:
			return 8
		case corners == 2:
			return 6 + int(min(sides, 1))
		case corners == 1:
			return 3 + int(sides)
		}
		return int(sides)
	}
	if d.band == 1 {
		h, v = v, h
	}
	switch {
	case h == 2:
		return 8
	case h == 1 && v >= 1:
		return 7
	case h == 1:
		return 5 + int(min(corners, 1))
	case v > 0:
		return 2 + int(v)
	}
	return int(min(corners, 2))
}

// signContexts are the context and the flip of a sign by the signs beside and above (table D.3), each −1, 0 or 1,
// counted from −1.
var signContexts = [3][3][2]byte{{{13, 1}, {12, 1}, {11, 1}}, {{10, 1}, {9, 0}, {10, 0}}, {{11, 0}, {12, 0}, {13, 0}}}

// become decodes the sign of a coefficient that becomes significant, and stores its value.
func (d *blockDecoder) become(at, value int, last bool) {
	side := func(a, b byte) int {
		total := 0
		for _, f := range [2]byte{a, b} {
			if f&significant != 0 {
				total += 1 - int(f&negative)
			}
		}
		return min(max(total, -1), 1) + 1
	}
	var sign byte
	if d.raw {
		sign = d.mq.bit()
	} else {
		below := d.flags[at+d.stride]
		if last {
			below = 0
		}
		c := signContexts[side(d.flags[at-1], d.flags[at+1])][side(d.flags[at-d.stride], below)]
		sign = d.mq.decode(int(c[0])) ^ c[1]
	}
	// The middle of the interval is stored: half of the plane's weight is added.
	v := int32(3) << (d.plane - 1)
	d.flags[at] |= significant
	if sign != 0 {
		d.flags[at] |= negative
		v = -v
	}
	d.values[value] = v
}

// each calls a function for every coefficient: in stripes of four rows, column by column. last is set if the
// coefficient below belongs to the next stripe and may not be read.
func (d *blockDecoder) each(visit func(at, value int, last bool)) {
	causal := d.style&styleCausal != 0
	for top := 0; top < d.height; top += 4 {
		end := min(top+4, d.height)
		for x := range d.width {
			for y := top; y < end; y++ {
				visit((y+1)*d.stride+x+1, y*d.width+x, causal && y == top+3)
			}
		}
	}
}

// significance decodes a significance propagation pass.
func (d *blockDecoder) significance() {
	d.each(func(at, value int, last bool) {
		if d.flags[at]&significant != 0 {
			return
		}
		context := d.significanceContext(at, last)
		if context == 0 {
			return
		}
		d.flags[at] |= visited
		var bit byte
		if d.raw {
			bit = d.mq.bit()
		} else {
			bit = d.mq.decode(context)
		}
		if bit != 0 {
			d.become(at, value, last)
		}
	})
}

// refinement decodes a magnitude refinement pass.
func (d *blockDecoder) refinement() {
	half := int32(1) << d.plane >> 1
	d.each(func(at, value int, last bool) {
		f := d.flags[at]
		if f&(significant|visited) != significant {
			return
		}
		var bit byte
		if d.raw {
			bit = d.mq.bit()
		} else {
			context := contextRefine + 2
			if f&refined == 0 {
				context = contextRefine
				if h, v, corners := d.neighbours(at, last); h+v+corners > 0 {
					context++
				}
			}
			bit = d.mq.decode(context)
		}
		d.flags[at] |= refined
		step := half
		if bit == 0 {
			step = -half
		}
		if f&negative != 0 {
			step = -step
		}
		d.values[value] += step
	})
}

// cleanup decodes a cleanup pass.
func (d *blockDecoder) cleanup() {
	causal := d.style&styleCausal != 0
	for top := 0; top < d.height; top += 4 {
		end := min(top+4, d.height)
		for x := range d.width {
			d.cleanColumn(x, top, end, causal)
		}
	}
	if d.style&styleSymbols != 0 {
		for range 4 {
			d.mq.decode(contextUniform)
		}
	}
}

// cleanColumn decodes those coefficients of a stripe's column that the other passes of the plane did not decode. If all
// neighbours are insignificant, one bit may stand for all four.
func (d *blockDecoder) cleanColumn(x, top, end int, causal bool) {
	y := top
	found := false
	if end-top == 4 {
		quiet := true
		for i := top; i < end && quiet; i++ {
			at := (i+1)*d.stride + x + 1
			quiet = d.flags[at]&(significant|visited) == 0 && d.significanceContext(at, causal && i == top+3) == 0
		}
		if quiet {
			if d.mq.decode(contextRun) == 0 {
				return
			}
			y += int(d.mq.decode(contextUniform)) << 1
			y += int(d.mq.decode(contextUniform))
			found = true
		}
	}
	for ; y < end; y++ {
		at, last := (y+1)*d.stride+x+1, causal && y == top+3
		if found {
			found = false
			d.become(at, y*d.width+x, last)
			continue
		}
		if d.flags[at]&(significant|visited) == 0 && d.mq.decode(d.significanceContext(at, last)) != 0 {
			d.become(at, y*d.width+x, last)
		}
	}
	for y = top; y < end; y++ {
		d.flags[(y+1)*d.stride+x+1] &^= visited
	}
}

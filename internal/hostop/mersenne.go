package hostop

import "math"

// mersenne is the generator MT19937, seeded and drawn from as NumPy's RandomState(seed) does, so that a seed gives
// NumPy's numbers (Matsumoto, Nishimura: Mersenne twister, 1998). newMersenne makes one; the zero value is invalid.
type mersenne struct {
	state  [624]uint32
	next   int
	normal float64 // the second of a pair of normal numbers
	kept   bool    // normal has not been drawn yet
}

// newMersenne returns a generator seeded with one word.
func newMersenne(seed uint32) *mersenne {
	m := &mersenne{next: len(mersenne{}.state)}
	for i := range m.state {
		m.state[i] = seed
		seed = 1812433253*(seed^seed>>30) + uint32(i) + 1
	}
	return m
}

// twist computes the next 624 words.
func (m *mersenne) twist() {
	const far = 397
	n := len(m.state)
	for i := range m.state {
		y := m.state[i]&0x80000000 | m.state[(i+1)%n]&0x7fffffff
		m.state[i] = m.state[(i+far)%n] ^ y>>1 ^ (y&1)*0x9908b0df
	}
	m.next = 0
}

// word returns the next 32 random bits.
func (m *mersenne) word() uint32 {
	if m.next == len(m.state) {
		m.twist()
	}
	y := m.state[m.next]
	m.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// uniform returns a number of 53 bits in [0, 1).
func (m *mersenne) uniform() float64 {
	high, low := m.word()>>5, m.word()>>6
	return (float64(high)*(1<<26) + float64(low)) / (1 << 53)
}

// gauss returns a standard normal number by the polar method, which makes two at a time; the second of the pair is
// returned first.
func (m *mersenne) gauss() float64 {
	if m.kept {
		m.kept = false
		return m.normal
	}
	for {
		x, y := 2*m.uniform()-1, 2*m.uniform()-1
		if square := float64(x*x) + float64(y*y); square < 1 && square != 0 {
			f := math.Sqrt(-2 * math.Log(square) / square)
			m.normal, m.kept = f*x, true
			return f * y
		}
	}
}

// bernoulli returns 1 with probability p, else 0. It is NumPy's binomial of one trial, which inverts the rarer
// outcome.
func (m *mersenne) bernoulli(p float64) int64 {
	if p > 0.5 {
		return 1 - m.rare(1-p)
	}
	return m.rare(p)
}

// rare is bernoulli for p of at most 0.5. If rounding puts a number past both outcomes, it is drawn again.
func (m *mersenne) rare(p float64) int64 {
	q := 1 - p
	none := math.Exp(math.Log(q))
	for {
		u := m.uniform()
		if u <= none {
			return 0
		}
		if u-none <= p*none/q {
			return 1
		}
	}
}

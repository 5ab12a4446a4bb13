package hostop

import "math"

// mersenne is the generator MT19937 as NumPy's RandomState(seed) sets it up and draws from it, so that a seed gives the
// numbers that it gives there (Matsumoto, Nishimura: Mersenne twister, 1998). The zero value is not ready: see
// newMersenne.
type mersenne struct {
	state  [624]uint32
	next   int
	normal float64 // the second of a pair of normal numbers
	kept   bool    // normal has not been drawn yet
}

// newMersenne is the generator after seeding with one word.
func newMersenne(seed uint32) *mersenne {
	m := &mersenne{next: len(mersenne{}.state)}
	for i := range m.state {
		m.state[i] = seed
		seed = 1812433253*(seed^seed>>30) + uint32(i) + 1
	}
	return m
}

// twist makes the next 624 words.
func (m *mersenne) twist() {
	const far = 397
	n := len(m.state)
	for i := range m.state {
		y := m.state[i]&0x80000000 | m.state[(i+1)%n]&0x7fffffff
		m.state[i] = m.state[(i+far)%n] ^ y>>1 ^ (y&1)*0x9908b0df
	}
	m.next = 0
}

// word is the next 32 random bits.
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

// uniform is a number from [0, 1) of 53 bits.
func (m *mersenne) uniform() float64 {
	high, low := m.word()>>5, m.word()>>6
	return (float64(high)*(1<<26) + float64(low)) / (1 << 53)
}

// gauss is a standard normal number, by the polar method: two come at a time, and the second of the pair is given
// first.
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

// bernoulli is 1 with probability p, else 0: NumPy's binomial of one trial, which inverts the rarer of the two
// outcomes.
func (m *mersenne) bernoulli(p float64) int64 {
	if p > 0.5 {
		return 1 - m.rare(1-p)
	}
	return m.rare(p)
}

// rare is bernoulli for p of at most 0.5. What lies past both outcomes, by the rounding of their probabilities, is
// drawn again.
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

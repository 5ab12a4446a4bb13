package mathematics

// erfStep is the distance of the points around which erf has a polynomial.
const erfStep = 17.0 / 32

// erfTable has the coefficients of the polynomials of erf(n·erfStep + t) in t: for each power of t, a coefficient for
// each n from 0 to 7. For n = 0, the polynomial is that of erf(t) / t − 1.
var erfTable = [...][8]float32{
	{0.e+00, 5.4752845e-01, 8.670583e-01, 9.757977e-01, 9.97346e-01, 9.998277e-01, 9.9999344e-01, 9.999999e-01},
	{1.2837917e-01, 8.5091424e-01, 3.6490342e-01, 8.898742e-02, 1.2340694e-02, 9.7328186e-04, 4.366149e-05, 1.1144783e-06},
	{-7.1536505e-07, -4.5204762e-01, -3.8771167e-01, -1.4182197e-01, -2.6227634e-02, -2.5815712e-03, -1.3750653e-04,
		-1.0658039e-05},
	{-3.7608522e-01, -1.23573184e-01, 1.5293525e-01, 1.21056214e-01, 3.304874e-02, 4.249538e-03, 2.7980222e-04,
		9.7723005e-06},
	{-7.365692e-04, 1.8345436e-01, 4.8068803e-02, -4.9254537e-02, -2.6235942e-02, -4.923396e-03, -4.6250314e-04,
		2.2940098e-04},
	{1.1854523e-01, -9.631938e-04, -6.469224e-02, -5.7471124e-03, 1.2226979e-02, 3.9053392e-03, 4.5838152e-04,
		2.515557e-05},
	{-2.0135136e-02, -4.7428638e-02, 9.148187e-03, 1.651617e-02, -2.8923696e-03, -8.116367e-04, 2.1998209e-04,
		-2.352568e-03},
}

// Erf evaluates a polynomial around the nearest of eight points, with an error of at most 1.02 ulp.
func (m Functions[V, M]) Erf(x V) V {
	a := m.Min(m.Float(3.95), m.abs(x))
	shifted := m.Fma(a, m.Float(1/erfStep), m.Float(3<<22))
	t := m.Fnma(m.Sub(shifted, m.Float(3<<22)), m.Float(erfStep), a)
	last := len(erfTable) - 1
	p := m.lookupFloat(&erfTable[last], shifted)
	for i := last - 1; i > 0; i-- {
		p = m.Fma(p, t, m.lookupFloat(&erfTable[i], shifted))
	}
	return m.withSign(m.Fma(p, t, m.Max(m.lookupFloat(&erfTable[0], shifted), t)), x)
}

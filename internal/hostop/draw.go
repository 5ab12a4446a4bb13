package hostop

import (
	"math"
	"sort"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operators that draw random numbers from a seed.
func init() {
	register("draw_uniform", func(c *Call) error { return drawScaled(c, (*mersenne).uniform) })
	register("draw_normal", func(c *Call) error { return drawScaled(c, (*mersenne).gauss) })
	register("draw_bernoulli", drawBernoulli)
	register("draw_kept", drawKept)
	register("draw_classes", drawClasses)
}

// generator returns a generator seeded by the low 32 bits of the attribute seed.
func generator(c *Call) *mersenne {
	seed, _ := c.Attrs["seed"].(int64)
	return newMersenne(uint32(seed))
}

// drawScaled fills result 0, of the attribute shape, with draw's numbers times factor plus offset. The draw, the
// product and the sum are each rounded to the result's type, as NumPy rounds them.
func drawScaled(c *Call, draw func(*mersenne) float64) error {
	shape, _ := c.Attrs["shape"].([]int64)
	factor, _ := c.Attrs["factor"].(float64)
	offset, _ := c.Attrs["offset"].(float64)
	out, err := c.Result(0, shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	m := generator(c)
	rounded := func(i int64, x float64) float64 {
		out.SetFloat(i, x)
		return out.Float(i)
	}
	factor, offset = rounded(0, factor), rounded(0, offset)
	for i := range out.Len() {
		c.work(8)
		rounded(i, rounded(i, rounded(i, draw(m))*factor)+offset)
	}
	return nil
}

// drawBernoulli fills result 0 with 1 or 0: element i is 1 with probability input 0 [i].
func drawBernoulli(c *Call) error {
	p := c.In[0]
	out, err := c.Result(0, p.Shape()...)
	if err != nil {
		return err
	}
	m := generator(c)
	for i := range out.Len() {
		c.work(8)
		x := p.Float(i)
		if !(x >= 0 && x <= 1) {
			return diag.Inputf("element %d of the probabilities is %v, it must be from 0 to 1", i, x)
		}
		setNumber(out, i, m.bernoulli(x))
	}
	return nil
}

// setNumber stores a small integer as an element of any numeric type or bool.
func setNumber(t *tensor.Tensor, i, x int64) {
	if t.DType().IsFloat() {
		t.SetFloat(i, float64(x))
		return
	}
	t.SetInt(i, x)
}

// drawKept fills result 0, of the attribute shape, with truth values: whether a uniform number is at least the ratio,
// input 0.
func drawKept(c *Call) error {
	shape, _ := c.Attrs["shape"].([]int64)
	ratio := c.In[0].Float(0)
	out, err := c.Result(0, shape...)
	if err != nil {
		return err
	}
	m := generator(c)
	for i := range out.Len() {
		c.work(4)
		out.SetInt(i, 0)
		if m.uniform() >= ratio {
			out.SetInt(i, 1)
		}
	}
	return nil
}

// drawClasses draws, for each row of input 0, as many classes as the attribute count says. Input 0, [rows, classes],
// holds logarithms of probabilities up to a constant. Result 1 is scratch for the cumulative sums of a row.
func drawClasses(c *Call) error {
	x := c.In[0]
	rows, classes := x.Shape()[0], x.Shape()[1]
	count, _ := c.Attrs["count"].(int64)
	out, err := c.Result(0, rows, count)
	if err != nil {
		return err
	}
	room, err := c.Result(1, classes)
	if err != nil || out.Len() == 0 {
		return err
	}
	sums, err := tensor.Data[float64](room)
	if err != nil {
		return err
	}
	m := generator(c)
	for row := range rows {
		most := math.Inf(-1)
		for i := range classes {
			c.work(4)
			most = max(most, x.Float(row*classes+i)) // NaN if one is
		}
		total := 0.0
		for i := range classes {
			total += math.Exp(x.Float(row*classes+i) - most)
			sums[i] = total
		}
		if !(total >= 1) || math.IsInf(most, 0) {
			return diag.Inputf("row %d of the logarithms gives no class a probability", row)
		}
		for i := range count {
			c.work(16)
			u := m.uniform() * total
			class := sort.Search(int(classes), func(k int) bool { return sums[k] > u })
			out.SetInt(row*count+i, min(int64(class), classes-1))
		}
	}
	return nil
}

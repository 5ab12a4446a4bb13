package hostop

import "github.com/weirml/weir/internal/diag"

func init() { register("ngrams", ngrams) }

// ngrams counts, in each row of x (i64), the listed n-grams of `least` to `most` elements, with gaps of at most `skip`
// between neighbours. Input 1 holds the elements of the listed n-grams: shorter n-grams first, those of one length in
// ascending order. Input 2 (i64) is the column that each n-gram counts in, input 3 (f32) its weight. starts[n−1] is
// the index of the first n-gram of n elements; a last entry is the end. With the attribute once, an n-gram counts at
// most once in a row. N-grams of one element have no gaps.
func ngrams(c *Call) error {
	x, pool, columns, weights := c.In[0], c.In[1], c.In[2], c.In[3]
	starts := c.Attrs["starts"].([]int64)
	least, most, skip, width := c.Attrs["least"].(int64), c.Attrs["most"].(int64), c.Attrs["skip"].(int64),
		c.Attrs["width"].(int64)
	once, _ := c.Attrs["once"].(bool)
	shape := append([]int64{}, x.Shape()...)
	length := shape[len(shape)-1]
	shape[len(shape)-1] = width
	out, err := c.Result(0, shape...)
	if err != nil {
		return err
	}
	for i := range out.Len() {
		c.work(1)
		out.SetFloat(i, 0)
	}
	var begins []int64 // of each length's n-grams, among their elements
	at := int64(0)
	for n := 1; n < len(starts); n++ {
		c.work(1)
		begins = append(begins, at)
		if starts[n] < starts[n-1] {
			return diag.Inputf("the n-grams of %d elements begin at %d, and end at %d", n, starts[n-1], starts[n])
		}
		at += int64(n) * (starts[n] - starts[n-1])
	}
	if at != pool.Len() || starts[len(starts)-1] != columns.Len() || columns.Len() != weights.Len() {
		return diag.Inputf("%d elements in %d n-grams, with %d columns and %d weights", pool.Len(), starts[len(starts)-1],
			columns.Len(), weights.Len())
	}
	compare := func(gram, n, from, gap int64) int {
		for k := range n {
			c.work(2)
			a, b := pool.Int(begins[n-1]+(gram-starts[n-1])*n+k), x.Int(from+k*gap)
			if a != b {
				if a < b {
					return -1
				}
				return 1
			}
		}
		return 0
	}
	count := func(row, n, from, gap int64) error {
		lo, hi := starts[n-1], starts[n]
		for lo < hi {
			mid := lo + (hi-lo)/2
			if compare(mid, n, from, gap) < 0 {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		if lo == starts[n] || compare(lo, n, from, gap) != 0 {
			return nil
		}
		column := columns.Int(lo)
		if column < 0 || column >= width {
			return diag.Inputf("n-gram %d counts in column %d of %d", lo, column, width)
		}
		if to := row*width + column; once {
			out.SetFloat(to, weights.Float(lo))
		} else {
			out.SetFloat(to, out.Float(to)+weights.Float(lo))
		}
		return nil
	}
	for row := int64(0); length > 0 && row < x.Len()/length; row++ {
		c.work(8)
		for n := least; n <= min(most, int64(len(starts)-1)); n++ {
			gaps := skip + 1
			if n == 1 {
				gaps = 1
			}
			for gap := int64(1); gap <= gaps && (n-1)*gap < length; gap++ {
				c.work(4)
				for from := int64(0); from+(n-1)*gap < length; from++ {
					c.work(4)
					if err := count(row, n, row*length+from, gap); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

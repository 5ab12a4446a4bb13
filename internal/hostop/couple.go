package hostop

import (
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
)

func init() { register("couple", couple) }

// couple turns probabilities of class pairs into probabilities of classes, row by row. Input 0, f64[rows, pairs], is
// the probability of the first class of each pair 0 and 1, 0 and 2, …, 1 and 2, … Result 0, f64[rows, classes], has
// the p of sum 1 that minimise the squares of r[j, i]·p[i] − r[i, j]·p[j], found by iteration (Wu, Lin, Weng:
// Probability estimates for multi-class classification by pairwise coupling, 2004, their second method). Result 1,
// f64[(classes + 1)·classes], is scratch.
func couple(c *Call) error {
	classes, _ := c.Attrs["classes"].(int64)
	rows, pairs := c.In[0].Shape()[0], c.In[0].Shape()[1]
	if pairs != classes*(classes-1)/2 {
		return diag.Inputf("%d pairs of %d classes", pairs, classes)
	}
	given, err := tensor.Data[float64](c.In[0])
	if err != nil {
		return err
	}
	out, err := c.Result(0, rows, classes)
	if err != nil {
		return err
	}
	room, err := c.Result(1, (classes+1)*classes)
	if err != nil {
		return err
	}
	result, err := tensor.Data[float64](out)
	if err != nil {
		return err
	}
	work, err := tensor.Data[float64](room)
	if err != nil {
		return err
	}
	for row := range rows {
		coupled(c, result[row*classes:(row+1)*classes], given[row*pairs:(row+1)*pairs], work)
	}
	zero(c, work)
	return nil
}

// coupled computes one row of couple into p, with work as scratch.
func coupled(c *Call, p, pairs, work []float64) {
	k := len(p)
	q, along := work[:k*k], work[k*k:k*k+k]
	// r is how probable i is against j.
	r := func(i, j int) float64 {
		if i < j {
			return pairs[i*(2*k-i-1)/2+j-i-1]
		}
		return 1 - pairs[j*(2*k-j-1)/2+i-j-1]
	}
	for i := range k {
		c.work(int64(k))
		p[i] = 1 / float64(k)
		q[i*k+i] = 0
		for j := range k {
			if j != i {
				q[i*k+i] += r(j, i) * r(j, i)
				q[i*k+j] = -r(j, i) * r(i, j)
			}
		}
	}
	for range max(100, k) {
		total := 0.0
		for i := range k {
			c.work(2 * int64(k))
			along[i] = 0
			for j := range k {
				along[i] += q[i*k+j] * p[j]
			}
			total += p[i] * along[i]
		}
		worst := 0.0
		for i := range k {
			worst = max(worst, math.Abs(along[i]-total))
		}
		if worst < 0.005/float64(k) {
			return
		}
		for i := range k {
			step := (total - along[i]) / q[i*k+i]
			p[i] += step
			total = (total + step*(step*q[i*k+i]+2*along[i])) / (1 + step) / (1 + step)
			for j := range k {
				along[j] = (along[j] + step*q[i*k+j]) / (1 + step)
				p[j] /= 1 + step
			}
		}
	}
}

package hostop

import (
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
)

func init() { register("mel_weights", melWeights) }

// melWeights fills result 0, [length/2 + 1, bands], with triangular filters: band i rises from edge i to edge i+1 and
// falls to edge i+2. The edges have equal distances on the mel scale between the frequencies of inputs 1 and 2; each
// is rounded down to a bin of the spectrum at the rate of input 0.
func melWeights(c *Call) error {
	bands, _ := c.Attrs["bands"].(int64)
	length, _ := c.Attrs["length"].(int64)
	rate, low, high := float64(c.In[0].Int(0)), mel(c.In[1].Float(0)), mel(c.In[2].Float(0))
	bins := length/2 + 1
	edge := func(i int64) float64 {
		hertz := 700 * (math.Pow(10, (low+float64(i)*(high-low)/float64(bands+2))/2595) - 1)
		return math.Floor(float64(length+1) * hertz / rate)
	}
	for _, i := range []int64{0, bands + 1} {
		if at := edge(i); !(at >= 0 && at < float64(bins)) || high < low {
			return diag.Inputf("the bands reach bin %v of a spectrum of %d: the frequencies lie outside 0 to half of the rate "+
				"%v", at, bins, rate)
		}
	}
	out, err := c.Result(0, bins, bands)
	if err != nil {
		return err
	}
	for i := range out.Len() {
		c.work(1)
		setFraction(out, i, 0)
	}
	for band := range bands {
		c.work(32)
		first, peak, end := int64(edge(band)), int64(edge(band+1)), int64(edge(band+2))
		if first == peak {
			setFraction(out, peak*bands+band, 1)
		}
		for j := first; j <= peak && first < peak; j++ {
			c.work(2)
			setFraction(out, j*bands+band, float64(j-first)/float64(peak-first))
		}
		for j := peak; j < end; j++ {
			c.work(2)
			setFraction(out, j*bands+band, float64(end-j)/float64(end-peak))
		}
	}
	return nil
}

// mel converts a frequency in hertz to the mel scale.
func mel(hertz float64) float64 { return 2595 * math.Log10(1+hertz/700) }

// setFraction stores a number of at least 0; an integer type truncates it.
func setFraction(t *tensor.Tensor, i int64, x float64) {
	if t.DType().IsFloat() {
		t.SetFloat(i, x)
		return
	}
	t.SetInt(i, int64(x))
}

package hostop

import "github.com/weirml/weir/internal/diag"

func init() { register("bitcast", bitcast) }

// bitcast copies the bits of elements into elements of another type of the same width.
func bitcast(c *Call) error {
	out, err := c.Result(0, c.In[0].Shape()...)
	if err != nil {
		return err
	}
	if len(out.Bytes()) != len(c.In[0].Bytes()) {
		return diag.Inputf("the bits of %s as %s", c.In[0].DType(), out.DType())
	}
	c.copy(out.Bytes(), c.In[0].Bytes())
	return nil
}

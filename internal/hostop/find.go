package hostop

import "sort"

func init() { register("find", find) }

// find returns for each element of input 0 its index among the keys of input 1, or the number of keys if it is none of
// them. The keys ascend, NaN last.
func find(c *Call) error {
	x, keys := c.In[0], c.In[1]
	out, err := c.Result(0, x.Shape()...)
	if err != nil {
		return err
	}
	order := c.counted(comparingWith(keys, x))
	count := int(keys.Len())
	for i := range x.Len() {
		c.work(4)
		at := sort.Search(count, func(k int) bool { return order(int64(k), i) >= 0 })
		if at < count && order(int64(at), i) != 0 {
			at = count
		}
		out.SetInt(i, int64(at))
	}
	return nil
}

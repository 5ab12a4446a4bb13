// Package validator checks packings. It shares no code with the packer.
package validator

import (
	"fmt"
	"math/big"
)

// Item is a size, to be placed in Copies different bins.
type Item struct {
	Size   int64
	Copies int
}

// Check returns an error unless each item is placed as often as it has copies, in different bins, no bin holds more
// than the capacity, and the bins are at least as many as the lower bound.
func Check(items []Item, capacity int64, bins [][]int, least int) error {
	placed := make([]int, len(items))
	for b, bin := range bins {
		sum := new(big.Int)
		seen := make(map[int]bool)
		for _, i := range bin {
			if i < 0 || i >= len(items) {
				return fmt.Errorf("bin %d holds item %d of %d", b, i, len(items))
			}
			if seen[i] {
				return fmt.Errorf("bin %d holds item %d twice", b, i)
			}
			seen[i] = true
			placed[i]++
			sum.Add(sum, big.NewInt(items[i].Size))
		}
		if len(bin) == 0 {
			return fmt.Errorf("bin %d is empty", b)
		}
		if sum.Cmp(big.NewInt(capacity)) > 0 {
			return fmt.Errorf("bin %d holds %v, more than %d", b, sum, capacity)
		}
	}
	for i, item := range items {
		if placed[i] != item.Copies {
			return fmt.Errorf("item %d is placed %d times, not %d", i, placed[i], item.Copies)
		}
	}
	if least > len(bins) {
		return fmt.Errorf("%d bins are fewer than the lower bound of %d", len(bins), least)
	}
	return nil
}

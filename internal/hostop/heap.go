package hostop

import "unicode/utf8"

// Heap returns the most bytes that one call of a function asks Reserve for: times[i] times the bytes of operand i,
// plus a constant. known is false if the number depends on the contents, as for pictures.
func Heap(op string, attrs map[string]any) (times []int64, plus int64, known bool) {
	switch op {
	case "text_rank":
		return []int64{1}, 0, true
	case "text_normalize":
		return []int64{1, caseGrowth}, utf8.UTFMax, true
	case "text_match":
		pattern, _ := attrs["pattern"].(string)
		return nil, matching + patternByte*int64(len(pattern)), true
	case "sequence_concat":
		return []int64{0, sequenceView / (8 * extentsWidth)}, 0, true
	case "trees":
		how, _ := attrs["aggregate"].(string)
		targets, _ := attrs["targets"].(int64)
		if a := aggregates[how]; !a.least && !a.most {
			return nil, 0, true
		}
		return nil, treeBlock * targets, true
	}
	return nil, 0, op != "decode_image"
}

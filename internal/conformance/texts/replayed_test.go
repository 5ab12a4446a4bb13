package texts

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// replayed lists public bugs of other systems whose kind is tested here: the fault, the report, and the test, with its
// case if the test is a table.
var replayed = []struct{ bug, where, test string }{
	{"a reshape's alias is not seen, and its bytes are given away", "apache/tvm #20134", "TestMemoryBugs/reshape alias"},
	{"nor that of a match_cast", "apache/tvm #20190, #20207", "TestMemoryBugs/a shape that is only asserted"},
	{"a product in place over one of two views", "apache/tvm #19577", "TestMemoryBugs/in place on one of two views"},
	{"storage of one branch is used in the other", "apache/tvm #20191, #17348",
		"TestMemoryBugs/storage that does not dominate the other branch"},
	{"an extent of 2³² + 1 becomes 1", "apache/tvm #20125", "TestMemoryBugs/2^32 + 1 elements"},
	{"a size that wraps is planned into 128 bytes", "apache/tvm #20268, #20269; apache/tvm-ffi #475",
		"TestMemoryBugs/2^62 + 1 elements"},
	{"a negative extent becomes nearly 2⁶⁴", "apache/tvm #18132", "TestMemoryBugs/a negative extent"},
	{"a shape's slot that nothing computes", "apache/tvm #17876, #20177",
		"TestMemoryBugs/a dimension that nothing gives a value"},
	{"a lower bound alone is planned as the size", "apache/tvm #18663", "TestMemoryBugs/only a lower bound"},
	{"only one of two dimensions has a bound", "apache/tvm #16466", "TestMemoryBugs/one of two dimensions is bounded"},
	{"storage that is too small fails far beyond its size", "apache/tvm #17322; mlc-ai/mlc-llm #860, #1327", "TestStory"},
	{"and a page's rounding hides it", "apache/tvm #17322", "TestMemoryBugs/sizes that a page would hide"},
	{"storages of one size and other types are never shared", "apache/tvm #16111", "TestMemoryBugs/types share bytes"},
	{"checks are missing, or do not say what is wrong", "apache/tvm #17211", "TestMemoryTexts"},
	{"a text crashes its parser", "apache/tvm #17239", "FuzzMemoryText"},
	{"a refusal in the middle of taking storage crashes", "apache/tvm #16905", "TestFaultSweep"},
	{"out of memory, though the pool holds what is free", "apache/tvm #8285", "TestPoolGrowth/retried"},
	{"shapes that change fill a pool with buffers of every size", "apache/tvm #7763, #16517", "TestPoolGrowth/shapes"},
	{"and what it holds never falls", "apache/tvm #15172, #16066", "TestPoolGrowth/tensors"},
	{"a result that is handed out is counted once too often", "apache/tvm-ffi #87",
		"TestHandOver/a result that another run consumes"},
	{"what describes a tensor outlives it", "apache/tvm-ffi #424; pytorch/pytorch #117273",
		"TestLending/an argument is not kept"},
	{"a tensor without elements is never released", "pytorch/pytorch #117058, #117273", "TestHandOver/without elements"},
	{"nor one that was offered, and never taken", "pytorch/pytorch #9297", "TestHandOver/offered and not taken"},
	{"a tensor is released by another thread", "dmlc/dlpack #103; numpy/numpy #22507",
		"TestHandOver/released by other threads"},
	{"memory of the collector's is reused while it is lent", "numpy/numpy #22507", "TestLending/lent memory of Go's"},
	{"results outlive what made them", "apache/tvm-ffi #87", "TestLending/results outlive their model"},
}

// TestReplayed checks that each test of the list exists.
func TestReplayed(t *testing.T) {
	var all strings.Builder
	for _, file := range []string{"ownership/handover_test.go", "texts/bugs_test.go", "texts/check_test.go",
		"texts/random_test.go", "sweep/sweep_test.go", "texts/story_test.go"} {
		text, err := os.ReadFile("internal/conformance/" + file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	cases := map[string]bool{}
	for _, b := range memoryBugs {
		cases["TestMemoryBugs/"+b.name] = true
	}
	for _, r := range replayed {
		name, sub, isCase := strings.Cut(r.test, "/")
		found := regexp.MustCompile(`(?m)^func ` + name + `\(`).MatchString(all.String())
		if isCase && name == "TestMemoryBugs" {
			found = found && cases[r.test]
		} else if isCase {
			found = found && strings.Contains(all.String(), `t.Run("`+sub+`"`)
		}
		if !found {
			t.Errorf("%s (%s): there is no %s", r.bug, r.where, r.test)
		}
	}
}

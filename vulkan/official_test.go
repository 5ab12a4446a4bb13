package vulkan_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/conformance"
	"github.com/weirml/weir/internal/conformance/conformancetest"
	_ "github.com/weirml/weir/vulkan"
)

// available returns the device of the tests. If there is none, it skips the test, which the log says.
func available(t testing.TB) weir.DeviceInfo {
	t.Helper()
	d, err := conformancetest.Device()
	if err != nil {
		t.Skipf("THERE IS NO VULKAN DEVICE HERE: the test is skipped: %v", err)
	}
	return d
}

var shared = flag.Int("shared", 8, "TestOfficial also runs one of so many cases with tiles in shared memory")

// TestOfficial runs ONNX's official test cases on the device: none may fail.
func TestOfficial(t *testing.T) {
	available(t)
	data := os.Getenv("WEIR_ONNX_DATA")
	if data == "" {
		t.Skip("WEIR_ONNX_DATA is not set: it names the folder onnx/backend/test/data of the Python package onnx, which is " +
			"not part of this repository")
	}
	cases, err := conformance.Find([]string{data})
	if err != nil {
		t.Fatal(err)
	}
	held, err := compile(t, randomNetwork(1).model(), weir.Options{Target: weir.Vulkan}) // so that the device stays open
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	count := map[conformance.Verdict]int{}
	why, onDevice, reasons := map[string]int{}, 0, map[string]int{}
	for i, c := range cases {
		if filepath.Base(filepath.Dir(c.Dir)) == "real" {
			continue
		}
		if i%*shared == 0 { // with tiles in shared memory, which code for a device that is a processor does not use
			r := c.Run(context.Background(), weir.Options{Target: weir.Vulkan, Limits: smallerLimits(t, 16384, 256, 512)})
			if r.Verdict == conformance.Fail {
				t.Errorf("%s, with shared memory: %s", r.Name, r.Why)
			}
		}
		r := c.Run(context.Background(), weir.Options{Target: weir.Vulkan})
		count[r.Verdict]++
		if r.Verdict == conformance.Fail {
			t.Errorf("%s: %s", r.Name, r.Why)
		}
		if r.Verdict == conformance.Pass && len(r.OnHost) == 0 {
			onDevice++
		}
		for _, h := range r.OnHost {
			reasons[h.Reason]++
		}
		if r.Verdict == conformance.Refused {
			why[strings.Join(r.Ops, ",")]++
		}
	}
	t.Logf("%d cases: %v; %d pass entirely on the device", len(cases), count, onDevice)
	for reason, n := range reasons {
		t.Logf("%d steps on the host: %s", n, reason)
	}
	var list []string
	for w := range why {
		list = append(list, w)
	}
	sort.Strings(list)
	t.Log(list)
}

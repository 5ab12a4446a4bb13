package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirml/weir"
)

// TestKernels: an operator of the host is listed with the reason, and counted; kernels without a reason to be slow are
// listed only with --all.
func TestKernels(t *testing.T) {
	const model = "../../testdata/memory/checked/decided.weir"
	list := func(args ...string) []kernelRow {
		t.Helper()
		r := weirRun(t, append([]string{"kernels", model, "--json"}, args...)...)
		var rows []kernelRow
		if err := json.Unmarshal([]byte(r.out), &rows); err != nil || r.code != 0 {
			t.Fatalf("exit %d, %v: %s%s", r.code, err, r.out, r.err)
		}
		return rows
	}
	all, slow := list("--all"), list()
	if len(all) <= len(slow) && weir.HostProcessor().CPU != "portable" {
		t.Errorf("%d kernels are slow, of %d", len(slow), len(all))
	}
	found := false
	for _, k := range slow {
		if k.Kernel == "nonzero" {
			found = k.Backend == "host" && len(k.Why) == 1 && k.Why[0] == "the data decide its results' sizes"
		}
		if len(k.Why) == 0 {
			t.Errorf("%+v", k)
		}
	}
	if !found {
		t.Errorf("%+v", slow)
	}
	if text := weirRun(t, "kernels", model, model).out; !strings.Contains(text,
		"2 launches in 1 models  host, nonzero: the data decide its results' sizes") {
		t.Error(text)
	}
	for _, k := range list("--cpu", "portable") {
		if k.Backend != "host" && (k.Backend != "portable" || k.Why[0] != "the program is for portable") {
			t.Errorf("%+v", k)
		}
	}
	if r := weirRun(t, "kernels"); r.code != exitUsage {
		t.Errorf("exit %d", r.code)
	}
}

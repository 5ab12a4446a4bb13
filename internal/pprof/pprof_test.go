package pprof

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestReadByTool shows that Go's own tool reads a profile.
func TestReadByTool(t *testing.T) {
	if runtime.GOOS == "js" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("go tool pprof is not run there")
	}
	user := runtime.Frame{Function: "main.serve", File: "/src/main.go", Line: 41}
	root := runtime.Frame{Function: "main.main", File: "/src/main.go", Line: 7}
	samples := []Sample{
		{[]runtime.Frame{user, root}, []int64{2, 3 << 20}, map[string]string{"kind": "arena"}},
		{[]runtime.Frame{root}, []int64{1, 1 << 20}, map[string]string{"kind": "weights", "tensor": "w"}},
	}
	var b bytes.Buffer
	if err := Write(&b, []Type{{"inuse_objects", "count"}, {"inuse_space", "bytes"}}, samples); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "heap.pb.gz")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ args, want string }{
		{"-top", "3MB 75.00% 75.00%        3MB 75.00%  main.serve"},
		{"-top", "1MB 25.00%   100%        4MB   100%  main.main"},
		{"-top -sample_index=inuse_objects", "2 66.67% 66.67%          2 66.67%  main.serve"},
		{"-top -lines", "main.serve /src/main.go:41"},
		{"-top -tagfocus=kind=weights", "1MB 25.00%"},
		{"-tags", "weights"},
	} {
		out, err := exec.Command("go", append(append([]string{"tool", "pprof"}, strings.Fields(row.args)...), file)...).
			CombinedOutput()
		if err != nil || !strings.Contains(string(out), row.want) {
			t.Errorf("pprof %s: %v, want %q in\n%s", row.args, err, row.want, out)
		}
	}
}

package command

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// linear returns a model that multiplies rows of k numbers by a matrix with n columns.
func linear(k, n int64) []byte {
	weights := &wire.TensorProto{Name: "w", Dims: []int64{k, n}, DataType: wire.FloatType, RawData: make([]byte, 4*k*n)}
	m := &wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 18}}, Graph: &wire.GraphProto{
		Input:       []*wire.ValueInfoProto{wire.TensorValue("x", wire.FloatType, wire.Dim("batch"), wire.Size(k))},
		Output:      []*wire.ValueInfoProto{wire.TensorValue("y", wire.FloatType, wire.Dim("batch"), wire.Size(n))},
		Initializer: []*wire.TensorProto{weights},
		Node:        []*wire.NodeProto{{OpType: "MatMul", Input: []string{"x", "w"}, Output: []string{"y"}}},
	}}
	return m.Marshal()
}

// folderOf writes files into a new folder.
func folderOf(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// packedText is the output of weir pack --json.
type packedText struct {
	packed
	Refused []struct {
		Name  string
		Error struct{ Detail, Fix string }
	} `json:"refused"`
}

// packing runs weir pack --json, and checks the sums of the nodes.
func packing(t *testing.T, code int, args ...string) packedText {
	t.Helper()
	r := weirRun(t, append([]string{"pack", "--json", "--threads", "2"}, args...)...)
	var p packedText
	if err := json.Unmarshal([]byte(r.out), &p); err != nil || r.code != code {
		t.Fatalf("%v: exit code %d, not %d (%v):\n%s%s", args, r.code, code, err, r.out, r.err)
	}
	bytes, placed := map[string]int64{}, map[string]int{}
	for _, m := range p.Models {
		bytes[m.Name] = m.Bytes
		if m.Bytes != m.Certificate+m.Requests+m.Responses+m.Share {
			t.Errorf("%s: %d is not the sum of its terms", m.Name, m.Bytes)
		}
	}
	for _, n := range p.Nodes {
		sum := p.Server
		for _, name := range n.Models {
			sum += bytes[name]
			placed[name]++
		}
		if sum != n.Bytes || n.Bytes+n.Free != p.Node || n.Free < 0 {
			t.Errorf("%s has %d bytes and %d free; its models have %d", n.Name, n.Bytes, n.Free, sum)
		}
	}
	for _, m := range p.Models {
		if placed[m.Name] != m.Replicas || len(m.Nodes) != m.Replicas {
			t.Errorf("%s is placed %d times, not %d", m.Name, placed[m.Name], m.Replicas)
		}
	}
	return p
}

// names returns the names of placed models.
func (p packed) names() (all []string) {
	for _, m := range p.Models {
		all = append(all, m.Name)
	}
	return all
}

// TestPackFinds packs each layout of a folder, beside files of other kinds and faulty models.
func TestPackFinds(t *testing.T) {
	small, large := linear(4, 4), linear(64, 4096)
	dir := folderOf(t, map[string][]byte{"plain.onnx": small, "triton/1/model.onnx": large, "triton/10/model.onnx": small,
		"triton/9/model.onnx": large, "triton/config.pbtxt": []byte("name: \"triton\"\n max_batch_size: 3"),
		"one/any.onnx": small, "group/a.onnx": small, "group/deep/b/1/model.onnx": small, "with space.onnx": small,
		"Grüße.onnx": small, "x,y.onnx": small, ".hidden.onnx": []byte("nonsense"), "readme.md": []byte("text"),
		"broken.onnx": []byte("nonsense"), "twice.onnx": small, "twice/1/model.onnx": small, "empty/config.pbtxt": nil,
		"two/1/a.onnx": small, "two/1/b.onnx": small})
	refused := []string{"broken", "empty", "twice", "two"}
	if runtime.GOOS != "windows" { // links and these names need rights there, or cannot be
		outside := folderOf(t, map[string][]byte{"secret.onnx": small})
		for link, to := range map[string]string{"link.onnx": filepath.Join(outside, "secret.onnx"), "folder": outside,
			"group/circle": "../group", "dangling.onnx": "nowhere", "inside.onnx": "plain.onnx"} {
			if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		}
		refused = append(refused, "link", "folder", "group/circle", "dangling")
		if err := os.WriteFile(filepath.Join(dir, "new\nline.onnx"), small, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	p := packing(t, 1, dir, "--node", "256MiB", "--dim", "batch=1..8")
	want := []string{"Grüße", "group/a", "group/deep/b", "one", "plain", "triton", "with space", "x,y"}
	if runtime.GOOS != "windows" {
		want = append(want, "inside", "new\nline")
	}
	slices.Sort(want)
	if got := p.names(); !slices.Equal(got, want) {
		t.Errorf("the models are %q, not %q", got, want)
	}
	var got []string
	for _, r := range p.Refused {
		got = append(got, r.Name)
		if r.Error.Detail == "" {
			t.Errorf("%s has no error", r.Name)
		}
	}
	slices.Sort(refused)
	slices.Sort(got)
	if !slices.Equal(got, refused) {
		t.Errorf("refused are %q, not %q", got, refused)
	}
	for _, m := range p.Models {
		if m.Name == "triton" && filepath.Base(filepath.Dir(m.File)) != "10" {
			t.Errorf("triton is %s", m.File)
		}
	}
	if r := weirRun(t, "pack", dir, "--node", "256MiB", "--dim", "batch=1..8"); strings.Contains(r.out, "new\nline") {
		t.Errorf("a name breaks a line: %s", r.out)
	}
}

// TestPackDimensions: --dim applies to the models that have the dimension, or to the one that it names, and
// max_batch_size bounds the first dimension otherwise.
func TestPackDimensions(t *testing.T) {
	config := []byte("max_batch_size: 64 # rows\n")
	dir := folderOf(t, map[string][]byte{"a/1/model.onnx": linear(8, 8), "a/config.pbtxt": config, "b.onnx": linear(8, 9)})
	certificates := func(p packedText) (a, b int64) {
		for _, m := range p.Models {
			if m.Name == "a" {
				a = m.Certificate
			} else {
				b = m.Certificate
			}
		}
		return a, b
	}
	p := packing(t, 1, dir, "--node", "1GiB")
	if len(p.Refused) != 1 || p.Refused[0].Name != "b" || !strings.Contains(p.Refused[0].Error.Fix, "--dim batch=1..32") {
		t.Errorf("without --dim: %+v", p.Refused)
	}
	a64, _ := certificates(p)
	aMany, b := certificates(packing(t, 0, dir, "--node", "1GiB", "--dim", "batch=1..100000"))
	aOwn, bMany := certificates(packing(t, 0, dir, "--node", "1GiB", "--dim", "b/batch=1..100000"))
	if aOwn != a64 || aMany < 2*a64 || bMany != b {
		t.Errorf("certificates: a %d, %d, %d, b %d, %d", a64, aOwn, aMany, b, bMany)
	}
	if r := weirRun(t, "pack", dir, "--node", "1GiB", "--dim", "batch=3", "--dim", "depth=4"); r.code != 1 ||
		!strings.Contains(r.err, "--dim depth=4: no model has that dimension") {
		t.Errorf("an unknown dimension: %d %s", r.code, r.err)
	}
}

// TestPackPlaces: models of known sizes get the fewest nodes, replicas different ones, and a model that no node holds
// both numbers and a budget.
func TestPackPlaces(t *testing.T) {
	files := map[string][]byte{}
	for i := range 7 {
		files[fmt.Sprintf("m%d.onnx", i)] = linear(1024, 2048) // 8 MiB
	}
	dir := folderOf(t, files)
	one := packing(t, 0, dir, "--node", "1GiB", "--dim", "batch=1")
	node := one.Server + 3*one.Models[0].Bytes + 8192
	p := packing(t, 0, dir, "--node", fmt.Sprint(node), "--dim", "batch=1", "--nodes", "3")
	if len(one.Nodes) != 1 || len(p.Nodes) != 3 || p.Least != 3 || !p.Proven || !p.Fits || *p.Given != 3 {
		t.Errorf("%d nodes, at least %d, proven %v, fits %v", len(p.Nodes), p.Least, p.Proven, p.Fits)
	}
	if p = packing(t, 1, dir, "--node", fmt.Sprint(node), "--dim", "batch=1", "--nodes", "2"); p.Fits || p.Least != 3 {
		t.Errorf("two nodes are enough: %+v", p)
	}
	p = packing(t, 0, dir, "--node", fmt.Sprint(node), "--dim", "batch=1", "--replicas", "m3=4", "--replicas", "m0=2")
	if len(p.Nodes) != 4 || p.Least != 4 || !p.Proven {
		t.Errorf("with replicas: %d nodes, at least %d", len(p.Nodes), p.Least)
	}
	p = packing(t, 1, dir, "--node", "101MiB", "--dim", "batch=1", "--calls", "64", "--dim", "m1/batch=2")
	if len(p.Refused) != 7 || len(p.Nodes) != 0 || p.Least != 0 {
		t.Errorf("too large models: %+v", p)
	}
	huge := folderOf(t, map[string][]byte{"huge.onnx": linear(4096, 4096), "small.onnx": linear(4, 4)})
	p = packing(t, 1, huge, "--node", "128MiB", "--dim", "batch=1")
	if len(p.Refused) != 1 || len(p.Models) != 1 {
		t.Fatalf("a huge model: %+v", p)
	}
	e := p.Refused[0].Error
	if !strings.Contains(e.Detail, fmt.Sprint(p.Node-p.Server)) || !strings.Contains(e.Fix, "weir plan --budget ") {
		t.Errorf("a huge model: %+v", e)
	}
}

// TestPackManifests writes manifests of each form, whose memory is that of the table, and refuses what cannot be one.
func TestPackManifests(t *testing.T) {
	dir := folderOf(t, map[string][]byte{"a.onnx": linear(1024, 2048), "b b/1/model.onnx": linear(1024, 2048)})
	for _, form := range [][]string{{"deployment"}, {"kserve", "--storage", "s3://x/y"},
		{"seldon", "--storage", "gs://x"}} {
		out := filepath.Join(t.TempDir(), "new", "folder")
		args := append([]string{dir, "--node", "128MiB", "--dim", "batch=1..2", "--manifests", out, "--form"}, form...)
		p := packing(t, 0, args...)
		entries, err := os.ReadDir(out)
		if err != nil || len(entries) != len(p.Nodes) {
			t.Fatalf("%v: %d files for %d nodes, %v", form, len(entries), len(p.Nodes), err)
		}
		for _, n := range p.Nodes {
			text, err := os.ReadFile(filepath.Join(out, n.Name+".yaml"))
			if err != nil {
				t.Error(err)
			}
			if memory := fmt.Sprintf("memory: \"%d\"", (n.Bytes+4095)/4096*4096); !strings.Contains(string(text), memory) {
				t.Errorf("%v: no %s in\n%s", form, memory, text)
			}
		}
		r := weirRun(t, append([]string{"pack"}, args...)...)
		if r.code != 1 || !strings.Contains(r.err, "has other files") {
			t.Errorf("a second time: %d %s", r.code, r.err)
		}
	}
	comma := folderOf(t, map[string][]byte{"a,b.onnx": linear(4, 4)})
	r := weirRun(t, "pack", comma, "--node", "128MiB", "--dim", "batch=1", "--manifests", filepath.Join(t.TempDir(), "x"))
	if r.code != 1 || !strings.Contains(r.err, "comma") {
		t.Errorf("a name with a comma: %d %s", r.code, r.err)
	}
}

// TestBodySize: sizes of buffers hold the tensors and a header, and are at most a quarter larger.
func TestBodySize(t *testing.T) {
	for _, n := range []int64{0, 1, 240 << 10, 240<<10 + 1, 1 << 20, 1<<20 + 5, 1e9, 1 << 40, 1<<62 - 1, 1<<63 - 1} {
		size := bodySize(n)
		least := new(big.Int).Add(big.NewInt(n), big.NewInt(16<<10))
		most := new(big.Int).Add(least, new(big.Int).Rsh(least, 2))
		if size.Cmp(least) < 0 || n > 256<<10 && size.Cmp(most) > 0 || n > 0 && size.Cmp(bodySize(n-1)) < 0 {
			t.Errorf("the body for %d bytes has %v", n, size)
		}
	}
	if size := bodySize(1 << 20); size.Int64() != 1280<<10 {
		t.Errorf("the body for 1MiB has %v", size)
	}
}

// TestKubernetes: the manifest's memory is the sum of the terms, at least the certificate's limit with the same flags,
// and its flags are those of the plan.
func TestKubernetes(t *testing.T) {
	for _, flags := range [][]string{{"--dim", "batch=1..8"}, {"--dim", "batch=64", "--calls", "5"},
		{"--dim", "batch=1..100000", "--calls", "2"}, {"--dim", "batch=16", "--budget", "700KiB"}} {
		flags = append(flags, "--threads", "2", "--cpu", "avx2", "--json")
		var plan planned
		var m plannedManifest
		r := weirRun(t, append([]string{"plan", digits}, flags...)...)
		k := weirRun(t, append([]string{"plan", digits, "--kubernetes"}, flags...)...)
		if r.code != 0 || k.code != 0 || json.Unmarshal([]byte(r.out), &plan) != nil ||
			json.Unmarshal([]byte(k.out), &m) != nil {
			t.Fatalf("%v: %d %s, %d %s", flags, r.code, r.err, k.code, k.err)
		}
		sum := int64(0)
		for _, term := range m.Terms {
			sum += term.Bytes
			if !strings.Contains(m.Manifest, fmt.Sprintf("%d  %s\n", term.Bytes, term.What)) {
				t.Errorf("%v: no comment has %+v", flags, term)
			}
		}
		if sum != m.Memory || m.Terms[0].Bytes != *plan.Limit || m.Memory < *plan.Limit+serverHeap {
			t.Errorf("%v: %d bytes for terms of %d, and a limit of %d", flags, m.Memory, sum, *plan.Limit)
		}
		for _, want := range []string{fmt.Sprintf("memory: \"%d\"", (sum+4095)/4096*4096), "--threads=2",
			fmt.Sprintf("--limit=%d\"", sum-serverProgram), fmt.Sprintf("--heap=%d\"", serverHeap), "on avx2 processors",
			"/v2/health/ready"} {
			if !strings.Contains(m.Manifest, want) {
				t.Errorf("%v: no %s in\n%s", flags, want, m.Manifest)
			}
		}
	}
	r := weirRun(t, "plan", digits, "--kubernetes=seldon", "--dim", "batch=3", "--storage", "s3://models/digits")
	if r.code != 0 || strings.Count(r.out, "\nkind: Server\n") != 1 || strings.Count(r.out, "\nkind: Model\n") != 1 ||
		!strings.Contains(r.out, `storageUri: "s3://models/digits"`) {
		t.Errorf("for Seldon: %d, %s%s", r.code, r.out, r.err)
	}
}

// TestServerNeeds: within the memory that serverNeeds returns, the server's shares admit the model while it is
// compiled, each body, each call, and all of them together; with a page less, one of them does not.
func TestServerNeeds(t *testing.T) {
	for _, a := range []weir.Asked{{Weights: 1 << 20}, {Weights: 700 << 20, Code: 1 << 20, Call: 1 << 20, Arguments: 4096},
		{Compiling: 90 << 20, Weights: 1 << 20, Call: 4096}, {Call: 300 << 20, Heap: 5 << 20},
		{Files: 10 << 20, Reclaimable: 8 << 20, Reading: 2 << 20, Call: 1 << 20, Arguments: 64 << 20}} {
		for _, n := range []int64{1, 2, 64} {
			for _, body := range []int64{256 << 10, 64 << 20} {
				bodies := n * body
				admits := func(limit int64) bool {
					fixed, call := a.Weights+a.Files-a.Reclaimable+a.Reading+a.Code, a.Call+a.Heap
					free := limit - fixed
					reserve := max(limit/8, call+call/5*3+16)
					return fixed <= limit-limit/8 && a.Compiling <= limit-reserve && bodies <= free/8 && call <= free-free/8*3 &&
						n*(call+a.Arguments)+2*bodies <= free
				}
				got := serverNeeds(a, big.NewInt(n), big.NewInt(bodies), big.NewInt(bodies)).Int64()
				if !admits(got) || admits(got-4096) {
					t.Errorf("%+v with %d calls and bodies of %d: %d bytes: %v, with a page less %v", a, n, body, got, admits(got),
						admits(got-4096))
				}
			}
		}
	}
}

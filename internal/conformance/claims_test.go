package conformance

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/npy"
	"github.com/weirml/weir/internal/values"
)

// exportedGraph is the graph of a .pt2 file: x @ w.
const exportedGraph = `{"graph_module":{"graph":{"inputs":[{"as_tensor":{"name":"p_w"}},{"as_tensor":{"name":"x"}}],` +
	`"outputs":[{"as_tensor":{"name":"y"}}],"nodes":[{"target":"torch.ops.aten.matmul.default","inputs":[{"name":"self",` +
	`"arg":{"as_tensor":{"name":"x"}}},{"name":"other","arg":{"as_tensor":{"name":"p_w"}}}],"outputs":[{"as_tensor":` +
	`{"name":"y"}}],"name":"y"}],"tensor_values":{"p_w":{"dtype":7,"sizes":[{"as_int":4},{"as_int":4}]},"x":{"dtype":7,` +
	`"sizes":[{"as_int":2},{"as_int":4}]},"y":{"dtype":7,"sizes":[{"as_int":2},{"as_int":4}]}}},"signature":` +
	`{"input_specs":[{"parameter":{"arg":{"name":"p_w"},"parameter_name":"w"}},{"user_input":{"arg":{"as_tensor":` +
	`{"name":"x"}}}}],"output_specs":[{"user_output":{"arg":{"as_tensor":{"name":"y"}}}}]}},"schema_version":{"major":8,` +
	`"minor":20},"torch_version":"2.15.0"}`

// exportedWeights lists the weights of a .pt2 file.
const exportedWeights = `{"config":{"w":{"path_name":"weight_0","use_pickle":false,"tensor_meta":{"dtype":7,"sizes":` +
	`[{"as_int":4},{"as_int":4}],"strides":[{"as_int":4},{"as_int":1}],"storage_offset":{"as_int":0}}}}}`

// member is a member of an archive.
type member struct {
	name string
	data []byte
}

// archives are valid files, as the members that they are packed from. A file that is no zip has one member without a
// name.
func archives(t *testing.T) map[string][]member {
	t.Helper()
	of := func(write func(b *bytes.Buffer) error) []byte {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	array := of(func(b *bytes.Buffer) error { return npy.Write(b, tensor.Of[float32](1, 2, 3)) })
	model, _, _ := doubling()
	outside := &wire.GraphProto{Name: "g", Input: []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(3))},
		Output: []*wire.ValueInfoProto{wire.TensorValue("y2", 1, wire.Size(3))}}
	for i, from := range []string{"x", "y0", "y1"} {
		outside.Node = append(outside.Node, &wire.NodeProto{OpType: "Add", Input: []string{from, fmt.Sprint("w", i)},
			Output: []string{fmt.Sprint("y", i)}})
		outside.Initializer = append(outside.Initializer, &wire.TensorProto{Name: fmt.Sprint("w", i), DataType: 1,
			Dims: []int64{3}, DataLocation: wire.LocationExternal, ExternalData: []*wire.StringStringEntryProto{
				{Key: "location", Value: "w.bin"}, {Key: "offset", Value: "1"}, {Key: "length", Value: "12"}}})
	}
	external := (&wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}},
		Graph: outside}).Marshal()
	table := `{"x":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"__metadata__":{"a":"b"}}`
	return map[string][]member{
		"pt2": {{"m/models/model.json", []byte(exportedGraph)}, {"m/data/weights/weight_0", make([]byte, 64)},
			{"m/data/weights/model_weights_config.json", []byte(exportedWeights)}},
		"npz": {{"x.npy", array}, {"z.npy", array}},
		"weir": {{"", of(func(b *bytes.Buffer) error {
			m, err := weir.LoadBytes(model)
			if err != nil {
				return err
			}
			defer m.Close()
			p, err := weir.Compile(context.Background(), m, weir.Options{Threads: 1})
			if err != nil {
				return err
			}
			defer p.Close()
			_, err = p.WriteTo(b)
			return err
		})}},
		"safetensors": {{"", append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(table))), table...),
			make([]byte, 12)...)}},
		"onnx": {{"", external}},
	}
}

var digits = regexp.MustCompile(`\d+`)

// mutant returns a file that is packed from members, changed or as they are.
func mutant(r *rand.Rand, members []member, changed bool) []byte {
	numbers := []string{"0", "1", "3", "8000", "120000", "4294967296", "9223372036854775807", "-1"}
	pieces := []string{`{},`, `[],`, `0,`, `{"as_none":true},`, `{"as_int":1},`, "\x00", "a"}
	list := append([]member(nil), members...)
	for range r.IntN(4) + 1 {
		if !changed {
			break
		}
		m := &list[r.IntN(len(list))]
		m.data = bytes.Clone(m.data)
		switch at := r.IntN(len(m.data) + 1); r.IntN(6) {
		case 0, 1: // some numbers of a text are others
			m.data = digits.ReplaceAllFunc(m.data, func(was []byte) []byte {
				if r.IntN(6) > 0 {
					return was
				}
				return []byte(numbers[r.IntN(len(numbers))])
			})
		case 2: // something repeated, which packs well
			piece := pieces[r.IntN(len(pieces))]
			more := strings.Repeat(piece, 1<<r.IntN(25)/len(piece))
			m.data = append(append(bytes.Clone(m.data[:at]), more...), m.data[at:]...)
		case 3: // after the first bracket, so that lists become long
			if i := bytes.IndexByte(m.data[at:], '['); i >= 0 {
				piece := pieces[r.IntN(5)]
				more := strings.Repeat(piece, 1<<r.IntN(23)/len(piece))
				m.data = append(append(bytes.Clone(m.data[:at+i+1]), more...), m.data[at+i+1:]...)
			}
		case 4:
			for range 1 + r.IntN(8) {
				if len(m.data) > 0 {
					m.data[r.IntN(len(m.data))] = []byte{0, 1, 0x7f, 0xff, byte(r.Uint32())}[r.IntN(5)]
				}
			}
		case 5:
			m.data = m.data[:at]
		}
	}
	if list[0].name == "" {
		return list[0].data
	}
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	for _, m := range list {
		w, err := z.CreateHeader(&zip.FileHeader{Name: m.name, Method: zip.Deflate * uint16(r.IntN(2))})
		if err == nil {
			w.Write(m.data) // into memory
		}
	}
	z.Close()
	data := file.Bytes()
	// sizes in the directory that lie
	if at := bytes.LastIndex(data, []byte("PK\x01\x02")); at >= 0 && changed && r.IntN(3) == 0 {
		binary.LittleEndian.PutUint32(data[at+20+4*r.IntN(2):], []uint32{0, 1, 1 << 20, 1 << 30, 1<<32 - 1}[r.IntN(5)])
	}
	return data
}

// TestClaims reads mutated archives. What the ledger and the process take for one stays within what its file may claim.
func TestClaims(t *testing.T) {
	count := number(t, "WEIR_CLAIMS", 250)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "w.bin"), make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	kinds := []string{"pt2", "npz", "weir", "safetensors", "onnx"}
	valid := archives(t)
	read := map[string]int{}
	for seed := range count {
		kind := kinds[seed%len(kinds)]
		r := rand.New(rand.NewPCG(uint64(seed/len(kinds)), 37))
		path := filepath.Join(dir, "file."+kind)
		changed := seed >= len(kinds) // the first of each kind is as it was
		data := mutant(r, valid[kind], changed)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := measured(t, path, int64(len(data))+4096, fmt.Sprintf("%s %d", kind, seed/len(kinds))); err == nil {
			read[kind]++
		} else if !changed {
			t.Errorf("%s as it was: %v", kind, err)
		}
	}
	t.Log("read:", read)
}

// measured reads a file, compiles it if it is a model, and compares what that takes with what the file may claim.
func measured(t *testing.T, path string, size int64, name string) error {
	t.Helper()
	debug.FreeOSMemory()
	mem.Trim()
	mem.ResetPeaks()
	counted := mem.ResetProcessPeak()
	ledger, process := mem.Usage(), mem.Process{}
	if counted {
		process, _ = mem.ProcessBytes()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err := opened(ctx, path)
	now := mem.Usage()
	most := mem.Claimable(size)
	if took := now.AllPeak - ledger.All; took > most+2*size {
		t.Errorf("%s: the ledger counts %d bytes for a file of %d, which may claim %d: %v", name, took, size, most, err)
	}
	// Go's heap grows to twice what lives in it before it is collected.
	if after, _ := mem.ProcessBytes(); counted && after.Peak-process.Resident > 2*most+4*size+32<<20 {
		t.Errorf("%s: the process takes %d bytes for a file of %d, which may claim %d: %v", name,
			after.Peak-process.Resident, size, most, err)
	}
	if now.All != ledger.All {
		t.Fatalf("%s: %v stay", name, mem.Live())
	}
	var e *weir.Error
	if err != nil && ctx.Err() == nil && (!errors.As(err, &e) || errors.Is(err, weir.ErrInternal)) {
		t.Errorf("%s: %v", name, err)
	}
	return err
}

// opened reads a file as a model, or as a value.
func opened(ctx context.Context, path string) error {
	switch filepath.Ext(path) {
	case ".npz", ".safetensors":
		in := weir.Info{Name: "x", DType: weir.F32, Shape: []weir.Extent{{Size: -1, Dim: "n"}}}
		v, err := (&values.Reader{Dims: weir.Dims{}}).Tensor(path, in)
		if err == nil {
			err = v.Close()
		}
		return err
	}
	m, err := weir.LoadContext(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := weir.Compile(ctx, m, weir.Options{Threads: 1})
	if err != nil {
		return err
	}
	return p.Close()
}

package onnx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestNodes runs ONNX's own test of each operator through the rules and the operators' interpreters. WEIR_ONNX_DATA
// names the folder that has node/, WEIR_ONNX_NODES, if set, a pattern of the tests to run. Refusals are counted, and
// are not failures.
func TestNodes(t *testing.T) { testNodes(t, false) }

// TestNodesSymbolic is TestNodes in which every extent above 1 of the inputs is a named dimension, one for each number.
func TestNodesSymbolic(t *testing.T) { testNodes(t, true) }

// testNodes runs the tests; symbolic names the extents.
func testNodes(t *testing.T, symbolic bool) {
	data := os.Getenv("WEIR_ONNX_DATA")
	if data == "" {
		t.Skip("WEIR_ONNX_DATA does not name ONNX's backend test data")
	}
	pattern := os.Getenv("WEIR_ONNX_NODES")
	if pattern == "" {
		pattern = "*"
	}
	var folders []string
	for _, p := range strings.Split(pattern, ",") {
		found, err := filepath.Glob(filepath.Join(data, "node", "test_"+p))
		if err != nil {
			t.Fatal(err)
		}
		folders = append(folders, found...)
	}
	refused := map[string]int{}
	passed := 0
	for _, folder := range folders {
		name := filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			err := runNode(folder, false, symbolic)
			if errors.Is(err, diag.ErrUnsupported) {
				err = runNode(folder, true, symbolic)
			}
			switch {
			case errors.Is(err, diag.ErrUnsupported), symbolic && errors.Is(err, diag.ErrInput) &&
				strings.Contains(err.Error(), " does not hold"):
				// Dimensions that must be equal are not broadcast: if one is 1 and the other is not, the run is refused
				// at its start.
				why := err.Error()
				refused[name+": "+why]++
			case err != nil:
				t.Error(err)
			default:
				passed++
			}
		})
	}
	lines := make([]string, 0, len(refused))
	for why := range refused {
		lines = append(lines, why)
	}
	sort.Strings(lines)
	t.Logf("%d passed, %d refused of %d\n%s", passed, len(lines), len(folders), strings.Join(lines, "\n"))
}

// runNode runs one test. If baked is true, all inputs except the first are constants, because these models have
// parameters where real models have constants: shapes, axes and sizes.
func runNode(folder string, baked, symbolic bool) (err error) {
	defer diag.Recover(&err, "running a node test")
	file, err := os.Open(filepath.Join(folder, "model.onnx"))
	if err != nil {
		return err
	}
	defer file.Close()
	block, err := mem.MapFile(file, "model.onnx")
	if err != nil {
		return err
	}
	m, err := Open(context.Background(), block, folder)
	if err != nil {
		return err
	}
	defer m.Close()
	for _, p := range append(slices.Clone(m.Inputs), m.Outputs...) {
		if p.Kind != convert.Tensor || p.Type.DType == dtype.String {
			return diag.Unsupportedf("%s is no tensor of numbers: conformance runs it, through the whole of Weir", p.Name)
		}
	}
	if strings.HasPrefix(filepath.Base(folder), "test_resize_downsample_scales") && strings.HasSuffix(folder,
		"_align_corners") {
		return diag.Unsupportedf("it expects the length before it is rounded, unlike the text: see conformance")
	}
	if strings.HasPrefix(filepath.Base(folder), "test_bernoulli") {
		return diag.Unsupportedf("another generator drew its numbers")
	}
	set := filepath.Join(folder, "test_data_set_0")
	given := map[string]*tensor.Tensor{}
	var kept []convert.Port
	for i, p := range m.Inputs {
		proto, err := readTensor(filepath.Join(set, fmt.Sprintf("input_%d.pb", i)))
		if err != nil {
			return err
		}
		if given[p.Name], _, err = proto.Tensor(); err != nil {
			return err
		}
		if baked && i > 0 {
			proto.Name = p.Name
			m.Proto.Graph.Initializer = append(m.Proto.Graph.Initializer, proto)
			continue
		}
		if symbolic {
			shape := ir.Constants(given[p.Name].Shape())
			for axis, size := range given[p.Name].Shape() {
				if size > 1 {
					shape[axis] = sym.Dim(fmt.Sprintf("d%d", size))
				}
			}
			p.Type.Shape = shape
		}
		kept = append(kept, p)
	}
	m.Inputs = kept
	module, signature, err := m.Build(nil)
	if err != nil {
		return err
	}
	if err := ir.Verify(module); err != nil {
		return err
	}
	var in []*tensor.Tensor
	for _, p := range kept {
		in = append(in, given[p.Name])
	}
	out, err := ir.Evaluate(module, in, nil)
	if err != nil {
		return err
	}
	for i := range signature.Results {
		proto, err := readTensor(filepath.Join(set, fmt.Sprintf("output_%d.pb", i)))
		if err != nil {
			return err
		}
		want, _, err := proto.Tensor()
		if err != nil {
			return err
		}
		if err := tensor.Compare(out[i], want, 1e-3, 1e-5); err != nil {
			return err
		}
	}
	return nil
}

// readTensor reads a file that has one tensor.
func readTensor(path string) (*wire.TensorProto, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return wire.ParseTensor(data)
}

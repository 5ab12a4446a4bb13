package nn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/safetensors"
	"github.com/weirml/weir/nn"
)

// written returns a fixture's network as an ONNX model. The batch is a named extent, unless several inputs share it.
func written(t *testing.T, name string, net nn.Layer) []byte {
	t.Helper()
	f := readFixture(t, name)
	_, p := open(t, net)
	f.load(t, p)
	var specs []array.Spec
	for i := 0; ; i++ {
		k := slices.IndexFunc(f.list, func(e safetensors.Entry) bool { return e.Name == fmt.Sprint("x", i) })
		if k < 0 {
			break
		}
		spec := array.Spec{Name: fmt.Sprint("x", i), DType: f.list[k].DType}
		for axis, e := range f.list[k].Shape {
			extent := weir.Extent{Size: e}
			if axis == 0 && (i == 0 || strings.HasPrefix(name, "attention_cross")) && name != "log_softmax" {
				extent = weir.Extent{Size: -1, Dim: "batch"}
			}
			spec.Shape = append(spec.Shape, extent)
		}
		specs = append(specs, spec)
	}
	if strings.Contains(name, "_states") || strings.HasPrefix(name, "decoder") || name == "rnn_relu" ||
		name == "attention_added" {
		for i := range specs { // the inputs share their batch
			for axis := range specs[i].Shape {
				specs[i].Shape[axis] = weir.Extent{Size: f.list[slices.IndexFunc(f.list, func(e safetensors.Entry) bool {
					return e.Name == specs[i].Name
				})].Shape[axis]}
			}
		}
	}
	var file bytes.Buffer
	if err := nn.WriteONNX(&file, net, p, specs...); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// TestONNX: the model that is written of each layer gives PyTorch's results when package weir runs it.
func TestONNX(t *testing.T) {
	for name, net := range torchNets {
		if torchTraining[name] {
			continue
		}
		t.Run(name, func(t *testing.T) {
			m, err := weir.LoadBytes(written(t, name, net))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			p, err := weir.Compile(context.Background(), m, weir.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			s := array.NewScope("inputs")
			defer s.Close()
			f, in := readFixture(t, name), weir.Inputs{}
			for i, a := range f.arrays(t, s, "x") {
				in[fmt.Sprint("x", i)] = a.Tensor()
			}
			r, err := p.Run(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for i := range p.Outputs() {
				want, _, _ := f.floats(fmt.Sprint("y", i))
				got, err := weir.Copy[float32](r.At(i))
				if err != nil {
					t.Fatal(err)
				}
				near(t, fmt.Sprint("result ", i), got, want)
			}
		})
	}
}

// TestOnnxruntime: ONNX's checker accepts the written models, and onnxruntime computes PyTorch's results.
func TestOnnxruntime(t *testing.T) {
	python := os.Getenv("WEIR_PYTHON")
	if python == "" {
		t.Skip("WEIR_PYTHON names no Python with the onnx package")
	}
	folder, count := t.TempDir(), 0
	for name, net := range torchNets {
		if torchTraining[name] {
			continue
		}
		count++
		if err := os.WriteFile(filepath.Join(folder, name+".onnx"), written(t, name, net), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(python, "testdata/check_onnx.py", folder, "testdata/torch").CombinedOutput()
	t.Logf("%s", out)
	if strings.Contains(string(out), "no onnxruntime") {
		t.Skip("there is no onnxruntime")
	}
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("%d models", count)) {
		t.Error(err)
	}
}

// TestONNXInputs: without specs, WriteONNX takes the input from the first layer, with a named batch. A first layer that
// does not determine its input, and an operation that ONNX does not have, are errors.
func TestONNXInputs(t *testing.T) {
	for _, net := range []nn.Layer{nn.Sequential(nn.Linear(3, 2), nn.Relu), nn.Embedding(5, 3), nn.LSTM(3, 4),
		nn.Conv2d(2, 3, 3)} {
		_, p := open(t, net)
		var file bytes.Buffer
		if err := nn.WriteONNX(&file, net, p); err != nil {
			t.Errorf("%v: %v", net, err)
			continue
		}
		m, err := weir.LoadBytes(file.Bytes())
		if err != nil {
			t.Errorf("%v: %v", net, err)
			continue
		}
		if in := m.Inputs(); in[0].Shape[0].Dim != "batch" {
			t.Errorf("%v: %v", net, in)
		}
		m.Close()
	}
	_, p := open(t, nn.Relu)
	if err := nn.WriteONNX(&bytes.Buffer{}, nn.Relu, p); err == nil || !strings.Contains(err.Error(), "SpecOf") {
		t.Error(err)
	}
	bad := nn.Sequential(nn.Linear(2, 2), nn.Lambda(func(c *nn.Context, x *array.Array) *array.Array {
		return c.Atan2(x, x)
	}))
	_, q := open(t, bad)
	if err := nn.WriteONNX(&bytes.Buffer{}, bad, q); !errors.Is(err, weir.ErrUnsupported) ||
		!strings.Contains(err.Error(), "atan2") {
		t.Error(err)
	}
}

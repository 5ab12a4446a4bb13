package train

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
)

// told is the content of told.json, which bench/training/finetune.py writes: PyTorch's losses and the time of a step,
// for training of the last layer (Head) and of all layers (Whole).
type told struct {
	Size        int
	Head, Whole struct {
		Losses       []float64
		Milliseconds float64
	}
}

// readAs decodes a file of little-endian numbers into a slice.
func readAs(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		_, err = binary.Decode(data, binary.LittleEndian, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFinetune trains MobileNetV2's last layer, and all of it, as PyTorch does. WEIR_FINETUNE is the folder that
// bench/training/finetune.py made; finetune_check.py runs the models that the test writes there in onnxruntime.
func TestFinetune(t *testing.T) {
	folder := os.Getenv("WEIR_FINETUNE")
	if folder == "" {
		t.Skip("WEIR_FINETUNE names no folder of bench/training/finetune.py")
	}
	var want told
	data, err := os.ReadFile(filepath.Join(folder, "told.json"))
	if err == nil {
		err = json.Unmarshal(data, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]float32, 8*3*want.Size*want.Size), make([]int32, 8)
	readAs(t, filepath.Join(folder, "x.bin"), x)
	readAs(t, filepath.Join(folder, "y.bin"), y)
	s := array.NewScope("test")
	defer s.Close()
	batch := Batch{X: array.From(s, x, 8, 3, want.Size, want.Size), Y: array.From(s, y)}
	for _, exporter := range []string{"script", "dynamo"} {
		for what, w := range map[string]struct {
			losses []float64
			ms     float64
		}{"head": {want.Head.Losses, want.Head.Milliseconds}, "whole": {want.Whole.Losses, want.Whole.Milliseconds}} {
			t.Run(exporter+"-"+what, func(t *testing.T) { finetune(t, folder, exporter, what, batch, w.losses, w.ms) })
		}
	}
}

// arguments returns the inputs of a step's program.
func arguments(tr *Trainer, b Batch) weir.Inputs {
	in, p := weir.Inputs{}, tr.update
	var list []*array.Array
	for _, states := range [][]state{tr.states, tr.frozen} {
		for _, s := range states {
			list = append(list, s.array)
		}
	}
	for i, a := range append(append(list, tr.scalars...), b.arrays()...) {
		in[p.inputs[i].Name] = a.Tensor()
		if i < len(tr.states) {
			in[p.inputs[i].Name] = weir.Update(a.Tensor())
		}
	}
	return in
}

// finetune trains a model of an exporter for 15 steps and compares the losses with PyTorch's. It writes the trained
// model and its prediction into the folder.
func finetune(t *testing.T, folder, exporter, what string, batch Batch, losses []float64, ms float64) {
	net, err := FromONNX(filepath.Join(folder, exporter+".onnx"), array.ModelOptions{Untie: true})
	if err != nil {
		t.Fatal(err)
	}
	p := nn.Init(net, 0)
	defer p.Close()
	if n := p.Count(); n != 2236682 { // 2,223,872 of MobileNetV2 without its head, and 12,810
		t.Errorf("%d parameters", n)
	}
	if what == "head" {
		if err := p.Freeze("*"); err == nil {
			err = p.Unfreeze("classifier.*")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tr, err := New(net, p, CrossEntropy, SGD(0.01), Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	least := time.Hour
	for i := range 15 {
		begin := time.Now()
		m, err := tr.Step(context.Background(), batch)
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, time.Since(begin))
		if i < len(losses) && math.Abs(m.Loss-losses[i]) > 1e-3 {
			t.Errorf("step %d: the loss is %v, PyTorch's %v", i, m.Loss, losses[i])
		}
	}
	peak, err := tr.Memory().Peak(1, weir.Dims{"batch": 8})
	if err != nil {
		t.Fatal(err)
	}
	measured, err := tr.update.compiled.Program().Measure(context.Background(), arguments(tr, batch))
	if err != nil {
		t.Fatal(err)
	}
	own := float64(least) / 1e6
	t.Logf("%.1f ms, PyTorch %.1f ms: %.2f", own, ms, own/ms)
	t.Logf("peak %d bytes, measured %d, states %d", peak, measured.Peak(1), tr.StateBytes())
	f, err := os.Create(filepath.Join(folder, strings.Join([]string{"trained", exporter, what}, "_")+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := net.WriteONNX(f, p); err != nil {
		t.Fatal(err)
	}
	y, err := tr.Predict(context.Background(), batch.X)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Name()+".bin", y.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

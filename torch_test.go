package weir_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir"
)

// torchTensor is a tensor as testdata/torch/make.py tells it.
type torchTensor struct {
	Shape  []int
	Values []float64
}

// as is the tensor of the type that an input has.
func (x torchTensor) as(t *testing.T, dt weir.DType) *weir.Tensor {
	t.Helper()
	shape := append([]int{}, x.Shape...)
	switch dt {
	case weir.I64:
		list := make([]int64, len(x.Values))
		for i, v := range x.Values {
			list[i] = int64(v)
		}
		return must[*weir.Tensor](t)(weir.FromSlice(list, shape...))
	case weir.F32:
		list := make([]float32, len(x.Values))
		for i, v := range x.Values {
			list[i] = float32(v)
		}
		return must[*weir.Tensor](t)(weir.FromSlice(list, shape...))
	}
	t.Fatalf("an input of type %v", dt)
	return nil
}

// TestTorchFiles runs files of torch.export's beside what torch computed.
func TestTorchFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/torch/*.pt2")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var want struct{ Inputs, Outputs []torchTensor }
			text, err := os.ReadFile(strings.TrimSuffix(file, ".pt2") + ".json")
			if err == nil {
				err = json.Unmarshal(text, &want)
			}
			if err != nil {
				t.Fatal(err)
			}
			data := must[[]byte](t)(os.ReadFile(file))
			for _, load := range []func() (*weir.Model, error){
				func() (*weir.Model, error) { return weir.Load(file) },
				func() (*weir.Model, error) { return weir.LoadFS(os.DirFS("."), filepath.ToSlash(file)) },
				func() (*weir.Model, error) { return weir.LoadBytes(data) },
			} {
				m := must[*weir.Model](t)(load())
				p, err := weir.Compile(context.Background(), m, weir.Options{})
				if err != nil {
					t.Fatal(err)
				}
				m.Close() // the program keeps what it reads of the file
				in := weir.Inputs{}
				for i, info := range p.Inputs() {
					in[info.Name] = want.Inputs[i].as(t, info.DType)
				}
				seen, err := p.Measure(context.Background(), in)
				if err != nil {
					t.Fatal(err)
				}
				d := must[weir.Dims](t)(p.Bind(in))
				if peak := must[int64](t)(p.Memory().Peak(1, d)); peak != seen.Peak(1) {
					t.Errorf("%d bytes are predicted, %d measured", peak, seen.Peak(1))
				}
				r := must[*weir.Results](t)(p.Run(context.Background(), in))
				for i, out := range want.Outputs {
					got := must[[]float32](t)(weir.Copy[float32](r.At(i)))
					if fmt.Sprint(r.At(i).Shape()) != fmt.Sprint(out.Shape) {
						t.Fatalf("output %d is %v, not %v", i, r.At(i).Shape(), out.Shape)
					}
					for k, v := range out.Values {
						if math.Abs(float64(got[k])-v) > 1e-5*max(1, math.Abs(v)) {
							t.Fatalf("output %d: element %d is %v, not %v", i, k, got[k], v)
						}
					}
				}
				if err := errors.Join(r.Close(), p.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestTorchDamaged changes bytes of files: each is read, or refused by a typed error that is no fault of ours.
func TestTorchDamaged(t *testing.T) {
	files, _ := filepath.Glob("testdata/torch/*.pt2")
	r := rand.New(rand.NewSource(4))
	for _, file := range files {
		whole := must[[]byte](t)(os.ReadFile(file))
		for n := range 150 {
			data := bytes.Clone(whole)
			switch n % 4 {
			case 0: // a byte anywhere
				data[r.Intn(len(data))] ^= byte(1 << r.Intn(8))
			case 1: // a digit becomes another
				for range 20 {
					if at := r.Intn(len(data)); data[at] >= '0' && data[at] <= '9' {
						data[at] = '0' + byte(r.Intn(10))
					}
				}
			case 2: // it is cut short
				data = data[:r.Intn(len(data))]
			case 3: // a word of the graph becomes another
				words := []string{"as_tensor", "as_int", "p_", "aten.", "sizes", "strides", "weight_0", "user_input", "parameter", "view", "s77", "min_val"}
				from, to := words[r.Intn(len(words))], words[r.Intn(len(words))]
				data = bytes.Replace(data, []byte(from), []byte((to + strings.Repeat(" ", len(from)))[:len(from)]), 1+r.Intn(5))
			}
			m, err := weir.LoadBytes(data)
			if err == nil {
				var p *weir.Program
				if p, err = weir.Compile(context.Background(), m, weir.Options{}); err == nil {
					p.Close()
				}
				m.Close()
			}
			if err != nil && (errors.Is(err, weir.ErrInternal) || !errors.Is(err, weir.ErrInput) && !errors.Is(err, weir.ErrUnsupported) && !errors.Is(err, weir.ErrMemory)) {
				t.Errorf("%s, change %d: %v", file, n, err)
			}
		}
	}
	if held := weir.Usage(); held.Files != 0 {
		t.Errorf("%d bytes of files are held", held.Files)
	}
}

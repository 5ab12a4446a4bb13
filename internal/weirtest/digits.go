package weirtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirml/weir"
)

// Scored returns the scores of a run of the digits program on fixed input.
func Scored(t *testing.T, p *weir.Program) []float32 {
	t.Helper()
	pixels := make([]float32, 8*8)
	for i := range pixels {
		pixels[i] = float32(i%5) / 5
	}
	x := Must[*weir.Tensor](t)(weir.FromSlice(pixels, 1, 1, 8, 8))
	r := Must[*weir.Results](t)(p.Run(t.Context(), weir.Inputs{p.Inputs()[0].Name: x}))
	defer r.Close()
	return Copy[float32](t, r.At(0))
}

// CompileDigits compiles the digits model.
func CompileDigits(t *testing.T, o weir.Options) *weir.Program {
	t.Helper()
	m, err := weir.LoadBytes(Digits(t))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Picture returns a batch of blank pictures for the digits model.
func Picture(t *testing.T, batch int) *weir.Tensor {
	t.Helper()
	x, err := weir.New(weir.F32, batch, 1, 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// DigitsFile writes the digits model into a file of the test's own.
func DigitsFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "digits.onnx")
	if err := os.WriteFile(path, Digits(t), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// Digits returns the file of examples/digits' model, which takes pictures of 8 × 8.
func Digits(t testing.TB) []byte {
	t.Helper()
	model, err := os.ReadFile("examples/digits/data/digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	return model
}

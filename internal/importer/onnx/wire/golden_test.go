package wire_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/importer/onnx/wire/malformedtest"
)

// TestGolden compares files that the Python package onnx wrote with the content that onnx reads in them
// (testdata/make.py): as the files are, and after this package has read and written them.
func TestGolden(t *testing.T) {
	for name, file := range map[string]struct {
		schema *wire.Message
		again  func(data []byte) ([]byte, error)
	}{
		"everything.onnx": {wire.Model(), rewrite(wire.ParseModel)},
		"sequence.pb":     {wire.Sequence(), rewrite(wire.ParseSequence)},
		"mapsequence.pb":  {wire.Sequence(), rewrite(wire.ParseSequence)},
		"map.pb":          {wire.Map(), rewrite(wire.ParseMap)},
		"stringmap.pb":    {wire.Map(), rewrite(wire.ParseMap)},
		"optional.pb":     {wire.Optional(), rewrite(wire.ParseOptional)},
		"nothing.pb":      {wire.Optional(), rewrite(wire.ParseOptional)},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			golden, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			again, err := file.again(data)
			if err != nil {
				t.Fatal(err)
			}
			for what, data := range map[string][]byte{"the file": data, "the file written again": again} {
				got, err := malformedtest.Text(file.schema, data)
				if err != nil {
					t.Fatal(err)
				}
				lines, want := strings.Split(got, "\n"), strings.Split(string(golden), "\n")
				for i := range min(len(lines), len(want)) {
					if lines[i] != want[i] {
						t.Fatalf("%s: line %d is\n%s\nwant\n%s", what, i+1, lines[i], want[i])
					}
				}
				if len(lines) != len(want) {
					t.Fatalf("%s: %d lines, want %d", what, len(lines), len(want))
				}
			}
		})
	}
}

// rewrite returns a function that parses a message and writes it again.
func rewrite[M interface{ Marshal() []byte }](parse func([]byte) (M, error)) func([]byte) ([]byte, error) {
	return func(data []byte) ([]byte, error) {
		m, err := parse(data)
		if err != nil {
			return nil, err
		}
		return m.Marshal(), nil
	}
}

// TestGoldenTensors compares the two ways in which the file holds each element type.
func TestGoldenTensors(t *testing.T) {
	data, err := os.ReadFile("testdata/everything.onnx")
	if err != nil {
		t.Fatal(err)
	}
	m, err := wire.ParseModel(data)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*wire.TensorProto{}
	for _, p := range m.Graph.Initializer {
		byName[p.Name] = p
	}
	pairs := 0
	for name, p := range byName {
		raw := byName["raw_"+name]
		if raw == nil {
			continue
		}
		a, _, err := p.Tensor()
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := raw.Tensor()
		if err != nil {
			t.Fatal(err)
		}
		if !a.Equal(b) || a.Len() != 5 || a.Float(0) == a.Float(1) {
			t.Errorf("%s: %v and %v", name, a, b)
		}
		pairs++
	}
	if pairs != 25 {
		t.Errorf("%d pairs", pairs)
	}
	if m.TrainingInfo != 1 || m.Graph.Input[0].Type.TensorType.Shape.Dim[0].Param != "batch" {
		t.Error("the model is not the one of make.py")
	}
}

package wire_test

import (
	"bytes"
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/importer/onnx/wire/malformedtest"
)

// FuzzModel looks for a panic, for a model that does not survive the writer, and for tensors that cannot be asked.
func FuzzModel(f *testing.F) {
	data := sample().Marshal()
	f.Add(data)
	for c := range malformedtest.Fields(wire.Model(), data, malformedtest.Options{}) {
		if len(c.Data) < 4096 {
			f.Add(c.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := wire.ParseModel(data)
		if err != nil {
			return
		}
		first := m.Marshal()
		again, err := wire.ParseModel(first)
		if err != nil {
			t.Fatalf("the writer's bytes: %v", err)
		}
		if !bytes.Equal(again.Marshal(), first) {
			t.Fatal("the second round trip differs from the first")
		}
		for _, p := range modelTensors(m) {
			checkTensor(t, p)
		}
	})
}

// FuzzTensor decodes tensors; the ways to their data must agree.
func FuzzTensor(f *testing.F) {
	for _, p := range modelTensors(sample()) {
		f.Add(p.Marshal())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := wire.ParseTensor(data); err == nil {
			checkTensor(t, p)
		}
		wire.ParseSequence(data)
		wire.ParseOptional(data)
		wire.ParseMap(data)
	})
}

// checkTensor reads a tensor in all ways, which must agree, and writes it again.
func checkTensor(t *testing.T, p *wire.TensorProto) {
	if p == nil {
		return
	}
	p.ExternalEntry()
	v, _, err := p.Tensor()
	if err != nil || p.DataType == wire.StringType {
		return
	}
	dst := make([]byte, len(v.Bytes()))
	if err := p.ReadInto(dst); err != nil {
		t.Fatalf("Tensor decodes and ReadInto does not: %v", err)
	}
	if !bytes.Equal(dst, v.Bytes()) {
		t.Fatal("Tensor and ReadInto differ")
	}
	back, _, err := wire.FromTensor("", v).Tensor()
	if err != nil || !back.Equal(v) {
		t.Fatalf("the round trip gave %v", err)
	}
}

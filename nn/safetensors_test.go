package nn_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/nn"
)

// TestSafetensors: a written store is read into another without a difference, and the file has PyTorch's layout. A file
// that is cut anywhere, or has a byte too many, is an error and changes nothing.
func TestSafetensors(t *testing.T) {
	net := nn.Sequential(nn.Linear(3, 2), nn.Relu, nn.Linear(2, 4, nn.NoBias))
	_, p := open(t, net)
	var file bytes.Buffer
	if err := p.WriteSafetensors(&file); err != nil {
		t.Fatal(err)
	}
	data := file.Bytes()
	head := string(data[8 : 8+binary.LittleEndian.Uint64(data)])
	if !strings.Contains(head, `"0.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}`) {
		t.Errorf("the table is %s", head)
	}
	q := nn.Init(net, 99)
	defer q.Close()
	if err := q.ReadSafetensors(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	for _, name := range p.Names() {
		if !slices.Equal(elements(t, p.Get(name)), elements(t, q.Get(name))) {
			t.Errorf("%s is not what was written", name)
		}
	}
	// A file that is cut at any byte is refused.
	before := elements(t, q.Get("0.weight"))
	for n := range data {
		if q.ReadSafetensors(bytes.NewReader(data[:n])) == nil {
			t.Fatalf("%d bytes of %d are a file", n, len(data))
		}
	}
	if q.ReadSafetensors(bytes.NewReader(append(slices.Clone(data), 0))) == nil {
		t.Error("a byte too many is accepted")
	}
	if !slices.Equal(before, elements(t, q.Get("0.weight"))) {
		t.Error("a broken file changed the store")
	}
}

// TestSafetensorsDifferences: names that only the file or only the store has are an error that lists them, or with
// Lenient a result. Another shape is always an error. Under selects tensors by prefix, and another float type is
// converted.
func TestSafetensorsDifferences(t *testing.T) {
	_, p := open(t, nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)))
	var file bytes.Buffer
	if err := p.WriteSafetensors(&file); err != nil {
		t.Fatal(err)
	}
	read := func(net nn.Layer, o ...nn.ReadOption) (*nn.Params, error) {
		q := nn.Init(net, 99)
		t.Cleanup(func() { q.Close() })
		return q, q.ReadSafetensors(bytes.NewReader(file.Bytes()), o...)
	}
	_, err := read(nn.Sequential(nn.Linear(3, 2), nn.Relu, nn.Linear(2, 2)))
	if err == nil || !strings.Contains(err.Error(), "2.weight, 2.bias") ||
		!strings.Contains(err.Error(), "1.weight, 1.bias") {
		t.Error(err)
	}
	var m nn.Missing
	if _, err = read(nn.Sequential(nn.Linear(3, 2), nn.Relu, nn.Linear(2, 2)), nn.Lenient(&m)); err != nil {
		t.Error(err)
	}
	if !slices.Equal(m.InFile, []string{"2.weight", "2.bias"}) ||
		!slices.Equal(m.InStore, []string{"1.bias", "1.weight"}) && !slices.Equal(m.InStore, []string{"1.weight", "1.bias"}) {
		t.Errorf("%+v", m)
	}
	if _, err = read(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)), nn.Lenient(&m)); err == nil ||
		!strings.Contains(err.Error(), "0.weight") {
		t.Error(err)
	}
	if q, err := read(nn.Linear(2, 2), nn.Under("1.")); err != nil ||
		!slices.Equal(elements(t, q.Get("weight")), elements(t, p.Get("1.weight"))) {
		t.Error(err)
	}
	q, err := read(nn.Sequential(nn.Linear(3, 2, nn.Type(weir.F64)), nn.Linear(2, 2)))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := q.Get("0.weight").String(), "f64[3,2]"; got != want {
		t.Error(got)
	}
}

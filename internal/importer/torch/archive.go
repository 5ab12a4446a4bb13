// Package torch reads the files of torch.export: .pt2 files of torch 2.9 and later, and their graph alone as JSON, as
// torch.compile provides it. A rule for each operator of ATen builds ir; see docs/torch.md.
//
// A .pt2 file is a zip archive whose records are not compressed: the graph as JSON, and weights as raw storages, which
// are read in place in the mapped file. Nothing in it is executed, and no pickle is read.
package torch

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// Limits of a file.
const (
	mostRecords = 1 << 20 // in an archive
	mostNodes   = 1 << 20
)

// IsArchive reports whether a file with this head is a zip archive.
func IsArchive(head []byte) bool { return bytes.HasPrefix(head, []byte("PK\x03\x04")) }

// IsGraph reports whether a file with this head may be a graph as JSON alone.
func IsGraph(head []byte) bool { return bytes.HasPrefix(head, []byte(`{"graph_m`)) }

// archive is a .pt2 file.
type archive struct {
	claim   *mem.Claim
	data    []byte
	root    string // the folder of all records, with a slash
	records map[string]*zip.File
	folders map[string]map[string]payload // the entries of the lists of weights and constants, by folder and name
	tensors map[string]*tensor.Tensor     // the contents that were read, by name
}

// Parse builds the module of a .pt2 file in memory; data must stay unchanged, and the file's claim open, as long as the
// module is used. initial has the first values of its states, the buffers that the model updates, by their inputs'
// names. Parse ends with the error of the claim's context.
func Parse(claim *mem.Claim, data []byte) (m *ir.Module, initial map[string]*tensor.Tensor, err error) {
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, nil, diag.Inputf("no zip archive: %v", err).WithCause(err)
	}
	if len(r.File) > mostRecords {
		return nil, nil, diag.Inputf("an archive of %d records; there may be %d", len(r.File), mostRecords)
	}
	a := &archive{claim: claim, data: data, records: map[string]*zip.File{}, folders: map[string]map[string]payload{},
		tensors: map[string]*tensor.Tensor{}}
	for i, f := range r.File {
		if root, _, ok := strings.Cut(f.Name, "/"); i == 0 && ok && root != "models" && root != "data" {
			a.root = root + "/"
		}
		if a.records[f.Name] != nil {
			return nil, nil, diag.Inputf("record %q is in the archive twice", f.Name)
		}
		a.records[f.Name] = f
	}
	graph, done, err := a.read("models/model.json")
	if err != nil {
		return nil, nil, a.unsupportedKind(err)
	}
	program, err := parseProgram(claim, graph)
	done()
	if err != nil {
		return nil, nil, err
	}
	program.record = a.recordOf
	return build(claim, program, a.constant)
}

// recordOf returns the name of the record with the contents of a parameter, buffer or constant; "" if it is not known.
func (a *archive) recordOf(name string) string {
	for _, folder := range []string{"weights", "constants"} {
		if list, err := a.listed(folder); err == nil && list[name].Path != "" {
			return folder + "/" + list[name].Path
		}
	}
	return ""
}

// ParseGraph builds the module of an exported program as JSON alone, which has no weights and no constants. It ends
// with the error of the claim's context.
func ParseGraph(claim *mem.Claim, data []byte) (m *ir.Module, initial map[string]*tensor.Tensor, err error) {
	program, err := parseProgram(claim, data)
	if err != nil {
		return nil, nil, err
	}
	return build(claim, program, func(name string) (*tensor.Tensor, error) {
		return nil, diag.Inputf("the graph has no contents of %s", name).AtTensor(name)
	})
}

// unsupportedKind returns the error for an archive without a supported program: err, unless its records reveal the kind
// of file.
func (a *archive) unsupportedKind(err error) error {
	for name := range a.records {
		switch {
		case strings.HasSuffix(name, "serialized_exported_program.json"):
			return diag.Unsupportedf("a file of torch 2.7 or earlier, whose weights are pickled").
				WithFix("save it with torch 2.9 or later")
		case strings.Contains(name, "data/aotinductor/"):
			return diag.Unsupportedf("a package of AOTInductor, which holds machine code and no graph").
				WithFix("save the exported program by torch.export.save")
		case strings.HasSuffix(name, "data.pkl"):
			return diag.Unsupportedf("a file of torch.save, which is pickled").
				WithFix("export the model by torch.export.export, and save it by torch.export.save")
		}
	}
	return err
}

// record returns a record's bytes, a slice of the file.
func (a *archive) record(name string) ([]byte, error) {
	f := a.records[a.root+name]
	if f == nil {
		return nil, diag.Inputf("the archive has no record %q", a.root+name)
	}
	if f.Method != zip.Store {
		return nil, diag.Unsupportedf("record %q is compressed", f.Name).
			WithFix("save the model by torch.export.save, which stores records as they are")
	}
	at, err := f.DataOffset()
	if err != nil {
		return nil, diag.Inputf("record %q: %v", f.Name, err).WithCause(err)
	}
	size := f.UncompressedSize64
	if f.CompressedSize64 != size || at < 0 || uint64(at) > uint64(len(a.data)) || size > uint64(len(a.data))-uint64(at) {
		return nil, diag.Inputf("record %q of %d bytes at %d is not within the file's %d", f.Name, size, at, len(a.data))
	}
	return a.data[at : uint64(at)+size : uint64(at)+size], nil
}

// read returns the bytes of a record of JSON, which may be compressed, until done is called.
func (a *archive) read(name string) (data []byte, done func(), err error) {
	f := a.records[a.root+name]
	if f == nil || f.Method == zip.Store {
		data, err = a.record(name)
		return data, func() {}, err
	}
	r, err := f.Open()
	if err != nil {
		return nil, nil, diag.Inputf("record %q: %v", f.Name, err).WithCause(err)
	}
	defer r.Close()
	block, err := a.claim.Unpack(r, f.Name, f.UncompressedSize64)
	if err != nil {
		return nil, nil, err
	}
	return block.Bytes(), func() { block.Close() }, nil
}

// payload is the location of a weight or constant.
type payload struct {
	Path   string      `json:"path_name"`
	Pickle bool        `json:"use_pickle"`
	Meta   *tensorMeta `json:"tensor_meta"`
}

// constant returns the contents of a parameter, buffer or constant.
func (a *archive) constant(name string) (*tensor.Tensor, error) {
	for _, folder := range []string{"weights", "constants"} {
		list, err := a.listed(folder)
		if err != nil {
			return nil, err
		}
		if p, ok := list[name]; ok {
			if a.tensors[name] == nil {
				if a.tensors[name], err = a.tensor(name, "data/"+folder+"/", p); err != nil {
					return nil, err
				}
			}
			return a.tensors[name], nil
		}
	}
	if a.records[a.root+"data/weights/model.pt"] != nil {
		return nil, diag.Unsupportedf("a file of torch 2.8, whose weights are pickled").
			WithFix("save it with torch 2.9 or later")
	}
	return nil, diag.Inputf("the archive has no contents of %s", name).AtTensor(name)
}

// listed returns the payloads that a folder lists; none if the archive has no such list. It reads the list once.
func (a *archive) listed(folder string) (map[string]payload, error) {
	if list, ok := a.folders[folder]; ok {
		return list, nil
	}
	var config struct {
		Config map[string]payload `json:"config"`
	}
	file := "data/" + folder + "/model_" + folder + "_config.json"
	if a.records[a.root+file] != nil {
		text, done, err := a.read(file)
		if err != nil {
			return nil, err
		}
		defer done()
		if err := a.claim.JSON(text); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &config); err != nil {
			return nil, diag.Inputf("the list of %s: %v", folder, err)
		}
	}
	a.folders[folder] = config.Config
	return config.Config, nil
}

// tensor returns a view of a storage. A view in row-major order is a slice of the file; any other is copied, into a
// block of the claim. Either way its bytes are charged: strides of 0, and names that share a storage, claim more than
// the file has.
func (a *archive) tensor(name, folder string, p payload) (*tensor.Tensor, error) {
	if p.Pickle {
		return nil, diag.Unsupportedf("%s is pickled: it is no plain tensor", name).AtTensor(name).
			WithFix("convert the model's weights to plain tensors")
	}
	if p.Meta == nil {
		return nil, diag.Inputf("%s has no type and shape", name).AtTensor(name)
	}
	t, err := p.Meta.view(name)
	if err != nil {
		return nil, err
	}
	storage := []byte{}
	if t.count > 0 {
		if storage, err = a.record(folder + p.Path); err != nil {
			return nil, err
		}
	}
	return t.tensor(a.claim, storage)
}

// view is a tensor within a storage.
type view struct {
	name                string
	dt                  dtype.DType
	sizes, strides      []int64
	offset, count, size int64
}

// view checks the description of a tensor and returns the view that it describes.
func (m *tensorMeta) view(name string) (*view, error) {
	fault := func(format string, args ...any) error {
		return diag.Inputf("%s", fmt.Sprintf(format, args...)).AtTensor(name)
	}
	dt, ok := scalarTypes[m.DType]
	if !ok {
		return nil, diag.Unsupportedf("the element type %d", m.DType).AtTensor(name)
	}
	v := &view{name: name, dt: dt, size: int64(max(1, dt.Size()))}
	for _, list := range []struct {
		from []symInt
		to   *[]int64
	}{{m.Sizes, &v.sizes}, {m.Strides, &v.strides}} {
		for _, e := range list.from {
			if e.Int == nil || *e.Int < 0 {
				return nil, fault("an extent or a stride is no number, or negative")
			}
			*list.to = append(*list.to, *e.Int)
		}
	}
	if m.StorageOffset.Int != nil {
		v.offset = *m.StorageOffset.Int
	}
	if len(v.strides) != len(v.sizes) || v.offset < 0 {
		return nil, fault("%d extents, %d strides, offset %d", len(v.sizes), len(v.strides), v.offset)
	}
	var err error
	v.count, err = tensor.Count(v.sizes)
	return v, err
}

// tensor returns the tensor within a storage.
func (v *view) tensor(claim *mem.Claim, storage []byte) (*tensor.Tensor, error) {
	if v.count == 0 {
		return tensor.New(v.dt, v.sizes...)
	}
	end, beyond := uint64(v.offset), false
	for axis, size := range v.sizes {
		high, far := bits.Mul64(uint64(size-1), uint64(v.strides[axis]))
		var over uint64
		end, over = bits.Add64(end, far, 0)
		beyond = beyond || high != 0 || over != 0
	}
	if beyond || end >= uint64(len(storage))/uint64(v.size) {
		return nil, diag.Inputf("%s%v with strides %v at %d does not lie within its storage of %d bytes", v.dt, v.sizes,
			v.strides, v.offset, len(storage)).AtTensor(v.name)
	}
	bytes, err := v.dt.Bytes(v.count)
	if err != nil {
		return nil, err
	}
	if tensor.RowMajor(v.sizes, v.strides) {
		if err := claim.TakeFor(v.name, bytes); err != nil {
			return nil, err
		}
		return tensor.Over(v.dt, v.sizes, storage[v.offset*v.size:(v.offset+v.count)*v.size])
	}
	copied, err := claim.Map(mem.Weights, v.name, bytes)
	if err != nil {
		return nil, err
	}
	tensor.Gather(copied.Bytes(), storage, v.size, v.sizes, v.strides, v.offset)
	return tensor.Over(v.dt, v.sizes, copied.Bytes())
}

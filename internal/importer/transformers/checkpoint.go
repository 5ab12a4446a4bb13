package transformers

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/safetensors"
	"github.com/weirml/weir/internal/tensor"
)

// checkpoint is the tensors of a model, in one safetensors file or several, as views of the mapped files.
type checkpoint struct {
	folder  *Folder
	entries map[string]entry
	read    map[string]*tensor.Tensor
}

// entry is a tensor of a file.
type entry struct {
	safetensors.Entry
	file string
	data []byte // the file's elements
}

// checkpointIn reads the tables of the safetensors files in a folder of the model: model.safetensors, or the parts
// that model.safetensors.index.json lists.
func checkpointIn(f *Folder, within string) (*checkpoint, error) {
	c := &checkpoint{folder: f, entries: map[string]entry{}, read: map[string]*tensor.Tensor{}}
	whole := path.Join(within, "model.safetensors")
	if f.Has(whole) {
		return c, c.add(whole)
	}
	var index struct {
		Parts map[string]string `json:"weight_map"`
	}
	found, err := f.JSON(whole+".index.json", &index)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, diag.Inputf("the folder has no model.safetensors").AtFile(path.Join(f.name, within)).
			WithFix("save the model by save_pretrained, which writes safetensors")
	}
	parts := slices.Sorted(maps.Values(index.Parts))
	for _, part := range slices.Compact(parts) {
		if err := c.add(path.Join(within, part)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// hasCheckpoint reports whether a folder of the model has safetensors files.
func hasCheckpoint(f *Folder, within string) bool {
	whole := path.Join(within, "model.safetensors")
	return f.Has(whole) || f.Has(whole+".index.json")
}

// add adds the tensors of a file.
func (c *checkpoint) add(file string) error {
	block, err := c.folder.Map(file)
	if err != nil {
		return err
	}
	return mem.CatchFaults(func() error {
		r := bytes.NewReader(block.Bytes())
		list, _, err := safetensors.ReadTable(r)
		if err != nil {
			return c.folder.in(file, err)
		}
		data := block.Bytes()[len(block.Bytes())-r.Len():]
		for _, e := range list {
			if e.End > int64(len(data)) {
				return c.folder.in(file, diag.Inputf("%s ends at byte %d; the file has %d after its table", e.Name, e.End,
					len(data)).AtTensor(e.Name))
			}
			if other, twice := c.entries[e.Name]; twice {
				return c.folder.in(file, diag.Inputf("%s is in %s too", e.Name, other.file).AtTensor(e.Name))
			}
			c.entries[e.Name] = entry{e, file, data}
		}
		return nil
	})
}

// has reports whether there is a tensor of a name.
func (c *checkpoint) has(name string) bool { _, ok := c.entries[name]; return ok }

// tensor returns a tensor, a view of its file.
func (c *checkpoint) tensor(name string) (*tensor.Tensor, error) {
	if t := c.read[name]; t != nil {
		return t, nil
	}
	e, ok := c.entries[name]
	if !ok {
		return nil, diag.Inputf("the checkpoint has no tensor %s", name).AtFile(c.folder.name).AtTensor(name).
			WithFix("the architecture in config.json may not be the one that the checkpoint is of")
	}
	if err := c.folder.claim.TakeFor(name, e.End-e.Begin); err != nil {
		return nil, c.folder.in(e.file, err)
	}
	t, err := tensor.Over(e.DType, e.Shape, e.data[e.Begin:e.End:e.End])
	if err != nil {
		return nil, c.folder.in(e.file, err)
	}
	c.read[name] = t
	return t, nil
}

// rename gives the tensors other names.
func (c *checkpoint) rename(to func(string) string) error {
	renamed := map[string]entry{}
	for name, e := range c.entries {
		if _, twice := renamed[to(name)]; twice {
			return diag.Inputf("%s is there under an old name too", to(name)).AtFile(c.folder.name).AtTensor(name)
		}
		renamed[to(name)] = e
	}
	c.entries = renamed
	return nil
}

// split gives equal parts of the rows of a linear layer names of their own, without a copy.
func (c *checkpoint) split(name string, into []string) error {
	for _, of := range []string{".weight", ".bias"} {
		e, ok := c.entries[name+of]
		if !ok && of == ".bias" {
			continue
		}
		n := int64(len(into))
		if !ok || len(e.Shape) == 0 || e.Shape[0]%n != 0 || (e.End-e.Begin)%n != 0 {
			return diag.Inputf("%s%v has no %d equal parts", name+of, e.Shape, n).AtFile(c.folder.name).AtTensor(name + of)
		}
		size := (e.End - e.Begin) / n
		part := e
		part.Shape = append([]int64{e.Shape[0] / n}, e.Shape[1:]...)
		for i, other := range into {
			part.Begin = e.Begin + int64(i)*size
			part.End = part.Begin + size
			c.entries[other+of] = part
		}
	}
	return nil
}

// prefix returns what stands before a name in the checkpoint: "bert." for a model with a head, "" for an encoder
// alone.
func (c *checkpoint) prefix(name string) string {
	if c.has(name) {
		return ""
	}
	for _, full := range slices.Sorted(maps.Keys(c.entries)) {
		if before, ok := strings.CutSuffix(full, "."+name); ok {
			return before + "."
		}
	}
	return ""
}

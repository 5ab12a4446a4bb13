package train

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/safetensors"
	"github.com/weirml/weir/nn"
)

// checkpointName is the name of a checkpoint's file in its folder.
const checkpointName = "checkpoint.safetensors"

// format is the version of the checkpoint format.
const format = 2

// header is a checkpoint's metadata.
type header struct {
	Format    int       `json:"format"`
	Optimiser string    `json:"optimiser"`
	Step      int64     `json:"step"`
	Pending   int       `json:"pending"`
	Of        int       `json:"of,omitempty"` // Options.Accumulate; 0: unknown
	Factor    float64   `json:"factor"`
	Scale     float64   `json:"scale"`
	Calm      int       `json:"calm"`
	Seed      uint64    `json:"seed"`
	Watch     watch     `json:"watch,omitzero"`
	Data      *position `json:"data,omitempty"`
	Order     *order    `json:"order,omitempty"`
	Sum       uint32    `json:"crc32c"` // of the elements, then of this header with Sum 0
}

// text returns the header as JSON, with a checksum.
func (h header) text(sum uint32) ([]byte, error) {
	h.Sum = sum
	return json.Marshal(h)
}

// order is the data's number of examples and the settings of their order.
type order struct {
	Examples int    `json:"examples"`
	Shuffle  bool   `json:"shuffle"`
	Key      uint64 `json:"key"`
}

// Save writes a checkpoint into a folder, which it makes if necessary: parameters, buffers, the optimiser's slots, the
// number of steps, the state of random numbers, and the position in the Data that batches came from. The file is a
// safetensors file.
//
// At any moment the folder contains the previous checkpoint or this one, complete: the file is written under another
// name, synced to the disk, and then renamed. Several trainers may save into one folder at the same time; the last to
// end wins. The file has the permissions that the process's umask leaves.
func (t *Trainer) Save(dir string) (err error) {
	defer diag.Recover(&err, "saving a checkpoint")
	if err := t.use(); err != nil {
		return err
	}
	defer t.alone.Unlock()
	if t.torn != nil {
		return t.torn
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return diag.Inputf("%v", err).AtFile(dir).WithCause(err)
	}
	if err := mem.Replace(filepath.Join(dir, checkpointName), true, t.write); err != nil {
		return diag.As(err, weir.ErrInput).AtFile(filepath.Join(dir, checkpointName)).WithCause(err)
	}
	return syncFolder(dir)
}

// syncFolder syncs a folder's entries to the disk, if the system can open folders.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) &&
		!errors.Is(err, fs.ErrInvalid) {
		return diag.Inputf("%v", err).AtFile(dir).WithCause(err)
	}
	return nil
}

// write writes the checkpoint's file.
func (t *Trainer) write(w io.Writer) error {
	h := header{Format: format, Optimiser: t.optimiser.String(), Step: t.step, Pending: t.pending,
		Of: max(t.options.Accumulate, 1), Factor: t.factor, Scale: t.scale, Calm: t.calm, Seed: t.options.Seed,
		Watch: t.watch}
	if t.from != nil {
		at := t.at
		h.Data, h.Order = &at, t.from.ordering()
	}
	var list []safetensors.Entry
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	all := t.all()
	for _, s := range all {
		sum.Write(s.array.Tensor().Bytes())
		list = append(list, entryOf(s))
	}
	text, err := h.text(0)
	if err != nil {
		return err
	}
	sum.Write(text)
	if text, err = h.text(sum.Sum32()); err != nil {
		return err
	}
	b := bufio.NewWriterSize(w, 1<<16)
	if err := safetensors.WriteTable(b, list, map[string]string{"weir.training": string(text)}); err != nil {
		return err
	}
	for _, s := range all {
		if _, err := b.Write(s.array.Tensor().Bytes()); err != nil {
			return err
		}
	}
	return b.Flush()
}

// all returns the states and the frozen parameters.
func (t *Trainer) all() []state { return append(slices.Clone(t.states), t.frozen...) }

// entryOf returns a state's entry in a safetensors file.
func entryOf(s state) safetensors.Entry {
	e := safetensors.Entry{Name: s.name, DType: s.array.DType()}
	for _, n := range s.array.Shape() {
		e.Shape = append(e.Shape, int64(n))
	}
	return e
}

// ordering returns the settings that determine the order of the data.
func (d *Data) ordering() *order { return &order{d.Len(), d.options.Shuffle, d.options.Key} }

// Resume makes a trainer as New does, and restores a checkpoint: the steps that follow compute the same bits as if
// training had not stopped. Data, if given, move to the checkpoint's position.
func Resume(dir string, net nn.Layer, p *nn.Params, loss Loss, optimiser Optimiser, o Options, data ...*Data) (*Trainer,
	error) {
	t, err := New(net, p, loss, optimiser, o)
	if err != nil {
		return nil, err
	}
	if err := t.Restore(dir, data...); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Restore returns to the state of a checkpoint; see Resume. If the checkpoint is truncated, damaged, or of another
// network or optimiser, Restore returns an error that says so, and changes nothing.
func (t *Trainer) Restore(dir string, data ...*Data) (err error) {
	defer diag.Recover(&err, "reading a checkpoint")
	if err := t.use(); err != nil {
		return err
	}
	defer t.alone.Unlock()
	name := filepath.Join(dir, checkpointName)
	f, err := mem.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return diag.Inputf("there is no checkpoint: %v", err).AtFile(name).WithCause(err)
	} else if err != nil {
		return err
	}
	defer f.Close()
	h, err := t.verify(f)
	if err == nil {
		err = h.fits(t, data)
	}
	if err != nil {
		return diag.As(err, weir.ErrInput).AtFile(name)
	}
	return t.take(f, h, data)
}

// verify reads a checkpoint to its end, and returns an error unless it is complete and matches the trainer.
func (t *Trainer) verify(f io.Reader) (*header, error) {
	b := bufio.NewReaderSize(f, 1<<16)
	list, meta, err := safetensors.ReadTable(b)
	if err != nil {
		return nil, err
	}
	text, ok := meta["weir.training"]
	if !ok {
		return nil, diag.Inputf("it is no checkpoint of a training").
			WithFix("Params.ReadSafetensors reads files of parameters")
	}
	h := &header{}
	if err := json.Unmarshal([]byte(text), h); err != nil {
		return nil, diag.Inputf("its header: %v", err)
	}
	if h.Format != format {
		return nil, diag.Unsupportedf("a checkpoint of format %d; this is %d", h.Format, format)
	}
	if err := t.matches(list); err != nil {
		return nil, err
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if err := h.complete(b, list, sum); err != nil {
		return nil, err
	}
	return h, h.possible()
}

// possible returns an error if no training has such a header: a checksum does not tell who wrote it.
func (h *header) possible() error {
	for _, n := range []struct {
		name  string
		value int64
	}{{"step", h.Step}, {"pending", int64(h.Pending)}, {"of", int64(h.Of)}, {"calm", int64(h.Calm)}} {
		if n.value < 0 || n.value == math.MaxInt64 {
			return diag.Inputf("its header says %s = %d", n.name, n.value)
		}
	}
	for _, x := range []struct {
		name  string
		value float64
	}{{"factor", h.Factor}, {"scale", h.Scale}} {
		if !(x.value >= 0) || math.IsInf(x.value, 0) {
			return diag.Inputf("its header says %s = %v", x.name, x.value)
		}
	}
	return nil
}

// complete reads the rest of the file, and returns an error unless it is as long as the listed elements and the
// checksum is right.
func (h *header) complete(r io.Reader, list []safetensors.Entry, sum hash.Hash32) error {
	want := int64(0)
	for _, e := range list {
		want = max(want, e.End)
	}
	n, err := io.Copy(sum, r)
	if err != nil {
		return err
	}
	text, err := h.text(0)
	if err != nil {
		return err
	}
	sum.Write(text)
	switch {
	case n != want:
		return diag.Inputf("it is cut short, or goes on: %d bytes of elements, not %d", n, want)
	case sum.Sum32() != h.Sum:
		return diag.Inputf("it is damaged: the CRC-32C is %08x, not %08x", sum.Sum32(), h.Sum)
	}
	return nil
}

// matches returns an error unless a checkpoint's tensors have the names, types and shapes of the trainer's.
func (t *Trainer) matches(list []safetensors.Entry) error {
	all := t.all()
	for i, s := range all {
		if i >= len(list) {
			return diag.Inputf("it is of another model, or optimiser: it does not have %s", s.name).AtTensor(s.name)
		}
		if want, have := entryOf(s), list[i]; have.Name != want.Name || have.DType != want.DType ||
			!slices.Equal(have.Shape, want.Shape) {
			return diag.Inputf("it is of another model, or optimiser: %s is %v%v there, %s %v%v here", have.Name, have.DType,
				have.Shape, want.Name, want.DType, want.Shape).AtTensor(s.name)
		}
	}
	if len(list) > len(all) {
		return diag.Inputf("it is of another model, or optimiser: %s is not here", list[len(all)].Name).
			AtTensor(list[len(all)].Name)
	}
	return nil
}

// fits returns an error unless the header matches the trainer's optimiser, its options and the data.
func (h *header) fits(t *Trainer, data []*Data) error {
	if !sameSettings(h.Optimiser, t.optimiser.String()) {
		return diag.Inputf("it is of another optimiser: %s there, %s here", h.Optimiser, t.optimiser)
	}
	if h.Pending > 0 && h.Pending >= t.options.Accumulate {
		return diag.Inputf("the gradients of %d batches are added up there, of %d at most here", h.Pending,
			t.options.Accumulate)
	}
	if of := max(t.options.Accumulate, 1); h.Pending > 0 && h.Of > 0 && h.Of != of {
		return diag.Inputf("the gradients of %d batches are added up there, for a mean of %d, and here the mean is of %d",
			h.Pending, h.Of, of).
			WithFix("save after an update, or set Accumulate to %d", h.Of)
	}
	for _, d := range data {
		if h.Data == nil || h.Order == nil {
			return diag.Inputf("it does not say where in the data it stands: its batches came from elsewhere")
		}
		if *h.Order != *d.ordering() {
			return diag.Inputf("it is of other data: %+v there, %+v here", *h.Order, *d.ordering())
		}
		if h.Data.Example < 0 || h.Data.Example > d.Len() || h.Data.Epoch < 0 {
			return diag.Inputf("example %d of epoch %d: the data have %d examples", h.Data.Example, h.Data.Epoch, d.Len())
		}
	}
	return nil
}

// take reads the elements of a verified checkpoint.
func (t *Trainer) take(f io.ReadSeeker, h *header, data []*Data) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	b := bufio.NewReaderSize(f, 1<<16)
	if _, _, err := safetensors.ReadTable(b); err != nil {
		return err
	}
	for _, s := range t.all() {
		if _, err := io.ReadFull(b, s.array.Tensor().Bytes()); err != nil {
			// The file was complete a moment ago: another process writes it.
			t.torn = &Torn{Step: h.Step, Names: []string{s.name}, Err: fmt.Errorf("reading a checkpoint: %w", err)}
			return t.torn
		}
	}
	t.step, t.pending, t.factor, t.scale, t.calm, t.torn = h.Step, h.Pending, h.Factor, t.options.LossScale, 0, nil
	if h.Scale > 0 && t.options.LossScale > 0 {
		t.scale, t.calm = h.Scale, h.Calm
	}
	t.options.Seed, t.watch = h.Seed, h.Watch
	t.resumed = true
	t.from = nil
	for _, d := range data {
		if err := d.restore(*h.Data); err != nil {
			return err
		}
		t.from, t.at = d, *h.Data
	}
	return nil
}

package catalogue

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
	"github.com/weirml/weir/serve/internal/ledger"
)

// open loads a version's file, compiles it, and prepares its queue. On failure it holds nothing.
func (c *Catalogue) open(ctx context.Context, f *found, n int64) (v *Version, err error) {
	began := time.Now()
	s, err := settingsOf(f.config)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s, version %d", f.name, n)
	v = &Version{Model: f.name, Number: n, Config: f.config, source: f.versions[n], drained: make(chan struct{}),
		account: &account{fixed: c.ledger.Account(ledger.Model, name), calls: c.ledger.Account(ledger.Call, name)},
		joined:  c.ledger.Account(ledger.Joined, name)}
	v.used.Store(began.UnixNano())
	defer func() {
		if err != nil {
			err = errors.Join(err, v.close())
			v = nil
		}
	}()
	s.options.Threads, s.options.Account = c.options.Threads, v.account
	if err := c.compile(ctx, v, s); err != nil {
		return v, err
	}
	v.Inputs, v.Outputs = v.Program.Inputs(), v.Program.Outputs()
	if err := v.check(f.config); err != nil {
		return v, err
	}
	v.measure()
	if call, err := v.CallBytes(v.smallest()); err == nil { // otherwise only a run knows
		if err := v.account.calls.Require(call); err != nil {
			return v, err
		}
	}
	v.join(s)
	atOnce := v.Program.Stats().Calls
	if v.Batcher != nil {
		atOnce = 2 * v.MostRows * atOnce
	}
	v.queue.start(f.name, s.queue, atOnce)
	v.Loaded, v.Took = time.Now(), time.Since(began)
	return v, c.warm(ctx, v)
}

// compile loads the version's artefact, or compiles its model and keeps the artefact.
func (c *Catalogue) compile(ctx context.Context, v *Version, s settings) error {
	cached := c.artefact(v, s)
	if cached != "" {
		if err := v.load(ctx, cached, s.options); err == nil {
			v.FromCache = true
			return nil
		} else if errors.Is(err, weir.ErrMemory) || ctx.Err() != nil {
			return err
		} else if !errors.Is(err, os.ErrNotExist) {
			c.options.Log.Warn("artefact not used", "model", v.Model, "file", cached, "error", err)
		}
	}
	if err := v.load(ctx, v.source.path, s.options); err != nil {
		return err
	}
	if cached == "" {
		return nil
	}
	if err := v.keep(cached); err != nil {
		c.options.Log.Warn("artefact not kept", "model", v.Model, "file", cached, "error", err)
	}
	return nil
}

// load loads and compiles a file.
func (v *Version) load(ctx context.Context, path string, o weir.Options) (err error) {
	if v.model, err = weir.LoadContext(ctx, path); err != nil {
		return err
	}
	if v.Program, err = weir.Compile(ctx, v.model, o); err != nil {
		err = errors.Join(err, v.model.Close())
		v.model = nil
		return err
	}
	v.account.running.Store(true)
	return nil
}

// keep writes the program's artefact beside its final name, and renames it.
func (v *Version) keep(path string) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".artefact-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	_, err = v.Program.WriteTo(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// artefact returns the file for a version's artefact, empty if none is kept. Its name stands for everything that the
// artefact depends on: the files' names, sizes and times, the options, the processor and this build.
func (c *Catalogue) artefact(v *Version, s settings) string {
	if c.options.Cache == "" || filepath.Ext(v.source.path) == ".weir" {
		return ""
	}
	path, err := filepath.Abs(v.source.path)
	if err != nil {
		return ""
	}
	p := weir.HostProcessor()
	h := sha256.New()
	fmt.Fprintf(h, "%q\n%s\n%d %d %v %d %d\n%s %v\n%s\n", path, v.source.state, s.options.Calls, s.options.Budget,
		s.options.Dims, s.options.Precision, s.options.Threads, p.CPU, p.Features, build())
	return filepath.Join(c.options.Cache, hex.EncodeToString(h.Sum(nil)[:16])+".weir")
}

// build identifies this program: its file's size and time, and its version.
func build() string {
	text := ""
	if path, err := os.Executable(); err == nil {
		if info, err := os.Stat(path); err == nil {
			text = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		text += info.Main.Version
	}
	return text
}

// join makes the version's batcher, if it is proved that its requests can be joined.
func (v *Version) join(s settings) {
	if s.off != "" {
		v.Unbatched = s.off
		return
	}
	if len(v.Inputs) == 0 || len(v.Inputs[0].Shape) == 0 || v.Inputs[0].Shape[0].Dim == "" {
		v.Unbatched = "the first axis of the first input is no dimension that a request may choose"
		return
	}
	rows := v.Inputs[0].Shape[0].Dim
	if err := v.Program.Rows(rows); err != nil {
		v.Unbatched = err.Error()
		return
	}
	most := int64(cmp.Or(s.rows, defaultRows))
	for _, d := range v.Program.Dims() {
		if d.Name == rows {
			most = min(most, d.Max)
		}
	}
	s.batch.Rows, s.batch.Account = int(most), v.joined
	b, err := batch.New(v.Program, s.batch)
	if err != nil {
		v.Unbatched = err.Error()
		return
	}
	v.Batcher, v.Rows, v.MostRows = b, rows, int(most)
}

// OutputBytes returns the bytes of an output, by index, for the dimensions of a run; ok is false if only the run knows,
// or if the run will refuse the dimensions: the formula has no meaning then.
func (v *Version) OutputBytes(i int, dims weir.Dims) (bytes int64, ok bool) {
	bytes, err := v.sizes[i].At(dims)
	return bytes, v.sized[i] && err == nil && bytes >= 0
}

// CallBytes returns the bytes of a run with these dimensions.
func (v *Version) CallBytes(dims weir.Dims) (int64, error) {
	return v.Program.Memory().Call(dims)
}

// smallest returns the smallest dimensions that a request may have, but at least 1.
func (v *Version) smallest() weir.Dims {
	d := weir.Dims{}
	for _, dim := range v.Program.Dims() {
		d[dim.Name] = min(max(dim.Min, 1), dim.Max)
	}
	return d
}

// measure keeps the formulas of the outputs' sizes.
func (v *Version) measure() {
	for _, info := range v.Outputs {
		size, err := v.Program.Memory().Of(info.Name)
		v.sizes, v.sized = append(v.sizes, size), append(v.sized, err == nil)
	}
}

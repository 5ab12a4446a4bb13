package catalogue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve/internal/ledger"
	"github.com/weirml/weir/serve/internal/oip"
)

// Options are the settings of a catalogue.
type Options struct {
	Folder   string
	Explicit bool     // only models that Load, or a client, asks for are loaded, not all
	Load     []string // if Explicit: the models to load at the start
	Cache    string   // the folder for artefacts; empty: none are kept
	Threads  int      // of one run; 0: all processors
	Evict    bool     // a model that does not fit has the least recently used ones unloaded
	// Replace unloads the old version first if both do not fit.
	Replace bool
	// Drain is how long unloading a version waits for its requests.
	Drain time.Duration
	Log   *slog.Logger
}

// Catalogue is the models of a folder. Any goroutine may use it.
type Catalogue struct {
	options Options
	ledger  *ledger.Ledger
	states  *ledger.Buffers // of sequences

	loading sync.Mutex // one load or unload at a time

	mu     sync.Mutex
	models map[string]*model
	closed bool
}

// model is a model of the folder, and its versions that are loaded.
type model struct {
	found    *found
	wanted   bool // it is to be loaded
	versions map[int64]*Version
	failed   map[int64]failure // by version: why it is not loaded
	reason   string            // why the model is not loaded
}

// failure is a version that could not be loaded.
type failure struct {
	reason string
	state  string // of its files then
}

// New returns a catalogue without models. Start loads them.
func New(l *ledger.Ledger, o Options) *Catalogue {
	c := &Catalogue{options: o, ledger: l, models: map[string]*model{},
		states: ledger.NewBuffers(l.Account(ledger.Sequence, "sequences"), 0)}
	l.Idle(ledger.Call, c.Trim)
	return c
}

// Trim releases the memory of idle calls.
func (c *Catalogue) Trim() {
	for _, v := range c.Loaded() {
		if v.enter() {
			v.Program.Trim()
			v.Leave()
		}
	}
}

// Start reads the folder, and loads all models, or those of Options.Load. A model that cannot be loaded is reported in
// the index; the error is one of the folder.
func (c *Catalogue) Start(ctx context.Context) error {
	if err := c.Scan(); err != nil {
		return err
	}
	c.mark()
	names := c.options.Load
	if !c.options.Explicit {
		names = c.Names()
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	for _, name := range names {
		if err := c.load(ctx, name); err != nil {
			c.options.Log.Error("model not loaded", "model", name, "error", err)
		}
	}
	return ctx.Err()
}

// Scan reads the folder again. It loads and unloads nothing.
func (c *Catalogue) Scan() error {
	all, err := scan(c.options.Folder)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, f := range all {
		m := c.models[name]
		if m == nil {
			m = &model{versions: map[int64]*Version{}, failed: map[int64]failure{}}
			c.models[name] = m
		}
		m.found = f
	}
	for name, m := range c.models {
		if all[name] != nil {
			continue
		}
		if m.found = nil; len(m.versions) == 0 {
			delete(c.models, name)
		}
	}
	return nil
}

// Refresh reads the folder again: it loads new versions, replaces changed ones, and unloads those that are gone. In
// explicit mode it does so for the models that are loaded.
func (c *Catalogue) Refresh(ctx context.Context) error {
	if err := c.Scan(); err != nil {
		return err
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	for _, name := range c.Names() {
		c.mu.Lock()
		m := c.models[name]
		stale := m != nil && (m.wanted || !c.options.Explicit) && c.changed(m)
		gone := m != nil && m.found == nil
		c.mu.Unlock()
		var err error
		switch {
		case gone:
			err = c.unload(ctx, name)
		case stale:
			err = c.load(ctx, name)
		}
		if err != nil {
			c.options.Log.Error("model not refreshed", "model", name, "error", err)
		}
	}
	return nil
}

// changed reports whether a model's versions that are loaded are not those of the folder, under the lock.
func (c *Catalogue) changed(m *model) bool {
	if m.found == nil || m.found.err != nil {
		return m.found != nil && m.reason != m.found.err.Error()
	}
	served := m.found.served()
	for _, n := range served {
		v := m.versions[n]
		if f, tried := m.failed[n]; v == nil && tried && f.state == m.found.versions[n].state {
			continue
		}
		if v == nil || v.source.state != m.found.versions[n].state {
			return true
		}
	}
	return len(served) != len(m.versions)
}

// Names returns the names of all models, sorted.
func (c *Catalogue) Names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.models))
}

// Loaded returns the versions that are loaded, by name and number.
func (c *Catalogue) Loaded() (all []*Version) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.models)) {
		m := c.models[name]
		for _, n := range slices.Sorted(maps.Keys(m.versions)) {
			all = append(all, m.versions[n])
		}
	}
	return all
}

// UnknownError reports a model or version that is not there, or not ready.
type UnknownError struct {
	Model, Version string
	Known          bool   // the folder has it
	Reason         string // why it is not ready
}

// Error names the model and the reason.
func (e *UnknownError) Error() string {
	name := e.Model
	if e.Version != "" {
		name += ", version " + e.Version
	}
	switch {
	case !e.Known:
		return fmt.Sprintf("model %s is unknown", name)
	case e.Reason != "":
		return fmt.Sprintf("model %s is not ready: %s", name, e.Reason)
	}
	return fmt.Sprintf("model %s is not loaded", name)
}

// Use returns a version of a model for a request: the newest one if version is empty. The caller calls Leave.
func (c *Catalogue) Use(name, version string) (*Version, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.models[name]
	if m == nil {
		return nil, &UnknownError{Model: name, Version: version}
	}
	if version != "" {
		n, err := strconv.ParseInt(version, 10, 64)
		if v := m.versions[n]; err == nil && v != nil && v.enter() {
			return v, nil
		}
		known := m.found != nil
		if known {
			_, known = m.found.versions[n]
		}
		return nil, &UnknownError{Model: name, Version: version, Known: known && err == nil, Reason: m.failed[n].reason}
	}
	numbers := slices.Sorted(maps.Keys(m.versions))
	for _, n := range slices.Backward(numbers) {
		if v := m.versions[n]; v.enter() {
			return v, nil
		}
	}
	return nil, &UnknownError{Model: name, Known: true, Reason: m.reason}
}

// Index returns the models and the states of their versions.
func (c *Catalogue) Index(ready bool) (list []*oip.RepositoryIndexResponse_ModelIndex) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.models)) {
		m := c.models[name]
		numbers := map[int64]bool{}
		for n := range m.versions {
			numbers[n] = true
		}
		for n := range m.failed {
			numbers[n] = true
		}
		if len(numbers) == 0 && !ready {
			state := ""
			if m.reason != "" {
				state = "UNAVAILABLE"
			}
			list = append(list, &oip.RepositoryIndexResponse_ModelIndex{Name: name, State: state, Reason: m.reason})
		}
		for _, n := range slices.Sorted(maps.Keys(numbers)) {
			i := &oip.RepositoryIndexResponse_ModelIndex{Name: name, Version: strconv.FormatInt(n, 10), State: "READY"}
			if m.versions[n] == nil {
				i.State, i.Reason = "UNAVAILABLE", m.failed[n].reason
			}
			if !ready || m.versions[n] != nil {
				list = append(list, i)
			}
		}
	}
	return list
}

// Load loads a model's versions that its policy selects, from the files as they are now, and replaces those that are
// loaded. The requests in progress end with the versions that they began with.
func (c *Catalogue) Load(ctx context.Context, name string) error {
	if err := c.Scan(); err != nil {
		return err
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	return c.load(ctx, name)
}

// Unload unloads a model, after its requests in progress have ended.
func (c *Catalogue) Unload(ctx context.Context, name string) error {
	c.loading.Lock()
	defer c.loading.Unlock()
	return c.unload(ctx, name)
}

// unload is Unload, under the lock of loads.
func (c *Catalogue) unload(ctx context.Context, name string) error {
	c.mu.Lock()
	m := c.models[name]
	if m == nil {
		c.mu.Unlock()
		return &UnknownError{Model: name}
	}
	old := slices.Collect(maps.Values(m.versions))
	m.wanted, m.reason = false, "unloaded"
	clear(m.versions)
	clear(m.failed)
	if m.found == nil {
		delete(c.models, name)
	}
	c.mu.Unlock()
	return c.end(ctx, old)
}

// end drains versions that no request finds any more.
func (c *Catalogue) end(ctx context.Context, old []*Version) error {
	var failed []error
	for _, v := range old {
		if err := c.drain(ctx, v); err != nil {
			failed = append(failed, err)
			continue
		}
		c.options.Log.Info("model unloaded", "model", v.Model, "version", v.Number)
	}
	return errors.Join(failed...)
}

// drain releases a version. If its requests do not end in time, it is released when they do.
func (c *Catalogue) drain(ctx context.Context, v *Version) error {
	ended := make(chan error, 1)
	go func() { ended <- v.drain() }()
	limit := time.NewTimer(c.options.Drain)
	defer limit.Stop()
	select {
	case err := <-ended:
		return err
	case <-limit.C:
		return fmt.Errorf("model %s, version %d: requests are still in progress after %v; its memory is released when they "+
			"end", v.Model, v.Number, c.options.Drain)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// load is Load, under the lock of loads.
func (c *Catalogue) load(ctx context.Context, name string) error {
	c.mu.Lock()
	m := c.models[name]
	if m == nil || m.found == nil {
		c.mu.Unlock()
		return &UnknownError{Model: name}
	}
	f := m.found
	m.wanted = true
	c.mu.Unlock()
	if f.err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if m.reason = f.err.Error(); len(m.versions) == 0 {
			return &UnknownError{Model: name, Known: true, Reason: m.reason}
		}
		return fmt.Errorf("model %s: %w; the versions that are loaded stay", name, f.err)
	}
	var failed []error
	wanted := f.served()
	for _, n := range wanted {
		if err := c.loadVersion(ctx, m, f, n); err != nil {
			failed = append(failed, err)
		}
	}
	c.mu.Lock()
	var gone []*Version
	for n, v := range m.versions {
		// A version that is not wanted any more stays until its successor is there.
		if !slices.Contains(wanted, n) && (len(failed) == 0 || len(m.versions) > len(wanted)) {
			gone = append(gone, v)
			delete(m.versions, n)
		}
	}
	for n := range m.failed {
		if !slices.Contains(wanted, n) {
			delete(m.failed, n)
		}
	}
	m.reason = ""
	if len(wanted) == 0 {
		m.reason = "the folder has no version that its policy selects"
		failed = append(failed, &UnknownError{Model: name, Known: true, Reason: m.reason})
	} else if len(failed) > 0 {
		m.reason = failed[0].Error()
	}
	c.mu.Unlock()
	return errors.Join(errors.Join(failed...), c.end(ctx, gone))
}

// loadVersion loads a version, unless it is loaded and its files are the same, and puts it in place of the old one.
func (c *Catalogue) loadVersion(ctx context.Context, m *model, f *found, n int64) error {
	c.mu.Lock()
	old := m.versions[n]
	c.mu.Unlock()
	source := f.versions[n]
	v, err := c.open(ctx, f, n)
	for err != nil && errors.Is(err, weir.ErrMemory) {
		if !c.makeRoom(ctx, m, old) {
			break
		}
		v, err = c.open(ctx, f, n)
	}
	if err != nil {
		err = &within{err, c.options.Folder}
	}
	c.mu.Lock()
	if err != nil {
		m.failed[n] = failure{err.Error(), source.state}
		c.mu.Unlock()
		return fmt.Errorf("model %s, version %d: %w", f.name, n, err)
	}
	if c.closed {
		c.mu.Unlock()
		return errors.Join(weir.ErrClosed, v.close())
	}
	old = m.versions[n]
	m.versions[n] = v
	delete(m.failed, n)
	c.mu.Unlock()
	c.report(v)
	c.ledger.Settle() // the calls of its warm-up are idle
	if old == nil {
		return nil
	}
	return c.end(ctx, []*Version{old})
}

// within is an error whose text names files by their paths in the folder of models: clients do not learn where that is.
type within struct {
	error
	folder string
}

// Error returns the text.
func (w *within) Error() string {
	text := w.error.Error()
	if whole, err := filepath.Abs(w.folder); err == nil {
		text = strings.ReplaceAll(text, whole+string(filepath.Separator), "")
	}
	return strings.ReplaceAll(text, filepath.Clean(w.folder)+string(filepath.Separator), "")
}

// Unwrap returns the error.
func (w *within) Unwrap() error { return w.error }

// makeRoom unloads something so that a version may fit: its predecessor, if versions may be replaced in place, or the
// model that was not used for the longest time, if models may be evicted.
func (c *Catalogue) makeRoom(ctx context.Context, m *model, old *Version) bool {
	if old == nil { // another version of the same model may go too
		c.mu.Lock()
		for _, v := range m.versions {
			old = v
		}
		c.mu.Unlock()
	}
	if c.options.Replace && old != nil {
		c.mu.Lock()
		if m.versions[old.Number] == old {
			delete(m.versions, old.Number)
			c.mu.Unlock()
			c.options.Log.Info("model is replaced in place, since both versions do not fit", "model", old.Model)
			return c.end(ctx, []*Version{old}) == nil
		}
		c.mu.Unlock()
	}
	if !c.options.Evict {
		return false
	}
	var least *Version
	for _, v := range c.Loaded() {
		c.mu.Lock()
		same := c.models[v.Model] == m
		c.mu.Unlock()
		if !same && (least == nil || v.used.Load() < least.used.Load()) {
			least = v
		}
	}
	if least == nil {
		return false
	}
	c.options.Log.Info("model is unloaded for another: it was not used for the longest time", "model", least.Model,
		"unused", time.Since(time.Unix(0, least.used.Load())).Round(time.Millisecond))
	return c.unload(ctx, least.Model) == nil
}

// report writes a version's certificate to the log.
func (c *Catalogue) report(v *Version) {
	fixed, _ := v.Bytes()
	c.options.Log.Info("model loaded", "model", v.Model, "version", v.Number, "took", v.Took.Round(time.Microsecond),
		"cached", v.FromCache, "held_bytes", fixed, "certificate",
		v.Program.Memory().Formula(v.Calls).String(),
		"calls", v.Calls, "joined", v.Joined(), "why_not_joined", v.Unbatched)
	if v.Sequences != nil {
		bytes, copied := v.Sequences.describe()
		c.options.Log.Info("model has sequences", "model", v.Model, "version", v.Number, "idle", v.Sequences.idle,
			"first_state_bytes", bytes, "states_copied", copied)
	}
}

// Close unloads all models, after their requests in progress have ended or ctx ends.
func (c *Catalogue) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	var all []*Version
	for _, m := range c.models {
		all = append(all, slices.Collect(maps.Values(m.versions))...)
		clear(m.versions)
	}
	c.mu.Unlock()
	return c.end(ctx, all)
}

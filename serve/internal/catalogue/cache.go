package catalogue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/weirml/weir"
)

// The cache is a folder of artefacts, which servers of several folders of models may share. A file's name has what the
// artefact depends on, and a checksum of this and of the contents: a damaged or exchanged one is compiled anew. An
// artefact has no machine code, and is verified when it is read; but one of another user could still give other
// results, and is not read.

const (
	ending     = ".weir"
	unfinished = ".artefact-"        // what the names of artefacts begin with while they are written
	marker     = "used"              // the end of a file whose time is the last use of a folder's artefacts
	forgotten  = 30 * 24 * time.Hour // after this time without use the artefacts of another folder are removed
)

// compile loads the version's artefact, or compiles its model and keeps the artefact. load loads the program of an
// artefact, or of the model itself if the artefact's path is empty.
func (c *Catalogue) compile(ctx context.Context, v *Version, s settings,
	load func(artefact string, o weir.Options) error) error {
	key := c.key(v.source, s)
	of := s.options
	of.Precision = weir.F32 // an artefact has its own, which is in its key
	for _, path := range c.cached(key) {
		err := checked(path, key)
		if err == nil {
			err = load(path, of)
		}
		switch {
		case err == nil:
			v.FromCache = true
			return nil
		case errors.Is(err, weir.ErrMemory) || ctx.Err() != nil:
			return err
		}
		c.options.Log.Warn("artefact not used", "model", v.Model, "file", path, "error", err)
	}
	if err := load("", s.options); err != nil {
		return err
	}
	if key == "" {
		return nil
	}
	if err := c.keep(v.Program, key); err != nil {
		c.options.Log.Warn("artefact not kept", "model", v.Model, "error", err)
		return nil
	}
	c.sweep()
	return nil
}

// cached returns the files whose names have a key.
func (c *Catalogue) cached(key string) (paths []string) {
	if key == "" {
		return nil
	}
	entries, _ := os.ReadDir(c.options.Cache)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), key) && filepath.Ext(e.Name()) == ending {
			paths = append(paths, filepath.Join(c.options.Cache, e.Name()))
		}
	}
	return paths
}

// checksum returns what the name of an artefact with a key and these contents ends with.
func checksum(key string, contents io.Reader) (string, error) {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	io.WriteString(sum, key)
	_, err := io.Copy(sum, contents)
	return fmt.Sprintf("-%08x%s", sum.Sum32(), ending), err
}

// checked returns an error if others may have written a file, or if its name does not have its checksum.
func checked(path, key string) error {
	if err := trusted(path); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	end, err := checksum(key, file)
	if err == nil && filepath.Base(path) != key+end {
		err = fmt.Errorf("its name has another checksum than %s: it is damaged", end)
	}
	return err
}

// keep writes a program's artefact beside its final name, and renames it. It takes the place of others with its key.
func (c *Catalogue) keep(p *weir.Program, key string) (err error) {
	others := c.cached(key)
	file, err := os.CreateTemp(c.options.Cache, unfinished+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	_, err = p.WriteTo(file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	end, failed := checksum(key, file)
	if err = errors.Join(err, failed, file.Sync(), file.Close()); err != nil {
		return err
	}
	for _, other := range others {
		os.Remove(other)
	}
	return os.Rename(file.Name(), filepath.Join(c.options.Cache, key+end))
}

// key returns what the name of a version's artefact begins with, empty if none is kept: it stands for the folder of
// models, and for everything that the artefact depends on: the files' names, sizes and times, the options, the
// processor and this build.
func (c *Catalogue) key(from source, s settings) string {
	if c.options.Cache == "" || filepath.Ext(from.path) == ending {
		return ""
	}
	path, err := filepath.Abs(from.path)
	if err != nil {
		return ""
	}
	p := weir.HostProcessor()
	h := sha256.New()
	fmt.Fprintf(h, "%q\n%s\n%d %d %v %d %d\n%s %v\n%s\n%s", path, from.state, s.options.Calls, s.options.Budget,
		s.options.Dims, s.options.Precision, c.options.Threads, p.CPU, p.Features, build(), s.states)
	return c.ownArtefacts() + hex.EncodeToString(h.Sum(nil)[:16])
}

// ownArtefacts returns what the names of this folder's artefacts begin with.
func (c *Catalogue) ownArtefacts() string {
	folder, err := filepath.Abs(c.options.Folder)
	if err != nil {
		folder = c.options.Folder
	}
	h := sha256.Sum256([]byte(folder))
	return hex.EncodeToString(h[:8]) + "-"
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

// mark records that the artefacts of the folder are in use. Their own times stay: a change of a file that is mapped is
// an error of whoever maps it.
func (c *Catalogue) mark() {
	if c.options.Cache != "" {
		os.WriteFile(filepath.Join(c.options.Cache, c.ownArtefacts()+marker), nil, 0o600)
	}
}

// sweep removes artefacts that no version in the folder would use, the oldest first, until they are no larger than the
// others together; and those of other folders that were not used for a month.
func (c *Catalogue) sweep() {
	c.mark()
	entries, err := os.ReadDir(c.options.Cache)
	if err != nil {
		return
	}
	infos := map[string]fs.FileInfo{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			infos[e.Name()] = info
		}
	}
	wanted, own := c.wantedKeys(), c.ownArtefacts()
	room := int64(0) // for spare ones
	var spare []fs.FileInfo
	for name, info := range infos {
		used := info.ModTime()
		if folder, _, ok := strings.Cut(name, "-"); ok && infos[folder+"-"+marker] != nil {
			used = latest(used, infos[folder+"-"+marker].ModTime())
		}
		switch age := time.Since(used); {
		case wanted[keyIn(name)]:
			room += info.Size()
		case strings.HasPrefix(name, own) && filepath.Ext(name) == ending:
			spare = append(spare, info)
		case strings.HasPrefix(name, unfinished) && age > time.Hour, // its writer was killed
			filepath.Ext(name) == ending && age > forgotten, strings.HasSuffix(name, "-"+marker) && age > forgotten:
			os.Remove(filepath.Join(c.options.Cache, name))
		}
	}
	slices.SortFunc(spare, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, f := range spare {
		if room -= f.Size(); room < 0 {
			os.Remove(filepath.Join(c.options.Cache, f.Name()))
		}
	}
}

// latest returns the later of two times.
func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// keyIn returns the key in an artefact's name.
func keyIn(name string) string {
	return name[:max(0, strings.LastIndexByte(name, '-'))]
}

// wantedKeys returns the keys of all versions in the folder.
func (c *Catalogue) wantedKeys() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]bool{}
	for _, m := range c.models {
		if m.found == nil || m.found.err != nil {
			continue
		}
		s, err := settingsOf(m.found.config)
		if err != nil {
			continue
		}
		for _, from := range m.found.versions {
			all[c.key(from, s)] = true
		}
	}
	return all
}

package mem

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/weirml/weir/internal/diag"
)

// SpillFile is the process's own file, for data that memory has no room for. If the system allows it, the file has no
// name, so that no other process finds it; otherwise it is removed when it is closed. Its folder should be on a disk: a
// folder in memory saves none.
type SpillFile struct {
	file   *os.File
	path   string // "" if the file has no name
	folder string
	label  string
	size   int64
}

// NewSpill makes a file of the given size, whose contents are zeros, in a folder, or in Folder's if that is "". If the
// system can, it has the file's room from the start, so that no later write is refused. A folder that is missing, or
// that may not be written to, is an ErrInput; a lack of room is an ErrMemory.
func NewSpill(folder, label string, bytes int64) (*SpillFile, error) {
	s, err := newFile(folder, label, bytes)
	if err != nil {
		return nil, err
	}
	spilled(bytes)
	if err := refusedOr(Room, func() error { return s.sized(allocate) }); err != nil {
		s.Close()
		return nil, s.refused(err)
	}
	return s, nil
}

// newFile makes an empty file.
func newFile(folder, label string, bytes int64) (*SpillFile, error) {
	if folder == "" {
		folder, _ = Folder("")
	}
	s := &SpillFile{label: label, size: bytes, folder: folder}
	if Failing(Opening) {
		return nil, s.refused(errInjected)
	}
	f, err := os.CreateTemp(folder, "weir-*.spill")
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, errReadOnly) ||
		errors.Is(err, errNoFolder):
		return nil, diag.Inputf("the folder for page files and spill files does not take the file of %s: %v", label, err).
			AtFile(folder).WithCause(err).
			WithFix("name a folder that can be written to: --page-folder, Options.PageFolder, TMPDIR")
	default:
		return nil, s.refused(err)
	}
	s.file, s.path = f, f.Name()
	if os.Remove(s.path) == nil {
		s.path = ""
	}
	return s, nil
}

// CheckFolder returns NewSpill's error for a folder, if there is one, and leaves nothing there.
func CheckFolder(folder, label string) error {
	s, err := newFile(folder, label, 0)
	if err != nil {
		return err
	}
	return s.remove()
}

// sized gives the file its size, with all of its room if get can.
func (s *SpillFile) sized(get func(f *os.File, bytes int64) error) error {
	if err := s.file.Truncate(s.size); err != nil || s.size == 0 {
		return err
	}
	if err := get(s.file, s.size); err != nil && !isUnsupported(err) {
		return err
	}
	return nil
}

// refused returns the ErrMemory of a file without room.
func (s *SpillFile) refused(cause error) error {
	return diag.New(diag.ErrMemory, "a file of %s (%d bytes) for %s in %s: %v", FormatBytes(s.size), s.size, s.label,
		s.folder, cause).
		WithFix("name a folder with room: --page-folder, Options.PageFolder, TMPDIR").WithCause(cause)
}

// Size returns the file's size in bytes.
func (s *SpillFile) Size() int64 { return s.size }

// Write writes data at an offset in the file.
func (s *SpillFile) Write(data []byte, at int64) error {
	if err := s.within(data, at); err != nil {
		return err
	}
	return s.move(s.file.WriteAt, data, at)
}

// Read fills data from an offset in the file.
func (s *SpillFile) Read(data []byte, at int64) error {
	if err := s.within(data, at); err != nil {
		return err
	}
	return s.move(s.file.ReadAt, data, at)
}

// move reads or writes data at an offset by do, and names the file in errors.
func (s *SpillFile) move(do func(data []byte, at int64) (int, error), data []byte, at int64) error {
	err := refusedOr(Room, func() error { _, err := do(data, at); return err })
	if err != nil {
		return s.refused(err)
	}
	return nil
}

// within panics unless data at the offset lie inside the file; an ErrClosed if the file was closed.
func (s *SpillFile) within(data []byte, at int64) error {
	if s.file == nil {
		return diag.New(diag.ErrClosed, "the file of %s was closed", s.label)
	}
	if at < 0 || int64(len(data)) > s.size-at {
		panic(diag.Internalf("mem: %d bytes at %d of a file of %d", len(data), at, s.size))
	}
	return nil
}

// Close gives the file's room back. Later calls do nothing.
func (s *SpillFile) Close() error {
	if s.file == nil {
		return nil
	}
	spilled(-s.size)
	return s.remove()
}

// remove closes the file, and removes it if it has a name.
func (s *SpillFile) remove() error {
	f := s.file
	s.file = nil
	err := f.Close()
	if s.path != "" {
		if gone := os.Remove(s.path); err == nil {
			err = gone
		}
	}
	if err != nil {
		return fmt.Errorf("mem: giving back the file of %s: %w", s.label, err)
	}
	return nil
}

// spilled records a change of the bytes in the process's own files.
func spilled(bytes int64) {
	ledger.Lock()
	defer ledger.Unlock()
	t := &ledger.totals
	t.Spilled += bytes
	t.SpilledPeak = max(t.SpilledPeak, t.Spilled)
}

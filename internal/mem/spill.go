package mem

import (
	"fmt"
	"os"

	"github.com/weirml/weir/internal/diag"
)

// SpillFile is a file of the process's own that holds what there is no memory for. Nobody else finds it: where the system allows it has no name any more, elsewhere it is
// removed when it is closed. It lies in the folder for temporary files (TMPDIR), which should be on a disk: one that is held in memory saves none.
type SpillFile struct {
	file  *os.File
	path  string // "" where it has no name any more
	label string
	size  int64
}

// NewSpill makes a file of the given size, whose contents are zeros. A refusal is an ErrMemory.
func NewSpill(label string, bytes int64) (*SpillFile, error) {
	s := &SpillFile{label: label, size: bytes}
	if Failing(Opening) {
		return nil, s.refused(errInjected)
	}
	f, err := os.CreateTemp("", "weir-*.spill")
	if err != nil {
		return nil, s.refused(err)
	}
	s.file, s.path = f, f.Name()
	if os.Remove(s.path) == nil {
		s.path = ""
	}
	spilled(bytes)
	if err := refusedOr(Room, func() error { return f.Truncate(bytes) }); err != nil {
		s.Close()
		return nil, s.refused(err)
	}
	return s, nil
}

func (s *SpillFile) refused(cause error) error {
	return diag.New(diag.ErrMemory, "a file of %s (%d bytes) for %s: %v", FormatBytes(s.size), s.size, s.label, cause).
		WithFix("give TMPDIR a folder with room").WithCause(cause)
}

// Size is the file's size in bytes.
func (s *SpillFile) Size() int64 { return s.size }

// Write puts data at a place in the file.
func (s *SpillFile) Write(data []byte, at int64) error {
	if err := s.within(data, at); err != nil {
		return err
	}
	return s.move(s.file.WriteAt, data, at)
}

// Read fills data from a place in the file.
func (s *SpillFile) Read(data []byte, at int64) error {
	if err := s.within(data, at); err != nil {
		return err
	}
	return s.move(s.file.ReadAt, data, at)
}

func (s *SpillFile) move(do func(data []byte, at int64) (int, error), data []byte, at int64) error {
	err := refusedOr(Room, func() error { _, err := do(data, at); return err })
	if err != nil {
		return s.refused(err)
	}
	return nil
}

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
	f := s.file
	s.file = nil
	spilled(-s.size)
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

// spilled notes a change of what lies in files of the process's own.
func spilled(bytes int64) {
	ledger.Lock()
	defer ledger.Unlock()
	t := &ledger.totals
	t.Spilled += bytes
	t.SpilledPeak = max(t.SpilledPeak, t.Spilled)
}

// pageAlign is the alignment of the pieces of a PageFile, in bytes.
const pageAlign = 64

// PageFile writes pieces of data to a file of the process's own and maps it, read-only: they need not be in memory, and come from the file when they are read. It gives
// the block, of kind File, and each piece's place in it.
func PageFile(label string, pieces [][]byte) (*Block, [][]byte, error) {
	total := int64(0)
	at := make([]int64, len(pieces))
	for i, p := range pieces {
		at[i] = (total + pageAlign - 1) / pageAlign * pageAlign
		total = at[i] + int64(len(p))
	}
	s, err := NewSpill(label, total)
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	for i, p := range pieces {
		if err := s.Write(p, at[i]); err != nil {
			return nil, nil, err
		}
	}
	b, err := MapFile(s.file, label)
	if err != nil {
		return nil, nil, err
	}
	places := make([][]byte, len(pieces))
	for i, p := range pieces {
		places[i] = b.Bytes()[at[i] : at[i]+int64(len(p)) : at[i]+int64(len(p))]
	}
	return b, places, nil
}

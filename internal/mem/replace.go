package mem

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Replace writes a file under another name in path's folder, and renames it to path when it is complete: path has the
// previous file or this one. Its permissions are those that the process's umask leaves. If durable, the bytes are
// synced to the disk before. Several processes may replace one file at the same time: each writes a file of its own,
// and the last to end wins. Where files can be locked, and on Windows, Replace removes
// what earlier calls for this path left that were killed.
func Replace(path string, durable bool, write func(w io.Writer) error) error {
	f, err := createBeside(path)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil && durable {
		err = f.Sync()
	}
	// The lock is held until the file has its name, if the system renames open files.
	if err == nil && locks {
		err = os.Rename(f.Name(), path)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil && !locks {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	sweep(path)
	return nil
}

// temporaryEnd is the end of the names of temporary files.
const temporaryEnd = ".tmp"

// temporaryStart returns the beginning of the names of temporary files for path; random letters follow.
func temporaryStart(path string) string { return "." + filepath.Base(path) + "." }

// createBeside creates and locks a temporary file for path.
func createBeside(path string) (*os.File, error) {
	for {
		name := filepath.Join(filepath.Dir(path), temporaryStart(path)+rand.Text()+temporaryEnd)
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// A sweep may have locked the file before, and removes it then, or have removed it already.
		_, busy := lock(f)
		if at, err := os.Stat(f.Name()); err == nil && !busy {
			if here, err := f.Stat(); err == nil && os.SameFile(at, here) {
				return f, nil
			}
		}
		f.Close()
	}
}

// sweep removes temporary files for path that no process has locked.
func sweep(path string) {
	list, _ := os.ReadDir(filepath.Dir(path))
	for _, entry := range list {
		if !strings.HasPrefix(entry.Name(), temporaryStart(path)) || !strings.HasSuffix(entry.Name(), temporaryEnd) {
			continue
		}
		name := filepath.Join(filepath.Dir(path), entry.Name())
		if !locks {
			if runtime.GOOS == "windows" { // it does not remove a file that is open
				os.Remove(name)
			}
			continue
		}
		if f, err := Open(name); err == nil {
			if locked, _ := lock(f); locked {
				os.Remove(name)
			}
			f.Close()
		}
	}
}

//go:build unix

package catalogue

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// trusted returns an error if others than this process's user, or root, may have written a file of the cache. A group
// that may write it was let in by its owner: Kubernetes does so for the volumes of a pod.
func trusted(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch mode := folder.Mode(); {
	case !info.Mode().IsRegular():
		return fmt.Errorf("it is no regular file: %v", info.Mode())
	case owner != 0 && int(owner) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d", owner)
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("others may write it: %v", info.Mode())
	case mode.Perm()&0o002 != 0 && mode&fs.ModeSticky == 0:
		return fmt.Errorf("others may replace it, in a folder of mode %v", mode)
	}
	return nil
}

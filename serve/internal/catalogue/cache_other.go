//go:build !unix

package catalogue

import (
	"fmt"
	"os"
)

// trusted returns an error unless a file of the cache is a regular file.
func trusted(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is no regular file: %v", info.Mode())
	}
	return err
}

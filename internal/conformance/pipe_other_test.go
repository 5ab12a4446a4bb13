//go:build !unix

package conformance

import "errors"

func pipe(string) error { return errors.ErrUnsupported }

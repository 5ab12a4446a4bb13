package target

import "golang.org/x/sys/unix"

const (
	requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM
	tileContents      = 18     // XFEATURE_XTILEDATA
)

// allowTiles asks the system for permission to use tile registers, for the entire process. It returns false if a
// thread's signal stack is too small for their contents, or if a sandbox blocks the request.
func allowTiles() bool {
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileContents, 0)
	return errno == 0
}

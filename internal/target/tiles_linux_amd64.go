package target

import "golang.org/x/sys/unix"

// The system's numbers: what a process asks for the use of registers whose contents take much room, and the contents of
// tile registers.
const (
	requestPermission = 0x1023
	tileContents      = 18
)

// allowTiles asks the system for the use of tile registers, for the whole process. It refuses where a thread's stack
// for signals has no room for their contents, or where a sandbox does not let the question through.
func allowTiles() bool {
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileContents, 0)
	return errno == 0
}

package mem

import "golang.org/x/sys/windows"

// flushInstructions is the system's function for code that a program has written.
var flushInstructions = windows.NewLazySystemDLL("kernel32.dll").NewProc("FlushInstructionCache")

// fetchable makes all processors fetch the instructions in pages that were written.
func fetchable(pages []byte) error {
	if err := flushInstructions.Find(); err != nil {
		return err
	}
	process := uintptr(windows.CurrentProcess())
	if done, _, err := flushInstructions.Call(process, address(pages), uintptr(len(pages))); done == 0 {
		return err
	}
	return nil
}

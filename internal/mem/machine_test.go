package mem

import (
	"runtime"
	"testing"
)

// TestMachine: the machine's memory is positive, and known on Linux.
func TestMachine(t *testing.T) {
	m := Machine()
	if m < 1<<20 {
		t.Errorf("the machine has %d bytes", m)
	}
	if _, ok := machineBytes(); runtime.GOOS == "linux" && !ok {
		t.Error("the machine's memory is not known")
	}
}

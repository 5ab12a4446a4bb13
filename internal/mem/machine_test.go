package mem

import (
	"runtime"
	"testing"
)

func TestMachine(t *testing.T) {
	m := Machine()
	if m < 1<<20 {
		t.Errorf("the machine has %d bytes", m)
	}
	if _, ok := machineBytes(); runtime.GOOS == "linux" && !ok {
		t.Error("the machine's memory is not known")
	}
}

package command

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFullOutput writes the output of commands to a file that accepts no bytes: each ends with 1, and the error names
// the file.
func TestFullOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close()
	weirRun(t, "--version") // which builds the binary
	for _, args := range []string{"plan", "info", "kernels", "check", "dump --lang loop", "info --json"} {
		var failed bytes.Buffer
		words := strings.Fields(args)
		cmd := exec.CommandContext(t.Context(), binary, append(words, digits)...)
		cmd.Stdout, cmd.Stderr = full, &failed
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(failed.String(), "/dev/stdout") {
			t.Errorf("%s: %v; standard error has\n%s", args, err, failed.String())
		}
	}
}

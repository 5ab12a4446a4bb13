// Package emulatetest runs emitted code in an emulated processor that has AVX-512, for tests on machines that do not:
// Bochs, by way of the Python package bochscpu-python. Its processor has AVX-512 F, CD, BW, DQ and VL, but not VNNI,
// BF16 or AMX; it refuses a gather whose indices are in vector register 16 or above. Where the package
// is missing, tests are skipped with the reason.
package emulatetest

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
)

// Python is the environment variable that names the Python in which bochscpu-python is installed; without it, python3.
const Python = "WEIR_EMULATOR_PYTHON"

//go:embed emulate.py
var script string

// Region is a range of the emulated memory. Bytes is its contents before the run and, unless it is ReadOnly,
// after it.
type Region struct {
	Address  uint64
	Bytes    []byte
	ReadOnly bool
}

// Machine is an emulated processor in a process of its own.
type Machine struct {
	command   *exec.Cmd
	in        io.WriteCloser
	out       *bufio.Reader
	complaint *strings.Builder // the process's standard error
}

// The addresses of code and stack, and where Place begins. CodeAddress is that of the code that Run is given.
const (
	CodeAddress  = 0x40_0000
	stackAddress = 0x7FFF_0000_0000
	stackBytes   = 16 << 10
	dataAddress  = 0x10_0000_0000
	page         = 4096
)

// New starts a machine that lives as long as the test. It skips the test if there is no emulator.
func New(t testing.TB) *Machine {
	t.Helper()
	python := os.Getenv(Python)
	if python == "" {
		python = "python3"
	}
	command := exec.Command(python, "-c", script)
	complaint := new(strings.Builder)
	command.Stderr = complaint
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Skipf("no Python to emulate AVX-512 with: %v", err)
	}
	m := &Machine{command, in, bufio.NewReaderSize(out, 1<<16), complaint}
	t.Cleanup(func() {
		_ = in.Close()
		_ = command.Wait()
	})
	if line, err := m.out.ReadString('\n'); err != nil || line != "ready\n" {
		_ = in.Close()
		_ = command.Wait()
		lines := strings.Split(strings.TrimSpace(complaint.String()), "\n")
		t.Skipf("%s has no bochscpu, which emulates AVX-512 (CONTRIBUTING.md tells how to install it): %s", python,
			lines[len(lines)-1])
	}
	return m
}

// Place gives regions addresses: each ends at the end of a page, moved down to a multiple of align bytes, and no page
// beside its own is mapped, so that an access past its end by align bytes or more faults.
func Place(align int, regions ...*Region) {
	next := uint64(dataAddress)
	for _, r := range regions {
		size := uint64(len(r.Bytes))
		pages := (size+page-1)/page + 1
		r.Address = (next + pages*page - size) / uint64(align) * uint64(align)
		next += (pages + 1) * page
	}
}

// Run calls code, which returns by RET, with the given registers (other general registers hold a number that is no
// address, RSP a stack of 16 KiB) and memory, and returns RAX. A fault, or a run of more than a minute, is an error;
// regions are then as before.
func (m *Machine) Run(code []byte, registers map[asm.Reg]uint64, regions ...*Region) (uint64, error) {
	stack := &Region{Address: stackAddress, Bytes: make([]byte, stackBytes)}
	returns := uint64(0x7FFF_FFFF_0000)
	for n := range 8 {
		stack.Bytes[stackBytes-8+n] = byte(returns >> (8 * n))
	}
	type wire struct {
		Address  uint64 `json:"address"`
		Bytes    []byte `json:"bytes"`
		ReadOnly bool   `json:"readOnly"`
	}
	request := struct {
		Registers map[string]uint64 `json:"registers"`
		Regions   []wire            `json:"regions"`
	}{map[string]uint64{"rsp": stackAddress + stackBytes - 8}, []wire{{CodeAddress, code, true}, wire(*stack)}}
	for r, value := range registers {
		request.Registers[asm.Name(r)] = value
	}
	for _, r := range regions {
		request.Regions = append(request.Regions, wire(*r))
	}
	var answer struct {
		Error  string   `json:"error"`
		RAX    uint64   `json:"rax"`
		Memory [][]byte `json:"memory"`
	}
	watch := time.AfterFunc(time.Minute, func() { _ = m.command.Process.Kill() })
	defer watch.Stop()
	if err := json.NewEncoder(m.in).Encode(request); err != nil {
		return 0, fmt.Errorf("the emulator is gone: %w", err)
	}
	line, err := m.out.ReadBytes('\n')
	if err != nil {
		_ = m.command.Wait()
		return 0, fmt.Errorf("the emulator is gone, or took more than a minute: %w\n%s", err, m.complaint)
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return 0, err
	}
	if answer.Error != "" {
		return 0, errors.New("emulated: " + answer.Error)
	}
	answer.Memory = answer.Memory[1:] // the stack's
	for _, r := range regions {
		if !r.ReadOnly {
			copy(r.Bytes, answer.Memory[0])
			answer.Memory = answer.Memory[1:]
		}
	}
	return answer.RAX, nil
}

// Command gomlx times GoMLX's backend in Go on a model, which onnx-gomlx reads. It prints the same line as
// bench/engine.py.
//
// Usage: gomlx FOLDER SECONDS. It uses GOMAXPROCS threads, by default the number of processors.
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gomlx/gomlx/backends/simplego"
	"github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/tensors"
	"github.com/gomlx/gomlx/pkg/ml/context"
	"github.com/gomlx/onnx-gomlx/onnx"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "gomlx:", err)
		os.Exit(1)
	}
}

// run times the model in a folder for so many seconds, and prints the line.
func run(folder, length string) (err error) {
	defer func() {
		if r := recover(); r != nil { // GoMLX refuses a model by a panic
			text, _, _ := strings.Cut(fmt.Sprint(r), "\n")
			err = fmt.Errorf("%s", text)
		}
	}()
	seconds, err := strconv.ParseFloat(length, 64)
	if err != nil {
		return err
	}
	inputs, err := arrays(folder, "x")
	if err != nil {
		return err
	}
	want, err := arrays(folder, "y")
	if err != nil {
		return err
	}
	begin := time.Now()
	backend, err := simplego.New("")
	if err != nil {
		return err
	}
	model, err := onnx.ReadFile(filepath.Join(folder, "model.onnx"))
	if err != nil {
		return err
	}
	ctx := context.New()
	if err := model.VariablesToContext(ctx); err != nil {
		return err
	}
	names, _ := model.Inputs()
	exec, err := context.NewExecAny(backend, ctx, func(ctx *context.Context, in []*graph.Node) []*graph.Node {
		given := map[string]*graph.Node{}
		for i, n := range in {
			given[names[i]] = n
		}
		return model.CallGraph(ctx, in[0].Graph(), given)
	})
	if err != nil {
		return err
	}
	args := make([]any, len(inputs))
	for i, t := range inputs {
		args[i] = t
	}
	once := func() (out []*tensors.Tensor, ms float64, err error) {
		begin := time.Now()
		out, err = exec.Exec(args...)
		return out, float64(time.Since(begin).Nanoseconds()) / 1e6, err
	}
	load := time.Since(begin)
	out, first, err := once()
	if err != nil {
		return err
	}
	wrong := 0.0
	for i, y := range want {
		wrong = max(wrong, distance(tensors.MustCopyFlatData[float32](out[i]), tensors.MustCopyFlatData[float32](y)))
	}
	var times []float64
	for begin := time.Now(); len(times) < 3 || time.Since(begin).Seconds() < seconds; {
		out, ms, err := once()
		if err != nil {
			return err
		}
		for _, t := range out {
			t.FinalizeAll()
		}
		times = append(times, ms)
	}
	slices.Sort(times)
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"min": times[0], "median": times[len(times)/2],
		"runs": len(times), "load": float64(load.Microseconds()) / 1e3, "first": first,
		"error": wrong, "resident": float64(usage.Maxrss) / 1024})
}

// distance returns the largest difference relative to the largest value.
func distance(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	most, worst := 0.0, 0.0
	for i, w := range want {
		most, worst = max(most, math.Abs(float64(w))), max(worst, math.Abs(float64(got[i])-float64(w)))
	}
	return worst / (most + 1e-9)
}

// arrays reads the folder's x0.npy … or y0.npy ….
func arrays(folder, letter string) (list []*tensors.Tensor, err error) {
	for {
		data, err := os.ReadFile(filepath.Join(folder, fmt.Sprintf("%s%d.npy", letter, len(list))))
		if os.IsNotExist(err) {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		t, err := array(data)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
}

var header = regexp.MustCompile(`'descr': '(<f4|<i8)', 'fortran_order': False, 'shape': \(([0-9, ]*)\)`)

// array reads NumPy's format, as far as the models' inputs and outputs need it.
func array(data []byte) (*tensors.Tensor, error) {
	if len(data) < 10 || int(binary.LittleEndian.Uint16(data[8:]))+10 > len(data) {
		return nil, fmt.Errorf("no npy file")
	}
	end := 10 + int(binary.LittleEndian.Uint16(data[8:]))
	found := header.FindSubmatch(data[:end])
	if found == nil {
		return nil, fmt.Errorf("npy header %s", data[10:end])
	}
	var shape []int
	for _, field := range strings.FieldsFunc(string(found[2]), func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		shape = append(shape, n)
	}
	if string(found[1]) == "<f4" {
		return decode[float32](data[end:], 4, shape)
	}
	return decode[int64](data[end:], 8, shape)
}

// decode returns the elements of little-endian data as a tensor.
func decode[T float32 | int64](data []byte, width int, shape []int) (*tensors.Tensor, error) {
	values := make([]T, len(data)/width)
	if err := binary.Read(bytes.NewReader(data), binary.LittleEndian, values); err != nil {
		return nil, err
	}
	return tensors.FromFlatDataAndDimensions(values, shape...), nil
}

package onnx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// externalTensor returns a tensor whose external_data has the given keys and values.
func externalTensor(dt wire.DataType, dims []int64, pairs ...string) *wire.TensorProto {
	p := &wire.TensorProto{Name: "w", DataType: dt, Dims: dims, DataLocation: wire.LocationExternal}
	for i := 0; i < len(pairs); i += 2 {
		p.ExternalData = append(p.ExternalData, &wire.StringStringEntryProto{Key: pairs[i], Value: pairs[i+1]})
	}
	return p
}

// weights returns the floats 0, 1, 2, … as a file has them, after one byte.
func weights(n int) []byte {
	data := []byte{99}
	for i := range n {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(i)))
	}
	return data
}

// noClaim returns the claim of a model that has no bytes.
func noClaim() *mem.Claim { return mem.NewClaim(context.Background(), 0) }

// TestExternal reads tensors from other files: as views, aligned or not, and truth values that are neither 0 nor 1 as
// one copy for each place.
func TestExternal(t *testing.T) {
	before := len(mem.Live())
	folder := t.TempDir()
	data := weights(1024)
	if err := os.MkdirAll(filepath.Join(folder, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w.bin", "sub/w.bin"} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sources := map[string]*external{
		"folder": externalIn(noClaim(), folder),
		"dirfs":  externalFS(noClaim(), os.DirFS(folder), "model.onnx"),
		"memory": externalFS(noClaim(), fstest.MapFS{"in/w.bin": {Data: data}, "in/sub/w.bin": {Data: data}},
			"in/model.onnx"),
	}
	for name, x := range sources {
		for _, c := range []struct {
			p           *wire.TensorProto
			first, last float64
		}{
			{externalTensor(wire.FloatType, []int64{4}, "location", "w.bin", "offset", "1", "length", "16"), 0, 3},
			{externalTensor(wire.FloatType, []int64{2, 2}, "location", "./w.bin", "offset", "4081"), 1020, 1023},
			{externalTensor(wire.Uint8Type, []int64{1}, "location", "sub//w.bin"), 99, 99},
			{externalTensor(wire.Uint8Type, []int64{5}, "location", "sub/w.bin", "offset", "4092"), 0x44, 0x44},
			{externalTensor(wire.BoolType, []int64{2}, "location", "w.bin", "offset", "0"), 1, 0},
			{externalTensor(wire.BoolType, []int64{1, 2}, "location", "w.bin", "offset", "0"), 1, 0},
		} {
			got, err := x.Tensor(c.p)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got.Float(0) != c.first || got.Float(got.Len()-1) != c.last {
				t.Errorf("%s: %v", name, got)
			}
		}
		if n := len(x.claim.Blocks()); n != 1 || len(x.copies) != 1 {
			t.Errorf("%s: %d copies of the ledger, %d known, of two tensors of the same truth values", name, n, len(x.copies))
		}
		if len(x.files) != 2 {
			t.Errorf("%s: %d files are open", name, len(x.files))
		}
		if err := errors.Join(x.Close(), x.claim.Close()); err != nil {
			t.Error(err)
		}
	}
	if after := len(mem.Live()); after != before {
		t.Errorf("%d blocks were never closed", after-before)
	}
}

// TestExternalHostile refuses locations outside the folder, impossible offsets and lengths, and wrong sizes.
func TestExternalHostile(t *testing.T) {
	outside := t.TempDir()
	folder := filepath.Join(outside, "model")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"secret.bin", "model/w.bin"} {
		if err := os.WriteFile(filepath.Join(outside, name), weights(4), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	links := os.Symlink(filepath.Join(outside, "secret.bin"), filepath.Join(folder, "absolute.bin")) == nil &&
		os.Symlink("../secret.bin", filepath.Join(folder, "climbing.bin")) == nil &&
		os.Symlink("..", filepath.Join(folder, "up")) == nil &&
		os.Symlink("w.bin", filepath.Join(folder, "inside.bin")) == nil &&
		os.Symlink("loop.bin", filepath.Join(folder, "loop.bin")) == nil
	f32 := func(dims []int64, pairs ...string) *wire.TensorProto {
		return externalTensor(wire.FloatType, dims, pairs...)
	}
	one := []int64{1}
	type row struct {
		p    *wire.TensorProto
		want string // "": fine
	}
	rows := []row{
		{f32(one, "location", "w.bin", "offset", "13"), ""},
		{f32(one, "location", "w.bin", "offset", "14"), "4 bytes at offset 14 do not lie in the file, which has 17"},
		{f32(one, "location", "w.bin", "offset", fmt.Sprint(int64(math.MaxInt64))), "do not lie in the file"},
		{f32(one, "location", "w.bin", "length", "8"), "the length is 8 bytes where f32[1] needs 4"},
		{f32([]int64{1 << 40}, "location", "w.bin"), "4398046511104 bytes at offset 0 do not lie in the file"},
		{f32([]int64{1 << 40, 1 << 40}, "location", "w.bin"), "more than 2⁶³ elements"},
		{f32([]int64{-1}, "location", "w.bin"), "-1"},
		{f32(one, "location", ""), "names no location"},
		{f32(one, "location", "/etc/passwd"), "the path is absolute"},
		{f32(one, "location", filepath.ToSlash(filepath.Join(outside, "secret.bin"))), "the path"},
		{f32(one, "location", "../secret.bin"), `the path holds ".."`},
		{f32(one, "location", "sub/../w.bin"), `the path holds ".."`},
		{f32(one, "location", "w.bin\x00.txt"), "holds a NUL"},
		{f32(one, "location", "."), "names no file"},
		{f32(one, "location", "missing.bin"), "missing.bin"},
		{f32(one, "location", "w.bin/x"), "w.bin"},
		{externalTensor(wire.StringType, one, "location", "w.bin"), "strings cannot lie in another file"},
		{externalTensor(0, one, "location", "w.bin"), "data_type is 0"},
	}
	if links {
		rows = append(rows,
			row{f32(one, "location", "inside.bin"), ""},
			row{f32(one, "location", "absolute.bin"), "escapes"},
			row{f32(one, "location", "climbing.bin"), "escapes"},
			row{f32(one, "location", "up/secret.bin"), "escapes"},
			row{f32(one, "location", "up"), "escapes"},
			row{f32(one, "location", "loop.bin"), "loop.bin"},
		)
	}
	x := externalIn(noClaim(), folder)
	defer x.Close()
	for _, c := range rows {
		got, err := x.Tensor(c.p)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v: %v", c.p.ExternalData[0].Value, err)
		case c.want == "" && got.DType() != tensor.TypeOf[float32]():
			t.Errorf("%v", got)
		case c.want != "" && err == nil:
			t.Errorf("%q was opened", c.p.ExternalData[0].Value)
		case c.want != "":
			if !strings.Contains(err.Error(), c.want) || !errors.Is(err, diag.ErrInput) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want %q", err, c.want)
			}
			var e *diag.Error
			if errors.As(err, &e); e.Tensor != "w" {
				t.Errorf("%q does not name the tensor", err)
			}
		}
	}
	missing := externalIn(noClaim(), filepath.Join(outside, "no such folder"))
	if _, err := missing.Tensor(f32(one, "location", "w.bin")); err == nil || !errors.Is(err, diag.ErrInput) {
		t.Error(err)
	}
	if _, err := externalFS(noClaim(), fstest.MapFS{"d/x": {}}, "m.onnx").Tensor(f32(one, "location", "d")); err == nil ||
		!strings.Contains(err.Error(), "regular") {
		t.Error(err)
	}
}

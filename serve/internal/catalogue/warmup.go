package catalogue

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve/internal/oip"
)

// fill gives a warm-up input its values. A tensor is made of zeros.
func (v *Version) fill(t *weir.Tensor, spec *oip.ModelWarmup_Input) error {
	switch kind := spec.InputDataType.(type) {
	case *oip.ModelWarmup_Input_RandomData:
		if kind.RandomData {
			randomize(t)
		}
	case *oip.ModelWarmup_Input_InputDataFile:
		return v.read(t, kind.InputDataFile)
	}
	return nil
}

// randomize sets numbers from 0 to 1, which are in the range of any index too; types without a number of whole bytes
// stay zeros.
func randomize(t *weir.Tensor) {
	if t.DType() == weir.StringType {
		return
	}
	random, data := rand.New(rand.NewPCG(1, 2)), t.Bytes()
	size := t.DType().Size()
	ones := map[weir.DType]uint16{weir.F16: 0x3C00, weir.BF16: 0x3F80}
	for at := 0; size > 0 && at+size <= len(data); at += size {
		switch t.DType() {
		case weir.F32:
			binary.Encode(data[at:], binary.NativeEndian, random.Float32())
		case weir.F64:
			binary.Encode(data[at:], binary.NativeEndian, random.Float64())
		case weir.F16, weir.BF16:
			binary.NativeEndian.PutUint16(data[at:], ones[t.DType()]*uint16(random.IntN(2)))
		case weir.I8, weir.U8, weir.Bool:
			data[at] = byte(random.IntN(2))
		case weir.I16, weir.U16:
			binary.NativeEndian.PutUint16(data[at:], uint16(random.IntN(2)))
		case weir.I32, weir.U32:
			binary.NativeEndian.PutUint32(data[at:], uint32(random.IntN(2)))
		case weir.I64, weir.U64:
			binary.NativeEndian.PutUint64(data[at:], uint64(random.IntN(2)))
		}
	}
}

// folder returns the folder beside the model's versions, or that of its file.
func (v *Version) folder() string {
	folder := filepath.Dir(v.source.path)
	if filepath.Base(folder) == v.Name() && filepath.Base(filepath.Dir(folder)) == v.Model {
		folder = filepath.Dir(folder)
	}
	return folder
}

// read reads a tensor from a file of the folder warmup beside the model's versions, and from nowhere else. The file has
// the elements of one row, which all rows get, or those of all rows.
func (v *Version) read(t *weir.Tensor, name string) error {
	if t.DType() == weir.StringType {
		return fmt.Errorf("input_data_file %q: strings are not read from files; use zero_data", name)
	}
	root, err := os.OpenRoot(filepath.Join(v.folder(), "warmup"))
	if err != nil {
		return fmt.Errorf("input_data_file %q: %w", name, err)
	}
	defer root.Close()
	info, err := root.Stat(name) // before it is opened: a pipe would not let go
	if err != nil {
		return fmt.Errorf("input_data_file %q: %w", name, err)
	}
	data := t.Bytes()
	size := info.Size()
	whole := size == int64(len(data)) || size > 0 && int64(len(data))%size == 0
	if !info.Mode().IsRegular() || !whole {
		return fmt.Errorf("input_data_file %q has %d bytes, and the input %d", name, size, len(data))
	}
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	row := data[:min(int64(len(data)), size)]
	if _, err := io.ReadFull(file, row); err != nil {
		return fmt.Errorf("input_data_file %q: %w", name, err)
	}
	for at := len(row); at < len(data); at += len(row) {
		copy(data[at:], row)
	}
	return nil
}

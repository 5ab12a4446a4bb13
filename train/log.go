package train

import (
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/weirml/weir/internal/diag"
)

// Value is a named number, as "loss".
type Value struct {
	Name  string
	Value float64
}

// Log records named numbers by step.
type Log interface {
	Log(step int64, values ...Value) error
}

// CSV writes values as comma-separated lines: the step, a name and a value. The first line is the columns' names.
type CSV struct {
	w     *csv.Writer
	began bool
}

// NewCSV returns a log that writes to w.
func NewCSV(w io.Writer) *CSV { return &CSV{w: csv.NewWriter(w)} }

// Log writes a line for each value.
func (c *CSV) Log(step int64, values ...Value) error {
	if !c.began {
		c.began = true
		c.w.Write([]string{"step", "name", "value"})
	}
	for _, v := range values {
		c.w.Write([]string{strconv.FormatInt(step, 10), v.Name, strconv.FormatFloat(v.Value, 'g', -1, 64)})
	}
	c.w.Flush()
	return c.w.Error()
}

// TensorBoard writes values as event files for TensorBoard.
type TensorBoard struct {
	file *os.File
	now  func() time.Time
}

// NewTensorBoard returns a log with a new file in a folder, which it makes if necessary.
func NewTensorBoard(dir string) (*TensorBoard, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, diag.Inputf("%v", err).AtFile(dir).WithCause(err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	now := time.Now()
	for i := 0; ; i++ {
		name := fmt.Sprintf("events.out.tfevents.%010d.%s.%d.%d", now.Unix(), host, os.Getpid(), i)
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if os.IsExist(err) {
			continue
		}
		if err != nil {
			return nil, diag.Inputf("%v", err).AtFile(dir).WithCause(err)
		}
		t := &TensorBoard{file, time.Now}
		if err := t.write(field(t.event(0), 3, []byte("brain.Event:2"))); err != nil {
			file.Close()
			return nil, err
		}
		return t, nil
	}
}

// Log writes an event.
func (t *TensorBoard) Log(step int64, values ...Value) error {
	var summary []byte
	for _, v := range values {
		one := field(nil, 1, []byte(v.Name))
		one = binary.LittleEndian.AppendUint32(append(one, 2<<3|5), math.Float32bits(float32(v.Value)))
		summary = field(summary, 1, one)
	}
	return t.write(field(t.event(step), 5, summary))
}

// Close closes the file.
func (t *TensorBoard) Close() error { return t.file.Close() }

// event returns the beginning of an event: field 1, the time in seconds, and field 2, the step.
func (t *TensorBoard) event(step int64) []byte {
	seconds := float64(t.now().UnixNano()) / 1e9
	b := binary.LittleEndian.AppendUint64([]byte{1<<3 | 1}, math.Float64bits(seconds))
	return binary.AppendUvarint(append(b, 2<<3|0), uint64(step))
}

// field appends a protobuf field of bytes.
func field(b []byte, number byte, data []byte) []byte {
	return append(binary.AppendUvarint(append(b, number<<3|2), uint64(len(data))), data...)
}

// write writes a record: its length, the length's checksum, its bytes, and their checksum.
func (t *TensorBoard) write(event []byte) error {
	record := binary.LittleEndian.AppendUint64(nil, uint64(len(event)))
	record = binary.LittleEndian.AppendUint32(record, masked(record))
	record = append(record, event...)
	record = binary.LittleEndian.AppendUint32(record, masked(event))
	_, err := t.file.Write(record)
	return err
}

// masked returns a record's checksum: CRC-32C, rotated and offset, so that the checksum of data that contain a checksum
// differs from it.
func masked(data []byte) uint32 {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return (sum>>15 | sum<<17) + 0xa282ead8
}

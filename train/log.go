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

// Value is a number with a name, as "loss".
type Value struct {
	Name  string
	Value float64
}

// Log takes down values of a step.
type Log interface {
	Log(step int64, values ...Value) error
}

// CSV writes values as lines of comma-separated values: the step, a name and a value. The first line names these
// columns.
type CSV struct {
	w     *csv.Writer
	began bool
}

// NewCSV makes a log that writes to w.
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

// TensorBoard writes values as events that TensorBoard shows.
type TensorBoard struct {
	file *os.File
	now  func() time.Time
}

// NewTensorBoard makes a log in a folder, which is made if it is not there: a new file for each.
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
		if err := t.write(text(t.event(0), 3, []byte("brain.Event:2"))); err != nil {
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
		one := text(nil, 1, []byte(v.Name))
		one = binary.LittleEndian.AppendUint32(append(one, 2<<3|5), math.Float32bits(float32(v.Value)))
		summary = text(summary, 1, one)
	}
	return t.write(text(t.event(step), 5, summary))
}

// Close closes the file.
func (t *TensorBoard) Close() error { return t.file.Close() }

// event begins an event: the time of day, field 1, and the step, field 2.
func (t *TensorBoard) event(step int64) []byte {
	seconds := float64(t.now().UnixNano()) / 1e9
	b := binary.LittleEndian.AppendUint64([]byte{1<<3 | 1}, math.Float64bits(seconds))
	return binary.AppendUvarint(append(b, 2<<3|0), uint64(step))
}

// text appends a field of bytes, as protobuf has it.
func text(b []byte, field byte, data []byte) []byte {
	return append(binary.AppendUvarint(append(b, field<<3|2), uint64(len(data))), data...)
}

// write writes a record: its length, the checksum of that, its bytes, and their checksum.
func (t *TensorBoard) write(event []byte) error {
	record := binary.LittleEndian.AppendUint64(nil, uint64(len(event)))
	record = binary.LittleEndian.AppendUint32(record, masked(record))
	record = append(record, event...)
	record = binary.LittleEndian.AppendUint32(record, masked(event))
	_, err := t.file.Write(record)
	return err
}

// masked is the checksum of records: CRC-32C, turned and shifted so that a checksum of data with checksums is none of
// them.
func masked(data []byte) uint32 {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// Package pprof writes profiles for `go tool pprof`: gzipped protocol buffers, as
// github.com/google/pprof/proto/profile.proto describes them. It writes the fields that a profile of held memory needs,
// values with a stack and labels, and reads nothing. It also sets the labels that goroutines have in CPU profiles.
package pprof

import (
	"compress/gzip"
	"io"
	"maps"
	"runtime"
	"slices"
	"time"
)

// Type names a value of each sample and its unit, such as inuse_space in bytes.
type Type struct{ Name, Unit string }

// Sample is a stack, the innermost call first as runtime.Callers returns it, with a value for each Type. Labels
// distinguish samples of one stack.
type Sample struct {
	Stack  []runtime.Frame
	Values []int64
	Labels map[string]string
}

// Write writes a profile with the current time. Tools show the last Type by default.
func Write(w io.Writer, types []Type, samples []Sample) error {
	p := &profile{strings: map[string]uint64{}, functions: map[string]uint64{}, locations: map[runtime.Frame]uint64{}}
	p.string("") // the first string is the empty one
	for _, t := range types {
		p.out.message(1, p.valueType(t))
	}
	for _, s := range samples {
		p.out.message(2, p.sample(s))
	}
	p.out.bytes = append(p.out.bytes, p.tables.bytes...)
	p.out.number(9, uint64(time.Now().UnixNano()))
	last := types[len(types)-1]
	p.out.message(11, p.valueType(last))
	p.out.number(12, 1)
	p.out.number(14, p.string(last.Name))
	for _, s := range p.table {
		p.out.message(6, []byte(s))
	}
	z := gzip.NewWriter(w)
	if _, err := z.Write(p.out.bytes); err != nil {
		return err
	}
	return z.Close()
}

// profile has the data that samples share: strings, functions, locations.
type profile struct {
	out       buffer
	tables    buffer // functions and locations
	strings   map[string]uint64
	table     []string
	functions map[string]uint64
	locations map[runtime.Frame]uint64
}

// string returns the index of s in the table of strings.
func (p *profile) string(s string) uint64 {
	i, ok := p.strings[s]
	if !ok {
		i = uint64(len(p.table))
		p.strings[s] = i
		p.table = append(p.table, s)
	}
	return i
}

// valueType returns the message of a type.
func (p *profile) valueType(t Type) []byte {
	var b buffer
	b.number(1, p.string(t.Name))
	b.number(2, p.string(t.Unit))
	return b.bytes
}

// sample returns the message of a sample.
func (p *profile) sample(s Sample) []byte {
	var b buffer
	for _, f := range s.Stack {
		b.number(1, p.location(f))
	}
	for _, v := range s.Values {
		b.number(2, uint64(v))
	}
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		var l buffer
		l.number(1, p.string(key))
		l.number(2, p.string(s.Labels[key]))
		b.message(3, l.bytes)
	}
	return b.bytes
}

// location returns the number of a line of code; numbers begin at 1.
func (p *profile) location(f runtime.Frame) uint64 {
	key := runtime.Frame{Function: f.Function, File: f.File, Line: f.Line}
	i, ok := p.locations[key]
	if ok {
		return i
	}
	i = uint64(len(p.locations) + 1)
	p.locations[key] = i
	var line, b buffer
	line.number(1, p.function(f))
	line.number(2, uint64(f.Line))
	b.number(1, i)
	b.message(4, line.bytes)
	p.tables.message(4, b.bytes)
	return i
}

// function returns the number of a function; numbers begin at 1.
func (p *profile) function(f runtime.Frame) uint64 {
	key := f.Function + "\x00" + f.File
	i, ok := p.functions[key]
	if ok {
		return i
	}
	i = uint64(len(p.functions) + 1)
	p.functions[key] = i
	var b buffer
	b.number(1, i)
	b.number(2, p.string(f.Function))
	b.number(3, p.string(f.Function))
	b.number(4, p.string(f.File))
	p.tables.message(5, b.bytes)
	return i
}

// buffer is a protocol buffer that is being written.
type buffer struct{ bytes []byte }

// varint appends an integer of variable length.
func (b *buffer) varint(v uint64) {
	for ; v >= 0x80; v >>= 7 {
		b.bytes = append(b.bytes, byte(v)|0x80)
	}
	b.bytes = append(b.bytes, byte(v))
}

// number appends a field of an integer.
func (b *buffer) number(field int, v uint64) {
	b.varint(uint64(field) << 3)
	b.varint(v)
}

// message appends a field of bytes.
func (b *buffer) message(field int, data []byte) {
	b.varint(uint64(field)<<3 | 2)
	b.varint(uint64(len(data)))
	b.bytes = append(b.bytes, data...)
}

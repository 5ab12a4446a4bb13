package oip

import (
	"encoding/binary"
	"iter"
	"math"
)

// Texts iterates over the strings of a BYTES tensor's data, and ends before a length that exceeds the data. The strings
// are slices of data.
func Texts(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(data) >= 4 {
			n := uint64(binary.LittleEndian.Uint32(data))
			if n > uint64(len(data)-4) || !yield(data[4:4+n]) {
				return
			}
			data = data[4+n:]
		}
	}
}

// textsEnd returns the number of bytes of data that are strings.
func textsEnd(data []byte) (end int) {
	for text := range Texts(data) {
		end += 4 + len(text)
	}
	return end
}

// TextsSize returns the bytes of strings as a BYTES tensor's data, −1 if a string is too long for it.
func TextsSize(texts []string) (size int64) {
	for _, s := range texts {
		if uint64(len(s)) > math.MaxUint32 {
			return -1
		}
		size += 4 + int64(len(s))
	}
	return size
}

// AppendText appends a string as a BYTES tensor's data has it.
func AppendText(data []byte, text string) []byte {
	return append(binary.LittleEndian.AppendUint32(data, uint32(len(text))), text...)
}

// AppendTexts appends strings as a BYTES tensor's data has them.
func AppendTexts(data []byte, texts []string) []byte {
	for _, s := range texts {
		data = AppendText(data, s)
	}
	return data
}

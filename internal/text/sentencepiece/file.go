// Package sentencepiece reads the .model files of SentencePiece, and encodes and decodes as it does.
package sentencepiece

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/weirml/weir/internal/diag"
)

// Type is the type of a piece, as files number it.
type Type uint8

// The types of pieces.
const (
	Normal      Type = 1
	Unknown     Type = 2
	Control     Type = 3
	UserDefined Type = 4
	Unused      Type = 5
	Byte        Type = 6
)

// Algorithm is the type of a model, as files number it.
type Algorithm uint8

// The types of models.
const (
	Unigram Algorithm = 1
	BPE     Algorithm = 2
	Word    Algorithm = 3
	Char    Algorithm = 4
)

// Piece is a piece of the vocabulary. Its place is its id.
type Piece struct {
	Text  string
	Score float32
	Type  Type
}

// Normalizer is how a text is changed before it is cut.
type Normalizer struct {
	Name                   string
	Charsmap               []byte // empty: none; it shares memory with the file
	AddDummyPrefix         bool
	RemoveExtraWhitespaces bool
	EscapeWhitespaces      bool
}

// File is what a .model file holds.
type File struct {
	Pieces                   []Piece
	Algorithm                Algorithm
	ByteFallback             bool
	TreatWhitespaceAsSuffix  bool
	AllowWhitespaceOnly      bool
	UnknownSurface           string // what the unknown piece decodes to
	BOS, EOS, PAD            int    // ids; negative: none
	Normalizer, Denormalizer Normalizer
}

func fault(format string, args ...any) error {
	return &diag.Error{Kind: diag.ErrInput, Op: "SentencePiece", Detail: fmt.Sprintf(format, args...)}
}

// message is the rest of a message in protobuf's wire format.
type message []byte

// field is a field of a message: its number, and its value as an integer or as bytes.
type field struct {
	number uint64
	wire   uint8
	value  uint64
	bytes  []byte
}

// next takes the first field of a message.
func (m *message) next() (f field, err error) {
	number := func() uint64 {
		n, size := binary.Uvarint(*m)
		if size <= 0 {
			err = fault("a number is not complete")
			return 0
		}
		*m = (*m)[size:]
		return n
	}
	tag := number()
	f.number, f.wire = tag>>3, uint8(tag&7)
	take := func(n uint64) []byte {
		if n > uint64(len(*m)) {
			err = fault("field %d has %d bytes, and %d are left", f.number, n, len(*m))
			return nil
		}
		b := (*m)[:n:n]
		*m = (*m)[n:]
		return b
	}
	if err != nil {
		return f, err
	}
	switch f.wire {
	case 0:
		f.value = number()
	case 1:
		take(8)
	case 2:
		if n := number(); err == nil {
			f.bytes = take(n)
		}
	case 5:
		if b := take(4); err == nil {
			f.value = uint64(binary.LittleEndian.Uint32(b))
		}
	default:
		err = fault("field %d is of wire type %d", f.number, f.wire)
	}
	return f, err
}

// each calls use for each field of data.
func each(data []byte, use func(f field) error) error {
	for m := message(data); len(m) > 0; {
		f, err := m.next()
		if err == nil {
			err = use(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Parse returns what data holds. Its error is an ErrInput. The file's strings are copies; the charsmaps share data.
func Parse(data []byte) (*File, error) {
	f := &File{Algorithm: Unigram, UnknownSurface: " \u2047 ", BOS: 1, EOS: 2, PAD: -1,
		Normalizer:   Normalizer{AddDummyPrefix: true, RemoveExtraWhitespaces: true, EscapeWhitespaces: true},
		Denormalizer: Normalizer{AddDummyPrefix: true, RemoveExtraWhitespaces: true, EscapeWhitespaces: true}}
	err := each(data, func(part field) error {
		if part.number <= 5 && part.wire != 2 {
			return fault("field %d is of wire type %d", part.number, part.wire)
		}
		switch part.number {
		case 1:
			return f.piece(part.bytes)
		case 2:
			return f.trainer(part.bytes)
		case 3:
			return f.Normalizer.read(part.bytes)
		case 5:
			return f.Denormalizer.read(part.bytes)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, f.Check()
}

func (f *File) piece(data []byte) error {
	p := Piece{Type: Normal}
	err := each(data, func(part field) error {
		switch {
		case part.number == 1 && part.wire == 2:
			if !utf8.Valid(part.bytes) {
				return fault("piece %d is not UTF-8", len(f.Pieces))
			}
			p.Text = string(part.bytes)
		case part.number == 2 && part.wire == 5:
			p.Score = math.Float32frombits(uint32(part.value))
		case part.number == 3 && part.wire == 0:
			if part.value < uint64(Normal) || part.value > uint64(Byte) {
				return fault("piece %d has type %d", len(f.Pieces), part.value)
			}
			p.Type = Type(part.value)
		}
		return nil
	})
	f.Pieces = append(f.Pieces, p)
	return err
}

func (f *File) trainer(data []byte) error {
	return each(data, func(part field) error {
		if part.wire == 2 && part.number == 44 {
			f.UnknownSurface = string(part.bytes)
		}
		if part.wire != 0 {
			return nil
		}
		id := int(int32(part.value))
		switch part.number {
		case 3:
			if part.value < uint64(Unigram) || part.value > uint64(Char) {
				return fault("the model is of type %d", part.value)
			}
			f.Algorithm = Algorithm(part.value)
		case 24:
			f.TreatWhitespaceAsSuffix = part.value != 0
		case 26:
			f.AllowWhitespaceOnly = part.value != 0
		case 35:
			f.ByteFallback = part.value != 0
		case 41:
			f.BOS = id
		case 42:
			f.EOS = id
		case 43:
			f.PAD = id
		}
		return nil
	})
}

func (n *Normalizer) read(data []byte) error {
	return each(data, func(part field) error {
		switch {
		case part.number == 1 && part.wire == 2:
			n.Name = string(part.bytes)
		case part.number == 2 && part.wire == 2:
			n.Charsmap = part.bytes
		case part.wire != 0:
		case part.number == 3:
			n.AddDummyPrefix = part.value != 0
		case part.number == 4:
			n.RemoveExtraWhitespaces = part.value != 0
		case part.number == 5:
			n.EscapeWhitespaces = part.value != 0
		}
		return nil
	})
}

// UnknownID returns the id of the unknown piece.
func (f *File) UnknownID() int {
	for i, p := range f.Pieces {
		if p.Type == Unknown {
			return i
		}
	}
	return -1
}

// Check returns an ErrInput if the vocabulary is one that SentencePiece refuses.
func (f *File) Check() error {
	texts := [2]map[string]bool{{}, {}} // in texts, and reserved
	unknown, bytes := 0, map[int]bool{}
	for i, p := range f.Pieces {
		reserved := 0
		switch p.Type {
		case Unknown:
			unknown++
			reserved = 1
		case Control:
			reserved = 1
		case Byte:
			reserved = 1
			b := byteOf(p.Text)
			if b < 0 || !f.ByteFallback {
				return fault("piece %d, %q, is no byte, or the model uses none", i, p.Text)
			}
			bytes[b] = true
		}
		switch {
		case p.Text == "":
			return fault("piece %d is empty", i)
		case texts[reserved][p.Text]:
			return fault("piece %d, %q, is there twice", i, p.Text)
		case p.Score != p.Score:
			return fault("the score of piece %d is not a number", i)
		}
		texts[reserved][p.Text] = true
	}
	if unknown != 1 {
		return fault("there are %d unknown pieces, not one", unknown)
	}
	if f.ByteFallback && len(bytes) < 256 {
		return fault("the model uses bytes, and there are %d pieces of bytes, not 256", len(bytes))
	}
	return nil
}

// byteOf returns the byte of a piece such as <0x0A>, or -1.
func byteOf(piece string) int {
	if len(piece) != 6 || piece[:3] != "<0x" || piece[5] != '>' {
		return -1
	}
	n := 0
	for _, c := range []byte(piece[3:5]) {
		switch {
		case c >= '0' && c <= '9':
			n = n*16 + int(c-'0')
		case c >= 'A' && c <= 'F':
			n = n*16 + int(c-'A') + 10
		default:
			return -1
		}
	}
	return n
}

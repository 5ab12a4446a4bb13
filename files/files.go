// Package files reads tensors from files and writes them: NumPy's .npy and .npz, and pictures. The command weir reads
// its inputs with it.
//
// Files are not trusted. A header that promises more than the file has is refused before memory is taken for it, and a
// file at fault is a weir.ErrInput. Each returned tensor has memory of its own, made by weir.New, which its Close
// frees. Tensors that are written stay their caller's, who keeps them open meanwhile.
package files

import (
	"io"
	"maps"
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/npy"
	"github.com/weirml/weir/internal/tensor/picture"
	"github.com/weirml/weir/internal/values"
)

// ReadNPY reads a .npy file, and no byte after it. It reads both byte orders and both orders of elements; the tensor is
// in row-major order. An element type that Weir does not have is weir.ErrUnsupported.
func ReadNPY(r io.Reader) (t *weir.Tensor, err error) {
	defer diag.Recover(&err, "reading a .npy file")
	inner, err := npy.Read(r)
	if err != nil {
		return nil, err
	}
	return values.ToWeir(inner)
}

// WriteNPY writes a tensor as a .npy file, byte for byte as NumPy does. An element type that NumPy does not have, such
// as BF16, is weir.ErrUnsupported, and a closed tensor is weir.ErrClosed.
func WriteNPY(w io.Writer, t *weir.Tensor) (err error) {
	defer diag.Recover(&err, "writing a .npy file")
	inner, err := arrayOf(t)
	if err != nil {
		return err
	}
	return npy.Write(w, inner)
}

// arrayOf returns the array of a tensor, which must stay open.
func arrayOf(t *weir.Tensor) (*tensor.Tensor, error) {
	if t == nil {
		return nil, diag.Inputf("there is no such tensor")
	}
	if t.DType() != weir.StringType && t.Len() > 0 && t.Bytes() == nil {
		return nil, diag.New(weir.ErrClosed, "the tensor is closed, or was given away")
	}
	return values.FromWeir(t)
}

// Archive is an open .npz file.
type Archive struct{ inner *npy.Archive }

// OpenNPZ reads the directory of a .npz file of size bytes. r must stay readable while the archive is used.
func OpenNPZ(r io.ReaderAt, size int64) (a *Archive, err error) {
	defer diag.Recover(&err, "opening a .npz file")
	inner, err := npy.Open(r, size)
	if err != nil {
		return nil, err
	}
	return &Archive{inner}, nil
}

// Names returns the arrays' names, in the order of the file.
func (a *Archive) Names() []string { return slices.Clone(a.inner.Names()) }

// Read reads the array of that name.
func (a *Archive) Read(name string) (t *weir.Tensor, err error) {
	defer diag.Recover(&err, "reading a .npz file")
	inner, err := a.inner.Read(name)
	if err != nil {
		return nil, err
	}
	return values.ToWeir(inner)
}

// WriteNPZ writes tensors as a .npz file, as numpy.savez does, in the order of their names.
func WriteNPZ(w io.Writer, tensors map[string]*weir.Tensor) (err error) {
	defer diag.Recover(&err, "writing a .npz file")
	names := slices.Sorted(maps.Keys(tensors))
	arrays := make([]*tensor.Tensor, len(names))
	for i, name := range names {
		if arrays[i], err = arrayOf(tensors[name]); err != nil {
			return err
		}
	}
	return npy.WriteArchive(w, names, arrays)
}

// Picture says how a picture becomes a tensor. The zero value gives an f32 tensor of the shape [1, 3, height, width],
// with values from 0 to 1 and the picture's own size.
type Picture struct {
	DType         weir.DType // 0 stands for F32
	Height, Width int        // the size to which the picture is scaled, bilinearly; 0: its own
	Channels      int        // 1 is grey, 3 red, green and blue (also if it is 0), 4 these and alpha
	ChannelsLast  bool       // the shape is [1, height, width, channels]
	// A channel's value is (v × Scale − Mean) / Std, for a v from 0 to 255. A Scale of 0 stands for 1/255 for floats
	// and 1 for integers, which are rounded. Mean and Std have one number for all channels, or one for each; without
	// numbers, they are 0 and 1.
	Scale     float64
	Mean, Std []float64
}

// ReadPicture reads a PNG or JPEG file of size bytes. It refuses more than 2²⁶ pixels, and more than 2²² pixels of a
// file with less than a byte for 1024 of them.
func ReadPicture(r io.ReaderAt, size int64, p Picture) (t *weir.Tensor, err error) {
	defer diag.Recover(&err, "reading a picture")
	if p.DType == weir.InvalidDType {
		p.DType = weir.F32
	}
	if p.Channels == 0 {
		p.Channels = 3
	}
	if p.Channels != 1 && p.Channels != 3 && p.Channels != 4 || p.Height < 0 || p.Width < 0 {
		return nil, diag.Inputf("a picture of %d × %d with %d channels; it has 1, 3 or 4", p.Height, p.Width, p.Channels)
	}
	if !p.DType.IsFloat() && !p.DType.IsInt() {
		return nil, diag.Inputf("a picture of %s", p.DType).WithFix("use a type of numbers")
	}
	s := picture.Settings{Channels: int64(p.Channels), Height: int64(p.Height), Width: int64(p.Width),
		Last: p.ChannelsLast, Scale: p.Scale}
	if s.Scale == 0 {
		if s.Scale = 1.0 / 255; p.DType.IsInt() {
			s.Scale = 1
		}
	}
	if s.Mean, err = each(p.Mean, p.Channels, 0); err != nil {
		return nil, err
	}
	if s.Std, err = each(p.Std, p.Channels, 1); err != nil {
		return nil, err
	}
	decoded, err := picture.Decode("the picture", io.NewSectionReader(r, 0, size), size)
	if err != nil {
		return nil, err
	}
	if s.Height == 0 {
		s.Height = int64(decoded.Bounds().Dy())
	}
	if s.Width == 0 {
		s.Width = int64(decoded.Bounds().Dx())
	}
	shape := []int{1, p.Channels, int(s.Height), int(s.Width)}
	if p.ChannelsLast {
		shape = []int{1, int(s.Height), int(s.Width), p.Channels}
	}
	if t, err = weir.New(p.DType, shape...); err != nil {
		return nil, err
	}
	inner, err := values.FromWeir(t)
	if err != nil {
		t.Close()
		return nil, err
	}
	s.Fill(inner, decoded)
	return t, nil
}

// each returns a number for each channel; without a list, otherwise.
func each(list []float64, channels int, otherwise float64) ([]float64, error) {
	switch len(list) {
	case 0:
		return slices.Repeat([]float64{otherwise}, channels), nil
	case 1:
		return slices.Repeat(list, channels), nil
	case channels:
		return list, nil
	}
	return nil, diag.Inputf("%d numbers for %d channels", len(list), channels)
}

package hostop

import (
	"errors"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/hostop/picture"
	"github.com/weirml/weir/internal/tensor"
)

func init() { register("decode_image", decodeImage) }

// decodeImage decodes a picture file into [height, width, channels] of 8 bits, with channels in the order of the
// attribute pixels. If the bytes are not a picture, the result is empty, as ONNX demands. A picture of an unsupported
// kind is an error.
func decodeImage(c *Call) error {
	if c.In[0].DType() != dtype.U8 {
		return diag.Inputf("a file of %s elements", c.In[0].DType())
	}
	format, _ := c.Attrs["pixels"].(string)
	channels := int64(3)
	if format == "Grayscale" {
		channels = 1
	}
	p, err := picture.Decode(c.In[0].Bytes(), c.Reserve, c.work)
	if errors.Is(err, picture.ErrCorrupt) {
		_, err = c.Result(0, 0, 0, channels)
		return err
	}
	if err != nil {
		return err
	}
	out, err := c.Result(0, int64(p.Height), int64(p.Width), channels)
	if err != nil {
		return err
	}
	writePicture(c, out, p, format)
	return nil
}

// writePicture writes the rows of p to out, with channels in the order of format.
func writePicture(c *Call, out *tensor.Tensor, p *picture.Picture, format string) {
	row, to := make([]byte, 3*p.Width), out.Bytes()
	for y := range p.Height {
		c.work(int64(p.Width))
		p.Row(y, row)
		switch format {
		case "Grayscale":
			// The luma of ITU-R BT.601 in 16 bits of fraction.
			for x := range p.Width {
				to[x] = byte((19595*uint32(row[3*x]) + 38470*uint32(row[3*x+1]) + 7471*uint32(row[3*x+2]) + 1<<15) >> 16)
			}
			to = to[p.Width:]
			continue
		case "BGR":
			for x := range p.Width {
				row[3*x], row[3*x+2] = row[3*x+2], row[3*x]
			}
		}
		to = to[copy(to, row):]
	}
}

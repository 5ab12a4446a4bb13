// Command digits reads pictures of handwritten digits by a pipeline of Apache Beam. --input is a pattern of PNG files,
// --model the model, and --output the file for the labels: a line for each picture.
//
//	go run ./examples/digits --input '../examples/digits/data/images/*.png' --model ../examples/digits/data/digits.onnx \
//		--output labels.txt
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"log"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/fileio"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/textio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"github.com/weirml/weir"
	beamweir "github.com/weirml/weir/beam"
)

// digits is the codec: a PNG file becomes the digit that it shows.
type digits struct{}

// Inputs returns one row of the model's input: 8 × 8 grey values, 0 for paper and 1 for ink.
func (digits) Inputs(file []byte) (weir.Inputs, error) {
	picture, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	if picture.Bounds() != image.Rect(0, 0, 8, 8) {
		return nil, fmt.Errorf("a picture of %v, not of 8 × 8 pixels", picture.Bounds())
	}
	pixels := make([]float32, 64)
	for i := range pixels {
		pixels[i] = float32(color.GrayModel.Convert(picture.At(i%8, i/8)).(color.Gray).Y) / 255
	}
	x, err := weir.FromSlice(pixels, 1, 1, 8, 8)
	return weir.Inputs{"image": x}, err
}

// Result returns the digit of the greatest score.
func (digits) Result(_ []byte, outputs weir.Outputs, _ string) (int, error) {
	scores, err := weir.View[float32](outputs.Get("scores"))
	best := 0
	for digit, score := range scores {
		if score > scores[best] {
			best = digit
		}
	}
	return best, err
}

// contents gives a file's name and contents.
func contents(ctx context.Context, file fileio.ReadableFile) (string, []byte, error) {
	data, err := file.Read(ctx)
	return file.Metadata.Path, data, err
}

// label writes a result as a line.
func label(name string, digit int) string { return fmt.Sprintf("%s: %d", name, digit) }

// reason writes a failure as a line.
func reason(name string, f beamweir.Failure) string { return fmt.Sprintf("%s: %s", name, f) }

func init() {
	beamweir.RegisterKeyed[string](digits{})
	register.Function2x3(contents)
	register.Function2x1(label)
	register.Function2x1(reason)
}

func main() {
	input := flag.String("input", "", "a pattern of PNG files")
	model := flag.String("model", "digits.onnx", "the model")
	output := flag.String("output", "labels.txt", "the file of labels; failures are in the file with .failures at its end")
	flag.Parse()
	beam.Init()
	ctx, m, o := context.Background(), beamweir.Model{Path: *model, Codec: digits{}}, beamweir.Options{}
	bytes, err := beamweir.Hint(ctx, m, o)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("a worker takes %d bytes for the model", bytes)

	p, s := beam.NewPipelineWithRoot()
	files := beam.ParDo(s, contents, fileio.ReadMatches(s, fileio.MatchFiles(s, *input)))
	labels, failures := beamweir.RunInference(s, files, m, o)
	textio.Write(s, *output, beam.ParDo(s, label, labels))
	textio.Write(s, *output+".failures", beam.ParDo(s, reason, failures))
	if err := beamx.Run(ctx, p); err != nil {
		log.Fatal(err)
	}
}

// Package data embeds the digits model and its pictures in a Go binary: a convolutional network trained on
// scikit-learn's handwritten digits by ../train.py, and twenty images of its test set, two of each digit.
//
// The model takes float32 "image" [batch, 1, 8, 8], values 0 (paper) to 1 (ink), and gives float32 "scores"
// [batch, 10], one score a digit; the scores of an image add up to 1.
package data

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"path"
)

// Side is the height and the width of a picture, in pixels.
const Side = 8

// Digits is the number of classes: the model's output has one score per digit.
const Digits = 10

// Model is the ONNX file.
//
//go:embed digits.onnx
var Model []byte

//go:embed labels.json expected.json images
var files embed.FS

// Picture is one image of the test set.
type Picture struct {
	// Name is the file's name, as "07.png".
	Name string
	// Label is the digit that its writer meant.
	Label int
	// PNG is the file itself.
	PNG []byte
	// Pixels are the model's input: Side*Side grey values in rows, 0 (paper) to 1 (ink).
	Pixels []float32
	// Scores are onnxruntime's output of the model.
	Scores []float32
}

// Pictures returns the twenty pictures, ordered by name. It panics if an embedded file is damaged, which the tests
// exclude.
func Pictures() []Picture {
	labels, scores := map[string]int{}, map[string][]float32{}
	decode("labels.json", &labels)
	decode("expected.json", &scores)
	entries, err := files.ReadDir("images")
	if err != nil {
		panic(err)
	}
	pictures := make([]Picture, len(entries))
	for i, entry := range entries {
		p := Picture{Name: entry.Name(), Label: labels[entry.Name()], Scores: scores[entry.Name()]}
		p.PNG = read(path.Join("images", p.Name))
		if p.Pixels, err = Decode(p.PNG); err != nil {
			panic(fmt.Sprintf("%s: %v", p.Name, err))
		}
		pictures[i] = p
	}
	return pictures
}

// Decode turns a PNG of Side by Side pixels into the model's input: Side*Side grey values in rows, 0 to 1. Colour
// images are converted to brightness. A file that is not a PNG or has another size is an error.
func Decode(file []byte) ([]float32, error) {
	config, err := png.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	if config.Width != Side || config.Height != Side {
		return nil, fmt.Errorf("image is %d by %d pixels, the model takes %d by %d", config.Width, config.Height, Side, Side)
	}
	picture, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	return Pixels(picture), nil
}

// Pixels returns the grey values of an image in rows, 0 to 1.
func Pixels(picture image.Image) []float32 {
	bounds := picture.Bounds()
	pixels := make([]float32, 0, bounds.Dx()*bounds.Dy())
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			grey := color.GrayModel.Convert(picture.At(x, y)).(color.Gray)
			pixels = append(pixels, float32(grey.Y)/255)
		}
	}
	return pixels
}

// read returns an embedded file; it panics if there is none.
func read(name string) []byte {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return content
}

// decode unmarshals an embedded JSON file; it panics if that fails.
func decode(name string, into any) {
	if err := json.Unmarshal(read(name), into); err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
}

// Command hugot times hugot's session in Go for bench/embed.py: hugot MODEL TEXTS. It prints a JSON line with the
// vectors of the first eight texts; then each number it reads is the batch of a round, whose seconds it prints.
// It uses GOMAXPROCS threads.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knights-analytics/hugot"
	"github.com/knights-analytics/hugot/pipelines"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "hugot:", err)
		os.Exit(1)
	}
}

func run(model, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var texts []string
	if err := json.Unmarshal(data, &texts); err != nil {
		return err
	}
	session, err := hugot.NewGoSession()
	if err != nil {
		return err
	}
	defer session.Destroy()
	pipeline, err := hugot.NewPipeline(session, hugot.FeatureExtractionConfig{
		ModelPath: model, Name: "embed", OnnxFilename: "model.onnx",
		Options: []hugot.FeatureExtractionOption{pipelines.WithNormalization()},
	})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	first, err := pipeline.RunPipeline(texts[:min(8, len(texts))])
	if err != nil {
		return err
	}
	if err := out.Encode(map[string]any{"vectors": first.Embeddings}); err != nil {
		return err
	}
	slices.SortStableFunc(texts, func(a, b string) int { return len(a) - len(b) })
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		batch, err := strconv.Atoi(strings.TrimSpace(in.Text()))
		if err != nil {
			return err
		}
		began := time.Now()
		for some := range slices.Chunk(texts, batch) {
			if _, err := pipeline.RunPipeline(some); err != nil {
				return err
			}
		}
		if err := out.Encode(map[string]any{"seconds": time.Since(began).Seconds()}); err != nil {
			return err
		}
	}
	return in.Err()
}

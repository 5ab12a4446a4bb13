// Command embed times Weir's vectors of texts for bench/embed.py. It prints a JSON line with the certificate's bytes
// and the vectors of the first texts, then a line with the seconds of each round.
//
// Usage: embed MODEL TEXTS ROUNDS [THREADS [CALLS]]. TEXTS is a file with a JSON list of texts; each round embeds all
// of them in one call. A line on standard input begins a round, so that the rounds of rivals can alternate.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/embed"
)

// result is a line of the output.
type result struct {
	Seconds float64     `json:"seconds"`
	Vectors [][]float32 `json:"vectors,omitempty"`
	Held    int64       `json:"held,omitempty"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

// run embeds the texts in rounds.
func run(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("usage: embed MODEL TEXTS ROUNDS [THREADS [CALLS]]")
	}
	numbers := []int{0, 0, 1}
	for i, text := range args[2:] {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		numbers[i] = n
	}
	data, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	var texts []string
	if err := json.Unmarshal(data, &texts); err != nil {
		return err
	}
	ctx := context.Background()
	m, err := embed.Load(ctx, args[0], embed.Options{Compile: weir.Options{Threads: numbers[1], Calls: numbers[2]}})
	if err != nil {
		return err
	}
	defer m.Close()
	first, err := m.Embed(ctx, texts[:min(8, len(texts))])
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(result{Vectors: first, Held: m.Memory().Held()}); err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for range numbers[0] {
		if !in.Scan() {
			break
		}
		began := time.Now()
		if _, err := m.Embed(ctx, texts); err != nil {
			return err
		}
		if err := out.Encode(result{Seconds: time.Since(began).Seconds()}); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// config is the content of config.min.json: the settings for the model's input and output.
type config struct {
	BegSize      int                `json:"beg_size"`
	MidSize      int                `json:"mid_size"`
	EndSize      int                `json:"end_size"`
	AtOffsets    bool               `json:"use_inputs_at_offsets"`
	Medium       float64            `json:"medium_confidence_threshold"`
	MinFileSize  int                `json:"min_file_size_for_dl"`
	PaddingToken int32              `json:"padding_token"`
	BlockSize    int                `json:"block_size"`
	Labels       []string           `json:"target_labels_space"`
	Thresholds   map[string]float64 `json:"thresholds"`
	Overwrite    map[string]string  `json:"overwrite_map"`
}

// kind is a label's entry in content_types_kb.min.json; its strings may be missing.
type kind struct {
	Description string `json:"description"`
	MIME        string `json:"mime_type"`
	IsText      bool   `json:"is_text"`
}

// labels converts the model's scores to answers.
type labels struct {
	config
	kinds map[string]kind
}

// mode is the score that the model's label needs; below it, the answer is "txt" or "unknown".
type mode string

const (
	highConfidence   mode = "high"   // the label's own threshold, or the medium one: the default
	mediumConfidence mode = "medium" // one threshold for all labels
	bestGuess        mode = "guess"  // none
)

// answer is the type of one file.
type answer struct {
	Label string
	// Model is the model's label, empty if the model was not asked.
	Model string
	Score float64
}

// loadLabels reads the two tables in the model's folder.
func loadLabels(folder string) (*labels, error) {
	var l labels
	if err := readJSON(filepath.Join(folder, "config.min.json"), &l.config); err != nil {
		return nil, err
	}
	if err := readJSON(filepath.Join(folder, "content_types_kb.min.json"), &l.kinds); err != nil {
		return nil, err
	}
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return &l, nil
}

// check returns an error if this program does not support the tables.
func (c *config) check() error {
	switch {
	case c.MidSize != 0 || c.AtOffsets:
		return fmt.Errorf("the model wants bytes from the middle of files, which this program does not cut out")
	case c.MinFileSize < 1 || c.BegSize < c.MinFileSize || c.EndSize < 1 || c.BlockSize < max(c.BegSize, c.EndSize) ||
		c.BlockSize > 1<<20:
		return fmt.Errorf("sizes make no sense: beginning %d, end %d, block %d, smallest file %d", c.BegSize, c.EndSize,
			c.BlockSize, c.MinFileSize)
	case len(c.Labels) == 0:
		return fmt.Errorf("no labels")
	}
	return nil
}

// readJSON reads a JSON file.
func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// few returns the answer for a file that is empty, tiny or nearly all blanks: it depends on whether the bytes are
// UTF-8.
func (l *labels) few(head []byte) answer {
	label := "unknown"
	switch {
	case len(head) == 0:
		label = "empty"
	case utf8.Valid(head):
		label = "txt"
	}
	return answer{Label: label, Score: 1}
}

// decide returns the answer for the model's scores of one file, one score per label.
func (l *labels) decide(scores []float32, m mode) answer {
	best := 0
	for i, score := range scores {
		if score > scores[best] {
			best = i
		}
	}
	a := answer{Model: l.Labels[best], Score: float64(scores[best])}
	a.Label = l.settle(a, m)
	return a
}

// settle returns the label to print for the model's answer: renamed, or "txt" or "unknown" if the score is too low for
// the mode.
func (l *labels) settle(a answer, m mode) string {
	label := a.Model
	if other, ok := l.Overwrite[label]; ok {
		label = other
	}
	threshold := l.Medium
	if own, ok := l.Thresholds[a.Model]; ok && m == highConfidence {
		threshold = own
	}
	switch {
	case m == bestGuess || a.Score >= threshold:
		return label
	case l.kinds[label].IsText:
		return "txt"
	default:
		return "unknown"
	}
}

// describe returns a label's description.
func (l *labels) describe(label string) string {
	if d := l.kinds[label].Description; d != "" {
		return d
	}
	return label
}

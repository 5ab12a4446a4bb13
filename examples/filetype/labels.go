package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// config is what config.min.json says beside the model: how its input is cut out of a file, and how to read its output.
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

// kind is what content_types_kb.min.json says of a label; the texts may be missing.
type kind struct {
	Description string `json:"description"`
	MIME        string `json:"mime_type"`
	IsText      bool   `json:"is_text"`
}

// labels turns the model's scores into answers.
type labels struct {
	config
	kinds map[string]kind
}

// mode says how sure the model must be before its label is given rather than plain "txt" or "unknown".
type mode string

const (
	highConfidence   mode = "high"   // the label's own threshold, or the medium one: the default
	mediumConfidence mode = "medium" // one threshold for all labels
	bestGuess        mode = "guess"  // none
)

// answer is the type of one file.
type answer struct {
	Label string
	// Model is the model's own label, empty if it was not asked.
	Model string
	Score float64
}

// loadLabels reads the two tables that lie beside the model.
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

// check refuses tables that this program cannot follow.
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

// few decides about a file that is empty, tiny or nearly all blanks, by whether it is UTF-8.
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

// decide reads the model's scores of one file, one a label.
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

// settle is the label to give where the model says what a holds: renamed, or a plain one where the score is too low for
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

// describe is the label's name in words.
func (l *labels) describe(label string) string {
	if d := l.kinds[label].Description; d != "" {
		return d
	}
	return label
}

package classify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/transformers"
)

// config is what a folder says about the labels and their scores.
type config struct {
	at            string            // the path of config.json, for errors
	Names         map[string]string `json:"id2label"`
	IDs           ids               `json:"label2id"`
	Count         *int              `json:"num_labels"`
	Problem       string            `json:"problem_type"`
	Architectures []string          `json:"architectures"`
	// The function that CrossEncoder applies, as version 4 of sentence-transformers stored it, and as version 3 did.
	Sentence struct {
		Activation *string `json:"activation_fn"`
	} `json:"sentence_transformers"`
	Activation *string `json:"sbert_ce_default_activation_function"`
}

// ids are the ids of labels, in the order of the file.
type ids []named

// named is a label and its id.
type named struct {
	label string
	id    int
}

// UnmarshalJSON reads an object of labels and ids.
func (l *ids) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t == nil {
		return err
	} else if t != json.Delim('{') {
		return fmt.Errorf("label2id is no object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		n := named{label: key.(string)}
		if err := d.Decode(&n.id); err != nil {
			return err
		}
		*l = append(*l, n)
	}
	return nil
}

// settings reads the folder's settings.
func (m *Model) settings(f *transformers.Folder) error {
	list, err := f.Modules()
	if err != nil {
		return err
	}
	c := &m.config
	c.at = "config.json"
	if len(list) > 0 {
		c.at = path.Join(path.Clean(list[0].Path), c.at)
		for _, stage := range list[1:] {
			if stage.Kind() == "LogitScore" {
				return diag.Unsupportedf("a reranker that is a language model (%s)", stage.Type).AtFile("modules.json")
			}
		}
	}
	if _, err := f.JSON(c.at, c); err != nil {
		return err
	}
	if a := c.Architectures; len(a) > 0 && strings.HasSuffix(a[0], "ForCausalLM") {
		return diag.Unsupportedf("a classifier that is a language model (%s)", a[0]).AtFile(c.at).
			WithFix("models ForSequenceClassification and ForTokenClassification are supported")
	}
	if err := m.crossEncoder(f); err != nil {
		return err
	}
	return m.unknownToken(f)
}

// unknownToken reads the token that stands for what the vocabulary has not.
func (m *Model) unknownToken(f *transformers.Folder) error {
	at := path.Dir(m.config.at)
	for _, name := range []string{"tokenizer_config.json", "special_tokens_map.json"} {
		var own struct {
			Unknown json.RawMessage `json:"unk_token"`
		}
		if _, err := f.JSON(path.Join(at, name), &own); err != nil {
			return err
		}
		if len(own.Unknown) == 0 {
			continue
		}
		token := struct {
			Content string `json:"content"`
		}{}
		if json.Unmarshal(own.Unknown, &token) != nil {
			json.Unmarshal(own.Unknown, &token.Content)
		}
		m.unknown = token.Content
		return nil
	}
	return nil
}

// problems are the values of problem_type.
var problems = []string{"", "regression", "single_label_classification", "multi_label_classification"}

// names returns the names of a model's labels, n of them. It refuses a config.json that names others.
func (c *config) names(n int) ([]string, error) {
	if !slices.Contains(problems, c.Problem) || n == 1 && c.Problem == "single_label_classification" {
		return nil, diag.Inputf("the problem_type %q of a model of %d labels", c.Problem, n).AtFile(c.at)
	}
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("LABEL_%d", i)
	}
	if c.Count != nil && *c.Count != n {
		return nil, diag.Inputf("num_labels is %d; the model has %d labels", *c.Count, n).AtFile(c.at)
	}
	if len(c.Names) == 0 {
		return list, nil
	}
	if len(c.Names) != n {
		return nil, diag.Inputf("id2label names %d labels; the model has %d", len(c.Names), n).AtFile(c.at)
	}
	for key, name := range c.Names {
		id, err := strconv.Atoi(strings.TrimSpace(key))
		if err != nil || id < 0 || id >= n {
			return nil, diag.Inputf("id2label has the id %q; the model has %d labels", key, n).AtFile(c.at)
		}
		list[id] = name
	}
	return list, nil
}

// entailment returns the id of the label that begins with "entail", in any case.
func (m *Model) entailment() (int, error) {
	list := m.config.IDs
	if list == nil {
		for id, label := range m.labels {
			list = append(list, named{label, id})
		}
	}
	for _, n := range list {
		if !strings.HasPrefix(strings.ToLower(n.label), "entail") {
			continue
		}
		if n.id < 0 || n.id >= len(m.labels) {
			return 0, diag.Inputf("label2id has the id %d of %q; the model has %d labels", n.id, n.label, len(m.labels)).
				AtFile(m.config.at)
		}
		return n.id, nil
	}
	return 0, diag.Unsupportedf("zero-shot classification by a model without a label that begins with \"entail\": %q",
		m.labels).WithFix("models that are trained for inference (NLI) have the label")
}

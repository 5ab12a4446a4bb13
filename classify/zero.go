package classify

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/encoder"
	"github.com/weirml/weir/tokenizer"
)

// Candidates say how labels are tried that the model was not trained for. The zero value works.
type Candidates struct {
	// Template makes a hypothesis of a label, which stands for its one {}; {{ and }} are braces.
	// "": "This example is {}."
	Template string
	// Several labels may hold: a label's score tells whether it holds rather than not. Otherwise the scores of a text have
	// the sum 1.
	Several bool
}

// hypothesis is the template that the pipeline has by default.
const hypothesis = "This example is {}."

// ZeroShot returns the candidate labels of each text with their scores, the best first: what the pipeline
// zero-shot-classification returns, to 1e-5. The model must be trained for inference (NLI): it must have a label that
// begins with "entail", and says whether a text entails a hypothesis. Texts that are too long are truncated, hypotheses
// are not. An empty text, no labels, and a template without a place for the label are an ErrInput.
func (m *Model) ZeroShot(ctx context.Context, texts, labels []string, o Candidates) ([][]Label, error) {
	entailment, err := m.entailment()
	if err != nil {
		return nil, err
	}
	if len(labels) == 0 {
		return nil, diag.Inputf("no candidate labels")
	}
	hypotheses, err := filled(cmp.Or(o.Template, hypothesis), labels)
	if err != nil {
		return nil, err
	}
	for i, text := range texts {
		if text == "" {
			return nil, encoder.InText(i, diag.Inputf("it is empty"))
		}
	}
	n := len(labels)
	logits, err := m.logits(ctx, len(texts)*n, func(i int) (encoder.Text, error) {
		text, h := texts[i/n], hypotheses[i%n]
		pair, err := m.encoder.EncodePair(text, h, tokenizer.Truncation{Strategy: tokenizer.OnlyFirst})
		if err != nil { // the hypothesis leaves no room for the text: the pipeline truncates neither
			pair, err = m.encoder.EncodePair(text, h, tokenizer.Truncation{Off: true})
		}
		return pair, err
	})
	if e, ok := errors.AsType[*TextError](err); ok {
		e.Index /= n
	}
	if err != nil {
		return nil, err
	}
	out := make([][]Label, len(texts))
	for i := range out {
		out[i] = candidates(logits[i*n:(i+1)*n], labels, entailment, o.Several)
	}
	return out, nil
}

// candidates returns the labels of a text, the best first; of equal ones the last, as NumPy sorts.
func candidates(logits [][]float32, labels []string, entailment int, several bool) []Label {
	x := make([]float32, len(labels))
	for i, row := range logits {
		x[i] = row[entailment]
	}
	if several || len(labels) == 1 {
		contradiction := 0
		if entailment == 0 {
			contradiction = len(logits[0]) - 1
		}
		for i, row := range logits {
			two := []float32{row[contradiction], row[entailment]}
			softmax(two)
			x[i] = two[1]
		}
	} else {
		softmax(x)
	}
	list := make([]Label, len(labels))
	for i, name := range labels {
		list[len(labels)-1-i] = Label{name, x[i]}
	}
	slices.SortStableFunc(list, func(a, b Label) int { return cmp.Compare(b.Score, a.Score) })
	return list
}

// filled returns the hypotheses that a template makes of labels.
func filled(template string, labels []string) ([]string, error) {
	parts, part := []string{}, ""
	wrong := false
	for rest := template; rest != ""; {
		at := strings.IndexAny(rest, "{}")
		if at < 0 {
			part += rest
			break
		}
		part, rest = part+rest[:at], rest[at:]
		if strings.HasPrefix(rest, "{{") || strings.HasPrefix(rest, "}}") {
			part, rest = part+rest[:1], rest[2:]
			continue
		}
		after, ok := strings.CutPrefix(rest, "{}")
		if !ok {
			after, ok = strings.CutPrefix(rest, "{0}")
		}
		if wrong = !ok || len(parts) > 0; wrong {
			break
		}
		parts, part, rest = append(parts, part), "", after
	}
	if wrong || len(parts) != 1 {
		return nil, diag.Inputf("the template %q", template).
			WithFix("it has one {} in the place of the label; {{ and }} are braces")
	}
	list := make([]string, len(labels))
	for i, label := range labels {
		list[i] = parts[0] + label + part
	}
	return list, nil
}

package command

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirml/weir/classify"
)

// classifyFlags are the flags of classify.
type classifyFlags struct {
	textFlags
	classify.Options
	classify.Scoring
	classify.Candidates
	classify.Tagging
	function, labels, query, aggregation string
	tokens                               bool
}

// functions and aggregations are the values of the flags.
var (
	functions = map[string]classify.Function{"": classify.Default, "softmax": classify.Softmax,
		"sigmoid": classify.Sigmoid, "none": classify.Identity}
	aggregations = map[string]classify.Aggregation{"none": classify.None, "simple": classify.Simple,
		"first": classify.First, "average": classify.Average, "max": classify.Max}
)

// classifyCommand makes the command classify.
func (c *cli) classifyCommand() *cobra.Command {
	f := &classifyFlags{}
	cmd := &cobra.Command{
		Use: "classify MODEL [TEXT...]", Short: "Label texts or tokens, or rank texts for a query",
		Long: `classify loads a folder of transformers or sentence-transformers, or an ONNX file beside a tokenizer, and prints the
labels of each text, the texts in the order of a query, or the entities in each text: what transformers' pipelines and
sentence-transformers' CrossEncoder compute.`,
		Example: `  weir classify distilbert-sst2 "a fine film" "a waste of time"
  weir classify bart-mnli "A new phone is out." --labels travel,technology,sports
  weir classify bert-ner "Anna lives in Paris." --tokens
  weir classify ms-marco-MiniLM --rerank "who wrote Faust?" --input texts.txt --top 3`,
		Args: func(_ *cobra.Command, args []string) error {
			return cmp.Or(f.arguments(args), f.check())
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.classify(cmd.Context(), f, args[0], args[1:])
		},
	}
	f.register(cmd, c, &f.MaxTokens)
	flags := cmd.Flags()
	flags.Var(from(&f.Top, 0, 0), "top", "the most labels of a text, or texts of a query, the best ones (default all)")
	flags.StringVar(&f.function, "function", "",
		"softmax, sigmoid or none: what makes scores (default what the model says)")
	flags.StringVar(&f.labels, "labels", "", "try these labels, separated by commas, with a model for inference (NLI)")
	flags.StringVar(&f.Template, "template", "", `with --labels: the hypothesis (default "This example is {}.")`)
	flags.BoolVar(&f.Several, "several", false, "with --labels: several labels may hold")
	flags.StringVar(&f.query, "rerank", "", "rank the texts for this query")
	flags.BoolVar(&f.tokens, "tokens", false, "label tokens (default if the model does)")
	flags.StringVar(&f.aggregation, "aggregation", "simple",
		"of tokens: none, simple, first, average or max")
	flags.BoolVar(&f.Whole, "whole", false, "of tokens: read long texts in chunks rather than cut them")
	flags.Var(from(&f.Stride, 0, 0), "stride", "with --whole: the tokens that chunks share")
	return cmd
}

// check refuses flags that contradict each other, and values that they do not have.
func (f *classifyFlags) check() error {
	tasks := 0
	for _, asked := range []bool{f.labels != "", f.query != "", f.tokens} {
		if asked {
			tasks++
		}
	}
	if tasks > 1 {
		return usageError{fmt.Errorf("--labels, --rerank and --tokens are different tasks")}
	}
	var ok bool
	if f.Function, ok = functions[f.function]; !ok {
		return usageError{fmt.Errorf("--function %s: it is softmax, sigmoid or none", f.function)}
	}
	if f.Aggregation, ok = aggregations[f.aggregation]; !ok {
		return usageError{fmt.Errorf("--aggregation %s: it is none, simple, first, average or max", f.aggregation)}
	}
	return nil
}

// classify prints the labels of texts.
func (c *cli) classify(ctx context.Context, f *classifyFlags, model string, texts []string) error {
	texts, options, err := f.read(model, texts)
	if err != nil {
		return err
	}
	f.Compile = options
	bar := f.progress(&f.Compile)
	m, err := classify.Load(ctx, model, f.Options)
	bar.finish()
	if err != nil {
		return err
	}
	defer m.Close()
	key, answers, err := f.answers(ctx, m, texts)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(map[string]any{key: answers, "memory": m.Memory()})
	}
	printAnswers(texts, answers)
	stdout.Printf("\nmemory  %s\n", m.Memory())
	return nil
}

// answers returns what the model says of texts, and its name.
func (f *classifyFlags) answers(ctx context.Context, m *classify.Model, texts []string) (key string, answers any,
	err error) {
	switch {
	case f.labels != "":
		var labels []string
		for _, label := range strings.Split(f.labels, ",") {
			if label = strings.TrimSpace(label); label != "" {
				labels = append(labels, label)
			}
		}
		list, err := m.ZeroShot(ctx, texts, labels, f.Candidates)
		for i := range list {
			if f.Top > 0 {
				list[i] = list[i][:min(f.Top, len(list[i]))]
			}
		}
		return "labels", list, err
	case f.query != "":
		list, err := m.Rank(ctx, f.query, texts, f.Scoring)
		return "ranked", list, err
	case f.tokens || m.PerToken():
		list, err := m.Tag(ctx, texts, f.Tagging)
		return "entities", list, err
	}
	list, err := m.Classify(ctx, texts, f.Scoring)
	return "labels", list, err
}

// printAnswers prints what a model says of texts.
func printAnswers(texts []string, answers any) {
	switch list := answers.(type) {
	case []classify.Ranked:
		for _, r := range list {
			stdout.Printf("%8.4f  %s\n", r.Score, padded(texts[r.Index], 60))
		}
	case [][]classify.Label:
		for i, labels := range list {
			stdout.Printf("%s", padded(texts[i], 40))
			for _, l := range labels {
				stdout.Printf("  %s %.4f", l.Name, l.Score)
			}
			stdout.Printf("\n")
		}
	case [][]classify.Entity:
		for i, entities := range list {
			stdout.Printf("%s\n", padded(texts[i], 80))
			for _, e := range entities {
				stdout.Printf("  %-12s %.4f  %5d..%-5d  %s\n", e.Label, e.Score, e.Begin, e.End, texts[i][e.Begin:e.End])
			}
		}
	}
}

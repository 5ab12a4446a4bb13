package classify_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirml/weir/classify"
)

// A model of three labels gives each a score; their sum is 1.
func ExampleModel_Classify() {
	ctx := context.Background()
	m, err := classify.Load(ctx, "testdata/models/nli_bert", classify.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	answers, err := m.Classify(ctx, []string{"The baker opens her shop at six."}, classify.Scoring{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sum, names := float32(0), []string{}
	for _, label := range answers[0] { // the best first
		sum += label.Score
		names = append(names, label.Name)
	}
	slices.Sort(names)
	fmt.Printf("%q %.4f\n", names, sum)
	// Output: ["contradiction" "entailment" "neutral"] 1.0000
}

// A reranker puts documents in the order of their scores for a query.
func ExampleModel_Rank() {
	ctx := context.Background()
	m, err := classify.Load(ctx, "testdata/models/cross_encoder", classify.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	documents := []string{"A river carries rain to the sea.", "The bakery is closed on Sundays.", "It rains."}
	best, err := m.Rank(ctx, "Where does the water go?", documents, classify.Scoring{Top: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(best), best[0].Score >= best[1].Score)
	// Output: 2 true
}

// A model for inference (NLI) tries labels that it was not trained for.
func ExampleModel_ZeroShot() {
	ctx := context.Background()
	m, err := classify.Load(ctx, "testdata/models/nli_bert", classify.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	answers, err := m.ZeroShot(ctx, []string{"A new phone is out."}, []string{"travel", "technology"},
		classify.Candidates{Template: "This text is about {}."})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d labels, sum %.4f\n", len(answers[0]), answers[0][0].Score+answers[0][1].Score)
	// Output: 2 labels, sum 1.0000
}

// A model of tokens finds entities; Begin and End are bytes of the text.
func ExampleModel_Tag() {
	ctx := context.Background()
	m, err := classify.Load(ctx, "testdata/models/token_bert", classify.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	text := "Anna lives in Paris."
	found, err := m.Tag(ctx, []string{text}, classify.Tagging{Aggregation: classify.First, Ignore: []string{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	first, last := found[0][0], found[0][len(found[0])-1]
	fmt.Println(text[first.Begin:last.End])
	// Output: Anna lives in Paris.
}

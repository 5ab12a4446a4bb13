package ops

// The reasons that operators share for having no derivative.
const (
	byPasses    = "passes make it, after derivatives are taken"
	random      = "random numbers"
	listed      = "lists of tensors"
	occurrences = "numbers of occurrences"
)

// undifferentiated says why an operator with float results has no derivative.
var undifferentiated = map[string]string{
	"winograd": byPasses, "winograd_far": byPasses, "winograd_input": byPasses, "winograd_output": byPasses,
	"quantize_blocks": byPasses, "matmul_blocks_bytes": byPasses,
	"matmul_blocks":  "its weights are quantised, and it is for inference",
	"draw_bernoulli": random, "draw_classes": random, "draw_normal": random, "draw_uniform": random, "draw_kept": random, "random_uniform": random,
	"sequence_at": listed, "sequence_concat": listed, "sequence_insert": listed, "sequence_erase": listed, "sequence_split": listed,
	"ngrams":      occurrences,
	"trees":       "constant between the values at which trees branch",
	"mel_weights": "a table made once",
	"couple":      "probabilities that an iteration finds",
	"bitcast":     "bits are no numbers",
	"quantize":    "rounded; Custom says how to pass a derivative through",
	"interpret":   "it runs a module apart", "non_max_suppression": "a choice",
}

// taken lists the inputs of operators that derivatives take as constants.
var taken = map[string][]int{"roi_align": {1}, "roi_align_back": {2}, "roi_align_largest": {1}, "max_roi_pool": {1}}

package ops

// The reasons that operators share for having no derivative.
const (
	byPasses    = "passes make it, after derivatives are taken"
	random      = "random numbers"
	listed      = "lists of tensors"
	occurrences = "numbers of occurrences"
	unbuilt     = "no rule yet"
)

// undifferentiated says why an operator with float results has no derivative.
var undifferentiated = map[string]string{
	"winograd": byPasses, "quantize_blocks": byPasses, "matmul_blocks_bytes": byPasses,
	"matmul_blocks":  "its weights are quantised, and it is for inference",
	"draw_bernoulli": random, "draw_classes": random, "draw_normal": random, "draw_uniform": random, "draw_kept": random, "random_uniform": random,
	"sequence_at": listed, "sequence_concat": listed, "sequence_insert": listed, "sequence_erase": listed, "sequence_split": listed,
	"ngrams":      occurrences,
	"trees":       "constant between the values at which trees branch",
	"mel_weights": "a table made once",
	"couple":      "probabilities that an iteration finds",
	"determinant": "it needs an inverse, which no operator computes",
	"bitcast":     "bits are no numbers",
	"quantize":    "rounded; Custom says how to pass a derivative through",
	"interpret":   "it runs a module apart", "non_max_suppression": "a choice",
	"deform_columns": unbuilt, "roi_align": unbuilt, "max_roi_pool": unbuilt,
}

package ops

// The reasons that operators share for having no derivative: see Def.NoGrad.
const (
	byPasses    = "passes build it, after derivatives are taken"
	random      = "random numbers"
	listed      = "lists of tensors"
	occurrences = "numbers of occurrences"
)

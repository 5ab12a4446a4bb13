package tokenizer

// Options are those of one call. The zero value adds special tokens, and truncates and pads as the file says.
type Options struct {
	// NoSpecial leaves out the special tokens of the template, as [CLS] and [SEP].
	NoSpecial bool
	// Overflow keeps what truncation cuts off, in Encoding.Overflow: of two texts, all combinations of their parts.
	Overflow bool
	// Truncation and Padding replace what the file says, unless they are nil.
	Truncation *Truncation
	Padding    *Padding
}

// Strategy says which of two texts is truncated.
type Strategy int

// The strategies of truncation.
const (
	LongestFirst Strategy = iota // both, so that the longer one loses more
	OnlyFirst                    // the first
	OnlySecond                   // the second
)

// Side is an end of a text.
type Side int

// The sides.
const (
	Right Side = iota // the end
	Left              // the beginning
)

// Truncation limits the number of tokens.
type Truncation struct {
	Off      bool // no truncation, whatever the file says
	Max      int  // the most tokens, special ones included
	Stride   int  // the tokens that each overflowing encoding shares with the one before it
	Strategy Strategy
	Side     Side // the side that is cut off
}

// Padding makes encodings longer. Without Length, those of a batch get the length of the longest.
type Padding struct {
	Off      bool // no padding, whatever the file says
	Length   int  // the length, if it is not 0
	Multiple int  // lengths are rounded up to a multiple of it, if it is not 0
	ID, Type int32
	Side     Side

	fixed bool // Length is meant, even if it is 0
}

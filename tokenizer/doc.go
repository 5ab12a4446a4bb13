// Package tokenizer turns text into the ids that a model reads, and ids back into text.
//
// Load reads Hugging Face's tokenizer.json. Ids, offsets, masks and decoded texts are equal to those of the reference,
// PyPI's tokenizers 0.23.3, for every text that both accept; where the reference's Unicode tables are older than Go's,
// this package follows the reference. Load also reads models of SentencePiece, with the ids and offsets of PyPI's
// sentencepiece 0.2.3, ranks of tiktoken, with the ids of PyPI's tiktoken 0.14.0, and the vocabularies of GGUF files.
//
// A Tokenizer never changes, and any number of goroutines may use it.
//
// Text need not be valid UTF-8. As Rust's from_utf8_lossy does, each sequence of bytes that is not a character, and
// could not become one by more bytes, counts as one U+FFFD; its offsets are those of the bytes.
package tokenizer

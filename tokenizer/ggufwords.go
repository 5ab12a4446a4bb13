package tokenizer

// ggufPreTokenizer is what a name of a pre-tokenizer in GGUF files stands for.
type ggufPreTokenizer struct {
	patterns  []string // each cuts what the ones before it leave
	direct    bool     // a word that is a token is not taken apart
	begins    bool     // the first token is BOS, unless the file says otherwise
	separates bool     // the end of a text stands before the second one too
}

// The patterns of the models that have the names, from their tokenizer.json. llama.cpp has them in other words.
const (
	llama3Words = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` +
		`\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Words = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|` +
		`\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen35Words = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|` +
		`\s*[\r\n]+|\s+(?!\S)|\s+`
	tekkenWords = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|` +
		`\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	deepSeek3Words = `[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + `{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|` +
		` ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	bailingWords = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|` +
		`\s*[\r\n]|\s+(?!\S)|\s+`
	seedWords = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|` +
		`\s*[\r\n]+|\s+(?!\S)|\s+`
	bloomWords = ` ?[^(\s|.,!?…。，、।۔،)]+`
	eachDigit  = `\p{N}` // of more characters: it is a pre-tokenizer of its own
	symbols    = `[\p{P}\$\+<=>\^~\|` + "`" + `]+`
)

// ggufPreTokenizers are the pre-tokenizers of byte-level BPE by the names that llama.cpp gives them.
var ggufPreTokenizers = func() map[string]ggufPreTokenizer {
	table := map[string]ggufPreTokenizer{}
	for _, row := range []struct {
		names []string
		pre   ggufPreTokenizer
	}{
		{[]string{"", "default"}, ggufPreTokenizer{patterns: []string{symbols, gpt2, `\p{N}+`, `[0-9][0-9][0-9]`}}},
		{[]string{"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "a.x-4.0", "mellum",
			"modern-bert", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4"},
			ggufPreTokenizer{patterns: []string{gpt2}}},
		{[]string{"jina-v1-en", "jina-v2-code", "roberta-bpe"},
			ggufPreTokenizer{patterns: []string{gpt2}, separates: true}},
		{[]string{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
			ggufPreTokenizer{patterns: []string{eachDigit, gpt2}}},
		{[]string{"falcon"}, ggufPreTokenizer{patterns: []string{symbols, gpt2, `[0-9][0-9][0-9]`}}},
		{[]string{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
			"jina-v5-nano"}, ggufPreTokenizer{patterns: []string{llama3Words}, direct: true, begins: true}},
		{[]string{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, ggufPreTokenizer{patterns: []string{llama3Words}}},
		{[]string{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "megrez", "hunyuan", "solar-open",
			"grok-2"}, ggufPreTokenizer{patterns: []string{qwen2Words}}},
		{[]string{"qwen35"}, ggufPreTokenizer{patterns: []string{qwen35Words}}},
		{[]string{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"},
			ggufPreTokenizer{patterns: []string{o200kWords}}},
		{[]string{"tekken"}, ggufPreTokenizer{patterns: []string{tekkenWords}, direct: true, begins: true}},
		{[]string{"deepseek-v3", "hunyuan-dense", "joyai-llm"},
			ggufPreTokenizer{patterns: []string{`\p{N}{1,3}`, `[一-龥぀-ゟ゠-ヿ]+`, deepSeek3Words}}},
		{[]string{"deepseek-coder"}, ggufPreTokenizer{patterns: []string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`,
			`[一-龥ࠀ-一가-퟿]+`, eachDigit}}},
		{[]string{"bailingmoe", "bailingmoe2", "llada-moe"}, ggufPreTokenizer{patterns: []string{bailingWords}}},
		{[]string{"seed-coder"}, ggufPreTokenizer{patterns: []string{seedWords}}},
		{[]string{"bloom", "poro-chat", "gpt3-finnish"}, ggufPreTokenizer{patterns: []string{bloomWords}}},
		{[]string{"viking"}, ggufPreTokenizer{patterns: []string{bloomWords, eachDigit}}},
	} {
		for _, name := range row.names {
			table[name] = row.pre
		}
	}
	return table
}()

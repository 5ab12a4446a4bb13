package encoder

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/transformers"
	"github.com/weirml/weir/tokenizer"
)

// Settings are what a folder says about how texts become the model's inputs.
type Settings struct {
	MaxTokens int // the most tokens of a text, special ones included

	at      string         // the folder of the tokenizer
	lower   bool           // texts are lower-cased before the tokenizer's own steps
	special bool           // special tokens are added
	asFile  bool           // texts are truncated as the tokenizer's own file says
	types   bool           // the model is told which of two texts a token is of
	cut     string         // the side that is truncated: left, right; "": as the tokenizer's file says
	side    tokenizer.Side // the same
	// Of model2vec's own folders:
	characters int   // longer texts are cut; 0: not
	unknown    int32 // the id of the unknown token, which is left out; −1: it is not
}

// limitless are the numbers that tokenizer_config.json has for no limit: 1e30 and above.
const limitless = 1 << 30

// read reads the settings of a folder, and its tokenizer. Texts have at most as many tokens as asked, unless that is 0.
func (s *Settings) read(f *transformers.Folder, asked int) (*tokenizer.Tokenizer, error) {
	list, err := f.Modules()
	if err != nil {
		return nil, err
	}
	s.special, s.unknown = true, -1
	if len(list) > 0 {
		s.at = path.Clean(list[0].Path)
		s.special = list[0].Kind() != "StaticEmbedding"
	}
	if err := s.readLimits(f); err != nil {
		return nil, err
	}
	s.asFile = !s.special && asked == 0
	t, err := s.tokenizer(f)
	if err != nil {
		return nil, err
	}
	if own := t.Truncation(); s.cut == "left" || s.cut == "" && own != nil && own.Side == tokenizer.Left {
		s.side = tokenizer.Left
	}
	return t, s.model2Vec(f, t)
}

// untyped are the classes of tokenizers that, unless their files say so, tell none of the models that ask for types
// which of two texts a token is of.
var untyped = []string{"PreTrainedTokenizer", "TokenizersBackend", "AlbertTokenizer", "DistilBertTokenizer",
	"MPNetTokenizer"}

// readLimits reads the number of tokens to which texts are truncated, and which inputs they become.
func (s *Settings) readLimits(f *transformers.Folder) error {
	var own struct {
		Max    *float64 `json:"model_max_length"`
		Inputs []string `json:"model_input_names"`
		Side   string   `json:"truncation_side"`
		Class  string   `json:"tokenizer_class"`
	}
	if _, err := f.JSON(path.Join(s.at, "tokenizer_config.json"), &own); err != nil {
		return err
	}
	s.cut = own.Side
	if s.types = slices.Contains(own.Inputs, transformers.TokenTypes); own.Inputs == nil {
		s.types = !slices.Contains(untyped, strings.TrimSuffix(own.Class, "Fast"))
	}
	var sentence struct {
		Max   *int `json:"max_seq_length"`
		Lower bool `json:"do_lower_case"`
	}
	for _, name := range []string{"sentence_bert_config.json", "sentence_roberta_config.json",
		"sentence_distilbert_config.json", "sentence_camembert_config.json", "sentence_albert_config.json",
		"sentence_xlm-roberta_config.json", "sentence_xlnet_config.json"} {
		found, err := f.JSON(path.Join(s.at, name), &sentence)
		if err != nil {
			return err
		}
		if found {
			break
		}
	}
	s.lower = sentence.Lower
	if sentence.Max != nil && *sentence.Max > 0 {
		s.MaxTokens = *sentence.Max
		return nil
	}
	if own.Max != nil && *own.Max >= 1 && *own.Max < limitless {
		s.MaxTokens = int(*own.Max)
	}
	var model struct {
		Positions *float64 `json:"max_position_embeddings"`
	}
	if _, err := f.JSON(path.Join(s.at, "config.json"), &model); err != nil {
		return err
	}
	if p := model.Positions; p != nil && *p >= 1 && *p < limitless && (s.MaxTokens == 0 || int(*p) < s.MaxTokens) {
		s.MaxTokens = int(*p)
	}
	return nil
}

// tokenizer reads the tokenizer of a folder.
func (s *Settings) tokenizer(f *transformers.Folder) (*tokenizer.Tokenizer, error) {
	files, err := f.Sub()
	if err != nil {
		return nil, err
	}
	if within := path.Join(s.at, "."); !f.Has(path.Join(within, "tokenizer.json")) && len(f.Names(within, ".gguf")) == 0 {
		err := diag.Inputf("the folder has no tokenizer")
		if names := f.Names(within, ".model"); len(names) > 0 {
			err = diag.Unsupportedf("%s alone: it has neither the model's special tokens nor, for some, its ids", names[0])
		}
		return nil, err.AtFile(f.Name()).WithFix("keep tokenizer.json beside the model; " +
			"AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER) writes it")
	}
	if !s.lower {
		return tokenizer.LoadFS(files, path.Join(s.at, "."))
	}
	name := path.Join(s.at, "tokenizer.json")
	data, err := f.Read(name)
	if err != nil {
		return nil, err
	}
	if data, err = lowered(data); err != nil {
		return nil, diag.Inputf("its JSON: %w", err).AtFile(name)
	}
	t, err := tokenizer.LoadBytes(data)
	if err != nil {
		return nil, diag.As(err, diag.ErrInput).AtFile(name)
	}
	return t, nil
}

// lowered puts a normalizer to lower case before that of a tokenizer.json.
func lowered(data []byte) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	list := []json.RawMessage{json.RawMessage(`{"type": "Lowercase"}`)}
	if own := all["normalizer"]; len(own) > 0 && string(own) != "null" {
		list = append(list, own)
	}
	var err error
	all["normalizer"], err = json.Marshal(map[string]any{"type": "Sequence", "normalizers": list})
	if err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// model2Vec reads the settings of a folder of model2vec without modules.json, whose texts are cut as model2vec does.
func (s *Settings) model2Vec(f *transformers.Folder, t *tokenizer.Tokenizer) error {
	var own struct {
		Type string `json:"model_type"`
		Max  *int   `json:"max_length"`
		Kind string `json:"embedding_dtype"`
	}
	if f.Has("modules.json") {
		return nil
	}
	if _, err := f.JSON("config.json", &own); err != nil || own.Type != "model2vec" && own.Kind == "" {
		return err
	}
	s.special, s.asFile, s.MaxTokens = false, false, 512
	if own.Max != nil && *own.Max > 0 {
		s.MaxTokens = *own.Max
	}
	lengths := make([]int, 0, t.Size())
	for id := range int32(t.Size()) {
		if token, ok := t.Token(id); ok {
			lengths = append(lengths, utf8.RuneCountInString(token))
		}
	}
	if slices.Sort(lengths); len(lengths) > 0 { // the median, rounded down
		s.characters = s.MaxTokens * ((lengths[(len(lengths)-1)/2] + lengths[len(lengths)/2]) / 2)
	}
	var file struct {
		Model struct {
			Unknown string `json:"unk_token"`
			ID      *int32 `json:"unk_id"`
		} `json:"model"`
	}
	if _, err := f.JSON("tokenizer.json", &file); err != nil {
		return err
	}
	if id, ok := t.ID(file.Model.Unknown); ok {
		s.unknown = id
	} else if file.Model.ID != nil {
		s.unknown = *file.Model.ID
	}
	return nil
}

// Encode returns the ids of a text.
func (m *Model) Encode(text string) (t Text, err error) {
	defer diag.Recover(&err, "reading a text")
	if m.characters > 0 {
		text = firstCharacters(text, m.characters)
	}
	ids, err := m.tokens.AppendIDs(nil, text, m.Encoding())
	if m.unknown >= 0 {
		ids = slices.DeleteFunc(ids, func(id int32) bool { return id == m.unknown })
	}
	return Text{IDs: ids[:min(len(ids), m.MaxTokens)]}, err
}

// EncodePair returns the ids of two texts that the model reads together, and which of the two each is of. A pair that
// is too long is truncated as cut says, to MaxTokens. The error of a pair that is not possible, or that the model does
// not take, is a TextError with the part that is at fault.
func (m *Model) EncodePair(first, second string, cut tokenizer.Truncation) (t Text, err error) {
	o := m.Encoding()
	cut.Max, cut.Side = m.MaxTokens, m.side
	o.Truncation = &cut
	e, err := m.tokens.EncodePair(first, second, o)
	if err == nil {
		if t.IDs = e.IDs; m.types {
			t.Types = e.Types
		}
		err = m.check(t)
	}
	if err == nil {
		return t, nil
	}
	for i, text := range []string{first, second} {
		alone, failed := m.Encode(text)
		if failed == nil {
			failed = m.check(alone)
		}
		if failed != nil {
			return Text{}, inPart(0, i+1, failed)
		}
	}
	return Text{}, inPart(0, 0, err)
}

// Encoding returns the options with which the tokenizer encodes texts for the model.
func (m *Model) Encoding() tokenizer.Options {
	o := tokenizer.Options{NoSpecial: !m.special, Padding: &tokenizer.Padding{Off: true}}
	if !m.asFile {
		o.Truncation = &tokenizer.Truncation{Max: m.MaxTokens, Side: m.side}
	}
	return o
}

// firstCharacters returns the first characters of a text.
func firstCharacters(text string, n int) string {
	for at := range text {
		if n--; n < 0 {
			return text[:at]
		}
	}
	return text
}

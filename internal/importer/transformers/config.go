package transformers

import (
	"path"

	"github.com/weirml/weir/internal/diag"
)

// config is config.json. Families give the same setting different names: settle writes them into one field.
type config struct {
	Type          string            `json:"model_type"`
	Architectures []string          `json:"architectures"`
	Version       string            `json:"transformers_version"`
	Labels        map[string]string `json:"id2label"`

	Hidden    int64   `json:"hidden_size"`
	Layers    int64   `json:"num_hidden_layers"`
	Heads     int64   `json:"num_attention_heads"`
	Act       string  `json:"hidden_act"`
	Epsilon   float64 `json:"layer_norm_eps"`
	Positions int64   `json:"max_position_embeddings"`
	Types     int64   `json:"type_vocab_size"`
	Padding   *int64  `json:"pad_token_id"`
	Decoder   bool    `json:"is_decoder"`

	PositionType string `json:"position_embedding_type"` // BERT: absolute; relative_key and relative_key_query
	Groups       int64  `json:"num_hidden_groups"`       // ALBERT
	Inner        int64  `json:"inner_group_num"`         // ALBERT
	Buckets      int64  `json:"relative_attention_num_buckets"`

	Normalize bool `json:"normalize"` // model2vec

	// Of DistilBERT:
	Dim        int64  `json:"dim"`
	NLayers    int64  `json:"n_layers"`
	NHeads     int64  `json:"n_heads"`
	Activation string `json:"activation"`
}

// configIn reads the config.json in a folder of the model.
func configIn(f *Folder, within string) (*config, error) {
	c := &config{}
	name := path.Join(within, "config.json")
	found, err := f.JSON(name, c)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, diag.Inputf("the folder has no config.json").AtFile(path.Join(f.name, within)).
			WithFix("name a folder that save_pretrained or SentenceTransformer.save wrote")
	}
	c.settle()
	return c, nil
}

// settle gives settings the values that families have by default, from the fields that they name differently.
func (c *config) settle() {
	if c.Type == "distilbert" {
		c.Hidden, c.Layers, c.Heads, c.Act = or(c.Dim, 768), or(c.NLayers, 6), or(c.NHeads, 12), or(c.Activation, "gelu")
		c.Epsilon = 1e-12
	}
	c.Hidden, c.Layers, c.Heads = or(c.Hidden, 768), or(c.Layers, 12), or(c.Heads, 12)
	c.Act, c.Epsilon = or(c.Act, "gelu"), or(c.Epsilon, 1e-12)
	c.Groups, c.Inner, c.Buckets = or(c.Groups, 1), or(c.Inner, 1), or(c.Buckets, 32)
}

// or returns x, or y if x is zero.
func or[T comparable](x, y T) T {
	var zero T
	if x == zero {
		return y
	}
	return x
}

// padding returns the id of the token that pads.
func (c *config) padding(otherwise int64) int64 {
	if c.Padding == nil {
		return otherwise
	}
	return *c.Padding
}

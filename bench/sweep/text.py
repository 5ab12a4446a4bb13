"""Language models: encoders, a decoder with a cache, and layers of other kinds."""
import torch
import transformers
from torch import nn
from torch.nn import functional

from case import BATCH, DYNAMIC, SENTENCE, Case, Function, image, tokens

EAGER = {"attn_implementation": "eager"}


def encoder(model):
    return Function(lambda model, ids, mask: model(input_ids=ids, attention_mask=mask).last_hidden_state, model)


def sentence(batch, length):
    return tokens(batch, length), torch.ones(batch, length, dtype=torch.int64)


def roberta():
    config = transformers.RobertaConfig(num_hidden_layers=6, vocab_size=50265, max_position_embeddings=514, **EAGER)
    return transformers.RobertaModel(config)


def bart():
    config = transformers.BartConfig(d_model=768, encoder_layers=3, decoder_layers=3, encoder_attention_heads=12,
                                     decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072,
                                     use_cache=False, **EAGER)

    def run(model, ids, made):
        return model(input_ids=ids, decoder_input_ids=made, use_cache=False).last_hidden_state

    return Function(run, transformers.BartModel(config))


class Decoder(nn.Module):
    """Llama's shape, with rotary embedding, grouped queries and a cache.

    Tokens [batch, new] and the cache [layers, 2, batch, groups, past, size] become the last token's scores and the
    longer cache.
    """

    def __init__(self, vocabulary=16000, width=768, layers=8, count=12, groups=4, inner=2048):
        super().__init__()
        self.count, self.groups, self.size = count, groups, width // count
        self.tokens = nn.Embedding(vocabulary, width)

        def each(make):
            return nn.ModuleList(make() for _ in range(layers))

        self.before, self.between = (each(lambda: nn.RMSNorm(width, eps=1e-6)) for _ in range(2))
        self.qkv = each(lambda: nn.Linear(width, (count + 2 * groups) * self.size, bias=False))
        self.mix = each(lambda: nn.Linear(width, width, bias=False))
        self.gate, self.up = (each(lambda: nn.Linear(width, inner, bias=False)) for _ in range(2))
        self.down = each(lambda: nn.Linear(inner, width, bias=False))
        self.last, self.scores = nn.RMSNorm(width, eps=1e-6), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("waves", 10000 ** (-torch.arange(0, self.size, 2).float() / self.size))

    def forward(self, ids, cache):
        batch, new = ids.shape
        past, x, made = cache.shape[4], self.tokens(ids), []
        positions = torch.arange(past, past + new)
        angles = positions[:, None].float() * self.waves
        angles = torch.cat([angles, angles], -1)
        cos, sin = angles.cos(), angles.sin()
        seen = torch.arange(past + new)[None] <= positions[:, None]

        def turned(t):
            first, second = t.chunk(2, -1)
            return t * cos + torch.cat([-second, first], -1) * sin

        def repeated(t):
            return t[:, :, None].expand(batch, self.groups, self.count // self.groups, past + new, self.size).reshape(
                batch, self.count, past + new, self.size)

        for i in range(len(self.qkv)):
            all_heads = self.qkv[i](self.before[i](x)).reshape(batch, new, self.count + 2 * self.groups, self.size)
            q, k, v = all_heads.transpose(1, 2).split([self.count, self.groups, self.groups], 1)
            k, v = torch.cat([cache[i, 0], turned(k)], 2), torch.cat([cache[i, 1], v], 2)
            made.append(torch.stack([k, v]))
            weights = (turned(q) @ repeated(k).transpose(2, 3) * self.size**-0.5).masked_fill(~seen, -1e9).softmax(-1)
            x = x + self.mix[i]((weights @ repeated(v)).transpose(1, 2).flatten(2))
            y = self.between[i](x)
            x = x + self.down[i](functional.silu(self.gate[i](y)) * self.up[i](y))
        return self.scores(self.last(x[:, -1])), torch.stack(made)


class Selective(nn.Module):
    """A Mamba block, whose scan over time is a loop in the model."""

    def __init__(self, width=256, inner=512, states=16, rank=16):
        super().__init__()
        self.states, self.rank = states, rank
        self.enter = nn.Linear(width, 2 * inner, bias=False)
        self.near = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
        self.project = nn.Linear(inner, rank + 2 * states, bias=False)
        self.steps = nn.Linear(rank, inner)
        self.decay, self.around = nn.Parameter(torch.rand(inner, states) * 2), nn.Parameter(torch.ones(inner))
        self.leave = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        from torch._higher_order_ops.scan import scan

        batch, length, _ = x.shape
        u, gate = self.enter(x).chunk(2, -1)
        u = functional.silu(self.near(u.transpose(1, 2))[..., :length].transpose(1, 2))
        rank, write, read = self.project(u).split([self.rank, self.states, self.states], -1)
        steps, decay = functional.softplus(self.steps(rank)), -torch.exp(self.decay)

        def step(state, now):
            size, value, write, read = now
            state = torch.exp(size[..., None] * decay) * state + (size * value)[..., None] * write[:, None]
            return state, (state * read[:, None]).sum(-1)

        over = tuple(t.transpose(0, 1) for t in (steps, u, write, read))
        _, y = scan(step, torch.zeros(batch, u.shape[2], self.states), over)
        return self.leave((y.transpose(0, 1) + self.around * u) * functional.silu(gate))


def linear_attention():
    def run(enter, leave, x):
        batch, length, width = x.shape
        q, k, v = enter(x).reshape(batch, length, 3, 8, width // 8).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
        kept = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2)
        y = torch.einsum("bhtd,bhtde->bhte", q, kept) / torch.einsum("bhtd,bhtd->bht", q, k.cumsum(2))[..., None]
        return leave(y.transpose(1, 2).reshape(batch, length, width))

    return Function(run, nn.Linear(256, 768), nn.Linear(256, 256))


class Experts(nn.Module):
    """The two best of eight experts for each token, on gathered weights."""

    def __init__(self):
        super().__init__()
        self.route = nn.Linear(256, 8)
        self.up, self.down = nn.Parameter(torch.randn(8, 256, 512) * 0.05), nn.Parameter(torch.randn(8, 512, 256) * 0.05)

    def forward(self, x):
        weights, chosen = self.route(x).softmax(-1).topk(2, -1)
        y = functional.gelu(torch.einsum("tc,tkcf->tkf", x, self.up[chosen]))
        return (torch.einsum("tkf,tkfc->tkc", y, self.down[chosen]) * weights[..., None]).sum(1)


def fourier():
    def run(table, norm, up, down, ids):
        x = table(ids)
        x = norm(x + torch.fft.fft2(x).real)
        return x + down(functional.gelu(up(x)))

    return Function(run, nn.Embedding(1000, 256), nn.LayerNorm(256), nn.Linear(256, 1024), nn.Linear(1024, 256))


def sampling():
    """Scores of a vocabulary with temperature: the 50 best, their logarithms, the best, and sums of all by size."""
    def run(layer, x):
        z = layer(x) / 0.8
        values, places = z.topk(50)
        ordered, _ = z.sort(-1, True)
        return values, places, values.log_softmax(-1).argmax(-1), ordered.softmax(-1).cumsum(-1)

    return Function(run, nn.Linear(256, 50257))


def clip():
    model = transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**EAGER))
    return Function(lambda model, x: model(pixel_values=x).pooler_output, model)


CASES = {
    "distilbert_dyn": lambda: Case(encoder(transformers.DistilBertModel(transformers.DistilBertConfig(**EAGER))),
                                   sentence(1, 100), (SENTENCE, SENTENCE)),
    "roberta_dyn": lambda: Case(encoder(roberta()), sentence(2, 48), (SENTENCE, SENTENCE)),
    "t5_small_enc_dyn": lambda: Case(encoder(transformers.T5EncoderModel(transformers.T5Config(**EAGER))), sentence(1, 48),
                                     (SENTENCE, SENTENCE)),
    "bart_base": lambda: Case(bart(), (tokens(1, 64), tokens(1, 16))),
    "clip_vision_b32": lambda: Case(clip(), (image(),), (BATCH,)),
    "llama_gqa_decode_dyn": lambda: Case(Decoder(), (tokens(1, 1), torch.randn(8, 2, 1, 4, 200, 64)),
                                         (SENTENCE, {2: DYNAMIC, 4: DYNAMIC}),
                                         (tokens(2, 3), torch.randn(8, 2, 2, 4, 5, 64))),
    "mamba_scan": lambda: Case(Selective(), (torch.randn(1, 64, 256),)),
    "linear_attention": lambda: Case(linear_attention(), (torch.randn(1, 128, 256),)),
    "moe_layer": lambda: Case(Experts(), (torch.randn(32, 256),), (BATCH,)),
    "fnet": lambda: Case(fourier(), (tokens(1, 128),)),
    "beam_topk": lambda: Case(sampling(), (torch.randn(2, 256),), (BATCH,)),
}

"""Sound, recurrent networks, graphs, recommendations."""
import torch
import transformers
from torch import nn
from torch.nn import functional

from case import BATCH, DYNAMIC, Case, Function


def speech():
    config = transformers.Wav2Vec2Config(num_hidden_layers=2, apply_spec_augment=False, attn_implementation="eager")
    return Function(lambda model, x: model(x).last_hidden_state, transformers.Wav2Vec2Model(config))


class Separation(nn.Module):
    """A Conv-TasNet of one repeat: two voices apart."""

    def __init__(self, filters=256, window=16, narrow=128, inner=256, blocks=6):
        super().__init__()
        self.filters = filters
        self.encode = nn.Conv1d(1, filters, window, window // 2, bias=False)
        self.norm, self.enter = nn.GroupNorm(1, filters), nn.Conv1d(filters, narrow, 1)
        self.blocks = nn.ModuleList(self.block(narrow, inner, 2**i) for i in range(blocks))
        self.masks = nn.Conv1d(narrow, 2 * filters, 1)
        self.decode = nn.ConvTranspose1d(filters, 1, window, window // 2, bias=False)

    @staticmethod
    def block(narrow, inner, dilation):
        depthwise = nn.Conv1d(inner, inner, 3, padding=dilation, dilation=dilation, groups=inner)
        return nn.Sequential(nn.Conv1d(narrow, inner, 1), nn.PReLU(), nn.GroupNorm(1, inner), depthwise, nn.PReLU(),
                             nn.GroupNorm(1, inner), nn.Conv1d(inner, narrow, 1))

    def forward(self, x):
        waves = functional.relu(self.encode(x))
        y = self.enter(self.norm(waves))
        for block in self.blocks:
            y = y + block(y)
        masked = functional.relu(self.masks(y)).reshape(x.shape[0], 2, self.filters, -1) * waves[:, None]
        return self.decode(masked.reshape(x.shape[0] * 2, self.filters, -1))


class Messages(nn.Module):
    """Three layers of weighted messages along a graph's edges, summed at their targets."""

    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(32, 64), nn.Linear(64, 7)
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
        self.weights = nn.ModuleList(nn.Linear(128, 1) for _ in range(3))

    def forward(self, x, edges):
        x = self.enter(x)
        nodes, (start, end) = x.shape[0], (edges[0], edges[1])
        for layer, weight in zip(self.layers, self.weights):
            y = layer(x)
            sent = y[start]
            score = functional.leaky_relu(weight(torch.cat([sent, y[end]], 1)), 0.2).clamp(-10, 10).exp()
            whole = torch.zeros(nodes, 1).index_add(0, end, score) + 1e-6
            x = functional.relu(x + torch.zeros(nodes, 64).index_add(0, end, sent * score) / whole)
        return self.leave(x)


class Recommendation(nn.Module):
    """DLRM: twelve tables, four categories of each added up, and products of all pairs."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(50000, 32) for _ in range(12))
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(110, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1), nn.Sigmoid())
        first, second = torch.tril_indices(13, 13, -1)
        self.register_buffer("pairs", first * 13 + second)

    def forward(self, numbers, categories):
        dense = self.bottom(numbers)
        rows = torch.stack([dense] + [table(categories[:, i]).sum(1) for i, table in enumerate(self.tables)], 1)
        return self.top(torch.cat([dense, (rows @ rows.transpose(1, 2)).flatten(1)[:, self.pairs]], 1))


def gru():
    return Function(lambda cells, leave, x: leave(cells(x)[0]), nn.GRU(80, 256, 2, batch_first=True), nn.Linear(256, 40))


def lstm():
    return Function(lambda cells, x: cells(x)[0][:, -1], nn.LSTM(64, 128, 1, batch_first=True))


CASES = {
    "wav2vec2_dyn": lambda: Case(speech(), (torch.randn(1, 16000),), ({1: DYNAMIC},)),
    "conv_tasnet_dyn": lambda: Case(Separation(), (torch.randn(1, 1, 8000),), ({2: DYNAMIC},)),
    "gru_dyn": lambda: Case(gru(), (torch.randn(1, 100, 80),), script={"x0": {0: "batch", 1: "steps"}}),
    "lstm_b32": lambda: Case(lstm(), (torch.randn(32, 50, 64),)),
    "gnn_scatter": lambda: Case(Messages(), (torch.randn(2000, 32), torch.randint(0, 2000, (2, 10000))),
                                (BATCH, {1: DYNAMIC})),
    "dlrm_dyn": lambda: Case(Recommendation(), (torch.randn(128, 13), torch.randint(0, 50000, (128, 12, 4))), (BATCH, BATCH)),
}

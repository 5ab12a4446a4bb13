"""Exported models, as files and with torch's operators decomposed, compared with torch."""

from __future__ import annotations

import pytest
import torch
import weir

from models import CASES


def close(got, want, tolerance: float = 1e-5) -> None:
    got, want = torch.as_tensor(got), want.detach()
    assert got.shape == want.shape and got.dtype == want.dtype
    far = (got.double() - want.double()).abs().max() if want.numel() else torch.zeros(())
    assert float(far) <= tolerance * (1e-3 + float(want.abs().max())), float(far)


def outputs(y) -> list:
    return list(y) if isinstance(y, (tuple, list, weir.Results)) else [y]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("spelled", [False, True])
def test_models(name, spelled, tmp_path):
    torch.manual_seed(1)
    model, args, dynamic = CASES[name]
    model = model.eval()
    program = torch.export.export(model, args, dynamic_shapes=dynamic)
    if spelled:
        program = program.run_decompositions()
    torch.export.save(program, tmp_path / "model.pt2")
    try:
        compiled = weir.compile(tmp_path / "model.pt2")
    except weir.UnsupportedError:
        if spelled:
            raise
        pytest.skip("the operators of training are not spelled out: run_decompositions() is needed")
    for count in (2, 5):
        given = [torch.cat([a, a, a])[:count].contiguous() for a in args]
        want = outputs(model(*given))
        got = outputs(compiled(*given))
        for a, b in zip(got, want):
            close(a.torch(), b)


def test_shared_and_strided_weights(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(30, 8)
            self.turned = torch.nn.Parameter(torch.randn(8, 5).t())
            self.register_buffer("part", torch.arange(40.0).reshape(5, 8)[1:4, ::2])

        def forward(self, ids):
            x = self.table(ids)
            return x @ self.table.weight.t(), x @ self.turned.t(), x[:, :4] @ self.part.t()

    model = Tied().eval()
    ids = torch.randint(0, 30, (7,))
    torch.export.save(torch.export.export(model, (ids,)), tmp_path / "tied.pt2")
    for a, b in zip(weir.compile(tmp_path / "tied.pt2")(ids), model(ids)):
        close(a.torch(), b)


def test_guards(tmp_path):
    """Sizes for which a model would take another branch are refused: only the exported branch exists."""

    class Ways(torch.nn.Module):
        def forward(self, x, pair):
            if 2 * x.shape[0] > pair["y"][0].shape[1] + 3:
                return x.sum() + pair["y"][0].sum()
            return x.sum() - pair["y"][0].sum()

    auto = torch.export.Dim.AUTO
    x, pair = torch.randn(6, 2), {"y": [torch.randn(3, 5)]}
    program = torch.export.export(Ways(), (x, pair), dynamic_shapes=({0: auto}, {"y": [{1: auto}]}))
    torch.export.save(program, tmp_path / "ways.pt2")
    compiled = weir.compile(tmp_path / "ways.pt2")
    close(compiled(x, pair["y"][0]).torch(), Ways()(x, pair))
    close(compiled(torch.ones(7, 2), torch.ones(3, 9)).torch(), torch.tensor(41.0))
    with pytest.raises(weir.InputError, match="size"):
        compiled(torch.ones(4, 2), torch.ones(3, 9))


def test_refusals(tmp_path):
    class Solves(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eigvalsh(x)

    torch.export.save(torch.export.export(Solves(), (torch.ones(3, 3),)), tmp_path / "solves.pt2")
    with pytest.raises(weir.UnsupportedError) as refused:
        weir.load(tmp_path / "solves.pt2")
    assert "linalg" in refused.value.op and refused.value.node and refused.value.file
    torch.save({"a": torch.ones(3)}, tmp_path / "saved.pt")
    with pytest.raises(weir.UnsupportedError, match="export"):
        weir.load(tmp_path / "saved.pt")


def test_random(tmp_path):
    """Random operators draw weir's own numbers, from torch's distributions and equal in every run."""

    class Random(torch.nn.Module):
        def forward(self, x):
            n = x.shape[0]
            return (
                torch.rand(n, 3), torch.randn_like(x), torch.randint(-3, 5, (n,)), torch.randperm(n), torch.bernoulli(x * 0 + 0.25),
                torch.nn.functional.dropout(x, 0.25, True), torch.multinomial(torch.tensor([1.0, 0, 3]), 2), torch.multinomial(x[:2, :4], 5000, True),
                torch.empty_like(x).uniform_(2, 4), torch.zeros_like(x).normal_(3, 2).exponential_(2.0), torch.empty_like(x).bernoulli_(0.75),
            )  # fmt: skip

    x = torch.ones(500, 20)
    for spelled in (False, True):
        program = torch.export.export(Random(), (x,), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))
        torch.export.save(program.run_decompositions() if spelled else program, tmp_path / "random.pt2")
        compiled = weir.compile(tmp_path / "random.pt2")
        results, again = ([y.torch() for y in compiled(x)] for _ in range(2))
        assert all(torch.equal(a, b) for a, b in zip(results, again))
        for got, want in zip(results, Random()(x)):
            assert got.shape == want.shape and got.dtype == want.dtype
            assert abs(float(got.double().mean() - want.double().mean())) < 0.25 and got.dim() == 0 or len(got.unique()) > 1
        assert results[2].unique().tolist() == list(range(-3, 5)) and sorted(results[3].tolist()) == list(range(500))
        assert sorted(results[6].tolist()) == [0, 2] and results[8].min() >= 2 and results[8].max() <= 4
        assert abs(float((results[5] == 0).double().mean()) - 0.25) < 0.02 and abs(float(results[9].mean()) - 0.5) < 0.02


def exported(model, args, tmp_path, dynamic=None):
    torch.export.save(torch.export.export(model.eval(), args, dynamic_shapes=dynamic).run_decompositions(), tmp_path / "model.pt2")
    return weir.compile(tmp_path / "model.pt2")


def test_sizes_of_data(tmp_path):
    """Masks and elements decide sizes."""

    class Chosen(torch.nn.Module):
        def forward(self, x, n):
            count = n.item()
            torch._check(count >= 0)
            torch._check(count <= x.shape[1])
            kept = x[x.sum(1) > 0]
            both = torch.cat([kept, kept * 2], 0)
            return both.softmax(1).sum(0), torch.nonzero(x)[:, 0].sum(), x[:, :count] * count, torch.masked_select(x, x > 0).mean()

    model, n = Chosen(), torch.tensor(3)
    compiled = exported(model, (torch.randn(4, 6), n), tmp_path, ({0: torch.export.Dim("batch", min=1)}, None))
    for rows in (4, 7):
        x = torch.randn(rows, 6)
        for a, b in zip(outputs(compiled(x, n)), model(x, n)):
            close(a.torch(), b)
    with pytest.raises(weir.InputError, match="item|dense"):
        compiled(x, torch.tensor(9))


def test_complex_numbers(tmp_path):
    """Rotary embeddings by complex numbers, and transforms of signals."""

    class Waves(torch.nn.Module):
        def __init__(self):
            super().__init__()
            angles = torch.outer(torch.arange(9.0), torch.rand(4))
            self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))
            self.register_buffer("window", torch.hann_window(16))

        def forward(self, x, sound):
            z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * self.turns[: x.shape[1]]
            spectrum = torch.stft(sound, 16, 4, window=self.window, return_complex=True)
            return torch.view_as_real(z).flatten(2), spectrum.abs(), torch.istft(spectrum, 16, 4, window=self.window)

    model, args = Waves(), (torch.randn(2, 5, 8), torch.randn(2, 64))
    for a, b in zip(outputs(exported(model, args, tmp_path)(*args)), model(*args)):
        close(a.torch(), b, 1e-4)

"""Memory that a backward pass frees on the way: saved activations, and derivatives that nothing reads after it."""

from __future__ import annotations

import gc
import threading

import pytest
import torch
import weir
from torch.utils.checkpoint import checkpoint
from weir import _torch_program

from test_compile import compiled
from test_export import close


@pytest.fixture
def taken(monkeypatch):
    """The arguments that runs took."""
    seen: list[bool] = []
    real = _torch_program._Lent.taken

    def noted(self, args):
        seen.append(real(self, args))
        return seen[-1]

    monkeypatch.setattr(_torch_program._Lent, "taken", noted)
    return seen


def layers(width=128):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(width, 512), torch.nn.GELU(), torch.nn.Linear(512, width), torch.nn.Tanh())


def derivatives(model, f, x):
    model.zero_grad()
    f(x).square().mean().backward()
    return [p.grad.clone() for p in model.parameters()]


def alike(got, want):
    for a, b in zip(got, want):
        close(a, b, 1e-4)


def nothing_held():
    gc.collect()
    usage = weir.usage()
    return usage["exported"], usage["foreign_bytes"]


def test_taken(taken):
    model, x = layers(), torch.randn(256, 128)
    want, fast, held = derivatives(model, model, x), compiled(model), nothing_held()
    for _ in range(3):
        taken.clear()
        alike(derivatives(model, fast, x), want)
        assert sum(taken) >= 2
    model.zero_grad()
    assert nothing_held() == held


@pytest.mark.parametrize("donated", [False, True])
def test_retained_graph(donated):
    """Nothing is taken from a graph that is retained. After a backward pass was compiled for others, torch refuses to
    retain one.
    """
    with torch._functorch.config.patch(donated_buffer=donated):
        model, x = layers(), torch.randn(256, 128)
        want, fast = derivatives(model, model, x), compiled(model)
        model.zero_grad()
        y = fast(x).square().mean()
        for _ in range(2):
            y.backward(retain_graph=True)
        y.backward()
        alike([p.grad / 3 for p in model.parameters()], want)
        if donated:
            fast = compiled(model)
            derivatives(model, fast, x)
            with pytest.raises(RuntimeError, match="donated"):
                fast(x).square().mean().backward(retain_graph=True)


def test_second_derivative():
    x = torch.randn(256, 128, requires_grad=True)
    y = compiled(layers())(x).square().sum()
    with pytest.raises(RuntimeError):
        torch.autograd.grad(torch.autograd.grad(y, x, create_graph=True)[0].sum(), x)


def test_hooks_keep_what_was_saved():
    """Saved tensors that hooks keep are unchanged."""
    model, x, kept, copies = layers(), torch.randn(256, 128), [], []
    want, fast = derivatives(model, model, x), compiled(model)
    derivatives(model, fast, x)

    def pack(t):
        kept.append(t)
        copies.append(t.detach().clone())
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        got = derivatives(model, fast, x)
    alike(got, want)
    assert kept and all(torch.equal(a, b) for a, b in zip(kept, copies))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant):
    model, x = layers(), torch.randn(256, 128, requires_grad=True)
    want, fast = derivatives(model, model, x), compiled(model)
    for _ in range(2):
        alike(derivatives(model, lambda x: checkpoint(fast, x, use_reentrant=reentrant), x), want)


def test_accumulation():
    model, x = layers(), torch.randn(256, 128)
    want, fast = derivatives(model, model, x), compiled(model)
    model.zero_grad()
    for _ in range(4):
        fast(x).square().mean().backward()
    alike([p.grad / 4 for p in model.parameters()], want)


def test_kept_derivative():
    """A derivative that its caller keeps, and passes twice."""
    model, x = layers(), torch.randn(256, 128)
    fast, up = compiled(model), torch.randn(256, 128)
    copy = up.clone()
    for f in (model, fast, fast):
        model.zero_grad()
        f(x).backward(up)
        assert torch.equal(up, copy)


def test_failed_run(monkeypatch):
    """A run that is refused returns the arguments that it took, once."""
    model, x = layers(), torch.randn(256, 128)
    fast = compiled(model)
    want, held = derivatives(model, fast, x), None
    model.zero_grad()
    held = nothing_held()
    y = fast(x).square().mean()
    before = weir.set_limit(1)
    try:
        with pytest.raises(weir.OutOfMemoryError):
            weir.trim()
            y.backward()
    finally:
        weir.set_limit(before)
    del y
    assert nothing_held() == held
    alike(derivatives(model, fast, x), want)


def test_two_threads():
    model = layers()
    x = torch.randn(256, 128)
    fast = compiled(model)
    params = list(model.parameters())
    want = torch.autograd.grad(model(x).square().mean(), params)
    torch.autograd.grad(fast(x).square().mean(), params)
    held, wrong = nothing_held(), []

    def work():
        for _ in range(50):
            for a, b in zip(torch.autograd.grad(fast(x).square().mean(), params), want):
                if not torch.allclose(a, b, 1e-3, 1e-5):
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and nothing_held() == held

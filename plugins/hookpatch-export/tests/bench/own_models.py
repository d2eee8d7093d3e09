"""Ten models of our own, in the styles of timm, x-transformers, segment-anything, audio and graph libraries."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from truth.case import Inputs


class WindowBlock(nn.Module):
    """Attention in shifted windows, as Swin has."""

    def __init__(self, dim: int = 16, ws: int = 4, shift: int = 2) -> None:
        super().__init__()
        self.ws, self.shift = ws, shift
        self.norm, self.qkv, self.proj = nn.LayerNorm(dim), nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Any:
        B, H, W, C = x.shape
        pr, pb = (self.ws - W % self.ws) % self.ws, (self.ws - H % self.ws) % self.ws
        y = self.norm(x)
        if pr > 0 or pb > 0:
            y = F.pad(y, (0, 0, 0, pr, 0, pb))
        Hp, Wp = H + pb, W + pr
        shift = self.shift
        if min(H, W) <= self.ws:
            shift = 0
        if shift:
            y = torch.roll(y, (-shift, -shift), (1, 2))
        w = y.view(B, Hp // self.ws, self.ws, Wp // self.ws, self.ws, C).transpose(2, 3).reshape(-1, self.ws**2, C)
        q, k, v = self.qkv(w).chunk(3, -1)
        if q.shape[-1] != C:
            raise ValueError("width")
        w = self.proj(F.scaled_dot_product_attention(q, k, v))
        y = w.view(B, Hp // self.ws, Wp // self.ws, self.ws, self.ws, C).transpose(2, 3).reshape(B, Hp, Wp, C)
        if shift:
            y = torch.roll(y, (shift, shift), (1, 2))
        return x + y[:, :H, :W]


class PatchEmbed(nn.Module):
    """Patches of an image with resized positions, as in timm."""

    def __init__(
        self, size: int = 32, patch: int = 8, dim: int = 16, strict: bool = False, flatten: bool = True
    ) -> None:
        super().__init__()
        self.size, self.patch, self.strict, self.flatten = (size, size), (patch, patch), strict, flatten
        self.proj = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(torch.randn(1, dim, size // patch, size // patch))
        self.norm = nn.Identity()

    def forward(self, x: Tensor) -> Any:
        _, _, H, W = x.shape
        if self.strict:
            assert H == self.size[0] and W == self.size[1]  # noqa: PT018, SIM300  # as models have it
        pad_h, pad_w = (-H) % self.patch[0], (-W) % self.patch[1]
        if pad_h or pad_w:
            x = F.pad(x, (0, pad_w, 0, pad_h))
        x = self.proj(x)
        pos = self.pos
        if pos.shape[-2:] != x.shape[-2:]:
            pos = F.interpolate(pos, x.shape[-2:], mode="bilinear")
        x = x + pos
        if self.flatten:
            x = x.flatten(2).transpose(1, 2)
        return self.norm(x)


class SqueezeNeXt(nn.Module):
    """A convolution with channel weights and a dropped path."""

    def __init__(self, dim: int = 8, rate: float = 0.1) -> None:
        super().__init__()
        self.dw = nn.Conv2d(3, dim, 3, padding=1)
        self.fc1, self.fc2 = nn.Conv2d(dim, 2, 1), nn.Conv2d(2, dim, 1)
        self.rate = rate
        self.gamma = nn.Parameter(torch.ones(dim))

    def drop(self, x: Tensor) -> Any:
        if self.rate == 0.0 or not self.training:
            return x
        return x * x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(1 - self.rate)

    def forward(self, x: Tensor) -> Any:
        y = self.dw(x)
        s = self.fc2(F.relu(self.fc1(y.mean((2, 3), keepdim=True)))).sigmoid()
        if self.gamma is not None:
            y = y.permute(0, 2, 3, 1).mul(self.gamma).permute(0, 3, 1, 2)
        return self.drop(y * s)


class PointPrompt(nn.Module):
    """Prompts of a segmentation: points, labels and masks."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.embed = nn.ModuleList([nn.Embedding(1, dim) for _ in range(2)])
        self.none = nn.Embedding(1, dim)
        self.register_buffer("g", torch.randn(2, dim // 2))
        self.mask = nn.Conv2d(1, dim, 2, 2)

    def forward(self, points: Tensor, labels: Tensor, masks: Tensor) -> Any:
        if points.shape[1] == 0:
            points = torch.zeros(points.shape[0], 1, 2)
        p = (2 * points - 1) @ self.g * (2 * math.pi)
        e = torch.cat([p.sin(), p.cos()], -1)
        for i, layer in enumerate(self.embed):
            e = e + (labels == i)[..., None] * layer.weight
        if (labels == -1).any():
            e = torch.where((labels == -1)[..., None], self.none.weight, e)
        m = self.mask(masks)
        if m.shape[1] != e.shape[-1]:
            raise ValueError
        return e, F.interpolate(m, scale_factor=2.0)


class Stft(nn.Module):
    """A log mel spectrum."""

    def __init__(self, n: int = 64, hop: int = 16, mels: int = 8) -> None:
        super().__init__()
        self.n, self.hop = n, hop
        self.register_buffer("win", torch.hann_window(n))
        self.register_buffer("fb", torch.rand(n // 2 + 1, mels))

    def forward(self, wave: Tensor) -> Any:
        if wave.dim() == 1:
            wave = wave[None]
        if wave.shape[-1] < self.n:
            wave = F.pad(wave, (0, self.n - wave.shape[-1]))
        frames = wave.unfold(-1, self.n, self.hop) * self.win
        re = torch.fft.rfft(frames)
        mel = (re.abs() ** 2) @ self.fb
        peak = wave.abs().max()
        if peak > 1.0:
            mel = mel / peak
        return torch.log(mel.clamp(min=1e-5))


class Chunked(nn.Module):
    """A streaming encoder that goes through chunks."""

    def __init__(self, dim: int = 8, chunk: int = 6) -> None:
        super().__init__()
        self.chunk = chunk
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.pos = nn.Parameter(torch.randn(64, dim))

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        if x.size(1) > self.pos.size(0):
            raise ValueError("too long")
        x = x + self.pos[: x.size(1)]
        out = []
        for start in range(0, x.size(1), self.chunk):
            out.append(self.rnn(x[:, start : start + self.chunk])[0])  # noqa: PERF401  # as models have it
        y = torch.cat(out, 1)
        longest = int(lengths.max())
        y = y[:, :longest]
        mask = torch.arange(y.size(1))[None] >= lengths[:, None]
        return y.masked_fill(mask[..., None], 0.0)


class MessagePassing(nn.Module):
    """Messages along the edges of a graph."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.lin, self.edge = nn.Linear(dim, dim), nn.Linear(3, dim)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Any:
        src, dst = edge_index
        n = x.size(0)
        if edge_attr.size(0) != edge_index.size(1):
            raise ValueError("edges")
        m = self.lin(x)[src] * self.edge(edge_attr)
        out = torch.zeros(n, m.size(-1)).index_add(0, dst, m)
        deg = torch.zeros(n).index_add(0, dst, torch.ones(dst.size(0))).clamp(min=1)
        return out / deg[:, None]


class GraphPool(nn.Module):
    """Sums and best nodes of the graphs of a batch."""

    def __init__(self, dim: int = 8, k: int = 3) -> None:
        super().__init__()
        self.k = k
        self.score = nn.Linear(dim, 1)

    def forward(self, x: Tensor, batch: Tensor) -> Any:
        size = int(batch.max()) + 1
        out = torch.zeros(size, x.size(1)).index_add(0, batch, x)
        keep = min(self.k, x.size(0))
        top = self.score(x).squeeze(-1).topk(keep).indices
        loops = (batch[:, None] == batch[None]).nonzero()
        return out, x[top], torch.full((1,), loops.size(0))


class RelBias(nn.Module):
    """Attention with memory and a bias by distance."""

    def __init__(self, heads: int = 2, dim: int = 16, buckets: int = 8) -> None:
        super().__init__()
        self.h, self.buckets = heads, buckets
        self.bias = nn.Embedding(buckets, heads)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.scale = (dim // heads) ** -0.5
        self.mem = nn.Parameter(torch.randn(2, 1, dim // heads))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.h, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if self.mem is not None:
            mem = self.mem.expand(b, -1, -1, -1)
            k, v = torch.cat([mem, k], 2), torch.cat([mem, v], 2)
        i, j = q.shape[-2], k.shape[-2]
        rel = (torch.arange(j)[None] - torch.arange(i)[:, None]).abs()
        large = self.buckets // 2 + (torch.log(rel.clamp(min=1).float()) * 2).long()
        rel = torch.where(rel < self.buckets // 2, rel, large.clamp(max=self.buckets - 1))
        dots = q @ k.transpose(-1, -2) * self.scale + self.bias(rel).permute(2, 0, 1)
        if q.shape[-1] != d // self.h:
            raise ValueError
        if j > i and i > 1:
            dots = dots.masked_fill(torch.ones(i, j).triu(j - i + 1).bool(), -1e9)
        return (dots.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)


class SparseMoe(nn.Module):
    """A mixture of experts, each with its own rows."""

    def __init__(self, dim: int = 8, experts: int = 3) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList([nn.Linear(dim, dim) for _ in range(experts)])

    def forward(self, x: Tensor) -> Any:
        flat = x.reshape(-1, x.shape[-1])
        w, choice = self.gate(flat).softmax(-1).max(-1)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            rows = (choice == i).nonzero().squeeze(-1)
            if rows.numel() == 0:
                continue
            out[rows] = expert(flat[rows]) * w[rows, None]
        if x.shape[1] % 2:
            out = out * 1.0
        return out.view_as(x)


def inputs(some: Callable[..., Tensor], whole: Callable[..., Tensor]) -> dict[str, list[Inputs]]:
    """Return three inputs of each model; ``some(*shape)`` and ``whole(high, *shape)`` return random values."""
    return {
        "WindowBlock": [{"x": some(2, 8, 8, 16)}, {"x": some(3, 10, 8, 16)}, {"x": some(2, 4, 4, 16)}],
        "PatchEmbed": [{"x": some(2, 3, 32, 32)}, {"x": some(3, 3, 40, 36)}, {"x": some(1, 3, 32, 32)}],
        "SqueezeNeXt": [{"x": some(2, 3, 8, 8)}, {"x": some(3, 3, 12, 10)}, {"x": some(1, 3, 8, 8)}],
        "PointPrompt": [
            {"points": some(2, 3, 2), "labels": whole(2, 2, 3), "masks": some(2, 1, 8, 8)},
            {"points": some(3, 4, 2), "labels": whole(3, 3, 4) - 1, "masks": some(3, 1, 12, 8)},
            {"points": some(2, 3, 2), "labels": whole(2, 2, 3), "masks": some(2, 1, 8, 8)},
        ],
        "Stft": [{"wave": some(2, 160)}, {"wave": some(3, 40)}, {"wave": some(2, 200) / 10}],
        "Chunked": [
            {"x": some(2, 12, 8), "lengths": torch.tensor([12, 9])},
            {"x": some(3, 20, 8), "lengths": torch.tensor([20, 9, 3])},
            {"x": some(2, 12, 8), "lengths": torch.tensor([7, 5])},
        ],
        "MessagePassing": [
            {"x": some(5, 8), "edge_index": whole(5, 2, 7), "edge_attr": some(7, 3)},
            {"x": some(6, 8), "edge_index": whole(6, 2, 9), "edge_attr": some(9, 3)},
            {"x": some(5, 8), "edge_index": whole(5, 2, 7), "edge_attr": some(7, 3)},
        ],
        "GraphPool": [
            {"x": some(5, 8), "batch": torch.tensor([0, 0, 1, 1, 1])},
            {"x": some(2, 8), "batch": torch.tensor([0, 2])},
            {"x": some(5, 8), "batch": torch.tensor([0, 0, 0, 0, 0])},
        ],
        "RelBias": [{"x": some(2, 5, 16)}, {"x": some(3, 1, 16)}, {"x": some(2, 7, 16)}],
        "SparseMoe": [{"x": some(2, 4, 8)}, {"x": some(3, 5, 8)}, {"x": some(1, 1, 8)}],
    }

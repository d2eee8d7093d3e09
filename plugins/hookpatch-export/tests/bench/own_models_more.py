"""Eight more models of our own, in the styles of timm, audio, graph, detection and language libraries."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from truth.case import Inputs


class Window(NamedTuple):
    """Where a piece of a sound begins and ends."""

    start: int
    stop: int


class AxisMixer(nn.Module):
    """Grid attention of an image, padded to a multiple of the grid, as MaxViT has."""

    def __init__(self, dim: int = 8, grid: tuple[int, int] = (4, 4)) -> None:
        super().__init__()
        self.grid, self.dim = grid, dim
        self.stem = nn.Conv2d(3, dim, 3, 2, 1)
        self.q, self.kv, self.out = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.scale = nn.Parameter(torch.full((dim,), 1e-2))

    def partition(self, x: Tensor) -> tuple[Tensor, tuple[int, int]]:
        b, h, w, c = x.shape
        gh, gw = self.grid
        assert not h % gh, f"height {h} is no multiple of {gh}"
        assert not w % gw, f"width {w} is no multiple of {gw}"
        x = x.reshape(b, gh, h // gh, gw, w // gw, c).permute(0, 2, 4, 1, 3, 5)
        return x.reshape(-1, gh * gw, c), (h, w)

    def forward(self, image: Tensor) -> Any:
        x = self.stem(image)
        high, wide = x.shape[-2:]
        right = (self.grid[1] - wide % self.grid[1]) % self.grid[1]
        below = math.ceil(high / self.grid[0]) * self.grid[0] - high
        padded = right + below > 0
        if padded:
            x = F.pad(x, (0, right, 0, below))
        x = x.permute(0, 2, 3, 1)
        rows, (h, w) = self.partition(x)
        k, v = self.kv(rows).chunk(2, dim=-1)
        rows = self.out((self.q(rows) @ k.mT / self.dim**0.5).softmax(-1) @ v)
        gh, gw = self.grid
        y = rows.reshape(-1, h // gh, w // gw, gh, gw, self.dim).permute(0, 3, 1, 4, 2, 5).reshape(-1, h, w, self.dim)
        x = x + self.scale * y
        return x[:, :high, :wide] if padded else x


class BlurPool(nn.Module):
    """Stages with kept feature maps and a resized sum, as feature pyramids have."""

    def __init__(self, widths: tuple[int, ...] = (4, 8, 8)) -> None:
        super().__init__()
        self.stages = nn.Sequential(
            OrderedDict(
                (f"stage{i}", nn.Conv2d(before, width, 3, 2, 1))
                for i, (before, width) in enumerate(zip((3, *widths), widths, strict=False))
            )
        )
        self.lateral = nn.ModuleDict(
            {name: nn.Conv2d(w, 4, 1) for name, w in zip(("a", "b", "c"), widths, strict=True)}
        )

    def forward(self, image: Tensor) -> Any:
        maps: dict[str, Tensor] = {}
        x = image
        for name, stage in zip(self.lateral, self.stages, strict=True):
            x = F.silu(stage(x))
            maps[name] = self.lateral[name](x)
        merged = None
        for y in reversed(list(maps.values())):
            if merged is None:
                merged = y
                continue
            if merged.size()[2:] != y.size()[2:]:
                merged = F.interpolate(merged, size=y.shape[2:], mode="nearest")
            merged = merged + y
        smallest = min(y.shape[-1] for y in maps.values())
        return merged, merged.new_tensor([m.numel() for m in maps.values()]) / smallest


class Overlapped(nn.Module):
    """A sound in overlapping pieces, each normalised and added back, as source separators do."""

    def __init__(self, piece: int = 40, dim: int = 6) -> None:
        super().__init__()
        self.piece = piece
        self.encode = nn.Conv1d(1, dim, 8, 4)
        self.decode = nn.ConvTranspose1d(dim, 1, 8, 4)

    def valid_length(self, length: int) -> int:
        length = math.ceil((length - 8) / 4) + 1
        length = max(length, 1)
        return (length - 1) * 4 + 8

    def windows(self, length: int) -> list[Window]:
        step = self.piece // 2
        return [Window(at, min(at + self.piece, length)) for at in range(0, length, step)]

    def forward(self, wave: Tensor) -> Any:
        length = wave.shape[-1]
        out, weight = torch.zeros_like(wave), torch.zeros(length)
        ramp = torch.linspace(0.1, 1.0, self.piece)
        for window in self.windows(length):
            part = wave[..., window.start : window.stop]
            mean = part.mean(-1, keepdim=True)
            std = part.std(-1, keepdim=True)
            extra = self.valid_length(part.shape[-1]) - part.shape[-1]
            y = self.decode(F.relu(self.encode(F.pad((part - mean) / (1e-5 + std), (0, extra)).unsqueeze(1))))
            y = y.squeeze(1)[..., : part.shape[-1]] * std + mean
            out[..., window.start : window.stop] += y * ramp[: y.shape[-1]]
            weight[window.start : window.stop] += ramp[: y.shape[-1]]
        if not weight.min() > 0:
            raise ValueError("a sample without weight")
        return out / weight


class EdgeAttention(nn.Module):
    """Attention over the edges of a graph, with loops added and a softmax by node, as graph libraries have."""

    def __init__(self, dim: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.each = heads, dim // heads
        self.lin = nn.Linear(dim, dim, bias=False)
        self.att = nn.Parameter(torch.randn(1, heads, 2 * self.each))

    @staticmethod
    def softmax(value: Tensor, index: Tensor, count: int | None = None) -> Tensor:
        count = int(index.max()) + 1 if count is None else count
        top = value.new_full((count, value.size(1)), -1e30).scatter_reduce(
            0, index[:, None].expand_as(value), value, "amax"
        )
        value = (value - top[index]).exp()
        return value / (value.new_zeros(count, value.size(1)).index_add(0, index, value)[index] + 1e-16)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Any:
        n = x.size(0)
        keep = edge_index[0] != edge_index[1]
        edge_index = edge_index[:, keep]
        loops = torch.arange(n).repeat(2, 1)
        source, target = torch.cat([edge_index, loops], dim=1).unbind(0)
        h = self.lin(x).view(-1, self.heads, self.each)
        alpha = (torch.cat([h[source], h[target]], -1) * self.att).sum(-1)
        alpha = self.softmax(F.leaky_relu(alpha, 0.2), target)
        if edge_weight is not None:
            alpha = alpha * edge_weight[:, None]
        out = torch.zeros(n, self.heads, self.each).index_add(0, target, h[source] * alpha[..., None])
        return out.flatten(1), alpha


class AnchorHead(nn.Module):
    """Boxes of a detector: anchors kept by size, the best taken, those below a score left out."""

    def __init__(self, dim: int = 4, keep: int = 6, least: float = 0.4) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, dim, 3, 4, 1)
        self.score, self.box = nn.Conv2d(dim, 1, 1), nn.Conv2d(dim, 4, 1)
        self.keep, self.least = keep, least
        self._anchors: dict[tuple[int, int], Tensor] = {}

    def anchors(self, high: int, wide: int) -> Tensor:
        if (high, wide) not in self._anchors:
            y, x = torch.meshgrid(torch.arange(high), torch.arange(wide), indexing="ij")
            self._anchors[high, wide] = torch.stack([x, y, x + 1, y + 1], -1).reshape(-1, 4).float()
        return self._anchors[high, wide]

    def forward(self, image: Tensor) -> Any:
        x = F.relu(self.body(image))
        scores = self.score(x).flatten(1).sigmoid()
        boxes = self.anchors(*x.shape[-2:]) + self.box(x).flatten(2).mT
        results = []
        for score, box in zip(scores, boxes, strict=True):
            top, order = score.topk(min(self.keep, score.numel()))
            good = top > self.least
            top, box = top[good], box[order[good]]
            if len(top) == 0:
                box = torch.zeros(1, 4)
            results.append(box.sum(0))
        return torch.stack(results)


class CachedRope(nn.Module):
    """Language layers with a table of angles that grows, and a causal mask only for longer texts."""

    def __init__(self, vocabulary: int = 32, dim: int = 16, heads: int = 2, table: int = 6) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.heads, self.dim = heads, dim
        self.longest = 0
        self.grow(table)

    def grow(self, length: int) -> None:
        self.longest = length
        angle = torch.outer(torch.arange(length).float(), 1e4 ** -torch.arange(0, self.dim // self.heads, 2).float())
        self.register_buffer("cos", angle.cos().repeat(1, 2), persistent=False)
        self.register_buffer("sin", angle.sin().repeat(1, 2), persistent=False)

    def turn(self, x: Tensor) -> Tensor:
        n = x.shape[-2]
        one, two = x.chunk(2, -1)
        return x * self.cos[:n] + torch.cat((-two, one), -1) * self.sin[:n]

    def forward(self, ids: Tensor, lengths: Tensor) -> Any:
        b, t = ids.size()
        if t > self.longest:
            self.grow(2 * t)
        x = self.embed(ids)
        q, k, v = (y.reshape(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(self.dim, -1))
        mask = None
        if t > 1:
            mask = torch.full((t, t), -torch.inf).triu(1)
        logits = self.turn(q) @ self.turn(k).mT / math.sqrt(k.size(-1))
        if mask is not None:
            logits = logits + mask
        x = x + self.out((logits.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))
        last = x[torch.arange(b), lengths - 1]
        return F.linear(last, self.embed.weight), x[:, : lengths.amax().item()].mean(1)


class SlotMemory(nn.Module):
    """A memory that is read until a weight is large enough, at most four times."""

    def __init__(self, dim: int = 8, slots: int = 5) -> None:
        super().__init__()
        self.memory = nn.Parameter(torch.randn(slots, dim))
        self.cell = nn.GRUCell(dim, dim)
        self.halt = nn.Linear(dim, 1)

    def forward(self, x: Tensor) -> Any:
        state = torch.zeros(x.shape[0], self.memory.shape[1])
        total = torch.zeros(x.shape[0])
        steps = 0
        while steps < 4:
            steps += 1
            weight = (state @ self.memory.T).softmax(-1)
            state = self.cell(x.mean(1) + weight @ self.memory, state)
            total = total + self.halt(state).sigmoid().squeeze(-1)
            if bool((total > 1.1).all()):
                break
        length = torch.tensor(x.shape[1], dtype=torch.float32)
        return state / length.sqrt(), total * steps


class Ragged(nn.Module):
    """Sentences of several lengths, packed for a recurrent layer and padded again."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.rnn = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * dim, 3)

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        sizes = lengths.tolist()
        flat = torch.cat([row[:size] for row, size in zip(x, sizes, strict=True)])
        pooled = [piece.amax(0) for piece in flat.split(sizes)]
        y, _ = self.rnn(x)
        if y.shape[0] == 1:
            y = y.squeeze(0)[None]
        mask = torch.arange(x.shape[1]) < lengths.unsqueeze(-1)
        y = y * mask.unsqueeze(-1)
        names = ("first", "last") if x.shape[1] > 4 else ("first",)
        ends = {"first": y[:, 0], "last": y[:, -1]}
        return self.head(sum(ends[name] for name in names)), torch.stack(pooled)


def inputs(some: Callable[..., Tensor], whole: Callable[..., Tensor]) -> dict[str, list[Inputs]]:
    """Return three inputs of each model; ``some(*shape)`` and ``whole(high, *shape)`` return random values."""
    return {
        "AxisMixer": [{"image": some(2, 3, 16, 16)}, {"image": some(3, 3, 20, 16)}, {"image": some(2, 3, 8, 16)}],
        "BlurPool": [{"image": some(2, 3, 32, 32)}, {"image": some(3, 3, 36, 40)}, {"image": some(1, 3, 32, 32)}],
        "Overlapped": [{"wave": some(2, 60)}, {"wave": some(3, 92)}, {"wave": some(1, 60)}],
        "EdgeAttention": [
            {"x": some(5, 8), "edge_index": whole(5, 2, 7)},
            {"x": some(6, 8), "edge_index": whole(6, 2, 9)},
            {"x": some(5, 8), "edge_index": torch.tensor([[0, 1, 2, 3, 4, 4, 0], [0, 1, 2, 3, 4, 0, 1]])},
        ],
        "AnchorHead": [{"image": some(2, 3, 16, 16)}, {"image": some(3, 3, 20, 24)}, {"image": -some(2, 3, 8, 8)}],
        "CachedRope": [
            {"ids": whole(32, 2, 5), "lengths": torch.tensor([5, 3])},
            {"ids": whole(32, 3, 8), "lengths": torch.tensor([8, 3, 2])},
            {"ids": whole(32, 2, 5), "lengths": torch.tensor([4, 2])},
        ],
        "SlotMemory": [{"x": some(2, 4, 8)}, {"x": some(3, 6, 8) * 5}, {"x": some(2, 4, 8) * 9}],
        "Ragged": [
            {"x": some(2, 5, 8), "lengths": torch.tensor([5, 3])},
            {"x": some(3, 4, 8), "lengths": torch.tensor([4, 3, 2])},
            {"x": some(2, 5, 8), "lengths": torch.tensor([4, 5])},
        ],
    }

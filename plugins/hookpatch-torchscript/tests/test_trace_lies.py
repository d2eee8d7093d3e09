"""A second set of small models with a known truth, written after the guard: wrong traces and true ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hookpatch_torchscript import guard
from test_trace_zoo import marked
from torch import Tensor, nn

pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning"),
]


class Square(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.triu() if x.shape[0] == x.shape[1] else x * 2  # lost


class PadToEight(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rest = x.shape[1] % 8
        if rest:  # lost
            x = F.pad(x, (0, 8 - rest))
        return x * 2


class SameAsOther(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * 3 if torch.equal(x, y) else x + y  # lost


class NearOther(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * 3 if (x - y).abs().max() < 1e-3 else x + y  # lost


class AboveVocabulary(nn.Module):
    def forward(self, ids: Tensor) -> Tensor:
        return ids % 50 * 2 if ids.max() >= 50 else ids * 2  # lost


class ByLengths(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return torch.stack([row[:length].sum() for row, length in zip(x, lengths.tolist(), strict=False)])  # lost


class PaddingPresent(nn.Module):
    def forward(self, ids: Tensor) -> Tensor:
        return ids.float().mean() if (ids == 0).any() else ids.float().sum()  # lost


class PaddedTo(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        mask = torch.arange(int(lengths.max()))[None] < lengths[:, None]  # lost
        return (x[:, : mask.shape[1]] * mask).sum(-1)


class OfIntType(nn.Module):
    def forward(self, ids: Tensor) -> Tensor:
        return ids + 1 if ids.dtype == torch.int32 else ids * 2  # lost


class ChannelsLast(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.is_contiguous(memory_format=torch.channels_last) else x + 1  # lost


class AllZero(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / x.abs().max() if x.any() else x + 5  # lost


class PositionOfMaximum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.argmax() == 0 else x * 2  # lost


class EqualRows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if (x[0] == x[1]).all() else x + 1  # lost


class ByRank(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.dim() == 2 else x + 1  # lost


class ByLengthOfShape(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y if len(x.shape) == len(y.shape) else x + y  # lost


class WithGradient(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.requires_grad else x + 1  # lost


class HoldsFloats(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / 2 if x.is_floating_point() else x // 2  # lost


class HoldsComplex(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.real * 2 if x.is_complex() else x + 1  # lost


class BooleanMask(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x * mask if mask.dtype == torch.bool else x + mask  # lost


class OfOneShape(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y if x.shape == y.shape else x + y.sum()  # lost


class EmptyBatch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ones(1) if x.shape[0] == 0 else x.sum().reshape(1)  # lost


class AnyRows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(0) if len(x) else x.new_zeros(x.shape[1])  # lost


class NonePositive(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        positive = x[x > 0]
        return x.sum() if positive.numel() == 0 else positive.sum() * 2  # lost


class CaughtError(nn.Module):  # a second trace, of an input that raises the error, would end the process
    def forward(self, x: Tensor) -> Tensor:
        try:  # lost
            return x.reshape(-1, 4) * 2
        except RuntimeError:
            return x.reshape(-1)[:4] + 1


ROWS = torch.tensor([[3.0, 1.0, -2.0, 0.5], [0.0, 2.0, 1.5, -1.0], [1.0, -3.0, 0.25, 2.0]])


class CountsOneRow(nn.Module):
    def forward(self, ids: Tensor) -> Tensor:
        if ids.dim() == 1:  # lost
            return ids.bincount()
        return ids.flatten().bincount(minlength=5)[:5]


class BySizeOfElements(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.element_size() == 4 else x  # lost


LIES: dict[type[nn.Module], tuple[Tensor, ...]] = {
    Square: (ROWS,),
    CountsOneRow: (torch.tensor([[3, 1, 2], [4, 4, 0]]),),
    BySizeOfElements: (ROWS,),
    PadToEight: (torch.cat([ROWS, ROWS], 1),),
    SameAsOther: (ROWS, ROWS + 1),
    NearOther: (ROWS, ROWS + 1),
    AboveVocabulary: (torch.tensor([1, 2, 3, 4]),),
    PaddingPresent: (torch.tensor([[1, 5, 7], [2, 2, 19]]),),
    PaddedTo: (ROWS, torch.tensor([ROWS.shape[1]] + [1] * (len(ROWS) - 1))),
    ByLengths: (ROWS, torch.tensor([2, 4, 1])),
    OfIntType: (torch.tensor([1, 2, 3], dtype=torch.int32),),
    ChannelsLast: (torch.arange(120.0).reshape(2, 3, 4, 5),),
    AllZero: (ROWS,),
    PositionOfMaximum: (ROWS,),
    EqualRows: (ROWS,),
    ByRank: (ROWS,),
    ByLengthOfShape: (ROWS, ROWS + 1),
    WithGradient: (ROWS,),
    HoldsFloats: (torch.tensor([4, 6, 9]),),
    HoldsComplex: (ROWS,),
    BooleanMask: (ROWS, ROWS > 0),
    OfOneShape: (ROWS, ROWS + 1),
    EmptyBatch: (ROWS,),
    AnyRows: (ROWS,),
    NonePositive: (ROWS,),
    CaughtError: (ROWS,),
}


@pytest.mark.parametrize("make", LIES)
def test_lie_is_found_with_its_line(make: type[nn.Module]) -> None:
    """The first disagreement names the line that decides."""
    model, example = make().eval(), LIES[make]

    verdict = guard(torch.jit.trace(model, example, check_trace=False), model, example)

    lines = {each.lost.place.line for each in verdict.disagreements if each.lost and each.lost.place}
    assert lines == {line for line, _ in marked(make)}, str(verdict)


class AnyRank(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        assert x.ndim > 0
        return x.softmax(-1) * 2 if x.requires_grad else x.softmax(-1) + x.softmax(-1)


class OneRank(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if len(x.shape) != 2:
            raise ValueError("two axes")
        return x.sum(1)


class RefusesOtherShapes(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        assert x.shape == y.shape
        return x * y


class EmptyToo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum(0) * 2 if len(x) and x.is_floating_point() else (x + x).sum(0)


class WhereSum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x.sum() > 0, x + 1, x * 2)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(4, 12)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        query, key, value = self.project(x).view(batch, length, 3, 2, 2).permute(2, 0, 3, 1, 4)
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        weights = (query @ key.transpose(-1, -2)).masked_fill(~mask, -1e9).softmax(-1)
        return (weights @ value).transpose(1, 2).reshape(batch, length, width)


class LastOfLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0][:, -1]


class MaskedMean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 4)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return (self.table(ids) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


class Checked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[-1] == 4
        if self.training:
            x = x * 2
        return self.linear(x)


class TopK(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values, places = x.topk(2, -1)
        return values.softmax(-1), places


class Spectrum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.rfft(x).abs()


class Upsampled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=2.0, mode="nearest")


class ComparesTensors(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (x == y).to(x.dtype) + torch.isclose(x, y).to(x.dtype)


class Shifted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        y[:, 1:] = x[:, :-1]
        y.add_(x.cumsum(1))
        return y.view(-1, x.size(1))


IMAGES = torch.arange(96.0).reshape(2, 3, 4, 4) / 50
TRUTHS: dict[Callable[[], nn.Module], tuple[Any, ...]] = {
    WhereSum: (ROWS,),
    Attention: (torch.stack([ROWS, -ROWS]),),
    LastOfLSTM: (torch.stack([ROWS, -ROWS]),),
    MaskedMean: (torch.tensor([[1, 5, 7], [2, 2, 19]]), torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])),
    Checked: (ROWS,),
    TopK: (ROWS,),
    Spectrum: (ROWS,),
    Upsampled: (IMAGES,),
    ComparesTensors: (ROWS, ROWS.abs()),
    Shifted: (ROWS,),
    AnyRank: (ROWS,),
    OneRank: (ROWS,),
    RefusesOtherShapes: (ROWS, ROWS + 1),
    EmptyToo: (ROWS,),
}


@pytest.mark.parametrize("make", TRUTHS)
def test_truth_is_no_lie(make: Callable[[], nn.Module]) -> None:
    """A true trace has no disagreement after several compared inputs."""
    torch.manual_seed(0)
    model, example = make().eval(), TRUTHS[make]

    verdict = guard(torch.jit.trace(model, example, check_trace=False), model, example)

    assert verdict.agrees, str(verdict)
    assert verdict.tried > 5

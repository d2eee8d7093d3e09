"""ResNet-18 in plain torch: torchvision has no release for each torch, and TorchScript takes this class."""

from __future__ import annotations

from torch import Tensor, nn


class Block(nn.Module):
    """Two 3 by 3 convolutions with a shortcut (He and others, 2015); the first convolution has the stride.

    Args:
        inside: input channels.
        outside: output channels.
        stride: 2 to halve both sides of the picture.
    """

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU()
        keeps_shape = stride == 1 and inside == outside
        self.past: nn.Module = (
            nn.Identity()
            if keeps_shape
            else nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return convolutions plus shortcut, (batch, outside, height / stride, width / stride)."""
        y = self.relu(self.bn1(self.conv1(x)))
        out: Tensor = self.relu(self.bn2(self.conv2(y)) + self.past(x))
        return out


class ResNet18(nn.Sequential):
    """The network: (batch, 3, height, width) to (batch, classes).

    Args:
        width: channels of the first stage; the other stages have two, four and eight times as many.
        classes: output numbers.
    """

    def __init__(self, width: int = 64, classes: int = 1000) -> None:
        stages = [(width, width, 1), (width, 2 * width, 2), (2 * width, 4 * width, 2), (4 * width, 8 * width, 2)]
        blocks = [
            block
            for inside, outside, stride in stages
            for block in (Block(inside, outside, stride), Block(outside, outside, 1))
        ]
        super().__init__(
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            *blocks,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8 * width, classes),
        )

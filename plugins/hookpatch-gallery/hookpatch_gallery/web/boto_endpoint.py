"""Send the calls of boto3 to another endpoint, whatever endpoint the program names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import hookpatch


@dataclass(frozen=True)
class Options:
    """The options of the plugin.

    Attributes:
        url: the endpoint of all clients.
    """

    url: str = "http://localhost:4566"


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Replace the argument at the method that makes each client of boto3 and botocore."""
    yield hookpatch.inject(
        "botocore.session:Session.create_client",
        endpoint_url=options.url,
        requires="botocore>=1.30,<2",
        why="AWS_ENDPOINT_URL does not override an endpoint that the program names itself",
        upstream="https://github.com/boto/boto3/issues/2099",
    )

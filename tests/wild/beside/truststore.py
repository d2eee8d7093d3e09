"""truststore: certificates are verified by the operating system's rules."""

from __future__ import annotations

import ssl
import sys
import types

import truststore
import urllib3.util.ssl_

DISTRIBUTION, OWN = "truststore", ("truststore",)
SOURCES = ("truststore:inject_into_ssl", "truststore:extract_from_ssl")

shop = types.ModuleType("shop")
exec("from ssl import SSLContext\nBY_NAME = {'tls': SSLContext}\nclass Client:\n    kind = SSLContext", vars(shop))
sys.modules["shop"] = shop


def apply() -> None:
    truststore.inject_into_ssl()


def undo() -> None:
    truststore.extract_from_ssl()


def is_of_the_system(context: object) -> bool:
    return type(context) is truststore.SSLContext


def observe() -> dict[str, bool]:
    return {
        "ssl.SSLContext": is_of_the_system(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)),
        "ssl.create_default_context": is_of_the_system(ssl.create_default_context()),
        "urllib3's contexts": is_of_the_system(urllib3.util.ssl_.create_urllib3_context()),
        "a name bound before": is_of_the_system(shop.SSLContext(ssl.PROTOCOL_TLS_CLIENT)),
        "a mapping": is_of_the_system(shop.BY_NAME["tls"](ssl.PROTOCOL_TLS_CLIENT)),
        "a class attribute": is_of_the_system(shop.Client.kind(ssl.PROTOCOL_TLS_CLIENT)),
    }

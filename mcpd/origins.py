"""Whom a request goes to: scheme, host and port, and the proxy on the way."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_ENTRY: Final = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[0-9]{1,5}))?")


class Origin(NamedTuple):
    """Scheme, host and port (RFC 6454 4); the host in lower case, in IDNA, an address in its short form."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == default_port(self.scheme) else f":{self.port}"
        return f"{self.scheme}://{host}{port}"


def default_port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


def address_of(host: str) -> Address | None:
    """A host that is an address (IPv6 without brackets; one that wraps an IPv4 address is that one)."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def proxy_for(target: Origin, environ: Mapping[str, str]) -> tuple[str, str]:
    """The variable that names the proxy for a target, and its value; two empty texts for none.

    As curl reads them: lower case before upper case, the scheme's own before ALL_PROXY, and NO_PROXY over
    both. A loopback target never goes through a proxy, as in Go: there it would be the proxy's own loopback.
    """
    address = address_of(target.host)
    if address is not None and (address.is_loopback or address.is_unspecified):
        return "", ""
    if target.host == "localhost" or target.host.endswith(".localhost"):
        return "", ""
    _, exceptions = _variable("no_proxy", environ)
    if any(_excepts(entry, target, address) for entry in re.split(r"[\s,]+", exceptions)):
        return "", ""
    name, value = _variable(f"{target.scheme}_proxy", environ)
    return (name, value) if value else _variable("all_proxy", environ)


def _variable(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """The spelling that counts and its value; a lower-case one that is empty hides the other."""
    found = name if name in environ else name.upper()
    value = environ.get(found, "").strip()
    return (found, value) if value else ("", "")


def _excepts(entry: str, target: Origin, address: Address | None) -> bool:
    """Whether one entry of NO_PROXY covers a target.

    `host` and its subdomains, `.host` and `*.host` the same, an address, a CIDR block, `*`; each with or
    without a port, IPv6 with or without brackets; names in ASCII. What is none of these covers nothing.
    """
    if entry.count(":") > 1 and not entry.startswith("["):
        name, port = entry, ""
    else:
        parts = _ENTRY.fullmatch(entry)
        if parts is None:
            return False
        name, port = parts["six"] or parts["name"] or "", parts["port"] or ""
    if port and int(port) != target.port:
        return False
    if name == "*":
        return True
    if address is None:
        suffix = name.removeprefix("*").strip(".").lower()
        return bool(suffix) and f".{target.host.rstrip('.')}".endswith(f".{suffix}")
    try:
        return address in ipaddress.ip_network(name, strict=False)
    except ValueError:
        return False

"""The types of options: each function returns the value, or raises typer.BadParameter."""

import re
from threading import TIMEOUT_MAX
from urllib.parse import urlsplit

import typer

from lib.kube.objects import is_object_name
from lib.service.telemetry.observer import LOOPBACK, Address


def proxy_address(text: str | None) -> str | None:
    """Where kubectl proxy listens."""
    if text is None:
        return None
    try:
        url = urlsplit(text)
        good = url.path.startswith("/") if url.scheme == "unix" else bool(url.hostname) and url.port != 0
        (url.hostname or "").encode("idna")
    except ValueError:
        good = False
    if not good or url.scheme not in ("http", "https", "unix"):
        shown = _without_credentials(text)
        raise typer.BadParameter(f"{shown!r} is neither http://HOST:PORT nor unix:///PATH")
    if "@" in url.netloc:
        raise typer.BadParameter("kubectl proxy asks for no user and no password: leave them out")
    return text


def listen_address(text: str) -> Address:
    """Where to listen; on loopback unless a host is given."""
    try:
        url = urlsplit(f"//:{text}" if text.isdecimal() else f"//{text}")
        (url.hostname or "").encode("idna")
        if url.port is not None and url.netloc == url.geturl()[2:] and "@" not in text:
            return Address(url.hostname or LOOPBACK, url.port)
    except ValueError:
        pass
    raise typer.BadParameter(f"{text!r} is neither HOST:PORT nor PORT", param_hint="--listen")


def scheduler_name(text: str | None) -> str | None:
    """A pod's spec.schedulerName."""
    if text is not None and not is_object_name(text):
        raise typer.BadParameter(f"{text!r} is not a valid scheduler name")
    return text


def namespaces(names: list[str] | None) -> list[str] | None:
    """Names of namespaces."""
    for name in names or ():
        if not re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", name):
            raise typer.BadParameter(f"{name!r} is not a valid namespace name")
    return names


def seconds(number: float | None) -> float | None:
    """How long to wait."""
    if number is not None and not 0 < number <= TIMEOUT_MAX:
        raise typer.BadParameter(f"{number} is not a valid number of seconds")
    return number


def _without_credentials(address: str) -> str:
    """An address without its user and password, for messages; it may be invalid."""
    return re.sub(r"^(?!unix:)([a-z]+://)?.*@", r"\1***@", address, flags=re.IGNORECASE)

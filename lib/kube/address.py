"""Addresses, as they may be shown."""

import re


def without_credentials(address: str) -> str:
    """An address whose user and password, if it has any, can't be read; it need not be a good one."""
    return re.sub(r"^(?!unix:)([a-z]+://)?.*@", r"\1***@", address, flags=re.IGNORECASE)

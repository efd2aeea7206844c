"""Errors in the API server's words: a Status object with a reason, and its HTTP code."""

import json
from collections.abc import Iterable
from typing import Any

from .resources import Resource

Object = dict[str, Any]


class ApiError(Exception):
    """An error as the answer. It is raised anywhere, and turned into a response in one place."""

    def __init__(
        self, code: int, reason: str, message: str, details: Object | None = None, retry_after: int = 0
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
        }
        if reason:
            self.status["reason"] = reason
        if retry_after:
            details = {**(details or {}), "retryAfterSeconds": retry_after}
        if details is not None:
            self.status["details"] = details
        self.status["code"] = code


def success(code: int = 0, details: Object | None = None) -> Object:
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    if code:
        status["code"] = code
    return status


def details_of(resource: Resource, name: str, **more: Any) -> Object:
    group = {"group": resource.group} if resource.group else {}
    return {"name": name, **group, "kind": resource.plural, **more}


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unknown_format(accepted: Iterable[str]) -> ApiError:
    types = ", ".join(accepted)
    why = f"the body of the request was in an unknown format - accepted media types include: {types}"
    return ApiError(415, "UnsupportedMediaType", why)


def not_found(resource: Resource, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', details_of(resource, name))


def already_exists(resource: Resource, name: str) -> ApiError:
    return ApiError(
        409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', details_of(resource, name)
    )


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    return ApiError(
        403, "Forbidden", f'{resource.qualified} "{name}" is forbidden: {why}', details_of(resource, name)
    )


def conflict(what: str, name: str, why: str, details: Object | None = None) -> ApiError:
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {what} "{name}": {why}',
        details or {"name": name, "kind": what},
    )


def modified(resource: Resource, name: str) -> ApiError:
    """Another client has written the object since the caller read it."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource.qualified, name, why, details_of(resource, name))


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def internal(message: str) -> ApiError:
    """A 500: a few checks of the real server have errors without a reason."""
    return ApiError(500, "", message)


class FieldError:
    """One error in one field (k8s.io/apimachinery/pkg/util/validation/field)."""

    def __init__(self, reason: str, field: str, message: str) -> None:
        self.reason, self.field, self.message = reason, field, message


def required(field: str, hint: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, "Required value" + (f": {hint}" if hint else ""))


def invalid_value(field: str, value: Any, why: str) -> FieldError:
    shown = f'"{value}"' if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return FieldError("FieldValueInvalid", field, f"Invalid value: {shown}: {why}")


def duplicate(field: str, value: str) -> FieldError:
    return FieldError("FieldValueDuplicate", field, f'Duplicate value: "{value}"')


def unsupported(field: str, value: str, supported: list[str]) -> FieldError:
    listed = ", ".join(f'"{s}"' for s in supported)
    return FieldError(
        "FieldValueNotSupported", field, f'Unsupported value: "{value}": supported values: {listed}'
    )


def forbidden_field(field: str, why: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, f"Forbidden: {why}")


def invalid(resource: Resource, name: str, errors: list[FieldError]) -> ApiError:
    said = [f"{error.field}: {error.message}" for error in errors]
    together = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    causes = [{"reason": e.reason, "message": e.message, "field": e.field} for e in errors]
    group = {"group": resource.group} if resource.group else {}
    return ApiError(
        422,
        "Invalid",
        f'{resource.kind}{"." + resource.group if resource.group else ""} "{name}" is invalid: {together}',
        {"name": name, **group, "kind": resource.kind, "causes": causes},
    )

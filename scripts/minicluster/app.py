"""The HTTP application: finds the resource of a path, and the format that the client wants."""

import gzip
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from . import discovery, errors, openapi, protobuf, rbac, tables
from .api import Api, decoded
from .errors import ApiError
from .fields import unknown_fields
from .lists import page, parse_version
from .node_metrics import node_metrics
from .patch import apply_patch, check_patch_type
from .pods import bind, evict
from .resources import ACCESS_REVIEWS, BINDINGS, BY_PATH, NODES, Resource
from .selectors import Matches, field_selector, label_selector
from .store import Object, Stored
from .watches import Watch

GZIP_FROM = 128 * 1024  # bytes; to compress smaller answers isn't worth the time
TEXTS = ("application/json", "application/yaml")  # the media types of bodies that are text
LONGEST_WATCH = 3600.0  # seconds, for watches without timeoutSeconds


@dataclass(frozen=True)
class RequestPath:
    """The parts of a path: /api/v1/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE, or fewer of them."""

    resource: Resource
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace if self.resource.namespaced else "", self.name


def request_path(path: str) -> RequestPath | None:
    found = re.fullmatch(r"/(?:api/(v1)|apis/([^/]+/[^/]+))/(.+?)/?", path)
    if not found:
        return None
    group_version, parts = found[1] or found[2], found[3].split("/")
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2 and (group_version, parts[2]) in BY_PATH:
        namespace, parts = parts[1], parts[2:]
    resource = BY_PATH.get((group_version, parts[0]))
    if not resource or len(parts) > 3 or (namespace and not resource.namespaced):
        return None
    name, subresource = (*parts[1:], "", "")[:2]
    if subresource and not resource.subresource(subresource):
        return None
    return RequestPath(resource, namespace, name, subresource)


def build(api: Api) -> Starlette:
    async def resources(request: Request) -> Response:
        target = request_path(request.url.path)
        return await Call(api, request, target).answer() if target else no_such_page(request)

    def document(make: Callable[[Request], Object | None]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            content = make(request)
            return no_such_page(request) if content is None else _json(content)

        return answer

    def groups(core: bool) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            if "as=APIGroupDiscoveryList" in request.headers.get("accept", ""):
                return _json(discovery.aggregated(core), media_type=discovery.AGGREGATED)
            return _json(discovery.core_versions(request.url.netloc) if core else discovery.groups())

        return answer

    async def healthy(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def openapi_v2(_: Request) -> Response:
        return Response(openapi.document_v2(), media_type=openapi.V2_MEDIA_TYPE)

    async def metrics(request: Request) -> Response:
        user = rbac.user_of(request.headers, request.headers.getlist("impersonate-group"))
        rbac.check(api.store, user, rbac.Attributes("list", "metrics.k8s.io", "nodes", "", ""), NODES)
        return _json(node_metrics(api.store))

    def openapi_v3(request: Request) -> Object | None:
        return openapi.document(request.path_params["group_version"])

    return Starlette(
        routes=[
            *(Route(path, healthy) for path in ("/healthz", "/livez", "/readyz")),
            Route("/version", document(lambda _: discovery.VERSION)),
            Route("/openapi/v2", openapi_v2),
            Route("/openapi/v3", document(lambda _: openapi.index())),
            Route("/openapi/v3/api/{group_version}", document(openapi_v3)),
            Route("/openapi/v3/apis/{group_version:path}", document(openapi_v3)),
            Route("/api", groups(core=True)),
            Route("/apis", groups(core=False)),
            Route("/api/v1", document(lambda _: discovery.resource_list("v1"))),
            Route("/apis/metrics.k8s.io/v1beta1/nodes", metrics),
            Route("/apis/{group}", document(lambda request: discovery.group(request.path_params["group"]))),
            Route(
                "/apis/{group}/{version}",
                document(
                    lambda request: discovery.resource_list("{group}/{version}".format(**request.path_params))
                ),
            ),
            Route("/{path:path}", resources, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ],
        exception_handlers={ApiError: _failed, Exception: _broke},
    )


class Call:
    """One request for a resource."""

    def __init__(self, api: Api, request: Request, target: RequestPath) -> None:
        self.api = api
        self.request = request
        self.target = target
        self.query = request.query_params
        self.dry_run = self.query.get("dryRun") == "All"
        agent = request.headers.get("user-agent", "unknown")
        self.manager = self.query.get("fieldManager") or agent.partition("/")[0]
        self.warnings: list[str] = []
        self.user = rbac.user_of(request.headers, request.headers.getlist("impersonate-group"))

    async def answer(self) -> Response:
        body = await self.request.body()
        method, target = self.request.method, self.target
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method, "get")
        sub = target.resource.subresource(target.subresource)
        verbs = sub.verbs if sub else target.resource.verbs
        takes_name = verb in ("update", "patch") or (verb == "create" and sub is not None)
        if verb not in verbs or (verb != "get" and verb != "delete" and takes_name != bool(target.name)):
            raise not_allowed()
        if target.resource != ACCESS_REVIEWS:
            rbac.check(self.api.store, self.user, self._wanted(verb), target.resource)
        if verb == "get":
            return self._read()
        if verb == "create":
            return self._create(self._content(body))
        if verb == "delete":
            return self._delete(self._content(body) if body else {})
        content_type = self.request.headers.get("content-type", "").partition(";")[0].strip()
        if verb == "patch":
            check_patch_type(content_type)
            return self._update(lambda old: apply_patch(content_type, old, body))
        replacement = self._content(body)
        return self._update(lambda _: replacement)

    def _wanted(self, verb: str) -> rbac.Attributes:
        """What RBAC is asked about this request. Its verbs differ for one object and for many."""
        target = self.target
        if not target.name and verb == "get":
            verb = "watch" if self._is_watch() else "list"
        elif not target.name and verb == "delete":
            verb = "deletecollection"
        resource, sub = target.resource, f"/{target.subresource}" if target.subresource else ""
        return rbac.Attributes(verb, resource.group, resource.plural + sub, target.namespace, target.name)

    # Reading

    def _is_watch(self) -> bool:
        return self.query.get("watch") in ("1", "true")

    def _read(self) -> Response:
        target = self.target
        if not target.name:
            return self._watch() if self._is_watch() else self._list()
        stored = self.api.find(target.resource, target.key)
        if target.subresource == "scale":
            return self._json(self.api.scale_of(stored))
        return self._one(stored)

    def _list(self) -> Response:
        resource, namespace = self.target.resource, self.target.namespace
        store = self.api.store
        version = parse_version(self.query.get("resourceVersion", ""))
        if version > store.version:
            causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
            message = f"Timeout: Too large resource version: {version}, current: {store.version}"
            raise ApiError(504, "Timeout", message, {"causes": causes}, retry_after=1)
        limit = int(self.query.get("limit") or 0)
        found = page(store, resource, namespace, self._selection(), limit, self.query.get("continue", ""))
        return self._many(found.metadata, found.items)

    def _watch(self) -> Response:
        target, query = self.target, self.query
        version = parse_version(query.get("resourceVersion", ""))
        bookmarks = query.get("allowWatchBookmarks") == "true"
        send_initial = query.get("sendInitialEvents") == "true"
        watch = Watch(self.api.store, target.resource, target.namespace, self._selection(), self._shower())
        lines = watch.lines(
            version,
            from_now=version == 0 or send_initial,
            initial_events_end=bookmarks and send_initial,
            bookmarks=bookmarks,
            timeout=float(query.get("timeoutSeconds") or LONGEST_WATCH),
        )
        return StreamingResponse(lines, media_type="application/json")

    def _selection(self) -> Matches | None:
        """The selectors of the query as one function, or none."""
        resource = self.target.resource
        labels, fields = self.query.get("labelSelector"), self.query.get("fieldSelector")
        chosen = [field_selector(resource, fields)] if fields else []
        if labels:
            chosen.append(label_selector(labels))
        if self.target.name:
            chosen.append(field_selector(resource, f"metadata.name={self.target.name}"))
        if len(chosen) < 2:
            return chosen[0] if chosen else None
        return lambda content: all(matches(content) for matches in chosen)

    # Writing

    def _create(self, content: Object) -> Response:
        target, resource = self.target, self.target.resource
        if resource == ACCESS_REVIEWS:
            return self._json({**content, "status": {"allowed": self._allowed(content["spec"])}}, 201)
        if target.subresource == "binding" or resource == BINDINGS:
            binding = decoded(BINDINGS, content)
            name = target.name or binding["metadata"].get("name", "")
            bind(self.api, target.namespace, name, binding, self.dry_run)
            return self._json(errors.success(201), 201)
        if target.subresource == "eviction":
            evict(self.api, target.namespace, target.name, content, self.dry_run)
            return self._json(errors.success(201), 201)
        if resource.namespaced and not target.namespace:
            raise not_allowed()
        self._check_fields(content)
        return self._one(
            self.api.create(resource, target.namespace, content, self.manager, self.dry_run), 201
        )

    def _allowed(self, spec: Object) -> bool:
        """A SelfSubjectAccessReview: whether the user may do what it asks about."""
        asked = spec.get("resourceAttributes") or {}
        sub = f"/{asked['subresource']}" if asked.get("subresource") else ""
        verb, group, resource, namespace, name = (
            asked.get(field, "") for field in ("verb", "group", "resource", "namespace", "name")
        )
        return rbac.allowed(
            self.api.store, self.user, rbac.Attributes(verb, group, resource + sub, namespace, name)
        )

    def _update(self, change: Callable[[Object], Object]) -> Response:
        target = self.target
        if target.subresource == "scale":
            scaled = self.api.scale(target.resource, target.key, change, self.manager, self.dry_run)
            return self._json(scaled)

        def checked(old: Object) -> Object:
            new = change(old)
            self._check_fields(new)
            return new

        subresource = target.subresource
        return self._one(
            self.api.update(target.resource, target.key, checked, subresource, self.manager, self.dry_run)
        )

    def _delete(self, options: Object) -> Response:
        target = self.target
        for name in ("gracePeriodSeconds", "propagationPolicy"):
            if name in self.query:
                value = self.query[name]
                options[name] = int(value) if value.isdigit() else value
        if not target.name:
            matches = self._selection()
            going = self.api.store.every(target.resource, target.namespace)
            gone = [stored for stored in going if not matches or matches(stored.content)]
            for stored in gone:
                self.api.delete(target.resource, stored.key, options, self.dry_run)
            return self._many({"resourceVersion": str(self.api.store.version)}, gone)
        uid = self.api.find(target.resource, target.key).metadata["uid"]
        leaving = self.api.delete(target.resource, target.key, options, self.dry_run)
        if leaving:
            return self._one(leaving)
        return self._json(errors.success(details=errors.details_of(target.resource, target.name, uid=uid)))

    def _content(self, body: bytes) -> Object:
        media_type = self.request.headers.get("content-type", "").partition(";")[0].strip()
        if media_type == protobuf.MEDIA_TYPE:
            return protobuf.decode(body)
        if media_type not in ("", *TEXTS):  # curl --data says application/x-www-form-urlencoded
            raise errors.unknown_format((*TEXTS, protobuf.MEDIA_TYPE))
        kind = self.target.resource.kind
        try:
            content = yaml.safe_load(body) if media_type == TEXTS[1] else json.loads(body)
        except (ValueError, yaml.YAMLError) as error:
            raise errors.bad_request(
                f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
                f"json parse error: {error} ({body.decode(errors='replace')})"
            ) from None
        if not isinstance(content, dict):
            raise errors.bad_request(
                f"the object provided is unrecognized (must be of type {kind}): not an object"
            )
        return content

    def _check_fields(self, content: Object) -> None:
        """`fieldValidation` says what fields that don't exist lead to: an error, a warning, or nothing."""
        resource, mode = self.target.resource, self.query.get("fieldValidation") or "Warn"
        found = [f'unknown field "{path}"' for path in unknown_fields(resource.kind, content)]
        if found and mode == "Strict":
            raise errors.bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
                f"strict decoding error: {', '.join(found)}"
            )
        if mode == "Warn":
            self.warnings += found

    # The form of the answer

    def _form(self) -> str:
        """The form of the answer: Table, PartialObjectMetadata(List), or empty for the objects themselves."""
        for media_type in self.request.headers.get("accept", "").split(","):
            parameters = dict(part.strip().partition("=")[::2] for part in media_type.split(";")[1:])
            if parameters.get("as") and parameters.get("g") == "meta.k8s.io":
                return parameters["as"]
            if not parameters.get("as"):
                break
        return ""

    def _one(self, stored: Stored, code: int = 200) -> Response:
        return self._raw(self._shower()(stored), code)

    def _many(self, metadata: Object, items: list[Stored]) -> Response:
        resource, form = self.target.resource, self._form()
        if form == "Table":
            return self._json(tables.table(resource, items, metadata, self._include()))
        if form == "PartialObjectMetadataList":
            partial = [tables.only_metadata(stored.metadata) for stored in items]
            kind = {"kind": form, "apiVersion": "meta.k8s.io/v1"}
            return self._json({**kind, "metadata": metadata, "items": partial})
        start = f'{{"kind":"{resource.kind}List","apiVersion":"{resource.group_version}","metadata":'
        joined = b",".join(stored.json for stored in items)
        return self._raw(start.encode() + msgspec.json.encode(metadata) + b',"items":[' + joined + b"]}")

    def _shower(self) -> Callable[[Stored], bytes]:
        form, resource = self._form(), self.target.resource
        if form == "Table":
            header = True

            def show_row(stored: Stored) -> bytes:
                """In a watch, only the first row comes with the columns."""
                nonlocal header
                version = {"resourceVersion": stored.metadata["resourceVersion"]}
                shown = tables.table(resource, [stored], version, self._include(), header)
                header = False
                return msgspec.json.encode(shown)

            return show_row
        if form.startswith("PartialObjectMetadata"):
            return lambda stored: msgspec.json.encode(tables.only_metadata(stored.metadata))
        return lambda stored: stored.full_json

    def _include(self) -> str:
        return self.query.get("includeObject") or "Metadata"

    def _json(self, content: Any, code: int = 200) -> Response:
        return self._raw(msgspec.json.encode(content), code)

    def _raw(self, body: bytes, code: int = 200) -> Response:
        headers = {}
        if len(body) > GZIP_FROM and "gzip" in self.request.headers.get("accept-encoding", ""):
            body, headers = gzip.compress(body, 1), {"Content-Encoding": "gzip"}
        response = Response(body, code, headers, "application/json")
        for warning in self.warnings:
            response.headers.append("Warning", f"299 - {json.dumps(warning)}")
        return response


def not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def no_such_page(_: Request) -> Response:
    return PlainTextResponse("404 page not found\n", 404)


async def _failed(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    return _json(error.status, error.code, headers)


async def _broke(request: Request, error: Exception) -> Response:
    """An exception of our own code, as for a spec that is a list; the traceback goes to stderr."""
    return await _failed(request, ApiError(500, "InternalError", f"Internal error occurred: {error!r}"))


def _json(
    content: Any, code: int = 200, headers: dict[str, str] | None = None, media_type: str = "application/json"
) -> Response:
    return Response(msgspec.json.encode(content), code, headers, media_type)

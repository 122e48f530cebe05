"""Tally for Python: counts surely and once. It needs the standard library only, Python 3.9 or later.

    from edgetally import Tally
    tally = Tally("http://127.0.0.1:8788", key="...")
    tally.increment("downloads")

Invariants: what may count is sent again only under one Idempotency-Key, drawn before the first try. So a write counts once however often
it is sent. The key goes to the address of the client and nowhere else. Calls raise TallyError, and TypeError for what is no JSON or no list.
"""

from __future__ import annotations

import datetime
import email.utils
import gzip
import http.client
import ipaddress
import json
import logging
import os
import random
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
import weakref
from typing import Any, Callable, Iterable, Iterator, Literal, Mapping, Optional, Union

__all__ = ["Tally", "TallyError", "client_address", "client_key"]

_PAUSE_MIN = 0.1
_PAUSE_MAX = 10.0
# After so long events that could not be sent are sent again without being asked.
_UNASKED_PAUSE = 10.0
_WATCH_PAUSE_MIN = 0.5
_WATCH_PAUSE_MAX = 30.0
# The server sends a ping every 15 s: a stream without a word for three of them is dead.
_SILENCE_MAX = 45.0
_GZIP_BYTES_MIN = 16_384
_ID_BYTES_MAX = 512
# Longer keys are refused. Source: docs/guide/exactness.md.
_KEY_CHARACTERS_MAX = 255
# A body of more might be counted in sections, and half of it could not be sent again apart.
_BODY_EVENTS_MAX = 4_000
_BODY_BYTES_MAX = 4 * 1024 * 1024
# Refused events that flush() names where there is no on_error.
_REJECTED_MAX = 1_000
# An address without a user name, a password, a query and a fragment.
_URL = re.compile(r"https?://(\[[^]/?#@\s]+\]|[^][/?#@:\s]+)(:[0-9]*)?(/[^?#\s]*)?")
_HTTP_DATE = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*[0-9]{2}:[0-9]{2}:[0-9]{2}")
# Lines as a report names them, such as 3,5-6.
_LINES = re.compile("[0-9]{1,15}(-[0-9]{1,15})?(,[0-9]{1,15}(-[0-9]{1,15})?)*")
# Codes of events that may count later. Of all but the first nothing was counted.
_LATER = frozenset(("unavailable", "overloaded", "too-many-counters", "quota-exceeded"))


class TallyError(Exception):
    """A refusal, or no answer in any try.

    status is 0 where nothing answered. code is the problem's stable code, or one of the client's own: see the table in
    docs/develop/clients.md. problem is the whole problem document; retry_after is in seconds. events are, of count() and flush(), the
    events that were refused for good: {"event", "code", "detail"} each. on_error is, of limit() without a verdict, what the policy says of
    that, "closed" or "open"; None where it is not known.
    """

    on_error: Optional[str] = None

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        problem: Optional[dict] = None,
        retry_after: Optional[float] = None,
        events: Iterable[dict] = (),
    ):
        super().__init__(detail)
        self.status = status
        self.code = code
        self.problem = problem
        self.retry_after = retry_after
        self.events = list(events)

    @property
    def _is_final(self) -> bool:
        return 0 < self.status < 500 and self.status not in (408, 429)

    @property
    def _report(self) -> Optional[dict]:
        """The report of a bulk body of which nothing was counted."""
        return self.problem if self.problem and "rejected_lines" in self.problem and _is_reported(self.problem) else None


# Addresses.

_IPV4_PORT = re.compile(r"([0-9.]+):[0-9]{1,5}")
_BRACKETS = re.compile(r"\[([^\]]*)\](?::[0-9]{1,5})?")
_IPV6 = re.compile(r"[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")
# IPv4 within IPv6: mapped (RFC 4291, 2.5.5.2) and translated (RFC 6052, 2.1).
_WITHIN = (0xFFFF, 0x64FF9B << 64)


def _address(value: Any) -> Union[ipaddress.IPv4Address, ipaddress.IPv6Address, None]:
    if not isinstance(value, str):
        return None
    first = value.split(",", 1)[0].strip()
    bracketed = _BRACKETS.fullmatch(first)
    try:
        if bracketed is None and ":" not in _IPV4_PORT.sub(r"\1", first):
            return ipaddress.IPv4Address(_IPV4_PORT.sub(r"\1", first))
        text = (bracketed.group(1) if bracketed else first).split("%", 1)[0]
        if not _IPV6.fullmatch(text):
            return None
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if int(address) >> 32 in _WITHIN else address


def client_address(value: Any) -> Optional[str]:
    """Returns an address in its one spelling, without port, brackets and zone: of a list, such as X-Forwarded-For, its first.

    IPv4 within IPv6 is IPv4. Returns None for what is no address.
    """
    address = _address(value)
    return None if address is None else str(address)


def client_key(value: Any, *, ipv6_prefix: int = 64) -> Optional[str]:
    """Returns the key under which a client's quota is counted: an IPv4 address, or the network of an IPv6 address, such as "2001:db8:1:2::".

    ipv6_prefix says how many bits of an IPv6 address tell clients apart. Returns None for what is no address.
    """
    if isinstance(ipv6_prefix, bool) or not isinstance(ipv6_prefix, int) or not 1 <= ipv6_prefix <= 128:
        raise ValueError(f"ipv6_prefix is {ipv6_prefix!r}: send a whole number from 1 to 128")
    address = _address(value)
    if not isinstance(address, ipaddress.IPv6Address):
        return None if address is None else str(address)
    return str(ipaddress.IPv6Network((int(address), ipv6_prefix), strict=False).network_address)


# Ids.


def _fault(id: Any, is_prefix: bool) -> Optional[str]:
    if not isinstance(id, str):
        return f"is {'None' if id is None else type(id).__name__}: send a text"
    if not is_prefix and id == "":
        return "is empty: send a text of 1 to 512 bytes"
    if not is_prefix and id in (".", ".."):
        return f'is "{id}", which URL parsers take out of paths: send another text'
    if any(ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0 for sign in id):
        return f"is {id!a}: leave out its control characters"
    try:
        size = len(id.encode())
    except UnicodeEncodeError:
        return f"is {id!a}, which begins or ends within a character: cut it elsewhere"
    return f"has {size} bytes of UTF-8: send at most {_ID_BYTES_MAX}" if size > _ID_BYTES_MAX else None


def _checked(name: str, id: Any) -> str:
    fault = _fault(id, name == "prefix")
    if fault is not None:
        raise TallyError(400, "invalid-id", f"`{name}` {fault}")
    return id


def _list(name: str, values: Any) -> list:
    """The values of a list. A text, bytes or an object would be taken apart, and each part for a value."""
    if isinstance(values, (str, bytes, bytearray, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is a {type(values).__name__}: pass a list")
    return list(values)


def _part(name: str, text: Any) -> str:
    encoded = urllib.parse.quote(_checked(name, text), safe="")
    # As it stands it would be the list of a policy's overrides.
    return "%6Fverrides" if encoded == "overrides" else encoded


def _key_of(key: Any) -> Optional[str]:
    """Returns the key of a write; None for none."""
    if key is None:
        return None
    if isinstance(key, str) and len(key) <= _KEY_CHARACTERS_MAX and re.fullmatch("[ -~]*[!-~][ -~]*", key) and ", " not in key:
        return key
    shown = ascii(key[:300]) if isinstance(key, str) else f"a {type(key).__name__}"
    detail = f"send 1 to {_KEY_CHARACTERS_MAX} visible ASCII characters, no space after a comma, and another for each write"
    raise TallyError(400, "invalid-idempotency-key", f"`idempotency_key` is {shown}: {detail}")


def _number(name: str, value: Any, least: float) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
        raise ValueError(f"{name} is {value!r}: send a number of at least {least}")
    return value


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect names another place, which may be anybody's: it gets neither the key nor the write."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


class _Waiting:
    """An event that waits for its answer."""

    def __init__(self, event: dict, line: str, is_keyed: bool):
        self.event = event
        self.line = line
        # Whether it has a key of its own, so that it may be sent in any body.
        self.is_keyed = is_keyed
        # Whether it was counted, or told to the caller.
        self.is_done = False


class _Body:
    """Events that are sent together, under one key."""

    def __init__(self, waiting: Iterable[_Waiting] = ()):
        self.key = str(uuid.uuid4())
        self.waiting = list(waiting)
        self.size = 0
        # Whether an attempt may have counted something that no answer says; and whether there was ever such an attempt.
        self.is_unknown = False
        self.was_unknown = False

    def open(self) -> list[_Waiting]:
        return [waiting for waiting in self.waiting if not waiting.is_done]


# The clients of this process.
_CLIENTS: weakref.WeakSet[Tally] = weakref.WeakSet()


def _forget_events() -> None:
    for tally in list(_CLIENTS):
        tally._begin_batches()


if hasattr(os, "register_at_fork"):
    # The parent sends what waits. If a child sent it too, or continued a body, two would use one key for different events.
    os.register_at_fork(after_in_child=_forget_events)


class Tally:
    """A client. It may be used by several threads, and by processes that fork: events that wait then are the parent's.

    retries: tries after the first. timeout: seconds that one try may take. check_timeout: seconds that limit() may take in all. batch_events:
    count() sends when so many events wait, 4,000 at most. batch_wait: or when the first one has waited so many seconds. flush_timeout: seconds
    for which flush() sends events again. queue_events: how many may wait. on_error: is called with a TallyError for events that were refused
    for good, and where events could not be sent yet; without it flush() raises.
    """

    def __init__(
        self,
        url: str,
        key: Optional[str] = None,
        *,
        retries: int = 5,
        timeout: float = 10.0,
        check_timeout: float = 1.0,
        batch_events: int = 1_000,
        batch_wait: float = 1.0,
        flush_timeout: float = 60.0,
        queue_events: int = 100_000,
        on_error: Optional[Callable[[TallyError], Any]] = None,
    ):
        if not isinstance(url, str) or not _URL.fullmatch(url):
            # What comes before an at sign may be a password, and errors go to logs.
            if "@" in str(url):
                raise ValueError("url has a user name or a password: leave them out, because a key has its own option")
            raise ValueError(f"url is {url!r}: write it as https://tally.example.com")
        self.url = url.rstrip("/")
        if key is not None and not isinstance(key, str):
            raise ValueError(f"key is a {type(key).__name__}: pass a text")
        self._key = key.strip() if key else None
        # The error does not quote the key, because errors go to logs.
        if self._key and not re.fullmatch(r"[\x21-\x7e]+", self._key):
            raise ValueError("key has a space, a line feed or a character that is not ASCII: pass the key alone")
        self._retries = int(_number("retries", retries, 0))
        self._timeout = _number("timeout", timeout, 0.001)
        self._check_timeout = _number("check_timeout", check_timeout, 0.001)
        self._batch_events = min(_number("batch_events", batch_events, 1), _BODY_EVENTS_MAX)
        self._batch_wait = _number("batch_wait", batch_wait, 0)
        self._flush_timeout = _number("flush_timeout", flush_timeout, 0)
        self._queue_events = _number("queue_events", queue_events, 0)
        self._on_error = on_error
        # Stored policies that are closed, as answers said: no more than the server stores.
        self._closed: set[str] = set()
        self._begin_batches()
        _CLIENTS.add(self)

    def _begin_batches(self) -> None:
        # Bodies that are not settled, oldest first; the last one is open.
        self._bodies: list[_Body] = []
        self._count = 0
        self._rejected: list[dict] = []
        # Sends what waits; there is none where nothing does.
        self._timer: Optional[threading.Timer] = None
        self._lock = threading.Lock()
        # One thread sends at a time.
        self._sending = threading.RLock()

    # One call.

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        body: Any = None,
        idempotency_key: Optional[str] = None,
        is_write: bool = False,
        answers: Iterable[int] = (),
    ) -> Any:
        """Sends until it is answered, and returns the JSON of the answer; of /gate None, as 204 has none. Raises TallyError."""
        status, _, content = self._answer(method, path, query, body, idempotency_key, is_write, answers)
        # A gate says all by its status.
        return None if status == 204 and path.startswith("/gate/") else _json(status, content, (dict, list))

    def _request(self, method, path, query, body, headers):
        if not re.match(r"/(?!/)", path):
            # Anything else would continue the host's name, and the key would go there.
            raise TallyError(400, "invalid-path", f"the path {path!a} does not begin with one slash: write it as /healthz")
        given = {name: value for name, value in (query or {}).items() if value is not None}
        for name, value in given.items():
            for one in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(one, str) and re.search("[\ud800-\udfff]", one):
                    _checked(name, one)
        url = f"{self.url}{path}" + (f"?{urllib.parse.urlencode(given, doseq=True)}" if given else "")
        if self._key:
            headers = {"authorization": f"Bearer {self._key}", **headers}
        data = body if body is None or isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        if data is not None and len(data) >= _GZIP_BYTES_MIN:
            data = gzip.compress(data, 1)
        return urllib.request.Request(url, data=data, method=method, headers=headers)

    def _answer(self, method, path, query, body, idempotency_key, is_write, answers, retries=None, deadline=None):
        key = _key_of(idempotency_key) or (str(uuid.uuid4()) if is_write else None)
        request = self._request(method, path, query, body, {"idempotency-key": key} if key else {})
        # Some calls by GET count at each request.
        may_repeat = key is not None or (method == "GET" and not path.startswith(("/hit/", "/pixel/")))
        late = time.monotonic() + (float("inf") if deadline is None else deadline)
        pause = _PAUSE_MIN
        for attempt in range(1 + (self._retries if retries is None else retries)):
            is_last = attempt == (self._retries if retries is None else retries)
            answer = self._try(request, answers, late)
            if not isinstance(answer, TallyError):
                return answer
            error = answer
            is_unknown = error.status == 0 or error.status >= 500
            # What says overloaded counted nothing, so anything may be sent again.
            may_go_on = (is_unknown and may_repeat) or error.code == "overloaded" or (error.status == 429 and is_write)
            wait = _pause(error, pause)
            if not may_go_on or error.code == "not-configured" or is_last or time.monotonic() + wait >= late:
                raise error
            time.sleep(wait)
            pause = min(_PAUSE_MAX, 2 * pause)
        raise AssertionError("unreachable")

    def _try(self, request, answers, late):
        """One try: status, headers and content, or why there are none."""
        timeout = max(0.001, min(self._timeout, late - time.monotonic()))
        until = time.monotonic() + timeout
        try:
            with _OPENER.open(request, timeout=timeout) as answer:
                return answer.status, answer.headers, _read(answer, until)
        except urllib.error.HTTPError as refused:
            with refused:
                content = _read_refusal(refused, until)
                if refused.code in answers:
                    return refused.code, refused.headers, content
                return _refusal(self.url, refused.code, refused.headers, content)
        except (OSError, ValueError, http.client.HTTPException) as lost:
            return TallyError(0, "no-answer", f"{self.url} does not answer: {getattr(lost, 'reason', lost)}")

    def _write(self, method, path, body, idempotency_key):
        status, _, content = self._answer(method, path, None, body, idempotency_key, True, ())
        return _json(status, content)

    def _get(self, path, query):
        status, _, content = self._answer("GET", path, query, None, None, False, ())
        return _json(status, content)

    # Counters.

    def increment(
        self,
        id: str,
        delta: int = 1,
        *,
        ttl_seconds: Optional[int] = None,
        ttl_mode: Optional[Literal["fixed", "sliding"]] = None,
        idempotency_key: Optional[str] = None,
        **change: Any,
    ) -> dict:
        """Adds to a counter. change: unique, sample, by and the other fields of the call.

        ttl_seconds is the time to live of a counter that this write creates: from its creation, or from its last write
        with ttl_mode="sliding". An existing counter keeps its own.
        """
        ttl = {"ttl_seconds": ttl_seconds, "ttl_mode": ttl_mode}
        change.update((name, value) for name, value in ttl.items() if value is not None)
        return self._write("POST", f"/counters/{_part('id', id)}/increment", {"delta": delta, **change}, idempotency_key)

    def decrement(self, id: str, delta: int = 1, *, idempotency_key: Optional[str] = None, **change: Any) -> dict:
        """Takes from a counter."""
        return self._write("POST", f"/counters/{_part('id', id)}/decrement", {"delta": delta, **change}, idempotency_key)

    def get(self, id: str, **query: Any) -> dict:
        """Reads a counter: get("a", consistency="strong")."""
        return self._get(f"/counters/{_part('id', id)}", query)

    def set(self, id: str, value: int, *, idempotency_key: Optional[str] = None) -> dict:
        """Sets the value."""
        return self._write("PUT", f"/counters/{_part('id', id)}/value", {"value": value}, idempotency_key)

    def delete(self, id: str, *, idempotency_key: Optional[str] = None) -> dict:
        """Ends a counter."""
        return self._write("DELETE", f"/counters/{_part('id', id)}", None, idempotency_key)

    def history(self, id: str, **query: Any) -> dict:
        """What was counted when."""
        return self._get(f"/counters/{_part('id', id)}/history", query)

    def breakdown(self, id: str, by: str, **query: Any) -> dict:
        """What was counted of each value of a dimension."""
        return self._get(f"/counters/{_part('id', id)}/breakdown", {"by": by, **query})

    def top(self, **query: Any) -> dict:
        """Which counters have most."""
        return self._get("/top", query)

    def boards_top(self, boards: Iterable[str], **query: Any) -> dict:
        """The first entries of several boards, and with member its ranks among all of them."""
        names = _list("boards", boards)
        for name in names:
            if "," in _checked("boards", name):
                raise TallyError(400, "invalid-id", f"`boards` has a name with a comma: {name}")
        return self._get("/top", {"boards": ",".join(names), **query})

    def aggregate(self, prefix: str, **query: Any) -> dict:
        """The sum of all counters whose ids begin with prefix."""
        return self._get(f"/counters/{_part('prefix', prefix)}*/aggregate", query)

    def counters(self, prefix: str = "", **query: Any) -> Iterator[dict]:
        """All counters whose ids begin with prefix, page by page."""
        cursor: Optional[str] = None
        while True:
            page = self._get("/counters", {"prefix": prefix, **query, "cursor": cursor})
            entries, after = page.get("entries"), page.get("cursor")
            # Another program may give the same page for ever.
            if not isinstance(entries, list) or not isinstance(after, (str, type(None))) or (after and after == cursor):
                raise _not_tally(200, "a page")
            yield from entries
            cursor = after
            if not cursor:
                return

    # Many at once.

    def count(self, id: str, delta: int = 1, **event: Any) -> None:
        """Adds to a counter soon, with others in one body. Call flush() before the program ends.

        An id that is not valid goes to on_error; without it this raises. Each batch_events-th call sends, as flush() does. Otherwise a thread
        sends after batch_wait.
        """
        record = {"id": id, "delta": delta, **event}
        try:
            _checked("id", id)
            json.dumps(record)
        except (TallyError, TypeError, ValueError, RecursionError) as fault:
            if self._on_error is None:
                raise
            code = fault.code if isinstance(fault, TallyError) else "invalid-body"
            return self._refuse([{"event": record, "code": code, "detail": str(fault)}])
        with self._lock:
            is_full = self._add(record)
            if is_full is False:
                self._send_after(self._batch_wait)
        if is_full is None:
            detail = f"{self._queue_events} events wait already: Tally does not answer, or events come faster than it takes them"
            self._refuse([{"event": record, "code": "queue-full", "detail": detail}])
        elif is_full:
            self._send_or_tell()

    def _add(self, record: dict) -> Optional[bool]:
        """Whether the body is full now; None where there is no room."""
        if self._count >= self._queue_events:
            return None
        if not self._bodies or self._is_full(self._bodies[-1]):
            self._bodies.append(_Body())
        body = self._bodies[-1]
        # Whether an event may be counted is not always the same: not for whom budgets judge event by event, not for a visitor whose day's
        # salt is not known, and not for an old time. Such an event needs a key of its own.
        needs_key = self._key is None or record.get("unique") == "auto" or "at" in record
        own = record.get("idempotency_key", f"{body.key}-{len(body.waiting)}" if needs_key else None)
        line = json.dumps(record if own is None else {**record, "idempotency_key": own})
        body.waiting.append(_Waiting(record, line, own is not None))
        body.size += len(line)
        self._count += 1
        return self._is_full(body)

    def _is_full(self, body: _Body) -> bool:
        return body.was_unknown or len(body.waiting) >= self._batch_events or body.size >= _BODY_BYTES_MAX

    def flush(self) -> None:
        """Sends what count() has collected, and returns once each event was counted or told to on_error.

        Without on_error it raises TallyError: with events for those that were refused for good. What could not be sent stays for the next call,
        and is sent under the same key.
        """
        self._send_or_tell()
        with self._lock:
            rejected, self._rejected = self._rejected, []
        if rejected:
            raise _rejection(rejected)

    def _send_after(self, seconds: float) -> None:
        if self._timer is not None:
            return
        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self._send_unasked)
        # It does not keep the program from its end.
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:
            # There is no room for a thread, or the program ends: the next call, or flush(), does it.
            return
        self._timer = timer

    def _send_unasked(self) -> None:
        """Sends without being asked. What stays is told to on_error, or to the next flush(), which meets it again."""
        try:
            self._send()
        except TallyError as error:
            self._tell(error)

    def _send_or_tell(self) -> None:
        try:
            self._send()
        except TallyError as error:
            if not self._tell(error):
                raise

    def _tell(self, error: TallyError) -> bool:
        """Whether there is somebody to tell. Their function must not harm what is sent."""
        if self._on_error is not None:
            _guarded(self._on_error, error)
        return self._on_error is not None

    def _refuse(self, rejected: list[dict]) -> None:
        if rejected and not self._tell(_rejection(rejected)):
            with self._lock:
                self._rejected += rejected[: _REJECTED_MAX - len(self._rejected)]

    def _send(self) -> None:
        with self._sending:
            late = time.monotonic() + self._flush_timeout
            with self._lock:
                # Nothing is added to what is being sent.
                self._bodies, bodies = [], self._bodies
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = None
            try:
                while bodies:
                    body = bodies.pop(0)
                    try:
                        bodies[:0] = self._deliver(body, late)
                    except BaseException:
                        bodies.insert(0, body)
                        raise
            finally:
                with self._lock:
                    for body in bodies:
                        # Closed, so that events which come later are not part of it.
                        body.size = _BODY_BYTES_MAX
                    self._bodies = bodies + self._bodies
                    if bodies:
                        self._send_after(_UNASKED_PAUSE)

    def _deliver(self, body: _Body, late: float) -> list[_Body]:
        """Sends a body until each of its events is settled; returns the halves of one that is too large. Raises where it could not be in time."""
        pause = _PAUSE_MIN
        while True:
            before = len(body.open())
            error = self._attempt(body, late)
            waiting = body.open()
            if not waiting or error is None:
                return []
            if error._report is None:
                # More than a budget ever has at once, or than a proxy lets through: nothing was counted.
                is_too_much = error.code == "cost-exceeds-limit" or (error.status == 413 and not body.was_unknown)
                if is_too_much and len(waiting) > 1:
                    middle = (len(waiting) + 1) // 2
                    return [_Body(waiting[:middle]), _Body(waiting[middle:])]
                if error._is_final:
                    self._settle(waiting, [{"event": one.event, "code": error.code, "detail": str(error)} for one in waiting])
                    return []
            pause = _PAUSE_MIN if len(waiting) < before else pause
            wait = _pause(error, pause)
            pause = min(_PAUSE_MAX, 2 * pause)
            if time.monotonic() + wait >= late:
                detail = f"{self._count} events wait for the next flush(): {error}"
                raise TallyError(error.status, error.code, detail, retry_after=error.retry_after)
            time.sleep(wait)

    def _attempt(self, body: _Body, late: float) -> Optional[TallyError]:
        """Sends once, and settles what the answer says. Returns why the rest waits."""
        if not body.is_unknown:
            body.waiting = body.open()
        text = "\n".join(waiting.line for waiting in body.waiting)
        failure: Optional[TallyError] = None
        try:
            deadline = max(0.001, late - time.monotonic())
            answer = self._answer("POST", "/events", None, text, body.key, True, (), retries=0, deadline=deadline)
            report = _report_of(answer)
        except TallyError as error:
            failure, report = error, error._report
        if report is not None:
            why = self._read_report(body, report)
            # A refusal says when to come again.
            return failure if why is not None and failure is not None and failure.code in _LATER else why
        # What says overloaded counted nothing. Of others that do not answer, nobody knows.
        if failure is not None and (failure.status == 0 or (failure.status >= 500 and failure.code != "overloaded")):
            body.is_unknown = body.was_unknown = any(not waiting.is_keyed for waiting in body.open())
        return failure

    def _read_report(self, body: _Body, report: dict) -> Optional[TallyError]:
        """Settles what a report says. Returns the first reason of those that wait."""
        codes = _codes(report, len(body.waiting))
        details = {error["line"]: error["detail"] for error in report.get("errors", [])}
        settled, rejected = [], []
        is_unknown, why = False, None
        for line, waiting in enumerate(body.waiting, 1):
            code = codes.get(line)
            if waiting.is_done:
                continue
            detail = details.get(line, f"the event was refused: {code}")
            if code in _LATER:
                is_unknown = is_unknown or (code == "unavailable" and not waiting.is_keyed)
                why = why or TallyError(429 if code == "quota-exceeded" else 503, code, detail)
                continue
            settled.append(waiting)
            # The key of a body is this client's alone: an attempt whose answer was lost has counted such an event.
            is_counted = code == "idempotency-key-reused" and not waiting.is_keyed and body.was_unknown
            if code is not None and not is_counted:
                rejected.append({"event": waiting.event, "code": code, "detail": detail})
        body.is_unknown = is_unknown
        body.was_unknown = body.was_unknown or is_unknown
        self._settle(settled, rejected)
        return why

    def _settle(self, settled: list[_Waiting], rejected: list[dict]) -> None:
        for waiting in settled:
            waiting.is_done = True
        with self._lock:
            self._count -= len(settled)
        self._refuse(rejected)

    def events(self, events: Iterable[Union[dict, Mapping[str, Any]]], *, idempotency_key: Optional[str] = None) -> dict:
        """Counts many events in one body. Raises where none was counted: the error's problem has the report."""
        body = "\n".join(json.dumps(event) for event in _list("events", events))
        return _report_of(self._answer("POST", "/events", None, body, idempotency_key, True, ()))

    # Limits.

    def limit(self, policy: str, key: str, **check: Any) -> dict:
        """Asks a limit, and consumes. A refusal is an answer: "allowed" is False.

        It is sent once, because a repeat would consume again; only "overloaded", which consumed nothing, is sent again. After check_timeout it
        raises, and on_error of the error is what the policy says of that. check: cost, and the fields of a policy where none is stored (limit,
        window_seconds, ...).
        """
        path = f"/limits/{_part('policy', policy)}/{_part('key', key)}"
        try:
            answer = self._answer("POST", path, None, check, None, False, (429,), deadline=self._check_timeout)
            return self._verdict(policy, check, answer)
        except TallyError as error:
            error.on_error = self._on_error_of(policy, check, error.code)
            raise

    def _on_error_of(self, policy, check, code):
        """What a policy says of a check without a verdict: by the server, by the check, or by an earlier answer."""
        if code == "limiter-unavailable":
            return "closed"
        if check.get("on_error"):
            return check["on_error"]
        if "limit" in check:
            return "closed" if check.get("scope") == "global" else "open"
        return "closed" if policy in self._closed else None

    def _verdict(self, policy, check, answer):
        status, headers, content = answer
        said = _json(status, content) if status != 429 else _object(content)
        policies = headers.get("ratelimit-policy", "")
        if "limit" not in check and policies:
            (self._closed.add if ";tally-on-error=closed" in policies else self._closed.discard)(policy)
        if status != 429 and isinstance(said.get("allowed"), bool):
            return said
        if status != 429:
            raise _not_tally(status, "a verdict")
        # A budget of the caller's own: nothing was judged.
        if said.get("allowed") is not False:
            raise _refusal(self.url, status, headers, content)
        left = _fields(headers.get("ratelimit", ""))
        quota = _fields(policies)
        return {
            "allowed": False,
            "policy": policy,
            **({"override": said["override"]} if isinstance(said.get("override"), str) else {}),
            "limit": quota.get("q", check.get("limit", 0)),
            "remaining": left.get("r", 0),
            "reset_after_ms": 1000 * left.get("t", 0),
            "retry_after_ms": int(1000 * (_retry_after(headers) or 0)),
        }

    def refund(self, policy: str, key: str, cost: int = 1, *, idempotency_key: Optional[str] = None) -> dict:
        """Gives back what a check consumed, once, however often it has to be sent."""
        path = f"/limits/{_part('policy', policy)}/{_part('key', key)}/refund"
        return self._write("POST", path, {"cost": cost}, idempotency_key)

    # Overrides.

    def put_override(self, policy: str, pattern: str, **fields: Any) -> dict:
        """Gives some keys of a policy another limit, none, or a block.

        pattern: a key, or the beginning of keys and a star. fields: limit, window_seconds, ttl_seconds, burst, or unlimited=True, or
        blocked=True; and ends_at.
        """
        return self._write("PUT", self._override(policy, pattern), fields, None)

    def delete_override(self, policy: str, pattern: str) -> None:
        """Deletes an override."""
        self._write("DELETE", self._override(policy, pattern), None, None)

    def overrides(self, policy: str, *, cursor: Optional[str] = None, limit: int = 100) -> dict:
        """A page of the overrides of a policy: of keys, then of prefixes. Send the cursor back to get the next page."""
        query = {"limit": limit, **({} if cursor is None else {"cursor": cursor})}
        return self._get(f"/limits/{_part('policy', policy)}/overrides", query)

    def _override(self, policy, pattern):
        return f"/limits/{_part('policy', policy)}/overrides/{_part('pattern', pattern)}"

    # Holds.

    def reserve(
        self,
        policy: str,
        key: str,
        amount: int = 1,
        *,
        ttl_seconds: Optional[int] = None,
        on_expiry: Optional[Literal["settle", "release"]] = None,
        idempotency_key: Optional[str] = None,
    ) -> dict:
        """Holds an amount before the work, once, however often it has to be sent.

        A refusal is an answer: "allowed" is False, and there is no "hold". There is none either where no limiter answers and the policy is open.
        """
        fields = {"amount": amount, "ttl_seconds": ttl_seconds, "on_expiry": on_expiry}
        body = {name: value for name, value in fields.items() if value is not None}
        path = f"/limits/{_part('policy', policy)}/{_part('key', key)}/holds"
        return self._verdict(policy, {}, self._answer("POST", path, None, body, str(uuid.uuid4()) if idempotency_key is None else idempotency_key, False, (429,)))

    def settle(self, policy: str, key: str, hold: str, amount: Optional[int] = None, *, idempotency_key: Optional[str] = None) -> dict:
        """Settles a hold by what was used, all of it where amount is left out. The rest comes back."""
        body = {} if amount is None else {"amount": amount}
        return self._write("POST", f"{self._hold(policy, key, hold)}/settle", body, idempotency_key)

    def release(self, policy: str, key: str, hold: str, *, idempotency_key: Optional[str] = None) -> dict:
        """Releases a hold: all of it comes back."""
        return self._write("DELETE", self._hold(policy, key, hold), None, idempotency_key)

    def _hold(self, policy, key, hold):
        return f"/limits/{_part('policy', policy)}/{_part('key', key)}/holds/{_part('hold', hold)}"

    def hold(self, policy: str, key: str, amount: int = 1, **fields: Any) -> Held:
        """Holds an amount for a with statement. fields: ttl_seconds and on_expiry, as of reserve.

        held.use(amount) says how much was used so far; the hold is settled by the last of these. Without one it is settled at its amount, or
        released if the statement raises. Raises TallyError where nothing can be held.
        """
        return Held(self, policy, key, amount, fields)

    # Changes.

    def watch(self, *ids: str, on_error: Optional[Callable[[TallyError], Any]] = None) -> Iterator[dict]:
        """Yields the newest state of all these counters at each change, {"likes": {"value": 3, ...}}. A counter that does not exist is None.

        A stream that ends is opened again, until the iterator is closed; on_error is told why. What is refused for good is raised as TallyError.
        """
        for id in ids:
            _checked("id", id)
        counters: dict = {}
        last: Optional[str] = None
        pause = _WATCH_PAUSE_MIN
        while True:
            headers = {"accept": "text/event-stream", **({} if last is None else {"last-event-id": last})}
            request = self._request("GET", "/live", {"id": list(ids)}, None, headers)
            try:
                with _OPENER.open(request, timeout=_SILENCE_MAX) as stream:
                    for event_id, data in _messages(stream):
                        pause = _WATCH_PAUSE_MIN
                        last = event_id or last
                        update = json.loads(data)
                        if update["type"] == "update":
                            counters.update(update["counters"])
                            yield dict(counters)
                error = TallyError(0, "no-answer", f"{self.url} has ended the stream")
            except urllib.error.HTTPError as refused:
                with refused:
                    content = _read_refusal(refused, time.monotonic() + self._timeout)
                    error = _refusal(self.url, refused.code, refused.headers, content)
            except (OSError, ValueError, KeyError, TypeError, RecursionError, http.client.HTTPException) as lost:
                error = TallyError(0, "no-answer", f"{self.url} does not answer: {getattr(lost, 'reason', lost)}")
            if error._is_final:
                raise error
            if on_error is not None:
                _guarded(on_error, error)
            time.sleep(min(_WATCH_PAUSE_MAX, max(error.retry_after or 0, pause)))
            pause = min(_WATCH_PAUSE_MAX, 2 * pause)


def _messages(stream: Any) -> Iterator[tuple[Optional[str], str]]:
    """Yields the messages of a stream of server-sent events. Source: HTML standard, section 9.2.6."""
    event_id: Optional[str] = None
    data: list[str] = []
    for raw in stream:
        line = raw.decode(errors="replace").rstrip("\r\n")
        if line == "":
            if data:
                yield event_id, "\n".join(data)
            data = []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif line.startswith("id:"):
            event_id = line[3:].strip()


def _read(answer: Any, until: float) -> bytes:
    pieces = []
    while True:
        piece = answer.read1(65_536)
        if not piece:
            break
        pieces.append(piece)
        if time.monotonic() > until:
            raise TimeoutError("the answer takes too long")
    # What the server announced and did not send.
    if getattr(answer, "length", None):
        raise http.client.IncompleteRead(b"".join(pieces), answer.length)
    return b"".join(pieces)


def _read_refusal(refused: Any, until: float) -> bytes:
    """What a refusal says, as far as it arrives."""
    try:
        return _read(refused, until)
    except (OSError, ValueError, http.client.HTTPException):
        return b""


def _guarded(call: Callable[[TallyError], Any], error: TallyError) -> None:
    """Calls a function of the caller's. What it raises must not harm what Tally does."""
    try:
        call(error)
    except Exception:
        logging.getLogger("tally").exception("on_error failed")


def _pause(error: TallyError, pause: float) -> float:
    return min(_PAUSE_MAX, max(error.retry_after or 0, pause * (0.5 + random.random())))


def _is_reported(report: dict) -> bool:
    """Whether what says which records were rejected has the form of a report. Another program may answer anything."""
    runs, reasons = report.get("rejected_lines", []), report.get("errors", [])
    if not isinstance(runs, list) or not isinstance(reasons, list) or not all(isinstance(one, dict) for one in runs + reasons):
        return False
    lines = [run.get("lines") for run in runs]
    texts = [*lines, *(run.get("code") for run in runs), *(reason.get("detail") for reason in reasons)]
    is_numbered = all(isinstance(reason.get("line"), int) for reason in reasons)
    return is_numbered and all(isinstance(text, str) for text in texts) and all(map(_LINES.fullmatch, lines))


def _codes(report: dict, most: int) -> dict:
    """The numbers, from 1 to most, of rejected records and their codes."""
    codes = {}
    for rejected in report.get("rejected_lines", []):
        for run in rejected["lines"].split(","):
            first, _, last = run.partition("-")
            for line in range(int(first), min(int(last or first), most) + 1):
                codes[line] = rejected["code"]
    return codes


def _rejection(events: list[dict]) -> TallyError:
    others = "" if len(events) == 1 else f" (and {len(events) - 1} more)"
    detail = f"an event of {events[0]['event'].get('id')!r} was refused: {events[0]['detail']}{others}"
    return TallyError(400, events[0]["code"], detail, events=events)


def _not_tally(status: int, lacks: str, content: bytes = b"") -> TallyError:
    """The error for an answer that lacks what Tally's answers have: another program gives it."""
    shown = f": {content[:200].decode(errors='replace')}" if content else ""
    return TallyError(status, "not-tally", f"{status} without {lacks}, so it is not Tally that answers{shown}")


def _json(status: int, content: bytes, kinds: tuple = (dict,)) -> Any:
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        raise _not_tally(status, "JSON", content) from None
    if not isinstance(said, kinds):
        raise _not_tally(status, "an object", content)
    return said


def _report_of(answer: tuple) -> dict:
    status, _, content = answer
    report = _json(status, content)
    # Another program that answers has counted nothing.
    accepted = report.get("accepted")
    if not isinstance(accepted, int) or isinstance(accepted, bool) or not _is_reported(report):
        raise _not_tally(status, "a report")
    return report


def _object(content: bytes) -> dict:
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _fields(header: str) -> dict:
    pairs = [part.strip().split("=", 1) for part in header.split(";")[1:]]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and re.fullmatch("[0-9]{1,15}", pair[1])}


def _retry_after(headers: Any) -> Optional[float]:
    """When an answer says to ask again: in seconds, or at a time. Source: RFC 9110, sections 10.2.3 and 5.6.7."""
    text = headers.get("retry-after", "")
    if re.fullmatch(r"[0-9]{1,15}", text):
        return float(text)
    try:
        # The form of C has no zone, and means UTC as the others do.
        at = datetime.datetime(*email.utils.parsedate(text)[:6], tzinfo=datetime.timezone.utc) if _HTTP_DATE.match(text) else None
    except (TypeError, ValueError):
        at = None
    return None if at is None else max(0.0, at.timestamp() - time.time())


def _refusal(url: str, status: int, headers: Any, content: bytes) -> TallyError:
    if 300 <= status < 400:
        where = f" to {headers.get('location')[:200]}" if headers.get("location") else ""
        return TallyError(status, "redirected", f"{url} redirects{where}: set url to the address at which Tally itself answers")
    problem = _object(content)
    # Another program's problem may have anything in their places.
    code, detail = problem.get("code"), problem.get("detail")
    if not isinstance(detail, str):
        detail = f"{status} {content[:200].decode(errors='replace')}".strip()
    return TallyError(status, code if isinstance(code, str) else "unknown", detail, problem or None, _retry_after(headers))


class Held:
    """A hold while a with statement runs: see Tally.hold."""

    def __init__(self, tally: Tally, policy: str, key: str, amount: int, fields: dict) -> None:
        self._tally = tally
        self._of = (policy, key)
        self._asked = (amount, fields)
        self._id: Optional[str] = None
        self._used: Optional[int] = None

    def use(self, amount: int) -> None:
        """Says how much was used so far."""
        self._used = amount

    def __enter__(self) -> Held:
        amount, fields = self._asked
        said = self._tally.reserve(*self._of, amount, **fields)
        if not said["allowed"]:
            detail = f"policy {self._of[0]} cannot hold this now; try again in {said['retry_after_ms']} ms"
            raise TallyError(429, "quota-exceeded", detail)
        self._id = said.get("hold", {}).get("id")
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._id is None:
            return
        used = self._used if kind is None or self._used is not None else 0
        try:
            self._tally.settle(*self._of, self._id, used)
        except TallyError as fault:
            # The hold ends by itself, and the result of the statement counts for its caller.
            logging.getLogger("tally").warning("a hold was not settled: %s", fault)

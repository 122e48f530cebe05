"""Tally for Python: counts surely and once. It needs the standard library only, Python 3.9 or later.

    from tally import Tally
    tally = Tally("http://127.0.0.1:8788", key="...")
    tally.increment("downloads")

Invariant: what may count is sent again only under one Idempotency-Key, drawn before the first try. So a write counts once however often
it is sent.
"""

from __future__ import annotations

import gzip
import ipaddress
import json
import random
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any, Iterable, Iterator, Mapping, Optional, Union

__all__ = ["Tally", "TallyError", "client_address", "client_key"]

_PAUSE_MIN = 0.1
_PAUSE_MAX = 10.0
_GZIP_BYTES_MIN = 16_384


class TallyError(Exception):
    """A refusal, or no answer in any try.

    status is 0, and code "no-answer", where nothing answered. problem is the whole problem document; retry_after is in seconds.
    """

    def __init__(self, status: int, code: str, detail: str, problem: Optional[dict] = None, retry_after: Optional[float] = None):
        super().__init__(detail)
        self.status = status
        self.code = code
        self.problem = problem
        self.retry_after = retry_after


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


def _part(text: str) -> str:
    return urllib.parse.quote(text, safe="")


class Tally:
    """A client. It may be used by several threads."""

    def __init__(self, url: str, key: Optional[str] = None, *, retries: int = 5, timeout: float = 10.0, batch_events: int = 1_000):
        self.url = url.rstrip("/")
        self._key = key
        self._retries = retries
        self._timeout = timeout
        self._batch_events = batch_events
        self._events: list[dict] = []
        # Bodies that could not be sent, with their keys.
        self._unsent: list[tuple[str, list[dict]]] = []
        self._lock = threading.Lock()

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
        """Sends until it is answered, and returns the JSON of the answer. Raises TallyError."""
        return json.loads(self._answer(method, path, query, body, idempotency_key, is_write, answers)[2] or b"null")

    def _answer(self, method, path, query, body, idempotency_key, is_write, answers):
        given = {name: value for name, value in (query or {}).items() if value is not None}
        url = f"{self.url}{path}" + (f"?{urllib.parse.urlencode(given, doseq=True)}" if given else "")
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        data = body if body is None or isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        if data is not None and len(data) >= _GZIP_BYTES_MIN:
            data = gzip.compress(data, 1)
        key = idempotency_key or (str(uuid.uuid4()) if is_write else None)
        if key:
            headers["idempotency-key"] = key
        may_repeat = key is not None or method == "GET"
        pause = _PAUSE_MIN
        for attempt in range(self._retries + 1):
            request = urllib.request.Request(url, data=data, method=method, headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                    return answer.status, answer.headers, answer.read()
            except urllib.error.HTTPError as refused:
                content = refused.read()
                if refused.code in answers:
                    return refused.code, refused.headers, content
                error = _refusal(refused.code, refused.headers, content)
            except (OSError, TimeoutError) as lost:
                error = TallyError(0, "no-answer", f"{self.url} does not answer: {getattr(lost, 'reason', lost)}")
            except Exception as lost:  # http.client's: a connection that ended in the middle of an answer
                error = TallyError(0, "no-answer", f"{self.url} does not answer: {lost}")
            is_unknown = error.status == 0 or error.status >= 500
            may_go_on = (is_unknown and may_repeat) or error.code == "overloaded" or (error.status == 429 and is_write)
            if not may_go_on or error.code == "not-configured" or attempt == self._retries:
                raise error
            time.sleep(min(_PAUSE_MAX, max(error.retry_after or 0, pause * (0.5 + random.random()))))
            pause = min(_PAUSE_MAX, 2 * pause)
        raise AssertionError("unreachable")

    def _write(self, method, path, body, idempotency_key):
        return self.request(method, path, body=body, idempotency_key=idempotency_key, is_write=True)

    # Counters.

    def increment(self, id: str, delta: int = 1, *, idempotency_key: Optional[str] = None, **change: Any) -> dict:
        """Adds to a counter. change: unique, sample, by and the other fields of the call."""
        return self._write("POST", f"/counters/{_part(id)}/increment", {"delta": delta, **change}, idempotency_key)

    def decrement(self, id: str, delta: int = 1, *, idempotency_key: Optional[str] = None, **change: Any) -> dict:
        """Takes from a counter."""
        return self._write("POST", f"/counters/{_part(id)}/decrement", {"delta": delta, **change}, idempotency_key)

    def get(self, id: str, **query: Any) -> dict:
        """Reads a counter: get("a", consistency="strong")."""
        return self.request("GET", f"/counters/{_part(id)}", query=query)

    def set(self, id: str, value: int, *, idempotency_key: Optional[str] = None) -> dict:
        """Sets the value."""
        return self._write("PUT", f"/counters/{_part(id)}/value", {"value": value}, idempotency_key)

    def delete(self, id: str, *, idempotency_key: Optional[str] = None) -> dict:
        """Ends a counter."""
        return self._write("DELETE", f"/counters/{_part(id)}", None, idempotency_key)

    def history(self, id: str, **query: Any) -> dict:
        """What was counted when."""
        return self.request("GET", f"/counters/{_part(id)}/history", query=query)

    def breakdown(self, id: str, by: str, **query: Any) -> dict:
        """What was counted of each value of a dimension."""
        return self.request("GET", f"/counters/{_part(id)}/breakdown", query={"by": by, **query})

    def top(self, **query: Any) -> dict:
        """Which counters have most."""
        return self.request("GET", "/top", query=query)

    def aggregate(self, prefix: str, **query: Any) -> dict:
        """The sum of all counters whose ids begin with prefix."""
        return self.request("GET", f"/counters/{_part(prefix)}*/aggregate", query=query)

    def counters(self, prefix: str = "", **query: Any) -> Iterator[dict]:
        """All counters whose ids begin with prefix, page by page."""
        cursor: Optional[str] = None
        while True:
            page = self.request("GET", "/counters", query={"prefix": prefix, **query, "cursor": cursor})
            yield from page["counters"]
            cursor = page.get("cursor")
            if not cursor:
                return

    # Many at once.

    def count(self, id: str, increment: int = 1, **event: Any) -> None:
        """Adds to a counter soon, with others in one body. Call flush() before the program ends."""
        with self._lock:
            self._events.append({"key": id, "increment": increment, **event})
            is_full = len(self._events) >= self._batch_events
        if is_full:
            self.flush()

    def flush(self) -> None:
        """Sends what count() has collected, and returns once it is counted. What could not be sent is sent by the next call, under the same key."""
        with self._lock:
            if self._events:
                self._unsent.append((str(uuid.uuid4()), self._events))
                self._events = []
            bodies, self._unsent = self._unsent, []
        while bodies:
            key, events = bodies[0]
            try:
                self.events(events, idempotency_key=key)
            except BaseException:
                with self._lock:
                    self._unsent = bodies + self._unsent
                raise
            bodies.pop(0)

    def events(self, events: Iterable[Union[dict, Mapping[str, Any]]], *, idempotency_key: Optional[str] = None) -> dict:
        """Counts many events in one body."""
        body = "\n".join(json.dumps(event) for event in events)
        return self._write("POST", "/events", body, idempotency_key)

    # Limits.

    def limit(self, policy: str, key: str, **check: Any) -> dict:
        """Asks a limit, and consumes. A refusal is an answer: "allowed" is False. It is sent once: a repeat would consume again.

        check: cost, and the fields of a policy where none is stored (limit, window_seconds, ...).
        """
        path = f"/limits/{_part(policy)}/{_part(key)}"
        status, headers, content = self._answer("POST", path, None, check, None, False, (429,))
        said = json.loads(content)
        if status != 429:
            return said
        if said.get("allowed") is not False:
            raise _refusal(status, headers, content)
        left = _fields(headers.get("ratelimit", ""))
        quota = _fields(headers.get("ratelimit-policy", ""))
        return {
            "allowed": False,
            "policy": policy,
            "limit": quota.get("q", check.get("limit", 0)),
            "remaining": left.get("r", 0),
            "reset_ms": 1000 * left.get("t", 0),
            "retry_after_ms": int(1000 * float(headers.get("retry-after", 0))),
        }

    def refund(self, policy: str, key: str, cost: int = 1) -> dict:
        """Gives back what a check consumed."""
        return self.request("POST", f"/limits/{_part(policy)}/{_part(key)}/refund", body={"cost": cost})

    # Changes.

    def watch(self, *ids: str) -> Iterator[dict]:
        """Yields counters at each change, {"likes": {"value": 3, ...}}. A counter that does not exist is None. Ends when it is closed."""
        url = f"{self.url}/live?{urllib.parse.urlencode({'id': ids}, doseq=True)}"
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            # The server sends a ping every 15 s.
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=45) as stream:
                for line in stream:
                    if line.startswith(b"data:"):
                        update = json.loads(line[5:])
                        if update["type"] == "update":
                            yield update["counters"]
        except urllib.error.HTTPError as refused:
            raise _refusal(refused.code, refused.headers, refused.read()) from None


def _fields(header: str) -> dict:
    pairs = [part.strip().split("=", 1) for part in header.split(";")[1:]]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _refusal(status: int, headers: Any, content: bytes) -> TallyError:
    try:
        problem = json.loads(content)
    except ValueError:
        problem = None
    problem = problem if isinstance(problem, dict) else None
    try:
        retry_after: Optional[float] = float(headers.get("retry-after", ""))
    except ValueError:
        retry_after = None
    code = (problem or {}).get("code", "unknown")
    detail = (problem or {}).get("detail") or f"{status} {content[:200].decode(errors='replace')}".strip()
    return TallyError(status, code, detail, problem, retry_after)

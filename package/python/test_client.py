"""Tests of the client that need no server: python3 test_client.py."""

import email.utils
import json
import logging
import os
import sys
import threading
import time
import unittest
import unittest.mock
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import edgetally as client  # noqa: E402
from edgetally import Tally, TallyError, client_address, client_key  # noqa: E402

FIXTURES = Path(__file__).parents[2] / "tests/fixtures"
DIALOGUES = json.loads((FIXTURES / "clients.json").read_text("utf-8"))
REPORT = {"status": 200, "body": {"accepted": 1, "rejected": 0, "errors": []}}


class Answering:
    """A server that gives these answers, one after the other, the last one for ever. asked are the requests."""

    def __init__(self, answers, other=""):
        self.answers, self.asked, self.end_of_hanging = list(answers), [], threading.Event()
        self.arrivals = threading.Semaphore(0)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                outer.asked.append((self.path, self.headers, body.decode()))
                outer.arrivals.release()
                answer = outer.answers[min(len(outer.asked), len(outer.answers)) - 1]
                self.close_connection = True
                if answer == "hang":
                    outer.end_of_hanging.wait(30)
                elif answer == "drip":
                    self.send_response(200)
                    self.send_header("content-length", "1000")
                    self.end_headers()
                    try:
                        while not outer.end_of_hanging.wait(0.02):
                            self.wfile.write(b" ")
                    except OSError:
                        pass
                elif answer == "cut":
                    self.send_response(200)
                    self.send_header("content-length", "100")
                    self.end_headers()
                    self.wfile.write(b'{"value":')
                elif answer != "lost":
                    content = answer.get("text", json.dumps(answer.get("body"))).encode()
                    self.send_response(answer["status"])
                    size = len(content) + (10 if answer.get("cut") else 0)
                    for name, value in {**answer.get("headers", {}), "content-length": str(size)}.items():
                        self.send_header(name, other if value == "<other>" else value)
                    self.end_headers()
                    self.wfile.write(content)

            do_POST = do_PUT = do_DELETE = do_GET

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end_of_hanging.set()
        self.server.shutdown()
        self.server.server_close()

    def is_asked(self, times):
        return all(self.arrivals.acquire(timeout=60) for _ in range(times))

    def keys(self):
        return len({headers.get("idempotency-key") for _, headers, _ in self.asked})

    def lines(self):
        return [[json.loads(line) for line in body.split("\n")] for _, _, body in self.asked]

    def sent(self):
        return [[event["id"] for event in lines] for lines in self.lines()]


def text_of(value):
    return value["repeat"][0] * value["repeat"][1] if isinstance(value, dict) and "repeat" in value else value


class Dialogues(unittest.TestCase):
    """What tests/fixtures/clients.json has, as package/test/dialogues.test.mjs."""

    def test_an_id_that_is_not_valid_is_refused_by_the_name_of_its_argument(self):
        with Answering([{"status": 200, "body": {}}]) as server:
            tally = Tally(server.url)
            ids = DIALOGUES["ids"]
            bad_ids = [text_of(bad) for bad in ids["bad"]]
            for case in ids["calls"]:
                for bad in bad_ids:
                    with self.subTest(call=case["call"], bad=bad), self.assertRaises(TallyError) as refused:
                        getattr(tally, case["call"])(*(bad if one == "<id>" else one for one in case["arguments"]))
                    self.assertEqual(refused.exception.code, "invalid-id")
                    self.assertTrue(str(refused.exception).startswith(f"`{case['names']}` "))
            for bad in bad_ids:
                for call in (tally.count, lambda bad: next(tally.watch("a", bad))):
                    with self.assertRaises(TallyError) as refused:
                        call(bad)
                    self.assertEqual(refused.exception.code, "invalid-id")
            for call, bad in [(lambda bad: tally.top(prefix=bad), "\ud800"), *[(tally.aggregate, bad) for bad in bad_ids if bad not in ("", ".", "..")]]:
                with self.assertRaises(TallyError) as refused:
                    call(bad)
                self.assertEqual((refused.exception.code, str(refused.exception)[:9]), ("invalid-id", "`prefix` "))
            for path in ("", "healthz", "@example.com/", ".example.com/", "//example.com/"):
                with self.assertRaises(TallyError) as refused:
                    tally.request("GET", path)
                self.assertEqual(refused.exception.code, "invalid-path")
            self.assertEqual(server.asked, [])
            for good in ids["good"]:
                tally.get(good)
                self.assertEqual(urllib.parse.unquote(server.asked[-1][0][len("/counters/") :]), good)
        for url in ("file:///etc/passwd", "ftp://example.com", "example.com", "https://", "https://a?b", "https://a#b"):
            with self.assertRaises(ValueError):
                Tally(url)

    def test_an_idempotency_key_that_is_none_is_refused_by_its_name(self):
        with Answering([{"status": 200, "body": {"accepted": 1}}]) as server:
            tally = Tally(server.url)
            for bad in map(text_of, DIALOGUES["idempotency_keys"]["bad"]):
                for call in (lambda: tally.increment("a", idempotency_key=bad), lambda: tally.events([], idempotency_key=bad), lambda: tally.reserve("p", "k", idempotency_key=bad)):
                    with self.subTest(bad=bad), self.assertRaises(TallyError) as refused:
                        call()
                    self.assertEqual((refused.exception.code, str(refused.exception)[:18]), ("invalid-idempotency-key", "`idempotency_key` "))
            self.assertEqual(server.asked, [])
            for good in map(text_of, DIALOGUES["idempotency_keys"]["good"]):
                tally.increment("a", idempotency_key=good)
                self.assertEqual(server.asked[-1][1]["idempotency-key"], good)

    def test_an_option_that_is_none_is_refused_by_its_name(self):
        url = "http://127.0.0.1:1"
        for name in ("retries", "timeout", "check_timeout", "batch_events", "flush_timeout", "queue_events"):
            for value in (float("nan"), -1, "5", True, {}, None):
                with self.subTest(name=name, value=value), self.assertRaisesRegex(ValueError, f"^{name} is "):
                    Tally(url, **{name: value})
        for url in (None, 7, b"http://127.0.0.1", "", "/tally", "http://a b", "localhost:8787"):
            with self.subTest(url=url), self.assertRaisesRegex(ValueError, "^url is "):
                Tally(url)
        with self.assertRaisesRegex(ValueError, "^key is "):
            Tally("http://127.0.0.1:1", 7)

    def test_an_address_with_a_user_name_or_a_password_is_refused_and_the_error_does_not_quote_it(self):
        for url in DIALOGUES["urls"]["secret"]:
            with self.subTest(url), self.assertRaisesRegex(ValueError, "^url has a user name or a password: (?!.*secret)"):
                Tally(url)
        for url in DIALOGUES["urls"]["good"]:
            Tally(url)

    def test_a_refusal_says_when_to_ask_again_in_seconds_or_by_a_time_and_never_before_now(self):
        def said(text):
            with Answering([{"status": 429, "headers": {"retry-after": text}, "body": {}}]) as server, self.assertRaises(TallyError) as refused:
                Tally(server.url).get("a")
            return refused.exception.retry_after

        for text, ms in DIALOGUES["retry_after"]:
            with self.subTest(text):
                self.assertEqual(said(text), None if ms is None else ms / 1000)
        late = time.time() + 90
        for text in (email.utils.formatdate(late, usegmt=True), time.asctime(time.gmtime(late))):
            with self.subTest(text):
                self.assertTrue(80 < said(text) <= 90)

    def test_calls(self):
        for case in DIALOGUES["calls"]:
            name, *given = case["call"]
            seconds = {} if "check_ms" not in case else {"check_timeout": case["check_ms"] / 1000}
            with self.subTest(case["name"], call=name), Answering([{"status": 200, "body": {"value": 7, "allowed": True}}]) as other:
                with Answering(case["answers"], f"{other.url}/elsewhere") as server:
                    tally = Tally(server.url, "secret", **seconds)
                    if "error" in case:
                        with self.assertRaises(TallyError) as refused:
                            getattr(tally, name)(*given)
                        told = {"status": refused.exception.status, "code": refused.exception.code}
                        self.assertEqual(told, case["error"])
                    else:
                        self.assertEqual(getattr(tally, name)(*given), case["result"])
                    self.assertEqual(len(server.asked), case["requests"])
                    self.assertTrue(all(headers["authorization"] == "Bearer secret" for _, headers, _ in server.asked))
                    self.assertEqual(other.asked, [], "the key leaves its origin")
                    if "keys" in case:
                        self.assertEqual(server.keys(), case["keys"])

    def test_several_boards_are_read_by_one_call(self):
        with Answering([{"status": 200, "body": {"entries": []}}]) as server:
            tally = Tally(server.url)
            self.assertEqual(tally.boards_top(["eu", "us"], limit=3), {"entries": []})
            with self.assertRaises(TallyError) as refused:
                tally.boards_top(["eu,us"])
            self.assertEqual(refused.exception.code, "invalid-id")
            self.assertEqual([path for path, _, _ in server.asked], ["/top?boards=eu%2Cus&limit=3"])
            tally.boards_top(name for name in ("eu", "us"))
            self.assertEqual(server.asked[-1][0], "/top?boards=eu%2Cus")

    def test_what_is_no_list_is_refused_by_its_name_before_anything_is_sent(self):
        with Answering([{"status": 200, "body": {}}]) as server:
            tally = Tally(server.url)
            for call, name in ((tally.boards_top, "boards"), (tally.events, "events")):
                for wrong in ("fb", b"fb", {"id": "f"}, None, 7):
                    with self.subTest(name=name, wrong=wrong), self.assertRaisesRegex(TypeError, f"^{name} is a "):
                        call(wrong)
            for bad in map(text_of, DIALOGUES["ids"]["bad"]):
                with self.subTest(bad=bad), self.assertRaises(TallyError) as refused:
                    tally.boards_top(["f", bad])
                self.assertEqual((refused.exception.code, str(refused.exception)[:9]), ("invalid-id", "`boards` "))
            self.assertEqual(server.asked, [])

    def test_what_an_error_of_limit_says_of_on_error(self):
        for case in DIALOGUES["away"]:
            with self.subTest(case["name"]), Answering(case["answers"]) as server:
                tally = Tally(server.url)
                for _ in case["answers"][1:]:
                    tally.limit("p", "k", **case["check"])
                with self.assertRaises(TallyError) as refused:
                    tally.limit("p", "k", **case["check"])
                self.assertEqual(refused.exception.on_error, case["on_error"])

    def test_flush(self):
        for case in DIALOGUES["flush"]:
            for tells in (False, True):
                with self.subTest(case["name"], tells=tells), Answering(case["answers"]) as server:
                    self.flush(case, server, [] if tells else None)

    def flush(self, case, server, told):
        tally = Tally(
            server.url,
            None if case.get("isKeyless") else "secret",
            batch_wait=600,
            flush_timeout=case.get("flush_ms", 60_000) / 1000,
            on_error=None if told is None else told.append,
        )
        for id in case["events"]:
            tally.count(id)
        raised = []
        try:
            tally.flush()
        except TallyError as error:
            raised.append(error)
        self.assertFalse(told is not None and raised)
        said = raised if told is None else told
        self.assertEqual([[one["event"]["id"], one["code"]] for error in said for one in error.events], case.get("refused", []))
        self.assertEqual([error.code for error in said if not error.events], [case["late"]] if "late" in case else [])
        self.assertEqual((server.sent(), server.keys()), (case["sent"], case["keys"]))
        self.assertTrue(all(("idempotency_key" in event) == case.get("isKeyless", False) for lines in server.lines() for event in lines))
        if "then" in case:
            server.answers[:] = case["then"]["answers"]
            tally.flush()
            self.assertEqual((server.sent(), server.keys()), (case["then"]["sent"], case["then"]["keys"]))
        before = len(server.asked)
        tally.flush()
        self.assertEqual(len(server.asked), before)

    def test_events_are_sent_by_themselves_after_a_time_and_again_after_a_failure(self):
        busy = {"status": 503, "body": {"code": "overloaded", "detail": "busy"}, "headers": {"retry-after": "600"}}
        told = []
        with Answering([busy, REPORT]) as server, unittest.mock.patch.object(client, "_UNASKED_PAUSE", 0.01):
            tally = Tally(server.url, "k", batch_wait=0.01, flush_timeout=5, on_error=told.append)
            tally.count("a")
            self.assertTrue(server.is_asked(2))
            with tally._sending:
                self.assertEqual((tally._count, [error.code for error in told], tally._timer), (0, ["overloaded"], None))
            self.assertEqual((server.sent(), server.keys()), ([["a"], ["a"]], 1))

    def test_events_that_flush_could_not_send_are_sent_again_by_themselves(self):
        busy = {"status": 503, "body": {"code": "overloaded", "detail": "busy"}, "headers": {"retry-after": "600"}}
        with Answering([busy, REPORT]) as server, unittest.mock.patch.object(client, "_UNASKED_PAUSE", 0.01):
            tally = Tally(server.url, "k", batch_wait=float("inf"), flush_timeout=5)
            tally.count("a")
            with self.assertRaises(TallyError):
                tally.flush()
            self.assertTrue(server.is_asked(2))
            with tally._sending:
                self.assertEqual(tally._count, 0)

    @unittest.skipUnless(hasattr(os, "fork"), "there are no forks here")
    def test_after_a_fork_waiting_events_are_the_parents_and_bodies_have_keys_of_their_own(self):
        with Answering([REPORT]) as server:
            tally = Tally(server.url, batch_wait=600)
            tally.count("parent")
            # Another thread sends at that moment.
            with tally._sending, tally._lock:
                child = os.fork()
                if child == 0:
                    status = 1
                    try:
                        tally.count("child")
                        tally.flush()
                        status = 0
                    finally:
                        os._exit(status)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            tally.flush()
            self.assertEqual((server.sent(), server.keys()), ([["child"], ["parent"]], 2))
            events = [event["idempotency_key"] for lines in server.lines() for event in lines]
            self.assertEqual(len(set(events)), 2)

    def test_events_that_nobody_takes_are_bounded_and_further_ones_are_told(self):
        told = []
        tally = Tally("http://127.0.0.1:1", "k", retries=0, queue_events=3, flush_timeout=0.001, on_error=told.append)
        for id in "abcde":
            tally.count(id)
        self.assertEqual([(error.code, error.events[0]["event"]["id"]) for error in told], [("queue-full", "d"), ("queue-full", "e")])
        tally.flush()
        self.assertEqual((len(told), told[2].code, str(told[2]).startswith("3 events wait")), (3, "no-answer", True))

    def test_a_function_of_the_callers_that_raises_harms_nothing(self):
        def theirs(_):
            raise RuntimeError("theirs")

        case = next(case for case in DIALOGUES["flush"] if "refused" in case)
        logging.getLogger("tally").disabled = True
        with Answering(case["answers"]) as server:
            tally = Tally(server.url, "k", on_error=theirs)
            for id in ("a", "b", "c", None):
                tally.count(id)
            tally.flush()
            self.assertEqual(len(server.asked), 1)
        logging.getLogger("tally").disabled = False

    def test_json_that_is_nested_too_deeply_is_no_answer_and_no_event(self):
        deep = "[" * 200_000
        for status, code in ((200, "not-tally"), (404, "unknown")):
            with Answering([{"status": status, "text": deep}]) as server, self.assertRaises(TallyError) as refused:
                Tally(server.url).get("a")
            self.assertEqual(refused.exception.code, code)
        nested, told = [], []
        for _ in range(100_000):
            nested = [nested]
        Tally("http://127.0.0.1:1", on_error=told.append).count("a", by=nested)
        self.assertEqual([error.code for error in told], ["invalid-body"])

    def test_a_call_by_get_that_counts_is_not_repeated_and_others_are(self):
        with Answering(["lost"]) as server:
            tally = Tally(server.url, retries=1)
            for path, asked in (("/hit/a", 1), ("/pixel/a.gif", 2), ("/counters/a", 4)):
                with self.assertRaises(TallyError) as refused:
                    tally.request("GET", path)
                self.assertEqual((refused.exception.code, len(server.asked)), ("no-answer", asked))

    def test_a_list_is_read_page_by_page(self):
        pages = [{"entries": [{"id": "a"}], "cursor": "a&b"}, {"entries": [], "cursor": "c"}, {"entries": [{"id": "d"}], "cursor": None}]
        with Answering([{"status": 200, "body": page} for page in pages]) as server:
            self.assertEqual([one["id"] for one in Tally(server.url).counters("x/")], ["a", "d"])
            queries = [urllib.parse.parse_qs(urllib.parse.urlsplit(path).query) for path, _, _ in server.asked]
            self.assertEqual(queries, [{"prefix": ["x/"], **cursor} for cursor in ({}, {"cursor": ["a&b"]}, {"cursor": ["c"]})])

    def test_what_is_no_page_of_a_list_ends_it_by_an_error(self):
        for body in DIALOGUES["no_pages"]:
            with self.subTest(body), Answering([{"status": 200, "body": body}]) as server:
                with self.assertRaises(TallyError) as refused:
                    list(Tally(server.url).counters("x/"))
                self.assertEqual(refused.exception.code, "not-tally")

    def test_watch_raises_nothing_raw_and_a_function_of_the_callers_does_not_end_it(self):
        cut = {"status": 503, "headers": {"retry-after": "0"}, "cut": True, "body": {}}
        update = {"status": 200, "text": 'data: {"type":"update","counters":{"a":{"value":3}}}\n\n'}
        texts = ["data: null\n\n", "data: 7\n\n", 'data: {"type":"update","counters":null}\n\n', 'data: {"type":"update","counters":[1]}\n\n', "data: \ud83c\n\n"]
        broken = [{"status": 200, "text": text.encode(errors="replace").decode()} for text in texts]
        self.addCleanup(setattr, client, "_WATCH_PAUSE_MIN", client._WATCH_PAUSE_MIN)
        self.addCleanup(setattr, client, "_WATCH_PAUSE_MAX", client._WATCH_PAUSE_MAX)
        client._WATCH_PAUSE_MIN = client._WATCH_PAUSE_MAX = 0.001
        # Nobody waits for so long.
        late = {"status": 503, "headers": {"retry-after": "999999999"}, "body": {}}

        def theirs(error):
            told.append(error.status)
            raise RuntimeError("theirs")

        logging.getLogger("tally").disabled = True
        told = []
        with Answering([cut, *broken, late, update]) as server:
            self.assertEqual(next(Tally(server.url).watch("a", on_error=theirs)), {"a": {"value": 3}})
            self.assertEqual((told[0], told[-1], len(told)), (503, 503, 7))
        logging.getLogger("tally").disabled = False

    def test_watch_follows_no_redirect_and_is_opened_again_after_what_passes(self):
        redirect = {"status": 307, "headers": {"location": "<other>"}, "body": {}}
        update = {"status": 200, "text": 'id: 7\ndata: {"type":"update","counters":{"a":{"value":3}}}\n\n'}
        broken = {"status": 200, "text": "data: {\n\ndata: []\n\n"}
        self.addCleanup(setattr, client, "_WATCH_PAUSE_MIN", client._WATCH_PAUSE_MIN)
        client._WATCH_PAUSE_MIN = 0.001
        with Answering([{"status": 200, "text": ""}]) as other:
            with Answering(["lost", update, broken, "cut", {"status": 503, "body": {}}, redirect], other.url) as server:
                told, seen = [], []
                with self.assertRaises(TallyError) as refused:
                    for counters in Tally(server.url, "secret").watch("a", on_error=told.append):
                        seen.append(counters)
                self.assertEqual((refused.exception.code, refused.exception.status), ("redirected", 307))
                self.assertEqual(seen, [{"a": {"value": 3}}])
                self.assertEqual([error.status for error in told], [0, 0, 0, 0, 503])
                self.assertEqual((len(server.asked), server.asked[2][1]["last-event-id"]), (6, "7"))
                self.assertEqual(other.asked, [])


class Keys(unittest.TestCase):
    def test_a_key_that_no_header_can_carry_is_an_error_that_does_not_quote_it(self):
        secret = "adaba5433c816c87"
        for key in (f"{secret}\nThis is the key", f"{secret} {secret}", f"{secret}\u00fc"):
            with self.assertRaises(ValueError) as refused:
                Tally("https://tally.example.com", key=key)
            self.assertEqual((str(refused.exception)[:4], secret in str(refused.exception)), ("key ", False))
        Tally("https://tally.example.com", key=f"{secret}\n")


class Addresses(unittest.TestCase):
    def test_every_spelling_of_an_address_has_one_address_and_one_key(self):
        for case in json.loads((FIXTURES / "addresses.json").read_text("utf-8")):
            text = case["input"]
            self.assertEqual([client_address(text), client_key(text)], [case["address"], case["key"]], repr(text))
        for value in (None, 7, {}, [], b"203.0.113.9", "\ud800"):
            self.assertIsNone(client_key(value))

    def test_an_ipv6_key_has_as_many_bits_as_its_prefix_says(self):
        address = "2001:db8:1234:5678:9abc:def0:1234:5678"
        for prefix, key in ((32, "2001:db8::"), (48, "2001:db8:1234::"), (56, "2001:db8:1234:5600::"), (127, address), (128, address)):
            self.assertEqual(client_key(address, ipv6_prefix=prefix), key)
        self.assertEqual(client_key("203.0.113.9", ipv6_prefix=32), "203.0.113.9")
        for prefix in (0, 129, 64.0, "64", None, True):
            with self.assertRaisesRegex(ValueError, "^ipv6_prefix is "):
                client_key(address, ipv6_prefix=prefix)


if __name__ == "__main__":
    unittest.main()

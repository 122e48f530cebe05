"""Tests of the client against a server: python3 test_tally.py <address> <address of a gate that loses the first answers>."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from edgetally import Tally, TallyError  # noqa: E402

ADDRESS, GATE = sys.argv.pop(), None
ADDRESS, GATE = sys.argv.pop(), ADDRESS


class Client(unittest.TestCase):
    def setUp(self):
        self.tally = Tally(ADDRESS)

    def test_a_write_whose_answers_are_lost_counts_once(self):
        self.assertEqual(Tally(GATE).increment("python/lost")["value"], 1)

    def test_counters(self):
        self.tally.increment("python/a b", 3, by={"country": "DE"})
        self.tally.decrement("python/a b")
        self.assertEqual(self.tally.get("python/a b", consistency="strong")["value"], 2)
        self.assertEqual(self.tally.breakdown("python/a b", "country", consistency="strong")["rows"][0]["count"], 3)
        self.tally.set("python/b", 9)
        self.tally.delete("python/b")
        with self.assertRaises(TallyError) as refused:
            self.tally.get("python/b", consistency="strong")
        self.assertEqual((refused.exception.status, refused.exception.code), (404, "counter-not-found"))

    def test_a_counter_that_a_write_creates_may_expire(self):
        self.tally.increment("python/visit", 2, ttl_seconds=3600, ttl_mode="sliding")
        self.tally.increment("python/visit", ttl_seconds=60)
        self.assertEqual(self.tally.get("python/visit", consistency="strong")["value"], 3)
        settings = self.tally.set("python/visit", 0)["settings"]
        self.assertEqual((settings["ttl_seconds"], settings["ttl_mode"]), (3600, "sliding"))
        with self.assertRaises(TallyError) as refused:
            self.tally.increment("python/visit", ttl_mode="sliding")
        self.assertEqual((refused.exception.status, refused.exception.code), (400, "invalid-body"))

    def test_reads_lists_and_settings(self):
        self.tally.increment("python-named/a", 2)
        self.tally.set("python-named/b", 7)
        self.assertEqual(self.tally.aggregate("python-named/", consistency="strong")["value"], 9)
        self.assertIn("points", self.tally.history("python-named/a", step="1h", **{"from": 0, "to": 3600}))
        self.tally.delete("python-named/b")
        with self.assertRaises(TallyError) as refused:
            self.tally.increment("a", -1)
        self.assertEqual((refused.exception.status, refused.exception.code), (400, "invalid-delta"))

    def test_nothing_answers(self):
        with self.assertRaises(TallyError) as refused:
            Tally("http://127.0.0.1:1", retries=0).get("a")
        self.assertEqual((refused.exception.status, refused.exception.code), (0, "no-answer"))

    def test_batches(self):
        for index in range(2_500):
            self.tally.count(f"python-batch/{index % 3}", unique=str(index))
        self.tally.flush()
        self.assertEqual(self.tally.aggregate("python-batch/", consistency="strong")["value"], 2_500)

    def test_limits(self):
        policy = {"limit": 1, "window_seconds": 60}
        self.assertTrue(self.tally.limit("python", "bob", **policy)["allowed"])
        refused = self.tally.limit("python", "bob", **policy)
        with self.assertRaises(TallyError) as unknown:
            self.tally.limit("no-such-policy", "bob")
        self.assertEqual((unknown.exception.status, unknown.exception.code), (404, "policy-not-found"))
        self.assertEqual((refused["allowed"], refused["limit"], refused["remaining"]), (False, 1, 0))

    def test_watch(self):
        self.tally.increment("python/seen", 4)
        changes = self.tally.watch("python/seen")
        self.assertEqual(next(changes)["python/seen"]["value"], 4)
        changes.close()


unittest.main(argv=sys.argv)

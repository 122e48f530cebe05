"""Tests of the client that need no server: python3 test_client.py."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from tally import client_address, client_key  # noqa: E402

FIXTURES = Path(__file__).parents[2] / "tests/fixtures"


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
        for prefix in (0, 129, 64.0, "64", None, True):
            with self.assertRaisesRegex(ValueError, "^ipv6_prefix is "):
                client_key(address, ipv6_prefix=prefix)


if __name__ == "__main__":
    unittest.main()

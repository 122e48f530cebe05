import sys

from edgetally import Tally

tally = Tally(sys.argv[1])
value = tally.increment("installs", by={"country": "DE"})["value"]
for index in range(1_000):
    tally.count("taps", unique=f"user {index}")
tally.flush()
print(value, tally.get("taps", consistency="strong")["value"], tally.limit("signup", "bob", limit=100, window_seconds=60)["remaining"])

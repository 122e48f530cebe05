// Which of some amounts make a sum.

const STEPS_MAX = 100_000;

const sizeOf = (amount) => (amount < 0n ? -amount : amount);

/**
 * Returns the first ways to make a sum of some items, two at most: {ways, isCertain}. items: with `amount`, a bigint.
 * isCertain: whether the search was complete.
 */
export function waysOf(sum, items) {
  const sorted = items.toSorted((one, other) => (sizeOf(one.amount) < sizeOf(other.amount) ? 1 : -1));
  // What the items from each place on add at least and at most.
  const [least, most] = [[0n], [0n]];
  for (const { amount } of sorted.toReversed()) {
    least.unshift(least[0] + (amount < 0n ? amount : 0n));
    most.unshift(most[0] + (amount > 0n ? amount : 0n));
  }
  const ways = [];
  let steps = 0;
  // Places still to look at, with what is left then and what was taken: the last first.
  const waiting = [{ place: 0, left: sum, taken: undefined }];
  while (waiting.length > 0 && ways.length < 2) {
    const { place, left, taken } = waiting.pop();
    steps += 1;
    if (steps > STEPS_MAX) return { ways, isCertain: false };
    if (left < least[place] || left > most[place]) continue;
    if (place === sorted.length) {
      ways.push(chain(taken));
      continue;
    }
    const item = sorted[place];
    waiting.push({ place: place + 1, left, taken });
    waiting.push({ place: place + 1, left: left - item.amount, taken: { item, before: taken } });
  }
  return { ways, isCertain: true };
}

function chain(taken) {
  const items = new Set();
  for (let one = taken; one !== undefined; one = one.before) items.add(one.item);
  return items;
}

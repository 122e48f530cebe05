// The address of a client, in one spelling.
//
// Invariant: all spellings of an address have one key, and so have all addresses of an IPv6 network, because one client
// can take any address of its network. Rust, Python and JavaScript agree: tests/fixtures/addresses.json.

export interface ClientKeyOptions {
  /** How many bits of an IPv6 address tell clients apart (64): 1 to 128. */
  ipv6Prefix?: number;
}

const PREFIX_BITS = 64;
const GROUP_BITS = 16;
const OCTET = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const IPV4 = new RegExp(`^${OCTET}(?:\\.${OCTET}){3}$`);
const IPV4_PORT = /^([\d.]+):\d{1,5}$/;
const IPV6 = /^[\da-f:.]*:[\da-f:.]*$/i;
const BRACKETS = /^\[([^\]]*)\](?::\d{1,5})?$/;
// IPv4 within IPv6: mapped (RFC 4291, 2.5.5.2) and translated (RFC 6052, 2.1).
const WITHIN = ["0:0:0:0:0:ffff", "64:ff9b:0:0:0:0"];

/** Returns the URL parser's spelling of an IPv6 address, which is that of RFC 5952; undefined for another text. */
function canonical(text: string): string | undefined {
  if (!IPV6.test(text)) return undefined;
  try {
    return new URL(`http://[${text}]`).hostname.slice(1, -1);
  } catch {
    return undefined;
  }
}

/** Returns the eight groups of a canonical IPv6 address. */
function groupsOf(address: string): number[] {
  const [head = "", tail] = address.split("::");
  const numbers = (text: string) => (text === "" ? [] : text.split(":").map((group) => parseInt(group, 16)));
  const [before, after] = [numbers(head), numbers(tail ?? "")];
  return [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after];
}

const hexadecimal = (groups: number[]) => groups.map((group) => group.toString(16)).join(":");

// The address of a text, as IPv4 text or as the groups of IPv6.
function parse(value: unknown): string | number[] | undefined {
  if (typeof value !== "string") return undefined;
  const first = (value.split(",", 1)[0] ?? "").trim();
  const bracketed = BRACKETS.exec(first)?.[1];
  if (bracketed === undefined) {
    const ipv4 = IPV4_PORT.exec(first)?.[1] ?? first;
    if (IPV4.test(ipv4)) return ipv4;
  }
  const address = canonical((bracketed ?? first).split("%", 1)[0] ?? "");
  if (address === undefined) return undefined;
  const groups = groupsOf(address);
  if (!WITHIN.includes(hexadecimal(groups.slice(0, 6)))) return groups;
  return groups.slice(6).flatMap((group) => [group >> 8, group & 255]).join(".");
}

/**
 * Returns an address in its one spelling, without port, brackets and zone: of a list, such as `X-Forwarded-For`, its
 * first. IPv4 within IPv6 is IPv4. Returns `undefined` for what is no address.
 */
export function clientAddress(value: unknown): string | undefined {
  const address = parse(value);
  return typeof address === "object" ? canonical(hexadecimal(address)) : address;
}

/**
 * Returns the key under which a client's quota is counted: an IPv4 address, or the network of an IPv6 address, such as
 * `2001:db8:1:2::`. Returns `undefined` for what is no address.
 */
export function clientKey(value: unknown, { ipv6Prefix = PREFIX_BITS }: ClientKeyOptions = {}): string | undefined {
  if (!Number.isInteger(ipv6Prefix) || ipv6Prefix < 1 || ipv6Prefix > 128) {
    throw new RangeError(`\`ipv6Prefix\` is ${String(ipv6Prefix)}: send a whole number from 1 to 128`);
  }
  const address = parse(value);
  if (typeof address !== "object") return address;
  const network = address.map((group, index) => {
    const free = Math.min(GROUP_BITS, Math.max(0, (index + 1) * GROUP_BITS - ipv6Prefix));
    return (group >> free) << free;
  });
  return canonical(hexadecimal(network));
}

/** IPv4 addresses and subnets as numbers. */

function numberOf(address: string): number {
  return address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
}

/** The first address and how many there are. */
export type Span = Readonly<{ first: number; size: number }>;

/** Of `100.100.0.7/16` as of `100.100.0.0/16`. */
export function spanOf(subnet: string): Span {
  const [address = '', length = '32'] = subnet.split('/');
  const size = 2 ** (32 - Number(length));
  return { first: Math.floor(numberOf(address) / size) * size, size };
}

export function doMeet(a: Span, b: Span): boolean {
  return a.first < b.first + b.size && b.first < a.first + a.size;
}

/** Of two subnets that overlap one holds the other. An address is a subnet of one. */
export function overlaps(a: string, b: string): boolean {
  return doMeet(spanOf(a), spanOf(b));
}

/** The first address of a subnet: its host's own. */
export function firstOf(subnet: string): string {
  const [base = ''] = subnet.split('/');
  return base.replace(/\d+$/, (last) => String(Number(last) + 1));
}

/** A locally administered MAC address that every host derives alike from another's address. */
export function macOf(address: string): string {
  const bytes = address.split('.').map((part) => Number(part).toString(16).padStart(2, '0'));
  return ['0a', 'f1', ...bytes].join(':');
}

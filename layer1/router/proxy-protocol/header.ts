/**
 * The header by which a proxy says whom a connection is from, in both its forms (the PROXY protocol, versions 1 and 2, of
 * HAProxy's doc/proxy-protocol.txt). Pure. Reading is strict: what is not exactly a header is none.
 */
import { SocketAddress, isIPv4, isIPv6 } from 'node:net';

export type Ends = Readonly<{
  source: { address: string; port: number };
  destination: { address: string; port: number };
}>;

/** `length`: of the header, after which the connection's own bytes follow. Without `ends` the proxy speaks for itself. */
export type ProxyHeader = Readonly<{ length: number; ends: Ends | undefined }>;

const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const textStart = Buffer.from('PROXY ', 'latin1');
/** With its line end. */
const maxTextLength = 107;
const headLength = 16;
/** Addresses and what may come with them: nobody sends as much. */
const maxBodyLength = 4_096;
const addressLengths = { 4: 4, 6: 16 } as const;

/** `more`: it goes on. `none`: this is no header. `bytes`: everything that came so far. */
export function readProxyHeader(bytes: Buffer): ProxyHeader | 'more' | 'none' {
  if (isBegunBy(bytes, signature)) return bytes.length < headLength ? 'more' : readBinary(bytes);
  return isBegunBy(bytes, textStart) ? readText(bytes) : 'none';
}

/** As far as there are bytes. */
function isBegunBy(bytes: Buffer, start: Buffer): boolean {
  const length = Math.min(bytes.length, start.length);
  return bytes.subarray(0, length).equals(start.subarray(0, length));
}

function readText(bytes: Buffer): ProxyHeader | 'more' | 'none' {
  const lineEnd = bytes.subarray(0, maxTextLength).indexOf('\r\n');
  if (lineEnd === -1) return bytes.length >= maxTextLength ? 'none' : 'more';
  const length = lineEnd + 2;
  const line = bytes.toString('latin1', 0, lineEnd);
  // What follows is for people, and ignored.
  if (/^PROXY UNKNOWN(?: .*)?$/.test(line)) return { length, ends: undefined };
  const found = /^PROXY TCP([46]) (\S+) (\S+) (0|[1-9]\d{0,4}) (0|[1-9]\d{0,4})$/.exec(line);
  if (found === null) return 'none';
  const [, family, from = '', to = '', fromPort, toPort] = found;
  const isAddress = family === '4' ? isIPv4 : isStrictIPv6;
  const [source, destination] = [
    { address: from, port: Number(fromPort) },
    { address: to, port: Number(toPort) },
  ] as const;
  const isSound = [source, destination].every(({ address, port }) => isAddress(address) && port <= 65_535);
  return isSound ? { length, ends: { source: plain(source), destination: plain(destination) } } : 'none';
}

function readBinary(bytes: Buffer): ProxyHeader | 'more' | 'none' {
  const [versionAndCommand = 0, family = 0] = bytes.subarray(12, 14);
  const bodyLength = bytes.readUInt16BE(14);
  const command = versionAndCommand & 15;
  if (versionAndCommand >> 4 !== 2 || command > 1 || bodyLength > maxBodyLength) return 'none';
  const length = headLength + bodyLength;
  const addresses = { 0x11: 4, 0x21: 6 } as const;
  const version = family === 0x11 || family === 0x21 ? addresses[family] : undefined;
  // LOCAL is the proxy itself, asking whether we are well; of other families we are told nothing that could be used.
  if (command === 0 || version === undefined) return bytes.length < length ? 'more' : { length, ends: undefined };
  const size = addressLengths[version];
  if (bodyLength < 2 * size + 4) return 'none';
  if (bytes.length < length) return 'more';
  const at = (start: number) => addressOf(bytes.subarray(start, start + size));
  const ports = headLength + 2 * size;
  return {
    length,
    ends: {
      source: plain({ address: at(headLength), port: bytes.readUInt16BE(ports) }),
      destination: plain({ address: at(headLength + size), port: bytes.readUInt16BE(ports + 2) }),
    },
  };
}

/** Zones are names of the proxy's own interfaces. */
function isStrictIPv6(text: string): boolean {
  return isIPv6(text) && !text.includes('%');
}

function addressOf(bytes: Buffer): string {
  if (bytes.length === 4) return bytes.join('.');
  const groups = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(2 * index).toString(16));
  return groups.join(':');
}

/** In its shortest form; an IPv4 address within IPv6 as what it is. */
function plain({ address, port }: Ends['source']): Ends['source'] {
  if (isIPv4(address)) return { address, port };
  const short = new SocketAddress({ address, family: 'ipv6' }).address;
  return { address: short.replace(/^::ffff:(?=\d+\.)/, ''), port };
}

/** Of two families the IPv4 one is told as IPv6. */
export function proxyHeader(version: 'v1' | 'v2', { source, destination }: Ends): Buffer {
  const family = isIPv4(source.address) && isIPv4(destination.address) ? 4 : 6;
  const [from, to] = [source, destination].map(({ address }) =>
    family === 6 && isIPv4(address) ? `::ffff:${address}` : address,
  );
  if (version === 'v1') {
    return Buffer.from(`PROXY TCP${family} ${from} ${to} ${source.port} ${destination.port}\r\n`, 'latin1');
  }
  const ports = Buffer.alloc(4);
  ports.writeUInt16BE(source.port, 0);
  ports.writeUInt16BE(destination.port, 2);
  const body = Buffer.concat([...[from, to].map((address = '') => bytesOf(address)), ports]);
  const head = Buffer.from([0x21, family === 4 ? 0x11 : 0x21, body.length >> 8, body.length & 255]);
  return Buffer.concat([signature, head, body]);
}

function bytesOf(address: string): Buffer {
  if (isIPv4(address)) return Buffer.from(address.split('.').map(Number));
  const [, v4] = /:(\d+\.\d+\.\d+\.\d+)$/.exec(address) ?? [];
  const [head = '', tail] = (v4 === undefined ? address : address.replace(v4, hexOf(v4))).split('::');
  const groups = (text: string | undefined) => (text === undefined || text === '' ? [] : text.split(':'));
  const [first, last] = [groups(head), groups(tail)];
  const all = [...first, ...Array.from({ length: 8 - first.length - last.length }, () => '0'), ...last];
  return Buffer.from(all.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255]));
}

function hexOf(v4: string): string {
  const [a = 0, b = 0, c = 0, d = 0] = v4.split('.').map(Number);
  return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
}

/** Who listens on which port of this machine? Read from /proc/net, which names sockets, and /proc/PID/fd, which owns them. */
import { readFile, readdir, readlink } from 'node:fs/promises';

export type Listener = Readonly<{ protocol: 'tcp' | 'udp'; address: string; port: number; inode: string }>;

const tcpListen = '0A';

/** The text of /proc/net/{tcp,tcp6,udp,udp6}; an unspecified IPv6 address also takes IPv4. */
export function parseListeners(text: string, protocol: 'tcp' | 'udp'): Listener[] {
  return text
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const fields = line.trim().split(/\s+/);
      const [, local = '', , state, , , , , , inode = ''] = fields;
      const [hexAddress = '', hexPort = ''] = local.split(':');
      if (hexPort === '' || (protocol === 'tcp' && state !== tcpListen)) return [];
      return [{ protocol, address: addressOf(hexAddress), port: Number.parseInt(hexPort, 16), inode }];
    });
}

function addressOf(hex: string): string {
  if (/^0+$/.test(hex)) return '*';
  // IPv4, also mapped into IPv6, in the order of bytes of the machine: little-endian on all that run Linux containers.
  const isMapped = hex.length === 32 && hex.startsWith('0000000000000000FFFF0000');
  if (hex.length !== 8 && !isMapped) return `[${hex}]`;
  return (hex.slice(-8).match(/../g) ?? [])
    .toReversed()
    .map((byte) => Number.parseInt(byte, 16))
    .join('.');
}

export async function readListeners(): Promise<Listener[]> {
  const files = [
    ['tcp', 'tcp'],
    ['tcp6', 'tcp'],
    ['udp', 'udp'],
    ['udp6', 'udp'],
  ] as const;
  const lists = await Promise.all(
    files.map(async ([file, protocol]) => parseListeners(await readIfThere(`/proc/net/${file}`), protocol)),
  );
  return lists.flat();
}

/** "nginx (pid 812)", or undefined if the process cannot be told. */
export async function ownerOf(listener: Listener): Promise<string | undefined> {
  const wanted = `socket:[${listener.inode}]`;
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const folder = `/proc/${pid}/fd`;
    const names = await unlessGone(() => readdir(folder), []);
    for (const name of names) {
      const target = await unlessGone(() => readlink(`${folder}/${name}`), '');
      if (target === wanted) return `${(await readIfThere(`/proc/${pid}/comm`)).trim()} (pid ${pid})`;
    }
  }
  return undefined;
}

function readIfThere(file: string): Promise<string> {
  return unlessGone(() => readFile(file, 'utf8'), '');
}

/** Processes end while one looks, and kernels without IPv6 lack its tables. */
async function unlessGone<T>(look: () => Promise<T>, none: T): Promise<T> {
  try {
    return await look();
  } catch {
    return none;
  }
}

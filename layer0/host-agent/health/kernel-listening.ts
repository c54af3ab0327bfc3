/** Where does a container listen? From the kernel's own files. */
import { closeSync, openSync, readFileSync, readSync, readdirSync, readlinkSync } from 'node:fs';
import { hasErrno } from '@flynn/kit/errors';

const listening = '0A';
const chunkBytes = 65_536;

/**
 * In the host's network a check's answer does not tell whose it is: with SO_REUSEPORT several listen at one port, as a router
 * does and the one that takes its place. `pid` is of the container's first process. False when that ended; true where the
 * kernel does not tell what belongs to the container. `proc` is another folder in tests only.
 */
export function listensItself(container: { id: string; pid: number }, port: number, proc = '/proc'): boolean {
  const groups = text(`${proc}/${container.pid}/cgroup`);
  if (groups === undefined) return false;
  if (!groups.includes(container.id)) return true;
  const sockets = socketsAt(port, `${proc}/${container.pid}/net`);
  if (sockets.size === 0) return false;
  const own = readdirSync(proc).filter(
    (pid) => /^\d+$/.test(pid) && text(`${proc}/${pid}/cgroup`)?.includes(container.id) === true,
  );
  try {
    return own.some((pid) => hasAny(`${proc}/${pid}/fd`, sockets));
  } catch (error) {
    // Root is not root everywhere: within a container's own users, say.
    if (hasErrno(error, 'EACCES', 'EPERM')) return true;
    throw error;
  }
}

/** Of Docker's own resolver in each container. */
const resolver = '0B00007F';
const anyAddress = /^0+$/;
const loopback = /^(?:[0-9A-F]{6}7F|0{24}01000000|0{16}FFFF0000[0-9A-F]{6}7F)$/;

/**
 * Why nobody reaches a container at that port, where the kernel tells: it listens for itself only, or at ports that nobody asked
 * for. `pid` is of the first process of a container that has a network of its own; `known` are the ports it is to listen at.
 * Undefined where there is nothing to tell.
 */
export function listensElsewhere(
  pid: number,
  port: number,
  known: readonly number[],
  proc = '/proc',
): string | undefined {
  const all = [...listenersIn(`${proc}/${pid}/net`)].filter(({ address }) => address !== resolver);
  const here = all.filter((one) => one.port === port);
  if (here.some(({ address }) => !loopback.test(address))) return undefined;
  if (here.length > 0) {
    return `it listens on port ${port} of localhost only, where nobody else reaches it: have it listen on 0.0.0.0, as many servers do with HOST=0.0.0.0 in their environment`;
  }
  const strange = all.filter((one) => anyAddress.test(one.address) && !known.includes(one.port));
  const others = [...new Set(strange.map((one) => one.port))];
  if (others.length === 0) return undefined;
  const said = port === known[0] ? ', which PORT says in its environment' : '';
  return `it listens on port ${others.toSorted((a, b) => a - b).join(', ')}: have it listen on ${port}${said}`;
}

/** As links in /proc name them: `socket:[12345]`. */
function socketsAt(port: number, folder: string): Set<string> {
  const sockets = new Set<string>();
  for (const one of listenersIn(folder)) if (one.port === port) sockets.add(`socket:[${one.inode}]`);
  return sockets;
}

/** Addresses as the kernel writes them: four bytes each, the last of them first. */
function* listenersIn(folder: string): Generator<{ address: string; port: number; inode: string }> {
  for (const version of ['tcp', 'tcp6']) {
    for (const line of linesOf(`${folder}/${version}`)) {
      const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/);
      // Connections come after all that listens, and there may be a hundred thousand.
      if (state !== listening) break;
      const [address = '', port = ''] = local.split(':');
      yield { address, port: Number.parseInt(port, 16), inode };
    }
  }
}

/** Without the heading; read in pieces, so that who has enough stops. */
function* linesOf(path: string): Generator<string> {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch (error) {
    // No such version of IP in this kernel, or the process ended.
    if (hasErrno(error, 'ENOENT', 'ESRCH')) return;
    throw error;
  }
  try {
    const chunk = Buffer.alloc(chunkBytes);
    let rest = '';
    let isHeading = true;
    for (;;) {
      const length = readSync(file, chunk);
      if (length === 0) return;
      const lines = (rest + chunk.toString('latin1', 0, length)).split('\n');
      rest = lines.pop() ?? '';
      if (isHeading) lines.shift();
      isHeading = false;
      yield* lines;
    }
  } finally {
    closeSync(file);
  }
}

function hasAny(folder: string, sockets: ReadonlySet<string>): boolean {
  try {
    return readdirSync(folder).some((name) => sockets.has(linkOf(`${folder}/${name}`)));
  } catch (error) {
    if (hasErrno(error, 'ENOENT', 'ESRCH')) return false;
    throw error;
  }
}

/** Empty for a file that was closed meanwhile. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch (error) {
    if (hasErrno(error, 'ENOENT', 'ESRCH')) return '';
    throw error;
  }
}

function text(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (hasErrno(error, 'ENOENT', 'ESRCH')) return undefined;
    throw error;
  }
}

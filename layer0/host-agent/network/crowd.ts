/**
 * The kernel keeps one table of connections for the whole host: full, it lets no new ones begin, whosever they are. So who has
 * begun most of them begins no more until there is room. `ct count` of nftables is no help: it walks through all that are
 * counted at each new connection, and forgets them whenever rules are replaced.
 */
import { readFile } from 'node:fs/promises';
import { pause } from '@flynn/kit/clock';
import { FlynnError, hasErrno, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { Run } from './program.ts';

export type TableUse = Readonly<{ used: number; limit: number }>;
/** `isTrusted`: a part of the platform's. What a router begins is what others ask of it, and without it nobody is answered. */
export type Opener = Readonly<{ address: string; isTrusted: boolean }>;
/** `isHeld`: it begins no more for the moment. */
export type Holder = Readonly<{ address: string; count: number; isHeld: boolean }>;

/** From here on it is looked who has them, of the table in percent. */
const crowdedPercent = 80;
/** Of the table: more than this one container does not need, and the others do. */
const largeShare = 0.5;
const lookEveryMs = 5_000;
/** Adding up a large table takes the better part of a second. */
const restMs = 15_000;

const folder = '/proc/sys/net/netfilter';
/** Of each connection the address that began it comes first. Some kernels have no such file. */
const addUp =
  '{ for (i = 1; i <= NF; i++) if (substr($i, 1, 4) == "src=") { n[substr($i, 5)]++; break } } ' +
  'END { for (one in n) printf "%s %d\\n", one, n[one] }';
const script = `if [ -r /proc/net/nf_conntrack ]; then nice -n 19 awk '${addUp}' /proc/net/nf_conntrack; fi`;

/** Of these addresses those that have begun any, the most first. */
export function holdersOf(counts: string, containers: readonly Opener[], { limit }: TableUse): Holder[] {
  const known = new Map(containers.map((one) => [one.address, one]));
  return counts
    .split('\n')
    .flatMap((line): Holder[] => {
      const [address = '', count = ''] = line.split(' ');
      const container = known.get(address);
      if (container === undefined) return [];
      const isHeld = !container.isTrusted && Number(count) > limit * largeShare;
      return [{ address, count: Number(count), isHeld }];
    })
    .toSorted((a, b) => b.count - a.count);
}

export class Crowd {
  readonly #options: CrowdOptions;
  #holders: readonly Holder[] = [];

  constructor(options: CrowdOptions) {
    this.#options = options;
  }

  /** Nobody while there is room. */
  get holders(): readonly Holder[] {
    return this.#holders;
  }

  /** Containers' addresses. */
  get held(): string[] {
    return this.#holders.filter(({ isHeld }) => isHeld).map(({ address }) => address);
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const step = async (limited: AbortSignal): Promise<void> => {
      const isCrowded = await this.look(limited);
      await pause(isCrowded ? restMs : lookEveryMs, limited);
    };
    await forever('looking who has the connections', step, { signal, log: this.#options.log });
  }

  /** Whether it is crowded. */
  async look(signal: AbortSignal): Promise<boolean> {
    const { read = readTable, containers, run, onChange } = this.#options;
    const before = this.held;
    const table = await read();
    const isCrowded = table !== undefined && table.used >= (table.limit * crowdedPercent) / 100;
    this.#holders = isCrowded
      ? holdersOf(await run({ program: 'sh', args: ['-c', script] }, signal), containers(), table)
      : [];
    if (JSON.stringify(before) === JSON.stringify(this.held)) return isCrowded;
    this.#tell(before);
    onChange();
    return isCrowded;
  }

  #tell(before: readonly string[]): void {
    const { log } = this.#options;
    for (const { address, count } of this.#holders.filter(({ isHeld }) => isHeld)) {
      if (before.includes(address)) continue;
      log.warn({ address, connections: count }, "a container has most of the host's connections: it begins no more");
    }
    for (const address of before.filter((one) => !this.held.includes(one))) {
      log.info({ address }, 'a container may begin connections again');
    }
  }
}

export type CrowdOptions = Readonly<{
  /** Those that run. */
  containers: () => readonly Opener[];
  /** Undefined where the kernel tracks none. */
  read?: () => Promise<TableUse | undefined>;
  run: Run;
  /** Others are held. */
  onChange: () => void;
  log: Logger;
}>;

async function readTable(): Promise<TableUse | undefined> {
  try {
    const [used, limit] = await Promise.all(
      ['nf_conntrack_count', 'nf_conntrack_max'].map((name) => readFile(`${folder}/${name}`, 'utf8')),
    );
    return { used: Number(used), limit: Number(limit) };
  } catch (error) {
    if (hasErrno(error, 'ENOENT', 'EOPNOTSUPP')) return undefined;
    throw new FlynnError('internal', `the table of connections cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

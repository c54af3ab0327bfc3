/**
 * Which ports of the bridge did containers leave that ended without their engine? The kernel keeps a network whose processes ended
 * for as long as a connection of it waits for an answer: up to two minutes. It answers at its address all that time, and with the
 * MAC address that the engine makes of it, when both are another container's: what is for that one is refused by this one.
 *
 * A port that is taken away in error takes an app off the network, and one that is left costs two minutes. So it is one only if
 * its network has no name, no process, and no thread either, and if each container that runs has another.
 */
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import type { Command, Run } from './program.ts';

const linkSchema = z.object({
  ifindex: z.int(),
  ifname: z.string().default(''),
  master: z.string().optional(),
  /** Where its other end is, if that is known, and which it is there. */
  link_netnsid: z.int().optional(),
  link_index: z.int().optional(),
});

const separator = '---';
/** Ports come first: one whose container is made meanwhile is not among them. A network with a name may have no process yet. */
const question: Command = {
  program: 'sh',
  args: [
    '-c',
    `ip -j link show type veth && echo '${separator}' && ip netns list-id && echo '${separator}' && lsns -t net -n -o NPROCS,NS,NETNSID`,
  ],
};
/**
 * lsns goes by the first thread of each process, which may have ended long before the others. Of each network that has a thread,
 * but for those given, which links are in it: they name their other ends.
 */
const threads = `printf '%s\\n' /proc/[0-9]*/task/[0-9]*/ns/net | xargs stat -L -c '%i %n' 2>/dev/null | sort -u -k1,1 |
while read -r network file; do
  printf '%s ' "$network"
  case " $* " in
    *" $network "*) echo ;;
    *) nsenter --net="$file" ip -j link show type veth && echo || echo unknown ;;
  esac
done`;
/** One that went by itself meanwhile is no failure. */
const removal = 'for port; do ip link del "$port" || ! ip link show "$port" >/dev/null 2>&1 || exit 1; done';

export type Port = Readonly<{ name: string; index: number }>;
/** `without`: whose network seems to have no process. `networks`: those that are known to have the others, by their numbers. */
export type Look = Readonly<{ ports: readonly Port[]; without: readonly Port[]; networks: readonly string[] }>;

/** Those of the bridge that were left, which are there no more. `running`: how many containers have a port, as the engine says. */
export async function removeLeftPorts(
  { bridge, running, run }: { bridge: string; running: () => number; run: Run },
  signal: AbortSignal,
): Promise<string[]> {
  // Before the look: who starts meanwhile is in neither.
  const least = running();
  const { ports, without, networks } = lookOf(await run(question, signal), bridge);
  if (without.length === 0) return [];
  const said = await run({ program: 'sh', args: ['-c', threads, 'sh', ...networks] }, signal);
  const left = withoutThreads(without, said).map(({ name }) => name);
  if (left.length === 0) return [];
  if (ports.length - left.length < least) {
    const why = `${least} containers run, and of ${ports.length} ports ${left.length} seem to be nobody's`;
    throw new FlynnError('unavailable', `it is not certain whose ports of ${bridge} are whose: ${why}`);
  }
  await run({ program: 'sh', args: ['-c', removal, 'sh', ...left] }, signal);
  return left;
}

/**
 * Of what the question is answered with; `unavailable` while it is not known which networks have processes: all would seem to be
 * left. A port whose other end is in this network is being made, or is no container's.
 */
export function lookOf(said: string, bridge: string): Look {
  const [links = '', named = '', found = ''] = said.split(`${separator}\n`);
  const inUse = new Set([...named.matchAll(/^nsid (\d+) .*name/gm)].map(([, id]) => id));
  const networks: string[] = [];
  const rows = found.split('\n').slice(0, -1);
  for (const row of rows) {
    const [, processes, network, id] = /^\s*(\d+)\s+(\d+)(?:\s+(\d+|unassigned))?\s*$/.exec(row) ?? [];
    if (network === undefined) throw new FlynnError('unavailable', `lsns tells "${row}" of a network`);
    // It is held by a file alone; or the process that it was asked of ended in the midst of the look.
    if (processes === '0' || id === undefined) continue;
    inUse.add(id);
    networks.push(network);
  }
  // The agent's own is always among them.
  if (networks.length === 0) throw new FlynnError('unavailable', 'lsns does not tell which networks have processes');
  const ofBridge = linksOf(links).filter(({ master, link_netnsid: id = -1 }) => master === bridge && id >= 0);
  const portsOf = (some: typeof ofBridge) => some.map(({ ifname: name, ifindex: index }) => ({ name, index }));
  const without = ofBridge.filter(({ link_netnsid: id }) => !inUse.has(String(id)));
  return { ports: portsOf(ofBridge), without: portsOf(without), networks };
}

/** Those whose other end is in no network that has a thread. */
export function withoutThreads(ports: readonly Port[], said: string): Port[] {
  const rows = said.split('\n').filter((row) => row.trim() !== '');
  if (rows.length === 0) throw new FlynnError('unavailable', 'it cannot be read which networks threads are in');
  if (rows.some((row) => row.endsWith('unknown'))) {
    throw new FlynnError('unavailable', 'a network cannot be looked into: its thread has just ended, perhaps');
  }
  const ends = new Set(rows.flatMap((row) => linksOf(row.replace(/^\d+/, '')).map(({ link_index: index }) => index)));
  return ports.filter(({ index }) => !ends.has(index));
}

/** Without any, ip says nothing. */
function linksOf(text: string): z.output<typeof linkSchema>[] {
  return text.trim() === '' ? [] : z.array(linkSchema).parse(JSON.parse(text));
}

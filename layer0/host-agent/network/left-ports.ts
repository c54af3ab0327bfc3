/**
 * Which ports of the bridge did containers leave that ended without their engine? The kernel keeps a network whose processes ended
 * for as long as a connection of it waits for an answer: up to two minutes. It answers at its address all that time, and with the
 * MAC address that the engine makes of it, when both are another container's: what is for that one is refused by this one.
 */
import { FlynnError } from '@flynn/kit/errors';
import { retry } from '@flynn/kit/retry';
import { z } from 'zod';
import type { Command, Run } from './program.ts';

const linkSchema = z.object({
  ifname: z.string().default(''),
  master: z.string().optional(),
  link_netnsid: z.int().optional(),
});

const separator = '---';
const lookMs = 5_000;
/** Ports come first: one whose container is made meanwhile is not among them. A network with a name may have no process yet. */
const question: Command = {
  program: 'sh',
  args: [
    '-c',
    `ip -j link show type veth && echo '${separator}' && ip netns list-id && echo '${separator}' && lsns -t net -n -o NETNSID`,
  ],
};
/** One that went by itself meanwhile is no failure. */
const removal = 'for port; do ip link del "$port" || ! ip link show "$port" >/dev/null 2>&1 || exit 1; done';

/** Those of the bridge that were left, which are there no more. */
export async function removeLeftPorts(bridge: string, run: Run, signal: AbortSignal): Promise<string[]> {
  const left = await retry(async () => leftPorts(await run(question, signal), bridge), {
    what: 'what is on the bridge',
    signal,
    deadlineMs: lookMs,
  });
  if (left.length > 0) await run({ program: 'sh', args: ['-c', removal, 'sh', ...left] }, signal);
  return left;
}

/**
 * Of what the question is answered with; `unavailable` while it is not known which networks have processes: all would seem to be
 * left. A port whose other end is in this network is being made, or is no container's.
 */
export function leftPorts(said: string, bridge: string): string[] {
  const [links = '', named = '', used = ''] = said.split(`${separator}\n`);
  const inUse = new Set([...named.matchAll(/^nsid (\d+) .*name/gm)].map(([, id]) => id));
  const rows = used.split('\n').slice(0, -1);
  // The agent's own is always among them.
  if (rows.length === 0) throw new FlynnError('unavailable', 'lsns does not tell which networks have processes');
  for (const row of rows) {
    const id = row.trim();
    // Of a process that ended in the midst of the look it has none.
    if (!/^(\d+|unassigned)$/.test(id)) throw new FlynnError('unavailable', `lsns calls a network "${id}"`);
    inUse.add(id);
  }
  return (links.trim() === '' ? [] : z.array(linkSchema).parse(JSON.parse(links)))
    .filter(({ master, link_netnsid: id }) => master === bridge && id !== undefined && !inUse.has(String(id)))
    .map(({ ifname }) => ifname);
}

/** Takes all of a cluster's network out of a machine again. What is not there is fine. */
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import { overlaps } from './addresses.ts';
import { iptablesRemoval, parseTables } from './iptables.ts';
import type { Command, Run } from './program.ts';
import { runProgram } from './program.ts';
import { tableName } from './ruleset.ts';
import { defaultRange, defaultVxlanId, routeProtocol, tunnelDevice } from './state.ts';
import { wireguardPrefix } from './wireguard.ts';

export type RemovalOptions = Readonly<{
  cluster: string;
  /** Routes of other clusters stay. The agent's defaults unless given. */
  range?: string;
  vxlanId?: number;
  run?: Run;
  signal?: AbortSignal;
}>;

const deadlineMs = 30_000;

/** Answers what was removed, for people. Its bridge is the container engine's, and goes with its network. */
export async function removeNetwork(options: RemovalOptions): Promise<string[]> {
  const { cluster, range = defaultRange, vxlanId = defaultVxlanId, run = runProgram } = options;
  const { signal = AbortSignal.timeout(deadlineMs) } = options;
  const removed: string[] = [];
  const attempt = async (what: string, command: Command): Promise<void> => {
    await run(command, signal);
    removed.push(what);
  };
  for (const { subnet } of await ourRoutes(range, { run, signal })) {
    const args = ['route', 'del', subnet, 'proto', String(routeProtocol)];
    await attempt(`the route to ${subnet}`, { program: 'ip', args });
  }
  const device = tunnelDevice(vxlanId);
  if (await isThere({ program: 'ip', args: ['link', 'show', device] }, run, signal)) {
    await attempt(`the tunnel ${device}`, { program: 'ip', args: ['link', 'del', device] });
  }
  for (const name of await wireguardDevices(vxlanId, run, signal)) {
    // A wireguard-go behind it ends with it.
    await attempt(`the WireGuard device ${name}`, { program: 'ip', args: ['link', 'del', name] });
  }
  for (const family of ['ip', 'bridge']) {
    const table = [family, tableName(cluster)];
    if (!(await isThere({ program: 'nft', args: ['list', 'table', ...table] }, run, signal))) continue;
    await attempt(`the ${family} rules`, { program: 'nft', args: ['delete', 'table', ...table] });
  }
  const saved = await run(
    { program: 'sh', args: ['-c', 'command -v iptables-save >/dev/null && iptables-save; true'] },
    signal,
  );
  for (const input of iptablesRemoval(parseTables(saved), cluster)) {
    const args = ['--wait', '5', '--noflush'];
    await attempt("rules in the engine's tables", { program: 'iptables-restore', args, input });
  }
  return [...new Set(removed)];
}

/** Those of agents, of any cluster. `subnet` as in 100.100.1.0/24. */
export async function ourRoutes(
  range: string,
  { run = runProgram, signal }: { run?: Run; signal: AbortSignal },
): Promise<{ subnet: string; device: string }[]> {
  const script = `command -v ip >/dev/null && ip -j route show proto ${routeProtocol}; true`;
  const listed = await run({ program: 'sh', args: ['-c', script] }, signal);
  const routes = z
    .array(z.object({ dst: z.string(), dev: z.string().default('') }))
    .parse(JSON.parse(listed.trim() || '[]'));
  return routes.map(({ dst, dev }) => ({ subnet: dst, device: dev })).filter(({ subnet }) => overlaps(range, subnet));
}

async function wireguardDevices(vxlanId: number, run: Run, signal: AbortSignal): Promise<string[]> {
  const listed = await run(
    { program: 'sh', args: ['-c', 'command -v ip >/dev/null && ip -j link show; true'] },
    signal,
  );
  const links = z.array(z.object({ ifname: z.string() })).parse(JSON.parse(listed.trim() || '[]'));
  return links.map(({ ifname }) => ifname).filter((name) => name.startsWith(wireguardPrefix(vxlanId)));
}

/** Without the program there is nothing that it could have made. */
async function isThere(command: Command, run: Run, signal: AbortSignal): Promise<boolean> {
  try {
    await run(command, signal);
    return true;
  } catch (error) {
    if (error instanceof FlynnError && (error.code === 'internal' || error.code === 'not_found')) return false;
    throw error;
  }
}

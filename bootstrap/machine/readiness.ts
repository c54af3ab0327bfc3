/** Is this machine through with its boot? What is not there yet right after one comes by itself: it is waited for, not judged. */
import { readFile } from 'node:fs/promises';
import { hasAddress, ownAddresses } from '@flynn/host-agent/hosts/own-addresses';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { isEngineUp, isSystemdRunning } from './engine.ts';
import { notBefore } from './facts.ts';
import { tryProgram } from './program.ts';
import type { Options } from '../settings.ts';
import type { Report } from '../steps/timed.ts';

/** After this long nothing that is missing is only late. */
const bootMs = 300_000;
const waitMs = 120_000;

export type Boot = Readonly<{
  uptimeMs: number;
  /** `starting`: the machine's own boot has it in hand. */
  engine: 'up' | 'starting' | 'none';
  /** By which others may reach it. */
  hasAddress: boolean;
  /** False while it says a time at which these files were not written yet. */
  isClockPlausible: boolean;
}>;

/** What to wait for, for people. */
export function lateParts({ uptimeMs, engine, hasAddress, isClockPlausible }: Boot): string[] {
  if (uptimeMs > bootMs) return [];
  return [
    ...(engine === 'starting' ? ['the container engine'] : []),
    ...(hasAddress ? [] : ['the network']),
    ...(isClockPlausible ? [] : ['the right time']),
  ];
}

/** After two minutes it goes on all the same: what is missing then preflight tells, with its remedy. */
export async function untilBooted(options: Options, report: Report): Promise<void> {
  let told = '';
  const startedMs = performance.now();
  try {
    await waitFor(
      async () => {
        const late = lateParts(await lookAtBoot(options)).join(', ');
        if (late !== told && late !== '') report(`this machine has just booted: waiting for ${late}`);
        told = late;
        return late === '';
      },
      { what: 'the machine', deadlineMs: waitMs, intervalMs: 1_000 },
    );
  } catch (error) {
    if (!hasCode(error, 'timeout')) throw error;
    report(`${told} did not come within ${Math.round((performance.now() - startedMs) / 1_000)} s: going on without`);
  }
}

async function lookAtBoot({ FLYNN_DOCKER_SOCKET: socket, FLYNN_ADDRESS: given }: Options): Promise<Boot> {
  const uptimeMs = Number((await readFile('/proc/uptime', 'utf8')).split(' ')[0]) * 1_000;
  const isUp = await isEngineUp(socket);
  return {
    uptimeMs,
    engine: isUp ? 'up' : (await isEngineStarting()) ? 'starting' : 'none',
    hasAddress: hasAddress() || (given !== undefined && (await ownAddresses()).has(given)),
    isClockPlausible: Date.now() >= (await notBefore()),
  };
}

/** Without systemd nobody starts it but `up` itself. */
async function isEngineStarting(): Promise<boolean> {
  if (!isSystemdRunning()) return false;
  const { stdout } = await tryProgram('systemctl', ['is-active', 'docker'], { timeoutMs: 20_000 });
  return stdout.trim() === 'activating';
}

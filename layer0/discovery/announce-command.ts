/** `flynn-discovery register`: a program that knows nothing of discovery, announced for as long as it runs. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { messageOf } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { pause } from '@flynn/kit/clock';
import type { DiscoveryClient } from './client.ts';
import type { Registration } from './registry.ts';

export type AnnounceOptions = {
  client: DiscoveryClient;
  registration: Registration;
  ttlSeconds: number;
  /** Between taking the announcement back and telling the program to stop, for those that still have its address. */
  drainMs: number;
  command: readonly string[];
  say: (line: string) => void;
  /** Answers the function that ends listening. */
  onSignal: (signal: NodeJS.Signals, listener: () => void) => () => void;
};

/**
 * Answers the program's exit code, 128 and the signal's number if one ended it. It starts whether discovery is there or
 * not. SIGTERM and SIGINT take the announcement back first, then go to the program; a second one goes there at once.
 */
export async function runAnnounced(options: AnnounceOptions): Promise<number> {
  const { client, registration, ttlSeconds, say, command, drainMs } = options;
  const leave = new AbortController();
  const announced = (async () => {
    try {
      const { deregistered } = await client.register(registration, {
        signal: leave.signal,
        ttlSeconds,
        log: silentLogger(),
      });
      await deregistered;
    } catch (error) {
      if (!leave.signal.aborted)
        say(`${registration.service}/${registration.id} is not announced: ${messageOf(error)}`);
    }
  })();
  const [program, ...args] = command;
  if (program === undefined) {
    await firstSignal(options);
    leave.abort();
    await announced;
    return 0;
  }
  const child = spawn(program, args, { stdio: 'inherit' });
  const offs = (['SIGTERM', 'SIGINT'] as const).map((signal) =>
    options.onSignal(signal, () => {
      const isSecond = leave.signal.aborted;
      leave.abort();
      const passOn = async () => {
        if (!isSecond) {
          await announced;
          await pause(drainMs, new AbortController().signal);
        }
        child.kill(signal);
      };
      void passOn();
    }),
  );
  try {
    const [code, killedBy]: [number | null, NodeJS.Signals | null] = await exitOf(child);
    return code ?? 128 + (killedBy === null ? 0 : constants.signals[killedBy]);
  } finally {
    leave.abort();
    await announced;
    for (const off of offs) off();
  }
}

async function exitOf(child: ReturnType<typeof spawn>): Promise<[number | null, NodeJS.Signals | null]> {
  const [code, signal]: unknown[] = await once(child, 'exit');
  const { signalCode } = child;
  return [typeof code === 'number' ? code : null, typeof signal === 'string' ? signalCode : null];
}

function firstSignal({ onSignal }: Pick<AnnounceOptions, 'onSignal'>): Promise<void> {
  return new Promise((resolve) => {
    const offs = (['SIGTERM', 'SIGINT'] as const).map((signal) =>
      onSignal(signal, () => {
        for (const off of offs) off();
        resolve();
      }),
    );
  });
}

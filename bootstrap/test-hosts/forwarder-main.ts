import { systemClock } from '@flynn/kit/clock';
import { runDaemon } from '@flynn/kit/daemon';
import { integer } from '@flynn/kit/config';
import { z } from 'zod';
import { Forwarder } from './forwarder.ts';

const list = z.string().transform((text) => text.split(','));
const config = z.object({
  /** In the order in which they are tried. */
  FLYNN_HOSTS: list.pipe(z.array(z.ipv4()).min(1)),
  /** The same here and there. */
  FLYNN_PORTS: list.pipe(z.array(integer.pipe(z.int().min(1).max(65_535))).min(1)),
});

/** A machine without IPv6 has one of them. */
const loopbacks = ['127.0.0.1', '::1'] as const;

await runDaemon({
  name: 'forwarder',
  config,
  async start({ config: { FLYNN_HOSTS: hosts, FLYNN_PORTS: ports }, tasks }) {
    for (const port of ports) {
      const way = { port, targets: hosts.map((host) => ({ host, port })) };
      for (const address of loopbacks) {
        try {
          const forwarder = await Forwarder.listen({ way, address, now: () => systemClock.now() });
          tasks.signal.addEventListener('abort', () => void forwarder[Symbol.asyncDispose](), { once: true });
        } catch (error) {
          if (address === '127.0.0.1' || !isAbsent(error)) throw error;
        }
      }
    }
  },
});

function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && ['EADDRNOTAVAIL', 'EAFNOSUPPORT'].includes(String(error.code));
}

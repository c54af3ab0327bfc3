/** The key that TLS sessions are resumed with: the same at all routers, and never an old one for long. */
import { randomBytes } from 'node:crypto';
import type { Controller } from '@flynn/resource/controller';
import { defineType } from '@flynn/resource/type';
import type { Compare } from '@flynn/store/store';
import { systemClock } from '@flynn/kit/clock';
import { forever } from '@flynn/kit/tasks';
import { hasCode } from '@flynn/kit/errors';
import { z } from 'zod';
import type { Deps } from '../deps.ts';
import type { ControllerContext } from '../generic/kind.ts';

/** There is one object, called this. */
export const ticketsId = 'tickets';

/** Whoever has it can read sessions of TLS 1.2 that were resumed with it: older ones are forgotten. */
const lifeMs = 12 * 3_600_000;
const lookMs = 600_000;
/** As node:tls takes it. */
const keyBytes = 48;

/** Its name begins as the certificates' does: one watch tells both. */
export const ticketsType = defineType({
  name: 'certificate-tickets',
  version: 1,
  spec: z.object({}),
  status: z.object({
    /** In base64. */
    key: z.string().optional(),
    madeAt: z.string().optional(),
  }),
  initialStatus: () => ({}),
  cascades: false,
});

export function ticketing({ deps, log }: ControllerContext): Controller {
  return {
    name: 'tls tickets',
    placement: 'singleton',
    async run({ signal, epoch }) {
      const step = async (run: AbortSignal) => {
        await renewTickets(deps, { signal: run, ...(epoch === undefined ? {} : { epoch }) });
        await systemClock.sleep(lookMs, { signal: run });
      };
      await forever('renewing the key of TLS tickets', step, { signal, log });
    },
  };
}

/** Makes a key where there is none, or one of old. */
export async function renewTickets(
  { resources, now }: Pick<Deps, 'resources' | 'now'>,
  { signal, epoch }: { signal: AbortSignal; epoch?: Compare },
): Promise<void> {
  const guard = { signal, ...(epoch === undefined ? {} : { also: () => ({ compare: [epoch] }) }) };
  const known = await resources.find(ticketsType, ticketsId, { signal });
  const madeAt = known?.status.madeAt;
  const ageMs = madeAt === undefined ? Infinity : now() - Date.parse(madeAt);
  // Below 0 the clock was ahead: it would be kept until that time.
  if (ageMs >= 0 && ageMs < lifeMs) return;
  try {
    if (known === undefined) await resources.create(ticketsType, { id: ticketsId, spec: {} }, guard);
    const status = { key: randomBytes(keyBytes).toString('base64'), madeAt: new Date(now()).toISOString() };
    await resources.updateStatus(ticketsType, ticketsId, () => status, guard);
  } catch (error) {
    // Another has done it.
    if (!hasCode(error, 'conflict')) throw error;
  }
}

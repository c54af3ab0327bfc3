/** A kind, whole, in one module: what to copy from for a new one. It is registered where it is wanted, by one line. */
import type { Controller } from '@flynn/resource/controller';
import { holds } from '@flynn/resource/access';
import { keysOf, runReconciler } from '@flynn/resource/reconciler';
import type { Again } from '@flynn/resource/reconciler';
import { defineType } from '@flynn/resource/type';
import { z } from 'zod';
import { defineKind } from './kind.ts';
import type { ControllerContext } from './kind.ts';

const finalizer = 'counter';

/** A counter counts to its target, one by one, and back to zero before it goes. */
export const counterType = defineType({
  name: 'counter',
  group: 'demo',
  version: 1,
  spec: z.strictObject({
    name: z.string(),
    target: z.int().min(0).max(1_000),
    /** Stays what it was made with. */
    unit: z.string().default('beans'),
  }),
  status: z.strictObject({ count: z.int() }),
  initialStatus: () => ({ count: 0 }),
  nameField: 'name',
  nameRule: z.string().regex(/^[a-z][a-z0-9-]{0,62}$/, 'a counter is named in lower-case letters, digits and dashes'),
  immutable: ['unit'],
  validate: ({ target }) => (target === 13 ? [{ path: 'target', message: 'thirteen brings bad luck' }] : []),
  authorise: {
    read: (asking, counter) => holds(asking, 'viewer', counter.owner),
    list: (asking) => holds(asking, 'viewer', undefined),
    write: (asking, owner) => holds(asking, 'developer', owner),
  },
});

export const counterKind = defineKind({
  type: counterType,
  summary: 'counts to its target',
  columns: { TARGET: 'spec.target', COUNT: 'status.count' },
  controllers: [counting],
});

function counting({ resources, log }: ControllerContext): Controller {
  return {
    name: 'counting',
    placement: 'singleton',
    async run({ signal }) {
      await using counters = await resources.mirror(counterType, { signal });
      const reconcile = (id: string, context: { signal: AbortSignal }) => count(resources, id, context.signal);
      await runReconciler({ name: 'counting', sources: [keysOf(counters)], log, signal, reconcile });
    },
  };
}

async function count(
  resources: ControllerContext['resources'],
  id: string,
  signal: AbortSignal,
): Promise<void | Again> {
  const counter = await resources.find(counterType, id, { signal });
  if (counter === undefined) return undefined;
  const { spec, status, generation, finalizers, deletingSince } = counter;
  if (deletingSince !== undefined && status.count === 0) {
    await resources.removeFinalizer(counterType, id, finalizer, { signal });
    return undefined;
  }
  if (deletingSince === undefined && !finalizers.includes(finalizer)) {
    await resources.addFinalizer(counterType, id, finalizer, { signal });
    return undefined;
  }
  const wanted = deletingSince === undefined ? spec.target : 0;
  const next = status.count + Math.sign(wanted - status.count);
  const message = `${next} of ${spec.target} ${spec.unit}`;
  const isThere = next === spec.target;
  const report = {
    status: { count: next },
    observedGeneration: generation,
    conditions: [
      { type: 'Counted', status: isThere ? 'True' : 'False', reason: isThere ? 'Done' : 'Counting', message } as const,
    ],
    waitingFor: { [finalizer]: `${next} ${spec.unit} to be counted back` },
  };
  await resources.change(counterType, id, () => report, { expectRevision: counter.revision, signal });
  return next === wanted ? undefined : { againInMs: 1 };
}

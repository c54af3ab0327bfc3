/** The kind Drain: where log lines are sent as well. Without an owner it is of all apps. */
import { refusal } from '@flynn/resource/record';
import { hideSecrets } from '@flynn/log-aggregator/drain-url';
import { z } from 'zod';
import { addDrain, checkDrain } from '../drains/drains.ts';
import type { Deps } from '../deps.ts';
import { drainType } from '../resources.ts';
import type { DrainResource } from '../resources.ts';
import { differences, isEqual } from './difference.ts';
import { atField } from './fields.ts';
import { defineKind } from './kind.ts';
import type { Applied, ApplyContext, Wanted } from './kind.ts';
import { checkOwner } from './plain.ts';

const wantedSchema = z.strictObject({
  /** syslog+tcp://HOST:PORT, syslog+tls://HOST:PORT or https://HOST/PATH. */
  url: z.string(),
  /** Whom to trust behind TLS, as PEM. */
  ca: z.string().optional(),
});
type WantedDrain = Wanted<z.output<typeof wantedSchema>>;

const drainName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'a drain is named in lower-case letters, digits and dashes');

export const drainKind = defineKind({
  type: drainType,
  summary: 'where the log lines of an app, or of all, are sent as well; its address is told without its secrets',
  columns: { APP: 'owner', URL: 'spec.url' },
  wanted: wantedSchema,
  // Without the secrets of its address it is not the same drain elsewhere.
  isExported: false,
  async view(_deps, { spec: { url, ca } }) {
    return { spec: { url: hideSecrets(url), ...(ca === undefined ? {} : { ca }) } };
  },
  async target(deps, wanted, { signal }) {
    return { current: await currentOf(deps, wanted, signal) };
  },
  apply,
});

/** It may go without a name: then it is the one its owner has to that address. */
async function apply(
  deps: Deps,
  { name, owner, labels, spec }: WantedDrain,
  { isDryRun, signal, principal, current }: ApplyContext<DrainResource>,
): Promise<Applied> {
  if (owner !== undefined && owner.type !== 'app') {
    throw refusal('drain', [{ path: 'owner', message: 'it is an app’s, owner: app/NAME, or of all apps without one' }]);
  }
  const shown = { url: urlShown(spec.url), ...(spec.ca === undefined ? {} : { ca: spec.ca }) };
  if (current === undefined) {
    const wrong = name === undefined ? undefined : drainName.safeParse(name).error?.issues[0];
    if (wrong !== undefined) throw refusal(`drain ${name}`, [{ path: 'name', message: wrong.message }]);
    atField('drain', 'url', () => checkDrain(spec));
    if (spec.url.includes('***')) {
      const message = 'this is how it is shown: give the address with its secrets';
      throw refusal('drain', [{ path: 'url', message }]);
    }
    const changes = differences({}, { labels: labels ?? {}, spec: shown });
    if (isDryRun) return { name: name ?? 'new', isNew: true, changes };
    const made = await addDrain(
      deps,
      { ...spec, id: name, appId: owner?.id, labels, isOpen: principal.isAdmin },
      signal,
    );
    return { name: made.id, isNew: true, changes };
  }
  checkOwner(current.id, current, owner);
  if (!isSame(current, spec)) {
    const message = 'a drain keeps its address and whom it trusts: delete it and make another';
    throw refusal(`drain ${current.id}`, [{ path: 'url', message }]);
  }
  const after = labels ?? current.labels;
  const changes = differences({ labels: current.labels }, { labels: after });
  if (!isDryRun && changes.length > 0) {
    await deps.resources.change(drainType, current.id, () => ({ labels: after }), { signal });
  }
  return { name: current.id, isNew: false, changes };
}

async function currentOf(
  { resources }: Deps,
  { name, owner, spec }: WantedDrain,
  signal: AbortSignal,
): Promise<DrainResource | undefined> {
  if (name !== undefined) return resources.find(drainType, name, { signal });
  const [same] = await resources.list(drainType, {
    signal,
    where: (drain) => drain.owner?.id === owner?.id && drain.spec.url === spec.url,
  });
  return same;
}

/** What was got can be put back, though its secrets were not told. */
function isSame({ spec }: DrainResource, { url, ca }: WantedDrain['spec']): boolean {
  return (url === spec.url || url === hideSecrets(spec.url)) && isEqual(ca, spec.ca);
}

function urlShown(url: string): string {
  return URL.canParse(url) ? hideSecrets(url) : url;
}

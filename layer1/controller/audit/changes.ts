/** What does a transaction change, in words fit for an audit trail? Pure. */
import { cellKeys } from '@flynn/scheduler/cell';
import type { Entry, Transaction } from '@flynn/store/store';
import { z } from 'zod';
import { appIdOf } from '../processes/compile.ts';
import { hideSecrets as hideInUrl } from '@flynn/log-aggregator/drain-url';
import { hiddenValue } from '../access/redaction.ts';
import { urlShown } from '../notifications/shown.ts';
import type { AuditChange } from './model.ts';

const resourceRoot = '/flynn/resource/';
const notificationRoot = `${resourceRoot}notification/`;
/** More of one thing than this says less, not more. */
const maxSpecBytes = 8 * 1024;
const maxChanges = 40;
const secretNames = new Set(['hash', 'secret', 'password', 'privateKey', 'clientSecret', 'token']);

const recordSchema = z.looseObject({ spec: z.record(z.string(), z.unknown()).optional() });
type Spec = Record<string, unknown>;

/** The changed key of each change, to find out what was there before. */
export type KeyedChange = Readonly<{ key: string; change: AuditChange; spec: Spec | undefined }>;

/** What people act on. What the cell keeps for its schedulers follows from that, and is not told. */
export function changesOf({ then, compare = [] }: Transaction): KeyedChange[] {
  const isNew = (key: string): boolean =>
    compare.some((one) => one.key === key && 'modRevision' in one && one.modRevision === 0);
  const found = then.flatMap((operation): KeyedChange[] => {
    if ('put' in operation) return changeAt(operation.put, operation.value, isNew(operation.put));
    return 'delete' in operation ? changeAt(operation.delete, undefined, false) : [];
  });
  return found.slice(0, maxChanges);
}

function changeAt(key: string, value: string | undefined, isNew: boolean): KeyedChange[] {
  const named = nameOf(key);
  if (named === undefined) return [];
  const spec = value === undefined ? undefined : specOf(key, value);
  const action = spec === undefined ? ('delete' as const) : isNew ? ('create' as const) : ('update' as const);
  const after = spec === undefined ? {} : { after: hideSecrets(spec) };
  return [{ key, change: { ...named, action, ...after }, spec }];
}

function nameOf(key: string): { type: string; id: string } | undefined {
  if (key.startsWith(resourceRoot)) {
    const [type = '', ...id] = key.slice(resourceRoot.length).split('/');
    return { type, id: id.join('/') };
  }
  if (key.startsWith(cellKeys.settings)) return { type: 'host', id: key.slice(cellKeys.settings.length) };
  if (key.startsWith(cellKeys.workloads)) return { type: 'job', id: key.slice(cellKeys.workloads.length) };
  return undefined;
}

/** Of a resource what is wanted of it; of the cell's keys all of it. */
function specOf(key: string, value: string): Spec {
  const json: unknown = JSON.parse(value);
  if (key.startsWith(cellKeys.workloads)) return {};
  const parsed = recordSchema.safeParse(json);
  if (!parsed.success) return {};
  if (!key.startsWith(resourceRoot)) return parsed.data;
  const { spec = {} } = parsed.data;
  return key.startsWith(notificationRoot) ? withoutPath(spec) : spec;
}

/** All behind the host may be a secret, however short. */
function withoutPath(spec: Spec): Spec {
  const { url } = spec;
  if (typeof url !== 'string' || !URL.canParse(url)) return spec;
  return { ...spec, url: urlShown(url) };
}

/** With what was there before the transaction, and which of the hidden values differ. */
export function withBefore({ key, change, spec }: KeyedChange, entry: Entry | undefined): AuditChange {
  if (entry === undefined) return change.action === 'delete' ? change : { ...change, action: 'create' };
  const before = specOf(key, entry.value);
  if (spec === undefined) return { ...change, before: hideSecrets(before) };
  return { ...change, before: hideSecrets(before), after: hideSecrets(spec, before) };
}

/** Which app it is about, if it is about one. */
export function appIdIn(changes: readonly KeyedChange[]): string | undefined {
  for (const { change, spec } of changes) {
    if (change.type === 'app') return change.id;
    if (typeof spec?.['appId'] === 'string') return spec['appId'];
    if (change.type === 'resource') return firstAppOf(spec);
    if (change.type === 'job') return appIdOf(change.id);
  }
  return undefined;
}

/** A resource may be of several: its first one's admins read of it. */
function firstAppOf(spec: Spec | undefined): string | undefined {
  return z.looseObject({ apps: z.tuple([z.looseObject({ appId: z.string() })], z.unknown()) }).safeParse(spec).data
    ?.apps[0].appId;
}

/** Variables keep their names and lose their values; of one that changed, that is said. */
export function hideSecrets(spec: Spec, before?: Spec): Spec {
  const text = JSON.stringify(spec);
  if (text.length > maxSpecBytes) return { omitted: `${text.length} characters` };
  return hideIn(spec, before);
}

function hideIn(value: Spec, before: unknown): Spec {
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      const former = isSpec(before) ? before[name] : undefined;
      if (secretNames.has(name)) return [name, hiddenValue];
      if (name === 'url' && typeof inner === 'string') return [name, URL.canParse(inner) ? hideInUrl(inner) : inner];
      if ((name === 'env' || name === 'references') && isSpec(inner)) return [name, hideValues(inner, former)];
      return [name, isSpec(inner) ? hideIn(inner, former) : inner];
    }),
  );
}

function hideValues(env: Spec, before: unknown): Spec {
  const isChanged = (name: string) => isSpec(before) && before[name] !== env[name];
  return Object.fromEntries(
    Object.keys(env).map((name) => [name, isChanged(name) ? '[hidden, changed]' : hiddenValue]),
  );
}

function isSpec(value: unknown): value is Spec {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

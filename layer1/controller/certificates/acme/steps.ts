/** One look at a certificate of an authority's: is it due, and if so, what came of asking for it? */
import { FlynnError, asFlynnError, messageOf } from '@flynn/kit/errors';
import type { Again } from '@flynn/resource/reconciler';
import type { Compare } from '@flynn/store/store';
import { valuesOf } from '../../mirrors/cell-view.ts';
import type { Deps } from '../../deps.ts';
import { checkCertificate } from '../check.ts';
import type { Challenge } from '../model.ts';
import { certificateType } from '../resources.ts';
import type { CertificateResource, DnsRecord } from '../resources.ts';
import { untilShown } from './arrival.ts';
import { openAuthority } from './authority.ts';
import type { Authority, Proof } from './authority.ts';
import { cleanUpRecord, presentRecord } from './hook.ts';
import { acmeId, acmeType } from './resources.ts';
import type { AcmeResource, AcmeSpec } from './resources.ts';
import { dueMs, nextTryMs } from './schedule.ts';

/** Timers do not count further, and clocks are set. */
const longestPauseMs = 6 * 3_600_000;

/** Of hooks that never clean up: older ones are forgotten. */
const mostRecords = 200;

type StepDeps = Pick<Deps, 'resources' | 'now' | 'log'> & {
  cell: Pick<Deps['cell'], 'hosts'>;
  settings: Pick<Deps['settings'], 'httpPort' | 'httpsPort'>;
};
type Options = { signal: AbortSignal; epoch?: Compare; open?: typeof openAuthority; random?: () => number };

export async function stepCertificate(deps: StepDeps, id: string, options: Options): Promise<void | Again> {
  const { resources, now } = deps;
  const { signal } = options;
  const certificate = await resources.find(certificateType, id, { signal });
  if (certificate?.spec.source !== 'acme') return undefined;
  const acme = await resources.find(acmeType, acmeId, { signal });
  // Whoever sets an authority has everything looked at.
  if (acme === undefined) return undefined;
  const pauseMs = dueMs(certificate) - now();
  if (pauseMs > 0) return { againInMs: Math.min(pauseMs, longestPauseMs) };
  try {
    const authority = (options.open ?? openAuthority)(acme.spec, acme.status.accountUrl);
    const accountUrl = await authority.register(signal);
    if (accountUrl !== acme.status.accountUrl && !(await keepAccount(deps, acme, accountUrl, options))) {
      return { againInMs: 0 };
    }
    await issue(deps, certificate, acme.spec, authority, options);
  } catch (error) {
    signal.throwIfAborted();
    await fail(deps, certificate, error, options);
  }
  return { againInMs: 0 };
}

/** False: another authority was set meanwhile, at which there is no such account. */
async function keepAccount(
  { resources }: StepDeps,
  { spec }: AcmeResource,
  accountUrl: string,
  options: Options,
): Promise<boolean> {
  const isSame = (now: AcmeSpec) => now.privateKey === spec.privateKey && now.directoryUrl === spec.directoryUrl;
  const written = await resources.updateStatus(
    acmeType,
    acmeId,
    (now) => (isSame(now.spec) ? { accountUrl } : now.status),
    guarded(options),
  );
  return isSame(written.spec);
}

async function issue(
  deps: StepDeps,
  { id, spec, status: { records: left } }: CertificateResource,
  acme: AcmeSpec,
  authority: Authority,
  options: Options,
): Promise<void> {
  const { resources, now, log } = deps;
  const { signal } = options;
  const { domains } = spec;
  // Of a worker that was killed, or whose hook was away.
  await withdraw(deps, { id, acme, records: left }, options);
  const records: DnsRecord[] = [];
  const present = async (proofs: readonly Proof[]): Promise<void> => {
    if (acme.challenge === 'dns-01') {
      records.push(...proofs.map(recordOf));
      await presentRecords(deps, { id, acme, records }, options);
      return;
    }
    const challenges = proofs.map(challengeOf);
    await resources.updateStatus(certificateType, id, ({ status }) => ({ ...status, challenges }), guarded(options));
    const { httpPort, httpsPort } = deps.settings;
    const routers = valuesOf(deps.cell.hosts).map(({ address }) => ({ address, httpPort, httpsPort }));
    await untilShown(challenges, routers, { signal, log });
  };
  try {
    const made = await authority.order({ domains, challenge: acme.challenge, present, signal });
    const issued = checkCertificate({ ...made, domains, nowMs: now() });
    await resources.updateStatus(
      certificateType,
      id,
      ({ status }) => ({
        issued: { ...issued, notes: [] },
        issuedFor: [...domains],
        challenges: [],
        records: status.records,
      }),
      guarded(options),
    );
    log.info({ domains, notAfter: issued.notAfter, issuer: issued.issuer }, 'a certificate was issued');
  } finally {
    await withdraw(deps, { id, acme, records }, options);
  }
}

function challengeOf({ domain, token, value, alpn }: Proof): Challenge {
  return alpn === undefined
    ? { type: 'http-01', token, answer: value }
    : { type: 'tls-alpn-01', domain, certificate: alpn.certificate, privateKey: alpn.privateKey };
}

function recordOf({ domain, value }: Proof): DnsRecord {
  return { name: `_acme-challenge.${domain}`, value };
}

/** They are noted before there are any: whatever ends this, somebody knows what to clean up. */
async function presentRecords(
  { resources }: StepDeps,
  { id, acme: { hook }, records }: { id: string; acme: AcmeSpec; records: readonly DnsRecord[] },
  options: Options,
): Promise<void> {
  if (hook === undefined) throw new FlynnError('invalid', 'dns-01 needs a hook: set the authority again with one');
  await resources.updateStatus(
    certificateType,
    id,
    ({ status }) => ({ ...status, records: [...status.records, ...records].slice(-mostRecords) }),
    guarded(options),
  );
  const presented = await Promise.allSettled(records.map((one) => presentRecord(hook, one, options.signal)));
  const failed = presented.find((one) => one.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

/**
 * Cleans up `records`. What could not be cleaned up, as by who was told to stop or lost the seat, stays noted: whoever comes next
 * does so first. Never rejects.
 */
async function withdraw(
  { resources, log }: StepDeps,
  { id, acme: { hook }, records }: { id: string; acme: AcmeSpec; records: readonly DnsRecord[] },
  options: Options,
): Promise<void> {
  const { signal } = options;
  if (hook === undefined || records.length === 0 || signal.aborted) return;
  const gone = new Set<string>();
  const cleanUp = async (record: DnsRecord): Promise<void> => {
    try {
      await cleanUpRecord(hook, record, signal);
      gone.add(record.value);
    } catch (error) {
      log.warn({ err: error, record: record.name }, 'a DNS record was left behind: it is cleaned up with the next try');
    }
  };
  await Promise.all(records.map(cleanUp));
  try {
    await resources.updateStatus(
      certificateType,
      id,
      ({ status }) => ({ ...status, records: status.records.filter(({ value }) => !gone.has(value)) }),
      guarded(options),
    );
  } catch (error) {
    log.warn({ err: error }, 'DNS records that are gone could not be noted as that');
  }
}

async function fail(
  { resources, now, log }: StepDeps,
  { id, spec }: CertificateResource,
  error: unknown,
  options: Options,
): Promise<void> {
  const nowMs = now();
  const retryAfter = asFlynnError(error).detail['retryAfterMs'];
  const written = await resources.updateStatus(
    certificateType,
    id,
    ({ status }) => {
      const count = (status.failure?.count ?? 0) + 1;
      const retryAfterMs = typeof retryAfter === 'number' ? retryAfter : undefined;
      const next = nextTryMs({ count: count - 1, nowMs, retryAfterMs, random: options.random ?? Math.random });
      const at = new Date(nowMs).toISOString();
      const nextTryAt = new Date(next).toISOString();
      return { ...status, challenges: [], failure: { count, message: messageOf(error), at, nextTryAt } };
    },
    guarded(options),
  );
  const { failure } = written.status;
  log.warn({ err: error, domains: spec.domains, nextTryAt: failure?.nextTryAt }, 'no certificate could be had');
}

/** A worker that lost its seat writes nothing. */
function guarded({ signal, epoch }: Options) {
  return { signal, ...(epoch === undefined ? {} : { also: () => ({ compare: [epoch] }) }) };
}
